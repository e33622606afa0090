# SPDX-License-Identifier: Apache-2.0
# bash completion for pawl(1)

_pawl_locks() {
    local IFS=$'\n' name
    while read -r name; do
        [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
    done < <("${words[0]}" status --names "${url[@]}" 2>/dev/null)
}

# The command after `--`, completed as if it stood alone.
_pawl_command() {
    local i
    for ((i = 2; i < cword; i++)); do
        if [[ ${words[i]} == -- ]]; then
            # Its name in newer versions, and in older ones.
            if declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset "$((i + 1))"
            else
                _command_offset "$((i + 1))"
            fi
            return 0
        fi
    done
    return 1
}

_pawl() {
    local cur prev words cword i
    local -a url=()
    _init_completion -n : || return

    for ((i = 2; i + 1 < cword; i++)); do
        case ${words[i]} in
        -u | --url) url=(-u "${words[i + 1]}") ;;
        esac
    done

    if ((cword == 1)); then
        local all='run hold elect leader wait value status break doctor top export web bench torture --help --version'
        mapfile -t COMPREPLY < <(compgen -W "$all" -- "$cur")
        return
    fi
    if [[ ${words[1]} == @(run|elect) ]] && _pawl_command; then
        return
    fi
    if [[ ${words[1]} == value ]] && ((cword == 2)) && [[ $cur != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'get set del watch' -- "$cur")
        return
    fi

    case $prev in
    -u | --url)
        mapfile -t COMPREPLY < <(compgen -W 'local:' -- "$cur")
        return
        ;;
    --on-lost)
        mapfile -t COMPREPLY < <(compgen -W 'term kill ignore' -- "$cur")
        return
        ;;
    --once-per)
        mapfile -t COMPREPLY < <(compgen -W '15m 1h 1d hour day week' -- "$cur")
        return
        ;;
    -w | --wait | --timeout | -E | --conflict-exit-code | --permits | --label | --lease | --grace | --max-hold | \
        --at-least | --skip-exit-code)
        return
        ;;
    --from)
        _filedir
        return
        ;;
    --textfile)
        _filedir prom
        return
        ;;
    --key-file)
        _filedir
        return
        ;;
    --per-lock)
        return
        ;;
    --svg)
        _filedir svg
        return
        ;;
    --token | --value | --held-longer | --waiters | -c | --command | -r | --rounds | --span | --listen | --host | --interval)
        return
        ;;
    esac

    if [[ $cur != -* ]]; then
        _pawl_locks
        return
    fi
    local take='-n --nonblock -w --wait -E --conflict-exit-code -s --shared -x --exclusive --permits -u --url --lease --label
        -v --verbose -q --quiet --trace --help'
    local options
    case ${words[1]} in
    run) options="$take -c --command -o --close --on-lost --grace --max-hold --at-least --once-per --utc --skip-exit-code --" ;;
    hold) options=$take ;;
    elect) options='--value --once -c --command --grace -u --url --lease --label -v --verbose -q --quiet --trace --help --' ;;
    leader) options='--watch -u --url --help' ;;
    wait) options="$take --held" ;;
    value) options='--json -n --nonblock -w --wait -E --conflict-exit-code -x --exclusive --token -u --url --lease --label -v --verbose
        -q --quiet --trace --help' ;;
    status) options='--json --raw --names --graph --check --held-longer --waiters -q --quiet --watch -u --url --help' ;;
    doctor) options='-u --url --help' ;;
    top) options='--once --from --interval --allow-break -u --url --help' ;;
    export) options='--textfile --listen --host --key-file --per-lock -u --url --help' ;;
    web) options='-u --url --listen --host --key-file --allow-break --allow-break=now --interval --record --help' ;;
    bench) options='--json --svg --large --only -r --rounds --span -u --url --help' ;;
    torture) options='-u --url --start --clients --threads --locks --kinds --time --faults --least --pace --seed --lease --hold --options
        -o --output --schedule --check --help' ;;
    break) options='--token --holder --now -u --url --help' ;;
    *) return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
}

complete -F _pawl pawl
