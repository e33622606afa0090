# SPDX-License-Identifier: Apache-2.0
"""pawl.compat.redis.Lock in the place of redis-py's Lock, and beside it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any, Iterator

import pytest
from conftest import Servers

import pawl

from waiters import PATIENCE_S, wait_until_left

redis: Any = pytest.importorskip("redis", reason="there is no redis-py (Debian: python3-redis)")
HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(HERE, "../../tests/interop/redis_py_suite.py")


@pytest.fixture
def r(servers: Servers) -> Iterator[Any]:
    if "redis" not in pawl.engines():
        pytest.skip("redis is not in this build")
    client = redis.Redis.from_url(servers.url("redis"))
    yield client
    client.close()


def pawls(r: Any, name: str, **how: Any) -> Any:
    return r.lock(name, lock_class=pawl.compat.redis.Lock, **how)


def test_pawl_and_redis_py_exclude_each_other(r: Any, name: str) -> None:
    ours, theirs = pawls(r, name), r.lock(name, timeout=60)
    with ours:
        assert not theirs.acquire(blocking=False)
        assert r.get(name) == ours.local.token
    with theirs:
        assert not ours.acquire(blocking=False)
    with ours:
        pass


def test_a_waiting_pawl_gets_what_redis_py_releases(r: Any, name: str) -> None:
    theirs, got = r.lock(name, timeout=60, thread_local=False), []
    assert theirs.acquire()

    def wait() -> None:
        with pawls(r, name, blocking_timeout=50) as lock:
            got.append(lock.fencing_token)

    thread = threading.Thread(target=wait)
    thread.start()
    end = time.monotonic() + PATIENCE_S
    while not any(entry.waits for entry in pawl.inspect(name, url=pawl.compat.redis.url_of(r))):
        assert thread.is_alive() and time.monotonic() < end
        time.sleep(0.01)
    theirs.release()
    thread.join(PATIENCE_S)
    assert got and got[0] > 0


def test_what_is_lost_is_told_in_redis_pys_words(r: Any, name: str) -> None:
    lock = pawls(r, name, timeout=60)
    for call in (lock.release, lambda: lock.extend(1), lock.reacquire):
        with pytest.raises(redis.exceptions.LockError):
            call()
    assert lock.acquire() and lock.owned()
    r.set(name, "somebody-else")
    assert not lock.owned()
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.extend(60)
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()
    assert r.get(name) == b"somebody-else"
    with pytest.raises(redis.exceptions.LockError) as refused:
        lock.acquire(token="mine")
    assert "owner" in str(refused.value)


def test_the_value_of_another_is_not_ours(r: Any, name: str) -> None:
    lock = pawls(r, name, timeout=60)
    assert lock.acquire()
    r.set(name, "somebody-else")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.extend(60)  # it learns of the loss
    assert lock.local.token is None
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()


def test_a_dropped_lock_ends_at_once(r: Any, name: str) -> None:
    """Without a search for cycles."""
    lock = pawls(r, name)
    assert lock.acquire() and lock.local.token == r.get(name)
    gc.disable()
    try:
        with pytest.warns(ResourceWarning, match=name):
            del lock
        wait_until_left(name, pawl.compat.redis.url_of(r), 0)
    finally:
        gc.enable()


def test_a_client_of_an_event_loop_is_refused(r: Any) -> None:
    asynchronous = pytest.importorskip("redis.asyncio")
    with pytest.raises(redis.exceptions.LockError, match="pawl.aio"):
        pawl.compat.redis.Lock(asynchronous.Redis(), "a")


def test_a_thread_has_its_own_hold(r: Any, name: str) -> None:
    lock, told = pawls(r, name), []
    with lock:

        def elsewhere() -> None:
            with pytest.raises(redis.exceptions.LockError):
                lock.release()
            told.append(lock.local.token)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    shared = pawls(r, name, thread_local=False)
    assert shared.acquire()
    thread = threading.Thread(target=shared.release)
    thread.start()
    thread.join()
    assert told == [None] and not shared.locked()


@pytest.mark.parametrize(
    "how, url",
    [
        (dict(host="db", port=7000, db=3), "redis://db:7000/3?layout=plain"),
        (dict(host="::1"), "redis://[::1]:6379/0?layout=plain"),
        (dict(password="a:b@c"), "redis://:a%3Ab%40c@localhost:6379/0?layout=plain"),
        (dict(username="u", password="p"), "redis://u:p@localhost:6379/0?layout=plain"),
        (dict(unix_socket_path="/run/redis.sock", db=2), "redis+unix:///run/redis.sock?layout=plain&db=2"),
        (dict(ssl=True, ssl_ca_certs="/ca", ssl_cert_reqs="none"), "rediss://localhost:6379/0?layout=plain&ca=%2Fca&verify=none"),
    ],
)
def test_the_same_server(how: Any, url: str) -> None:
    assert pawl.compat.redis.url_of(redis.Redis(**how)) == url


def test_the_same_sentinels() -> None:
    sentinel = redis.sentinel.Sentinel([("s1", 26379), ("s2", 26380)])
    url = pawl.compat.redis.url_of(sentinel.master_for("mymaster", db=1))
    assert url == "redis-sentinel://s1:26379,s2:26380/mymaster/1?layout=plain"


@pytest.mark.long
def test_redis_pys_own_tests(servers: Servers) -> None:
    ended = subprocess.run([sys.executable, SUITE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
    if "# SKIP" in ended.stdout:
        pytest.skip(ended.stdout.split("# SKIP ", 1)[1].splitlines()[0])
    assert ended.returncode == 0, ended.stdout
    passed = sum(line.startswith("ok") for line in ended.stdout.splitlines())
    print(f"# {passed - 3} of 32 pass; what fails is named in redis_py_suite.py", file=sys.__stdout__)
    assert passed - 3 >= 27
