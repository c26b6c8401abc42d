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
said=$(holdfast job claim "cron:$name:$slot" --owner "$(hostname)" --ttl 1h 2>&1) || claimed=$?
case $claimed in
  0) ;;
  4) exit 0 ;; # another machine has it, as is usual: cron must not write a mail about that
  *) echo "$said" >&2 && exit "$claimed" ;; # no server, no token: cron tells somebody
esac
if "$@"; then
  echo "$name $slot: done"
else
  holdfast job release "cron:$name:$slot" --outcome failed
  exit 1
fi
