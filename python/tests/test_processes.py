# SPDX-License-Identifier: Apache-2.0
"""fork, spawn, forkserver, pickling, and the end of the interpreter."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import select
import signal
import threading
import warnings
from typing import Any, Callable, Tuple, Type

import pytest
from conftest import run

import pawl

from waiters import wait_for_queue


def attempt(lock: pawl.Lock, answers: Any) -> None:
    answers.put(lock.acquire(blocking=False))


def wait_and_enter(lock: pawl.Lock, answers: Any) -> None:
    with lock:
        answers.put(lock.token)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", [pytest.param("fork", marks=pytest.mark.forks), "spawn", "forkserver"])
def test_a_lock_in_another_process(url: str, name: str, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    lock = pawl.Lock(name, url=url)
    refused = context.Process(target=attempt, args=(lock, answers))
    waits = context.Process(target=wait_and_enter, args=(lock, answers))
    try:
        with pawl.Client(url) as client:  # the parent holds it through another lock
            with pawl.Lock(name, client=client) as held:
                refused.start()
                assert answers.get(timeout=60) is False
                refused.join(60)
                waits.start()
                wait_for_queue(name, url, lambda queued: queued == 2)
                token = held.token
        assert answers.get(timeout=60) > token
        waits.join(60)
        assert (refused.exitcode, waits.exitcode) == (0, 0)
    finally:
        for process in (refused, waits):
            if process.pid is not None and process.exitcode is None:
                process.kill()  # else Python would wait for it at its end
                process.join(60)
        answers.close()


def in_child(function: Callable[[], bool]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if function() else 2
        finally:
            os._exit(status)
    ended = os.pidfd_open(pid)
    in_time = select.select([ended], [], [], 60)[0]
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def raises(kind: Type[BaseException], function: Callable[[], object]) -> bool:
    try:
        function()
    except kind:
        return True
    return False


@pytest.mark.forks
def test_held_at_the_fork(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    with lock:

        def child() -> bool:
            calls: Tuple[Callable[[], object], ...] = (lock.acquire, lock.check, lock.release)
            told = all(raises(pawl.ForkedError, call) for call in calls)
            # Given back, it is a lock like any other; and the parent's hold is as it was.
            return told and lock.acquire(blocking=False) is False and lock.token == 0

        assert in_child(child)
        lock.check()
        assert lock.locked()


@pytest.mark.forks
def test_idle_at_the_fork(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    with lock:
        token = lock.token

    def child() -> bool:
        with lock:
            return lock.token > token

    for _ in range(4):
        assert in_child(child)
    with lock:
        assert not lock.lost


@pytest.mark.forks
def test_held_by_another_thread_at_the_fork(local: str) -> None:
    lock, held, done = pawl.Lock("a"), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    assert in_child(lambda: lock.acquire(blocking=False) is False)  # no thread of the child has it, and it can be waited for
    done.set()
    thread.join(60)


@pytest.mark.forks
def test_on_loss_in_a_child(local: str) -> None:
    told = threading.Event()
    lock = pawl.Lock("a", on_loss=lambda error: told.set(), max_hold=0.05)

    def child() -> bool:
        lock.acquire()
        return told.wait(30)

    assert in_child(child) and not told.is_set()
    lock.acquire()
    assert told.wait(30)
    with pytest.raises(pawl.LostError):
        lock.release()


def test_pickles(local: str) -> None:
    with pawl.Lock("a", timeout=3, max_hold=60) as lock:
        again = pickle.loads(pickle.dumps(lock))
        assert again.name == "a" and again.token == 0
        assert type(again) is pawl.Lock
    semaphore = pickle.loads(pickle.dumps(pawl.Semaphore("s", 3)))
    assert semaphore.limit == 3
    side = pickle.loads(pickle.dumps(pawl.RWLock("rw").read()))
    with side:
        pass
    assert isinstance(pickle.loads(pickle.dumps(pawl.RWLock("rw"))), pawl.RWLock)
    assert pickle.loads(pickle.dumps(pawl.Client(local, label="x")))._options["label"] == "x"
    with lock.hold() as hold, pytest.raises(TypeError):
        pickle.dumps(hold)


def test_a_lock_that_is_dropped_is_free(url: str, name: str) -> None:
    lock = pawl.Lock(name, url=url)
    lock.acquire()
    with pytest.warns(ResourceWarning, match=name):
        del lock
        gc.collect()
    pawl.Lock(name, url=url).hold(timeout=30).release()


def test_the_end_of_the_interpreter(url: str, name: str) -> None:
    script = """
import atexit, sys, threading

@atexit.register
def last():  # after pawl's own
    try:
        lock.acquire()
    except pawl.ClosedError:
        print("closed")

import pawl
url, name = sys.argv[1:]
lock = pawl.Lock(name, url=url, on_loss=print)
lock.acquire()
threading.Thread(target=pawl.Lock(name, url=url).acquire, daemon=True).start()  # waits when the interpreter ends
while len(pawl.inspect(name, url=url)) < 1: pass
print("end")
"""
    ended = run(script, url, name)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\nclosed\n", "")
    pawl.Lock(name, url=url).hold(timeout=0).release()


def test_a_daemon_thread_is_joined_at_the_end(url: str, name: str) -> None:
    """Neither the acquire that the end interrupts nor one that begins afterwards keeps its thread, or tells of an error."""
    script = """
import atexit, sys, threading

@atexit.register
def last():  # after pawl's own
    ended.set()
    for thread in threads:
        thread.join(20)
        print("alive" if thread.is_alive() else "joined")

import pawl
url, name = sys.argv[1:]
ended = threading.Event()
lock = pawl.Lock(name, url=url)
lock.acquire()

def begin_late():
    ended.wait()
    lock.acquire()

other = pawl.Lock(name, client=pawl.Client(url))  # threads of one client wait behind one another, and are seen as one
threads = [threading.Thread(target=target, daemon=True) for target in (other.acquire, begin_late)]
for thread in threads:
    thread.start()
while len(pawl.inspect(name, url=url)) < 2: pass
"""
    ended = run(script, url, name)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "joined\njoined\n", "")


def test_exit_by_an_exception_while_held(url: str, name: str) -> None:
    ended = run("import sys, pawl\nwith pawl.Lock(sys.argv[2], url=sys.argv[1]): sys.exit(7)", url, name)
    assert (ended.returncode, ended.stderr) == (7, "")
    pawl.Lock(name, url=url).hold(timeout=0).release()


def test_a_client_closed_under_its_users(url: str, name: str) -> None:
    for _ in range(3):
        client = pawl.Client(url)
        stop = threading.Event()

        def use() -> None:
            lock = pawl.Lock(name, client=client)
            while not stop.is_set():
                try:
                    with lock:
                        client.inspect(name)
                except pawl.ClosedError:
                    return

        threads = [threading.Thread(target=use, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        client.open()
        client.close()
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
