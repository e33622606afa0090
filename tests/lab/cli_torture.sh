#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl torture: the command line, seeds, histories.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
unset PAWL_URL

t() {
    "$PAWL" torture "$@"
}

status_is 0 'help' t --help
matches 'help names the services' '*--start SERVICE*local*' "$printed"
status_is 64 'an unknown fault' t --faults earthquake
matches 'is named' "*no fault 'earthquake'*" "$said"
status_is 64 'a fault of servers on a place that was given' t -u "local:$scratch/x" --faults corruption
matches 'says to start them' '*--start*' "$said"
status_is 64 'a fault that the engine does not have' t --faults failover
status_is 64 'both a place and a service' t -u local: --start local
status_is 64 'an unknown service' t --start moon
status_is 64 'no clients' t --clients 0
status_is 64 'no time' t --time 0
status_is 64 'kinds' t --kinds mutex,spoon
status_is 64 'an argument' t nightly
status_is 74 'a history that can not be read' t --check "$scratch/none"
status_is 74 'a history that can not be written' t --time 1s -o "$scratch/no/such"

one=$(t --schedule --seed 7 --time 1m)
equal 'the same seed gives the same schedule' "$one" "$(t --schedule --seed 7 --time 1m)"
check 'another seed another one' [ "$one" != "$(t --schedule --seed 8 --time 1m)" ]

echo '0 rig version 1' >"$scratch/short"
status_is 65 'a history without an end' t --check "$scratch/short"
matches 'is told' '*VIOLATION*no end*' "$printed"

status_is 0 'a place that was given' t -u "local:$scratch/locks" --time 2s --faults client-kill --clients 3 -o "$scratch/history"
matches 'verdict' '*every check held*' "$printed"
# A history with one token twice is not a good one.
awk '$3 == "got" && $4 == 0 && !done { token = $5; done = 1; print; next } $3 == "got" && $4 == 0 { $5 = token } { print }' \
    "$scratch/history" >"$scratch/forged"
status_is 65 'a forged history' t --check "$scratch/forged"
matches 'is found out' '*VIOLATION*token*' "$printed"

# A signal ends it, with everything that it started.
mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp "$PAWL" torture --time 60s -o "$scratch/h" >/dev/null 2>&1 &
started=$!
pids+=("$started")
eventually grep -qs got "$scratch/h"
kill -TERM "$started"
ended "$started"
equal 'ended by SIGTERM' 143 "$status"
equal 'nothing is left' '' "$(ls "$scratch/tmp")"

done_testing
