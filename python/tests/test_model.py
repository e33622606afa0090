# SPDX-License-Identifier: Apache-2.0
"""Random calls, by two threads of each of two clients, on a lock of every kind, beside a model of the table in pawl.h."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import pawl

LIMIT = 3
Owner = Tuple[int, int]  # client, thread
OWNERS: List[Owner] = [(client, thread) for client in range(2) for thread in range(2)]


class Model:
    """What may be, of a read-write lock; a mutex is one without readers."""

    def __init__(self) -> None:
        self.written: Dict[Owner, int] = {}
        self.read: Dict[Owner, int] = {}
        self.tokens: Dict[Owner, int] = {}
        self.last_written = 0  # the highest token of a writer
        self.last = 0  # the highest of all

    def others(self, owner: Owner, *holds: Dict[Owner, int]) -> bool:
        return any(other != owner for held in holds for other in held)

    def holds(self, owner: Owner) -> bool:
        return owner in self.written or owner in self.read

    def write(self, owner: Owner) -> Any:
        if owner in self.read and owner not in self.written:
            return pawl.DeadlockError
        return not self.others(owner, self.written, self.read)

    def reads(self, owner: Owner) -> bool:
        return self.holds(owner) or not self.others(owner, self.written)

    def take(self, owner: Owner, held: Dict[Owner, int], token: int) -> None:
        if self.holds(owner):
            assert token == self.tokens[owner]
        else:
            assert token > (self.last if held is self.written else self.last_written)
        held[owner] = held.get(owner, 0) + 1
        self.tokens[owner] = token
        self.last = max(self.last, token)
        if held is self.written:
            self.last_written = max(self.last_written, token)

    def give(self, owner: Owner, held: Dict[Owner, int]) -> bool:
        if owner not in held:
            return False
        held[owner] -= 1
        if not held[owner]:
            del held[owner]
        if not self.holds(owner):
            del self.tokens[owner]
        return True


def patience(expected: Any) -> float:
    """What must succeed may take a moment: an acquire that was refused before may still be on its way out of the server's queue."""
    return 30 if expected is True else 0


def machine(url: str) -> Type[RuleBasedStateMachine]:
    owners = st.sampled_from(OWNERS)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            name = uuid.uuid4().hex
            self.clients = [pawl.Client(url) for _ in range(2)]
            self.locks = [pawl.Lock(name, client=client) for client in self.clients]
            self.rwlocks = [pawl.RWLock(name + "rw", client=client) for client in self.clients]
            self.semaphores = [pawl.Semaphore(name + "s", LIMIT, client=client) for client in self.clients]
            self.threads = {owner: ThreadPoolExecutor(1) for owner in OWNERS}
            self.mutex, self.rwlock = Model(), Model()
            self.permits: Dict[Owner, List[int]] = {owner: [] for owner in OWNERS}

        def teardown(self) -> None:
            for client in self.clients:
                client.close()
            for thread in self.threads.values():
                thread.shutdown()

        def ask(self, owner: Owner, call: Callable[[], Any]) -> Any:
            """What it says in that thread; of an exception its class."""
            try:
                return self.threads[owner].submit(call).result()
            except pawl.Error as error:
                return type(error)

        def acquire(self, owner: Owner, part: pawl.Part, expected: Any, model: Model, held: Dict[Owner, int]) -> None:
            assert self.ask(owner, lambda: part.acquire(timeout=patience(expected))) == expected
            if expected is True:
                model.take(owner, held, self.ask(owner, lambda: part.token))

        def release(self, owner: Owner, part: pawl.Part, model: Model, held: Dict[Owner, int]) -> None:
            expected = None if model.give(owner, held) else pawl.NotHeldError
            assert self.ask(owner, part.release) is expected

        @rule(owner=owners)
        def lock(self, owner: Owner) -> None:
            self.acquire(owner, self.locks[owner[0]], self.mutex.write(owner), self.mutex, self.mutex.written)

        @rule(owner=owners)
        def unlock(self, owner: Owner) -> None:
            self.release(owner, self.locks[owner[0]], self.mutex, self.mutex.written)

        @rule(owner=owners)
        def write(self, owner: Owner) -> None:
            self.acquire(owner, self.rwlocks[owner[0]].write(), self.rwlock.write(owner), self.rwlock, self.rwlock.written)

        @rule(owner=owners)
        def read(self, owner: Owner) -> None:
            self.acquire(owner, self.rwlocks[owner[0]].read(), self.rwlock.reads(owner), self.rwlock, self.rwlock.read)

        @rule(owner=owners)
        def end_writing(self, owner: Owner) -> None:
            self.release(owner, self.rwlocks[owner[0]].write(), self.rwlock, self.rwlock.written)

        @rule(owner=owners)
        def end_reading(self, owner: Owner) -> None:
            self.release(owner, self.rwlocks[owner[0]].read(), self.rwlock, self.rwlock.read)

        @rule(owner=owners, count=st.integers(1, LIMIT))
        def take_permits(self, owner: Owner, count: int) -> None:
            free = LIMIT - sum(sum(taken) for taken in self.permits.values())
            semaphore = self.semaphores[owner[0]]
            assert self.ask(owner, lambda: semaphore.acquire(timeout=patience(count <= free), permits=count)) is (count <= free)
            if count <= free:
                self.permits[owner].append(count)

        @rule(owner=owners)
        def give_permits(self, owner: Owner) -> None:
            expected = None if self.permits[owner] else pawl.NotHeldError
            assert self.ask(owner, self.semaphores[owner[0]].release) is expected
            if self.permits[owner]:
                self.permits[owner].pop()

        @invariant()
        def everybody_knows_what_they_hold(self) -> None:
            for owner in OWNERS:
                for part, model in [(self.locks[owner[0]], self.mutex), (self.rwlocks[owner[0]].read(), self.rwlock)]:
                    assert self.ask(owner, lambda: part.token) == model.tokens.get(owner, 0)

    return Machine


def play(url: str, examples: int) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    run: Any = run_state_machine_as_test
    run(machine(url), settings=how)


def test_model(local: str) -> None:
    play(local, 20)


@pytest.mark.long
def test_model_on_every_engine(url: str) -> None:
    play(url, 100)
