#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl run --once-per and --at-least: of many who come at once one runs, also when the winner is killed; what counts as run, and what is
# said of it. Periods are a hundred years long here, so that none ends during a test.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"

once=(--once-per 36500d)

says() { # TEXT: what pawl itself said so far
    grep -q -- "$1" "$scratch/said"
}

# ---- On every engine: many at once, and the winner is killed ----

# NAME, NUMBER: so many pawls want to run the command once, and each waits for its turn. The command tells who runs it, and ends when it
# may.
many() {
    local name=$1 i
    mkfifo "$scratch/$name" "$scratch/$name-end"
    exec {heard}<>"$scratch/$name" {end_it}<>"$scratch/$name-end"
    crowd=()
    for ((i = 0; i < $2; i++)); do
        "$PAWL" run -q "${once[@]}" --lease 4 "$name" -- \
            sh -c 'echo "${PAWL_HOLDER##*:}" >&3; read -r _ <&4' 3>&"$heard" 4<&"$end_it" &
        crowd+=($!)
    done
    pids+=("${crowd[@]}")
}

# NUMBER: all others wait; the one who runs succeeds; then how each of the crowd ended.
let_one_run() {
    check "... all others wait" eventually waits "$name" "$1"
    printf '\n%.0s' "${crowd[@]}" >&"$end_it" # who else runs, ends, too
    endings=
    for one in "${crowd[@]}"; do
        ended "$one"
        endings+=$([ "$one" = "$killed" ] || echo "$status ")
    done
    equal "... all end with 0" "" "${endings//0 /}"
    check "... and nobody else ran" bash -c '! read -r -t 0 <&"$1"' bash "$heard"
}

once_among() { # ENGINE, NUMBER
    local name=$1-crowd killed=0
    many "$name" "$2"
    check "$1: one of $2 runs" [ "$(hear)" -gt 0 ]
    let_one_run $(($2 - 1))
    status_is 0 "... nor does who comes later" "$PAWL" run "${once[@]}" "$name" -- touch "$scratch/late"
    matches "... and is told who ran" "pawl: '$name' was run in this period already: sh by *:*, begun *, took *; the next*" "$said"
    check "... it did not run" [ ! -e "$scratch/late" ]

    name=$1-killed
    many "$name" "$2"
    killed=$(hear)
    check "$1: one of $2 runs, while all others wait" eventually waits "$name" $(($2 - 1))
    quit "$killed"
    next=$(hear)
    check "... it is killed, and another one runs" [ "$next" -gt 0 -a "$next" != "$killed" ]
    let_one_run $(($2 - 2))
}

# ---- What counts, and what is said: on local ----

once_among local 8

runs() { # OPTION...: does it run?
    rm -f "$scratch/ran"
    "$PAWL" run "${once[@]}" "$@" -- touch "$scratch/ran" 2>"$scratch/said" </dev/null
    status=$?
    [ -e "$scratch/ran" ]
}
does_not_run() {
    ! runs "$@"
}

status_is 3 "a run that fails" "$PAWL" run "${once[@]}" fails -- sh -c 'exit 3'
status_is 137 "... or is killed" "$PAWL" run "${once[@]}" fails -- sh -c 'kill -9 $$'
status_is 127 "... or can't be started" "$PAWL" run "${once[@]}" fails -- "$scratch/missing"
check "... does not count" runs fails
equal "... the next one does" 0 "$status"
check "... so the one after it is skipped" does_not_run fails
equal "... with 0" 0 "$status"
check "... also by another period" does_not_run --once-per 30000d fails
check "--skip-exit-code" does_not_run --skip-exit-code 9 fails
equal "... is what it exits with" 9 "$status"
check "... and says why" says "was run in this period already: touch by .*:[0-9]*, begun 2"
check "-q" does_not_run -q fails
equal "... says nothing" "" "$(cat "$scratch/said")"
check "without --once-per it runs, and the note is as it was" "$PAWL" run fails -- true
check "a short period runs it again" "$PAWL" run --once-per 1ms fails -- true
check "the exclusive side of a read-write lock" runs -x rw
check "... has a note, too" does_not_run -x rw

mkfifo "$scratch/busy-end"
start holder "$PAWL" run "${once[@]}" busy -- sh -c 'echo >&3; read -r _ <"$1"' sh "$scratch/busy-end"
holder=$started
hear >/dev/null
status_is 75 "-n while another runs it" "$PAWL" run -n "${once[@]}" busy -- true
status_is 75 "-w, too short" "$PAWL" run -w 0.01 "${once[@]}" busy -- true
start waiter "$PAWL" run -q "${once[@]}" busy -- sh -c 'echo ran >&3'
check "without either it waits" eventually waits busy 1
echo >"$scratch/busy-end"
ended "$holder"
ended "$started"
equal "... and is skipped" 0 "$status"
check "... it did not run" bash -c '! read -r -t 0 <&"$1"' bash "$heard"
status_is 0 "-n when it was run" "$PAWL" run -n "${once[@]}" busy -- false

# ---- A hold that is lost ----

taken_away() { # LOCK, TOKEN
    "$PAWL" break "$1" --now --token "$2" >/dev/null
}

loses_the_hold() { # ENGINE, OPTION...
    local name=$1
    shift
    start "lost-$name-$#" "$PAWL" run "${once[@]}" "$@" "lost-$name" -- \
        bash -c 'trap "exit 0" TERM; echo "$PAWL_TOKEN" >&3; while [ ! -e "$1" ]; do sleep 0.05; done' bash "$scratch/end-$name" \
        2>"$scratch/said"
    token=$(hear)
    check "$name: a hold is taken away${*:+ ($*)}" taken_away "lost-$name" "$token"
    check "... of which it hears" eventually says broken
    touch "$scratch/end-$name"
    ended "$started"
    rm "$scratch/end-$name"
    equal "... and though its command ends with 0, it exits with 76" 76 "$status"
}
# Its pawl is stopped, and finds both at once when it goes on: that the command ended well, and that the hold is gone.
loses_it_unheard() { # ENGINE
    mkfifo "$scratch/end-$1"
    start "unheard-$1" "$PAWL" run "${once[@]}" "lost-$1" -- \
        sh -c 'echo "$PAWL_TOKEN" $$ >&3; read -r _ <"$1"' sh "$scratch/end-$1" 2>"$scratch/said"
    read -r token command <<<"$(hear)"
    kill -STOP "$started"
    check "$1: a hold is taken away from one that is stopped" taken_away "lost-$1" "$token"
    echo >"$scratch/end-$1"
    check "... whose command ends" eventually gone "$command"
    kill -CONT "$started"
    ended "$started"
    equal "... and it exits with 76" 76 "$status"
}
loses_on() { # ENGINE
    loses_the_hold "$1"
    loses_the_hold "$1" --on-lost ignore
    loses_it_unheard "$1"
    check "$1: none of these runs counts" runs "lost-$1"
    check "... the next one does" does_not_run "lost-$1"
}
loses_on local

# ---- --at-least ----

start short "$PAWL" run --at-least 0.05 short -- true
ended "$started"
equal "--at-least ends by itself" 0 "$status"

# NAME, OPTION...: the command has ended, and the lock is held.
lingers() {
    local name=$1
    shift
    : >"$scratch/said" # else what an earlier one said is read, and this one is killed too early
    "$PAWL" run -v --at-least 1d "$@" "$name" -- true 2>"$scratch/said" &
    started=$!
    pids+=("$started")
    check "$name: the lock is kept though the command has ended" eventually says "as --at-least says"
    check "... by nobody else to be had" is_held "$name"
}

lingers by-term "${once[@]}"
check "... the success is noted already" says "noted beside"
check "... so others need not wait" does_not_run by-term
kill -TERM "$started"
ended "$started"
equal "... TERM ends that, and the status is the command's" 0 "$status"
check "... and the lock is free" is_free by-term
lingers by-kill
quit "$started"
check "... killed while it keeps the lock on local, it keeps it no longer" eventually is_free by-kill
: >"$scratch/said"
(trap - INT EXIT && exec "$PAWL" run -v --at-least 1d by-int -- true) 2>"$scratch/said" &
started=$!
pids+=("$started")
check "by-int: one that may be interrupted" eventually says "as --at-least says"
kill -INT "$started"
ended "$started"
equal "... is, by INT, which the shell must see" 130 "$status"
check "... and the lock is free" is_free by-int
lingers by-break "${once[@]}"
check "... a break --now" taken_away by-break "$(json 'l[0]["holders"][0]["token"]' by-break)"
ended "$started"
equal "... ends it with 76" 76 "$status"
check "... but what is noted is noted" does_not_run by-break
start asked "$PAWL" run --at-least 1d asked -- sh -c 'trap "exit 4" TERM; echo >&3; while :; do sleep 0.05; done' 2>/dev/null
hear >/dev/null
kill -TERM "$started"
ended "$started"
equal "a command that was asked to end is not waited for any more" 4 "$status"
status_is 127 "nor one that could not be started" "$PAWL" run --at-least 1d x -- "$scratch/missing"

# ---- What does not go together ----

status_is 64 "no period" "$PAWL" run --once-per month x -- true
matches "... says what is one" "pawl: --once-per wants a period, such as 15m, 1h, 1d, or hour, day, week; not 'month'" "$said"
status_is 64 "a period of nothing" "$PAWL" run --once-per 0 x -- true
status_is 64 "two locks" "$PAWL" run "${once[@]}" x y -- true
matches "... says how to take them" "pawl: --once-per is about one lock: take the others inside, *" "$said"
status_is 64 "shared" "$PAWL" run "${once[@]}" -s x -- true
status_is 64 "permits" "$PAWL" run "${once[@]}" --permits 1/2 x -- true
status_is 64 "--utc alone" "$PAWL" run --utc x -- true
status_is 64 "--skip-exit-code alone" "$PAWL" run --skip-exit-code 1 x -- true
status_is 64 "--skip-exit-code 256" "$PAWL" run "${once[@]}" --skip-exit-code 256 x -- true
status_is 64 "--at-least above --max-hold" "$PAWL" run --at-least 2 --max-hold 1 x -- true
for word in hour day week; do
    status_is 0 "--once-per $word --utc" "$PAWL" run --once-per $word --utc "by-$word" -- true
done

# ---- On servers ----

if start_redis; then
    once_among redis 50
    loses_on redis

    note() { # TEXT
        redis-cli -p "$port" HSET "pawl:note:{noted}" value "$1" token 1 version 1 time 1 >/dev/null
    }
    ahead=$(($(date +%s) + 36501 * 86400))000
    note "pawl-once 1 granted=$ahead pid=7 host=db1 command=backup"
    check "a run that is noted for the far future does not count" runs noted
    check "... of which it warns" says "warning: the last run of 'noted' is noted for .*, which is .* ahead of the server's clock"
    check "... and notes its own" does_not_run noted
    note "pawl-once 1 granted=$(($(date +%s) + 3600))000 pid=7 host=db1 command=back up"
    check "one that is ahead by less than a period does" does_not_run noted
    check "... and it is told whose it was" says "already: back up by db1:7, begun"
    for other in "" "last=5" "pawl-once 1" "pawl-once" "pawl-once 1 granted=x pid=1 host=x command=y"; do
        note "$other"
        status_is 78 "a note of another use ('$other')" "$PAWL" run "${once[@]}" noted -- touch "$scratch/foreign"
        matches "... is told" "pawl: the note beside 'noted' is another program's, *" "$said"
    done
    note "pawl-once 2 at=5"
    status_is 78 "one of a later version" "$PAWL" run "${once[@]}" noted -- touch "$scratch/foreign"
    matches "... is told" "pawl: the note beside 'noted' was written by another version of pawl, in format 2: *" "$said"
    check "... and nothing was run" [ ! -e "$scratch/foreign" ]
    redis-cli -p "$port" SET "pawl:note:{typed}" x >/dev/null
    status_is 74 "a key of another type in the place of the note" "$PAWL" run "${once[@]}" typed -- true

    # The server is away when the command ends.
    hangs() { # NAME, LEASE
        start "$1" "$PAWL" run "${once[@]}" --lease "$2" "$1" -- sh -c 'kill -STOP "$1"' sh "$server" 2>"$scratch/said"
    }
    hangs comes-back 60
    check "a success can't be noted at a server that hangs" eventually says "is tried again"
    kill -CONT "$server"
    ended "$started"
    equal "... and is, when the server goes on" 0 "$status"
    check "... so it counts" does_not_run comes-back
    hangs too-late 2
    ended "$started"
    equal "it can't be noted as long as the hold stands" 76 "$status"
    check "... which is said" says "the command succeeded, but that may not be noted, so it may be run again in this period"
    kill -CONT "$server"
    check "... it is run again" runs too-late
    forgotten() { # LOCK
        [ "$(redis-cli -p "$port" DEL "$1")" = 1 ]
    }
    hangs lost-then 60
    check "an answer to the note is lost" eventually says "is tried again"
    kill -STOP "$started"
    kill -CONT "$server"
    check "... and then the hold" forgotten lost-then
    kill -CONT "$started"
    ended "$started"
    equal "... so that the next try is refused" 76 "$status"
    check "... which does not say that nothing was noted" says "the command succeeded, but that may not be noted, so it may be run again"
else
    skip "Redis" "$missing"
fi

if start_zookeeper; then
    once_among zookeeper 6
    loses_on zookeeper
else
    skip "ZooKeeper" "$missing"
fi

if in_build redis && start_servers redlock; then
    status_is 64 "Redlock has no notes" "$PAWL" run "${once[@]}" x -- true
    matches "... which is said" "pawl: --once-per notes the last run beside the lock, and redlock: has no place for that: *" "$said"
    status_is 0 "... but --at-least" "$PAWL" run --at-least 0.01 x -- true
else
    skip "Redlock" "$missing"
fi

done_testing
