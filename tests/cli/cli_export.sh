#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pawl export: what Prometheus is told is true and well-formed; the alert rules fire when they should; the dashboard names what there is.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/cli_common.sh"

value() { # SERIES: its value in $printed
    sed -n "s|^$1 ||p" <<<"$printed"
}

# ---- Nothing, something ----

url="url=\"local:$scratch/locks\""
status_is 0 "export of nothing" "$PAWL" export
equal "... says that it could look" 1 "$(value "pawl_up{$url}")"
equal "... and that there is nothing" "0 0" "$(value "pawl_holders{$url}") $(value "pawl_waiters{$url}")"

mkfifo "$scratch/never"
start holder "$PAWL" hold 'a"b\c' <>"$scratch/never" >/dev/null
holder=$started
check "a lock is held" eventually is_held 'a"b\c'
start waiter "$PAWL" hold 'a"b\c' <>"$scratch/never" >/dev/null
waiter=$started
check "... and waited for" eventually waits 'a"b\c' 1
status_is 0 "export of it" "$PAWL" export --per-lock 'a*'
equal "... counts who holds and who waits" "1 1" "$(value "pawl_holders{$url}") $(value "pawl_waiters{$url}")"
equal "... and locks by kind and state" 1 "$(value "pawl_locks{$url,kind=\"mutex\",state=\"held\"}")"
equal "... and has the lock that was asked for" 1 "$(value "pawl_lock_waiters{$url,lock=\"a[\\]\"b[\\][\\]c\"}")"
with_lock=$printed
status_is 0 "export of no more locks than one wants" "$PAWL" export --per-lock '*,0'
equal "... counts those that are left out" 1 "$(value "pawl_locks_left_out{$url}")"
status_is 0 "export without --per-lock" "$PAWL" export
equal "... names no lock" "" "$(grep lock= <<<"$printed")"

# ---- Files, mistakes ----

status_is 0 "a text file" "$PAWL" export --textfile "$scratch/pawl.prom"
same() { sed 's/\(seconds{.*}\) .*/\1/'; }
equal "... has it all" "$("$PAWL" export | same)" "$(same <"$scratch/pawl.prom")"
equal "... may be read by others" 644 "$(umask 022; "$PAWL" export --textfile "$scratch/pawl.prom"; stat -c %a "$scratch/pawl.prom")"
equal "... and nothing is left beside it" pawl.prom "$(cd "$scratch" && echo pawl.prom*)"
status_is 74 "a text file where there is no directory" "$PAWL" export --textfile "$scratch/none/pawl.prom"
status_is 64 "a limit that is no number" "$PAWL" export --per-lock 'a*,b'
status_is 64 "an argument" "$PAWL" export a
if [[ $("$PAWL" --version) == *redis* ]]; then
    status_is 69 "a server that is not there" "$PAWL" export -u redis://127.0.0.1:1 -u "$PAWL_URL"
    equal "... is told, and so is the other place" "0 1" "$(value 'pawl_up{url="redis://127.0.0.1:1"}') $(value "pawl_up{$url}")"
fi

# ---- By HTTP ----

status_is 64 "--listen and --textfile" "$PAWL" export --listen 127.0.0.1:0 --textfile "$scratch/pawl.prom"
status_is 64 "--host without --listen" "$PAWL" export --host here
http=
if [[ $("$PAWL" --version) == *commands:*web* ]]; then
    http=yes
    mkfifo "$scratch/address"
    "$PAWL" export --listen 127.0.0.1:0 --per-lock 'a*' >"$scratch/address" &
    exporter=$!
    pids+=("$exporter")
    read -r -t 30 address <"$scratch/address"
    matches "it says where it listens" 'http://127.0.0.1:*/metrics' "$address"
    # ADDRESS, HEADER...: the status, and what is answered in $scratch/answer
    ask() {
        local headers=() address=$1
        shift
        for header in "$@"; do headers+=(-H "$header"); done
        curl -sS --max-time 20 -o "$scratch/answer" -w '%{http_code} %{content_type}' "${headers[@]}" "$address"
    }
    if command -v curl >/dev/null; then
        matches "it answers" '200 text/plain; version=0.0.4*' "$(ask "$address")"
        check "... with who waits" grep -qF "pawl_waiters{$url} 1" "$scratch/answer"
        check "... with events" grep -q '^pawl_events_total{.*kind="lost"} 0' "$scratch/answer"
        matches "OpenMetrics if one wants it" '200 application/openmetrics-text*' "$(ask "$address" 'Accept: application/openmetrics-text')"
        equal "... which has an end" '# EOF' "$(tail -n 1 "$scratch/answer")"
        matches "not under another name" '421*' "$(ask "$address" 'Host: evil.example')"
        matches "nor for another page" '403*' "$(ask "$address" 'Sec-Fetch-Site: cross-site')"
        matches "nor anything else" '404*' "$(ask "${address%metrics}locks")"
        mkfifo "$scratch/keyed"
        "$PAWL" export --listen 127.0.0.1:0 --key-file "$scratch/key" >"$scratch/keyed" &
        keyed=$!
        pids+=("$keyed")
        read -r -t 30 private <"$scratch/keyed"
        matches "with a key: not without it" '401*' "$(ask "$private")"
        matches "... and with it" '200*' "$(ask "$private" "Authorization: Bearer $(cat "$scratch/key")")"
        kill "$keyed"
        ended "$keyed"
        equal "TERM ends it" 143 "$status"
    fi
fi

# ---- Prometheus' own tools ----

if ! command -v promtool >/dev/null; then
    skip "what Prometheus says of it" "there is no promtool"
    done_testing
    exit
fi
echo "$with_lock" >"$scratch/metrics"
check "promtool likes the metrics" promtool check metrics <"$scratch/metrics"
cp "$SOURCE_DIR/share/alerts.yml" "$SOURCE_DIR/tests/cli/alerts_test.yml" "$scratch"
check "promtool likes the alert rules" promtool check rules "$scratch/alerts.yml"
check "... which fire when they should" promtool test rules "$scratch/alerts_test.yml"

# Every expression of the dashboard, as a rule; the variables are Grafana's.
python3 - "$SOURCE_DIR/share/grafana.json" >"$scratch/dashboard.yml" <<'END'
import json, sys
print("groups:\n - name: dashboard\n   rules:")
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel.get("targets", []):
        print("    - record: x:" + target["refId"] + str(panel["id"]) + "\n      expr: " + json.dumps(target["expr"]))
END
check "promtool likes the dashboard's expressions" promtool check rules "$scratch/dashboard.yml"
# Those of pawl export, those of programs, and what of pawl.h is spoken of.
names=$({
    echo "$with_lock"
    cat "$SOURCE_DIR/cli/look/metrics.c" "$SOURCE_DIR/include/pawl.h"
    sed -n 's/^    {"\([a-z_]*_total\)".*/pawl_client_\1/p' "$SOURCE_DIR/src/core/stats.c"
} | grep -oE '\bpawl_[a-z_]+' | sort -u)
for file in share/alerts.yml share/grafana.json docs/operators.md docs/operators.zh.md; do
    equal "$file names only metrics that there are" "" \
        "$(grep -oE '\bpawl_[a-z_]+' "$SOURCE_DIR/$file" | sort -u | comm -23 - <(echo "$names"))"
done

# A real Prometheus, which asks for OpenMetrics.
if [ -n "$http" ] && command -v prometheus >/dev/null; then
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    target=${address#http://}
    cat >"$scratch/prometheus.yml" <<END
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs: [{job_name: pawl, static_configs: [{targets: ["${target%/metrics}"]}]}]
END
    prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" --web.listen-address="127.0.0.1:$port" \
        >"$scratch/prometheus.log" 2>&1 &
    pids+=("$!")
    # QUERY: its first value
    query() {
        python3 -c 'import json, sys, urllib.parse, urllib.request
found = json.load(urllib.request.urlopen(sys.argv[1] + urllib.parse.quote(sys.argv[2]), timeout=10))["data"]["result"]
print(found[0]["value"][1] if found else "none")' "http://127.0.0.1:$port/api/v1/query?query=" "$1" 2>/dev/null
    }
    has() { [ "$(query "$1")" = "$2" ]; }
    check "Prometheus scrapes it" eventually has up 1
    check "... and has what it says" eventually has pawl_waiters 1
    kill "$waiter"
    check "... and what has changed" eventually has pawl_waiters 0
    kill "$holder"
    check "... and what has happened" eventually has 'pawl_events_total{kind="went"}' 1
else
    skip "Prometheus scrapes it" "there is no prometheus, or this pawl can't listen"
fi

done_testing
