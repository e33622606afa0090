#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/systemd and examples/kubernetes: systemd and YAML take them, and pawl takes the command lines in them. examples/leader.c: one of
# several leads at a time, and all of them know which.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"

examples=$SOURCE_DIR/examples
runs() { # name, the words of a command: it runs, with `true` in the place of what it would run, on locks of this machine
    local name=$1 word
    local -a line=()
    shift
    for word; do
        if [[ $word == -- ]]; then
            break
        fi
        line+=("$word")
    done
    # An election goes on for ever.
    [ "${line[1]}" != elect ] || line+=(--once)
    status_is 0 "$name: pawl takes its command line" "$PAWL" "${line[@]:1}" -- true
}

for unit in "$examples"/systemd/*.service; do
    read -ra words < <(sed -n 's/^ExecStart=//p' "$unit")
    runs "${unit##*/}" "${words[@]}"
    sed "s|^ExecStart=.*|ExecStart=$(command -v true)|; /^Documentation=/d" "$unit" >"$scratch/${unit##*/}"
done
cp "$examples"/systemd/*.timer "$scratch"
if command -v systemd-analyze >/dev/null; then
    for unit in "$examples"/systemd/*; do
        equal "${unit##*/}: systemd has nothing to say" "" \
            "$(cd "$scratch" && systemd-analyze verify "./${unit##*/}" 2>&1 | grep "^${unit##*/}")"
    done
else
    skip "systemd has nothing to say" "there is no systemd-analyze (Debian: systemd)"
fi

commands='import sys, yaml
spec = yaml.safe_load(open(sys.argv[1]))["spec"]
pod = (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]["spec"]
print(*pod["containers"][0]["command"], sep="\n")'
if python3 -c 'import yaml' 2>/dev/null; then
    for file in "$examples"/kubernetes/*.yaml; do
        mapfile -t words < <(python3 -c "$commands" "$file")
        runs "${file##*/}" "${words[@]}"
    done
else
    skip "the files for Kubernetes" "there is no YAML for Python (Debian: python3-yaml)"
fi

# ---- examples/leader.c ----

leader=$BUILD_DIR/examples/leader
if [ -x "$leader" ]; then
    start one "$leader" web one:80 >"$scratch/one-says"
    one=$started
    says() { # WHO, TEXT
        grep -q -- "$2" "$scratch/$1-says"
    }
    check "one leads, and knows it" eventually says one "term [0-9]*: one:80 leads"
    start two "$leader" web two:80 >"$scratch/two-says"
    two=$started
    check "another one knows it, too" eventually says two "term [0-9]*: one:80 leads"
    matches "... and pawl leader" "* one:80" "$("$PAWL" leader web)"
    check "... and waits" eventually waits web 1
    quit "$one"
    check "... until the first is gone" eventually says two "term [0-9]*: two:80 leads"
    quit "$two"
else
    skip "leader.c" "the examples are not built (-Dexamples=false)"
fi

done_testing
