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
from conftest import run

import pawl

from waiters import wait_until_left, when_queued


@pytest.fixture
def heard(monkeypatch: Any) -> Iterator[List[int]]:
    """How often SIGUSR1 was handled."""
    handled: List[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
    yield handled
    signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_ctrl_c_ends_a_wait(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    with pawl.Client(url) as client, pawl.Lock(name, client=client):
        waits: List[Callable[[], object]] = [lock.acquire, lock.__enter__, pawl.all_of(lock).__enter__, lock.hold]
        for wait in waits:
            thread = when_queued(name, url, 2, interrupt)
            with pytest.raises(KeyboardInterrupt):
                wait()
            thread.join()
            assert lock.token == 0
            wait_until_left(name, url, 1)
    with lock:
        pass


def test_a_handled_signal_keeps_the_place(url: str, name: str, heard: List[int]) -> None:
    order: List[str] = []
    first, second = pawl.Lock(name, url=url), pawl.Client(url)
    with pawl.Client(url) as holder:
        held = pawl.Lock(name, client=holder).hold()

        def come_later() -> None:
            with pawl.Lock(name, client=second):
                order.append("second")

        later = threading.Thread(target=come_later)

        def disturb() -> None:
            release = when_queued(name, url, 3, finish)
            later.start()
            release.join()

        def finish() -> None:
            for _ in range(100):
                os.kill(os.getpid(), signal.SIGUSR1)
            held.release()

        thread = when_queued(name, url, 2, disturb)
        with first:
            order.append("first")
        thread.join()
        later.join()
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


def test_a_storm_of_interrupts(local: str) -> None:
    """However it is interrupted, nothing stays held once what was dropped is collected."""
    armed, stop, seen = False, threading.Event(), 0

    def raise_once(number: int, frame: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    def storm() -> None:
        while not stop.is_set():
            interrupt()
            time.sleep(0.0002)

    before = signal.signal(signal.SIGINT, raise_once)
    thread = threading.Thread(target=storm)
    thread.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Python may raise between __enter__ and the body
        while seen < 300:
            try:
                armed = True
                while True:
                    with pawl.Lock("a"):
                        pass
            except KeyboardInterrupt:
                seen += 1
        stop.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
        gc.collect()
    with pawl.Lock("a", timeout=30):
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
