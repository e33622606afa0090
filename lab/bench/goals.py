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

# Rows that one workload measures in turns, under the name of its last.
ALONE = ("trip", "write", "read", "trip_busy", "write_busy", "acquire", "pair")

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


def faster(what, limit, target, row, divisor):
    """The rate of pawl and of a line of a peer's."""
    return Goal(what, AT_LEAST, limit, pawl(target, row, "rate"), peer(*divisor, "rate"))


ONE_LOCK = "16 threads of one process on one lock, against"
GOALS = (
    # Shorter than reading a clock twice: by the rate.
    Goal("`local:` uncontended, against flock(2)", AT_MOST, 0.3, pawl("local", "write", "rate"), pawl("local", "pair", "rate")),
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
)


class Contest(NamedTuple):
    """What is measured right after each other: workloads of `pawl bench` on targets, and then, or before, a line of a peer's. Where no
    peer is named, pawl bench has both sides."""

    targets: list
    workloads: list
    peer: str = ""
    line: str = ""


def workload_of(row):
    return "pair" if row in ALONE else row


def contests():
    """All that a round of pairs has, but for the votes, which bench-redlock takes in turns."""
    bare, beside = {}, []
    for goal in GOALS:
        if not goal.divisor or goal.dividend[0] != "pawl":
            continue
        target, row = goal.dividend[1:3]
        targets = [target] + [key for key in [SLEEPING.get(target)] if key]
        if goal.divisor[0] == "peers":
            beside.append(Contest(targets, [workload_of(row)], *goal.divisor[1:3]))
        else:
            for key in targets:
                bare.setdefault(key, set()).update(workload_of(path[2]) for path in (goal.dividend, goal.divisor))
    return [Contest([key], sorted(workloads)) for key, workloads in bare.items()] + beside


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
