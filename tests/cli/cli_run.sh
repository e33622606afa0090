#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl run when all goes well: what the command sees, what it is protected from, and what passes through.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

# What the command sees.
printed=$("$PAWL" run nightly -- sh -c 'echo "$PAWL_LOCK|$PAWL_MODE|$PAWL_TOKEN"')
matches "lock, mode and token are in the environment" "nightly|exclusive|[1-9]*" "$printed"
printed=$(PAWL_LOCK=old PAWL_TOKEN=old PAWL_MODE=old PAWL_HOLDER=old \
    "$PAWL" run -s shared -- sh -c 'echo "$PAWL_LOCK|$PAWL_MODE|$PAWL_HOLDER"')
matches "... in place of what was there" "shared|shared|$(uname -n):[0-9]*" "$printed"
agents='"$0" run inner -- "$0" status --json | tr "{" "\n" | grep -o "\"agent.*around[^,]*"; echo "$PAWL_AGENT"'
printed=$("$PAWL" run outer -- sh -c "$agents" "$PAWL")
matches "the agent is in the environment, and around what runs inside" \
    '"agent":"????????????????","around":"????????????????"*"agent":"????????????????","around":null*' "$printed"
check "... by its number" grep -q "around\":\"${printed##*$'\n'}\"" <<<"$printed"
printed=$("$PAWL" run -u "local:$scratch/else%20where?keep=5" x -- sh -c 'echo "$PAWL_URL"')
equal "the URL of -u is in the environment" "local:$scratch/else%20where?keep=5" "$printed"
if [ "$(id -u)" -ne 0 ]; then
    printed=$(unset PAWL_URL && XDG_STATE_HOME="$scratch/my%state" "$PAWL" run x -- sh -c 'echo "$PAWL_URL"')
    equal "... and what a bare local: means, as a URL has it" "local:$scratch/my%25state/pawl" "$printed"
fi
printed=$("$PAWL" run --permits 2/3 permits -- sh -c 'echo "$PAWL_MODE"')
equal "... for permits, too" permits "$printed"
printed=$("$PAWL" run 'z last' 'a first' -- sh -c 'printf "%s/" "$PAWL_LOCK"; set -- $PAWL_TOKEN; echo $#')
equal "several locks: names on lines, in order; as many tokens" $'a first\nz last/2' "$printed"
first=$("$PAWL" run rising -- sh -c 'echo $PAWL_TOKEN')
second=$("$PAWL" run rising -- sh -c 'echo $PAWL_TOKEN')
check "the token rises" [ "$second" -gt "$first" ]
printed=$("$PAWL" run x -- sh -c 'echo "$0" "$#" "$@"' zero one 'two words' -- -n)
equal "arguments pass as they are" "zero 4 one two words -- -n" "$printed"
printed=$(SHELL=/bin/sh "$PAWL" run x -c 'echo "$0"; exit 4')
equal "-c runs by the shell" "/bin/sh 4" "$printed $?"
printed=$(SHELL='' "$PAWL" run -c 'echo "$0"' x)
equal "... anywhere before the lock, and /bin/sh if there is no other" /bin/sh "$printed"

# What passes through.
equal "stdin and stdout" "hello" "$(echo hello | "$PAWL" run x -- cat)"
equal "stderr" "hello" "$("$PAWL" run x -- sh -c 'echo hello >&2' 2>&1 >/dev/null)"
"$PAWL" run x -- yes | head -n 1 >/dev/null
equal "a pipe nobody reads any more" 141 "${PIPESTATUS[0]}"
equal "another descriptor" "hello" "$("$PAWL" run x -- sh -c 'cat <&9' 9<<<hello)"
equal "the directory" "$scratch" "$(cd "$scratch" && "$PAWL" run x -- pwd)"
outside=$(grep -E 'Sig(Blk|Ign)' /proc/self/status)
equal "the signal mask, and what is ignored" "$outside" "$("$PAWL" run x -- grep -E 'Sig(Blk|Ign)' /proc/self/status)"
outside=$(trap '' HUP CHLD USR1 && grep -E 'Sig(Blk|Ign)' /proc/self/status)
equal "... when that is more than usual" "$outside" \
    "$(trap '' HUP CHLD USR1 && "$PAWL" run x -- grep -E 'Sig(Blk|Ign)' /proc/self/status)"
outside=$(find /proc/self/fd -maxdepth 1 -type l | wc -l)
equal "with -o the command inherits no descriptor of pawl's" "$outside" \
    "$("$PAWL" run -o x -- find /proc/self/fd -maxdepth 1 -type l | wc -l)"
equal "no process of pawl's is left" "" "$(pgrep -P $$ -x "pawl|keeper")"

# What the command is protected from.
start first "$PAWL" run turn -- sh -c 'echo 1 >&3; sleep 60'
holder=$started
hear >/dev/null
start second "$PAWL" run turn -- sh -c 'echo 2 >&3'
check "the second waits" eventually waits turn 1
start third "$PAWL" run turn -- sh -c 'echo 3 >&3'
check "the third waits" eventually waits turn 2
printed=$("$PAWL" status turn)
matches "... as pawl status shows" "*turn *holds*turn *waits 1*turn *waits 2*" "$printed"
exec {heard}<>"$scratch/second"
quit "$holder"
equal "the second has its turn when the first is killed" 2 "$(hear)"
exec {heard}<>"$scratch/third"
equal "the third after it" 3 "$(hear)"

start reader "$PAWL" run -s book -- sh -c 'echo reading >&3; sleep 60'
hear >/dev/null
status_is 0 "shared and shared go together" "$PAWL" run -n -s book -- true
status_is 75 "shared and exclusive do not" "$PAWL" run -n -x book -- true
quit "$started"
start permit "$PAWL" run --permits 2/3 pool -- sh -c 'echo have >&3; sleep 60'
hear >/dev/null
status_is 0 "the third permit is free" "$PAWL" run -n --permits 1/3 pool -- true
status_is 75 "a fourth there is not" "$PAWL" run -n --permits 2/3 pool -- true
quit "$started"

# Several locks in opposite orders, over and over: they would wait for each other if they were taken as they come.
crossing() {
    for _ in {1..25}; do
        "$PAWL" run -w 20 "$@" -- true || return 1
    done
}
crossing left right &
one=$!
crossing right left &
two=$!
wait "$one"
equal "opposite orders, one side" 0 $?
wait "$two"
equal "opposite orders, the other side" 0 $?

# One deadline over all locks.
start last "$PAWL" run z -- sh -c 'echo held >&3; sleep 60'
last=$started
hear >/dev/null
begin=$(date +%s%N)
status_is 75 "the last of several is held" "$PAWL" run -w 0.3 x y z -- true
took=$((($(date +%s%N) - begin) / 1000000))
check "... and the deadline is one ($took ms)" [ "$took" -ge 290 -a "$took" -lt 3000 ]
check "... and the first are given back" is_free x
said=$("$PAWL" run -v -w 0.1 x y z -- true 2>&1)
matches "-v names the lock that is waited for" "pawl: waiting for 'z': held by *'z' was not acquired within 100 ms: *" "$said"
check "... once" [ "$(wc -l <<<"$said")" = 2 ]
start waits "$PAWL" run x y z -- true
waiting=$started
check "x and y are taken while z is waited for" eventually is_held x
kill -TERM "$waiting"
ended "$waiting"
equal "a signal ends the wait" 143 "$status"
check "... and all are given back" is_free x
quit "$last"

# A command that waits for what is around it.
said=$("$PAWL" run nested -- "$PAWL" run -w 0.1 nested -- true 2>&1)
equal "a command under its own lock does not get it" 75 $?
matches "... and is told why" "pawl: 'nested' is held by the pawl run around this one*" "$said"

# What -v tells.
said=$("$PAWL" run -v x -- true 2>&1)
matches "-v tells the token and the place" "pawl: took 'x' with token *local:$scratch/locks*released 'x'" "$said"
said=$("$PAWL" run --trace x -- true 2>&1)
check "--trace tells the steps" [ "$(wc -l <<<"$said")" -ge 2 ]

done_testing
