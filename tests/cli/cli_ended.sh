#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a test of the command has started ends with it, also when a signal ends it, in the middle of anything, and however deep that is.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

# A test that leaves a child of a shell that it has ended, one of a shell that goes on, and does something itself.
cat >"$scratch/ended" <<'EOF'
. "$SOURCE_DIR/tests/cli/cli_common.sh"
echo "$scratch" >&4
start orphan bash -c '"$PAWL" value watch x >&3 & echo $$ $! >&3; wait'
read -r shell left <<<"$(hear)"
quit "$shell"
start below bash -c 'sleep 1234 & echo $! >&3; wait; echo on >>"$1"; sleep 1234' - "$1"
echo "$left $(hear)" >&4
case $2 in
waits) wait "$started" ;;
hears) hear ;;
runs) sleep 1234 ;;
asks) echo "$(sleep 1234 | cat; echo on >>"$1"; sleep 1234)" ;;
ends) exit 0 ;;
esac
EOF
export SOURCE_DIR

all_gone() { # PID...
    local pid
    for pid in "$@"; do
        gone "$pid" || return 1
    done
}

ends() { # HOW, SIGNAL or nothing, STATUS
    local name="$1${2:+, by a SIG$2}" directory left
    mkfifo "$scratch/said-$1-$2"
    exec {said}<>"$scratch/said-$1-$2"
    env -u TEST_SCRATCH --default-signal=INT bash "$scratch/ended" "$scratch/went-on" "$1" 4>&"$said" >/dev/null 2>&1 {said}>&- &
    started=$!
    pids+=("$started")
    read -r -t 30 directory <&"$said"
    read -r -t 30 -a left <&"$said"
    equal "$name: it runs" 2 "${#left[@]}"
    [ -z "$2" ] || kill -s "$2" "$started"
    ended "$started"
    equal "... it ends" "$3" "$status"
    check "... and all that it has started" eventually all_gone "${left[@]}"
    check "... nor is there anything left of its files" [ ! -e "$directory" ]
}

for signal in TERM INT HUP; do
    ends waits $signal $((128 + $(kill -l $signal)))
    ends hears $signal $((128 + $(kill -l $signal)))
done
ends runs TERM 143
ends asks TERM 143
ends ends "" 0
check "no shell of theirs went on with what comes next" [ ! -e "$scratch/went-on" ]

done_testing
