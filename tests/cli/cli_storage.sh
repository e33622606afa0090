#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Places where locks cannot be kept: a full disk, no permission, files that are not ours. One sentence, the right status.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

refused() { # STATUS, NAME, URL
    status_is "$1" "$2" "$PAWL" run -n -u "$3" x -- true
    matches "... and says so" "pawl: *" "$said"
    equal "... in one line" 1 "$(wc -l <<<"$said")"
}

refused 64 "a relative path" local:here
touch "$scratch/file"
refused 64 "a file in place of the directory" "local:$scratch/file"
refused 64 "a file in its path" "local:$scratch/file/below"
mkdir "$scratch/foreign"
head -c 65536 /dev/urandom >"$scratch/foreign/table"
status_is 74 "a table that is not ours" "$PAWL" run -n -u "local:$scratch/foreign" x -- true

if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$scratch"
    mkdir -m 755 "$scratch/roots"
    "$PAWL" run -u "local:$scratch/roots" x -- true
    status_is 77 "no permission" \
        setpriv --reuid 65534 --regid 65534 --clear-groups "$PAWL" run -n -u "local:$scratch/roots" x -- true
    matches "... and says so" "pawl: *" "$said"
else
    skip "no permission" "needs root"
fi

# A file system of its own that is soon full. In a namespace, so that nothing is left mounted.
tiny() { # SIZE, COMMAND...
    local size=$1
    shift
    mkdir -p "$scratch/tiny"
    unshare -m sh -c "mount -t tmpfs -o size=$size tmpfs '$scratch/tiny' || exit 99; \"\$@\"" sh "$@"
}
if [ "$(id -u)" -eq 0 ] && tiny 64k true 2>/dev/null; then
    status_is 74 "a full disk" tiny 16k "$PAWL" run -n -u "local:$scratch/tiny/locks" x -- true
    matches "... and says so" "pawl: *space*" "$said"
    # Wherever it is that the space ends: it works, or it says so.
    for size in 32k 64k 128k 256k 512k 1m 2m 4m 8m 16m 32m 64m; do
        said=$(tiny "$size" "$PAWL" run -n -u "local:$scratch/tiny/locks" x -- true 2>&1)
        status=$?
        check "a disk of $size: $status $said" [ "$status" -eq 0 -o "$status" -eq 74 ]
    done
else
    skip "a full disk" "needs root, and to mount"
fi

done_testing
