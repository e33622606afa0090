# SPDX-License-Identifier: Apache-2.0
"""pawl.aio: tasks exclude each other, an acquire that is cancelled leaves nothing, a loss cancels the body."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import weakref
from typing import Any, Coroutine, List, Optional

import pytest

import pawl
from pawl import aio

PATIENCE = 20.0


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


async def waiters(url: str, count: int) -> None:
    """Until so many tasks of this loop wait."""
    holds = aio._client_for(url, None)._holds
    while sum(hold._waiter is not None and not hold._is_decided for hold in list(holds.values())) != count:
        await asyncio.sleep(0)


def test_a_body_that_releases_what_was_lost(url: str, name: str) -> None:
    """The task is not left as one that was cancelled."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(pawl.LostError):
            async with aio.Lock(name, url=url) as hold:
                try:
                    await break_hold(name, hold.token, url)
                    await asyncio.sleep(PATIENCE)
                finally:
                    hold.release()
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 0

    run(main())


def test_a_descriptor_of_a_closed_client_is_another_s(url: str, name: str) -> None:
    """Its number is taken again at once: nothing that the client left may touch it."""

    async def main() -> None:
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        client = aio.Client(url)
        await (await aio.Lock(name, client=client).acquire()).__aexit__(None, None, None)
        number = client._fd()
        client.close()
        reader, writer = os.pipe()
        os.dup2(reader, number)
        loop.add_reader(number, heard.set)
        await asyncio.sleep(0)
        os.write(writer, b"x")
        await asyncio.wait_for(heard.wait(), PATIENCE)
        loop.remove_reader(number)
        for descriptor in (number, writer) if number == reader else (number, reader, writer):
            os.close(descriptor)

    run(main())


async def is_free(name: str, url: str) -> bool:
    try:
        async with aio.Lock(name, url=url, timeout=5):
            return True
    except pawl.Timeout:
        return False


async def break_hold(name: str, token: int, url: str) -> None:
    await asyncio.get_running_loop().run_in_executor(None, lambda: pawl.break_(name, token, url=url))


def test_tasks_exclude_each_other(url: str, name: str) -> None:
    async def main() -> None:
        lock, inside, tokens = aio.Lock(name, url=url), 0, []

        async def work() -> None:
            nonlocal inside
            async with lock as hold:
                inside += 1
                assert inside == 1
                tokens.append(hold.token)
                assert hold.state is pawl.State.HELD and hold.remaining > 0 and not hold.lost
                hold.check()
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(20)))
        assert tokens == sorted(set(tokens))

    run(main())


def test_acquire_and_release(url: str, name: str) -> None:
    async def main() -> None:
        lock = aio.Lock(name, url=url)
        hold = await lock.acquire()
        assert await lock.locked()
        with pytest.raises(pawl.Timeout):
            await lock.acquire(blocking=False)
        with pytest.raises(pawl.Timeout):
            await aio.Lock(name, url=url, timeout=0.01).acquire()
        with pytest.raises(ValueError):
            await lock.acquire(blocking=False, timeout=1)
        hold.release()
        with pytest.raises(pawl.NotHeldError):
            hold.release()
        with pytest.raises(pawl.NotHeldError):
            hold.check()
        assert hold.token == 0
        async with await lock.acquire(timeout=5):
            pass
        assert await is_free(name, url)

    run(main())


def test_threads_and_tasks_share_a_lock(url: str, name: str) -> None:
    async def main() -> None:
        with pawl.Lock(name, url=url):
            with pytest.raises(pawl.Timeout):
                await aio.Lock(name, url=url).acquire(blocking=False)
        assert await is_free(name, url)

    run(main())


def test_cancelled_acquire_leaves_nothing(url: str, name: str) -> None:
    async def main() -> None:
        lock = aio.Lock(name, url=url)
        async with lock:
            tasks = [asyncio.ensure_future(lock.acquire()) for _ in range(5)]
            await waiters(url, 5)
            for task in tasks:
                task.cancel()
            assert all(isinstance(ended, asyncio.CancelledError) for ended in await asyncio.gather(*tasks, return_exceptions=True))
            await waiters(url, 0)
        assert await is_free(name, url)
        assert not aio._client_for(url, None)._holds

    run(main())


def test_cancelled_when_it_was_granted(url: str, name: str, monkeypatch: Any) -> None:
    """Granted, and the task is cancelled before it runs: the hold is given back."""

    async def main() -> None:
        lock = aio.Lock(name, url=url)
        hold = await lock.acquire()
        task = asyncio.ensure_future(lock.acquire())
        await waiters(url, 1)
        waiting = next(one for one in aio._client_for(url, None)._holds.values() if one is not hold)
        hold.release()
        ended = waiting._ended
        monkeypatch.setattr(waiting, "_ended", lambda error: (ended(error), task.cancel()))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waiting._error is None and waiting._is_over
        assert await is_free(name, url)

    run(main())


def test_same_task_again(local: str) -> None:
    async def main() -> None:
        lock = aio.Lock("a")
        async with lock:
            with pytest.raises(pawl.DeadlockError):
                async with lock:
                    pass
        async with lock:
            pass

    run(main())


def test_loss_cancels_the_body(url: str, name: str) -> None:
    async def main() -> None:
        with pytest.raises(pawl.LostError) as caught:
            async with aio.Lock(name, url=url) as hold:
                token = hold.token
                await break_hold(name, token, url)
                await asyncio.sleep(PATIENCE)
        assert caught.value.reason == "broken" and caught.value.token == token
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None and (sys.version_info < (3, 11) or task.cancelling() == 0)
        await asyncio.sleep(0)  # nothing is left of the cancellation
        assert await is_free(name, url)

    run(main())


def test_loss_without_an_await(local: str) -> None:
    """The body never waits: the loss is told where it ends, and no cancellation is left."""

    async def main() -> None:
        with pytest.raises(pawl.LostError):
            async with aio.Lock("a", max_hold=0.01) as hold:
                while not hold.lost:
                    pass
        await asyncio.sleep(0.01)

    run(main())


def test_loss_does_not_hide_what_the_body_raised(local: str) -> None:
    async def main() -> None:
        with pytest.raises(KeyError):
            async with aio.Lock("a", max_hold=0.02):
                try:
                    await asyncio.sleep(PATIENCE)
                except asyncio.CancelledError:
                    raise KeyError("mine") from None
        assert await is_free("a", local)

    run(main())


def test_loss_inside_others(local: str) -> None:
    """In a lock in a lock, the one that was lost says so."""

    async def main() -> None:
        with pytest.raises(pawl.LostError) as caught:
            async with aio.Lock("outer"):
                async with aio.Lock("inner", max_hold=0.02):
                    await asyncio.sleep(PATIENCE)
        assert "inner" in str(caught.value)

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout is of 3.11")
def test_loss_inside_a_timeout(local: str) -> None:
    async def main() -> None:
        with pytest.raises(pawl.LostError):
            async with asyncio.timeout(PATIENCE):
                async with aio.Lock("a", max_hold=0.02):
                    async with asyncio.timeout(PATIENCE):
                        await asyncio.sleep(PATIENCE)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                async with aio.Lock("a"):
                    await asyncio.sleep(PATIENCE)
        assert not isinstance(caught.value, pawl.Error)

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="it can't be told apart without Task.uncancel")
def test_cancelled_from_outside_and_lost(local: str) -> None:
    async def main() -> None:
        async def body() -> None:
            async with aio.Lock("a", max_hold=0.02) as hold:
                try:
                    await asyncio.sleep(PATIENCE)
                finally:
                    task.cancel()
                    assert hold.lost

        task = asyncio.ensure_future(body())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await is_free("a", local)

    run(main())


def test_on_loss(local: str) -> None:
    async def main() -> None:
        told: List[pawl.LostError] = []
        thread = threading.get_ident()

        def on_loss(error: pawl.LostError) -> None:
            assert threading.get_ident() == thread
            told.append(error)

        with pytest.raises(pawl.LostError):
            async with aio.Lock("a", max_hold=0.02, on_loss=on_loss):
                while not told:
                    await asyncio.sleep(0.001)
        with pytest.raises(pawl.LostError):
            async with aio.Lock("a", max_hold=0.02, on_loss=None) as hold:
                while not hold.lost:
                    await asyncio.sleep(0.001)
                with pytest.raises(pawl.LostError):
                    hold.check()
        assert len(told) == 1 and told[0].reason == "expired"
        with pytest.raises(TypeError):
            aio.Lock("a", on_loss="no")  # type: ignore[arg-type]

    run(main())


def test_readers_and_writers(url: str, name: str) -> None:
    async def main() -> None:
        lock = aio.RWLock(name, url=url, timeout=0.05)
        async with lock.read(), lock.read():
            with pytest.raises(pawl.Timeout):
                await lock.write().acquire()
        async with lock.write() as hold:
            with pytest.raises(pawl.Timeout):
                await lock.read().acquire()
            hold.downgrade()
            (await aio.RWLock(name, url=url).read().acquire(timeout=5)).release()
        (await lock.write().acquire(timeout=5)).release()
        assert lock.name == name

    run(main())


def test_semaphore(url: str, name: str) -> None:
    async def main() -> None:
        some = aio.Semaphore(name, 3, url=url)
        async with some, some.permits(2):
            with pytest.raises(pawl.Timeout):
                await some.acquire(timeout=0.01)
        async with some, some, some:
            assert await some.locked()
        (await some.permits(3).acquire(timeout=5)).release()

    run(main())


def test_two_loops_in_two_threads(url: str, name: str) -> None:
    inside, most, failed = 0, 0, []

    async def main() -> None:
        nonlocal inside, most
        for _ in range(20):
            async with aio.Lock(name, url=url):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.0005)
                inside -= 1

    def thread() -> None:
        try:
            run(main())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed and most == 1


def test_loop_closed_while_waiting(url: str, name: str) -> None:
    """The loop is gone, the acquire never comes to its end: it is not in the way of others."""
    with pawl.Lock(name, url=url):
        loop = asyncio.new_event_loop()

        async def begin() -> Any:
            task = asyncio.ensure_future(aio.Lock(name, url=url).acquire())
            await waiters(url, 1)
            return task

        task = loop.run_until_complete(begin())
        task._log_destroy_pending = False
        loop.close()
        gone = weakref.ref(loop)
        del task, loop
        gc.collect()
        assert gone() is None
    with pawl.Lock(name, url=url, timeout=PATIENCE):
        pass


def test_client_of_its_own(url: str, name: str) -> None:
    async def main() -> None:
        client = aio.Client(url, label="mine")
        lock = aio.Lock(name, client=client)
        async with lock:
            assert [entry.label for entry in client.inspect(name)] == ["mine"]
        async with aio.Lock(name, client=client, label="its own"):
            assert "its own" in [entry.label for entry in client.inspect(name)]
        async with lock:
            waiting = asyncio.ensure_future(lock.acquire())
            await asyncio.sleep(0)
            await asyncio.get_running_loop().run_in_executor(None, client.close)
            with pytest.raises(pawl.ClosedError):
                await waiting
            with pytest.raises(pawl.ClosedError):
                await lock.acquire()
        assert await is_free(name, url)
        with pytest.raises(TypeError):
            aio.Lock(name, url=url, client=client)

    with pytest.raises(pawl.ClosedError):
        run(main())


def test_client_is_of_one_loop(local: str) -> None:
    client = aio.Client(local)

    async def use() -> None:
        async with aio.Lock("a", client=client):
            pass

    first = asyncio.new_event_loop()
    first.run_until_complete(use())
    with pytest.raises(RuntimeError):
        run(use())
    client.close()
    first.close()


def test_decorator(local: str) -> None:
    @pawl.exclusive("report-{day}")
    async def report(day: int) -> Optional[int]:
        assert await aio.Lock(f"report-{day}").locked()
        return day

    assert run(report(3)) == 3


def test_no_descriptors_are_left(url: str, name: str) -> None:
    def count() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    async def main() -> None:
        async with aio.Lock(name, url=url):
            pass

    run(main())
    before = count()
    for _ in range(5):
        run(main())
    assert count() <= before




# ---- Limits ----------------------------------------------------------------------------------------------------------------------------


def test_extend(url: str, name: str) -> None:
    async def main() -> None:
        async with aio.Lock(name, url=url, max_hold=50) as hold:
            await hold.extend(500, timeout=30)
            await hold.extend(5)
            assert 0 < hold.remaining <= 5
            await hold.extend()
            assert not hold.lost
        with pytest.raises(pawl.NotHeldError):
            await hold.extend()

    asyncio.run(main())


def test_released_while_it_is_extended(url: str, name: str) -> None:
    async def main() -> None:
        for _ in range(20):
            hold = await aio.Lock(name, url=url, max_hold=50).acquire()
            pending = [asyncio.ensure_future(hold.extend()) for _ in range(4)]
            await asyncio.sleep(0)
            hold.release()
            for ended in await asyncio.gather(*pending, return_exceptions=True):
                assert ended is None or isinstance(ended, pawl.NotHeldError), ended
        async with aio.Lock(name, url=url, timeout=30):
            pass

    asyncio.run(main())


def test_a_task_does_not_wait_for_itself(local: str) -> None:
    async def main() -> None:
        rw = aio.RWLock("a")
        async with rw.write():
            with pytest.raises(pawl.DeadlockError):
                async with rw.write():
                    pass
            with pytest.raises(pawl.DeadlockError):
                async with rw.read():
                    pass
        async with rw.read():
            async with rw.read():
                pass
            with pytest.raises(pawl.DeadlockError):
                async with rw.write():
                    pass
        async with rw.write() as writing:
            writing.downgrade()
            async with rw.read():
                pass
            with pytest.raises(pawl.DeadlockError):
                async with rw.write():
                    pass
        async with rw.write():
            pass

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
