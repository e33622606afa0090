# SPDX-License-Identifier: Apache-2.0
"""bench/RESULTS.md, from what a run has found."""

import goals
import machine
import syscalls
from figures import MEASURES, Figures, as_bytes, as_number, as_time, median, spread, table, three

NAMES = {
    "local": "`local:`",
    "redis": "Redis",
    "redis0": "Redis, `?spin=0`",
    "cluster": "Redis Cluster",
    "five": "Redlock, 5 servers",
    "zk1": "ZooKeeper, 1 node",
    "zk3": "ZooKeeper, 3 nodes",
}
PEER_NAMES = {"curator3": "Curator, 3 nodes", "redlock5": "node-redlock, 5 servers"}
PEER_NAMES |= {f"{key}-debian": f"{name} of Debian" for key, name in (("redis-py", "redis-py"), ("curator", "Curator"), ("kazoo", "Kazoo"))}
ENGINE_OF = {
    "flock": "local",
    "ofd": "local",
    "robust": "local",
    "redisson": "redis",
    "redis-py": "redis",
    "redlock": "redis",
    "redlock5": "five",
    "curator": "zk1",
    "kazoo": "zk1",
    "curator3": "zk3",
    "redis-py-debian": "redis",
    "curator-debian": "zk1",
    "kazoo-debian": "zk1",
}
BUSY_ROWS = (("acquire", "write", "EVALSHA"), ("pair", "write", "EVALSHA"))
BUSY_ROWS += (("turns2", "trip", "PING"), ("turns16", "trip", "PING"), ("turns64", "trip", "PING"))


def busy_rows(figures):
    """Redis as it is, with ?spin=0, and beside a bare client that waits busily too."""

    def times(key, row, bare):
        return spread(figures.ratios(("pawl", key, row, "p50_ns"), ("pawl", key, bare, "p50_ns")), three)

    def cpu(key, row):
        return spread(figures.values("pawl", key, row, "client_cpu_ns"), as_time)

    for row, bare, name in BUSY_ROWS:
        if row in figures.found["titles"]:
            yield [
                f"{figures.found['titles'][row]}, in {name}s",
                times("redis", row, bare),
                times("redis0", row, bare),
                times("redis", row, f"{bare}_busy"),
                cpu("redis", row),
                cpu("redis0", row),
            ]


def vote_rows(figures):
    """An acquire over five servers, in round trips to one."""
    for servers, title in goals.VOTES.items():
        trip = ("votes", servers, "trip")
        if figures.values(*trip):
            yield [
                title,
                spread([us * 1000 for us in figures.values(*trip)], as_time),
                *(spread(figures.ratios(("votes", servers, key), trip), three) for key in ("floor", "vote")),
                *(spread(figures.ratios(("votes", servers, key, "acquire"), trip), three) for key in ("default", "spin0")),
            ]


def engine_rows(figures):
    for row in ROW_ORDER:
        for key in figures.found["servers"]:
            values = {measure: figures.values("pawl", key, row, measure) for measure in MEASURES}
            bare = figures.found["bare"].get(key, {}).get(row)
            if values["rate"] or values["p50_ns"]:
                yield [
                    figures.found["titles"][row],
                    NAMES[key] + (f", {bare}" if bare else ""),
                    spread(values["rate"], as_number),
                    *(spread(values[measure], as_time) for measure in ("p50_ns", "p99_ns", "p999_ns")),
                    against_bare(figures, key, row),
                ]


ROW_ORDER = "trip write read trip_busy write_busy message set flock16 flock16_5us acquire pair value kept kept_value".split()
ROW_ORDER += "turns2 turns16 turns64 threads16 exact16 own64 kept16 kept16_5us".split()
ROW_ORDER += "reads90 reads99 kept_reads99 kept_value16 reads999 kept_reads999 in_turn kept_in_turn greedy2 kept_greedy2".split()
ROW_ORDER += "apart_3ms kept_apart_3ms apart_100us kept_apart_100us recall queue1000 queue10000 holds10000 kill".split()


def against_bare(figures, key, row):
    limit = {"acquire": "write", "pair": "write"}.get(row, "trip" if row.startswith(("turns", "queue")) else None)
    if limit is None:
        return ""
    dividend, divisor = ("pawl", key, row, "p50_ns"), ("pawl", key, limit, "p50_ns")
    if key == "local" and row == "pair":  # shorter than reading a clock twice: by the rate
        dividend, divisor = ("pawl", key, limit, "rate"), ("pawl", key, row, "rate")
    values = figures.ratios(dividend, divisor)
    return f"{spread(values, as_number)} x {figures.found['bare'][key][limit]}" if values else ""


def load_rows(figures):
    for row in ("pair", "turns2", "turns16", "turns64", "threads16", "own64", "queue1000", "queue10000", "holds10000"):
        for key in figures.found["servers"]:
            values = {measure: figures.values("pawl", key, row, measure) for measure in MEASURES}
            if values["client_cpu_ns"]:
                yield [
                    figures.found["titles"][row],
                    NAMES[key],
                    spread(values["requests"], as_number),
                    spread(values["client_cpu_ns"], as_time),
                    spread(values["server_cpu_ns"], as_time),
                    *(as_bytes(median(values[name])) if values[name] else "" for name in ("client_memory", "server_memory")),
                ]


# The workloads that peers have: as they are asked for them, and the row of pawl's.
LINES = {"alone": "pair", "turns 2": "turns2", "turns 16": "turns16", "turns 64": "turns64", "threads 16": "threads16"}
LINE_TITLES = {"alone": "uncontended acquire + release", "threads 16": "16 threads of one client"}
LINE_TITLES |= {f"turns {count}": f"hand-off, {count} clients" for count in (2, 16, 64)}


def peer_rows(figures):
    for line, row in LINES.items():
        for key, peer in figures.found["peers"].items():
            rates = figures.values("peers", key, line, "rate")
            engine = ENGINE_OF.get(key)
            if not rates:
                continue
            times, sleeping = (
                figures.ratios(("pawl", target, row, "rate"), ("peers", key, line, "rate"))
                for target in (engine, goals.SLEEPING.get(engine))
            )
            yield [
                LINE_TITLES[line],
                PEER_NAMES.get(key, peer["name"]),
                spread(rates, as_number),
                spread(figures.values("peers", key, line, "p50_ns"), as_time),
                spread(figures.values("pawl", engine, row, "rate"), as_number),
                spread(times, as_number) if engine else "(an outside reference)",
                spread(sleeping, as_number),
            ]


def command_rows(figures):
    """Each command, and what it takes more than `true` did in the same round."""
    for name in dict.fromkeys(name for one in figures.rounds for name in one.get("command", {})):
        both = [(one["command"][name] * 1e6, one["command"]["true"] * 1e6) for one in figures.rounds if one.get("command", {}).get(name)]
        more = [max(ns - least, 0) for ns, least in both] if name != "true" else []
        ran = spread([ns for ns, _ in both], as_time) or "could not be run"
        yield [f"`{name}`" if name == "true" else name, ran, spread(more, as_time)]


def call_rows(figures):
    titles = {"alone": "uncontended acquire + release", "turns": "hand-off among 2 processes"}
    for what, title in titles.items():
        for key, (calls, sleeps) in figures.found["calls"].get(what, {}).items():
            yield [title, NAMES[key], three(sum(calls.values())), syscalls.as_text(calls), three(sleeps)]


def machine_lines(found):
    yield f"pawl: {found['version']}, commit {found['commit'] or 'not known'}{'; a quick run' if found['quick'] else ''}"
    yield from machine.lines(found)
    for run in found.get("earlier", []):
        yield f"{run['pairs']} of the rounds of pairs are of a run of the same code before that: {machine.in_short(run)}"
    for key, server in found["servers"].items():
        if server:
            yield f"{NAMES[key]}: {server}"
    peers = [
        f"{peer['name']}{' of Debian' if key.endswith('-debian') else ''} {peer['version']}".strip()
        for key, peer in found["peers"].items()
        if key not in ("curator3", "redlock5")
    ]
    yield "peers: " + ", ".join(peers)


def left_out(found):
    lines = [f"- {name}: {why}" for name, why in found["left_out"]]
    if found["quick"]:
        lines.append("- queues of 10,000 and 10,000 held locks: this was a quick run")
    lines.append("- failover: `make failover` measures it, and writes FAILOVER.md")
    return "\n".join(dict.fromkeys(lines))  # each once


QUOTED = (
    ("acquire + release", "pair", "p50_ns", as_time),
    ("hand-offs/s, 16 processes", "turns16", "rate", as_number),
    ("free after kill -9 (lease 2 s)", "kill", "p50_ns", as_time),
)
QUOTED_ENGINES = ("local", "redis", "five", "zk3")


def quote_rows(figures):
    """The few that the README shows."""
    for key in QUOTED_ENGINES:
        if key in figures.found["servers"]:
            yield [NAMES[key]] + [tell(figures.middle("pawl", key, row, measure) or 0) for _, row, measure, tell in QUOTED]


CHOOSING = (
    ("read without a lock (GET, getData), median", "read", "p50_ns", as_time),
    ("acquire + release, nobody else, median", "pair", "p50_ns", as_time),
    ("hand-offs a second, 16 processes", "turns16", "rate", as_number),
    ("holds a second, 16 threads of one process", "threads16", "rate", as_number),
    ("holds a second, 16 processes, 99 % read", "reads99", "rate", as_number),
    ("requests for each hand-off, 16 processes", "turns16", "requests", three),
    ("requests for each hand-off, queue of 1,000", "queue1000", "requests", three),
    ("requests for each hand-off, queue of 10,000", "queue10000", "requests", three),
    ("CPU of the servers for each hand-off, 16 processes", "turns16", "server_cpu_ns", as_time),
    ("CPU of the servers in a second, 10,000 locks held", "holds10000", "server_cpu_ns", as_time),
    ("kill -9 until the next one holds, lease 2 s", "kill", "p50_ns", as_time),
)


def choosing_keys(found):
    """The engines one chooses among."""
    return [key for key in found["servers"] if key not in goals.SLEEPING.values()]


def choosing_rows(figures):
    """For docs/choosing.md."""
    for title, row, measure, tell in CHOOSING:
        values = [figures.middle("pawl", key, row, measure) for key in choosing_keys(figures.found)]
        if any(value is not None for value in values):
            yield [title] + [tell(value) if value is not None else "-" for value in values]


VOTE_TITLES = ["", "bare EVALSHA", "all at once", "... with the least work of a vote", "acquire", "... with `?spin=0`"]

PAGE = """# What was measured

Written by `make bench`; not to be edited. Client and server ran on one machine, so times say little about yours; ratios within this
run say more. `pawl bench` measures your own servers.

Each figure is the median of the rounds, with the lowest and the highest in brackets; all rounds count. {rounds} rounds are of the
tables: workload by workload, pawl on all engines and then all peers took their turn. {pairs} more are of pairs, for the goals: the two
sides of a comparison within seconds of each other, ours first in every other round; where the bare server or the kernel is the other
side, both are of one call of `pawl bench` or, for Redlock, of one process that takes them in turns.

**A ratio is taken within each round**, and what is told is the median of these ratios, with the lowest and the highest: a machine that
is shared may be twice as fast in one minute as in the next, which hits both sides of a round alike. So a ratio is not the quotient of
the two figures that stand beside it; ∞ is that of a round in which the other side had no turn at all. Where a comparison has rounds of
pairs, its ratio is of those wherever it stands on this page. All rounds are in [{raw}]({raw}).

{machine}

![latency by percentile, hand-offs a second, hand-offs in bare round trips]({picture})

*The picture is of two rounds of its own.*

<!-- quote readme -->
{readme}
<!-- /quote -->

## Goals

Whether a goal is reached is decided on like with like: the other side sleeps while it waits for an answer, so where there is a figure
with `?spin=0`, it is the one that counts.

<!-- quote goals -->
{goals}
<!-- /quote -->

## Busy waiting

What is called bare is measured with a client that sleeps until the answer is there: hiredis on a blocking connection, as most
programs use it. The kernel then has to wake it, which may take longer than the server's work. A caller of pawl's that waits alone
for an answer of Redis looks for it for up to 70 µs before it sleeps, unless that did not help lately (never while it waits for a
lock): so an acquire can take less than a bare EVALSHA, and the first column compares unlike clients, though it is what users get.
The second has pawl with `?spin=0`, which sleeps at once: both clients sleep. The third has a bare client that looks for its
answers for as long: both wait busily. CPU of all clients is for each hand-off. Where a value is written, the bare client sleeps in
poll() before it reads, as pawl does, which can be called away: one system call more than on a blocking connection.

{busy}

## Redlock

An acquire over five servers, in bare round trips (EVALSHA) to one of them, taken in turns in one process; also while one of the
five is stopped; and both once more through proxies that hold each answer back for 2 ms, since five servers, and a client, that share
the cores of one machine wait for each other more than for the way. Beside it what the plainest loop over poll() reaches when it
sends to all at once and reads until a majority has answered: with an empty script, and with the least that a vote can be.

{votes}

## At a glance

<!-- quote choosing -->
{choosing}
<!-- /quote -->

## The engines

Hand-off: from the call of release to the return of the next one's acquire. Bare: what the same server, or the kernel, takes for
a single operation in the same process. `read` rows are what the server takes for a read without a lock.

{engines}

## Load

For each pair, hand-off or hold: requests that reach the servers, CPU time of all clients and of all servers; for held locks: in a
second. Memory is what one client process, and all servers, have for themselves.

{load}

## The peers

The same workload on the same server. Clients in C, Python and etcd's are processes; those of Curator, Redisson and node-redlock
are sessions within one process, as their runtime has it. What the kernel and the C library offer has no queue: the thread that runs
may take it again while others wait, which is fast among threads, and not fair. redis-py and node-redlock ask again and again, with
pauses of 100 and 200 ms, and have few hand-offs for that reason.

{peers}

## System calls

Of the clients alone, counted by strace (`lab/bench/syscalls.py URL` counts on your servers); beside them, counted without it, how
often a thread of theirs went to sleep and was woken.

{calls}

## The command

`true` as the command under a free lock: what is measured is starting, connecting, locking, running it and releasing.

{command}

## Left out

{left_out}
"""


def page(found, picture, raw):
    figures = Figures(found)
    return PAGE.format(
        machine="\n".join(f"- {line}" for line in machine_lines(found)),
        rounds=len([one for one in figures.rounds if "peers" in one]),
        pairs=len(figures.pairs),
        picture=picture,
        raw=raw,
        readme=table([""] + [title for title, *_ in QUOTED], quote_rows(figures)),
        choosing=table([""] + [NAMES[key] for key in choosing_keys(found)], choosing_rows(figures)),
        goals=table(["", "goal", "measured", "rounds", "with `?spin=0`", ""], goals.rows(figures)),
        busy=table(["", "as users get it", "both sleep", "both wait busily", "CPU of clients", "... with `?spin=0`"], busy_rows(figures)),
        votes=table(VOTE_TITLES, vote_rows(figures)),
        engines=table(["", "", "a second", "median", "p99", "p99.9", "of bare"], engine_rows(figures)),
        load=table(["", "", "requests", "CPU of clients", "CPU of servers", "memory here", "memory there"], load_rows(figures)),
        peers=table(["", "", "a second", "median", "pawl, a second", "pawl is x times", "with `?spin=0`"], peer_rows(figures)),
        calls=table(["", "", "calls", "which", "sleeps"], call_rows(figures)),
        command=table(["a command under a free lock", "", "more than `true`"], command_rows(figures)),
        left_out=left_out(found),
    )
