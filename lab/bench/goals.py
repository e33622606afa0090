# SPDX-License-Identifier: Apache-2.0
"""The goals: one table says what is compared with what. What a round of pairs has to measure follows from it (contests), and so does
what RESULTS.md tells (rows)."""

from typing import NamedTuple

from figures import median, spread, three

# The same with ?spin=0, where that is a choice.
SLEEPING = {"redis": "redis0", "default": "spin0"}

# As bench-redlock calls them, and what they are.
VOTES = {
    "all": "5 servers",
    "one stopped": "5 servers, one stopped",
    "all, 2 ms away": "5 servers 2 ms away",
    "one stopped, 2 ms away": "5 servers 2 ms away, one stopped",
}

# Rows that one workload measures, under the name of its last.
WORKLOADS = dict.fromkeys(("trip", "write", "read", "trip_busy", "write_busy", "acquire"), "pair")
WORKLOADS |= {"flock16": "kept16", "flock16_5us": "kept16_5us", "message": "recall", "set": "value"}
WORKLOADS |= {row: f"kept_{row}" for row in ("reads999", "in_turn", "greedy2", "apart_3ms", "apart_100us")}

AT_MOST, AT_LEAST = "<=", ">="


class Goal(NamedTuple):
    """One path of figures.py is divided by another, within each round of pairs. Without a divisor it is no ratio, and the tables
    have it."""

    what: str
    relation: str
    limit: float
    dividend: tuple
    divisor: tuple = ()

    def reached(self, value):
        return value <= self.limit if self.relation == AT_MOST else value >= self.limit

    def values(self, figures):
        return figures.ratios(self.dividend, self.divisor) if self.divisor else figures.values(*self.dividend)

    def sleeping(self):
        """With ?spin=0; None: that is no choice here."""
        dividend, divisor = (tuple(SLEEPING.get(key, key) for key in path) for path in (self.dividend, self.divisor))
        return None if dividend == self.dividend else self._replace(dividend=dividend, divisor=divisor)


def pawl(target, row, measure):
    return ("pawl", target, row, measure)


def peer(name, line, measure):
    return ("peers", name, line, measure)


def bare(what, limit, target, row, divisor):
    """Medians of pawl and of a bare operation, on the same target."""
    return Goal(what, AT_MOST, limit, pawl(target, row, "p50_ns"), pawl(target, divisor, "p50_ns"))


def on_and_off(what, limit, target, row):
    """The rate with ?keep=, and without."""
    return Goal(what, AT_LEAST, limit, pawl(target, f"kept_{row}", "rate"), pawl(target, row, "rate"))


def like_flock(what, relation, limit, target, row, measure):
    """16 threads on a lock, and on a file."""
    return Goal(what, relation, limit, pawl(target, f"kept{row}", measure), pawl("local", f"flock{row}", measure))


def faster(what, limit, target, row, divisor):
    """The rate of pawl and of a line of a peer's."""
    return Goal(what, AT_LEAST, limit, pawl(target, row, "rate"), peer(*divisor, "rate"))


SERVERS = (("Redis", "redis"), ("ZooKeeper", "zk1"))
ONE_LOCK = "16 threads of one process on one lock, against"
GOALS = (
    # Shorter than reading a clock twice: by the rate.
    Goal("`local:` uncontended, against flock(2)", AT_MOST, 0.06, pawl("local", "write", "rate"), pawl("local", "pair", "rate")),
    bare("`local:` hand-off of 2 processes, against a bare futex throw", 1.5, "local", "turns2", "trip"),
    bare("Redis uncontended acquire, against a bare EVALSHA", 1.15, "redis", "acquire", "write"),
    bare("Redis hand-off of 2 processes, in bare round trips (PING)", 1.5, "redis", "turns2", "trip"),
    *(
        Goal(
            f"Redlock uncontended acquire, {what}, in round trips to one (EVALSHA)",
            AT_MOST,
            1.6,
            ("votes", servers, "default", "acquire"),
            ("votes", servers, "trip"),
        )
        for servers, what in VOTES.items()
    ),
    Goal("ZooKeeper uncontended cycle, against Curator", AT_MOST, 0.6, pawl("zk1", "pair", "p50_ns"), peer("curator", "alone", "p50_ns")),
    *(
        faster(f"ZooKeeper hand-offs a second, against Curator, {n} sessions", 1.5, "zk1", f"turns{n}", ("curator", f"turns {n}"))
        for n in (2, 16, 64)
    ),
    faster(f"{ONE_LOCK} Curator", 20, "zk1", "threads16", ("curator", "threads 16")),
    faster(f"{ONE_LOCK} Redisson", 20, "redis", "threads16", ("redisson", "threads 16")),
    *(
        Goal(f"requests per hand-off with {count:,} waiters, {name}", AT_MOST, limit, pawl(target, f"queue{count}", "requests"))
        for name, target, limit in (("Redis", "redis", 2), ("ZooKeeper", "zk1", 6))
        for count in (1000, 10000)
    ),
    # The server asks whether the lock is still held; the other side sets the same bytes, and asks nothing. Both sleep in poll().
    bare("write of a value by who holds, Redis, against a bare EVALSHA that sets", 1.2, "redis", "value", "set"),
    bare("write of a value by who holds, ZooKeeper, against a bare setData", 1.2, "zk1", "value", "set"),
    # Locks that are kept.
    *(
        goal
        for name, target in SERVERS
        for goal in (
            Goal(
                f"kept pair on {name}, no token asked for, against one on `local:`",
                AT_MOST,
                1.5,
                pawl("local", "kept", "rate"),
                pawl(target, "kept", "rate"),
            ),
            Goal(f"requests for each kept pair on {name}", AT_MOST, 1e-5, pawl(target, "kept", "requests")),
            Goal(
                f"read of a value under a shared lock that is kept, {name}, against a pair on `local:`",
                AT_MOST,
                1.5,
                pawl("local", "kept", "rate"),
                pawl(target, "kept_value", "rate"),
            ),
            # None is of a read: on Redis each process that keeps a lock looks ten times a second for programs that can't recall it.
            Goal(
                f"requests for each read of a value by 16 processes under a shared lock that is kept, {name}",
                AT_MOST,
                1e-4,
                pawl(target, "kept_value16", "requests"),
            ),
        )
    ),
    *(
        goal
        for name, target in (("`local:`", "local"), *SERVERS)
        for goal in (
            like_flock(f"16 threads on one lock, {name}, kept, against flock(2)", AT_LEAST, 3, target, "16", "rate"),
            like_flock(f"... with 5 us between holds, {name}", AT_LEAST, 0.9, target, "16_5us", "rate"),
            like_flock(f"... their longest wait, {name}", AT_MOST, 1.5, target, "16", "longest_ns"),
            Goal(f"... the least share as a part of the largest, {name}", AT_LEAST, 0.25, pawl(target, "kept16", "share")),
        )
    ),
    bare("acquire of what another process keeps, Redis, against a bare PUBLISH there and back", 1.6, "redis", "recall", "message"),
    bare("acquire of what another process keeps, ZooKeeper, in acquires of a free lock", 2.3, "zk1", "recall", "acquire"),
    on_and_off("16 processes, 99 % read, Redis, kept against not kept", 20, "redis", "reads99"),
    on_and_off("16 processes, 99.9 % read, Redis, kept against not kept", 100, "redis", "reads999"),
    on_and_off("2 processes strictly in turn, Redis, kept against not kept", 0.9, "redis", "in_turn"),
    on_and_off("2 processes that want it all the time, `local:`, kept against not kept", 0.95, "local", "greedy2"),
    *(
        goal
        for apart, row in (("3 ms", "apart_3ms"), ("100 us", "apart_100us"))
        for goal in (
            on_and_off(f"4 processes, {apart} between holds, Redis, kept against not kept", 0.9, "redis", row),
            Goal(f"... their longest wait in ns, {apart}", AT_MOST, 10_000_000, pawl("redis", f"kept_{row}", "longest_ns")),
        )
    ),
)


class Contest(NamedTuple):
    """What is measured right after each other: workloads of `pawl bench` on targets, and then, or before, a line of a peer's. Where no
    peer is named, pawl bench has both sides."""

    targets: list
    workloads: list
    peer: str = ""
    line: str = ""


def workload_of(row):
    return WORKLOADS.get(row, row)


def contests():
    """All that a round of pairs has, but for the votes, which bench-redlock takes in turns."""
    bare, across, beside = {}, {}, []
    for goal in GOALS:
        if not goal.divisor or goal.dividend[0] != "pawl":
            continue
        target, row = goal.dividend[1:3]
        targets = [target] + [key for key in [SLEEPING.get(target)] if key]
        if goal.divisor[0] == "peers":
            beside.append(Contest(targets, [workload_of(row)], *goal.divisor[1:3]))
            continue
        workloads = {workload_of(path[2]) for path in (goal.dividend, goal.divisor)}
        if goal.divisor[1] != target:
            # Two targets that take turns at one workload.
            for workload in workloads:
                across.setdefault(workload, set()).update({*targets, goal.divisor[1]})
            continue
        for key in targets:
            bare.setdefault(key, set()).update(workloads)
    # What is measured across targets is not measured once more on one of them: a round has one value of each.
    alone = [Contest([key], sorted(workloads - across.keys())) for key, workloads in bare.items()]
    return alone + [Contest(sorted(targets), [workload]) for workload, targets in across.items()] + beside


def rows(figures):
    """Each goal: what, the limit, what was measured in how many rounds, the same with ?spin=0, and whether it was reached. That is
    decided on like with like: with ?spin=0 where there is that choice, since the other side sleeps while it waits."""
    for goal in GOALS:
        values, sleeping = goal.values(figures), goal.sleeping()
        beside = spread(sleeping.values(figures), three) if sleeping else ""
        what = [goal.what, f"{goal.relation} {goal.limit}"]
        like = sleeping.values(figures) if sleeping else values
        if values:
            reached = "" if not like else "reached" if goal.reached(median(like)) else "**not reached**"
            yield [*what, spread(values, three), str(len(values)), beside, reached]
        else:
            yield [*what, "not measured", "", beside, ""]
