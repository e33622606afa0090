#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # a backtick is what is looked for
# What the documents name is there. docs/guarantees.md: its words are those that it explains, each engine and fault meet once, and every
# test that is said to show a promise exists. docs/background.md, in both languages: every command, file and test that it names exists.
# And every page is there in both languages, which say the same as far as a program can tell; so is pawl(1).
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
cd "$(dirname "$0")/../.." || exit 1
quoted='`test_[a-z0-9_]+`'

# A test is a function of a program in tests/ or sim/tests/, or a program that Meson knows by that name.
known=$(
    {
        sed -n 's/^static void \(test_[a-z0-9_]*\)(void .*/\1/p' tests/*/*.c sim/tests/*.c
        meson introspect --tests "$BUILD_DIR" | grep -oE '"name": "[a-z0-9_-]+"' | cut -d'"' -f4
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
named=$(part 5 | sed 's/none yet//; s/`make torture`//')
# shellcheck disable=SC2046,SC2086 # each word is one
equal "every test that it names exists" "" "$(missing $named $(grep -oE "$quoted" $page | tr -d '`'))"
# shellcheck disable=SC2046 # each word is one
equal "and so does every test that docs/semantics.md names" "" "$(missing $(grep -oE "$quoted" docs/semantics.md | tr -d '`'))"
# shellcheck disable=SC2046,SC2016 # each word is one
equal "and every test that docs/from-java.md names" "" \
    "$(missing $(grep -E '^\|' docs/from-java.md | rev | cut -d'|' -f2 | rev | grep -oE '`[a-z0-9_]+`' | tr -d '`'))"
equal "... in every row" "" "$(grep -E '^\|' docs/from-java.md | grep -vE '^\|---|\| test \|$|\| `[a-z0-9_]+` \|$')"

# The last three columns of the tables about the five documents.
columns() { # PAGE
    grep -E '^\| .* \| `[^|]+` \| `[^|]+` \| `[^|]+` \|$' "$1" | rev | cut -d'|' -f2-4 | rev
}
pawl_knows() { # COMMAND, WORDS: its options are in its help
    local word help
    help=$("$PAWL" "$1" --help 2>/dev/null) || return 1
    for word in "$@"; do
        [[ $word != -?* || $word == -- ]] || grep -qE -- "(^|[ ,])$word\\b" <<<"$help" || return 1
    done
}
# The command, without what it is told: `pawl run`, `make demo`, `lab/pitfalls/run 3`.
command_exists() {
    local -a words
    case $1 in
    lab/figures/run\ *) grep -rq "\"${1#* }\"" lab/figures ;;
    pawl\ *)
        read -ra words <<<"${1#pawl }"
        pawl_knows "${words[@]}"
        ;;
    make\ *) grep -q "^$(cut -d' ' -f2 <<<"$1"):" Makefile ;;
    lab/pitfalls/run\ *) [ "${1#* }" -ge 1 ] && [ "${1#* }" -le "$(cat lab/pitfalls/on_*.py | grep -c '^def play_')" ] ;;
    *) false ;;
    esac
}
page=docs/background.md
equal "docs/background.zh.md names the same as $page" "$(columns $page)" "$(columns docs/background.zh.md)"
check "$page has a line for every section" [ "$(columns $page | wc -l)" -gt 50 ]
equal "... each with a command, a file and a test" "$(grep -E '^\|' $page | grep -cvE '^\|(---| section )')" "$(columns $page | wc -l)"
while IFS= read -r command; do
    check "$page: there is a command '$command'" command_exists "$command"
done < <({
    columns $page | cut -d'|' -f1
    grep -oE '`(make [a-z]+|lab/pitfalls/run [0-9]+|lab/figures/run [a-z-]+)`' $page
} | sed 's/^ *`//; s/` *$//' | sort -u)
while IFS= read -r file; do
    check "$page: there is a file $file" [ -e "$file" ]
done < <(columns $page | cut -d'|' -f2 | grep -oE '[^ `]+' | sort -u)
# shellcheck disable=SC2046 # each word is one
equal "every test that $page names exists" "" "$(missing $(columns $page | cut -d'|' -f3 | tr -d '`'))"

# Every point about what they got wrong has something to look at: a test, a scene, a program or a source.
unproved() { # PAGE: the points below its last heading that have none
    awk '/^## / { text = "" } { text = text $0 "\n" } END { printf "%s", text }' "$1" |
        awk '/^- / { if (point) print point; point = "" } /^(- |  )/ { point = point " " $0 } END { print point }' |
        grep -vE '`(test_[a-z0-9_]+|lab/[a-z]+/run [a-z0-9]+|examples/[a-z_.]+)`|\]\(https://'
}
equal "$page: each mistake has a test, a scene or a source" "" "$(unproved $page)"
# shellcheck disable=SC2046 # each word is one
equal "... and such a test exists" "" "$(missing $(grep -E '^(- |  )' $page | grep -oE "$quoted" | tr -d '`'))"

# shellcheck disable=SC2046 # each word is one
equal "every example is in the Debian package" "" \
    "$(comm -23 <(find examples -type f ! -name meson.build | sort) <(find $(cat debian/libpawl-dev.examples) -type f | sort))"

# ---- Both languages --------------------------------------------------------------------------------------------------------

# The table of promises is there once, in English: it is for programs.
text() { # PAGE: without that table
    sed '/^| engine | fault | oracle |/,/^$/d' "$1"
}
shape() { # PAGE: how many headings of each level, rows, points, lines of indented code and paragraphs it has
    text "$1" | awk '/^```/ { inside = !inside; next }
        !inside && !NF { blank = 1; next }
        !inside && blank { count["paragraph"]++; blank = 0 }
        !inside { word = /^#+ / ? $1 : /^\|/ ? "row" : /^- / ? "point" : /^    [^ ]/ ? "code" : "" }
        !inside && word { count[word]++ }
        END { for (word in count) print word, count[word] }' | sort
}
fenced() { # PAGE: what is in its fenced blocks, comments apart
    awk '/^```/ { inside = !inside; print; next } inside' "$1" | sed 's/ *#.*//'
}
names() { # PAGE: what it quotes in its prose: options, codes, files, tests
    text "$1" | awk '/^```/ { inside = !inside; next } !inside' | tr '\n' ' ' | grep -oE '`[^`]+`' | sort -u
}
links() { # PAGE: where it points to, within the tree
    awk '/^```/ { inside = !inside; next } !inside' "$1" | grep -oE '\]\([^):]+\)' | tr -d ']()' | sort -u
}
leads_somewhere() { # LINK: is there such a file, and such a heading in it?
    local file=${1%%#*}
    [ -e "$file" ] && { [ "$file" = "$1" ] || sed -n 's/^#* //p' "$file" | tr 'A-Z ' 'a-z-' | grep -qxF "${1#*#}"; }
}
chinese_of() { # PAGE
    case $1 in
    README.md) echo README.zh-CN.md ;;
    *) echo "${1%.md}.zh.md" ;;
    esac
}

english=$(printf '%s\n' README.md docs/*.md | grep -v '\.zh\.md$')
# shellcheck disable=SC2086 # each word is one
equal "every page is there in both languages" "$(for page in $english; do chinese_of $page; done | sort)" \
    "$(printf '%s\n' README.*.md docs/*.zh.md | sort)"
for page in $english; do
    other=$(chinese_of "$page")
    equal "$page leads to $other from its third line" "[中文](${other#docs/})" "$(sed -n 3p "$page")"
    equal "... and back" "[English](${page#docs/})" "$(sed -n 3p "$other")"
    equal "... which have the same shape" "$(shape "$page")" "$(shape "$other")"
    equal "... and the same fenced code" "$(fenced "$page")" "$(fenced "$other")"
    equal "... and quote the same (left: only the English one, right: only the Chinese)" "" \
        "$(comm -3 <(names "$page") <(names "$other"))"
    for file in "$page" "$other"; do
        equal "every link of $file leads somewhere" "" "$(
            cd "$(dirname "$file")" || exit
            links "${file##*/}" | while IFS= read -r link; do leads_somewhere "$link" || echo "$link"; done
        )"
    done
    equal "$other leads to Chinese pages where there are some" "" "$(
        cd "$(dirname "$other")" || exit
        links "${other##*/}" | while IFS= read -r link; do
            target=${link%%#*}
            [[ $target == "${page##*/}" || ! -e $(chinese_of "$target") || $(chinese_of "$target") == "$target" ]] || echo "$link"
        done
    )"
done

# ---- The manual in Chinese ---------------------------------------------------------------------------------------------------

section() { # PAGE HEADING: what is below it
    awk -v heading=".Sh $2" '/^\.Sh / { inside = $0 == heading; next } inside' "$1"
}
quotes() { # PAGE: the commands, options, variables and pages that it names; and its examples
    sed -E 's/^\.(It|Op|Pq|No|So) //; s/ Ns No .*//' "$1" | grep -oE '\<(Fl|Ev|Xr|Nm pawl) [-A-Za-z0-9_]+( [0-9])?' | sort -u
    awk '/^\.Bd/ { inside = 1; next } /^\.Ed/ { inside = 0 } inside' "$1"
}
page=man/pawl.1
other=man/zh_CN/pawl.1
equal "$other has the synopsis of $page" "$(section $page SYNOPSIS)" "$(section $other SYNOPSIS)"
equal "... the same options, variables and statuses in its lists" "$(grep '^\.It' $page)" "$(grep '^\.It' $other)"
equal "... as many sections and paragraphs" "$(grep -cE '^\.(Sh|Ss|Pp)' $page)" "$(grep -cE '^\.(Sh|Ss|Pp)' $other)"
equal "... and names the same in its text" "" "$(comm -3 <(quotes $page | sort -u) <(quotes $other | sort -u))"

done_testing
