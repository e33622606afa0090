#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl elect and pawl leader: one leads at a time, and another when it resigns, is killed, or loses its hold; what a former leader has
# published is not shown. On local:, a Redis and a ZooKeeper.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"

# One that leads says so, with its token, and goes on until it is told to end.
lead='echo "$PAWL_TOKEN" >&3; exec sleep 120'

stands() { # NAME, OPTION...: stand for election, with a value if --value is among the options; hear() hears of it, and only of it
    local name=$1
    shift
    start "$name" "$PAWL" elect --lease 4 --label "$name" "$@" web -- sh -c "$lead" 2>"$scratch/said-$name"
}

says() { # NAME, TEXT: what it said so far
    grep -q -- "$2" "$scratch/said-$1"
}

is_lead_by() { # LINE: what pawl leader prints
    [ "$("$PAWL" leader web 2>/dev/null)" = "$1" ]
}

watched_last() { # LINE
    [ "$(tail -n 1 "$scratch/watched-$engine")" = "$1" ]
}

nobody_leads() {
    status_is 1 "$engine: $1, nobody leads" "$PAWL" leader web
    equal "... and nothing is printed" "" "$printed"
}

# ---- The same on all ----

resigns() {
    nobody_leads "before it began"
    "$PAWL" leader web --watch >"$scratch/watched-$engine" &
    watcher=$!
    pids+=("$watcher")
    check "... as who watches is told" eventually watched_last -
    stands "$engine-one" --value 'one:80 (north)'
    one=$started
    first=$(hear)
    equal "$engine: the first leads, with its value" "$first one:80 (north)" "$("$PAWL" leader web)"
    check "... as who watches is told" eventually watched_last "$first one:80 (north)"
    stands "$engine-two" --value two:80
    two=$started
    check "... and the second does not, but stands" eventually waits web 1
    kill -TERM "$one"
    ended "$one"
    equal "$engine: TERM ends the first, and its command" 143 "$status"
    second=$(hear)
    check "... and the second leads, in a later term" [ "$second" -gt "$first" ]
    check "... with its own value" eventually is_lead_by "$second two:80"
}

is_killed() {
    stands "$engine-three" # which publishes nothing
    three=$started
    check "$engine: a third stands" eventually waits web 1
    quit "$two"
    third=$(hear)
    check "... and leads when the leader is killed" [ "$third" -gt "$second" ]
    equal "... and the dead one's value is not shown as its own" "$third" "$("$PAWL" leader web)"
    check "... neither to who watches" eventually watched_last "$third"
}

is_deposed() {
    local heard_three=$heard
    stands "$engine-four" --value four:80
    four=$started
    check "$engine: a fourth stands" eventually waits web 1
    status_is 0 "... and the leader's hold is broken" "$PAWL" break web --now --token "$third"
    fourth=$(hear)
    check "... so that the fourth leads" [ "$fourth" -gt "$third" ]
    check "... and the one before says that it stands again" eventually says "$engine-three" "standing for election again"
    check "... and does so" eventually waits web 1
    kill -TERM "$four"
    ended "$four"
    heard=$heard_three
    again=$(hear)
    check "... and leads again, in a term of its own" [ "$again" -gt "$fourth" ]
    kill -TERM "$three"
    ended "$three"
    nobody_leads "after all have resigned"
    check "... as who watches is told" eventually watched_last -
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    equal "... who never saw a value that was not the leader's" "" \
        "$(grep -vxF -e - -e "$first" -e "$first one:80 (north)" -e "$second" -e "$second two:80" -e "$third" -e "$fourth" \
            -e "$fourth four:80" -e "$again" "$scratch/watched-$engine")"
}

# The server does not answer for a while.
is_cut_off() {
    start "$engine-cut" "$PAWL" elect --lease 4 --value cut:80 web -- \
        bash -c 'trap "echo asked >&3; exit 3" TERM; echo "$PAWL_TOKEN" >&3; for i in {1..1200}; do sleep 0.1; done' 2>"$scratch/said-cut"
    first=$(hear)
    kill -STOP "$server"
    equal "$engine: the server hangs, and the leader's command is asked to end" asked "$(hear)"
    check "... and pawl stands again" eventually says cut "standing for election again"
    kill -CONT "$server"
    again=$(hear)
    check "... and leads again when the server goes on" [ "$again" -gt "$first" ]
    check "... with its value" eventually is_lead_by "$again cut:80"
    kill -TERM "$started"
    equal "... until it resigns" asked "$(hear)"
    ended "$started"
    equal "... with the status of its command" 3 "$status"
}

# It stands still until its time is over, and its command ends meanwhile: that loss is of no concern to the next term.
is_stopped() {
    start "$engine-stopped" "$PAWL" elect --lease 4 web -- \
        bash -c 'trap "echo asked >&3; exit 3" TERM; echo "$PAWL_TOKEN" >&3; until [ -e "$1/enough" ]; do sleep 0.1; done' - "$scratch" \
        2>"$scratch/said-stopped"
    first=$(hear)
    kill -STOP "$started"
    touch "$scratch/enough"
    check "$engine: pawl is stopped until its time is over" eventually is_free web
    rm "$scratch/enough"
    kill -CONT "$started"
    again=$(hear)
    check "... and leads again" [ "$again" -gt "$first" ]
    check "... with a command" eventually is_lead_by "$again"
    kill -TERM "$started"
    equal "... that goes on until it is asked to end" asked "$(hear)"
    ended "$started"
    equal "... and was started once" 1 "$(grep -c "standing for election again" "$scratch/said-stopped")"
}

for engine in local redis zookeeper; do
    if [ $engine = local ] || "start_$engine"; then
        resigns
        is_killed
        is_deposed
        [ $engine = local ] || is_cut_off
        [ $engine = local ] || is_stopped
    else
        skip "$engine" "$missing"
    fi
done
export PAWL_URL=local:$scratch/locks

# ---- The command ----

status_is 7 "--once exits with the status of the command" "$PAWL" elect --once web -- sh -c 'exit 7'
status_is 137 "... or of what killed it" "$PAWL" elect --once web -- sh -c 'kill -9 $$'
status_is 127 "a command that is not there ends it all" "$PAWL" elect web -- /no/such/command
matches "... and says so" "pawl: cannot run '/no/such/command'*" "$said"
equal "the command finds its lock, and is exclusive" "web exclusive" \
    "$("$PAWL" elect --once web -c 'echo "$PAWL_LOCK $PAWL_MODE"')"

matches "the command can publish by itself" "[1-9]* late:80" \
    "$("$PAWL" elect --once web -c 'printf late:80 | "$PAWL" value set web && "$PAWL" leader web')"

start fails "$PAWL" elect web -- sh -c 'echo "$PAWL_TOKEN" >&3; exit 3' 2>"$scratch/said-fails"
first=$(hear)
check "a command that ends leads again" [ "$(hear)" -gt "$first" ]
check "... and pawl said how it ended, and when it stands again" says fails "ended with status 3; standing for election again in 1 s"
check "... and the second time, a pause that is longer" eventually says fails "again in 2 s"
kill -TERM "$started"
ended "$started"
equal "... and TERM ends the pause" 143 "$status"

start left "$PAWL" elect --once web -- sh -c 'sleep 120 & echo $! >&3'
left=$(hear)
ended "$started"
check "what a leader leaves behind does not go on" gone "$left"
check "... nor keep the lock" is_free web

start deaf "$PAWL" elect --grace 0.2 web -- bash -c 'trap "" TERM; sleep 120 & echo $$ $! >&3; wait; wait'
read -r _ grandchild <<<"$(hear)"
kill -TERM "$started"
ended "$started"
equal "a command that ignores TERM is killed after --grace" 137 "$status"
check "... with all that it started" gone "$grandchild"
check "... and the lock is free" is_free web

start reload "$PAWL" elect web -- bash -c 'trap "echo reloads >&3" HUP; echo runs >&3; for i in {1..1200}; do sleep 0.1; done'
hear >/dev/null
kill -HUP "$started"
equal "HUP is the command's" reloads "$(hear)"
kill -TERM "$started"
ended "$started"

start hangs-up "$PAWL" elect web -- sh -c 'echo runs >&3; exec sleep 120'
hear >/dev/null
kill -HUP "$started"
ended "$started"
equal "... and ends pawl, too, if it kills the command" 129 "$status"

for name in INT QUIT; do
    start "ends-by-$name" env --default-signal="$name" "$PAWL" elect web -- bash -c 'trap "exit 0" INT QUIT
        echo runs >&3; for i in {1..1200}; do sleep 0.1; done'
    hear >/dev/null
    kill -s "$name" "$started"
    ended "$started"
    equal "$name ends both, and the status is the command's" 0 "$status"
done

start leads "$PAWL" elect web -- sh -c "$lead"
token=$(hear)
timeout 60 "$PAWL" leader web --watch | head -n 1 >"$scratch/first-line"
equal "leader --watch ends with its reader" 0 "${PIPESTATUS[0]}"
equal "... which has read what is" "$token" "$(cat "$scratch/first-line")"
quit "$started"

start writer python3 -c 'import fcntl, os, signal, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
os.write(3, b"writes\n")
signal.pause()' "$scratch/locks/values/lock"
writer=$started
hear >/dev/null
start late "$PAWL" elect --value late:80 web -- sh -c "$lead" 2>"$scratch/said-late"
check "who can't write its value, since another process does not finish one, stands again" \
    eventually says late "standing for election again in 1 s"
quit "$writer"
token=$(hear)
equal "... and leads with it later" "$token late:80" "$("$PAWL" leader web)"
quit "$started"

# ---- Bad input ----

refused() { # STATUS, NAME, PATTERN, COMMAND...
    local wanted=$1 name=$2 pattern=$3
    shift 3
    status_is "$wanted" "$name" "$@"
    matches "... which is said" "pawl: $pattern" "$said"
}
refused 64 "elect without a lock" "which lock? pawl elect*" "$PAWL" elect -- true
refused 64 "elect without a command" "where does the command begin?*pawl elect web -- COMMAND" "$PAWL" elect web true
refused 64 "elect by two locks" "*'db' and 'web'*" "$PAWL" elect web db -- true
refused 64 "elect doesn't give up waiting" "unknown option '-n'*" "$PAWL" elect -n web -- true
refused 64 "leader without a lock" "whose leader?*" "$PAWL" leader
refused 64 "leader of two" "whose leader?*" "$PAWL" leader web db
refused 69 "a server that is not there" "*can't connect*" "$PAWL" elect -u redis://127.0.0.1:1 web -- true
refused 69 "... for leader, too" "*can't connect*" "$PAWL" leader -u redis://127.0.0.1:1 web
start readers "$PAWL" run -s web -- sh -c 'echo reads >&3; exec sleep 120'
hear >/dev/null
status_is 1 "who holds it shared does not lead" "$PAWL" leader web
refused 65 "... nor can anybody be elected meanwhile" "*another kind of lock*elected by a mutex" "$PAWL" elect web -- true
quit "$started"
if in_build redis && start_servers redlock; then
    refused 64 "redlock: has no elections" "redlock: has no elections*" "$PAWL" elect web -- true
    refused 64 "... and no leader" "redlock: *" "$PAWL" leader web
else
    skip "redlock: has no elections" "$missing"
fi

done_testing
