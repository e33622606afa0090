# SPDX-License-Identifier: Apache-2.0
"""A hold that is lost, and who is told."""

from __future__ import annotations

import queue
import threading
from typing import Any, List

import pytest

import pawl


def test_a_broken_hold_is_told(url: str, name: str) -> None:
    told: queue.Queue[pawl.LostError] = queue.Queue()
    lock = pawl.Lock(name, url=url, on_loss=told.put)
    with pytest.raises(pawl.LostError):
        with lock:
            token = lock.token
            pawl.break_(name, token, url=url)
            error = told.get(timeout=30)
            assert (error.reason, error.token, error.name) == ("broken", token, "PAWL_EBROKEN")
            assert lock.lost
            with pytest.raises(pawl.LostError):
                lock.acquire()  # release it first
    with lock:
        assert lock.token > token


def test_an_expired_hold_is_told(local: str) -> None:
    told: queue.Queue[pawl.LostError] = queue.Queue()
    with pytest.raises(pawl.LostError):
        with pawl.Lock("a", max_hold=0.05, on_loss=told.put):
            assert told.get(timeout=30).reason == "expired"


def test_the_body_is_never_masked(local: str) -> None:
    with pytest.raises(KeyError):
        with pawl.Lock("a") as lock:
            pawl.break_("a", lock.token)
            while not lock.lost:
                pass
            raise KeyError
    with pytest.raises(KeyError):
        with pawl.all_of(pawl.Lock("b"), pawl.Lock("c")) as both:
            pawl.break_("b", both.tokens[0])
            while not both.lost:
                pass
            raise KeyError
    with pytest.raises(pawl.LostError):
        with pawl.all_of(pawl.Lock("b"), pawl.Lock("c")) as both:
            pawl.break_("b", both.tokens[0])
            while not both.lost:
                pass


def test_what_on_loss_raises_goes_to_the_hook(local: str, monkeypatch: Any) -> None:
    seen: queue.Queue[Any] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", seen.put)

    def fail(error: pawl.LostError) -> None:
        raise KeyError("mine")

    told: queue.Queue[pawl.LostError] = queue.Queue()
    locks = [pawl.Lock("a", on_loss=fail, max_hold=0.02), pawl.Lock("b", on_loss=told.put, max_hold=0.2)]
    for lock in locks:
        lock.acquire()
    assert seen.get(timeout=30).exc_type is KeyError
    assert told.get(timeout=30).reason == "expired"  # one that fails does not keep others from being told
    for lock in locks:
        with pytest.raises(pawl.LostError):
            lock.release()


def test_a_lock_that_is_gone_is_not_told(local: str) -> None:
    """On a machine that stood still it may be lost before it is gone: then once more, with more time."""
    for max_hold in (0.02, 0.2, 2.0):
        told: List[pawl.LostError] = []
        later: queue.Queue[pawl.LostError] = queue.Queue()
        lock = pawl.Lock("a", on_loss=told.append, max_hold=max_hold)
        lock.acquire()
        with pytest.warns(ResourceWarning):
            del lock
        with pytest.raises(pawl.LostError), pawl.Lock("a", on_loss=later.put, max_hold=2 * max_hold):
            later.get(timeout=30)  # by then the first one would have been told, too
        if not told:
            return
    pytest.fail("a lock that was dropped was told of its loss")
