# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # what is set here is used there
# What the tests of the command share: TAP, a lock directory of their own, and waiting for things to happen. To be sourced.
#
# Nothing here sleeps and hopes: hear() reads a line that the other side writes when it is there; eventually() asks until it is so.

set -u
: "${PAWL:?the pawl command to test}"

scratch=$(mktemp -d)
export PAWL_URL=local:$scratch/locks
export TEST_SCRATCH=$scratch # by this finish() knows what the test has started
count=0
failures=0
pids=()

# The process and all below it: a subshell would go on with its next command.
kill_below() { # PID
    local children child
    read -ra children <"/proc/$1/task/$1/children"
    for child in "${children[@]}"; do
        kill_below "$child"
        kill -9 "$child"
    done
}

# End all that was started, however deep, also what has lost its parent. A signal that ends the test comes here, too.
finish() {
    local left
    exec 2>/dev/null
    kill -9 "${pids[@]}"
    kill_below $$
    for _ in {1..100}; do # some start others meanwhile
        left=$(env -u TEST_SCRATCH grep -lzFx "TEST_SCRATCH=$scratch" /proc/[0-9]*/environ)
        left=${left//[!0-9$'\n']/}
        [ "$left" ] || break
        # shellcheck disable=SC2086 # one word each
        kill -9 $left
    done
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT # else it would go on when what stands in front ends without a signal

# NAME, COMMAND...: fails when the command does.
check() {
    local name=$1
    shift
    count=$((count + 1))
    if "$@"; then
        echo "ok $count - $name"
    else
        failures=$((failures + 1))
        echo "not ok $count - $name"
    fi
}

# NAME, WANTED, GOT
equal() {
    if [ "$2" != "$3" ]; then
        printf '# wanted: %s\n#    got: %s\n' "${2//$'\n'/$'\n'#         }" "${3//$'\n'/$'\n'#         }"
    fi
    check "$1" [ "$2" = "$3" ]
}

# NAME, PATTERN (of case), GOT
matches() {
    # shellcheck disable=SC2053 # a pattern is what it is
    if [[ $3 == $2 ]]; then
        check "$1" true
    else
        printf '# wanted: %s\n#    got: %s\n' "$2" "${3//$'\n'/$'\n'#         }"
        check "$1" false
    fi
}

skip() { # NAME, REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

done_testing() {
    echo "1..$count"
    [ "$failures" -eq 0 ]
}

# STATUS, NAME, COMMAND...: the exit status is this, and stderr is at most one sentence of pawl's. Leaves it in $said.
status_is() {
    local wanted=$1 name=$2 got
    shift 2
    said=$("$@" 2>&1 >"$scratch/output" </dev/null)
    got=$?
    printed=$(cat "$scratch/output")
    [ -z "$said" ] || printf '# %s\n' "$said"
    equal "$name" "$wanted" "$got"
}

# COMMAND...: ask until it succeeds, half a minute at most.
eventually() {
    local deadline=$((SECONDS + 30))
    until "$@"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.02
    done
}

# Start in the background with $scratch/NAME to hear from it: NAME, COMMAND... Leaves its pid in $started.
start() {
    local name=$1
    shift
    mkfifo "$scratch/$name"
    "$@" 3<>"$scratch/$name" &
    started=$!
    pids+=("$started")
    # From now on the FIFO is open for this shell, also after the other side has closed it.
    exec {heard}<>"$scratch/$name"
}

# The next line that the last one started wrote to descriptor 3.
hear() {
    line=
    read -r -t 30 line <&"$heard"
    echo "$line"
}

# End what was started, at once, without a word from the shell.
quit() { # PID
    kill -9 "$1"
    wait "$1"
} 2>/dev/null

# The exit status of what was started, in $status.
ended() { # PID
    wait "$1"
    status=$?
} 2>/dev/null

gone() {
    local state
    # A zombie counts as gone: only its parent can tell.
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 0
    [ -z "$state" ] || [ "$state" = Z ]
}

is_free() { # LOCK
    "$PAWL" run -n "$1" -- true 2>/dev/null
}

is_held() {
    ! is_free "$1"
}

# FILTER, ARGUMENT...: of pawl status --json, a Python expression of `d`, the document, and `l`, its locks.
json() {
    local filter=$1
    shift
    "$PAWL" status --json "$@" | python3 -c '
import json, sys
document = json.load(sys.stdin)
print(eval(sys.argv[1], {"d": document, "l": document["locks"]}))' "$filter"
}

# How many wait for the lock?
waiters() {
    "$PAWL" status --json "$1" | grep -o '"position":[1-9]' | wc -l
}

waits() { # LOCK, NUMBER
    [ "$(waiters "$1")" -eq "$2" ]
}
