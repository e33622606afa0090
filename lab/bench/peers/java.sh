# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the peers in Java share: jars, compiled once. To be sourced by a script with $peer set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BUILD_DIR:-$here/../../build}/bench-peers
mkdir -p "$cache"

missing() { # WHY
    printf '{"peer": "%s", "missing": "%s"}\n' "${peer:?}" "$1"
    exit 0
}

# CLASS, CLASSPATH, VERSION, ADDRESS
run_class() {
    if [ ! "$cache/$1.class" -nt "$here/$1.java" ] || [ ! "$cache/Peer.class" -nt "$here/Peer.java" ]; then
        javac -nowarn -d "$cache" -cp "$2" "$here/Peer.java" "$here/$1.java" >&2 || missing "$1.java does not compile"
    fi
    exec java -Xmx256m -XX:+UseSerialGC -cp "$cache:$2" "$1" "$4" "$3"
}

command -v javac >/dev/null || missing "there is no javac (Debian: default-jdk-headless)"
