#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An engine that is asked for and can't be built ends the configuration, in words; one that is not asked for is left out, and the summary
# says so. Where the libraries are, they are hidden: a compiler that does not find ZooKeeper's, a pkg-config that finds nothing.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

cat >"$scratch/cc" <<'END'
#!/bin/sh
case $* in
*--print-search-dirs*) exit 0 ;;
*zookeeper_st*) exit 1 ;;
esac
exec cc "$@"
END
chmod +x "$scratch/cc"

configure() { # option...
    rm -rf "$scratch/build"
    CC=$scratch/cc PKG_CONFIG=/bin/false CMAKE=/bin/false \
        meson setup -Dtests=disabled -Dexamples=false "$@" "$scratch/build" "$SOURCE_DIR" 2>&1
}

said=$(configure) && status=0 || status=$?
equal "without the libraries pawl can be built" 0 "$status"
matches "... and it is said that redis: is not in it, and why" "*redis, redlock*NO (*libhiredis-dev libssl-dev)*" "$said"
matches "... nor zk:" "*zk*NO (*libzookeeper-st-dev)*" "$said"
said=$(configure -Dredis=disabled -Dzookeeper=disabled) && status=0 || status=$?
equal "engines can be left out" 0 "$status"
matches "... and that is said" "*no (-Dredis=disabled)*no (-Dzookeeper=disabled)*" "$said"
said=$(configure -Dredis=enabled) && status=0 || status=$?
check "-Dredis=enabled fails where it can't be built" [ "$status" -ne 0 ]
matches "... and says what to install" "*ERROR*redis*Debian: libhiredis-dev libssl-dev*" "$said"
said=$(configure -Dzookeeper=enabled) && status=0 || status=$?
check "-Dzookeeper=enabled fails where it can't be built" [ "$status" -ne 0 ]
matches "... and says what to install" "*ERROR*zookeeper*Debian: libzookeeper-st-dev*" "$said"
done_testing
