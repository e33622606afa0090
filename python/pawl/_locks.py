# SPDX-License-Identifier: Apache-2.0
"""Locks for threads and processes. Acquiring and releasing is C (lock.c); here is what is around it."""

from __future__ import annotations

import enum
import math
from typing import Any, NamedTuple, Optional, Tuple, Type

from . import _errors, _losses, _pawl
from ._clients import Client, client_for
from ._operator import Kind, Mode

_TASK, _NONREENTRANT = 1, 2


class State(enum.Enum):
    """What became of a hold."""

    NOT_HELD = 0
    HELD = 1
    SUSPECT = 2  # still assured, but renewals do not get through
    LOST = 3  # final for this hold: release it


class _Made(NamedTuple):
    """What a lock is made of, and what travels to other processes."""

    kind: Kind
    name: str
    limit: int
    url: Optional[str]
    client: Optional[Client]
    timeout: Optional[float]
    max_hold: Optional[float]
    keep: Optional[float]
    label: Optional[str]
    on_loss: Optional[_losses.OnLoss]


class Part(_pawl.Part):
    """A lock, and how it is taken. The locks make them: `rwlock.read()`, `semaphore.permits(2)`."""

    _mode: Mode
    _permits: int

    def _handle(self) -> _Handle:
        raise NotImplementedError

    @property
    def state(self) -> State:
        """What became of this thread's hold. Asks the clock, not the server."""
        return State(self._state)

    @property
    def value(self) -> Optional[bytes]:
        """What lies beside the lock. Who holds it writes it, and the server decides whether that is still so: LostError. None: nothing."""
        told = self._value_get()
        return None if told is None else told[0]

    @value.setter
    def value(self, data: Optional[bytes]) -> None:
        self._value_set(data)

    def hold(self, timeout: Optional[float] = None) -> Hold:
        """Take it for no thread in particular: any may release what this returns. Not in time: Timeout."""
        return Hold(self._handle()._made, self._mode, self._permits, timeout)

    def locked(self) -> bool:
        """Whether anybody holds the lock, here or elsewhere. Asks the server; the answer may be old when it arrives."""
        return any(not entry.waits for entry in self._handle().client.inspect(self.name))

    def __repr__(self) -> str:
        state = self.state
        token = "" if state is State.NOT_HELD else f", token {self.token}"
        return f"<pawl.{type(self).__name__} {self.name!r}: {state.name.lower().replace('_', ' ')}{token}>"


class _Handle(_pawl.Lock, Part, _losses.Told):
    """A part with a handle of its own."""

    def __init__(self, made: _Made, mode: Mode, permits: int, flags: int) -> None:
        self._made, self._mode, self._permits, self._flags = made, mode, permits, flags
        self._client = client_for(made.url, made.client)
        self.on_loss = made.on_loss
        how = (made.limit, flags, mode.value, permits, made.timeout, made.max_hold, made.keep, made.label, _losses.want(self))
        super().__init__(self._client, made.name, made.kind.value, *how)

    def _handle(self) -> _Handle:
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return _again, (type(self), self._made, self._mode, self._permits, self._flags)

    @property
    def client(self) -> Client:
        """The client that it uses."""
        return self._client


def _again(kind: Type[_Handle], made: _Made, mode: Mode, permits: int, flags: int) -> _Handle:
    """A lock that has travelled."""
    lock = kind.__new__(kind)
    _Handle.__init__(lock, made, mode, permits, flags)
    return lock


class Lock(_Handle):
    """A mutex: one holds it, the others wait in the order in which they came.

    `url` says where it is; None: $PAWL_URL, else this machine. `with` waits `timeout` seconds, then raises Timeout; None: for ever. No hold
    lasts longer than `max_hold` seconds. `keep`: the process keeps the lock after release until another process wants it, or until nobody
    has used it for so many seconds; None: as the URL says. `label` says what it is for, as inspect() shows it; None: as the client says.
    `on_loss(error)` is called, on a thread of its own, when a hold is lost. Threads share a lock as they share a threading.RLock; with
    `reentrant=False` a second acquire of the same thread is a DeadlockError.
    """

    def __init__(
        self,
        name: str,
        *,
        url: Optional[str] = None,
        client: Optional[Client] = None,
        timeout: Optional[float] = None,
        max_hold: Optional[float] = None,
        keep: Optional[float] = None,
        label: Optional[str] = None,
        on_loss: Optional[_losses.OnLoss] = None,
        reentrant: bool = True,
    ) -> None:
        made = _Made(Kind.MUTEX, name, 1, url, client, timeout, max_hold, keep, label, on_loss)
        super().__init__(made, Mode.EXCLUSIVE, 1, 0 if reentrant else _NONREENTRANT)


class Semaphore(_Handle):
    """At most `limit` permits are out at any time, over all processes. `with` takes one; permits(n) is for several at once."""

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        url: Optional[str] = None,
        client: Optional[Client] = None,
        timeout: Optional[float] = None,
        max_hold: Optional[float] = None,
        label: Optional[str] = None,
        on_loss: Optional[_losses.OnLoss] = None,
    ) -> None:
        super().__init__(_Made(Kind.SEMAPHORE, name, limit, url, client, timeout, max_hold, None, label, on_loss), Mode.PERMITS, 1, 0)

    @property
    def limit(self) -> int:
        """How many permits there are."""
        return self._made.limit

    def permits(self, count: int) -> Permits:
        """So many permits at once, for `with` and all_of."""
        return Permits(self, Mode.PERMITS, count)


class RWLock:
    """Many readers, or one writer: `with rwlock.read():`, `with rwlock.write():`. The arguments are those of Lock."""

    def __init__(
        self,
        name: str,
        *,
        url: Optional[str] = None,
        client: Optional[Client] = None,
        timeout: Optional[float] = None,
        max_hold: Optional[float] = None,
        keep: Optional[float] = None,
        label: Optional[str] = None,
        on_loss: Optional[_losses.OnLoss] = None,
    ) -> None:
        self._lock = _Handle(_Made(Kind.RWLOCK, name, 1, url, client, timeout, max_hold, keep, label, on_loss), Mode.EXCLUSIVE, 1, 0)

    def read(self) -> ReadSide:
        """The side of those who only look: many at a time."""
        return ReadSide(self._lock, Mode.SHARED)

    def write(self) -> WriteSide:
        """The side of the one who changes something."""
        return WriteSide(self._lock, Mode.EXCLUSIVE)

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lock.name

    @property
    def client(self) -> Client:
        """The client that it uses."""
        return self._lock.client

    def locked(self) -> bool:
        """Whether anybody reads or writes, here or elsewhere. Asks the server."""
        return self._lock.locked()

    def cancel(self) -> int:
        """End the acquires that wait, of either side, in any thread. Returns how many."""
        return self._lock.cancel()

    def __repr__(self) -> str:
        return repr(self._lock).replace("_Handle", "RWLock")


class _Side(Part):
    """A part that uses the handle of a lock."""

    def __init__(self, lock: _Handle, mode: Mode, permits: int = 1) -> None:
        self._lock, self._mode, self._permits = lock, mode, permits
        super().__init__(lock, mode.value, permits)

    def _handle(self) -> _Handle:
        return self._lock

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self._lock, self._mode, self._permits)


class Permits(_Side):
    """Several permits of a semaphore at once."""


class ReadSide(_Side):
    """The shared side of a read-write lock."""


class WriteSide(_Side):
    """The exclusive side of a read-write lock."""

    def downgrade(self) -> None:
        """Go on as a reader, and let no writer in between. The token stays; `with` ends the reading, too."""
        self._downgrade()


class Hold(_Handle):
    """A hold that belongs to no thread: Part.hold() makes it, held. Any thread may ask it and release it."""

    def __init__(self, made: _Made, mode: Mode, permits: int, timeout: Optional[float]) -> None:
        super().__init__(made if timeout is None else made._replace(timeout=timeout), mode, permits, _TASK)
        super().__enter__()

    def __enter__(self) -> Hold:
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a hold belongs to this process and cannot be pickled; pickle the lock")


class AllOf:
    """Several locks taken as one, without deadlock: all_of() makes it."""

    def __init__(self, parts: Tuple[Part, ...], timeout: Optional[float]) -> None:
        self._parts, self._timeout = parts, timeout

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """Take all, or none. False: not in time."""
        if timeout is None:
            timeout = self._timeout
        elif not blocking and timeout != -1:
            raise ValueError("an acquire that does not block has no timeout")
        return _pawl.acquire_all(self._parts, timeout if blocking else 0)

    def release(self) -> None:
        """Release all, the last first."""
        _pawl.release_all(self._parts)

    def __enter__(self) -> AllOf:
        if not self.acquire():
            names = ", ".join(repr(part.name) for part in self._parts)
            raise _errors.make(_errors.NUMBERS["PAWL_ETIMEOUT"], f"not all of {names} were acquired in time; none is held")
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *unused: object) -> None:
        try:
            self.release()
        except _errors.Error:
            if kind is None:
                raise

    @property
    def tokens(self) -> Tuple[int, ...]:
        """The token of each, in the order in which they were given."""
        return tuple(part.token for part in self._parts)

    @property
    def remaining(self) -> float:
        """For how many seconds all of them are still assured. 0: stop."""
        return min((part.remaining for part in self._parts), default=math.inf)

    @property
    def lost(self) -> bool:
        """Whether one of them was lost."""
        return any(part.lost for part in self._parts)

    def check(self) -> None:
        """Raise LostError if one of them was lost."""
        for part in self._parts:
            part.check()


def all_of(*parts: Part, timeout: Optional[float] = None) -> AllOf:
    """Several locks as one: `with pawl.all_of(pawl.Lock("a"), rwlock.read(), timeout=5):`. Two that take the same locks never wait for each
    other for ever, in whichever order they name them. Without a `timeout` the least of the locks' own counts."""
    return AllOf(parts, timeout)
