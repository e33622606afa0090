#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command on a ZooKeeper: what operators see and may do there, as on local:, and what only this engine tells.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"

if ! start_zookeeper; then
    skip "the command on a ZooKeeper" "$missing"
    done_testing
    exit
fi

trace_has() { # TEXT
    grep -q -- "$1" "$scratch/trace"
}

# ---- status, its raw form, the trace ----

start holder "$PAWL" run --label 'by night' nightly -- sh -c 'echo "$PAWL_TOKEN" >&3; exec sleep 120'
holder=$started
token=$(hear)
check "the command has a token" [ "$token" -gt 0 ]
start waiter "$PAWL" run --trace nightly -- sh -c 'echo ran >&3' 2>"$scratch/trace"
waiter=$started
check "another waits" eventually waits nightly 1
equal "status tells who holds" "zk mutex $token $holder by night" \
    "$(json '"%s %s %s %s %s" % (d["engine"], l[0]["kind"], *(l[0]["holders"][0][k] for k in ("token", "pid", "label")))' nightly)"
equal "... who waits" "1 $waiter" "$(json '"%(position)s %(pid)s" % l[0]["waiters"][0]' nightly)"
equal "... and that a crash shows after the session at the earliest" True "$(json 'd["notice_ms"] > d["lease_ms"] > 0')"
raw=$("$PAWL" status --raw nightly)
matches "raw shows the holder's node and its session" "*/locks/nightly/_c_*-lock-0000000000 session 0x*" "$raw"
matches "... and whom the waiter watches" "*-lock-000000000? session 0x*-lock-000000000? session 0x* watches lock-0000000000*" "$raw"
check "the trace says what it created" eventually trace_has "created lock-000000000[1-9]"
check "... whom it watches" eventually trace_has "not lowest, watching lock-0000000000"

# ---- An orderly end frees at once; a break is asked for ----

kill -TERM "$holder"
ended "$holder"
equal "TERM ends the holder" 143 "$status"
equal "... and the next one runs" ran "$(hear)"
ended "$waiter"
check "the trace says that it was woken" trace_has "woken: it was deleted"
check "... that it holds" trace_has "holds"
check "... and that its node is gone" trace_has "deleted lock-000000000[1-9]"
check "... and the lock is free at once, though sessions last longer" is_free nightly

start broken "$PAWL" run nightly -- sh -c 'echo "$PAWL_TOKEN" >&3; exec sleep 120' 2>"$scratch/said"
token=$(hear)
status_is 65 "a wrong token breaks nothing" "$PAWL" break nightly --token "$((token + 128))"
status_is 0 "a break" "$PAWL" break nightly --token "$token"
ended "$started"
equal "... ends the command" 76 "$status"
matches "... which is told why" "pawl: *broken by an operator*" "$(cat "$scratch/said")"
check "... and the lock is free" is_free nightly

start deaf "$PAWL" run nightly -- sh -c 'echo "$PAWL_TOKEN" >&3; exec sleep 120' 2>/dev/null
token=$(hear)
kill -STOP "$started"
status_is 0 "break --now of one that is stopped" "$PAWL" break nightly --now --token "$token"
check "... frees the lock" is_free nightly
kill -CONT "$started"
ended "$started"
equal "... and the old holder learns of it when it goes on" 76 "$status"

# ---- The line for a person who waits ----

start person "$PAWL" run busy -- sh -c 'echo >&3; exec sleep 120'
hear >/dev/null
sees() {
    grep -q "$1" "$scratch/seen" 2>/dev/null
}
if command -v script >/dev/null; then
    timeout 60 script -qfc "stty cols 200; exec '$PAWL' run busy -- true" "$scratch/seen" </dev/null >/dev/null 2>&1 &
    person=$!
    pids+=("$person")
    check "the waiting line says how soon a crash shows" eventually sees "a crash shows within"
    kill "$person"
else
    skip "the waiting line" "there is no script(1) (Debian: bsdutils)"
fi
quit "$started"

# ---- Secrets, and bad input ----

secret=zk://anna:hush-hush@${PAWL_URL#zk://}
start secretive "$PAWL" run -v --trace -u "$secret/own" mine -- sh -c 'echo >&3; exec sleep 120' 2>"$scratch/trace"
hear >/dev/null
all=$("$PAWL" status -u "$secret/own" --raw 2>&1; "$PAWL" status -u "$secret/own" --json --raw 2>&1; "$PAWL" doctor "$secret/own" 2>&1)
matches "a user's locks are shown" "*mine*" "$all"
check "... and a secret nowhere" [ "${all/hush-hush/}" = "$all" ]
check "... nor in the trace" [ "$(grep -c hush-hush "$scratch/trace")" -eq 0 ]
status_is 77 "another user may not touch them" "$PAWL" run -n -u "zk://bert:wrong@${PAWL_URL#zk://}/own" mine -- true
equal "... and is told so in one line, without secrets" "1 0" "$(wc -l <<<"$said") $(grep -c wrong <<<"$said")"
quit "$started"

status_is 69 "nobody listens there" "$PAWL" run -u "zk://anna:hush-hush@127.0.0.1:1/x?connect=300" x -- true
equal "... and it is said in one line, without the secret" "1 0" "$(wc -l <<<"$said") $(grep -c hush <<<"$said")"
status_is 64 "a name of a megabyte" "$PAWL" run --trace "$(head -c 100000 /dev/zero | tr '\0' x)" -- true
status_is 64 "a name that is no path" "$PAWL" run 'a//b' -- true
status_is 64 "TLS, which the library has not" "$PAWL" run -u "zks://127.0.0.1/x" x -- true

done_testing
