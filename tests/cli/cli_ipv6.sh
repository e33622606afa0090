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

# KIND: start it there
works_on() {
    if ! start_servers "$1" --address ::1; then
        skip "$1 at ::1" "$missing"
    else
        check "the URL of $1 has it" [ "${PAWL_URL#*//\[::1\]:}" != "$PAWL_URL" ]
        works "$PAWL_URL"
    fi
}

if ! in_build redis; then
    skip "Redis at ::1" "$missing"
else
    for kind in redis redlock sentinel cluster-bare; do
        works_on $kind
    done
    works "redis-cluster://[::1]:${ports[1]}" # one of them sends to the others
fi

if ! grep -qv ' lo$' /proc/net/if_inet6; then
    skip "ZooKeeper at ::1" "libzookeeper refuses it where loopback alone has IPv6"
elif ! in_build zk; then
    skip "ZooKeeper at ::1" "$missing"
else
    works_on zookeeper
fi

done_testing
