# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # set there and used here, and the other way round
# Servers for the tests of the command, of their own, known by pid. To be sourced after cli_common.sh.

# KIND, OPTION...: see `pawl-servers --help`. Leaves the URL in $PAWL_URL, the ports in ${ports[@]}, the pids in ${servers[@]}, and those of
# the first in $port and $server. False: they are not there, and $missing says why.
start_servers() {
    local kind=$1 number=${#pids[@]} one pid directory
    shift
    mkfifo "$scratch/input-$number" "$scratch/servers-$number"
    TMPDIR=$scratch "$PAWL-servers" start "$kind" "$@" <"$scratch/input-$number" >"$scratch/servers-$number" 2>"$scratch/missing" &
    pids+=($!)
    # They end when this shell does: it alone has the FIFO open for writing.
    exec {end}>"$scratch/input-$number" {answer}<"$scratch/servers-$number"
    if ! read -r PAWL_URL <&"$answer"; then
        missing=$(sed 's/^pawl: //' "$scratch/missing")
        return 1
    fi
    ports=() servers=()
    while read -r one pid directory && [ -n "$one" ]; do
        ports+=("$one") servers+=("$pid")
    done <&"$answer"
    port=${ports[0]} server=${servers[0]}
}

# ENGINE, as `pawl --version` has it
in_build() {
    missing="this build has no engine for it"
    "$PAWL" --version | grep -qw "$1"
}

start_redis() {
    in_build redis && start_servers redis
}

start_zookeeper() {
    in_build zk && start_servers zookeeper
}
