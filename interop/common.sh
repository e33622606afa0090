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

# Sets $port.
start_one() { # further arguments of the server
    command -v redis-server >/dev/null || skip_all "there is no redis-server (Debian: redis-server)"
    local tries pid
    for tries in 1 2 3 4 5; do
        port=$((20000 + (RANDOM * 7 + tries) % 20000))
        redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$scratch" --logfile "$scratch/log" \
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

# A cluster of three primaries. Sets $PORT to that of one of them.
start_cluster() {
    local hosts=()
    for _ in 1 2 3; do
        start_one --cluster-enabled yes
        hosts+=("127.0.0.1:$port")
    done
    redis-cli --cluster create "${hosts[@]}" --cluster-yes >"$scratch/output" 2>&1 || skip_all "no cluster could be made"
    for _ in $(seq 600); do
        redis-cli -p "$port" cluster info | grep -q cluster_state:ok && break
        sleep 0.05
    done
    export PAWL_URL=redis-cluster://127.0.0.1:$port PORT=$port
}

check() { # name, command...
    local name=$1
    shift
    count=$((count + 1))
    if timeout 60 "$@" >"$scratch/output" 2>&1; then
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
