#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pawl beside Curator and Kazoo on one real ZooKeeper. Within a round all take their turn, so that a noisy machine hits them alike; what
counts is the ratio within one run: medians over the rounds. Nothing here passes or fails."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "interop"))
import zookeeper_peers as peers  # noqa: E402

ROUNDS, CYCLES, SPAN_MS = 5, 500, 1000
BENCH = os.path.join(ROOT, os.environ.get("BUILD_DIR", "build"), "bench/bench-zookeeper")


def pawl(url, *arguments):
    return int(subprocess.run([BENCH, url, *map(str, arguments)], stdout=subprocess.PIPE, check=True).stdout)


class Row:
    def __init__(self, server, name, contenders, unit):
        self.server, self.name, self.contenders, self.unit = server, name, contenders, unit
        self.values = {who: [] for who in contenders}
        self.requests = {who: [] for who in contenders}

    def round(self):
        for who, (measure, cycles) in self.contenders.items():
            before = self.server.received()
            value = measure()
            self.values[who].append(value)
            self.requests[who].append((self.server.received() - before) / (cycles or value * 1.25))

    def show(self):
        print(self.name)
        first = statistics.median(next(iter(self.values.values())))
        for who, values in self.values.items():
            middle = statistics.median(values)
            print(
                f"    {who:<8} {middle:>9.0f} {self.unit} [{min(values):.0f} {max(values):.0f}]   {middle / first:6.2f}"
                f"   {statistics.median(self.requests[who]):5.1f} requests a cycle"
            )


def rows(server, url, curator, kazoo):
    hosts = url
    yield Row(
        server,
        "uncontended acquire and release, p50",
        {
            "Curator": (lambda: int(curator.ask(f"cycles {CYCLES} /b/c")), CYCLES),
            "pawl": (lambda: pawl(hosts, "cycles", CYCLES), CYCLES),
            "Kazoo": (lambda: int(kazoo.ask(f"cycles {CYCLES} /b/k")), CYCLES),
        },
        "us",
    )
    for count in (2, 16, 64):
        yield Row(
            server,
            f"{count} sessions, changes of hands in {SPAN_MS} ms",
            {
                "Curator": (lambda n=count: int(curator.ask(f"turns {n} separate {SPAN_MS} /b/s{n}")), 0),
                "pawl": (lambda n=count: pawl(hosts, "turns", n, "separate", SPAN_MS), 0),
            },
            "  ",
        )
    yield Row(
        server,
        f"16 threads of one process, holds in {SPAN_MS} ms",
        {
            "Curator": (lambda: int(curator.ask(f"turns 16 shared {SPAN_MS} /b/t")), 0),
            "pawl": (lambda: pawl(hosts, "turns", 16, "shared", SPAN_MS), 0),
        },
        "  ",
    )


def main():
    directory = tempfile.mkdtemp(prefix="pawl-bench-")
    try:
        server = peers.Server(directory)
        curator, kazoo = peers.curator(server, directory), peers.kazoo(server)
        if not curator or not kazoo:
            print("Curator or Kazoo is missing: tools/deps test installs them")
            return 1
        curator.ask("cycles 500 /b/warm")
        for row in rows(server, f"zk://127.0.0.1:{server.port}/b", curator, kazoo):
            for _ in range(ROUNDS):
                row.round()
            row.show()
    finally:
        peers.end_all()
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
