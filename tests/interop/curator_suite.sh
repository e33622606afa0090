#!/usr/bin/env bash
# Curator's own tests of its locks, from Maven Central, played on pawl: tests/interop/curator_suite.sh [PART OF A NAME]...
# They start ZooKeepers themselves, in their own process, and stop them as they please. Some minutes.
# shellcheck source=tests/interop/common.sh
. "$(dirname "$0")/common.sh"
source=$SOURCE_DIR/tests/interop/curator
jars=$cache/curator-5.7.1
command -v javac >/dev/null || skip_all "there is no javac (Debian: default-jdk-headless)"
if [ ! -d "$jars" ]; then
    command -v mvn >/dev/null || skip_all "there is no mvn to fetch Curator's tests (Debian: maven)"
    timeout 240 mvn -q -B -f "$source/pom.xml" dependency:copy-dependencies -DoutputDirectory="$scratch/jars" >/dev/null 2>&1 ||
        skip_all "Maven Central can't be reached for Curator's tests"
    mv "$scratch/jars" "$jars"
fi
mkdir "$scratch/classes"
find "$source" -name '*.java' -exec javac -nowarn -d "$scratch/classes" -cp "$jars/*" {} + >&2 || bail_out "the stand-ins do not compile"
java -Xmx512m -Dlibpawl="$BUILD_DIR/src/libpawl.so" -cp "$scratch/classes:$jars/*" CuratorSuite "$@" >"$scratch/said" 2>"$scratch/log"
status=$?
grep -E '^((not )?ok |# |1\.\.)' "$scratch/said"
exit $status
