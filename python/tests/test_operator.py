# SPDX-License-Identifier: Apache-2.0
"""What operators ask."""

from __future__ import annotations

import os
import threading

import pytest

import pawl


def test_who_holds_and_who_waits(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    assert pawl.inspect(name, url=url) == []
    with lock, pawl.Semaphore(name + "s", 1, url=url):
        [entry] = pawl.inspect(name, url=url)
        assert (entry.name, entry.kind, entry.mode, entry.waits) == (name, pawl.Kind.MUTEX, pawl.Mode.EXCLUSIVE, False)
        assert (entry.token, entry.pid, entry.position) == (lock.token, os.getpid(), 0)
        assert not entry.broken and not entry.foreign and entry.raw
        assert {name, name + "s"} <= {entry.name for entry in pawl.inspect(url=url)}
        with pawl.Client(url) as client:
            other = pawl.Lock(name, client=client)
            waiter = threading.Thread(target=lambda: other.acquire(timeout=30))
            waiter.start()
            while len(pawl.inspect(name, url=url)) < 2:
                pass
            assert [entry.waits for entry in pawl.inspect(name, url=url)] == [False, True]
            lock.release()
            waiter.join()
        lock.acquire()


def test_break(url: str, name: str) -> None:
    with pytest.raises(pawl.EngineError) as caught:
        pawl.break_(name, 1, url=url)
    assert caught.value.name == "PAWL_ETOKEN"
    with pytest.raises(pawl.LostError):
        with pawl.Lock(name, url=url) as lock:
            pawl.break_(name, lock.token, now=True, url=url)
            while not lock.lost:
                pass


def test_examine(url: str) -> None:
    findings = pawl.examine(url)
    assert findings and all(finding.what for finding in findings)
    assert all(finding.advice for finding in findings if finding.severity is pawl.Severity.WARNING)


def test_looking_makes_nothing(tmp_path: object) -> None:
    assert pawl.inspect("a", url=f"local:{tmp_path}/none/none") == []
    assert not os.path.exists(f"{tmp_path}/none")


def test_engines() -> None:
    assert "local" in pawl.engines() and pawl.__version__.count(".") == 2
