#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is written about the command is true of it: the README's program is the example that the tests run; manual and completions know
# every option and every exit status that --help names.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
cd "$(dirname "$0")/../.." || exit 1

blocks() { # LANGUAGE, FILE: what is in its fenced blocks
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$2"
}

program=$(<examples/hello.c)
for readme in README.md README.zh-CN.md; do
    matches "$readme shows lines of examples/hello.c" "*$(blocks c $readme | sed 's/[][*?\\]/\\&/g')*" "$program"
    equal "$readme shows the same commands" "$(blocks sh README.md | sed 's/ *#.*//')" "$(blocks sh $readme | sed 's/ *#.*//')"
    for file in $(grep -o '](\([^):#]*\))' $readme | tr -d ']()'); do
        check "$readme points to $file, which is there" [ -e "$file" ]
    done
done
check "the READMEs quote bench/RESULTS.md" lab/bench/quote --check
check "bench/RESULTS.md is made" lab/bench/run --from bench/results.json --out "$scratch/RESULTS.md"
check "... of what was measured" cmp bench/RESULTS.md "$scratch/RESULTS.md"

if ! command -v mandoc >/dev/null; then
    skip "pawl(1) and --help" "there is no mandoc"
    done_testing
    exit
fi
manual=$(mandoc -T ascii man/pawl.1 | sed 's/.\x08//g')
for command in run hold wait value elect leader status break top export web; do
    help=$("$PAWL" $command --help)
    options=$(grep -oE '^ +(-[a-zA-Z], |    )--[a-z-]+' <<<"$help" | grep -oE '[-][-][a-z-]+')
    for option in $options; do
        check "pawl(1) knows $option of pawl $command" grep -qe "$option\\b" <<<"$manual"
        for file in completions/pawl.bash completions/_pawl; do
            check "... and so does $file" grep -qe "$option\\b" $file
        done
        check "... and so does completions/pawl.fish" grep -qE -- "-l ${option#--}\\b" completions/pawl.fish
    done
done
for command in bench torture; do
    manual_of_it=$(mandoc -T ascii man/pawl-$command.1 | sed 's/.\x08//g')
    for option in $("$PAWL" $command --help | grep -oE '^ +(-[a-zA-Z], |    )--[a-z-]+' | grep -oE '[-][-][a-z-]+'); do
        [ "$option" = --help ] || check "pawl-$command(1) knows $option" grep -qe "$option\\b" <<<"$manual_of_it"
        check "... and so does completions/pawl.bash" grep -qe "$option\\b" completions/pawl.bash
        check "... and so does completions/_pawl" grep -qe "$option\\b" completions/_pawl
        check "... and so does completions/pawl.fish" grep -qE -- "-l ${option#--}\\b" completions/pawl.fish
    done
done
for status in $("$PAWL" run --help | sed -n '/^Exit status/,/^$/p' | grep -oE '\b[0-9]+\b'); do
    check "pawl(1) lists exit status $status" grep -qE "^ +$status( |\$)" <<<"$manual"
done

done_testing
