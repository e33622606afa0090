#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # a backtick is what is looked for
# What the documents name is there. docs/guarantees.md: its words are those that it explains, each engine and fault meet once, and every
# test that is said to show a promise exists. docs/background.md, in both languages: every command, file and test that it names exists.
# shellcheck source=tests/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
cd "$(dirname "$0")/.." || exit 1
quoted='`test_[a-z0-9_]+`'

# A test is a function of a program in tests/, or a program that Meson knows by that name.
known=$(
    {
        sed -n 's/^static void \(test_[a-z0-9_]*\)(void .*/\1/p' tests/*.c
        meson introspect --tests "$BUILD_DIR" | grep -oE '"name": "[a-z0-9_]+"' | cut -d'"' -f4
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
named=$(part 5 | grep -vxE 'none yet|.make torture.')
# shellcheck disable=SC2046,SC2086 # each word is one
equal "every test that it names exists" "" "$(missing $named $(grep -oE "$quoted" $page | tr -d '`'))"
# shellcheck disable=SC2046 # each word is one
equal "and so does every test that docs/semantics.md names" "" "$(missing $(grep -oE "$quoted" docs/semantics.md | tr -d '`'))"

# The last three columns of the tables about the five documents.
columns() { # PAGE
    grep -E '^\| .* \| `[^|]+` \| `[^|]+` \| `[^|]+` \|$' "$1" | rev | cut -d'|' -f2-4 | rev
}
# The command, without what it is told: `pawl run`, `make demo`, `pitfalls/run 3`.
command_exists() {
    case $1 in
    pawl\ *) "$PAWL" "${1#pawl }" --help >/dev/null 2>&1 ;;
    make\ *) grep -q "^$(cut -d' ' -f2 <<<"$1"):" Makefile ;;
    pitfalls/run\ *) [ "${1#* }" -ge 1 ] && [ "${1#* }" -le "$(cat pitfalls/on_*.py | grep -c '^def play_')" ] ;;
    *) false ;;
    esac
}
page=docs/background.md
equal "docs/background.zh.md names the same as $page" "$(columns $page)" "$(columns docs/background.zh.md)"
check "$page has a line for every section" [ "$(columns $page | wc -l)" -gt 50 ]
while IFS= read -r command; do
    check "$page: there is a command '$command'" command_exists "$command"
done < <(columns $page | cut -d'|' -f1 | sed 's/^ *`//; s/` *$//' | sort -u)
while IFS= read -r file; do
    check "$page: there is a file $file" [ -e "$file" ]
done < <(columns $page | cut -d'|' -f2 | grep -oE '[^ `]+' | sort -u)
# shellcheck disable=SC2046 # each word is one
equal "every test that $page names exists" "" "$(missing $(columns $page | cut -d'|' -f3 | tr -d '`'))"

done_testing
