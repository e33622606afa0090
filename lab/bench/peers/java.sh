# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the peers in Java share: jars, compiled once. To be sourced by a script with $peer set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BUILD_DIR:-$here/../../../build}/bench-peers
mkdir -p "$cache"

missing() { # WHY
    printf '{"peer": "%s", "missing": "%s"}\n' "${peer:?}" "$1"
    exit 0
}

# GROUP, ARTIFACT, VERSION: from Maven Central, with all that it needs. Sets $jars.
fetch() {
    jars=$cache/$2-$3
    [ ! -d "$jars" ] || return 0
    command -v mvn >/dev/null || missing "there is no mvn to fetch $peer (Debian: maven)"
    rm -rf "$jars.new"
    cat >"$cache/$2.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pawl</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies><dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency></dependencies>
</project>
END
    timeout 240 mvn -q -B -f "$cache/$2.xml" dependency:copy-dependencies -DoutputDirectory="$jars.new" >/dev/null 2>&1 ||
        missing "Maven Central can't be reached for $peer"
    mv "$jars.new" "$jars"
}

# CLASS, CLASSPATH, VERSION, ADDRESS
run_class() {
    local classes=$cache/$1-$3-classes
    if [ ! "$classes/$1.class" -nt "$here/$1.java" ] || [ ! "$classes/Peer.class" -nt "$here/Peer.java" ]; then
        javac -nowarn -d "$classes" -cp "$2" "$here/Peer.java" "$here/$1.java" >&2 || missing "$1.java does not compile"
    fi
    exec java -Xmx256m -XX:+UseSerialGC -cp "$classes:$2" "$1" "$4" "$3"
}

command -v javac >/dev/null || missing "there is no javac (Debian: default-jdk-headless)"
