#!/usr/bin/env bash
# Deployments one at a time, whoever starts them and wherever. The lock is given back however the script ends; a
# machine that dies in the middle keeps it for two minutes at most.
#   HOLDFAST_URL=http://127.0.0.1:4280 HOLDFAST_TOKEN=… examples/deploy.sh production
set -euo pipefail
target=${1:?name what is to be deployed to}
export HOLDFAST_SESSION=${HOLDFAST_SESSION:-deploy-$$}

holdfast lock acquire --resource "repo:deploy-$target" --ttl 2m --wait 10m --reason "deploy by $(id -un)"
trap 'holdfast lock release --resource "repo:deploy-$target"' EXIT

for step in build upload switch; do
  holdfast lock renew --resource "repo:deploy-$target" --ttl 2m >/dev/null
  echo "$target: $step"
  sleep "${STEP_SECONDS:-1}"
done
echo "$target: deployed"
