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
        MESONFLAGS="-Dtests=disabled -Dexamples=false"
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

check 'make install' install_tree
check 'everything is below PREFIX' nothing_else
check 'the command runs' "$root/opt/pawl/bin/pawl" --version
check 'a C program, shared' program gcc c
check 'a C++ program, shared' program g++ c++
check 'one version in the command, the library and pawl.pc' version_agrees
check 'a C program, static' static_program

echo "1..$count"
[ "$failures" -eq 0 ]
