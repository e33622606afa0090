#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rules of tools/lint find what they are there to find. In a small tree of its own each has nothing to say until one file breaks it,
# and says then what is wrong.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$scratch" || exit 1
export GIT_DIR=$scratch/none # it is no part of a repository that it happens to lie in
mkdir -p tools src/engine/redis/lock cli lab sim tests include man docs
cp "$root"/tools/{lint,sources,words,check-editorconfig,check-structs} tools/
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
