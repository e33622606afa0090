# What the interop tests share: a Redis server of their own, TAP, and a place for downloaded peers. Sourced, not run.
# shellcheck shell=bash
set -uo pipefail

: "${PAWL:?the pawl command}" "${BUILD_DIR:?}" "${SOURCE_DIR:?}"
cache=$BUILD_DIR/interop
mkdir -p "$cache"
scratch=$(mktemp -d)
server_pid=
count=0
failed=0

finish() {
    if [ -n "$server_pid" ]; then
        kill "$server_pid" 2>/dev/null
        wait "$server_pid" 2>/dev/null
    fi
    rm -rf "$scratch"
}
trap finish EXIT

skip_all() { # reason
    echo "1..0 # SKIP $1"
    exit 0
}

start_server() {
    command -v redis-server >/dev/null || skip_all "there is no redis-server (Debian: redis-server)"
    local tries
    for tries in 1 2 3 4 5; do
        port=$((20000 + (RANDOM * 7 + tries) % 20000))
        redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$scratch" --logfile "$scratch/log" &
        server_pid=$!
        for _ in $(seq 200); do
            if redis-cli -p "$port" ping 2>/dev/null | grep -q PONG; then
                export PAWL_URL=redis://127.0.0.1:$port PORT=$port
                return
            fi
            kill -0 "$server_pid" 2>/dev/null || break
            sleep 0.05
        done
    done
    skip_all "no redis-server could be started"
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
