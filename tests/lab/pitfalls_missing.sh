#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lab/pitfalls/run that lacks a part of the build says which, and fails: nobody must take a play that was left out for one that went well.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
mkdir -p "$scratch/build/python"
ln -s "$PAWL-servers" "$scratch/build/pawl-servers"

echo 'raise ImportError' >"$scratch/build/python/pawl.py"
said=$(BUILD_DIR=$scratch/build "$SOURCE_DIR/lab/pitfalls/run" 16 2>&1)
equal "without the package of Python it fails" 1 $?
matches "... and says so" "*the package pawl is not built*" "$said"
# That the package can be imported is enough: the play ends before it is needed.
true >"$scratch/build/python/pawl.py"
if command -v redis-server >/dev/null; then
    said=$(BUILD_DIR=$scratch/build "$SOURCE_DIR/lab/pitfalls/run" 16 2>&1)
    equal "without the library that bends clocks, too" 1 $?
    matches "... and it says how to build it" "*ninja -C build tests/libclock_shim.so*Not as it must be:*" "$said"
fi
said=$(PATH=/nonexistent BUILD_DIR=$scratch/build /usr/bin/python3 "$SOURCE_DIR/lab/pitfalls/run" 16 2>&1)
equal "and without a server" 1 $?
matches "... and it names what was left out" "*Left out: Redlock, and a clock that jumps*" "$said"
tap=$(PATH=/nonexistent BUILD_DIR=$scratch/build /usr/bin/python3 "$SOURCE_DIR/lab/pitfalls/run" --tap 16 2>&1)
equal "as a test, it is a skip" 0 $?
matches "... that gives the reason" "*ok 1 - *# SKIP *" "$tap"

done_testing
