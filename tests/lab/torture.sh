#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A short torture of one kind of service, with a seed that is always the same, as TAP: torture.sh SERVICE SEED TIME [OPTION...]
set -u
: "${PAWL:?the pawl command to test}"

service=$1 seed=$2 time=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

case $service in
redis* | sentinel | cluster | redlock) needs=redis-server ;;
zookeeper*) needs=java ;;
*) needs=true ;;
esac
if ! command -v "$needs" >/dev/null; then
    echo "1..1"
    echo "ok 1 - torture of $service # SKIP there is no $needs"
    exit 0
fi

"$PAWL" torture --start "$service" --seed "$seed" --time "$time" -o "$scratch/history" "$@" >"$scratch/output" 2>&1
status=$?
sed 's/^/# /' "$scratch/output"
# tools/run-tests knows the words: what was too slow may be tried again, this may not.
if grep -Eq '^VIOLATION  (exclusion|permits|token|store|reentry|told|try|value|crash):' "$scratch/output"; then echo "# LOCK VIOLATED"; fi
echo "1..2"
if [ $status -eq 0 ]; then echo "ok 1 - torture of $service"; else echo "not ok 1 - torture of $service: exit status $status"; fi
# The history alone says the same.
"$PAWL" torture --check "$scratch/history" >"$scratch/again" 2>&1
if [ $? -eq $status ]; then echo "ok 2 - checked again"; else echo "not ok 2 - checked again"; fi
[ $status -eq 0 ]
