# SPDX-License-Identifier: Apache-2.0
"""Nothing is left behind: neither memory nor descriptors nor references."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import weakref
from typing import Any, Callable

import pytest

import pawl


def level(step: Callable[[], None], count: int) -> None:
    """After a first round, memory grows no more."""
    for _ in range(count // 10):
        step()
    gc.collect()
    before, files = memory(), len(os.listdir("/proc/self/fd"))
    for _ in range(count):
        step()
    gc.collect()
    assert memory() - before < 2 << 20
    assert len(os.listdir("/proc/self/fd")) == files


def memory() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def steps(count: int) -> None:
    semaphore, rwlock = pawl.Semaphore("s", 3), pawl.RWLock("rw")

    def taken() -> None:
        with pawl.Lock("a", timeout=3) as lock:
            lock.token, lock.remaining, lock.state, repr(lock)

    def refused() -> None:
        with pawl.Lock("a"):
            try:
                pawl.Lock("a").acquire()
            except pawl.DeadlockError:
                pass

    def sides() -> None:
        with pawl.all_of(rwlock.read(), semaphore.permits(2)):
            rwlock.read().hold().release()

    for step in (taken, refused, sides):
        level(step, count)


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer keeps what is freed")
def test_handles(local: str) -> None:
    steps(2000)


@pytest.mark.long
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer keeps what is freed")
def test_a_million_handles(local: str) -> None:
    steps(330_000)


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer keeps what is freed")
def test_clients(tmp_path: str) -> None:
    def step() -> None:
        with pawl.Client(f"local:{tmp_path}/locks") as client, pawl.Lock("a", client=client):
            client.inspect()
            client.examine()

    level(step, 100)


def test_references(local: str) -> None:
    lock = pawl.Lock("a")
    client = lock.client
    before = sys.getrefcount(lock), sys.getrefcount(client), sys.getrefcount(pawl.Lock)
    for _ in range(100):
        with lock, lock:
            lock.check()
        pawl.Lock("b")
        try:
            lock.release()
        except pawl.NotHeldError:
            pass
    assert (sys.getrefcount(lock), sys.getrefcount(client), sys.getrefcount(pawl.Lock)) == before


def test_cycles_are_collected(local: str) -> None:
    rwlock = pawl.RWLock("a")
    rwlock._lock.cycle = rwlock.read()  # type: ignore[attr-defined]
    before = len([thing for thing in gc.get_objects() if isinstance(thing, pawl.ReadSide)])
    del rwlock
    gc.collect()
    assert len([thing for thing in gc.get_objects() if isinstance(thing, pawl.ReadSide)]) == before - 1


class Program:
    """One that its own client knows, as the listener of its log."""

    def __init__(self) -> None:
        self.client = pawl.Client(log=self.told)

    def told(self, level: int, text: str) -> None:
        pass


def test_a_client_that_knows_its_user_is_collected(local: str) -> None:
    program: Any = Program()
    program.lock = pawl.Lock("a", client=program.client)
    program.lock.acquire()
    gone = weakref.ref(program)
    with pytest.warns(ResourceWarning, match="'a'"):
        del program
        gc.collect()
    assert gone() is None
    pawl.Lock("a").hold(timeout=30).release()


def test_an_aio_client_that_knows_its_user_is_collected(local: str) -> None:
    class Held:
        hold: Any = None

        def __init__(self, client: pawl.aio.Client) -> None:
            self.client = client

    async def hold() -> Any:
        client = pawl.aio.Client()
        client.program = program = Held(client)  # type: ignore[attr-defined]
        program.hold = await pawl.aio.Lock("a", client=client).acquire()
        return weakref.ref(program)

    with pytest.warns(ResourceWarning, match="'a'"):
        gone = asyncio.run(hold())
        gc.collect()
    assert gone() is None
    pawl.Lock("a").hold(timeout=30).release()
