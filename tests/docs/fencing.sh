#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The stores of docs/fencing.md: a holder is stopped in the middle of its work, the next one is let in and writes, and what the first one
# writes when it goes on is refused. The lock is a real one, with a short lease, on a Redis. $BUILD_DIR and $SOURCE_DIR hold the examples.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../cli/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/../cli/cli_servers.sh"

if ! start_redis; then
    skip "stores that refuse old tokens" "$missing"
    done_testing
    exit
fi

url=$PAWL_URL
examples=$SOURCE_DIR/examples/fencing

# ---- What the documents show is what is tried here ----

blocks() { # LANGUAGE, FILE: what is in its fenced blocks
    awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$2"
}
for page in fencing.md fencing.zh.md; do
    while read -r language file; do
        shown=$(blocks "$language" "$SOURCE_DIR/docs/$page" | sed 's/[][*?\\]/\\&/g')
        matches "docs/$page shows lines of $file" "*$shown*" "$(<"$examples/$file")"
    done <<<$'c file.c\npython sqlite.py\nlua redis.sh\nsh value.sh'
done

# ---- The stores: TEXT: hold the lock, and write. What is read of a store is its value. ----

hold_file() {
    exec "$BUILD_DIR/examples/fencing_file" "$scratch/file" "$1"
}
read_file() {
    tail -n +2 "$scratch/file"
}

hold_sqlite() {
    exec "$PAWL" run --lease 1s fencing -- "$examples/sqlite.py" "$scratch/database" "$1"
}
read_sqlite() {
    python3 -c '
import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT value FROM settings").fetchone())' "$scratch/database"
}

hold_redis() {
    exec "$PAWL" run --lease 1s fencing -- "$examples/redis.sh" "$url" fenced "$1"
}
read_redis() {
    redis-cli -u "$url" --raw HGET fenced value
}

hold_value() {
    exec env PATH="$(dirname "$PAWL"):$PATH" "$PAWL" run --lease 1s fencing -- "$examples/value.sh" fencing "$1"
}
read_value() {
    "$PAWL" value get fencing
}

# ---- Holders ----

# NAME, STORE, TEXT: start one, which works until go() lets it. Leaves its pid in $started, and its FIFOs in $heard and $work.
hold() {
    mkfifo "$scratch/work-$1"
    exec {work}<>"$scratch/work-$1"
    start "$1" eval "hold_$2 '$3' >&3 <&$work"
}

go() { # WORK
    echo go >&"$1"
}

# PID: it and all below it, the youngest last.
family() {
    local children child
    echo "$1"
    read -r -a children <"/proc/$1/task/$1/children"
    for child in "${children[@]}"; do
        family "$child"
    done
}

# The next word that is heard through descriptor HEARD.
hear_of() { # HEARD
    local heard=$1
    hear
}

for store in file sqlite redis value; do
    hold "$store-first" $store before
    first=$started
    matches "$store: one holds" 'holds [1-9]*' "$(hear)"
    go "$work"
    equal "... and writes" written "$(hear)"
    ended "$first"
    equal "... what can be read" before "$(read_$store)"

    hold "$store-paused" $store stale
    paused=$started paused_work=$work paused_heard=$heard
    token=$(hear)
    mapfile -t members < <(family "$paused")
    kill -STOP "${members[@]}"
    hold "$store-next" $store fresh
    later=$(hear)
    check "... paused, and the next one is let in with a higher token" [ "${later#holds }" -gt "${token#holds }" ]
    go "$work"
    equal "... who writes" written "$(hear)"
    ended "$started"

    # The work goes on before anything could tell it that its turn is over.
    go "$paused_work"
    kill -CONT "${members[-1]}"
    equal "... the paused one goes on, and is refused" refused "$(hear_of "$paused_heard")"
    kill -CONT "${members[@]}" 2>/dev/null
    ended "$paused"
    check "... which its exit status says" [ "$status" -ne 0 ]
    equal "... and what the later one wrote is there" fresh "$(read_$store)"
done

done_testing
