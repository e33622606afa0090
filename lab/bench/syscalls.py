#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Count the system calls of a cycle: lab/bench/syscalls.py URL...      (and, for `make bench`, count(URL))

strace counts all calls of a process and its threads. What opening and closing costs is taken off by counting twice, with few
cycles and with many: the difference belongs to the cycles alone. Under strace everything is slower, so that a hand-off may sleep
where it would have spun; how often threads sleep is counted without it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CYCLES = os.path.join(ROOT, os.environ.get("BUILD_DIR", "build"), "lab/bench/bench-cycles")
FEW, MANY, PATIENCE_S = 100, 600, 120
LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")


class Missing(Exception):
    """It can't be counted here, and why."""


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise Missing((done.stderr.strip().splitlines() or ["it failed"])[-1])
    return done.stdout


def calls_of(url, what, cycles):
    with tempfile.NamedTemporaryFile("r") as table:
        run(["strace", "-f", "-qq", "-c", "-e", "signal=none", "-o", table.name, CYCLES, url, what, str(cycles)])
        found = [LINE.match(line) for line in table.read().splitlines()]
    return {match[2]: int(match[1]) for match in found if match and match[2] not in ("sched_yield", "total")}


def count(url, what):
    """({name: calls per cycle}, how often a thread slept per cycle)"""
    if not shutil.which("strace"):
        raise Missing("there is no strace (Debian: strace)")
    few, many = calls_of(url, what, FEW), calls_of(url, what, MANY)
    each = {name: (calls - few.get(name, 0)) / (MANY - FEW) for name, calls in many.items()}
    return {name: value for name, value in each.items() if value >= 0.05}, float(run([CYCLES, url, what, str(MANY)]))


def as_text(calls):
    return ", ".join(f"{name} {value:.1f}" for name, value in sorted(calls.items(), key=lambda pair: -pair[1])) or "none"


def main():
    if len(sys.argv) < 2:
        print("usage: lab/bench/syscalls.py URL...", file=sys.stderr)
        return 64
    for url in sys.argv[1:]:
        for what in ("alone", "turns"):
            try:
                calls, sleeps = count(url, what)
                print(f"{url} {what}: {sum(calls.values()):.1f} calls ({as_text(calls)}), {sleeps:.1f} sleeps")
            except (Missing, OSError, subprocess.TimeoutExpired) as error:
                print(f"{url} {what}: not counted: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
