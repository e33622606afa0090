#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl top: one screen without a terminal; and in a real terminal (tmux) screens that are known to the letter, keys, sizes, and a terminal
# that is as it was before, in every way out. `tests/cli/cli_top.sh --update` writes the screens anew: look at them.
# shellcheck disable=SC2016 # what is in single quotes is for a shell inside
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"
cd "$(dirname "$0")" || exit 1
export TZ=UTC LC_ALL=C.UTF-8 NO_COLOR=1
looks=$PWD/top_looks.json
screens=$PWD/top_screens.txt
update=
[ "${1-}" != --update ] || update=$scratch/screens

# ---- Without a terminal ----

status_is 0 "one screen of nothing" "$PAWL" top --once
matches "... says so" "*no lock is held or waited for*" "$printed"
if "$PAWL" --version | grep -q redis; then
    status_is 69 "one screen of what can't be reached" "$PAWL" top --once -u redis://127.0.0.1:1
    matches "... does not say that there are no locks" "*unreachable*is not known*" "$printed"
fi
status_is 64 "without a terminal" "$PAWL" top
matches "... it says what works" "*--once*" "$said"
status_is 64 "an argument" "$PAWL" top nightly
status_is 64 "an interval that is no number" "$PAWL" top --once --interval often
status_is 64 "--from and --url" "$PAWL" top --once --from "$looks" -u local:
status_is 74 "a file that is not there" "$PAWL" top --once --from "$scratch/none"
echo '{"format":1,"url":"x","locks":[{' >"$scratch/bad"
status_is 64 "a file that is something else" "$PAWL" top --once --from "$scratch/bad"
matches "... is named, and the line" "*bad:1 is not a line of pawl status --json" "$said"
status_is 0 "a recording from a pipe" \
    sh -c '"$0" status --json -u "$PAWL_URL" -u local:"$1" | "$0" top --once --from -' "$PAWL" "$scratch/other"
matches "... has both places" "*$scratch/locks*" "$printed"
COLUMNS=60 LC_ALL=C status_is 0 "one screen in ASCII" "$PAWL" top --once --from "$looks"
equal "... is in ASCII" "" "$(LC_ALL=C grep -n '[^ -~]' <<<"$printed")"
equal "... and no wider than it may" 0 "$(awk 'length > 60' <<<"$printed" | wc -l)"

if ! command -v tmux >/dev/null || [[ $("$PAWL" --version) != *commands:*top* ]]; then
    skip "pawl top in a terminal" "there is no tmux, or this pawl has no ncurses"
    done_testing
    exit
fi

# ---- In a terminal ----

terminal=0 # each has a server of its own
tmux() { command tmux -S "$scratch/tmux.$terminal" -f /dev/null "$@"; }
screen() { tmux capture-pane -p; }
shows() { [[ $(screen) == *"$1"* ]]; }
open() { # COLUMNS, ROWS, ARGUMENT...: in a shell, which tells when it is back
    tmux kill-server 2>/dev/null
    terminal=$((terminal + 1))
    tmux new-session -d -x "$1" -y "$2" env PS1='$ ' sh
    shift 2
    tmux send-keys "stty -g >'$scratch/before'; '$PAWL' top $*; echo left \$?; stty -g >'$scratch/after'" Enter
}
keys() { tmux send-keys "$@"; }
trap 'tmux kill-server 2>/dev/null; finish' EXIT

# NAME: the screen is the one that is known by this name.
known() {
    local got
    got=$(screen)
    [ -z "$update" ] || printf '=== %s\n%s\n' "$1" "$got" >>"$update"
    equal "$1" "$(awk -v name="=== $1" '/^===/ { inside = $0 == name; next } inside' "${update:-$screens}")" "$got"
}

for columns in 40 80 120 200; do
    open $columns 16 --from "$looks" --interval 0.1
    check "the file is shown to its end, at $columns columns" eventually shows '10:12:50 end'
    known "locks at $columns columns"
done
keys 2
check "key 2" eventually shows 'a way out'
known "who waits for whom"
keys 3
check "key 3" eventually shows 'reached '
known "events"
keys 4
check "key 4" eventually shows 'locks seen in'
known "health"
keys '?'
check "key ?" eventually shows 'part of a likely deadlock'
keys 1 / orders Enter
check "a filter" eventually shows 'Esc all'
known "filtered"
keys Enter
check "Enter opens a lock" eventually shows 'its last holds'
known "one lock"
keys b
check "breaking is off" eventually shows 'breaking is off'
keys y
check "the command is copied" eventually shows "copied: pawl break -u 'redis://cache1:6379/0' --token 1794737568784212 -- 'orders.shard-07'"
keys Escape
check "Esc leads back" eventually shows '/orders'
keys Escape
check "... and shows all again" eventually shows 'cron.reindex'
tmux resize-window -x 40 -y 10
small() { [[ $(screen) == *'1 locks 2 waits 3 events 4 health  ? hel' ]]; }
check "it follows the terminal's size" eventually small
known "locks at 40 columns and 10 rows"
keys s s s s s
check "sorted by name" eventually shows 'S LOCK'
keys q
check "q leaves" eventually shows 'left 0'
same() { [ -s "$scratch/after" ] && cmp -s "$scratch/before" "$scratch/after"; }
check "... and the terminal is as it was" eventually same
equal "... the screen, too" 0 "$(tmux display-message -p '#{alternate_on}')"

odd='{"format":1,"url":"x:/","locks":[{"name":"odd\u001b[201~\nreboot","holders":[{"token":"7"}]}]}'
printf '%s\n' "$odd" >"$scratch/odd"
open 100 20 --from "$scratch/odd"
tmux set -s set-clipboard on
check "a name that plays with the terminal is shown" eventually shows 'odd?[201~?reboot'
keys Enter y
check "... copied" eventually shows 'copied: '
equal "... and pasted as it is shown" "pawl break -u 'x:/' --token 7 -- 'odd?[201~?reboot'" "$(tmux show-buffer)"

# ---- Live: signals, breaking ----

mkfifo "$scratch/never"
start holder "$PAWL" hold nightly <>"$scratch/never" >"$scratch/held" 2>/dev/null
check "a lock is held" eventually is_held nightly
rm -f "$scratch/after"
open 100 20 --allow-break --interval 0.2
check "it is shown" eventually shows nightly
keys C-z
check "Ctrl-Z gives the terminal back" eventually shows Stopped
keys 'fg' Enter
check "... and fg takes it again" eventually shows 'LONGEST'
keys Enter b
check "break asks for the token" eventually shows 'its token, all of it'
keys 7 Enter
check "... and a wrong one breaks nothing" eventually shows 'no hold of'
token=$(sed 's/token //' "$scratch/held")
keys b
check "break asks again" eventually shows 'its token, all of it'
keys "$token" Enter
ended "$started"
equal "... and the right one breaks the hold" 76 "$status"
keys C-c
back() { [ "$(tmux display-message -p '#{alternate_on}')" = 0 ]; }
check "Ctrl-C ends it" eventually back
keys "echo left \$?; stty -g >'$scratch/after'" Enter
check "... as an interrupt does" eventually shows 'left 130'
check "... and the terminal is as it was" eventually same
rm -f "$scratch/after"
open 100 20
check "once more" eventually shows 'no lock is held'
kill -TERM "$(tmux list-panes -F '#{pane_pid}' | xargs pgrep -P)"
check "TERM ends it" eventually shows 'left 143'
check "... and the terminal is as it was" eventually same

if [ -n "$update" ]; then
    cp "$update" "$screens"
fi
done_testing
