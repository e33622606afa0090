#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Signals and violent ends: to pawl, to its keeper, to the command; while it waits and while it runs.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

# A shell script starts its background jobs with SIGINT and SIGQUIT ignored. Those in front are not.
frontal=(env --default-signal=INT --default-signal=QUIT)

children_of() { # PID
    ps -o pid= --ppid "$1" | tr -d ' '
}

# ---- Passed on to the command ----

for name in HUP INT QUIT TERM USR1 USR2 ALRM WINCH URG PWR RTMIN+3; do
    start "pass-$name" "${frontal[@]}" "$PAWL" run pass -- \
        bash -c 'trap "exit 7" '"$name"'; echo ready >&3; for i in {1..100}; do sleep 0.1; done'
    hear >/dev/null
    kill -s "$name" "$started"
    ended "$started"
    equal "$name reaches the command, whose status counts" 7 "$status"
done

start group "$PAWL" run group -- \
    bash -c 'trap "wait; exit 7" TERM; (trap "echo grandchild >&3; exit" TERM; echo ready >&3; sleep 60 & wait) & wait; wait'
hear >/dev/null
kill -TERM "$started"
equal "... and what it started" grandchild "$(hear)"
ended "$started"
equal "... and then it ends" 7 "$status"

# The look for leaks stops pawl by ptrace when it ends, and may wait for ever where a CONT comes in between.
start stopped env "ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0" "$PAWL" run stopped -- bash -c 'echo $$ >&3; exec sleep 60'
command=$(hear)
kill -STOP "$command"
kill -TERM "$started"
kill -CONT "$started"
ended "$started"
equal "CONT, too: a stopped command goes on, and hears of TERM" 143 "$status"

# ---- While it waits ----

start blocker "$PAWL" run busy -- sh -c 'echo held >&3; exec sleep 120'
blocker=$started
hear >/dev/null
for pair in TERM:143 INT:130 HUP:129 QUIT:131 USR1:138 ALRM:142; do
    start "wait-${pair%:*}" "${frontal[@]}" "$PAWL" run busy -- sh -c 'echo ran >&3'
    check "a second one waits" eventually waits busy 1
    kill -s "${pair%:*}" "$started"
    ended "$started"
    equal "${pair%:*} ends the wait" "${pair#*:}" "$status"
    check "... and leaves nothing in the queue" waits busy 0
done
start nohup nohup "$PAWL" run -w 60 busy -- sh -c 'echo ran >&3; kill -HUP $$; echo lived >&3' 2>/dev/null
check "one that ignores HUP waits" eventually waits busy 1
kill -HUP "$started"
kill -WINCH "$started"
check "HUP does not end its wait" waits busy 1
quit "$blocker"
equal "... and then it runs" ran "$(hear)"
equal "... its command being as immune" lived "$(hear)"
ended "$started"

# ---- kill -9 of pawl ----

tree='sleep 120 & echo $$ $! >&3; wait'
start kill "$PAWL" run kill -- sh -c "$tree"
read -r command grandchild <<<"$(hear)"
quit "$started"
check "kill -9 of pawl takes the command along" eventually gone "$command"
check "... and what it started" eventually gone "$grandchild"
check "... and the lock is free" eventually is_free kill

# A command that the keeper may not kill, such as sudo: root's, started by another user. It has not even inherited anything (-o).
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
place=$(mktemp -d /tmp/pawl-test-XXXXXX)
chmod 755 "$place"
mkdir -m 777 "$place/locks"
immune() {
    cp "$(command -v setpriv)" "$place/become" && chmod u+s "$place/become"
    export PAWL_URL=local:$place/locks
    start immune "${nobody[@]}" "$PAWL" run -o window -- "$place/become" --reuid 0 sh -c 'echo $$ >&3; exec sleep 120' 2>/dev/null
    command=$(hear)
    quit "$started"
    check "a command that the keeper cannot kill" kill -0 "$command"
    check "... has the lock as long as it runs" is_held window
    kill -9 "$command"
    check "... and no longer" eventually is_free window
    export PAWL_URL=local:$scratch/locks
}
if [ "$(id -u)" -ne 0 ]; then
    skip "a command that the keeper cannot kill" "needs root"
elif findmnt -n -o OPTIONS -T "$place" | grep -qw nosuid; then
    skip "a command that the keeper cannot kill" "no setuid programs on /tmp"
elif ! "${nobody[@]}" "$PAWL" --version >/dev/null 2>&1; then
    skip "a command that the keeper cannot kill" "other users cannot run $PAWL"
else
    immune
fi
rm -rf "$place"

start daemon "$PAWL" run daemon -- sh -c 'setsid sh -c "echo \$\$ >&3; exec sleep 120" & wait'
escaped=$(hear)
quit "$started"
check "what left by setsid lives on" kill -0 "$escaped"
check "... and keeps the lock" is_held daemon
kill -9 "$escaped"
check "... until it ends" eventually is_free daemon

# ---- kill -9 of the keeper, and of both ----

start keeper "$PAWL" run keeper -- sh -c "$tree" 2>"$scratch/said"
read -r command grandchild <<<"$(hear)"
kill -9 "$(children_of "$started")"
ended "$started"
equal "kill -9 of the keeper ends pawl" 70 "$status"
matches "... which says why" "pawl: *kill*" "$(cat "$scratch/said")"
check "... after the command" gone "$command"
check "... and what it started" eventually gone "$grandchild"
check "... and the lock is free" is_free keeper

# pawl is stopped meanwhile, so that it can't do the keeper's work.
start both "$PAWL" run both -- sh -c "$tree"
read -r command grandchild <<<"$(hear)"
kill -STOP "$started"
kill -9 "$(children_of "$started")"
check "kill -9 of both: the command dies with the keeper" eventually gone "$command"
quit "$started"
check "... what it started lives" kill -0 "$grandchild"
check "... and keeps the lock" is_held both
kill -9 "$grandchild"
check "... until it ends" eventually is_free both

start name "$PAWL" run name -- sh -c 'echo $$ >&3; exec sleep 120'
command=$(hear)
keeper=$(children_of "$started")
equal "the keeper is not called pawl" keeper "$(cat "/proc/$keeper/comm")"
equal "... nor has its arguments" keeper "$(tr -d '\0' <"/proc/$keeper/cmdline")"
quit "$started"

# ---- What the command leaves behind ----

start left "$PAWL" run left -- sh -c 'sleep 120 & echo $! >&3'
behind=$(hear)
ended "$started"
equal "pawl ends with the command" 0 "$status"
check "what the command left behind lives" kill -0 "$behind"
check "... and keeps the lock" is_held left
matches "... as pawl status shows" "*holds, pid gone*" "$("$PAWL" status left)"
kill -9 "$behind"
check "... until it ends" eventually is_free left

start open "$PAWL" run -o open -- sh -c 'sleep 120 & echo $! >&3'
behind=$(hear)
ended "$started"
check "with -o it lives, too" kill -0 "$behind"
check "... but does not keep the lock" is_free open
kill -9 "$behind"

# ---- Loss ----

token_of() { # LOCK
    "$PAWL" status --json "$1" | sed 's/.*"token":"\([0-9]*\)".*/\1/'
}

break_it() { # LOCK
    "$PAWL" break "$1" --token "$(token_of "$1")" >/dev/null
}

busy='echo ready >&3; for i in {1..600}; do sleep 0.1; done'
start polite "$PAWL" run polite -- bash -c 'trap "exit 0" TERM;'"$busy" 2>"$scratch/said"
hear >/dev/null
break_it polite
ended "$started"
equal "never 0 after a loss, also if the command ends with 0" 76 "$status"
matches "... and says why" "pawl: *polite*" "$(cat "$scratch/said")"
equal "... once" 1 "$(grep -c ^pawl: "$scratch/said")"
check "... and the lock is free" is_free polite

start stubborn "$PAWL" run --grace 0.3 stubborn -- sh -c 'trap "" TERM; sleep 120 & echo $$ $! >&3; wait; wait' 2>/dev/null
read -r command grandchild <<<"$(hear)"
break_it stubborn
ended "$started"
equal "one that does not end is killed after its grace" 76 "$status"
check "... with what it started" gone "$grandchild"
check "... and the lock is free" is_free stubborn

start orphan "$PAWL" run orphan -- sh -c '(trap "" TERM; echo ready >&3; sleep 120; sleep 120) & echo $! >&3; wait' 2>/dev/null
first=$(hear)
second=$(hear)
grandchild=${first/ready/$second}
break_it orphan
ended "$started"
equal "the command ends by TERM, but not what it started" 76 "$status"
check "... which is killed before the lock is given up" gone "$grandchild"

start harsh "$PAWL" run --on-lost=kill harsh -- bash -c 'trap "exit 0" TERM;'"$busy" 2>/dev/null
hear >/dev/null
break_it harsh
ended "$started"
equal "--on-lost=kill" 76 "$status"

start calm "$PAWL" run --on-lost=ignore calm -- bash -c 'trap "exit 3" USR1;'"$busy" 2>"$scratch/said"
hear >/dev/null
break_it calm
check "--on-lost=ignore: the command goes on" eventually grep -q ignore "$scratch/said"
check "... and is still in the way" is_held calm
kill -USR1 "$started"
ended "$started"
equal "... but pawl does not hide the loss" 76 "$status"

start waiting "$PAWL" run --max-hold 0.2 brief -- sh -c 'echo ready >&3; exec sleep 120' 2>"$scratch/said"
hear >/dev/null
ended "$started"
equal "--max-hold ends the command" 76 "$status"
matches "... and says so" "pawl: *--max-hold*" "$(cat "$scratch/said")"
status_is 0 "--max-hold that is not reached" "$PAWL" run --max-hold 60 brief -- true

start released "$PAWL" run --max-hold 0.1 --on-lost=ignore brief -- sh -c 'echo ready >&3; exec sleep 120' 2>/dev/null
hear >/dev/null
check "--max-hold and --on-lost=ignore: the lock is given back" eventually is_free brief
check "... and the command goes on" kill -0 "$started"
kill -TERM "$started"
ended "$started"
equal "... and pawl does not hide it" 76 "$status"

# ---- As process 1, which inherits every orphan ----

# Each leaves a child behind that ends after it. An orphan that has ended, and that nobody has asked about, is a zombie.
orphans='for i in 1 2 3 4 5; do (sh -c "sleep 0.05" & ); done'
no_zombies='for i in $(seq 300); do ps -eo ppid=,stat= | grep -q "^ *1 Z" || exit 0; sleep 0.1; done; ps -eo pid,ppid,stat,comm; exit 9'
first() { # COMMAND...: as the first process of a namespace
    unshare --pid --fork --mount-proc "$@"
}
if [ "$(id -u)" -ne 0 ] || ! first true 2>/dev/null; then
    skip "as process 1" "needs root, and PID namespaces"
else
    status_is 0 "as process 1 it reaps orphans" first "$PAWL" run x -- sh -c "$orphans; sleep 0.2; $no_zombies"
    status_is 3 "... and still knows its command's status" first "$PAWL" run x -- sh -c "$orphans; sleep 0.2; exit 3"
    start busy1 "$PAWL" run busy1 -- sh -c 'echo held >&3; exec sleep 120'
    blocker=$started
    hear >/dev/null
    # The one that waits is process 1; a process that joins its namespace leaves it orphans.
    start waiting1 unshare --pid --fork --mount-proc "$PAWL" run busy1 -- sh -c 'echo ran >&3'
    check "as process 1 it waits" eventually waits busy1 1
    inside=$(children_of "$started")
    nsenter --target "$inside" --pid --mount sh -c "$orphans; sleep 0.2"
    check "... and reaps orphans" nsenter --target "$inside" --pid --mount sh -c "$no_zombies"
    quit "$blocker"
    equal "... and then runs" ran "$(hear)"
    ended "$started"
fi

done_testing
