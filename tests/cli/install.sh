#!/usr/bin/env bash
# What `make install` puts down is complete: a stranger's program builds against it, in C and C++, shared and static, and runs.
set -uo pipefail

count=0
failures=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
cd "$SOURCE_DIR" || exit 1

check() { # name, command...
    local name=$1
    shift
    count=$((count + 1))
    if "$@" >"$scratch/output" 2>&1; then
        echo "ok $count - $name"
    else
        failures=$((failures + 1))
        sed 's/^/# /' "$scratch/output"
        echo "not ok $count - $name"
    fi
}

# A build directory of its own: the one under test keeps its prefix.
install_tree() {
    make --no-print-directory install BUILD="$scratch/build" PREFIX=/opt/pawl DESTDIR="$root" \
        MESONFLAGS="-Dtests=disabled -Dexamples=false -Doptimization=0"
}

nothing_else() {
    [ "$(ls "$root")" = opt ] && [ "$(ls "$root/opt")" = pawl ]
}

flags() { # pkg-config arguments
    PKG_CONFIG_PATH=$(dirname "$(find "$root" -name pawl.pc)") PKG_CONFIG_SYSROOT_DIR=$root pkg-config "$@" pawl
}

library_directory() {
    dirname "$(find "$root" -name libpawl.so)"
}

program() { # compiler, language, pkg-config arguments
    local -a arguments
    cat >"$scratch/program.c" <<'END'
#include <pawl.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    struct pawl_error error;
    struct pawl *client;
    printf("pawl %s\n", pawl_version());
    return pawl_open("no-such-engine:", NULL, &client, &error) == PAWL_EENGINE ? 0 : 1;
}
END
    read -ra arguments <<<"$(flags --cflags --libs "${@:3}")"
    "$1" -x "$2" "$scratch/program.c" -x none "${arguments[@]}" -o "$scratch/program" &&
        LD_LIBRARY_PATH=$(library_directory) "$scratch/program"
}

static_program() {
    rm -f "$(library_directory)"/libpawl.so*
    program gcc c --static
}

version_agrees() {
    local version
    version=$(flags --modversion)
    "$root/opt/pawl/bin/pawl" --version | grep -F "$version" && program gcc c | grep -Fx "pawl $version"
}

# The pages name files by where they are installed.
documents_cited() {
    local file cited
    cited=$(grep -rhoE '/opt/pawl/share/doc/[^ ]+' "$root/opt/pawl/share/man" | sort -u)
    [ -n "$cited" ] || return 1
    ! grep -rn '@[a-z]*@\|Pa docs/' "$root/opt/pawl/share/man" || return 1
    for file in $cited; do
        [ -e "$root$file" ] || { echo "a manual page cites $file, which is not installed" && return 1; }
    done
}

# Of the READMEs only what leads to the guides: the rest is about the sources.
links_of_documents() (
    local page link links status=0
    cd "$root/opt/pawl/share/doc/pawl" || exit 1
    for page in README*.md docs/*.md; do
        links=$(grep -oE '\]\([^)#:]*' "$page" | cut -c 3- | grep -E '^docs/|^bench/|\.md$|\.svg$' | sort -u)
        for link in $links; do
            case $page:$link in README*:ARCHITECTURE.md | README*:CONTRIBUTING.md | README*:lab/models/*) continue ;; esac
            [ -e "$(dirname "$page")/$link" ] || { echo "$page leads to $link, which is not installed" && status=1; }
        done
    done
    exit $status
)

# Everything that was installed goes, and nothing else.
uninstall_tree() {
    local rest
    touch "$root/opt/pawl/bin/stranger"
    make --no-print-directory uninstall BUILD="$scratch/build" || return 1
    rest=$(find "$root" ! -type d)
    [ "$rest" = "$root/opt/pawl/bin/stranger" ] || { echo "there is still, or not any more: $rest" && return 1; }
}

check 'make install' install_tree
check 'everything is below PREFIX' nothing_else
check 'the command runs' "$root/opt/pawl/bin/pawl" --version
check 'the documents that the manual cites are there' documents_cited
check 'and so is what they lead to' links_of_documents
check 'a C program, shared' program gcc c
check 'a C++ program, shared' program g++ c++
check 'one version in the command, the library and pawl.pc' version_agrees
check 'a C program, static' static_program
check 'make uninstall' uninstall_tree

echo "1..$count"
[ "$failures" -eq 0 ]
