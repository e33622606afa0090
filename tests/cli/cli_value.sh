#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl value and pawl wait on every engine that has values: bytes as they are, limits, and the fenced write of shell scripts: who lost the
# lock writes nothing, whenever that was.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"
export PAWL

set_value() { # TEXT, OPTION..., LOCK: without a newline
    local text=$1
    shift
    printf %s "$text" | "$PAWL" value set "$@"
}
# End what holds a lock so that it is given back.
stop() { # PID
    kill "$1"
    ended "$1"
}
get_value() { # LOCK: with a dot behind it, so that no newline is lost
    "$PAWL" value get "$1"
    printf .
}

# ---- Bytes ----

bytes() {
    status_is 1 "$1: a lock without a value" "$PAWL" value get bytes
    equal "... is said to have none, and nothing is printed" "pawl: 'bytes' has no value|" "$said|$printed"
    status_is 1 "... and nothing is said with -q" "$PAWL" value get -q bytes
    equal "... at all" "" "$said$printed"
    status_is 0 "... deleting it is fine" "$PAWL" value del bytes
    printf 'one\0two\n\377\n\n' >"$scratch/odd"
    "$PAWL" value set bytes <"$scratch/odd"
    "$PAWL" value get bytes >"$scratch/got"
    check "NULs, newlines and odd bytes come back as they were" cmp "$scratch/odd" "$scratch/got"
    equal "... also as JSON" "$(base64 <"$scratch/odd")" \
        "$("$PAWL" value get --json bytes | python3 -c 'import json, sys; print(json.load(sys.stdin)["base64"])')"
    set_value $'text "q"\n\u00e9' bytes
    equal "text is text in JSON, with its token, version and size" $'bytes text "q"\n\u00e9 11 True' \
        "$("$PAWL" value get --json bytes | python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["name"], d["value"], d["size"], int(d["token"]) > 0 and int(d["version"]) > 0 and d["written_ms"] > 1.7e12)')"
    head -c 65536 /dev/urandom >"$scratch/most"
    "$PAWL" value set bytes <"$scratch/most"
    equal "64 KiB can be written" 0 $?
    "$PAWL" value get bytes >"$scratch/got"
    check "... and read" cmp "$scratch/most" "$scratch/got"
    "$PAWL" value set bytes </dev/null
    equal "nothing can be, too" "0 ." "$? $(get_value bytes)"
    status_is 0 "... and is a value" "$PAWL" value get bytes
    status_is 0 "it can be deleted" "$PAWL" value del bytes
    status_is 1 "... and then there is none" "$PAWL" value get bytes
    equal "... in JSON it is null" '{"name":"bytes","value":null}' "$("$PAWL" value get --json bytes)"
}

# 65537 bytes are refused before anything is taken: also while another holds the lock, and where none could be taken.
too_large() { # number
    start "large-$1" "$PAWL" run large -- sh -c 'echo held >&3; exec sleep 120'
    hear >/dev/null
    said=$({ cat "$scratch/most" && printf x; } | "$PAWL" value set large 2>&1)
    equal "one byte more than 64 KiB is refused at once" 64 $?
    matches "... in a sentence" "pawl: standard input has more than 65536 bytes*store them elsewhere*" "$said"
    equal "... and one line" 1 "$(wc -l <<<"$said")"
    set_value x -n large
    equal "-n does not wait for the lock" 75 $?
    set_value x -w 0.05 -E 9 large
    equal "-w waits no longer, and -E says what that is called" 9 $?
    stop "$started"
}

# ---- In a run ----

in_a_run() {
    equal "in a run of the lock it is written for that run" "for the run, by its token" "$("$PAWL" run deploy -c '
        printf "for the run" | "$PAWL" value set deploy && "$PAWL" value get deploy
        "$PAWL" value get --json deploy | grep -q "\"token\":\"$PAWL_TOKEN\"" && echo ", by its token"')"
    equal "... and deleted" 1 "$("$PAWL" run deploy -c '"$PAWL" value del deploy; "$PAWL" value get -q deploy; echo $?')"
    "$PAWL" run 'b two' 'a one' -c 'printf 1 | "$PAWL" value set "a one"; printf 2 | "$PAWL" value set "b two"'
    equal "of a run with several locks, beside each" "1.2." "$(get_value 'a one')$(get_value 'b two')"
    "$PAWL" run -x rw -c 'printf exclusive | "$PAWL" value set rw'
    equal "of a read-write lock, by who holds it exclusively" exclusive. "$(get_value rw)"
    said=$("$PAWL" run -s rw -c 'printf shared | "$PAWL" value set rw; echo $?' 2>&1)
    matches "... not by who shares it, who is told" "*does not hold 'rw' exclusively*65" "$said"
    equal "... and nothing is written" exclusive. "$(get_value rw)"
    set_value outside -x rw
    equal "outside of a run by -x" outside. "$(get_value rw)"
    said=$("$PAWL" run --permits 1/2 pool -c 'printf x | "$PAWL" value set pool; echo $?' 2>&1)
    matches "a semaphore has none" "*65" "$said"
    said=$("$PAWL" run -s rw -- env -u PAWL_LOCK "$PAWL" value set rw 2>&1 </dev/null)
    matches "a lock of another kind is refused, and how to ask for it is said" "*read-write lock, so say -x" "$said"
    said=$("$PAWL" run --permits 1/2 pool -- env -u PAWL_LOCK "$PAWL" value set pool 2>&1 </dev/null)
    matches "... or that it has no value" "*it is a semaphore, and has no value" "$said"
    "$PAWL" run outer -- "$PAWL" run inner -c 'printf deep | "$PAWL" value set outer; printf near | "$PAWL" value set inner'
    equal "in a run in a run, beside both" deep.near. "$(get_value outer)$(get_value inner)"
    "$PAWL" run -u "$PAWL_URL" outer -- "$PAWL" run -u "local:$scratch/elsewhere" inner -c 'printf far | "$PAWL" value set outer'
    equal "... also where they are at different places" far. "$(get_value outer)"
    "$PAWL" run outer -c 'printf other | "$PAWL" value set another'
    equal "what the run does not hold is taken" other. "$(get_value another)"
}

# ---- The hold is lost meanwhile ----

# The command goes on, as one does that was paused; whether the lock is free then, held by another, or only asked for.
fenced() {
    local late='echo "$PAWL_TOKEN" >&3; read -r _ <&4; printf late | "$PAWL" value set fenced; echo "set $?" >&3
        "$PAWL" value del fenced; echo "del $?" >&3'
    for how in free taken asked; do
        set_value "before $how" fenced
        mkfifo "$scratch/work-$2-$how"
        exec {work}<>"$scratch/work-$2-$how"
        start "late-$2-$how" "$PAWL" run --on-lost ignore fenced -- sh -c "$late" 4<&"$work" 2>/dev/null
        late_run=$started
        token=$(hear)
        if [ $how = asked ]; then
            "$PAWL" break fenced --token "$token" >/dev/null
        else
            "$PAWL" break fenced --now --token "$token" >/dev/null
        fi
        [ $how != taken ] || set_value "by the next" fenced
        echo go >&"$work"
        equal "$1: a run that was broken ($how) writes nothing" "set 76" "$(hear)"
        equal "... nor deletes" "del 76" "$(hear)"
        [ $how = taken ] && wanted="by the next." || wanted="before $how."
        equal "... and what was there is still there" "$wanted" "$(get_value fenced)"
        ended "$late_run"
        equal "... and the run fails" 76 "$status"
    done
    start "hold-$2" sh -c 'exec "$PAWL" hold fenced <&4 >&3' 4<&"$work"
    read -r _ token <<<"$(hear)"
    set_value "by token" --token "$token" fenced
    equal "a script with pawl hold writes by its token" "0 by token." "$? $(get_value fenced)"
    stop "$started"
    status_is 76 "... until that has ended" "$PAWL" value set --token "$token" fenced
    matches "... which is said" "pawl: 'fenced' is not held any more with token $token: *nothing was written" "$said"
    equal "... and nothing was written" "by token." "$(get_value fenced)"
}

# ---- Watching, waiting ----

watching() {
    start "watch-$2" sh -c 'exec "$PAWL" value watch watched >&3 2>/dev/null'
    watcher=$started
    set_value first watched
    equal "$1: watch prints a value" first "$(hear)"
    set_value $'second\n' watched
    equal "... and the next" second "$(hear)"
    "$PAWL" run watched -- true
    "$PAWL" value del watched
    equal "... an empty line when it was deleted, and none for holders" "" "$(hear)"
    set_value third watched
    equal "... and goes on" third "$(hear)"
    quit "$watcher"
    set_value seen watched
    equal "watch begins with what is, and ends with its reader" seen "$("$PAWL" value watch watched | head -n 1)"
    matches "... as JSON" '{"name":"watched","token":"*"value":"seen"}' "$("$PAWL" value watch --json watched | head -n 1)"
}

waiting() {
    status_is 0 "$1: pawl wait for what is free" "$PAWL" wait waited
    status_is 75 "... --held" "$PAWL" wait --held -n waited
    status_is 75 "... for some time" "$PAWL" wait --held -w 0.05 waited
    start "held-$2" "$PAWL" wait --held -w 60 waited
    held=$started
    start "holder-$2" "$PAWL" run waited -- sh -c 'echo ran >&3; exec sleep 120'
    hear >/dev/null
    ended "$held"
    equal "pawl wait --held is told when somebody holds it" 0 "$status"
    status_is 0 "... or does already" "$PAWL" wait --held -n waited
    status_is 75 "pawl wait -n for what is held" "$PAWL" wait -n waited
    status_is 7 "... -w, -E" "$PAWL" wait -w 0.05 -E 7 waited
    "$PAWL" wait -w 60 waited &
    waiter=$!
    pids+=("$waiter")
    check "who waits is seen to" eventually waits waited 1
    stop "$started"
    ended "$waiter"
    equal "... until it is free" 0 "$status"
    check "... and leaves it free" is_free waited
}

# It is looked at once a minute, and all the same the change is there.
told() {
    "$PAWL" status --json --watch=60 told >"$scratch/told-$2" &
    watcher=$!
    pids+=("$watcher")
    check "$1: status --watch looks" eventually grep -q '"locks":\[\]' "$scratch/told-$2"
    start "telling-$2" "$PAWL" run told -- sleep 120
    check "... and is told of a holder" eventually grep -q "\"pid\":$started," "$scratch/told-$2"
    quit "$watcher"
    stop "$started"
}

all() { # what it is called, number
    export PAWL_URL
    bytes "$1"
    too_large "$2"
    in_a_run
    fenced "$1" "$2"
    watching "$1" "$2"
    waiting "$1" "$2"
    told "$1" "$2"
}

all local: 1
if start_redis; then
    all redis: 2
else
    skip "values on a Redis" "$missing"
fi
if start_zookeeper; then
    all zk: 3
else
    skip "values on a ZooKeeper" "$missing"
fi

# ---- Where there are none ----

if in_build redlock && start_servers redlock; then
    export PAWL_URL
    start holder-redlock "$PAWL" run x -- sh -c 'echo ran >&3; exec sleep 120'
    hear >/dev/null
    said=$(set_value x x 2>&1)
    equal "redlock: has no values" 64 $?
    matches "... which is said before the lock is waited for" "pawl: redlock: has no values beside its locks*" "$said"
    status_is 64 "... nor can they be read" "$PAWL" value get x
    status_is 64 "... nor observed" "$PAWL" wait --held x
    status_is 75 "... but waited for" "$PAWL" wait -n x
    stop "$started"
else
    skip "no values on redlock:" "$missing"
fi
PAWL_URL=local:$scratch/locks

# ---- Bad input ----

refused() { # NAME, PATTERN, ARGUMENT...
    local name=$1 pattern=$2
    shift 2
    status_is 64 "$name" "$PAWL" "$@"
    matches "... which is said" "pawl: $pattern" "$said"
}
refused "nothing to do" "what about the value? *" value
refused "something else to do" "there is no 'pawl value put': *" value put x
refused "no lock" "which lock? pawl value get LOCK*" value get
refused "two locks" "*takes one lock*'x' and 'y'" value get x y
refused "a value as an argument" "the value comes from standard input: echo '1.2' | pawl value set x" value set x 1.2
refused "-n to read" "pawl value get takes no lock*" value get -n x
refused "--json to write" "--json is for *" value set --json x
refused "-x with a token" "with --token no lock is taken*" value set -x --token 3 x
refused "no token" "--token wants the number*" value set --token none x
refused "a name that is none" "*" value set ''
refused "wait for nothing" "which lock? pawl wait LOCK*" wait
refused "wait for two" "pawl wait takes one lock*" wait x y
refused "wait --held for one side" "with --held nothing is taken*" wait --held -s x
printed=$(PAWL_LOCK=old PAWL_TOKEN=old "$PAWL" value get -q old)
equal "variables that no pawl has set do no harm" 1 $?
printf there | PAWL_LOCK=old PAWL_TOKEN=old PAWL_OUTER=$'1\n\t\t\n2\tx' "$PAWL" value set old
equal "... to writing" there. "$(get_value old)"
set_value stale stale
printf late | PAWL_LOCK=stale PAWL_TOKEN=7 PAWL_MODE=exclusive "$PAWL" value set -q stale 2>/dev/null
equal "those of a run that has ended keep others' values from it" "76 stale." "$? $(get_value stale)"

done_testing
