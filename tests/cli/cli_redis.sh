#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command on a Redis: what operators see and may do there, as on local:, holders that are not pawl, and what is said of bad input.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"
export PAWL

if ! start_redis; then
    skip "the command on a Redis" "$missing"
    done_testing
    exit
fi

port=${PAWL_URL##*:}
redis() {
    redis-cli -p "$port" "$@" >/dev/null
}

# ---- What is so every night is not said every night ----

redis CONFIG SET maxmemory-policy allkeys-lru
status_is 0 "run beside a server that forgets" "$PAWL" run nightly -- true
equal "... in silence, or cron would mail it" "" "$said"
status_is 0 "hold" "$PAWL" hold nightly
equal "... in silence" "" "$said"
status_is 0 "status" "$PAWL" status
equal "... in silence" "" "$said"
redis CONFIG SET maxmemory-policy noeviction
redis CONFIG SET appendonly yes

# ---- Holders and waiters, a break ----

start holder "$PAWL" run --label 'by night' nightly -- sh -c 'echo "$PAWL_TOKEN" >&3; exec sleep 120'
holder=$started
token=$(hear)
start waiter "$PAWL" run nightly -- sh -c 'echo ran >&3'
waiter=$started
check "another waits" eventually waits nightly 1
equal "status tells who holds" "redis mutex $token $holder by night" \
    "$(json '"%s %s %s %s %s" % (d["engine"], l[0]["kind"], *(l[0]["holders"][0][k] for k in ("token", "pid", "label")))' nightly)"
equal "... who waits" "1 $waiter" "$(json '"%(position)s %(pid)s" % l[0]["waiters"][0]' nightly)"
equal "... and for how long at most" True "$(json '0 < l[0]["holders"][0]["remaining_ms"] <= d["lease_ms"]' nightly)"
status_is 65 "a wrong token breaks nothing" "$PAWL" break nightly --token "$((token + 1000))"
status_is 0 "a break" "$PAWL" break nightly --token "$token"
ended "$holder"
equal "... ends the holder's command" 76 "$status"
equal "... and the next one runs" ran "$(hear)"
ended "$waiter"

# ---- Holders that are not pawl ----

# NAME: what is to be seen of a holder that never ends by itself, and how it is freed.
endless() {
    printed=$("$PAWL" status "$1")
    matches "... status shows it" "*$1  holds, foreign*no end*" "$printed"
    status_is 75 "... waiting for it ends without it" "$PAWL" run -v -w 0.3 "$1" -- true
    matches "... the waiting line says what it is, and what helps" \
        "*held by a program that is not pawl, which never ends by itself: pawl break frees it*" "$said"
    check "... and promises nothing else" [ "${said/a crash shows/}" = "$said" ]
    check "... nobody is left in the queue" eventually waits "$1" 0
    token=$(json 'l[0]["holders"][0]["token"]' "$1")
    status_is 64 "... it can't be asked to give up" "$PAWL" break "$1" --token "$token"
    matches "... which is said" "*not pawl*--now*" "$said"
    status_is 0 "... but be freed" "$PAWL" break "$1" --now --token "$token"
    check "... and the lock is free" is_free "$1"
}
redis SET plain redis-py-without-a-timeout
check "a holder of the plain family without an end" true
endless plain
redis HSET redisson 0f8fad5b-d9cb-469f-a165-70867728950e:77 2
check "a holder of Redisson's without an end" true
endless redisson
redis HSET watched 0f8fad5b-d9cb-469f-a165-70867728950e:77 2
redis PEXPIRE watched 60000
matches "a holder of Redisson's is foreign, and ends" "*watched  holds, foreign*mutex*s" "$("$PAWL" status watched)"
status_is 1 "how long it has held is not known" "$PAWL" status --check --held-longer 1s watched
matches "... and that is said" "pawl: 'watched' is held by a program that does not tell since when*" "$said"
matches "... and raw shows its count" "*0f8fad5b-d9cb-469f-a165-70867728950e:77 = 2*" "$("$PAWL" status --raw watched)"

# ---- doctor ----

redis CONFIG SET maxmemory-policy allkeys-lru
status_is 65 "a server that evicts" "$PAWL" doctor "$PAWL_URL"
matches "... and what to do" "*good*Redis*takes writes*WARNING*maxmemory-policy*-> *noeviction*" "$printed"
redis CONFIG SET maxmemory-policy noeviction
redis CONFIG SET appendonly no
status_is 65 "a server that forgets" "$PAWL" doctor "$PAWL_URL"
matches "... and what to do" "*WARNING*append-only*-> set appendonly yes*" "$printed"
redis CONFIG SET appendonly yes

# ---- Bad input: its own exit status, one sentence, no secret ----

refused() { # STATUS, NAME, PATTERN, COMMAND...
    local wanted=$1 name=$2 pattern=$3
    shift 3
    status_is "$wanted" "$name" "$@"
    matches "... which is said" "pawl: $pattern" "$said"
    equal "... in one line, without the secret" "1 0" "$(wc -l <<<"$said") $(grep -c hush <<<"$said")"
}
redis ACL SETUSER anna on '>hush-hush' '~*' '&*' +@all
redis ACL SETUSER bert on '>hush-hush' '~*' '&*' +@all -hset
redis RPUSH list x
refused 77 "a wrong password" "*WRONGPASS*the password in the URL is wrong" "$PAWL" run -u "redis://anna:hush@127.0.0.1:$port" x -- true
# A pawl in the command finds the lock, and the password as it was given; but none that stood in the URL.
inside='echo "$PAWL_URL"; "$PAWL" run y -- echo ran'
url=redis://anna@127.0.0.1:$port
equal "a password from the environment, for the command, too" "$url"$'\n'ran \
    "$(PAWL_PASSWORD=hush-hush "$PAWL" run -u "$url" x -- sh -c "$inside")"
echo hush-hush >"$scratch/password"
equal "a password from a file, for the command, too" "$url?password-file=$scratch/password"$'\n'ran \
    "$("$PAWL" run -u "$url?password-file=$scratch/password" x -- sh -c "$inside")"
equal "a password in the URL is not in the command's environment" "$url/0?replicas=0 0" \
    "$("$PAWL" run -u "redis://anna:hush-hush@127.0.0.1:$port/0?replicas=0" x -- sh -c 'echo "$PAWL_URL $(env | grep -c hush)"')"
equal "... nor is an option whose name is hidden by an escape" "$url/0?keep=5" \
    "$("$PAWL" run -u "redis://anna:hush-hush@127.0.0.1:$port/0?%72eplicas=0&keep=5" x -- sh -c 'echo "$PAWL_URL"')"
equal "... unless it was there before" "redis://anna:hush-hush@127.0.0.1:$port" \
    "$(PAWL_URL=redis://anna:hush-hush@127.0.0.1:$port "$PAWL" run x -- sh -c 'echo "$PAWL_URL"')"
refused 64 "a file that is not there" "*password-file*can't be read*" \
    "$PAWL" run -u "redis://anna@127.0.0.1:$port?password-file=$scratch/none" x -- true
refused 77 "a right that is missing" "*lacks a right: docs/redis.md*" "$PAWL" run -u "redis://bert:hush-hush@127.0.0.1:$port" x -- true
check "... leaves nothing behind" is_free x
refused 65 "a key that is no lock" "*'list'*no lock*" "$PAWL" run list -- true
refused 65 "... is not called free either" "*'list'*no lock*" "$PAWL" status list
refused 64 "a database that is not there" "*database*" "$PAWL" run -u "redis://anna:hush-hush@127.0.0.1:$port/99999" x -- true
refused 64 "a path without its slashes" "*redis+unix:///path/to/socket*" "$PAWL" run -u redis+unix:socket x -- true
refused 69 "too few replicas" "*has 0 replicas*asks for 1*" "$PAWL" run -u "$PAWL_URL?replicas=1" x -- true
refused 69 "no cluster" "*not part of a cluster*" "$PAWL" run -u "redis-cluster://127.0.0.1:$port" x -- true
refused 69 "no sentinel" "*no sentinel*" "$PAWL" run -u "redis-sentinel://127.0.0.1:$port/name?connect=300" x -- true
refused 69 "a server twice" "*are the same server*" "$PAWL" run -u "redlock://127.0.0.1:$port,localhost:$port,127.0.0.1:1" x -- true
refused 69 "nobody listens there" "*can't connect*" "$PAWL" run -u "redis://anna:hush-hush@127.0.0.1:1" x -- true
refused 69 "a host that is not known" "*not known*" "$PAWL" run -u "redis://anna:hush-hush@no.such.host.invalid" x -- true
refused 69 "TLS where there is none" "*TLS*" "$PAWL" run -u "rediss://anna:hush-hush@127.0.0.1:$port?connect=500" x -- true
kill -STOP "$server"
refused 69 "a server that stands still" "*no answer*" "$PAWL" run -u "redis://anna:hush-hush@127.0.0.1:$port?connect=500" x -- true
kill -CONT "$server"
secret=redis://anna:hush-hush@127.0.0.1:$port
look='"$PAWL" status --raw -u "$1"; "$PAWL" status --json --raw -u "$1"; "$PAWL" doctor "$1"'
all=$("$PAWL" run -v --trace -u "$secret" mine -- sh -c "$look" sh "$secret" 2>&1)
matches "a user's locks are shown" "*mine*" "$all"
check "... and a secret nowhere" [ "${all/hush/}" = "$all" ]

# ---- Counters of names that nobody uses any more, by the command of docs/redis.md ----

mkdir "$scratch/bin"
printf '#!/bin/sh\nexec %s -p %s "$@"\n' "$(command -v redis-cli)" "$port" >"$scratch/bin/redis-cli"
chmod +x "$scratch/bin/redis-cli"
sweep=$(sed -n '/^    redis-cli --scan/,/^$/p' "$SOURCE_DIR/docs/redis.md")
sweep_all() {
    PATH=$scratch/bin:$PATH sh -c "$sweep" | grep -c 1
}
tokens() { # name: the token of a hold of it
    "$PAWL" run "$1" -- sh -c 'echo "$PAWL_TOKEN"'
}
set_idle() { # name value: its counter, as if nobody had touched it for a month
    "$scratch/bin/redis-cli" EVAL 'redis.call("SET", KEYS[1], ARGV[1]) local d = redis.call("DUMP", KEYS[1])
        return redis.call("RESTORE", KEYS[1], 0, d, "REPLACE", "IDLETIME", 2600000)' 1 "redisson_lock_token:$1" "$2" >/dev/null
}
redis FLUSHALL
before=$(tokens '{old}x')
tokens fresh >/dev/null
set_idle '{old}x' "$((before - 5000000))"
set_idle '{old}' "$((before - 5000000))"
set_idle '{held}' "$((before - 5000000))"
set_idle '{ahead}' 9000000000000000
redis HSET held 0f8fad5b-d9cb-469f-a165-70867728950e:1 1
equal "what was not used for a month is removed" 2 "$(sweep_all)"
equal "... and nothing else" 4 "$("$scratch/bin/redis-cli" DBSIZE)"
check "... and tokens rise" [ "$(tokens '{old}x')" -gt "$before" ]

# ---- A server that can't be reached: -n and status say so at once, -w waits for it; on every engine ----

out_of_reach() { # URL
    local began=$SECONDS
    status_is 69 "-n, and nobody is at $1" "$PAWL" run -n -u "$1" x -- true
    status_is 69 "... status" "$PAWL" status -u "$1"
    check "... both soon" [ $((SECONDS - began)) -lt 12 ] # two seconds each on a machine that has time; ZooKeeper once took 15
    began=$SECONDS
    status_is 69 "... -w, when its time is over" "$PAWL" run -w 2.1 -u "$1" x -- true
    check "... and not before" [ $((SECONDS - began)) -ge 2 ]
}
out_of_reach redis://127.0.0.1:1
out_of_reach redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3
out_of_reach redis-sentinel://127.0.0.1:1/name
out_of_reach redis-cluster://127.0.0.1:1
if "$PAWL" --version | grep -qw zk; then
    out_of_reach zk://127.0.0.1:1/x
fi
quit "$server"
"$PAWL" run -w 60 x -- true &
waiter=$!
pids+=("$waiter")
start_servers redis --port "$port"
ended "$waiter"
equal "-w waits for a server that is being started" 0 "$status"

done_testing
