#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rig must be able to fail: it runs on locks as documents warn of them (lab/textbook/textbook.h), on real servers, and must find out
# wrong settings by the right rule; and find nothing wrong with the right ones: torture_textbook.sh redis|zookeeper
#
# These are the ones that show at once. All of them are found out in the simulated world: sim/tests/textbook.sh.
set -u
: "${TEXTBOOK:?the rig with the textbook engine}"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
count=0
failures=0
seed=1

report() { # WHETHER, NAME
    count=$((count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $count - $2"
    else
        failures=$((failures + 1))
        sed 's/^/# /' "$scratch/output"
        echo "not ok $count - $2"
    fi
}

run() { # SERVICE, SETTINGS, FAULTS, TIME, OPTION...
    "$TEXTBOOK" --start "$1" --options "$2" --faults "$3" --time "$4" --kinds mutex --locks 1 --clients 6 --threads 1 \
        --seed "$seed" --lease 1s --pace 500 -o "$scratch/history" "${@:5}" >"$scratch/output" 2>&1
}

# Nothing is wrong.
right() { # SERVICE, FAULTS
    run "$1" '' "$2" 4s
    report $? "$1: the right settings pass"
}

# Found out, by this rule: sooner or later, since on a busy machine little happens in ten seconds.
wrong() { # SERVICE, SETTINGS, FAULTS, RULE, TIME, OPTION...
    local missed=1
    for seed in 1 2 3 4; do
        run "$1" "$2" "$3" "${@:5}"
        [ $? -eq 65 ] && grep -q "^VIOLATION  $4:" "$scratch/output" && missed=0 && break
    done
    report $missed "$1: $2 is found out by the rule '$4'"
    seed=1
}

if [ "$1" = redis ]; then
    command -v redis-server >/dev/null || { echo '1..0 # SKIP there is no redis-server' && exit; }
    right redis client-kill,client-stop
    wrong redis token=reused none token 3s
else
    [ -e /usr/share/java/zookeeper.jar ] || { echo '1..0 # SKIP there is no ZooKeeper' && exit; }
    right zookeeper client-kill,client-stop
    wrong zookeeper watch=children none herd 6s --clients 16
    wrong zookeeper token=reused none token 3s
fi
echo "1..$count"
[ $failures -eq 0 ]
