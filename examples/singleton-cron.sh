#!/usr/bin/env bash
# The same line in the crontab of every machine, run by one of them: whoever claims the slot first. The claim is not
# given back on success, so that a machine whose clock is late finds the slot taken; after a failure it is, and another
# machine's next attempt may try.
#   */5 * * * *  HOLDFAST_URL=… HOLDFAST_TOKEN_FILE=… singleton-cron.sh report ./make-report
set -euo pipefail
name=${1:?name the task}
shift
slot=${SLOT:-$(date -u +%Y-%m-%dT%H:%M)}
export HOLDFAST_SESSION="cron-$name-$slot-$(hostname)-$$"

claimed=0
holdfast job claim "cron:$name:$slot" --owner "$(hostname)" --ttl 1h >/dev/null || claimed=$?
case $claimed in
  0) ;;
  4) echo "$name $slot: another machine has it" && exit 0 ;;
  *) exit "$claimed" ;; # no server, no token: cron tells somebody
esac
if "$@"; then
  echo "$name $slot: done"
else
  holdfast job release "cron:$name:$slot" --outcome failed
  exit 1
fi
