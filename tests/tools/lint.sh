#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rules of tools/lint find what they are there to find. In a small tree of its own each has nothing to say until one file breaks it,
# and says then what is wrong.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$scratch/tree" "$scratch/build/src"
cd "$scratch/tree" || exit 1
export GIT_DIR=$scratch/none # it is no part of a repository that it happens to lie in
export BUILD_DIR=$scratch/build
mkdir -p tools src/engine/redis/lock cli lab sim tests include man docs
cp "$root"/tools/{lint,sources,words,check-editorconfig,check-names,check-structs} tools/
cp "$root"/.{editorconfig,clang-format} .
touch README.md ARCHITECTURE.md CONTRIBUTING.md

# RULE, FILE, LINES, COMPLAINT (a pattern): what the rule has to say of a file with these lines. Then the file is as it was.
breaks() {
    local rule=$1 file=$2 before
    before=$(tools/lint "$rule" 2>&1)
    [ ! -e "$file" ] || cp "$file" "$scratch/as-it-was"
    printf '%s\n' "$3" >"$file"
    matches "$rule" "ok 1 - $rule"$'\n'"1..1 + # $4"$'\n'"not ok 1 - $rule"$'\n'1..1 "$before + $(tools/lint "$rule" 2>&1)"
    rm "$file"
    [ ! -e "$scratch/as-it-was" ] || mv "$scratch/as-it-was" "$file"
}

# FILE, LINES: into the library, as what is built of this file of src/
compile() {
    local object
    object=$BUILD_DIR/$(tr / _ <<<"${1#src/}").o
    # shellcheck disable=SC2086 # there may be a word before the compiler
    ${CC:-cc} -x c -c -o "$object" - <<<"$2" && ar rc "$library" "$object"
}

# As breaks, for a rule that looks into the library, too: FILE can be compiled.
breaks_built() {
    library=$BUILD_DIR/src/libpawl-test.a
    compile src/core/upper.c 'int pawl__upper(void); int pawl__upper(void) { return 0; }'
    equal "$1 before" "ok 1 - $1"$'\n'1..1 "$(tools/lint "$1" 2>&1)"
    compile "$2" "$3"
    printf '%s\n' "$3" >"$2"
    matches "$1" "# $4"$'\n'"not ok 1 - $1"$'\n'1..1 "$(tools/lint "$1" 2>&1)"
    rm "$2" "$library"
}

# COUNT, LINE: the line so often
lines() {
    yes "$2" | head -n "$1"
}

breaks 'no struct has more than 30 fields' src/large.h "struct large {
$(lines 31 'int field;')
};" 'src/large.h:1: struct large has 31 fields'

breaks 'few places ask for the layout' src/engine/redis/lock/asks.c "$(lines 11 'switch (options->layout) {')" \
    'src/engine/redis/lock/asks.c:1:*more than 10 places *'

mkdir src/core
breaks 'states are written by the steps of their tables' src/core/handle.c 'claim->state = CLAIM_HELD;' \
    'src/core/handle.c:1:claim->state = CLAIM_HELD;*'
breaks 'states are written by the steps of their tables' src/core/claim.c "$(lines 2 'claim->state = next;')" \
    'src/core/claim.c:2:claim->state = next;*'

mkdir -p src/base src/engine/local
printf '%s\n' 'PAWL_0.1 {' 'global:' '    pawl_open;' '};' >src/pawl.map
breaks_built 'names say whose they are' src/engine/local/own.c 'int own(void); int own(void) { return 0; }' \
    'engine/local shares own: that begins with pawl__'
breaks_built 'names say whose they are' src/engine/local/open.c 'int pawl_close(void); int pawl_close(void) { return 0; }' \
    'engine/local shares pawl_close: that begins with pawl__'
breaks_built 'names say whose they are' src/base/taken.c 'int pawl__upper_one(void); int pawl__upper_one(void) { return 0; }' \
    'base shares pawl__upper_one, and core pawl__upper: the first word is one room'"'s alone"
breaks_built 'names say whose they are' src/engine/inline.c 'static int pawl__alone(void) { return 0; }
int pawl_open(void); int pawl_open(void) { return pawl__alone(); }' \
    'src/engine/inline.c:1: pawl__alone is static, and bears the prefix of what is not'

mkdir -p demo examples python debian/tests lab/servers
echo 'execlp("redis-server", "redis-server", path, NULL);' >lab/servers/redis.c
breaks 'servers are started at one place' tests/own.sh 'redis-server --port 7000 &' 'tests/own.sh:1:*'
breaks 'servers are started at one place' lab/own.py 'Popen(["redis-server", "--port", port])' 'lab/own.py:1:*'
rm lab/servers/redis.c

breaks 'plain words' docs/page.md "This is $(head -n 1 tools/words)." 'docs/page.md:1:This is *'

breaks 'licence lines' cli/bare.c 'int main(void);' 'cli/bare.c: its first line names no licence'

# The interface of a library of one function.
api='#include <stddef.h>
#define PAWL_PUBLIC __attribute__((visibility("default")))'
printf '%s\n' "$api" 'PAWL_PUBLIC int pawl_open(const char *url);' >include/pawl.h
printf '%s\n' '#include "pawl.h"' 'inline int pawl_open_here() { return pawl_open(nullptr); }' >include/pawl.hpp
printf '%s\n' 'PAWL_0.1 {' 'global:' '    pawl_open;' 'local:' '    *;' '};' >src/pawl.map
printf '%s\n' 'libpawl.so.0 libpawl0 #MINVER#' ' PAWL_0.1@PAWL_0.1 0.1' ' pawl_open@PAWL_0.1 0.1' >debian/libpawl0.symbols
exported() { # SONAME
    # shellcheck disable=SC2086 # there may be a word before the compiler
    ${CC:-cc} -shared -fPIC -x c -Iinclude -Wl,-soname,"$1" -Wl,--version-script=src/pawl.map -o "$BUILD_DIR/src/libpawl.so" - <<<"
#include \"pawl.h\"
int pawl_open(const char *url) { return url != NULL; }"
}
exported libpawl.so.0
breaks 'the library exports what pawl.h declares' include/pawl.h "$(cat include/pawl.h)
PAWL_PUBLIC int pawl_more(void);" '--- pawl.h*-pawl_more*'
breaks 'the library exports what pawl.h declares' src/pawl.map "$(sed 's/pawl_open;/&\n    pawl_more;/' src/pawl.map)" \
    '--- pawl.h*+pawl_more*'
breaks 'the symbols that debian/ lists are those of pawl.map' debian/libpawl0.symbols "$(sed '$d' debian/libpawl0.symbols)" \
    '--- src/pawl.map*-pawl_open@PAWL_0.1*'
equal 'soname before' "ok 1 - soname"$'\n'1..1 "$(tools/lint soname 2>&1)"
exported libpawl.so.1
matches 'soname' '# the soname is not libpawl.so.0*not ok 1 - soname*' "$(tools/lint soname 2>&1)"

printf '%s\n' "dependency('openssl', required: false) # Debian: libssl-dev" "error('Debian: libssl-dev')" >src/meson.build
printf '%s\n' "option('redis', type: 'feature', description: 'The engine for Redis')" >meson_options.txt
printf '%s\n' 'Build-Depends:' ' libssl-dev,' 'Package: pawl' >debian/control
printf '%s\n' 'build=(cc libssl-dev)' >tools/deps
printf '%s\n' '#!/usr/bin/make -f' 'configure = -Dredis=enabled' >debian/rules
breaks 'debian/ asks for every engine' debian/control 'Build-Depends:
Package: pawl' 'debian/control: Build-Depends lacks libssl-dev'
breaks 'debian/ asks for every engine' tools/deps 'build=(cc)' 'tools/deps: build lacks libssl-dev'
breaks 'debian/ asks for every engine' debian/rules '#!/usr/bin/make -f' 'debian/rules does not ask for -Dredis=enabled'

if command -v gcc >/dev/null; then
    for rule in 'pawl.h is C99' 'pawl.h is C11'; do
        breaks "$rule" include/pawl.h "$api"$'\nint pawl_open();\nint x = ({ 1; });' '*error: *'
    done
    for rule in 'pawl.h is C++11' 'pawl.h is C++20'; do
        breaks "$rule" include/pawl.h "$api"$'\nint pawl_open(int new);' '*error: *'
    done
    for rule in 'pawl.hpp is C++11' 'pawl.hpp is C++20'; do
        breaks "$rule" include/pawl.hpp 'inline int two(int a[static 1]);' '*error: *'
    done
    breaks 'internal headers stand alone' src/leans.h 'size_t leans(void);' "*src/leans.h:1:1: error: unknown type name*"
else
    skip 'headers' 'there is no gcc'
fi
if command -v clang-format-14 >/dev/null; then
    breaks 'clang-format' src/laid_out.c 'int  far;' '--- src/laid_out.c*-int  far;*+int far;*'
else
    skip 'clang-format' 'there is no clang-format-14'
fi
if command -v shellcheck >/dev/null; then
    # shellcheck disable=SC2016 # it is what the rule is to find
    breaks 'shellcheck' tools/split '#!/bin/sh
rm $1' '*tools/split line 2:*SC2086*'
else
    skip 'shellcheck' 'there is no shellcheck'
fi
if command -v mandoc >/dev/null; then
    printf '%s\n' '.Dd November 19, 2026' '.Dt GOOD 1' '.Os' '.Sh NAME' '.Nm good' '.Nd is well formed' >man/good.1
    breaks 'mandoc lint' man/bad.1 '.Sh' '*man/bad.1:*'
else
    skip 'mandoc lint' 'there is no mandoc'
fi
if /usr/bin/python3 -c 'import editorconfig' 2>/dev/null; then
    breaks 'editorconfig' src/long.c "/* $(lines 60 long | tr '\n' ' ')*/" 'src/long.c:1: is longer than 140'
else
    skip 'editorconfig' 'there is no python3-editorconfig'
fi

done_testing
