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
cp "$root/.editorconfig" .
touch README.md ARCHITECTURE.md CONTRIBUTING.md

# RULE, FILE, LINES, COMPLAINT (a pattern): what the rule has to say of a file with these lines
breaks() {
    local rule=$1 file=$2 before
    before=$(tools/lint "$rule" 2>&1)
    printf '%s\n' "$3" >"$file"
    matches "$rule" "ok 1 - $rule"$'\n'"1..1 + # $4"$'\n'"not ok 1 - $rule"$'\n'1..1 "$before + $(tools/lint "$rule" 2>&1)"
    rm "$file"
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

breaks 'plain words' docs/page.md "This is $(head -n 1 tools/words)." 'docs/page.md:1:This is *'

breaks 'licence lines' cli/bare.c 'int main(void);' 'cli/bare.c: its first line names no licence'

if command -v gcc >/dev/null; then
    breaks 'internal headers stand alone' src/leans.h 'size_t leans(void);' "*src/leans.h:1:1: error: unknown type name*"
else
    skip 'internal headers stand alone' 'there is no gcc'
fi
if /usr/bin/python3 -c 'import editorconfig' 2>/dev/null; then
    breaks 'editorconfig' src/long.c "/* $(lines 60 long | tr '\n' ' ')*/" 'src/long.c:1: is longer than 140'
else
    skip 'editorconfig' 'there is no python3-editorconfig'
fi

done_testing
