#!/usr/bin/env bash
# node-redlock, from npm, and pawl exclude each other: on one server with layout=plain, and over five.
# shellcheck source=tests/interop/common.sh
. "$(dirname "$0")/common.sh"
export MODULES=$cache/node
command -v node >/dev/null || skip_all "there is no node (Debian: nodejs)"
if [ ! -d "$MODULES/node_modules/redlock" ]; then
    command -v npm >/dev/null || skip_all "there is no npm to fetch node-redlock"
    mkdir -p "$MODULES"
    timeout 120 npm install --silent --no-audit --no-fund --prefix "$MODULES" redlock@5.0.0-beta.2 ioredis@5 >/dev/null 2>&1 ||
        skip_all "the npm registry can't be reached for node-redlock"
fi
start_servers redis
export PAWL_URL="$PAWL_URL?layout=plain"
check "node-redlock and pawl with layout=plain" node "$SOURCE_DIR/tests/interop/redlock.mjs"
start_servers redlock
check "node-redlock and pawl over five servers" node "$SOURCE_DIR/tests/interop/redlock.mjs"
end
