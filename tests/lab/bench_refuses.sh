#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A benchmark that lacks its servers, or what it counts with, leaves the pages alone, says what is missing, and fails: what it would
# write has holes. All in a copy, on a machine that has everything but those commands.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"

tree=$scratch/tree
mkdir -p "$tree" "$scratch/bin" "$scratch/build/lab/bench"
ln -s "$PAWL" "$scratch/build/pawl"
ln -s "$PAWL-bench" "$scratch/build/pawl-bench"
ln -s "$PAWL-servers" "$scratch/build/pawl-servers"
for program in bench-command bench-cycles bench-taker peer-kernel; do
    ln -s /bin/true "$scratch/build/lab/bench/$program" # it does not come so far
done
cp -r "$SOURCE_DIR"/{bench,lab,README.md} "$tree"
for directory in /usr/local/bin /usr/bin /bin; do
    find "$directory/" -maxdepth 1 ! -type d -exec ln -sf -t "$scratch/bin" {} +
done
ln -sf /bin/true "$scratch/bin/ninja"

sums() {
    (cd "$tree" && find . -type f ! -path '*/__pycache__/*' -exec sha256sum {} + | sort -k 2)
}
before=$(sums)

# What lab/bench/PROGRAM says on a machine without these commands.
without() { # PROGRAM, COMMAND...
    local program=$1
    shift
    rm -rf "$scratch/less"
    cp -r "$scratch/bin" "$scratch/less"
    rm -f "${@/#/$scratch/less/}"
    said=$(PATH=$scratch/less BUILD_DIR=$scratch/build timeout 120 "$tree/lab/bench/$program" 2>&1) && status=0 || status=$?
}

without run redis-server java etcd
equal "lab/bench/run without its servers fails" 1 "$status"
matches "... and names them" "*RESULTS.md has figures that *Redis*there is no redis-server*there is no ZooKeeper*It is as it was*" "$said"
equal "... and leaves the page as it was" "$before" "$(sums)"
without failover redis-server
equal "lab/bench/failover without its servers fails" 1 "$status"
matches "... and names them" "*there is no redis-server*FAILOVER.md is as it was*" "$said"
equal "... and leaves the page as it was" "$before" "$(sums)"
done_testing
