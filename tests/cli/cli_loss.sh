#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl run when its lock is lost because the server does not answer: on a Redis and a ZooKeeper that are stopped (SIGSTOP) and go on
# later. The command is asked to end (TERM), and killed before the lease is over, with all that it started; the exit status is 76.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"

says() { # TEXT: what pawl itself said so far
    grep -q "$1" "$scratch/said"
}

silent() { # the last one started has nothing more to say
    ! read -r -t 0 <&"$heard"
}

lease=(--lease 4)

# ---- The same on both ----

loses_the_lock() { # ENGINE
    # Asked to end, and does.
    start "$1-term" "$PAWL" run "${lease[@]}" nightly -- \
        bash -c 'trap "echo asked >&3; exit 3" TERM; echo runs >&3; for i in {1..1200}; do sleep 0.1; done' 2>"$scratch/said"
    equal "$1: a command runs" runs "$(hear)"
    kill -STOP "$server"
    equal "$1: the server hangs, and the command is asked to end" asked "$(hear)"
    ended "$started"
    equal "... the exit status is that of a loss, not its own" 76 "$status"
    check "... and pawl says why" says "^pawl: .*nightly"
    kill -CONT "$server"
    check "... and when the server goes on, the lock is free" eventually is_free nightly

    # Does not want to hear, and has started others.
    start "$1-kill" "$PAWL" run "${lease[@]}" nightly -- \
        bash -c 'trap "" TERM; sleep 120 & echo $$ $! >&3; wait; wait; sleep 120' 2>"$scratch/said"
    read -r command grandchild <<<"$(hear)"
    kill -STOP "$server"
    ended "$started"
    equal "$1: one that ignores TERM is killed in time" 76 "$status"
    check "... it is gone" gone "$command"
    check "... and what it started" gone "$grandchild"
    kill -CONT "$server"
    check "... and the lock is free" eventually is_free nightly

    # Is not even asked.
    start "$1-at-once" "$PAWL" run "${lease[@]}" --on-lost kill nightly -- \
        bash -c 'trap "echo asked >&3" TERM; echo $$ >&3; for i in {1..1200}; do sleep 0.1; done' 2>"$scratch/said"
    command=$(hear)
    kill -STOP "$server"
    ended "$started"
    equal "$1: --on-lost=kill" 76 "$status"
    check "... it is gone" gone "$command"
    check "... without having been asked" silent
    kill -CONT "$server"
    check "... and the lock is free" eventually is_free nightly

    # Goes on, and pawl tells in the end.
    mkfifo "$scratch/$1-go"
    start "$1-ignore" "$PAWL" run "${lease[@]}" --on-lost ignore nightly -- \
        bash -c 'echo runs >&3; read -r _ <"$1"; echo done >&3' bash "$scratch/$1-go" 2>"$scratch/said"
    equal "$1: --on-lost=ignore" runs "$(hear)"
    kill -STOP "$server"
    check "... says that it goes on" eventually says "goes on, as --on-lost=ignore says"
    kill -CONT "$server"
    check "... while others get the lock" eventually is_free nightly
    echo go >"$scratch/$1-go"
    equal "... comes to its end" "done" "$(hear)"
    ended "$started"
    equal "... and has the status of a loss" 76 "$status"
}

for engine in redis zookeeper; do
    if "start_$engine"; then
        loses_the_lock "$engine"
    else
        skip "$engine" "$missing"
    fi
done

done_testing
