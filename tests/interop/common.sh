# What the interop tests share: a Redis server of their own, TAP, and a place for downloaded peers. Sourced, not run.
# shellcheck shell=bash
set -uo pipefail

: "${PAWL:?the pawl command}" "${BUILD_DIR:?}" "${SOURCE_DIR:?}"
cache=$BUILD_DIR/interop
mkdir -p "$cache"
scratch=$(mktemp -d)
server_pids=()
count=0
failed=0

finish() {
    local pid
    for pid in "${server_pids[@]}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap finish EXIT

skip_all() { # reason
    echo "1..0 # SKIP $1"
    exit 0
}

bail_out() { # reason
    echo "Bail out! $1"
    exit 1
}

# Sets $port.
config=() # a file with more of the configuration, and what may only follow that
start_one() { # further arguments of the server
    command -v redis-server >/dev/null || skip_all "there is no redis-server (Debian: redis-server)"
    local tries pid
    for tries in 1 2 3 4 5; do
        port=$((20000 + (RANDOM * 7 + tries) % 20000))
        redis-server "${config[@]}" --port "$port" --bind 127.0.0.1 --save '' --dir "$scratch" --logfile "$scratch/log" \
            --cluster-config-file "nodes-$port.conf" "$@" &
        pid=$!
        server_pids+=("$pid")
        for _ in $(seq 200); do
            redis-cli -p "$port" ping 2>/dev/null | grep -q PONG && kill -0 "$pid" 2>/dev/null && return
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.05
        done
    done
    skip_all "no redis-server could be started"
}

start_server() {
    start_one
    export PAWL_URL=redis://127.0.0.1:$port PORT=$port
}

# Independent ones, for Redlock. Sets $PORTS, separated by commas.
start_servers() { # how many
    local hosts=
    PORTS=
    for _ in $(seq "$1"); do
        start_one
        PORTS=${PORTS:+$PORTS,}$port
        hosts=${hosts:+$hosts,}127.0.0.1:$port
    done
    export PORTS PAWL_URL=redlock://$hosts
}

await() { # what, command...
    local what=$1
    shift
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.05
    done
    bail_out "$what: never"
}

info_says() { # port, section, text
    if [ "$2" = cluster ]; then redis-cli -p "$1" cluster info; else redis-cli -p "$1" info "$2"; fi | grep -q "$3"
}

# Three primaries with a replica each. Sets $PORT to those of the primaries, $PORTS to all.
start_cluster() {
    local hosts=() ports=()
    for _ in 1 2 3 4 5 6; do
        start_one --cluster-enabled yes --repl-diskless-sync-delay 0
        hosts+=("127.0.0.1:$port")
        ports+=("$port")
    done
    redis-cli --cluster create "${hosts[@]}" --cluster-replicas 1 --cluster-yes >"$scratch/output" 2>&1 ||
        bail_out "no cluster could be made"
    for port in "${ports[@]}"; do
        await "a node that finds the cluster well" info_says "$port" cluster cluster_state:ok
        await "a replica in step" info_says "$port" replication 'master_link_status:up\|slave0:.*state=online'
    done
    PORT=${ports[0]},${ports[1]},${ports[2]}
    PORTS=$(IFS=, && echo "${ports[*]}")
    export PORT PORTS PAWL_URL=redis-cluster://${hosts[0]},${hosts[1]},${hosts[2]}
}

# shellcheck disable=SC2317 # await calls it
all_sentinels_known() { # port
    redis-cli -p "$1" sentinel ckquorum interop | grep -q '^OK 3'
}

# A primary with two replicas, and three sentinels. Sets $PORT to those of the sentinels, $PORTS to those of the servers.
start_sentinels() {
    local primary ports=() sentinels=()
    start_one
    primary=$port ports=("$port")
    for _ in 1 2; do
        start_one --replicaof 127.0.0.1 "$primary"
        ports+=("$port")
    done
    await "two replicas in step" info_says "$primary" replication 'slave1:.*state=online'
    for i in 1 2 3; do
        printf 'sentinel monitor interop 127.0.0.1 %s 2\nsentinel down-after-milliseconds interop 60000\n' "$primary" \
            >"$scratch/sentinel$i"
        config=("$scratch/sentinel$i" --sentinel)
        start_one
        sentinels+=("$port")
    done
    config=()
    for port in "${sentinels[@]}"; do
        await "three sentinels that know each other" all_sentinels_known "$port"
    done
    PORT=$(IFS=, && echo "${sentinels[*]}")
    PORTS=$(IFS=, && echo "${ports[*]}")
    export PORT PORTS PAWL_URL="redis-sentinel://127.0.0.1:${PORT//,/,127.0.0.1:}/interop"
}

check() { # name, command...
    local name=$1
    shift
    count=$((count + 1))
    if timeout "${patience:-60}" "$@" >"$scratch/output" 2>&1; then
        echo "ok $count - $name"
    else
        failed=1
        sed 's/^/# /' "$scratch/output"
        echo "not ok $count - $name"
    fi
}

end() {
    echo "1..$count"
    exit $failed
}
