# SPDX-License-Identifier: Apache-2.0
"""The value beside a lock, and those who observe it."""

from __future__ import annotations

import asyncio
import gc
import queue
import subprocess
import sys
import threading
from typing import Any, List

import pytest

import pawl
from pawl import _values, aio

PATIENCE_S = 60


def test_who_holds_writes(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    assert lock.value is None and pawl.value(name, url=url) is None
    with pytest.raises(pawl.NotHeldError):
        lock.value = b"early"
    with lock:
        lock.value = b"one\0two"
        assert lock.value == b"one\0two"
        token = lock.token
    found = pawl.value(name, url=url)
    assert found is not None and found.data == b"one\0two" and found.token == token and found.written > 0
    with lock:
        assert lock.value == b"one\0two"
        lock.value = None
    assert lock.value is None


def test_what_can_have_none(local: str) -> None:
    with pytest.raises(pawl.MismatchError):
        pawl.Semaphore("a", 2).value
    rw = pawl.RWLock("b")
    with rw.read() as side, pytest.raises(pawl.NotHeldError):
        side.value = b"read"
    with rw.write() as writing:
        writing.value = b"written"
    assert rw.read().value == b"written"
    with pawl.Lock("c") as lock, pytest.raises(pawl.Error):
        lock.value = b"x" * 65537


def test_a_value_is_bytes(local: str) -> None:
    with pawl.Lock("a") as lock:
        for text in ("text", 7, ["text"]):
            with pytest.raises(TypeError):
                lock.value = text  # type: ignore[assignment]
            with pytest.raises(TypeError):
                lock.client.set_value("a", lock.token, text)  # type: ignore[arg-type]
        assert lock.value is None
        lock.value = b""
        assert lock.value == b""


def test_who_has_lost_writes_nothing(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    lock.acquire()
    lock.value = b"before"
    pawl.break_(name, lock.token, now=True, url=url)
    with pytest.raises(pawl.LostError):
        lock.value = b"after"
    with pytest.raises(pawl.LostError):
        lock.release()
    found = pawl.value(name, url=url)
    assert found is not None and found.data == b"before"


def test_in_the_name_of_a_hold(url: str, name: str) -> None:
    with pawl.Client(url) as other, pawl.Lock(name, url=url) as lock:
        other.set_value(name, lock.token, b"child")
        with pytest.raises(pawl.Error):
            other.set_value(name, lock.token + 1000, b"nobody")
        found = other.value(name)
        assert found is not None and found.data == b"child" and found.token == lock.token


def test_observe(url: str, name: str) -> None:
    seen: queue.Queue[pawl.Observed] = queue.Queue()

    def until(fits: object) -> pawl.Observed:
        while True:
            observed = seen.get(timeout=PATIENCE_S)
            if callable(fits) and fits(observed):
                return observed

    with pawl.observe(name, seen.put, url=url):
        assert until(lambda o: o.holder is None).value is None
        with pawl.Client(url) as other, pawl.Lock(name, client=other) as lock:
            lock.value = b"leader"
            observed = until(lambda o: o.holders_value is not None)
            assert observed.holder is not None and observed.holder.token == lock.token
            assert observed.holders_value is not None and observed.holders_value.data == b"leader"
        assert until(lambda o: o.holder is None and o.value is not None).holders_value is None


def test_an_observer_that_nobody_keeps(url: str, name: str) -> None:
    """It goes on until it is stopped: here by its client."""
    seen: queue.Queue[pawl.Observed] = queue.Queue()
    with pawl.Client(url) as client:
        pawl.observe(name, seen.put, client=client)
        gc.collect()
        with pawl.Lock(name, url=url):
            while seen.get(timeout=PATIENCE_S).holder is None:
                pass


def test_an_observer_ends(local: str) -> None:
    observer = pawl.observe("a", print)
    observer.stop()
    observer.stop()
    client = pawl.Client(local)
    observer = pawl.observe("a", lambda observed: None, client=client)
    client.close()  # stops it, too
    assert client.closed
    with pytest.raises(TypeError):
        pawl.observe("a", 3)  # type: ignore[arg-type]


def test_an_observer_at_the_end_of_the_program(url: str, name: str) -> None:
    """What it held is free, though its client was observed to the end."""
    program = """
import pawl, sys
observer = pawl.observe(sys.argv[1], lambda observed: None, url=sys.argv[2])
hold = pawl.Lock(sys.argv[1], url=sys.argv[2]).hold()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, name, url], check=True, timeout=PATIENCE_S)
    lock = pawl.Lock(name, url=url)
    assert lock.acquire(blocking=False)
    lock.release()


def test_a_cancelled_watch_leaves_nothing(local: str, monkeypatch: Any) -> None:
    """It is cancelled while a thread makes the observer."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow(_values.Observer):
        def __init__(self, *arguments: Any) -> None:
            begun.set()
            go_on.wait(PATIENCE_S)
            super().__init__(*arguments)

    monkeypatch.setattr(_values, "Observer", Slow)

    async def watch(client: aio.Client) -> None:
        async for _ in aio.observe("a", client=client):
            pass

    async def main() -> aio.Client:
        client = aio.Client()
        task = asyncio.ensure_future(watch(client))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, PATIENCE_S)
        holds.append(await aio.Lock("a", client=client).acquire())
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.cancelled()
        go_on.set()
        return client

    holds: List[aio.Hold] = []
    client = asyncio.run(main())  # the threads have ended
    assert not _values._all
    client.close()
    pawl.Lock("a").hold(timeout=30).release()


def test_aio(url: str, name: str) -> None:
    async def watch(seen: List[pawl.Observed]) -> None:
        async for observed in aio.observe(name, url=url):
            seen.append(observed)
            if observed.holders_value is not None:
                return

    async def main() -> None:
        seen: List[pawl.Observed] = []
        task = asyncio.ensure_future(watch(seen))
        async with aio.Lock(name, url=url) as hold:
            await hold.set_value(b"leader")
            found = await hold.value()
            assert found is not None and found.data == b"leader" and found.token == hold.token
            await asyncio.wait_for(task, PATIENCE_S)
        assert seen[-1].holders_value is not None and seen[-1].holders_value.data == b"leader"

    asyncio.run(main())
