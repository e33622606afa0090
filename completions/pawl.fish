# SPDX-License-Identifier: Apache-2.0
# fish completion for pawl(1)

function __pawl_locks
    set -l words (commandline -opc)
    set -l url
    for i in (seq (count $words))
        if contains -- $words[$i] -u --url; and test $i -lt (count $words)
            set url -u $words[(math $i + 1)]
        end
    end
    pawl status --names $url 2>/dev/null
end

# Is what is being typed the command behind `--`?
function __pawl_in_command
    contains -- -- (commandline -opc)
end

# Complete it as if it stood alone.
function __pawl_command
    set -l words (commandline -opc)
    set -l separator (contains -i -- -- $words)
    set -l typed
    if test $separator -lt (count $words)
        set typed (string escape -- $words[(math $separator + 1)..-1])
    end
    complete -C (string join ' ' -- $typed (commandline -ct))
end

function __pawl_uses
    not __pawl_in_command; and __fish_seen_subcommand_from $argv
end

# Is what is being typed the lock behind `pawl value get`, or set, del, watch?
function __pawl_value_lock
    __pawl_uses value; and __fish_seen_subcommand_from get set del watch
end

complete -c pawl -f
complete -c pawl -n __fish_use_subcommand -a run -d 'Run a command while holding a lock'
complete -c pawl -n __fish_use_subcommand -a hold -d 'Hold a lock until standard input ends'
complete -c pawl -n __fish_use_subcommand -a elect -d 'Run a command on one of several machines'
complete -c pawl -n '__pawl_uses elect' -l value -x -d 'What pawl leader shows'
complete -c pawl -n '__pawl_uses elect' -l once -d 'Lead once'
complete -c pawl -n __fish_use_subcommand -a leader -d 'Say who leads'
complete -c pawl -n '__pawl_uses leader' -l watch -d 'At every change, too'
complete -c pawl -n __fish_use_subcommand -a wait -d 'Wait until a lock is free, or is held'
complete -c pawl -n __fish_use_subcommand -a value -d 'Read and write the value beside a lock'
complete -c pawl -n __fish_use_subcommand -a status -d 'Show who holds what, and who waits'
complete -c pawl -n __fish_use_subcommand -a break -d 'Make a holder give up'
complete -c pawl -n __fish_use_subcommand -a doctor -d 'Say what about the server endangers locks'
complete -c pawl -n '__pawl_uses doctor' -s u -l url -x -d 'Where the locks are'
complete -c pawl -n __fish_use_subcommand -a top -d 'Show what needs attention, in a terminal'
complete -c pawl -n '__pawl_uses top' -s u -l url -x -d 'Where the locks are'
complete -c pawl -n '__pawl_uses top' -l once -d 'Print one screen'
complete -c pawl -n '__pawl_uses top' -l from -r -d 'Replay this recording'
complete -c pawl -n '__pawl_uses top' -l interval -x -d 'Look that often, in seconds'
complete -c pawl -n '__pawl_uses top' -l allow-break -d 'Let b break a hold'
complete -c pawl -n __fish_use_subcommand -a export -d 'Say how locks are as metrics, for Prometheus'
complete -c pawl -n '__pawl_uses export' -s u -l url -x -d 'Where the locks are'
complete -c pawl -n '__pawl_uses export' -l textfile -r -d 'Write it to this file'
complete -c pawl -n '__pawl_uses export' -l listen -x -d 'Serve it there, by HTTP'
complete -c pawl -n '__pawl_uses export' -l host -x -d 'A name of that address'
complete -c pawl -n '__pawl_uses export' -l key-file -r -d 'Who asks needs this key'
complete -c pawl -n '__pawl_uses export' -l per-lock -x -d 'Of single locks, too: a pattern of names'
complete -c pawl -n __fish_use_subcommand -a web -d 'Show the locks in a browser, as they change'
complete -c pawl -n '__pawl_uses web' -s u -l url -x -a local: -d 'Where the locks are'
complete -c pawl -n '__pawl_uses web' -l listen -x -d 'Where browsers connect'
complete -c pawl -n '__pawl_uses web' -l host -x -d 'A name under which it is reached'
complete -c pawl -n '__pawl_uses web' -l key-file -r -F -d 'Keep the key there'
complete -c pawl -n '__pawl_uses web' -l allow-break -d 'Let the page break holds; =now: at once'
complete -c pawl -n '__pawl_uses web' -l interval -x -d 'Look every so many milliseconds'
complete -c pawl -n '__pawl_uses web' -l record -d 'Look also while nobody is there'
complete -c pawl -n __fish_use_subcommand -a bench -d 'Measure locks, side by side with the bare server'
complete -c pawl -n __fish_use_subcommand -l version -d 'Show the version and the engines'

complete -c pawl -n '__pawl_uses run hold elect leader wait status break; or __pawl_value_lock' -a '(__pawl_locks)' -d Lock
complete -c pawl -n '__pawl_uses run hold elect leader wait value status break' -s u -l url -x -a local: -d 'Where the locks are'
complete -c pawl -n 'not __pawl_in_command' -l help -d 'Show help'

complete -c pawl -n '__pawl_uses run hold wait value' -s n -l nonblock -d "Don't wait"
complete -c pawl -n '__pawl_uses run hold wait value' -s w -l wait -x -d 'Wait that many seconds at most'
complete -c pawl -n '__pawl_uses run hold wait value' -s E -l conflict-exit-code -x -d 'Exit with this instead of 75'
complete -c pawl -n '__pawl_uses run hold wait' -s s -l shared -d 'The shared side of a read-write lock'
complete -c pawl -n '__pawl_uses run hold wait' -s x -l exclusive -d 'The exclusive side of a read-write lock'
complete -c pawl -n '__pawl_uses run hold wait' -l permits -x -d 'N/LIMIT permits of a semaphore'
complete -c pawl -n '__pawl_uses run hold elect wait value' -l lease -x -d 'Lease or session time in seconds'
complete -c pawl -n '__pawl_uses run hold elect wait value' -l label -x -d 'Shown to others'
complete -c pawl -n '__pawl_uses run hold elect wait value' -s v -l verbose -d 'Say what happens'
complete -c pawl -n '__pawl_uses run hold elect wait value status' -s q -l quiet -d 'Say nothing'
complete -c pawl -n '__pawl_uses run hold elect wait value' -l trace -d 'Say every step of the algorithm'

complete -c pawl -n '__pawl_uses run elect' -s c -l command -x -d 'Run it by the shell'
complete -c pawl -n '__pawl_uses run' -s o -l close -d "What the command leaves behind doesn't keep the lock"
complete -c pawl -n '__pawl_uses run' -l on-lost -x -a 'term kill ignore' -d 'When the lock is lost'
complete -c pawl -n '__pawl_uses run elect' -l grace -x -d 'Seconds between TERM and KILL'
complete -c pawl -n '__pawl_uses run' -l max-hold -x -d 'Hold no longer than that many seconds'
complete -c pawl -n '__pawl_uses run' -l at-least -x -d 'Hold that many seconds though the command was quicker'
complete -c pawl -n '__pawl_uses run' -l once-per -x -a '15m 1h 1d hour day week' -d 'If no run has succeeded in this period'
complete -c pawl -n '__pawl_uses run' -l utc -d 'The calendar is that of UTC'
complete -c pawl -n '__pawl_uses run' -l skip-exit-code -x -d 'Exit with this instead of 0 if one has'
complete -c pawl -n __pawl_in_command -a '(__pawl_command)'

complete -c pawl -n '__pawl_uses wait' -l held -d 'Until somebody holds it'
complete -c pawl -n '__pawl_uses value; and not __fish_seen_subcommand_from get set del watch' -a 'get set del watch' -d 'The value'
complete -c pawl -n '__pawl_uses value' -s x -l exclusive -d 'It is a read-write lock'
complete -c pawl -n '__pawl_uses value' -l token -x -d 'Write for the hold with this token'
complete -c pawl -n '__pawl_uses value' -l json -d 'For programs'

complete -c pawl -n '__pawl_uses status' -l json -d 'For programs'
complete -c pawl -n '__pawl_uses status' -l raw -d 'What the engine really stores'
complete -c pawl -n '__pawl_uses status' -l names -d 'Only the names'
complete -c pawl -n '__pawl_uses status' -l graph -a 'text dot json' -d 'Who waits for whom'
complete -c pawl -n '__pawl_uses status' -l check -d 'Say by the exit status whether it is held'
complete -c pawl -n '__pawl_uses status' -l held-longer -x -d 'With --check: for longer than that'
complete -c pawl -n '__pawl_uses status' -l waiters -x -d 'With --check: so many wait'
complete -c pawl -n '__pawl_uses status' -l watch -d 'Look again and again'

complete -c pawl -n '__pawl_uses bench' -s u -l url -x -a local: -d 'What to measure'
complete -c pawl -n '__pawl_uses bench' -s r -l rounds -x -d 'How many rounds'
complete -c pawl -n '__pawl_uses bench' -l span -x -d 'Seconds of each workload in each round'
complete -c pawl -n '__pawl_uses bench' -l only -x -d 'These workloads alone'
complete -c pawl -n '__pawl_uses bench' -l large -d 'Queues of 10,000 too'
complete -c pawl -n '__pawl_uses bench' -l json -d 'For programs'
complete -c pawl -n '__pawl_uses bench' -l svg -r -d 'Draw it too'

complete -c pawl -n '__pawl_uses break' -l token -x -d 'Of the hold to break'
complete -c pawl -n '__pawl_uses break' -l holder -d 'Who holds it now, asking first'
complete -c pawl -n '__pawl_uses break' -l now -d 'Free the lock at once'
complete -c pawl -n __fish_use_subcommand -a torture -d 'Break everything, and see whether the locks hold'
complete -c pawl -n '__pawl_uses torture' -s u -l url -x -d 'Torture the locks there'
complete -c pawl -n '__pawl_uses torture' -l start -x -d 'Servers of its own'
complete -c pawl -n '__pawl_uses torture' -l clients -x -d 'Client processes'
complete -c pawl -n '__pawl_uses torture' -l threads -x -d 'Threads of each'
complete -c pawl -n '__pawl_uses torture' -l locks -x -d 'How many locks'
complete -c pawl -n '__pawl_uses torture' -l kinds -x -d 'Kinds of locks'
complete -c pawl -n '__pawl_uses torture' -l time -x -d 'For how long'
complete -c pawl -n '__pawl_uses torture' -l faults -x -d 'Which faults'
complete -c pawl -n '__pawl_uses torture' -l least -x -d 'How often each must take effect'
complete -c pawl -n '__pawl_uses torture' -l pace -x -d 'How fast, in percent'
complete -c pawl -n '__pawl_uses torture' -l seed -x -d 'Of the schedule'
complete -c pawl -n '__pawl_uses torture' -l lease -x -d 'Lease or session time'
complete -c pawl -n '__pawl_uses torture' -l hold -x -d 'Hold for up to'
complete -c pawl -n '__pawl_uses torture' -l options -x -d 'Options of the URL'
complete -c pawl -n '__pawl_uses torture' -s o -l output -r -d 'The history'
complete -c pawl -n '__pawl_uses torture' -l schedule -d 'Only print it'
complete -c pawl -n '__pawl_uses torture' -l check -r -d 'Judge a history'
