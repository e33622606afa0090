#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Those who only look: status, doctor and break make nothing where there is nothing, change nothing, and reading takes no more than the
# permission to read.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

listing() { # DIRECTORY: all there is, and what is in it
    find "$1" -printf '%P %s %m %U:%G\n' | sort
    cksum "$1"/table "$1"/token.hi
}

# ---- Where there is nothing ----

none=local:$scratch/none
status_is 0 "status of a directory that is not there" "$PAWL" status -u "$none"
matches "... finds no locks" "no lock is held*" "$printed"
status_is 0 "status of one lock there" "$PAWL" status -u "$none" nightly
matches "... finds it free" "'nightly' is free*" "$printed"
status_is 65 "break there" "$PAWL" break -u "$none" nightly --token 1
matches "... finds nobody" "pawl: nobody holds nightly*" "$said"
status_is 0 "doctor there" "$PAWL" doctor "$none"
matches "... says so" "*$scratch/none is not there yet*" "$printed"
status_is 65 "doctor where not even the parent is" "$PAWL" doctor "$none/below"
matches "... warns" "*WARNING*" "$printed"
check "none of them has made it" [ ! -e "$scratch/none" ]
mkdir "$scratch/empty"
status_is 0 "status of an empty directory" "$PAWL" status -u "local:$scratch/empty"
status_is 0 "doctor of an empty directory" "$PAWL" doctor "local:$scratch/empty"
status_is 65 "break in an empty directory" "$PAWL" break -u "local:$scratch/empty" nightly --token 1
equal "it is still empty" "" "$(ls -A "$scratch/empty")"

# ---- Where there is something ----

start holder "$PAWL" run --label 'the label' nightly -- sh -c 'echo holds >&3; exec sleep 60'
holder=$started
equal "a holder" holds "$(hear)"
start waiter "$PAWL" run nightly -- true
waiter=$started
check "one waits" eventually waits nightly 1
status_is 0 "status of a held lock" "$PAWL" status nightly
matches "... shows who holds it" "*nightly*holds*the label*nightly*waits 1*" "$printed"
quit "$waiter"
check "one that waited was killed, and is not shown" eventually waits nightly 0
before=$(listing "$scratch/locks")
status_is 0 "status of a held lock" "$PAWL" status nightly
status_is 0 "doctor of a directory in use" "$PAWL" doctor
equal "neither has changed anything" "$before" "$(listing "$scratch/locks")"

nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if [ "$(id -u)" -ne 0 ]; then
    skip "another user" "needs root"
elif ! "${nobody[@]}" "$PAWL" --version >/dev/null 2>&1; then
    skip "another user" "other users cannot run $PAWL"
else
    chmod 755 "$scratch"
    mkdir -m 755 "$scratch/readers"
    start public "$PAWL" run -u "local:$scratch/readers" nightly -- sh -c 'echo holds >&3; exec sleep 60'
    public=$started
    equal "a holder in a directory that all may read" holds "$(hear)"
    status_is 0 "another user's status" "${nobody[@]}" "$PAWL" status -u "local:$scratch/readers"
    matches "... shows who holds it" "*nightly*holds*" "$printed"
    status_is 0 "another user's doctor" "${nobody[@]}" "$PAWL" doctor "local:$scratch/readers"
    status_is 77 "break takes more" "${nobody[@]}" "$PAWL" break -u "local:$scratch/readers" nightly --token 1
    quit "$public"
    # Whether it has left inheritors can't be seen by everybody.
    check "a holder that is gone is shown as such, if at all" eventually sh -c '"$@" 2>/dev/null | grep -qE "no lock|pid gone"' sh \
        "${nobody[@]}" "$PAWL" status -u "local:$scratch/readers"
    chmod 750 "$scratch/readers"
    status_is 77 "who may not read sees nothing" "${nobody[@]}" "$PAWL" status -u "local:$scratch/readers"
    mkdir -m 777 "$scratch/state"
    status_is 0 "status of local: before its first lock" env XDG_STATE_HOME="$scratch/state/deep" \
        "${nobody[@]}" "$PAWL" status -u local:
    equal "... makes no parents either" "" "$(ls -A "$scratch/state")"
fi

# ---- After a boot ----

quit "$holder"
check "the holder's command is gone" eventually sh -c '"$PAWL" status nightly | grep -q "is free"'
printf 'another boot' | dd of="$scratch/locks/table" bs=1 seek=24 conv=notrunc status=none
before=$(listing "$scratch/locks")
status_is 0 "status of the locks of another boot" "$PAWL" status
matches "... finds none" "no lock is held*" "$printed"
status_is 0 "doctor then" "$PAWL" doctor
equal "neither has made the table anew" "$before" "$(listing "$scratch/locks")"

done_testing
