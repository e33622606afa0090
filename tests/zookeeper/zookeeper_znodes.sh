#!/usr/bin/env bash
# examples/znodes on a ZooKeeper of its own. Prints TAP. $BUILD_DIR holds the example.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

echo "1..1"
if [ ! -e /usr/share/java/zookeeper.jar ] || ! command -v java >/dev/null; then
    echo "ok 1 - examples/znodes # SKIP there is no ZooKeeper (Debian: zookeeper)"
    exit 0
fi
if output=$(timeout 100 /usr/bin/python3 "$here/../interop/with_zookeeper.py" "$BUILD_DIR/examples/znodes" 2>&1); then
    echo "ok 1 - examples/znodes"
else
    printf '%s\n' "$output" | sed 's/^/# /'
    echo "not ok 1 - examples/znodes"
    exit 1
fi
