#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/layers finds what it is there to find, in a small tree of its own: an include that goes up, a folder without a line, files that
# call each other in a circle, a clock that is read outside os/, a program that looks into the library. It has nothing to say of a tree
# without them.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$scratch" || exit 1
mkdir -p tools build/src src/base src/core src/engine/local
cp "$root/tools/layers" tools/

# PATH, LINE...: a file of src/, and its object in the library
file() {
    local path=$1 object
    shift
    object=$(tr / _ <<<"$path").o
    printf '%s\n' "$@" >"src/$path"
    # shellcheck disable=SC2086 # there may be a word before the compiler
    ${CC:-cc} -Isrc -c -o "$object" "src/$path" && ar rc build/src/libpawl-test.a "$object"
}

# NAME, STATUS, TEXT: how the tool ends, and what it says
layers() {
    equal "$1" "$2: $3" "$(
        said=$(tools/layers build 2>&1)
        echo "$?: $said"
    )"
}

echo 'void upper(void);' >src/core/upper.h
file base/lower.c 'void lower(void); void lower(void) { }'
file core/upper.c '#include "core/upper.h"' 'void lower(void); void upper(void) { lower(); }'
file engine/local/one.c 'void two(void); void one(void); void one(void) { two(); }'
file engine/local/two.c 'void two(void); void two(void) { }'
layers 'calls and includes that go down are good' 0 ''

file base/lower.c '#include "core/upper.h"' 'void lower(void); void lower(void) { }'
layers 'an include that goes up is not' 1 'src/base/lower.c:1: base may not include core/upper.h'

file base/lower.c 'void lower(void); void lower(void) { }'
file engine/local/two.c 'void one(void); void two(void); void two(void) { one(); }'
layers 'nor do two files call each other' 1 \
    'engine/local: these files call each other in a circle: engine/local/one.c engine/local/two.c'

file engine/local/two.c 'void one(void); void two(void); void (*const table[])(void) = {one}; void two(void) { }'
layers 'a table of functions is a call' 1 \
    'engine/local: these files call each other in a circle: engine/local/one.c engine/local/two.c'

file engine/local/two.c 'void two(void); void two(void) { }'
mkdir src/attic
echo >src/attic/old.h
layers 'each folder has its line' 1 "src/attic/old.h: tools/layers has no line for the folder 'attic'"

rm -r src/attic
file core/upper.c '#include <time.h>' 'void lower(void); void upper(void); void upper(void) { time(NULL); lower(); }'
layers 'only os/ asks for the time' 1 'src/core/upper.c calls time: that is for src/os/'

file core/upper.c '#include "core/upper.h"' 'void lower(void); void upper(void) { lower(); }'
mkdir -p cli/common lab/bench
echo '#include "../src/core/upper.h"' >cli/main.c
echo '#include "common/cli.h"' >cli/run.c
echo '#include "core/upper.h"' >lab/bench/bench.h
echo '#include "../../cli/common/cli.h"' >lab/bench/bench.c
touch cli/common/cli.h
layers 'a program does not look into the library' 1 'cli/main.c:1: cli may not include ../src/core/upper.h
lab/bench/bench.h:1: lab may not include core/upper.h'

rm cli/main.c lab/bench/bench.h
mkdir src/os
file os/clock.c '#include <time.h>' 'void lower(void); time_t now(void); time_t now(void) { lower(); return time(NULL); }'
layers 'and without all that it is good again' 0 ''

done_testing
