#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a command leaves behind that has left its process group (setsid), and keeps the lock: --max-hold, break, and losses reach it, too.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

token_of() { # LOCK
    "$PAWL" status --json "$1" | sed 's/.*"token":"\([0-9]*\)".*/\1/'
}

# Leaves a process of a session of its own, which says its pid; the command itself ends.
leaves='setsid sh -c "echo \$\$ >&3; exec sleep 120" & read -r _ <"$1"'
mkfifo "$scratch/go"

leave() { # NAME, OPTION...: a command that has ended. What it left is $left; $keeper was between it and pawl
    local name=$1
    shift
    start "$name" "$PAWL" run "$@" "$name" -- sh -c "$leaves" sh "$scratch/go"
    left=$(hear)
    keeper=$(ps -o pid= --ppid "$started" | tr -d ' ')
    echo go >"$scratch/go"
    ended "$started"
}

# ---- --max-hold ----

leave timed --max-hold 1.5
equal "the command ends, and so does pawl" 0 "$status"
check "what it left keeps the lock" is_held timed
check "... until --max-hold is over" eventually is_free timed
check "... which has ended it" gone "$left"

leave stubborn --max-hold 1.5 --grace 0.3
kill -STOP "$left"
check "one that can't hear of TERM is killed after its grace" eventually gone "$left"
check "... and the lock is free" eventually is_free stubborn

leave early --max-hold 60
check "what it left keeps the lock" is_held early
kill -9 "$left"
check "one that ends earlier frees the lock at once" eventually is_free early
check "... and nobody of pawl's is left to wait for it" eventually gone "$keeper"

leave ignored --max-hold 60 --on-lost ignore
check "where nothing may end it, it does not keep the lock" is_free ignored
check "... and lives" kill -0 "$left"
kill -9 "$left"

# ---- break ----

leave broken
check "what it left keeps the lock" is_held broken
status_is 65 "nobody is there who could be asked to give up" "$PAWL" break broken --token "$(token_of broken)"
matches "... which is said, and who has it" "pawl: *broken*left behind*pid $left*--now*" "$said"
equal "... in one line" 1 "$(wc -l <<<"$said")"
check "... nothing has changed" is_held broken
matches "... and nobody is shown as asked" "*holds, pid gone*" "$("$PAWL" status broken)"
status_is 0 "--now needs nobody" "$PAWL" break broken --now --token "$(token_of broken)"
check "... and frees it" is_free broken
check "... over the head of what holds it" kill -0 "$left"
kill -9 "$left"

# ---- While the command runs ----

for how in break max-hold; do
    options=()
    [ "$how" = break ] || options=(--max-hold 1)
    start "runs-$how" "$PAWL" run "${options[@]}" "runs-$how" -- \
        sh -c 'setsid sh -c "echo \$\$ >&3; exec sleep 120" & exec sleep 120' 2>/dev/null
    left=$(hear)
    [ "$how" = max-hold ] || "$PAWL" break "runs-$how" --token "$(token_of "runs-$how")" >/dev/null
    ended "$started"
    equal "$how: the command is ended" 76 "$status"
    check "... and what it left, which kept the lock" gone "$left"
    check "... and the lock is free" is_free "runs-$how"
done

start own "$PAWL" run -o --max-hold 1 own -- sh -c 'setsid sh -c "echo \$\$ >&3; exec sleep 120" & exec sleep 120' 2>/dev/null
left=$(hear)
ended "$started"
equal "with -o the command is ended" 76 "$status"
check "... and not what does not keep the lock" kill -0 "$left"
kill -9 "$left"

done_testing
