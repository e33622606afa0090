#!/usr/bin/env bash
# redsync, by the Go proxy, and pawl over the same five servers exclude each other.
# shellcheck source=tests/interop/common.sh
. "$(dirname "$0")/common.sh"
command -v go >/dev/null || skip_all "there is no go (Debian: golang-go)"
peer=$cache/redsync
if [ ! -x "$peer/redsync" ] || [ "$SOURCE_DIR/tests/interop/redsync/main.go" -nt "$peer/redsync" ]; then
    mkdir -p "$peer"
    cp "$SOURCE_DIR/tests/interop/redsync/"* "$peer"
    (cd "$peer" && timeout 200 go mod tidy && timeout 200 go build -buildvcs=false -o redsync .) >"$scratch/output" 2>&1 || {
        sed 's/^/# /' "$scratch/output"
        skip_all "redsync can't be fetched, or not be built with this go"
    }
fi
start_servers redlock
check "redsync and pawl over five servers" "$peer/redsync"
end
