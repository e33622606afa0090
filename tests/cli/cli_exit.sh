#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every exit status that pawl(1) lists, provoked; and bad input, which gets one clear sentence.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

one_sentence() { # PATTERN: what was said, all of it
    [[ $said != *$'\n'* ]] || echo "# more than one line"
    matches "... and says so" "pawl: $1" "$said"
}

# The command's own.
status_is 0 "the command succeeds" "$PAWL" run x -- true
equal "... in silence" "" "$said"
status_is 3 "the command fails" "$PAWL" run x -- sh -c 'exit 3'
status_is 255 "the command fails with 255" "$PAWL" run x -- sh -c 'exit 255'
status_is 143 "the command is killed by TERM" "$PAWL" run x -- sh -c 'kill -TERM $$'
status_is 137 "the command is killed by KILL" "$PAWL" run x -- sh -c 'kill -KILL $$'
status_is 130 "the command is killed by INT" "$PAWL" run x -- sh -c 'kill -INT $$'
status_is 127 "there is no such command" "$PAWL" run x -- "$scratch/missing"
one_sentence "cannot run '$scratch/missing': No such file or directory"
status_is 126 "the command is not executable" "$PAWL" run x -- /etc/passwd
one_sentence "cannot run '/etc/passwd': Permission denied"
echo 'exit 0' >"$scratch/script" && chmod +x "$scratch/script"
status_is 0 "a script without #! is run by sh" "$PAWL" run x -- "$scratch/script"
check "the lock is free afterwards" is_free x

# Held by another.
start holder "$PAWL" run held -- sh -c 'echo held >&3; exec sleep 60'
equal "another holds the lock" held "$(hear)"
status_is 75 "-n while another holds it" "$PAWL" run -n held -- true
equal "... in silence, for scripts" "" "$said"
status_is 75 "-w 0 is -n" "$PAWL" run -w 0 held -- true
status_is 75 "-w passes" "$PAWL" run -w 0.1 held -- true
status_is 75 "-w passes, and -v says who holds it" "$PAWL" run -v -w 0.1 held -- true
matches "... by its pid and its command" "*'held' was not acquired within 100 ms: held by * pid [1-9]* (sh) since *" "$said"
status_is 75 "--timeout is -w" "$PAWL" run --timeout 100ms held -- true
status_is 9 "-E changes it" "$PAWL" run -n -E 9 held -- true
status_is 0 "-E 0" "$PAWL" run -n -E 0 held -- false
status_is 75 "-v says who was in the way" "$PAWL" run -n -v held -- true
one_sentence "*held*"
status_is 75 "hold, too" "$PAWL" hold -n held
status_is 75 "one of several is held" "$PAWL" run -n also held -- true
check "... then none is kept" is_free also
quit "$started"

# A kind or a limit that does not fit.
start kinds "$PAWL" run kind -- sh -c 'echo held >&3; exec sleep 60'
hear >/dev/null
status_is 65 "a mutex is not a read-write lock" "$PAWL" run -n -s kind -- true
one_sentence "*it is a mutex, so leave out -s*"
status_is 65 "a mutex is not a semaphore" "$PAWL" run -n --permits 1/2 kind -- true
quit "$started"
start limits "$PAWL" run --permits 1/2 limit -- sh -c 'echo held >&3; exec sleep 60'
hear >/dev/null
status_is 65 "a semaphore of another limit" "$PAWL" run -n --permits 1/3 limit -- true
one_sentence "*semaphore of 2, so say --permits N/2"
status_is 0 "the same limit, a permit left" "$PAWL" run -n --permits 1/2 limit -- true
status_is 75 "the same limit, too few left" "$PAWL" run -n --permits 2/2 limit -- true
quit "$started"

# The command line.
status_is 64 "nothing at all" "$PAWL"
one_sentence "*pawl --help*"
status_is 64 "an unknown subcommand" "$PAWL" rnu x -- true
one_sentence "*'pawl rnu'*'pawl run'*"
status_is 64 "one like no other" "$PAWL" frobnicate
one_sentence "*pawl --help*"
status_is 64 "an unknown option of pawl" "$PAWL" --frobnicate
one_sentence "*--frobnicate*"
for command in run hold status break; do
    status_is 64 "an unknown option of pawl $command" "$PAWL" "$command" --frobnicate x -- true
    one_sentence "*--frobnicate*pawl $command --help*"
    status_is 64 "an unknown letter of pawl $command" "$PAWL" "$command" -Z x -- true
    one_sentence "*'-Z'*"
    status_is 0 "pawl $command --help" "$PAWL" "$command" --help
    matches "... has examples" "Usage: pawl $command*Example*pawl $command*" "$printed"
done
status_is 64 "no lock" "$PAWL" run -- true
one_sentence "which lock*"
status_is 0 "a lock whose name begins with -, after --" "$PAWL" run -- -x -- true
status_is 7 "... and another, as arguments of the command may" "$PAWL" run -n -- -x --y -- sh -c 'exit $1' -n 7
status_is 0 "... with -c" "$PAWL" run -c true -- -x
start dashes "$PAWL" run -- -x -- sh -c 'echo held >&3; exec sleep 60'
hear >/dev/null
status_is 75 "... for hold" "$PAWL" hold -n -- -x
status_is 0 "... for status" "$PAWL" status --names -- -x
equal "... which shows it" -x "$printed"
status_is 65 "... for break" "$PAWL" break --token 999999 -- -x
quit "$started"
status_is 64 "no command after them" "$PAWL" run -- -x --
status_is 64 "no command at all after them" "$PAWL" run -- -x
status_is 64 "no command" "$PAWL" run x --
one_sentence "no command*"
status_is 64 "an empty command" "$PAWL" run x -- ''
one_sentence "*empty*"
status_is 64 "no --" "$PAWL" run x ./backup.sh
one_sentence "*'--'*pawl run x -- *"
status_is 64 "no --, and options of the command" "$PAWL" run x ./backup.sh --full
one_sentence "*'--'*pawl run x -- *"
status_is 64 "-c and a command" "$PAWL" run x -c true -- true
one_sentence "*-c*"
status_is 64 "a lock twice" "$PAWL" run a b a -- true
one_sentence "'a' is named twice"
status_is 64 "-s and -x" "$PAWL" run -s -x a -- true
one_sentence "*-s, -x and --permits*"
status_is 64 "an option without its value" "$PAWL" run x -w
one_sentence "-w needs a value*"
for seconds in '' x -1 1x 1e3 0x10 inf nan '1 ' ' 1' 1.2.3 . 99999999999999999999; do
    status_is 64 "-w '$seconds'" "$PAWL" run -w "$seconds" x -- true
    one_sentence "-w wants *'$seconds'"
done
for seconds in 0 1 0.5 .5 1. 500ms 2s 3m 3min 1h 1d; do
    status_is 0 "-w '$seconds'" "$PAWL" run -w "$seconds" x -- true
done
for number in '' x -1 256 1.5 99999999999999999999; do
    status_is 64 "-E '$number'" "$PAWL" run -E "$number" x -- true
    one_sentence "-E wants *"
done
for permits in '' 1 / 1/ /1 0/1 2/1 1/0 -1/2 1/-2 1/1000001 1/2/3 x/y 99999999999999999999/99999999999999999999; do
    status_is 64 "--permits '$permits'" "$PAWL" run --permits "$permits" x -- true
    one_sentence "--permits *"
done
status_is 64 "--on-lost=panic" "$PAWL" run --on-lost=panic x -- true
one_sentence "--on-lost *panic*"
status_is 64 "--max-hold 0" "$PAWL" run --max-hold 0 x -- true
status_is 64 "--grace -1" "$PAWL" run --grace -1 x -- true
status_is 64 "--lease 0" "$PAWL" run --lease 0 x -- true
status_is 64 "the same lock twice to hold" "$PAWL" hold a a
status_is 64 "two locks to show" "$PAWL" status a b
status_is 64 "no lock to break" "$PAWL" break --token 1
status_is 64 "no token" "$PAWL" break a
one_sentence "*--token*pawl status a*"
status_is 64 "token 0" "$PAWL" break a --token 0
status_is 64 "token x" "$PAWL" break a --token x
status_is 65 "a token that no hold has" "$PAWL" break a --token 4711
status_is 64 "--watch=0" "$PAWL" status --watch=0

# Names and URLs.
status_is 64 "an empty name" "$PAWL" run '' -- true
one_sentence "*"
status_is 64 "a name that is too long" "$PAWL" run "$(printf '%0256d' 0)" -- true
status_is 64 "a name with a control character" "$PAWL" run $'a\033[31mb' -- true
equal "... which does not reach the terminal" "${said//$'\033'/}" "$said"
status_is 64 "a name that is not UTF-8" "$PAWL" run $'a\xffb' -- true
status_is 0 "a name in Chinese" "$PAWL" run 每夜备份 -- true
status_is 64 "a URL with a typo" "$PAWL" run -u lcoal: x -- true
one_sentence "*local*"
status_is 64 "an engine that is not there" "$PAWL" run -u nosuch://host x -- true
for scheme in redis rediss redis-sentinel redis-cluster redlock zk; do
    status_is 64 "$scheme: and a host without its slashes" "$PAWL" run -n -u "$scheme:host:7777/3" x -- true
    one_sentence "*write $scheme://host:7777/3"
done
status_is 64 "a URL from the environment" env PAWL_URL=lcoal: "$PAWL" status
status_is 64 "an unknown option in the URL" "$PAWL" run -u "$PAWL_URL?frobnicate=1" x -- true

# Output that cannot be written.
status_is 74 "--help to a full disk" sh -c '"$1" --help >/dev/full' sh "$PAWL"
one_sentence "cannot write *"
status_is 74 "--version to a full disk" sh -c '"$1" --version >/dev/full' sh "$PAWL"
status_is 74 "status to a full disk" sh -c '"$1" status >/dev/full' sh "$PAWL"
status_is 74 "hold to a full disk" sh -c '"$1" hold x >/dev/full' sh "$PAWL"
check "... which does not keep the lock" is_free x
status_is 3 "a closed stderr" sh -c '"$1" run -v x -- sh -c "exit 3" 2>&-' sh "$PAWL"
status_is 75 "a closed stderr, and a wait" sh -c '"$1" run -v x -- "$1" run -v -w 0.1 x -- true 2>&-' sh "$PAWL"
status_is 64 "a closed stderr, and bad input" sh -c '"$1" run 2>&-' sh "$PAWL"
status_is 0 "nothing is open at all" sh -c '"$1" run x -- true <&- >&- 2>&-' sh "$PAWL"
status_is 0 "... and the command finds it so" \
    sh -c '"$1" run x -- sh -c "test ! -e /proc/\$\$/fd/0 && test ! -e /proc/\$\$/fd/1" <&- >&-' sh "$PAWL"
status_is 0 "the version" "$PAWL" --version
matches "... names the engines" "pawl [0-9]*.[0-9]*.[0-9]*engines:*local*" "$printed"
status_is 0 "the help" "$PAWL" --help
matches "... names the subcommands" "*pawl run*pawl hold*pawl status*pawl break*" "$printed"

for command in 'run x -- true' 'hold x' status 'break x --token 1' doctor "doctor ''"; do
    eval "set -- $command"
    [ "${2-x}" = '' ] || set -- "$1" -u '' "${@:2}"
    status_is 64 "$1: an empty URL is none" "$PAWL" "$@"
    one_sentence "the URL is empty*"
done
said=$(PAWL_URL='' XDG_STATE_HOME="$scratch/state" HOME="$scratch" "$PAWL" status 2>&1)
equal "an empty \$PAWL_URL is as none" 0 $?

# What the record says of a command whose name is longer than the record has room for, or not fit to be shown.
for name in "$(printf 'long-name-%.0s' {1..12})" "$(printf 'n\303\244me%.0s' {1..20})" $'with\ttab'; do
    printf '#!/bin/sh\necho ran >&3\nexec sleep 60\n' >"$scratch/$name"
    chmod +x "$scratch/$name"
    start "named${#name}" "$PAWL" run "named${#name}" -- "$scratch/$name"
    equal "a command of ${#name} letters runs" ran "$(hear)"
    shown=$(json 'l[0]["holders"][0]["command"]' "named${#name}")
    matches "... and is shown, cut" "${shown%%\?*}*" "$name"
    check "... to something" [ "${#shown}" -ge 8 ]
    quit "$started"
done

done_testing
