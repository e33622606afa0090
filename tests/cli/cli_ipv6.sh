#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Servers at ::1, an address in brackets in the URL: each service that there is, and what doctor calls them.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"

if ! grep -q '^00000000000000000000000000000001 ' /proc/net/if_inet6 2>/dev/null; then
    skip "servers at ::1" "this machine has no ::1"
    done_testing
    exit
fi

# URL: a lock there works, and what is said names the server as the URL does.
works() {
    status_is 0 "run at $1" "$PAWL" run -w 30 -u "$1" nightly -- true
    status_is 0 "status" "$PAWL" status -u "$1"
    printed=$("$PAWL" doctor -u "$1" 2>&1)
    matches "doctor writes the address with brackets" "*\[::1\]:*" "$printed"
    equal "... always" "" "$(grep -E '(^|[^[])::1' <<<"$printed")"
}

# OPTION...: a server with these. Leaves its port in $port.
redis_there() {
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM + try) % 20000))
        mkdir -p "$scratch/$port"
        : >"$scratch/$port/conf" # sentinels want to write there
        redis-server "$scratch/$port/conf" --port "$port" --bind ::1 --save '' --dir "$scratch/$port" "$@" >/dev/null &
        pids+=("$!")
        # Another's server may be there: then ours has ended.
        if eventually redis_says PONG "$port" PING && kill -0 "${pids[-1]}" 2>/dev/null; then
            return
        fi
    done
}

redis_says() { # WANTED, PORT, COMMAND...
    local wanted=$1 port=$2
    shift 2
    [[ $(redis-cli -h ::1 -p "$port" "$@" 2>/dev/null) == *$wanted* ]]
}

if ! command -v redis-server redis-cli >/dev/null || ! "$PAWL" --version | grep -qw redis; then
    skip "Redis at ::1" "there is no redis-server (Debian: redis-server)"
else
    redis_there
    one=$port
    works "redis://[::1]:$one"
    redis_there
    works "redlock://[::1]:$one,[::1]:$port,[::1]:1"
    redis_there --sentinel --sentinel monitor main ::1 "$one" 1
    works "redis-sentinel://[::1]:$port/main"

    redis_there --cluster-enabled yes
    one=$port
    redis_there --cluster-enabled yes
    redis-cli -h ::1 -p "$one" CLUSTER ADDSLOTS {0..8191} >/dev/null
    redis-cli -h ::1 -p "$port" CLUSTER ADDSLOTS {8192..16383} >/dev/null
    redis-cli -h ::1 -p "$one" CLUSTER MEET ::1 "$port" >/dev/null
    for node in "$one" "$port"; do
        check "a node knows its cluster" eventually redis_says cluster_state:ok "$node" CLUSTER INFO
    done
    works "redis-cluster://[::1]:$one"
    works "redis-cluster://[::1]:$port" # one of them is sent to the other
fi

if ! grep -qv ' lo$' /proc/net/if_inet6; then
    skip "ZooKeeper at ::1" "libzookeeper refuses it where loopback alone has IPv6"
elif ZOOKEEPER_ADDRESS=::1 start_zookeeper; then
    check "the URL has it" [ "${PAWL_URL#zk://\[::1\]:}" != "$PAWL_URL" ]
    works "$PAWL_URL"
else
    skip "ZooKeeper at ::1" "$missing"
fi

done_testing
