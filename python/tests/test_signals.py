# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a wait; a signal that a handler takes care of does not, and the place in the queue is kept."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any, Callable, Iterator, List

import pytest
from conftest import Servers, run

import pawl

from waiters import PATIENCE_S, wait_until_left, when_queued


@pytest.fixture
def heard(monkeypatch: Any) -> Iterator[List[int]]:
    """How often SIGUSR1 was handled."""
    handled: List[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
    yield handled
    signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """As in a terminal; who started the tests may have them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_wait(url: str, name: str, ctrl_c: None) -> None:
    lock = pawl.Lock(name, url=url, timeout=PATIENCE_S)
    with pawl.Client(url) as client, pawl.Lock(name, client=client):
        waits: List[Callable[[], object]] = [lock.acquire, lock.__enter__, pawl.all_of(lock).__enter__, lock.hold]
        for wait in waits:
            thread = when_queued(name, url, 2, interrupt)
            with pytest.raises(KeyboardInterrupt):
                wait()
            thread.join(PATIENCE_S)
            assert lock.token == 0
            wait_until_left(name, url, 1)
    with lock:
        pass


def test_a_handled_signal_keeps_the_place(url: str, name: str, heard: List[int]) -> None:
    order: List[str] = []
    first, second = pawl.Lock(name, url=url, timeout=PATIENCE_S), pawl.Client(url)
    with pawl.Client(url) as holder:
        held = pawl.Lock(name, client=holder).hold()

        def come_later() -> None:
            with pawl.Lock(name, client=second, timeout=PATIENCE_S):
                order.append("second")

        later = threading.Thread(target=come_later)

        def disturb() -> None:
            release = when_queued(name, url, 3, finish)
            later.start()
            release.join(PATIENCE_S)

        def finish() -> None:
            for _ in range(100):
                os.kill(os.getpid(), signal.SIGUSR1)
            held.release()

        thread = when_queued(name, url, 2, disturb)
        with first:
            order.append("first")
        thread.join(PATIENCE_S)
        later.join(PATIENCE_S)
    second.close()
    assert heard and order == ["first", "second"]


CLOSING = """
import os, signal, sys
sys.path.append(sys.argv[3])
import pawl
from waiters import when_queued
url, name = sys.argv[1:3]
client = pawl.Client(url)
lock = pawl.Lock(name, client=client)
waits = {"acquire": lock.acquire, "with": lock.__enter__, "all_of": pawl.all_of(lock, pawl.Lock(name + "2", client=client)).acquire}

def end(number, frame):
    client.close()
    if "exit" in sys.argv:
        sys.exit(3)

signal.signal(signal.SIGTERM, end)
with pawl.Client(url) as other, pawl.Lock(name, client=other):
    when_queued(name, url, 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        waits[sys.argv[4]]()
    except pawl.ClosedError as error:
        print(error.name, client.closed)
"""


@pytest.mark.parametrize("wait", ["acquire", "with", "all_of"])
def test_a_handler_closes_the_client_that_waits(url: str, name: str, wait: str) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    ended = run(CLOSING, url, name, here, wait)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "PAWL_ECLOSED True\n", "")
    ended = run(CLOSING, url, name, here, wait, "exit")
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", "")
    pawl.Lock(name, url=url).hold(timeout=30).release()


def test_a_second_signal_before_the_set_has_ended(servers: Servers, name: str, heard: List[int], ctrl_c: None) -> None:
    """The server is silent, so that both locks of a set are waited for when the first signal has raised."""
    if "redis" not in pawl.engines():
        pytest.skip("redis is not in this build")
    url = servers.url("redis")
    server = servers.started["redis"].pids[0]
    both = pawl.all_of(pawl.Lock(name + "a", url=url), pawl.Lock(name + "b", url=url))
    both.acquire()
    both.release()

    def send() -> None:
        time.sleep(0.2)
        for number in (signal.SIGINT, signal.SIGUSR1):  # Python handles the lower number first
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        time.sleep(2)
        os.kill(server, signal.SIGCONT)

    thread = threading.Thread(target=send, daemon=True)
    os.kill(server, signal.SIGSTOP)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            both.acquire()
    finally:
        thread.join(60)
        os.kill(server, signal.SIGCONT)
    assert heard == [signal.SIGUSR1]
    assert both.acquire(timeout=30)
    both.release()


class Storm:
    """Signals for the main thread, as many as another thread can send. The handler raises once each time it is armed."""

    def __init__(self) -> None:
        self.armed, self.stop = False, threading.Event()
        self.thread = threading.Thread(target=self.blow, daemon=True)

    def handle(self, number: int, frame: object) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def blow(self) -> None:
        while not self.stop.is_set():
            interrupt()
            time.sleep(0.0002)

    def __enter__(self) -> Storm:
        self.before = signal.signal(signal.SIGINT, self.handle)
        self.thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.armed = False
        self.stop.set()
        self.thread.join(PATIENCE_S)
        signal.signal(signal.SIGINT, self.before)


@pytest.mark.parametrize("count", [150, pytest.param(1500, marks=pytest.mark.long)])
def test_a_storm_of_interrupts(url: str, name: str, count: int) -> None:
    """However it is interrupted, nothing stays held once what was dropped is collected, and no other exception comes of it."""
    first, second = name + "a", name + "b"
    seen = 0
    end = time.monotonic() + 100
    with warnings.catch_warnings(), Storm() as storm:
        warnings.simplefilter("ignore", ResourceWarning)  # Python may raise between __enter__ and the body
        while seen < count and time.monotonic() < end:
            try:
                storm.armed = True
                while storm.armed and time.monotonic() < end:
                    with pawl.Lock(first, url=url):
                        pass
                    with pawl.all_of(pawl.Lock(second, url=url), pawl.Lock(first, url=url)):
                        pass
            except KeyboardInterrupt:
                seen += 1
    assert seen > 0  # on a slow machine not all
    gc.collect()
    for one in (first, second):
        with pawl.Lock(one, url=url, timeout=30):
            pass


@pytest.mark.long
def test_the_program() -> None:
    """ctrl_c.py, on what is there; how long it took is for people."""
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ctrl_c.py"), "--within", "10000"]
    engines = [engine for engine in ("local", "redis", "zk") if engine in pawl.engines()]
    ended = subprocess.run([*command, *engines], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    if ended.returncode == 77:
        pytest.skip(ended.stdout.strip().splitlines()[-1])
    assert ended.returncode == 0, ended.stdout
