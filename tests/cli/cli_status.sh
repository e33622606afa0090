#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl status, hold and break: what operators and scripts rely on.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

# ---- Nothing there ----

status_is 0 "status of nothing" "$PAWL" status
matches "... says so, and where" "no lock is held*local:$scratch/locks" "$printed"
status_is 0 "status of a lock that is free" "$PAWL" status free
matches "... says so" "'free' is free*" "$printed"
status_is 0 "names of nothing" "$PAWL" status --names
equal "... are none" "" "$printed"
equal "JSON of nothing" "1 local [] 0 None" \
    "$(json '"%s %s %s %s %s" % (d["format"], d["engine"], l, d["notice_ms"], d["lease_ms"])')"

# ---- Several places ----

other=local:$scratch/other
status_is 0 "status at two places" "$PAWL" status -u "$PAWL_URL" -u "$other"
matches "... says both" "*local:$scratch/locks*local:$scratch/other*" "$printed"
equal "JSON of two places is two lines" "local:$scratch/locks local:$scratch/other" \
    "$("$PAWL" status --json -u "$PAWL_URL" -u "$other" | python3 -c 'import json,sys; print(*(json.loads(l)["url"] for l in sys.stdin))')"
if [[ $("$PAWL" --version) == *redis* ]]; then
    status_is 69 "one of two places that is not there" "$PAWL" status --json -u redis://:secret@127.0.0.1:1 -u "$other"
    matches "... does not hide the other" '*"url":"redis://127.0.0.1:1"*"error":"*"error":null*' "$printed"
fi

# ---- A question for scripts ----

status_is 1 "is a free lock held?" "$PAWL" status asked --check
equal "... it says no" "'asked' is free, and 0 wait" "$printed"
status_is 1 "is any lock held?" "$PAWL" status --check
equal "... no" "" "$printed"
mkfifo "$scratch/check-never"
start check-holder "$PAWL" hold asked <>"$scratch/check-never" >/dev/null
holder=$started
check "one holds" eventually is_held asked
status_is 0 "is a lock held that is?" "$PAWL" status asked --check
matches "... it says for how long" "'asked' is held for *, and 0 wait" "$printed"
status_is 0 "... quietly" "$PAWL" status asked --check -q
equal "... nothing is said" "" "$printed"
status_is 0 "is any held?" "$PAWL" status --check
status_is 1 "is it held for an hour?" "$PAWL" status asked --check --held-longer 1h
status_is 1 "does anybody wait?" "$PAWL" status asked --check --waiters 1
start check-waiter "$PAWL" hold asked <>"$scratch/check-never" >/dev/null
check "... now one does" eventually waits asked 1
status_is 0 "... and that is said" "$PAWL" status asked --check --waiters 1
matches "... with the number" "'asked' is held for *, and 1 waits" "$printed"
status_is 0 "one of two limits is enough" "$PAWL" status --check --held-longer 1h --waiters 1 -q
status_is 1 "... none is not" "$PAWL" status --check --held-longer 1h --waiters 2 -q
status_is 0 "for longer than nothing" "$PAWL" status --check --held-longer 0s
quit "$started"
quit "$holder"
status_is 64 "a limit without a question" "$PAWL" status --waiters 3
status_is 64 "a question as JSON" "$PAWL" status --check --json
status_is 64 "a time that is none" "$PAWL" status --check --held-longer soon
status_is 64 "a number that is none" "$PAWL" status --check --waiters 0
if [[ $("$PAWL" --version) == *redis* ]]; then
    status_is 69 "a question nobody can answer" "$PAWL" status asked --check -q -u redis://127.0.0.1:1
fi

# ---- Break who holds it now ----

status_is 64 "break --holder without a terminal" "$PAWL" break asked --holder </dev/null
matches "... says what to do" "*--token N*" "$said"
status_is 64 "a token and a holder" "$PAWL" break asked --holder --token 3

# ---- Who waits for whom ----

status_is 0 "nobody waits" "$PAWL" status --graph
equal "... is said" "nobody waits for anybody" "$printed"
mkfifo "$scratch/graph-never"
start graph-holder "$PAWL" hold one <>"$scratch/graph-never" >/dev/null
holder=$started
check "one holds" eventually is_held one
start graph-waiter "$PAWL" hold one <>"$scratch/graph-never" >/dev/null
check "... and one waits" eventually waits one 1
LC_ALL=C status_is 0 "who waits for whom" "$PAWL" status --graph
matches "... is a tree" "*:$holder"$'\n''`- one -> *:'"$started  *" "$printed"
status_is 0 "for Graphviz" "$PAWL" status --graph=dot
matches "... with an edge" "digraph pawl {*a1 -> a0 [[]style=solid,label=\"one\"];*" "${printed//a0 -> a1/a1 -> a0}"
equal "as JSON" "[('one', 'hard', False)]" "$("$PAWL" status --graph=json |
    python3 -c 'import json,sys; print([(e["lock"], e["kind"], e["cycle"]) for e in json.load(sys.stdin)["edges"]])')"
status_is 64 "as something else" "$PAWL" status --graph=svg
quit "$started"
quit "$holder"
# Each holds one, and runs a pawl that wants the other.
# shellcheck disable=SC2016 # the shell inside knows them
start one-two "$PAWL" run c1 -- sh -c 'echo >&3; read -r line; exec "$0" run c2 -- true' "$PAWL" < <(eventually is_held c2; echo)
first=$started
start two-one "$PAWL" run c2 -- sh -c 'echo >&3; read -r line; exec "$0" run c1 -- true' "$PAWL" < <(eventually is_held c1; echo)
second=$started
deadlocked() {
    "$PAWL" status --graph >"$scratch/graph" &&
        grep -q "a way out: pawl break -u '.*' --token [0-9]* -- 'c[12]'" "$scratch/graph"
}
check "two pawl run that wait for each other are found" eventually deadlocked
kill "$first" "$second"
ended "$first"
ended "$second"

# ---- hold ----

# As standard input it never ends, since its reader may also write to it.
mkfifo "$scratch/never"
mkfifo "$scratch/leash"
start hold "$PAWL" hold --label 'by hand' deploy < <(exec head -n 2 "$scratch/leash") >"$scratch/held"
check "hold holds" eventually is_held deploy
check "... and prints its token" eventually grep -q '^token [1-9][0-9]*$' "$scratch/held"
equal "... which is the one that status shows" "$(cat "$scratch/held")" "token $(json 'l[0]["holders"][0]["token"]' deploy)"
equal "the label is shown" "by hand" "$(json 'l[0]["holders"][0]["label"]' deploy)"
equal "the pid is shown" "$started" "$(json 'l[0]["holders"][0]["pid"]' deploy)"
equal "the host is shown" "$(uname -n)" "$(json 'l[0]["holders"][0]["host"]' deploy)"
equal "kind and mode are shown" "mutex exclusive" "$(json 'l[0]["kind"] + " " + l[0]["holders"][0]["mode"]' deploy)"
equal "since is a time of today" True "$(json 'abs(d["time_ms"] - l[0]["holders"][0]["since_ms"]) < 60000' deploy)"
exec {leash}>"$scratch/leash"
echo "what is written to it" >&"$leash"
check "hold does not mind what it is sent" is_held deploy
echo "is read and forgotten" >&"$leash"
ended "$started"
equal "hold ends with its standard input" 0 "$status"
check "... and the lock is free" is_free deploy

start hold-term "$PAWL" hold deploy <>"$scratch/never" >/dev/null
check "hold holds" eventually is_held deploy
kill -TERM "$started"
ended "$started"
equal "TERM ends it" 143 "$status"
check "... and the lock is free" is_free deploy

# Several: all or none, their tokens in the order of their names, and the loss of one ends it.
start hold-several "$PAWL" hold north deploy <>"$scratch/never" >"$scratch/held" 2>"$scratch/said"
check "hold holds several" eventually grep -qE '^token [1-9][0-9]* [1-9][0-9]*$' "$scratch/held"
equal "... and prints their tokens in the order of their names" "$(cat "$scratch/held")" \
    "token $(json 'l[0]["holders"][0]["token"]' deploy) $(json 'l[0]["holders"][0]["token"]' north)"
status_is 75 "... none of which others get" "$PAWL" run -n north -- true
status_is 75 "... nor a set with one of them" "$PAWL" run -n another north -- true
check "... of which nothing is taken" is_free another
status_is 0 "one of them is broken" "$PAWL" break north --token "$(json 'l[0]["holders"][0]["token"]' north)"
ended "$started"
equal "... which ends the hold" 76 "$status"
check "... and frees the others" is_free deploy

start hold-break "$PAWL" hold deploy <>"$scratch/never" >/dev/null 2>"$scratch/said"
check "hold holds" eventually is_held deploy
status_is 0 "it is broken" "$PAWL" break deploy --token "$(json 'l[0]["holders"][0]["token"]' deploy)"
matches "... which is confirmed" "*deploy*" "$printed"
ended "$started"
equal "hold exits as lost" 76 "$status"
matches "... and says so" "pawl: *deploy*" "$(cat "$scratch/said")"
check "... and the lock is free" is_free deploy

# The example of --help, in bash.
coproc "$PAWL" hold deploy
read -r -t 10 _ token <&"${COPROC[0]}"
check "a coprocess has a token" [ "$token" -gt 0 ]
check "... and the lock" is_held deploy
# shellcheck disable=SC1083 # bash closes what the variable names
exec {COPROC[1]}>&-
check "... until its input is closed" eventually is_free deploy

# ---- status ----

start one "$PAWL" run -s --label first book -- sh -c 'echo >&3; exec sleep 60'
reader=$started
hear >/dev/null
start two "$PAWL" run -s book -- sh -c 'echo >&3; exec sleep 60'
hear >/dev/null
second_reader=$started
start three "$PAWL" run -x book -- true
writer=$started
check "a writer waits" eventually waits book 1
start four "$PAWL" run --permits 2/5 pool -- sh -c 'echo >&3; exec sleep 60'
hear >/dev/null
equal "two share, one waits" "rwlock 2 1 exclusive" \
    "$(json '"%s %d %d %s" % (l[0]["kind"], len(l[0]["holders"]), len(l[0]["waiters"]), l[0]["waiters"][0]["mode"])' book)"
equal "who waits has a place and no token" "1 None" \
    "$(json '"%s %s" % (l[0]["waiters"][0]["position"], l[0]["waiters"][0]["token"])' book)"
equal "permits" "semaphore 5 2" "$(json '"%s %d %d" % (l[0]["kind"], l[0]["limit"], l[0]["holders"][0]["permits"])' pool)"
equal "all locks" "book pool" "$(json '" ".join(lock["name"] for lock in l)')"
equal "only their names" $'book\npool' "$("$PAWL" status --names)"
equal "raw is there only when asked for" "False True" \
    "$(json '"raw" in l[0]["holders"][0]' book) $("$PAWL" status --json --raw book | grep -q '"raw":' && echo True)"
printed=$("$PAWL" status)
matches "the table has a head" "local:$scratch/locks*LOCK*STATE*TOKEN*HOST*PID*COMMAND*" "$printed"
matches "... and holders before waiters" "*book *holds*shared*sleep*first*book *waits 1*exclusive*" "${printed//sh /sleep }"
matches "... and permits" "*pool *2 of 5*" "$printed"
printed=$("$PAWL" status --raw book)
check "raw says more than three lines" [ "$(wc -l <<<"$printed")" -gt 3 ]
"$PAWL" status --watch=0.05 --json pool >"$scratch/watched" &
watcher=$!
pids+=("$watcher")
seen() { [ "$(wc -l <"$scratch/watched")" -ge 3 ]; }
check "--watch looks again and again" eventually seen
quit "$watcher"
"$PAWL" status --watch=0.05 | head -n 5 >/dev/null
equal "... until nobody reads" 141 "${PIPESTATUS[0]}"

# ---- break ----

token=$(json 'l[0]["holders"][0]["token"]' pool)
status_is 65 "a wrong token breaks nothing" "$PAWL" break pool --token $((token + 1))
check "... the hold stays" [ "$(json 'len(l[0]["holders"])' pool)" = 1 ]
kill -STOP "$started"
status_is 0 "--now" "$PAWL" break pool --token "$token" --now
matches "... warns" "*may still*" "$printed"
check "... frees the lock, though the holder is stopped" "$PAWL" run -n --permits 5/5 pool -- true
kill -CONT "$started"
ended "$started"
equal "... which then learns of it" 76 "$status"
quit "$reader"
quit "$second_reader"
quit "$writer"

# ---- Names that want to play ----

status_is 64 "a label that plays with the terminal" "$PAWL" hold x --label $'red\033[31m'
equal "... is refused without playing" "${said//$'\033'/}" "$said"
start odd "$PAWL" hold $'quote"back\\slash' --label 'quote"' <>"$scratch/never" >/dev/null
check "a name with quotes is held" eventually is_held $'quote"back\\slash'
equal "JSON escapes it" $'quote"back\\slash' "$(json 'l[0]["name"]')"
quit "$started"
start wide "$PAWL" hold 每夜备份 --label 中文 <>"$scratch/never" >/dev/null
check "a Chinese name is shown as it is" eventually eval '"$PAWL" status | grep -q 每夜备份'
equal "... in JSON, too" 每夜备份 "$(json 'l[0]["name"]')"

done_testing
