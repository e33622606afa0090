#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl bench: tiny runs on local:, on a Redis and on a ZooKeeper of their own. What is measured is nobody's business here; that it is
# measured, told in each form, and leaves nothing behind, is.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/../cli/cli_servers.sh"
export TMPDIR=$scratch

json() { # FILTER: of the JSON in $scratch/output
    python3 -c '
import json, statistics, sys
d = json.load(open(sys.argv[1]))
rows = {t["engine"]: {r["row"]: r for r in t["rows"]} for t in d["targets"]}
print(eval(sys.argv[2]))' "$scratch/output" "$1"
}

is_xml() {
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"
}

tiny() {
    "$PAWL" bench --rounds 1 --span 20ms "$@"
}

# ---- What can't be measured ----

status_is 64 "no rounds" "$PAWL" bench --rounds 0
matches "... says what is wanted" "*1 to 99*" "$said"
status_is 64 "a span of no time" "$PAWL" bench --span 1ms
status_is 64 "a word without an option" "$PAWL" bench local:
matches "... says how a URL is given" "*-u*" "$said"
status_is 64 "a workload that there is none of" "$PAWL" bench --only pair,turns3
matches "... says which there are" "*'pair,turns3'*turns2, turns16*" "$said"
status_is 64 "no workload at all" "$PAWL" bench --only ''
status_is 64 "no such engine" "$PAWL" bench -u nosuch://host
status_is 64 "an unknown option in the URL" "$PAWL" bench -u "local:$scratch/locks?nosuch=1"
status_is 69 "nobody listens there" "$PAWL" bench -u local: -u 'redis://127.0.0.1:1?connect=500&retry=10,10,1'
equal "... and nothing was printed" "" "$printed"
status_is 74 "a picture that can't be written" "$PAWL" bench --svg "$scratch/none/picture.svg"
equal "nothing was left in the temporary directory" "" "$(find "$scratch" -name 'pawl-bench*')"

# ---- local: ----

status_is 0 "the table" tiny
for row in 'bare round trip' 'uncontended acquire + release' 'hand-off among 64 processes' 'hand-off along a queue of 1,000' 'kill -9'; do
    matches "... has $row" "*$row*" "$printed"
done
check "... and all of it was measured" [ "${printed/not measured/}" = "$printed" ]
status_is 0 "JSON and a picture, two rounds" "$PAWL" bench --rounds 2 --span 20ms --json --svg "$scratch/picture.svg"
equal "... of the right form" "1 2 local" "$(json '"%s %s %s" % (d["format"], d["rounds"], d["targets"][0]["engine"])')"
equal "... with a value per round" "2" "$(json 'len(rows["local"]["pair"]["p50_ns"]["rounds"])')"
equal "... and a spread around the median" "True" \
    "$(json 'all(r["p50_ns"]["low"] <= r["p50_ns"]["median"] <= r["p50_ns"]["high"] for r in rows["local"].values() if "p50_ns" in r)')"
equal "... and the bare operation beside it" "flock(2) True" \
    "$(json '"%s %s" % (rows["local"]["pair"]["against"], rows["local"]["pair"]["ratio"] > 0)')"
equal "... in a ratio that is taken within each round" "True" "$(json '(lambda ours, bare, told: abs(
    told / statistics.median(one / two for one, two in zip(ours, bare)) - 1) < 0.001)(
    rows["local"]["turns2"]["p50_ns"]["rounds"], rows["local"]["trip"]["p50_ns"]["rounds"], rows["local"]["turns2"]["ratio"])')"
equal "... and nothing missing" "[]" "$(json '[r["row"] for t in d["targets"] for r in t["rows"] if "missing" in r]')"
check "the picture is XML" is_xml "$scratch/picture.svg"
status_is 0 "two workloads alone" tiny --only threads16,turns2 --json
equal "... and no others" "['turns2', 'threads16']" "$(json 'list(rows["local"])')"
if command -v script >/dev/null; then
    timeout 120 script -qfc "'$PAWL' bench --only pair,turns2 --rounds 2 --span 20ms" "$scratch/seen" </dev/null >/dev/null 2>&1
    equal "... and how far it is, on a terminal, counts those alone" "0 25 50 75" \
        "$(grep -oE '[0-9]+ %, round' "$scratch/seen" | grep -oE '^[0-9]+' | xargs)"
else
    skip "how far it is" "there is no script(1) (Debian: bsdutils)"
fi
status_is 0 "a directory that is in use" tiny -u "local:$scratch/own" --json
equal "... has no lock in it afterwards" "" "$("$PAWL" status --names -u "local:$scratch/own")"
equal "nothing was left in the temporary directory" "" "$(find "$scratch" -name 'pawl-bench*')"

# ---- A signal ----

start bench "$PAWL" bench --rounds 99 --svg "$scratch/unfinished.svg"
check "it has begun" eventually [ -e "$scratch/unfinished.svg" ]
kill -TERM "$started"
ended "$started"
equal "SIGTERM ends it" 143 "$status"
check "... with no half of a picture" [ ! -e "$scratch/unfinished.svg" ]
equal "... and nothing was left in the temporary directory" "" "$(find "$scratch" -name 'pawl-bench*')"

# ---- Redis ----

has_keys() { # PORT
    [ "$(redis-cli -p "$1" dbsize)" != 0 ]
}

if ! start_redis; then
    skip "on Redis" "$missing"
else
    status_is 0 "side by side with Redis" tiny --json -u local: -u "redis://127.0.0.1:$port" --svg "$scratch/two.svg"
    equal "... both are there" "['local', 'redis']" "$(json 'sorted(rows)')"
    equal "... with bare operations" "PING EVALSHA GET" "$(json '" ".join(rows["redis"][r]["bare"] for r in ("trip", "write", "read"))')"
    equal "... also of a client that waits busily" "PING EVALSHA" \
        "$(json '" ".join(rows["redis"][r]["bare"] for r in ("trip_busy", "write_busy"))')"
    equal "... requests" "True" "$(json 'rows["redis"]["turns2"]["requests"]["median"] > 0')"
    equal "... what the server used" "True" "$(json 'rows["redis"]["turns2"]["server_cpu_ns"]["median"] > 0')"
    equal "... and nothing missing" "[]" "$(json '[r["missing"] for r in rows["redis"].values() if "missing" in r]')"
    equal "... and no key left" "0" "$(redis-cli -p "$port" dbsize)"
    check "the picture is XML" is_xml "$scratch/two.svg"
    equal "... what a pair asks of the server" "True" "$(json 'rows["redis"]["pair"]["requests"]["median"] > 0')"
    equal "... and what each has that waits in a long queue" "True" \
        "$(json 'all(rows[e]["queue1000"]["client_memory"]["low"] > 250 * 64 for e in rows)')"
    status_is 0 "with ?spin=0" tiny --json -u "redis://127.0.0.1:$port?spin=0"
    equal "... nobody waits busily" "False" "$(json '"trip_busy" in rows["redis"]')"
    check "sentinels are started" start_servers sentinel
    status_is 0 "through a sentinel" tiny --json -u "$PAWL_URL/3"
    equal "... the primary is what is measured" "1 PING" \
        "$(json '"%d %s" % (d["targets"][0]["servers_here"], rows["redis"]["trip"]["bare"])')"
    equal "... and no key left there" "0" "$(redis-cli -p "$port" -n 3 dbsize)"
    check "a cluster is started" start_servers cluster-bare
    status_is 0 "a cluster of which the URL names one node" \
        "$PAWL" bench --rounds 1 --span 300ms --json --only turns2,own64 -u "redis-cluster://127.0.0.1:${ports[1]}"
    equal "... all servers are looked at" "3" "$(json 'd["targets"][0]["servers_here"]')"
    equal "... and asked for their requests" "True True" \
        "$(json '"%s %s" % tuple(rows["redis"][r]["requests"]["median"] > 0 for r in ("turns2", "own64"))')"
    equal "... and no key left on any" "0 0 0" "$(for node in "${ports[@]}"; do redis-cli -p "$node" dbsize; done | xargs)"
    check "a Redis that will not live long" start_redis
    "$PAWL" bench --rounds 99 --span 20ms --json --only turns2,threads16 -u "redis://127.0.0.1:$port?retry=50,50,5" >"$scratch/half" &
    started=$!
    pids+=("$started")
    check "... is measured" eventually has_keys "$port"
    redis-cli -p "$port" shutdown nosave now
    ended "$started"
    equal "... and its end ends the run with a status of its own" 69 "$status"
    equal "... and is said" "True" \
        "$(python3 -c 'import json, sys; print("missing" in json.load(sys.stdin)["targets"][0]["rows"][0])' <"$scratch/half")"
fi

# ---- ZooKeeper ----

on_zookeeper() { # HOST:PORT
    "$PAWL" bench --rounds 1 --span 20ms --json -u "zk://$1/team/bench" >"$scratch/output" || return 1
    /usr/bin/python3 - "$1" >"$scratch/left" <<'END'
import sys

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1])
client.start(timeout=60)
print(sorted(set(client.get_children("/")) - {"zookeeper"}))
client.stop()
END
}

if ! /usr/bin/python3 -c 'import kazoo' 2>/dev/null; then
    skip "on ZooKeeper" "there is no Kazoo to look with (Debian: python3-kazoo)"
elif ! start_zookeeper; then
    skip "on ZooKeeper" "$missing"
else
    check "on ZooKeeper" on_zookeeper "127.0.0.1:$port"
    equal "... with bare operations" "exists create + delete getData" \
        "$(json '" ".join(rows["zk"][r]["bare"] for r in ("trip", "write", "read"))')"
    equal "... requests" "True" "$(json 'rows["zk"]["turns2"]["requests"]["median"] > 0')"
    equal "... and nothing missing" "[]" "$(json '[r["missing"] for r in rows["zk"].values() if "missing" in r]')"
    equal "... and no node left" "[]" "$(cat "$scratch/left")"
fi

done_testing
