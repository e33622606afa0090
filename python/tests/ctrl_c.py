# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a lock is waited for, on each engine that is named: it ends the wait soon, and a signal that is handled keeps the place in
the queue. Servers are started as they are needed; exit status 77: one can't be started.

    BUILD_DIR=build PYTHONPATH=build/python python3 python/tests/ctrl_c.py [--within MS] local redis zk
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from typing import Any, Dict, List

import pawl

from waiters import PATIENCE_S, wait_until_left, when_queued

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lab/servers"))
import launch  # type: ignore[import] # noqa: E402

KINDS = {"redis": "redis", "zk": "zookeeper"}  # as pawl-servers calls them
TRIES, SIGNALS = 5, 500


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def ctrl_c(url: str) -> float:
    """For how many milliseconds a wait goes on after Ctrl-C: the median of some."""
    name, took = uuid.uuid4().hex, []
    with pawl.Client(url) as client, pawl.Lock(name, client=client):
        for _ in range(TRIES):
            sent = 0.0

            def act() -> None:
                nonlocal sent
                sent = time.monotonic()
                interrupt()

            thread = when_queued(name, url, 2, act)
            try:
                pawl.Lock(name, url=url, timeout=PATIENCE_S).acquire()
                raise SystemExit(f"{url}: Ctrl-C did not end the wait")
            except KeyboardInterrupt:
                took.append((time.monotonic() - sent) * 1000)
            thread.join()
            wait_until_left(name, url, 1)
    return sorted(took)[TRIES // 2]


def handled(url: str) -> int:
    """How many signals were handled by one that waits, and came first all the same."""
    name = uuid.uuid4().hex
    order: List[str] = []
    heard: List[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    with pawl.Client(url) as one, pawl.Client(url) as two:
        held = pawl.Lock(name, client=one).hold()

        def come_later() -> None:
            with pawl.Lock(name, client=two, timeout=PATIENCE_S):
                order.append("second")

        later = threading.Thread(target=come_later)

        def disturb() -> None:
            end = time.monotonic() + PATIENCE_S / 2
            while len(heard) < SIGNALS and time.monotonic() < end:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                time.sleep(0.001)
            held.release()

        threads: List[threading.Thread] = [when_queued(name, url, 2, later.start), when_queued(name, url, 3, disturb)]
        with pawl.Lock(name, url=url, timeout=PATIENCE_S):
            order.append("first")
        for thread in [*threads, later]:
            thread.join()
    signal.signal(signal.SIGUSR1, before)
    if order != ["first", "second"]:
        raise SystemExit(f"{url}: a signal that was handled cost the place in the queue")
    return len(heard)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--within", type=float, default=100, metavar="MS", help="Ctrl-C ends a wait within so many milliseconds (100)")
    parser.add_argument("engine", nargs="+", choices=["local", *KINDS])
    arguments = parser.parse_args()
    started: Dict[str, Any] = {}
    late = False
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who started us may ignore it
    with tempfile.TemporaryDirectory() as directory:
        try:
            for engine in arguments.engine:
                if engine in KINDS:
                    started[engine] = launch.Servers(KINDS[engine])
                url = str(started[engine].url) if engine in KINDS else f"local:{directory}/locks"
                took, signals = ctrl_c(url), handled(url)
                late |= took > arguments.within
                print(f"{engine}: Ctrl-C ended a wait after {took:.1f} ms; {signals} handled signals kept the place", flush=True)
        except launch.Missing as why:
            print(why, file=sys.stderr)
            sys.exit(77)
        finally:
            for server in started.values():
                server.end()
    if late:
        raise SystemExit(f"Ctrl-C took longer than {arguments.within:g} ms")


if __name__ == "__main__":
    main()
