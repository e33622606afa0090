# What the interop tests share: a Redis server of their own, TAP, and a place for downloaded peers. Sourced, not run.
# shellcheck shell=bash
set -uo pipefail

: "${PAWL:?the pawl command}" "${BUILD_DIR:?}" "${SOURCE_DIR:?}"
cache=$BUILD_DIR/interop
mkdir -p "$cache"
scratch=$(mktemp -d)
count=0
failed=0

finish() {
    # The servers end with their input, which this shell alone has open.
    [ -z "${starter-}" ] || kill "$starter" 2>/dev/null
    wait
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

# KIND, OPTION...: see `pawl-servers --help`. In place of what was started before. Sets $PAWL_URL, $PORTS, separated by commas, and $PORT,
# those of them that clients are to be told.
start_servers() {
    local kind=$1 port rest ports=()
    shift
    if [ -n "${starter-}" ]; then
        kill "$starter"
        wait "$starter"
    fi
    rm -f "$scratch/input" "$scratch/servers"
    mkfifo "$scratch/input" "$scratch/servers"
    TMPDIR=$scratch "$PAWL-servers" start "$kind" "$@" <"$scratch/input" >"$scratch/servers" 2>"$scratch/missing" &
    starter=$!
    exec 8>"$scratch/input" 9<"$scratch/servers"
    read -r PAWL_URL <&9 || skip_all "$(sed 's/^pawl: //' "$scratch/missing")"
    while read -r port rest && [ -n "$port" ]; do ports+=("$port"); done <&9
    PORTS=$(IFS=, && echo "${ports[*]}")
    PORT=$PORTS
    export PAWL_URL PORT PORTS
}

# $PORT: the sentinels', $PORTS: the servers'.
start_sentinels() {
    start_servers sentinel
    PORT=${PORTS#*,*,*,}
    PORTS=${PORTS%",$PORT"}
}

# $PORT: the primaries'.
start_cluster() {
    start_servers cluster
    PORT=${PORTS%,*,*,*}
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
