#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/znodes on a ZooKeeper of its own. $BUILD_DIR holds the example.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/../cli/cli_servers.sh"

znodes() {
    timeout 100 "$BUILD_DIR/examples/znodes" "127.0.0.1:$port" >"$scratch/said" 2>&1
}

if start_zookeeper; then
    check "examples/znodes" znodes
    sed 's/^/# /' "$scratch/said"
else
    skip "examples/znodes" "$missing"
fi
done_testing
