#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo plays to its end, and its verdict is not a rubber stamp.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
demo=$(cd "$(dirname "$0")/../../demo" && pwd)

status_is 0 "the demo" "$demo/run"
matches "... draws who held when, and judges" "*amber*ember*holds*yes*no two of them overlapped*the tokens rose*did its work*" "$printed"
equal "... without colours where there is no terminal" "${printed//$'\033'/}" "$printed"
for engine in redis zookeeper; do
    if ! "$PAWL" --version | sed 's/zk/zookeeper/' | grep -qw $engine; then
        status_is 1 "$engine is not in this build" "$demo/run" $engine
        matches "... and the demo says so" "demo: the $engine engine is not in this build*" "$said"
    elif [ $engine = redis ] && ! command -v redis-server >/dev/null; then
        skip "the demo on redis" "there is no redis-server (Debian: redis-server)"
    elif [ $engine = zookeeper ] && { [ ! -e /usr/share/java/zookeeper.jar ] || ! command -v java >/dev/null; }; then
        skip "the demo on zookeeper" "there is no ZooKeeper (Debian: zookeeper, default-jre-headless)"
    else
        status_is 0 "the demo on $engine" "$demo/run" $engine
        matches "... judges that too" "*no two of them overlapped*the tokens rose*did its work*" "$printed"
    fi
done
status_is 64 "an engine that nobody knows" "$demo/run" frob

# Servers that stay until they are told to go, and leave nothing. A cluster takes its time.
patiently() {
    eventually "$@" || eventually "$@" || eventually "$@"
}
status_is 64 "servers of no known kind" "$demo/serve" frob
for engine in redis-sentinel redis-cluster redlock; do
    if ! "$PAWL" --version | grep -qw redis || ! command -v redis-server >/dev/null; then
        skip "servers for $engine" "there is no redis-server (Debian: redis-server), or no engine for it in this build"
        continue
    fi
    mkdir "$scratch/$engine"
    TMPDIR=$scratch/$engine "$demo/serve" $engine >"$scratch/$engine.said" 2>&1 &
    servers=$!
    check "servers for $engine are there" patiently grep -q '^export PAWL_URL' "$scratch/$engine.said"
    PAWL_URL=$(sed -n "s/^export PAWL_URL='\\(.*\\)'$/\\1/p" "$scratch/$engine.said")
    status_is 0 "... and are used" "$PAWL" run -u "$PAWL_URL" demo -- true
    kill "$servers"
    wait "$servers"
    equal "... and leave nothing" "" "$(ls "$scratch/$engine")"
done

judge() { # EVENT...: does the verdict accept ten good holds and then these?
    local i
    {
        for i in {1..10}; do
            printf '%d ask a -\n%d in a %d\n%d out a %d\n' $((i * 100)) $((i * 100 + 10)) "$i" $((i * 100 + 50)) "$i"
        done
        printf '2000 in b 20\n2050 kill b 20\n2100 in c 21\n2150 out c 21\n'
        printf '%s\n' "$@"
    } | awk -v names='a b c' -v columns=80 -v colour=0 -v utf8=0 -v now=3000 -v mode=final -f "$demo/timeline.awk" >"$scratch/drawn"
}
check "the verdict accepts what is good" judge
check "... refuses holds that overlap" eval '! judge "2120 in a 22" "2200 out a 22"'
check "... says so" grep -q 'NO .*overlapped' "$scratch/drawn"
check "... refuses tokens that fall" eval '! judge "2200 in a 19" "2300 out a 19"'
check "... refuses tokens that stay" eval '! judge "2200 in a 21" "2300 out a 21"'
check "... refuses a hold without an end" eval '! judge "2200 in a 22"'
check "... compares tokens of 64 bits" judge '2200 in a 9223372036854775807' '2210 out a 9223372036854775807' \
    '2220 in a 9223372036854775808' '2230 out a 9223372036854775808'
check "... accepts one more" judge '2200 in a 22' '2210 out a 22'
equal "... writes small tokens as they are, and says where they are" 2 \
    "$(grep -cE 'in a hold is its token|rose: 1 < 2 < 3 ' "$scratch/drawn")"

# Tokens that are a server's time: too long for a hold, and alike but for their end.
for i in {10..24}; do
    printf '%d in a 17948448043%d0\n%d out a 17948448043%d0\n' "${i}00" "$i" "${i}50" "$i"
done | awk -v names=a -v columns=80 -v colour=0 -v utf8=0 -v now=3000 -v mode=final -f "$demo/timeline.awk" >"$scratch/drawn"
check "... writes long tokens without what all have in common" \
    grep -q 'the tokens rose (all begin with 17948448043, left out here): 100 < 110 < 120 ' "$scratch/drawn"
equal "... and speaks of no number that is not there" 0 "$(grep -c 'its token' "$scratch/drawn")"

done_testing
