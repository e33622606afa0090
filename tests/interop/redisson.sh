#!/usr/bin/env bash
# Redisson, from Maven Central, and pawl exclude each other and wake each other: on one server, with sentinels, and in a cluster.
# shellcheck source=tests/interop/common.sh
. "$(dirname "$0")/common.sh"
jars=$cache/redisson-4.7.0
command -v javac >/dev/null || skip_all "there is no javac (Debian: default-jdk-headless)"
if [ ! -d "$jars" ]; then
    command -v mvn >/dev/null || skip_all "there is no mvn to fetch Redisson (Debian: maven)"
    timeout 240 mvn -q -B -f "$SOURCE_DIR/tests/interop/pom.xml" dependency:copy-dependencies -DoutputDirectory="$scratch/jars" \
        >/dev/null 2>&1 ||
        skip_all "Maven Central can't be reached for Redisson"
    mv "$scratch/jars" "$jars"
fi
start_servers redis
patience=240
mkdir -p "$scratch/java"
cp "$SOURCE_DIR/tests/interop/Redisson.java" "$scratch/java/Interop.java"
check "the Redisson side compiles" javac -nowarn -cp "$jars/*" -d "$scratch/java" "$scratch/java/Interop.java"

play() { # name
    check "$1" java -cp "$jars/*:$scratch/java" Interop "$PAWL" "$PAWL_URL" "$PORT" "$PORTS"
    grep '^# ' "$scratch/output"
}
play "Redisson and pawl"
start_sentinels
play "Redisson and pawl, with sentinels"
start_cluster
play "Redisson and pawl in a cluster"
end
