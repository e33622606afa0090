#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl doctor: what it finds, what it advises, and its exit status. What it finds on servers is tested by their own tests too.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
# shellcheck source=tests/cli/cli_servers.sh
. "$(dirname "$0")/cli_servers.sh"
locks=$scratch/locks

"$PAWL" run first -- true
# The file system under the scratch directory is not ours to choose: on tmpfs and overlay that is told, and no warning.
status_is 0 "a directory of one's own" "$PAWL" doctor
matches "... its permissions" "*good*only its owner may lock there (mode 0700)*" "$printed"
matches "... its space" "*good*MB are left on its disk*" "$printed"
matches "... how full it is" "*good*0 of at most 16384 processes are attached, with 0 of at most 131072 holds and waiters*" "$printed"
matches "... nobody in the way" "*good*nobody stands still inside the table*" "$printed"
equal "nothing is left behind" 0 "$("$PAWL" status --json | grep -c name)"

chmod 0777 "$locks"
status_is 65 "a directory that all may change" "$PAWL" doctor "local:$locks"
matches "... and what to do" "*WARNING*every user may remove the table*-> chmod o-w*" "$printed"
chmod 1777 "$locks"
status_is 0 "the same, sticky" "$PAWL" doctor "local:$locks"
chmod 0700 "$locks"

start holder "$PAWL" run nightly -- sh -c 'echo holds >&3; exec sleep 60'
holder=$started
equal "a holder" holds "$(hear)"
quit "$holder"
status_is 0 "a process that was killed" "$PAWL" doctor
# Its child may live a moment longer, and it then too.
matches "... is no reason to worry" "*good*of at most 16384 processes*" "$printed"

status_is 64 "two URLs" "$PAWL" doctor local: redis://x
status_is 64 "a URL of no known kind" "$PAWL" doctor nonsense://x
touch "$scratch/file"
status_is 64 "a file in place of the directory" "$PAWL" doctor "local:$scratch/file"

# A file system of its own that is nearly full. In a namespace, so that nothing is left mounted.
small() {
    mkdir -p "$scratch/small"
    unshare -m sh -c "mount -t tmpfs -o size=8m tmpfs '$scratch/small' || exit 99; \"\$@\"" sh "$@"
}
if [ "$(id -u)" -eq 0 ] && small true 2>/dev/null; then
    status_is 65 "a disk that is nearly full" small "$PAWL" doctor "local:$scratch/small/locks"
    matches "... and what to do" "*WARNING*kB are left*-> make room*" "$printed"
    matches "... and that tokens begin again" "*unknown*in memory (tmpfs)*-> choose a directory on a disk*" "$printed"
else
    skip "a disk that is nearly full" "needs root, and to mount"
fi

if in_build zk && start_servers zookeeper; then
    status_is 65 "a ZooKeeper" "$PAWL" doctor
    matches "... who it is" "*good*is ZooKeeper 3.*, standalone*" "$printed"
    matches "... and what to do" "*WARNING*there is one server*-> run three servers, or five*" "$printed"
else
    skip "a ZooKeeper" "$missing"
fi

done_testing
