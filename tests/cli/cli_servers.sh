# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # quoted for a shell inside; set there and used here, and the other way round
# A Redis or a ZooKeeper for the tests of the command, of their own, known by pid. To be sourced after cli_common.sh.

server= # its pid

# Leaves the URL in $PAWL_URL and the pid in $server. False: it is not here, and $missing says so.
start_redis() {
    missing="there is no redis-server (Debian: redis-server)"
    command -v redis-server >/dev/null && "$PAWL" --version | grep -qw redis || return 1
    missing="no redis-server could be started"
    for try in 1 2 3 4 5; do
        local port=$((20000 + (RANDOM + try) % 20000))
        redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$scratch" >/dev/null &
        server=$!
        pids+=("$server")
        PAWL_URL=redis://127.0.0.1:$port
        # Another's server may be there: then ours has ended.
        if eventually is_free probe && kill -0 "$server" 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

start_zookeeper() {
    missing="there is no zookeeper.jar (Debian: zookeeper)"
    [ -r /usr/share/java/zookeeper.jar ] && command -v java >/dev/null && "$PAWL" --version | grep -qw zk || return 1
    missing="no ZooKeeper could be started"
    mkfifo "$scratch/end"
    # Until its command ends, which is when nobody has the FIFO open for writing any more.
    start zookeeper "$SOURCE_DIR/tests/interop/with_zookeeper.py" \
        bash -c 'echo "$ZOOKEEPER_PID $2" >&3; exec cat "$1"' bash "$scratch/end" >/dev/null
    # shellcheck disable=SC2034 # it is open until this shell ends
    exec {end}<>"$scratch/end"
    read -r -t 60 server host <&"$heard"
    PAWL_URL=zk://$host/locks
    eventually is_free probe
}
