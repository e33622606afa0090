# SPDX-License-Identifier: Apache-2.0
"""Figures: what a run has found, round by round; ratios of it; and how people write them.

A round is a tree of values, and a path leads to one of them; both sides of a comparison have their measures under the same names:

    ("pawl", TARGET, ROW, MEASURE)             a row of `pawl bench --json`
    ("peers", PEER, LINE, MEASURE)             an answer of bench/peers
    ("votes", SERVERS, WHICH...)               what bench-redlock printed
    ("command", NAME)                          what bench-command printed

What was not measured in a round is not in it. A ratio is taken within each round, where the machine was the same for both, and only
then over the rounds: the machine of one round may be twice as fast as that of the next, and medians of unlike rounds would be
compared otherwise."""

import math
import statistics

MEASURES = ("rate", "p50_ns", "p99_ns", "p999_ns", "longest_ns", "share")
MEASURES += ("requests", "client_cpu_ns", "server_cpu_ns", "client_memory", "server_memory")


def median(values):
    return statistics.median(values) if values else None


def ratio(dividend, divisor):
    return dividend / divisor if divisor else math.inf


def at(tree, path):
    """The value there; None: there is none."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def put(tree, path, value):
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def names(found):
    """What a run has figures of: rows of a target, lines of a peer, and the like."""
    trees = [{key: one.get(key, {}) for key in ("pawl", "peers")} for one in found["rounds"] + found["pairs"]] + [{"calls": found["calls"]}]
    named = {(side, who, what) for tree in trees for side in tree for who in tree[side] for what in tree[side][who]}
    return named | {(side, what) for one in found["rounds"] + found["pairs"] for side in ("votes", "command") for what in one.get(side, {})}


class Figures:
    """What a run has found, by path. There are two kinds of rounds: of the tables, in which everything is measured, and of pairs, in
    which two sides are measured right after each other."""

    def __init__(self, found):
        self.found, self.rounds, self.pairs = found, found["rounds"], found["pairs"]

    def values(self, *path):
        """One of each round that has it: of the tables, or of pairs, where those alone do."""
        for rounds in (self.rounds, self.pairs):
            values = [value for value in (at(one, path) for one in rounds) if value is not None]
            if values:
                return values
        return []

    def middle(self, *path):
        return median(self.values(*path))

    def ratios(self, dividend, divisor):
        """One of each round that has both: of pairs, or of the tables, where those alone do."""
        for rounds in (self.pairs, self.rounds):
            both = [(at(one, dividend), at(one, divisor)) for one in rounds]
            both = [pair for pair in both if None not in pair]
            if both:
                return [ratio(*pair) for pair in both]
        return []


def three(value, unit=""):
    if math.isinf(value):
        return "∞"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{unit}"


def as_time(ns):
    for limit, unit, factor in ((999.5, "ns", 1), (999.5e3, "µs", 1e3), (999.5e6, "ms", 1e6)):
        if ns < limit:
            return three(ns / factor, " " + unit)
    return three(ns / 1e9, " s")


def as_number(number):
    return f"{number:,.0f}" if 99.5 <= number < math.inf else three(number) if number >= 0.00995 or not number else f"{number:.2g}"


def as_bytes(number):
    return three(number / 1e6, " MB") if number >= 999.5e3 else three(number / 1e3, " kB")


def as_share(share):
    return f"{share * 100:.1f} %"


def spread(values, tell):
    """Median, with the lowest and the highest."""
    if not values:
        return ""
    middle = tell(median(values))
    return middle if len(values) < 2 else f"{middle} [{tell(min(values))} .. {tell(max(values))}]"


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows if row])
