#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the documents name is there. docs/guarantees.md: its words are those that it explains, each engine and fault meet once, and every
# test that is said to show a promise exists.
# shellcheck source=tests/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
cd "$(dirname "$0")/.." || exit 1
# shellcheck disable=SC2016 # a backtick is what is looked for
quoted='`test_[a-z0-9_]+`'

# A test is a function of a program in tests/, or a program that Meson knows by that name.
known=$(
    {
        sed -n 's/^static void \(test_[a-z0-9_]*\)(void .*/\1/p' tests/*.c
        grep -hoE "'[a-z0-9_]+'" tests/meson.build interop/meson.build | tr -d "'"
    } | sort -u
)
missing() { # TEST...: those of them that do not exist
    comm -23 <(printf '%s\n' "$@" | sort -u) <(echo "$known")
}

words() { # HEADING: the first column of the table below it
    awk -F ' *[|] *' -v heading="## $1" '/^#/ { inside = $0 == heading } inside && /^\|/ { print $2 }' "$page" | sed 1,2d | sort -u
}

page=docs/guarantees.md
promises=$(grep -E '^\| [^|]+ \| [^|]+ \| (EXCLUSIVE|FENCED|LOSS) \| [^|]+ \| [^|]+ \|$' $page)
part() { # NUMBER: a column of the promises
    cut -d'|' -f$(($1 + 1)) <<<"$promises" | sed 's/^ //; s/ $//'
}
check "$page has promises" [ "$(wc -l <<<"$promises")" -gt 50 ]
equal "every line of its table is one" "$(awk '/^#/ { inside = $0 == "## The table" } inside && /^\|/' $page | sed 1,2d)" "$promises"
equal "its engines are explained, and each has a line" "$(words 'The engines')" "$(part 1 | sort -u)"
equal "its faults are explained, and each has a line" "$(words 'The faults')" "$(part 2 | sort -u)"
equal "its bounds are explained" "" "$(part 4 | sort -u | grep -vxE -e '-|now|renewal|lease|resume')"
equal "no engine and fault meet twice" "" "$(cut -d'|' -f2,3 <<<"$promises" | sort | uniq -d)"
# shellcheck disable=SC2046 # each word is one
equal "every test that it names exists" "" "$(missing $(part 5 | grep -vx 'none yet') $(grep -oE "$quoted" $page | tr -d '`'))"
# shellcheck disable=SC2046 # each word is one
equal "and so does every test that docs/semantics.md names" "" "$(missing $(grep -oE "$quoted" docs/semantics.md | tr -d '`'))"

done_testing
