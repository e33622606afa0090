# SPDX-License-Identifier: Apache-2.0
"""bench/RESULTS.md, from the figures of a run."""

import datetime
import os
import platform
import statistics
import subprocess

import syscalls

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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
}
MEASURES = ("rate", "p50_ns", "p99_ns", "p999_ns", "requests", "client_cpu_ns", "server_cpu_ns", "client_memory", "server_memory")


def merge(into, target):
    """Put the rounds of one `pawl bench --json` to those that are there."""
    into["server"] = target.get("server", "")
    rows = into.setdefault("rows", {})
    for row in target["rows"]:
        have = rows.setdefault(row["row"], {"title": row["title"], "bare": row.get("bare", ""), "against": row.get("against", "")})
        if "missing" in row:
            have["missing"] = row["missing"]
        for measure in MEASURES:
            if measure in row:
                have.setdefault(measure, []).extend(row[measure]["rounds"])


def three(value, unit=""):
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{unit}"


def as_time(ns):
    for limit, unit, factor in ((999.5, "ns", 1), (999.5e3, "µs", 1e3), (999.5e6, "ms", 1e6)):
        if ns < limit:
            return three(ns / factor, " " + unit)
    return three(ns / 1e9, " s")


def as_number(number):
    return f"{number:,.0f}" if number >= 99.5 else three(number) if number >= 0.00995 or not number else f"{number:.2g}"


def as_bytes(number):
    return three(number / 1e6, " MB") if number >= 999.5e3 else three(number / 1e3, " kB")


def spread(values, tell):
    """Median, with the lowest and the highest."""
    if not values:
        return ""
    middle = tell(statistics.median(values))
    return middle if len(values) < 2 else f"{middle} [{tell(min(values))} .. {tell(max(values))}]"


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows if row])


class Figures:
    """What a run has found, by name."""

    def __init__(self, run):
        self.run = run

    def row(self, target, row):
        return self.run.pawl.get(target, {}).get("rows", {}).get(row, {})

    def middle(self, target, row, measure):
        values = self.row(target, row).get(measure)
        return statistics.median(values) if values else None

    def peer(self, peer, line, measure):
        values = [one[measure] for one in self.run.peer_figures.get(peer, {}).get(line, []) if measure in one]
        return statistics.median(values) if values else None

    def peer_values(self, peer, line, measure):
        return [one[measure] for one in self.run.peer_figures.get(peer, {}).get(line, []) if measure in one]

    def against(self, target, row, measure, limit):
        """In how many of `limit`, a row of the same target."""
        return ratio(self.middle(target, row, measure), self.middle(target, limit, measure))

    def votes(self, servers, which):
        """Of an acquire over several servers, in round trips to one: a value per round."""
        return [one[which]["acquire"] / one["trip"] for one in self.run.votes if one["servers"] == servers]


def ratio(one, two):
    return one / two if one and two else None


def median(values):
    return statistics.median(values) if values else None


def goals(figures):
    """Each goal: what, the limit, whether at most or at least, what was measured, and the same with ?spin=0 where that is a choice."""
    middle, peer, against = figures.middle, figures.peer, figures.against
    curator_pair = peer("curator", "alone", "p50_us")
    yield (
        "`local:` uncontended, against flock(2)",
        0.3,
        False,
        ratio(middle("local", "write", "rate"), middle("local", "pair", "rate")),
        None,
    )
    what = "`local:` hand-off of 2 processes, against a bare futex throw"
    yield what, 1.5, False, against("local", "turns2", "p50_ns", "trip"), None
    for what, limit, row, bare in (
        ("Redis uncontended acquire, against a bare EVALSHA", 1.15, "acquire", "write"),
        ("Redis hand-off of 2 processes, in bare round trips (PING)", 1.5, "turns2", "trip"),
    ):
        yield what, limit, False, against("redis", row, "p50_ns", bare), against("redis0", row, "p50_ns", bare)
    for servers, what in VOTES.items():
        what = f"Redlock uncontended acquire, {what}, in round trips to one (EVALSHA)"
        yield what, 1.6, False, median(figures.votes(servers, "default")), median(figures.votes(servers, "spin0"))
    yield (
        "ZooKeeper uncontended cycle, against Curator",
        0.6,
        False,
        ratio(middle("zk1", "pair", "p50_ns"), curator_pair and curator_pair * 1000),
        None,
    )
    for sessions in (2, 16, 64):
        what = f"ZooKeeper hand-offs a second, against Curator, {sessions} sessions"
        yield what, 1.5, True, ratio(middle("zk1", f"turns{sessions}", "rate"), peer("curator", f"turns {sessions}", "rate")), None
    what = "16 threads of one process on one lock, against Curator"
    yield what, 20, True, ratio(middle("zk1", "threads16", "rate"), peer("curator", "threads 16", "rate")), None
    redisson = peer("redisson", "threads 16", "rate")
    what = "16 threads of one process on one lock, against Redisson"
    yield what, 20, True, *(ratio(middle(key, "threads16", "rate"), redisson) for key in ("redis", "redis0"))
    for count in (1000, 10000):
        what = f"requests per hand-off with {count:,} waiters, Redis"
        yield what, 2, False, *(middle(key, f"queue{count}", "requests") for key in ("redis", "redis0"))
    for count in (1000, 10000):
        what = f"requests per hand-off with {count:,} waiters, ZooKeeper"
        yield what, 6, False, middle("zk1", f"queue{count}", "requests"), None


def goal_rows(figures):
    for what, limit, at_least, value, sleeping in goals(figures):
        goal, beside = f"{'>=' if at_least else '<='} {limit}", three(sleeping) if sleeping is not None else ""
        if value is None:
            yield [what, goal, "not measured", beside, ""]
        else:
            reached = value >= limit if at_least else value <= limit
            yield [what, goal, three(value), beside, "reached" if reached else "**not reached**"]


BUSY_ROWS = (("acquire", "write", "EVALSHA"), ("pair", "write", "EVALSHA"))
BUSY_ROWS += (("turns2", "trip", "PING"), ("turns16", "trip", "PING"), ("turns64", "trip", "PING"))


def busy_rows(figures):
    """Redis as it is, with ?spin=0, and beside a bare client that waits busily too."""

    def times(value):
        return three(value) if value else ""

    def cpu(key, row):
        value = figures.middle(key, row, "client_cpu_ns")
        return as_time(value) if value else ""

    for row, bare, name in BUSY_ROWS:
        title = figures.row("redis", row).get("title")
        if title:
            yield [
                f"{title}, in {name}s",
                times(figures.against("redis", row, "p50_ns", bare)),
                times(figures.against("redis0", row, "p50_ns", bare)),
                times(ratio(figures.middle("redis", row, "p50_ns"), figures.middle("redis", f"{bare}_busy", "p50_ns"))),
                cpu("redis", row),
                cpu("redis0", row),
            ]


# As bench-redlock calls them, and what they are.
VOTES = {
    "all": "5 servers",
    "one stopped": "5 servers, one stopped",
    "all, 2 ms away": "5 servers 2 ms away",
    "one stopped, 2 ms away": "5 servers 2 ms away, one stopped",
}


def vote_rows(figures):
    """An acquire over five servers, in round trips to one."""
    for servers, title in VOTES.items():
        rounds = [one for one in figures.run.votes if one["servers"] == servers]
        if rounds:
            yield [
                title,
                spread([one["trip"] * 1000 for one in rounds], as_time),
                *(spread([one[key] / one["trip"] for one in rounds], three) for key in ("floor", "vote")),
                *(spread(figures.votes(servers, key), three) for key in ("default", "spin0")),
            ]


def engine_rows(figures):
    keys = list(figures.run.pawl)
    first = figures.run.pawl[keys[0]]["rows"]
    order = [row for row in first] + [row for key in keys for row in figures.run.pawl[key]["rows"] if row not in first]
    for row in sorted(set(order), key=lambda row: ROW_ORDER.index(row)):
        for key in keys:
            found = figures.row(key, row)
            if "rate" not in found and "p50_ns" not in found:
                continue
            against = against_bare(figures, key, row)
            yield [
                found["title"],
                NAMES[key] + (f", {found['bare']}" if found["bare"] else ""),
                spread(found.get("rate"), as_number),
                spread(found.get("p50_ns"), as_time),
                spread(found.get("p99_ns"), as_time),
                spread(found.get("p999_ns"), as_time),
                against,
            ]


ROW_ORDER = "trip write read trip_busy write_busy acquire pair turns2 turns16 turns64 threads16 exact16 own64".split()
ROW_ORDER += "reads90 reads99 queue1000 queue10000 holds10000 kill".split()


def against_bare(figures, key, row):
    limit = {"acquire": "write", "pair": "write"}.get(row, "trip" if row.startswith(("turns", "queue")) else None)
    if limit is None:
        return ""
    if key == "local" and row == "pair":  # shorter than reading a clock twice: by the rate
        value = ratio(figures.middle(key, limit, "rate"), figures.middle(key, row, "rate"))
    else:
        value = ratio(figures.middle(key, row, "p50_ns"), figures.middle(key, limit, "p50_ns"))
    return f"{as_number(value)} x {figures.row(key, limit)['bare']}" if value else ""


def load_rows(figures):
    for row in ("turns2", "turns16", "turns64", "threads16", "own64", "queue1000", "queue10000", "holds10000"):
        for key in figures.run.pawl:
            found = figures.row(key, row)
            if "client_cpu_ns" in found:
                yield [
                    found["title"],
                    NAMES[key],
                    spread(found.get("requests"), as_number),
                    spread(found.get("client_cpu_ns"), as_time),
                    spread(found.get("server_cpu_ns"), as_time),
                    spread(found.get("client_memory"), as_bytes).split(" [")[0],
                    spread(found.get("server_memory"), as_bytes).split(" [")[0],
                ]


LINES = (("alone", "pair", "uncontended acquire + release"), ("turns 2", "turns2", "hand-off, 2 clients"))
LINES += (("turns 16", "turns16", "hand-off, 16 clients"), ("turns 64", "turns64", "hand-off, 64 clients"))
LINES += (("threads 16", "threads16", "16 threads of one client"),)


def peer_rows(figures):
    names = {peer.key: PEER_NAMES.get(peer.key, peer.name) for peer in figures.run.peers}
    for line, row, title in LINES:
        for key, name in names.items():
            rate = figures.peer(key, line, "rate")
            if rate is None:
                continue
            engine = ENGINE_OF.get(key)
            ours = figures.middle(engine, row, "rate") if engine else None
            sleeping = figures.middle(f"{engine}0", row, "rate") if engine else None
            p50s = [value * 1000 for value in figures.peer_values(key, line, "p50_us")]
            yield [
                title,
                name,
                spread(figures.peer_values(key, line, "rate"), as_number),
                spread(p50s, as_time),
                as_number(ours) if ours else "",
                "(an outside reference)" if not ours else f"{as_number(ours / rate)} x" if rate else "(it had no turn at all)",
                f"{as_number(sleeping / rate)} x" if sleeping and rate else "",
            ]


def command_rows(figures):
    """Each command, and what it takes more than `true`."""
    rounds = figures.run.command
    names = list(rounds[0]) if rounds else []
    base = statistics.median([one["true"] * 1e6 for one in rounds]) if rounds else 0
    for name in names:
        values = [one[name] * 1e6 for one in rounds if one.get(name)]
        if values:
            more = as_time(max(statistics.median(values) - base, 0)) if name != "true" else ""
            yield [f"`{name}`" if name == "true" else name, spread(values, as_time), more]
        else:
            yield [name, "could not be run", ""]


def call_rows(figures):
    titles = {"alone": "uncontended acquire + release", "turns": "hand-off among 2 processes"}
    for what, title in titles.items():
        for key in figures.run.pawl:
            if (key, what) in figures.run.calls:
                calls, sleeps = figures.run.calls[key, what]
                yield [title, NAMES[key], three(sum(calls.values())), syscalls.as_text(calls), three(sleeps)]


def output_of(*command):
    try:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.strip()
    except OSError:
        return ""


def cpu_model():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_gib():
    for line in open("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return int(line.split()[1]) / 1048576
    return 0


def machine_lines(run):
    seconds = datetime.datetime.now().timestamp() - run.began
    yield f"date: {datetime.datetime.fromtimestamp(run.began):%Y-%m-%d}, {seconds / 60:.1f} minutes{', a quick run' if run.quick else ''}"
    yield f"pawl: {run.version}, commit {output_of('git', 'describe', '--always', '--dirty') or 'not known'}"
    yield f"machine: {cpu_model()}, {os.cpu_count()} processors, {memory_gib():.1f} GiB; {platform.system()} {platform.release()}"
    yield f"load average when it began: {run.load:.1f}"
    for key in run.pawl:
        if run.pawl[key]["server"]:
            yield f"{NAMES[key]}: {run.pawl[key]['server']}"
    yield "peers: " + ", ".join(f"{peer.name} {peer.version}".strip() for peer in run.peers if peer.key not in PEER_NAMES)


def left_out(run):
    seen = {}
    for key, why in run.left_out:
        seen.setdefault(f"- {key}: {why}", None)
    for key in run.pawl:
        for row in run.pawl[key]["rows"].values():
            if "missing" in row:
                seen.setdefault(f"- {NAMES[key]}, {row['title']}: {row['missing']}", None)
    if run.quick:
        seen.setdefault("- queues of 10,000 and 10,000 held locks: this was a quick run", None)
    seen.setdefault("- failover: `make failover` measures it, and writes FAILOVER.md", None)
    return "\n".join(seen)


def quote_rows(figures):
    """The few that the README shows."""
    for key in figures.run.pawl:
        yield [
            NAMES[key],
            as_time(figures.middle(key, "trip", "p50_ns") or 0),
            as_time(figures.middle(key, "pair", "p50_ns") or 0),
            as_number(figures.middle(key, "turns2", "rate") or 0),
            as_number(figures.middle(key, "turns16", "rate") or 0),
            as_number(figures.middle(key, "threads16", "rate") or 0),
            as_time(figures.middle(key, "kill", "p50_ns") or 0),
        ]


QUOTE_TITLES = ["", "bare round trip", "acquire + release", "hand-offs/s, 2 processes", "16 processes", "16 threads, holds/s"]
QUOTE_TITLES += ["after kill -9 (lease 2 s)"]

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


def choosing_keys(run):
    """The engines one chooses among."""
    return [key for key in run.pawl if key != "redis0"]


def choosing_rows(figures):
    """For docs/choosing.md."""
    for title, row, measure, tell in CHOOSING:
        values = [figures.middle(key, row, measure) for key in choosing_keys(figures.run)]
        if any(value is not None for value in values):
            yield [title] + [tell(value) if value is not None else "-" for value in values]


VOTE_TITLES = ["", "bare EVALSHA", "all at once", "... with the least work of a vote", "acquire", "... with `?spin=0`"]

PAGE = """# What was measured

Written by `make bench`; not to be edited. Each figure is the median of the rounds, with the lowest and the highest in brackets.
Within a round all took their turn. Client and server ran on one machine, so times say little about yours; ratios within this run
say more. `pawl bench` measures your own servers.

{machine}

![latency by percentile, hand-offs a second, hand-offs in bare round trips]({picture})

*The picture is of the last two rounds; the tables are of all.*

<!-- quote readme -->
{readme}
<!-- /quote -->

## Goals

<!-- quote goals -->
{goals}
<!-- /quote -->

## Busy waiting

What is called bare is measured with a client that sleeps until the answer is there: hiredis on a blocking connection, as most
programs use it. The kernel then has to wake it, which may take longer than the server's work. A caller of pawl's that waits alone
for an answer of Redis looks for it for up to 70 µs before it sleeps, unless that was in vain lately (never while it waits for a
lock): so an acquire can take less than a bare EVALSHA, and the first column compares unlike clients, though it is what users get.
The second has pawl with `?spin=0`, which sleeps at once: both clients sleep. The third has a bare client that looks for its
answers for as long: both wait busily. CPU of all clients is for each hand-off.

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

For each hand-off or hold: requests that reach the servers, CPU time of all clients and of all servers; for held locks: in a
second. Memory is what one client process, and all servers, have for themselves.

{load}

## The peers

The same workload on the same server. Clients in C, Python and etcd's are processes; those of Curator, Redisson and node-redlock
are sessions within one process, as their runtime has it. What the kernel and the C library offer has no queue: whoever runs may
take it again while others wait, which is fast among threads, and not fair. redis-py and node-redlock ask again and again, with
pauses of 100 and 200 ms, and have few hand-offs for that reason.

{peers}

## System calls

Of the clients alone, counted by strace (`bench/syscalls.py URL` counts on your servers); beside them, counted without it, how
often a thread of theirs went to sleep and was woken.

{calls}

## The command

`true` as the command under a free lock: what is measured is starting, connecting, locking, running it and releasing.

{command}

## Left out

{left_out}
"""


def page(run, picture):
    figures = Figures(run)
    return PAGE.format(
        machine="\n".join(f"- {line}" for line in machine_lines(run)),
        picture=picture,
        readme=table(QUOTE_TITLES, quote_rows(figures)),
        choosing=table([""] + [NAMES[key] for key in choosing_keys(run)], choosing_rows(figures)),
        goals=table(["", "goal", "measured", "with `?spin=0`", ""], goal_rows(figures)),
        busy=table(["", "as users get it", "both sleep", "both wait busily", "CPU of clients", "... with `?spin=0`"], busy_rows(figures)),
        votes=table(VOTE_TITLES, vote_rows(figures)),
        engines=table(["", "", "a second", "median", "p99", "p99.9", "of bare"], engine_rows(figures)),
        load=table(["", "", "requests", "CPU of clients", "CPU of servers", "memory here", "memory there"], load_rows(figures)),
        peers=table(["", "", "a second", "median", "pawl, a second", "pawl is", "with `?spin=0`"], peer_rows(figures)),
        calls=table(["", "", "calls", "which", "sleeps"], call_rows(figures)),
        command=table(["a command under a free lock", "", "more than `true`"], command_rows(figures)),
        left_out=left_out(run),
    )
