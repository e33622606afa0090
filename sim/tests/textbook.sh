#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rig must be able to fail: on locks as documents warn of them (lab/textbook/textbook.h) it must find out each wrong setting by the
# right rule; and find nothing wrong with the right ones: textbook.sh PAWL-SIM MUTANTS
#
# The settings are those of sim/mutants. tests/lab/torture_textbook.sh plays some of them on real servers.
set -u
count=0
failures=0

report() { # WHETHER, NAME
    count=$((count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $count - $2"
    else
        failures=$((failures + 1))
        echo "not ok $count - $2"
    fi
}

# NAME, SERVICE, OPTIONS, RULE...
wrong() {
    local found='' rule
    for rule in "${@:4}"; do
        "$sim" --service "$2" --options "$3" --seed 1 --count 300 --until-violation --rule "$rule" | grep -q "^  *$rule: " &&
            found=$rule && break
    done
    test -n "$found"
    report $? "$1 is found out by the rule ${found:-$4}"
}

right() { # SERVICE
    local options=textbook=1,kinds=m,locks=1,clients=6,threads=1,sets=0,lease=1000
    "$sim" --service "$1" --seed 1 --count 60 \
        --options "$options,faults=client-kill+client-stop,actors=none,nonsense=0,throttle=0,url=" | sed 's/^/# /'
    report "${PIPESTATUS[0]}" "$1: the right settings pass"
}

sim=$1
right redis
right zookeeper
while IFS=$'\t' read -r name service options rules; do
    # shellcheck disable=SC2086 # several rules
    wrong "$name" "$service" "$options" $rules
done < <(awk -F ': ' '
    $1 == "textbook" { name = $2 }
    name && NF > 1 { field[$1] = $2 }
    NF == 0 && name { print name "\t" field["service"] "\t" field["options"] "\t" field["rules"]; name = "" }' "$2")
echo "1..$count"
[ $failures -eq 0 ] && [ $count -gt 10 ]
