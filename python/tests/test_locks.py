# SPDX-License-Identifier: Apache-2.0
"""Locks, on every engine. The names of rows are those of the table in pawl.h (docs/semantics.md)."""

from __future__ import annotations

import logging
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List, Tuple

import pytest

import pawl
from conftest import elsewhere, is_free


def test_a_lock_excludes_and_tokens_rise(url: str, name: str) -> None:
    lock, other = pawl.Lock(name, url=url), pawl.Lock(name, url=url)
    assert lock.token == 0 and lock.remaining == 0 and lock.state.name == "NOT_HELD"
    with lock as held:
        assert held is lock
        first = lock.token
        assert first > 0 and lock.remaining > 0 and lock.state.name == "HELD" and not lock.lost
        lock.check()
        assert lock.locked()
        assert elsewhere(lambda: other.acquire(blocking=False)) is False
        assert elsewhere(lambda: lock.acquire(timeout=0.01)) is False
        assert elsewhere(lambda: lock.token) == 0
    assert lock.token == 0
    assert other.acquire()
    assert other.token > first
    other.release()


def test_with_raises_where_acquire_says_false(url: str, name: str) -> None:
    impatient = pawl.Lock(name, url=url, timeout=0)
    with pawl.Lock(name, url=url):
        assert elsewhere(impatient.acquire) is False
        with pytest.raises(pawl.Timeout) as caught:
            elsewhere(impatient.__enter__)
        assert isinstance(caught.value, TimeoutError) and caught.value.name == "PAWL_EHELD"
    with impatient:
        pass


def test_same_owner_enters_again(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    with lock:
        token = lock.token
        with lock:
            assert lock.token == token
        assert lock.state.name == "HELD"
    assert lock.state.name == "NOT_HELD"


def test_same_owner_may_not_where_it_is_not_reentrant(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url, reentrant=False)
    with lock, pytest.raises(pawl.DeadlockError):
        lock.acquire()


def test_a_second_object_of_the_name_in_the_same_thread(url: str, name: str) -> None:
    with pawl.Lock(name, url=url), pytest.raises(pawl.DeadlockError):
        pawl.Lock(name, url=url).acquire()


def test_release_without_holding(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    for _ in range(2):  # before there is a connection, and after
        with pytest.raises(pawl.NotHeldError):
            lock.release()
        with pytest.raises(pawl.NotHeldError):
            lock.check()
        lock.acquire()
        with pytest.raises(pawl.NotHeldError):
            elsewhere(lock.release)
        lock.release()


def test_readers_and_writers(url: str, name: str) -> None:
    lock = pawl.RWLock(name, url=url, timeout=0)
    assert lock.name == name and not lock.locked()
    with lock.read() as reading:
        token = reading.token
        assert is_free(lock.read())
        assert not is_free(lock.write())
        with pytest.raises(pawl.DeadlockError):
            lock.write().acquire()
    lock = pawl.RWLock(name + "2", url=url, timeout=0)
    with lock.write() as writing:
        token = writing.token
        assert not is_free(lock.read())
        writing.downgrade()
        assert writing.token == token

        def read() -> bool:
            with lock.read():
                return lock.locked()

        assert elsewhere(read)
        assert not is_free(lock.write())
    with lock.write() as writing:
        assert writing.token > token
    with pytest.raises(pawl.NotHeldError):
        lock.write().downgrade()
    with lock.write() as writing:
        writing.downgrade()
        with pytest.raises(pawl.NotHeldError):
            elsewhere(writing.release)
    assert is_free(lock.write())


def test_permits(url: str, name: str) -> None:
    semaphore = pawl.Semaphore(name, 4, url=url)
    assert semaphore.limit == 4
    with semaphore.permits(3):
        assert semaphore.acquire(blocking=False, permits=2) is False
        assert semaphore.acquire(blocking=False)
        assert elsewhere(lambda: semaphore.acquire(False)) is False
        semaphore.release()
    assert semaphore.acquire(permits=4)
    semaphore.release()
    with pytest.raises(pawl.ArgumentError):
        semaphore.acquire(permits=5)


def test_the_name_is_in_use_as_another_kind(url: str, name: str) -> None:
    with pawl.Lock(name, url=url):
        with pytest.raises(pawl.MismatchError):
            elsewhere(lambda: pawl.Semaphore(name, 2, url=url, timeout=1).acquire())


def test_several_as_one(url: str, name: str) -> None:
    a, b, c = pawl.Lock(name + "a", url=url), pawl.RWLock(name + "b", url=url), pawl.Semaphore(name + "c", 3, url=url)
    both = pawl.all_of(a, b.read(), c.permits(2), timeout=5)
    with both as held:
        assert held is both and all(token > 0 for token in both.tokens)
        assert both.remaining > 0 and not both.lost
        both.check()
        assert not is_free(a) and not is_free(b.write()) and not is_free(c.permits(2)) and is_free(b.read()) and is_free(c)
        other = pawl.all_of(pawl.Lock(name + "d", url=url), a)
        assert elsewhere(lambda: other.acquire(False)) is False
        with pytest.raises(pawl.Timeout):
            elsewhere(pawl.all_of(a, timeout=0).__enter__)
    assert both.tokens == (0, 0, 0)
    with other:
        pass
    with pytest.raises(pawl.Error):
        pawl.all_of(b.write(), b.read()).acquire()
    with pytest.raises(TypeError):
        pawl.all_of("a").acquire()  # type: ignore[arg-type]


def test_a_set_that_is_not_held(local: str) -> None:
    lock = pawl.Lock("a")
    with pytest.raises(pawl.NotHeldError):
        pawl.all_of(lock, pawl.Lock("b")).release()
    lock.acquire()
    with pytest.raises(pawl.NotHeldError, match="'c'"):
        pawl.all_of(lock, pawl.Lock("c")).release()
    assert lock.token == 0


def test_opposite_orders_end(local: str) -> None:
    locks = [pawl.Lock("a"), pawl.Lock("b"), pawl.Lock("c")]
    done = []

    def work(order: int) -> None:
        for _ in range(200):
            with pawl.all_of(*locks[::order]):
                done.append(order)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [1, -1, 1, -1]))
    assert len(done) == 800


def test_a_hold_that_moves(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    hold = lock.hold()
    assert hold.token > 0
    with pytest.raises(pawl.Timeout):
        elsewhere(lambda: lock.hold(timeout=0))
    elsewhere(hold.release)
    assert hold.state is pawl.State.NOT_HELD
    with lock.hold(timeout=5) as held:
        assert held.token > 0
    with pawl.RWLock(name + "rw", url=url).read().hold() as one, pawl.Semaphore(name + "s", 2, url=url).permits(2).hold() as two:
        assert one.token and two.token


def test_cancel_ends_a_wait(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    with lock:
        waits = threading.Event()

        def wait() -> None:
            waits.set()
            with pytest.raises(pawl.ClosedError):
                lock.acquire()

        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(wait)
            waits.wait()
            while not ended.done():
                lock.cancel()
            ended.result()


def test_threads_take_turns(url: str, name: str) -> None:
    lock, inside, rounds = pawl.Lock(name, url=url), [], 20

    def work() -> int:
        most = 0
        for _ in range(rounds):
            with lock:
                inside.append(lock.token)
                most = max(most, len(inside))
                inside.pop()
        return most

    with ThreadPoolExecutor(4) as pool:
        assert max(job.result() for job in [pool.submit(work) for _ in range(4)]) == 1


def test_the_limit_of_a_hold(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url, max_hold=0.2)
    with pytest.raises(pawl.LostError):
        with lock:
            assert 0 < lock.remaining <= 0.2
            elsewhere(lambda: pawl.Lock(name, url=url).hold(timeout=20).release())
            assert lock.lost and lock.state is pawl.State.LOST and lock.remaining == 0
            with pytest.raises(pawl.LostError):
                lock.check()
    assert lock.state.name == "NOT_HELD"


def test_clients_of_ones_own(url: str, name: str) -> None:
    with pawl.Client(url, label="mine") as client:
        with pawl.Lock(name, client=client) as lock:
            assert lock.client is client
            [entry] = client.inspect(name)
            assert entry.label == "mine" and entry.token == lock.token
            assert elsewhere(lambda: pawl.Lock(name, url=url).acquire(False)) is False
        assert client.engine in pawl.engines() and client.url and client.lease > 0
        assert not client.closed
        held = pawl.Lock(name, client=client)
        held.acquire()
    assert client.closed
    for call in [held.acquire, held.release, client.inspect, lambda: pawl.Lock(name, client=client).acquire()]:
        with pytest.raises(pawl.ClosedError):
            call()
    with pawl.Lock(name, url=url):
        pass


def test_what_it_says_of_itself(local: str) -> None:
    lock = pawl.Lock("nightly")
    assert repr(lock) == "<pawl.Lock 'nightly': not held>"
    with lock:
        assert repr(lock) == f"<pawl.Lock 'nightly': held, token {lock.token}>"
        assert lock.remaining == math.inf
    assert repr(pawl.RWLock("a").read()) == "<pawl.ReadSide 'a': not held>"
    assert "local:" in repr(lock.client)
    assert repr(pawl.Client("redis://anna:hush@db.example:7000/1")) == "<pawl.Client redis://db.example:7000/1>"
    assert repr(pawl.Client("zk://anna:a@b@zk1,zk2/locks?lease=9")) == "<pawl.Client zk://zk1,zk2/locks?lease=9>"


def test_a_lock_that_is_kept(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url, keep=60)
    try:
        lock.acquire()
    except pawl.ArgumentError as error:
        pytest.skip(str(error))
    first = lock.token
    lock.release()
    with lock:
        assert lock.token > first
    with pawl.Client(url) as client, pawl.Lock(name, client=client, timeout=30) as other:  # it is given back when another wants it
        assert other.token > first
    with pytest.raises(pawl.Error):
        pawl.Lock(name, url=url, keep=10**9).acquire()


def test_labels(url: str, name: str) -> None:
    with pawl.Client(url, label="the client's") as client:

        def shows(label: str) -> bool:
            return label in [entry.label for entry in client.inspect(name)]  # a voter that is late shows what was released, too

        lock = pawl.Lock(name, client=client, label="order 4711")
        with pickle.loads(pickle.dumps(pawl.Lock(name, url=url, label="订单"))):
            assert shows("订单")
        with lock:
            assert shows("order 4711")
        with lock.hold():
            assert shows("order 4711")
        with pawl.Lock(name, client=client):
            assert shows("the client's")
        with pytest.raises(pawl.Error):
            pawl.Lock(name, client=client, label="two\nlines").acquire()


def test_a_class_that_forgets_its_base(url: str) -> None:
    class Forgets(pawl.Lock):
        def __init__(self) -> None:
            pass

    class ForgetsToo(pawl.Client):
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError, match="super"):
        Forgets().acquire()
    with pytest.raises(RuntimeError, match="super"):
        ForgetsToo().open()


def test_the_shared_client_is_closed_by_a_user(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    with lock.client as client:
        client.inspect()
    with pawl.Lock(name, url=url) as other:
        assert other.token > 0


# ---- Limits ----------------------------------------------------------------------------------------------------------------------------


def test_extend(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url, max_hold=50)
    with pytest.raises(pawl.NotHeldError):
        lock.extend()
    with lock:
        token = lock.token
        lock.extend(500, timeout=30)
        assert lock.token == token and not lock.lost
        lock.extend(5)
        assert 0 < lock.remaining <= 5
        lock.extend(-1)
        assert lock.remaining > 5
        lock.extend()
        assert lock.remaining <= 50
        with pytest.raises(ValueError):
            lock.extend(0)
    with pytest.raises(pawl.NotHeldError):
        lock.extend()


def test_extend_a_hold_and_a_reader(url: str, name: str) -> None:
    hold = pawl.Lock(name, url=url, max_hold=50).hold()
    elsewhere(lambda: hold.extend(100))
    hold.release()
    with pawl.RWLock(name + "-rw", url=url, max_hold=50).read() as side:
        side.extend(100)


def test_extend_what_was_lost(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url, max_hold=50)
    lock.acquire()
    pawl.break_(name, lock.token, now=True, url=url)
    with pytest.raises(pawl.LostError):
        lock.extend(60)
    with pytest.raises(pawl.LostError):
        lock.release()


@pytest.mark.parametrize("limit", [0, 0.0])
def test_a_limit_of_nothing(local: str, limit: float) -> None:
    """No limit is None; 0 seconds are a mistake, not for ever."""
    with pytest.raises(ValueError):
        pawl.Lock("a", max_hold=limit)
    with pytest.raises(ValueError):
        pawl.Client(max_hold=limit)


@pytest.mark.parametrize("count", [2**32 + 1, 2**64, -1, 1000001])
def test_permits_that_are_not_possible(local: str, count: int) -> None:
    with pytest.raises(pawl.ArgumentError):
        pawl.Semaphore("a", count)
    permits = pawl.Semaphore("a", 2)
    with pytest.raises(pawl.ArgumentError):
        permits.acquire(permits=count)
    with pytest.raises(pawl.ArgumentError):
        permits.permits(count)


def test_a_set_is_as_patient_as_its_locks(local: str) -> None:
    held = pawl.Lock("a").hold()
    with pytest.raises(pawl.Timeout):
        with pawl.all_of(pawl.Lock("a", timeout=0.05), pawl.Lock("b")):
            pass
    assert not pawl.all_of(pawl.Lock("a", timeout=600), pawl.Lock("b")).acquire(timeout=0.05)
    held.release()


# ---- The log ---------------------------------------------------------------------------------------------------------------------------


def test_log(url: str, name: str) -> None:
    said: List[Tuple[int, str]] = []
    with pawl.Client(url, log=lambda level, text: said.append((level, text)), trace=True) as client:
        with pawl.Lock(name, client=client):
            pass
    assert any(level == logging.DEBUG and name in text for level, text in said)


def test_log_that_is_a_logger(local: str, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG, "pawl")
    with pawl.Client(local, log=logging.getLogger("pawl").log, trace=True) as client:
        with pawl.Lock("100%s", client=client):
            pass
    assert "100%s" in caplog.text
    with pytest.raises(TypeError):
        pawl.Client(local, log=3)  # type: ignore[arg-type]
