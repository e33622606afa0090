# SPDX-License-Identifier: Apache-2.0
"""Locks for asyncio: `async with pawl.aio.Lock("nightly") as hold:`.

Every acquire is a hold of its own, so tasks that share a lock exclude each other. Nothing here blocks the loop: connecting is done in
the loop's executor, and the rest never waits for a server. An acquire that is cancelled leaves nothing behind. A hold that is lost cancels
the task that entered it, and leaves the `async with` as LostError.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
import warnings
import weakref
from typing import Any, AsyncIterator, Callable, Dict, Generic, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union

from . import _clients, _errors, _pawl, _values
from ._locks import State
from ._operator import Kind, Mode, Value

__all__ = ["CANCEL", "Client", "Hold", "Lock", "Permits", "RWLock", "ReadSide", "Semaphore", "WriteHold", "WriteSide", "observe"]

_LOSS_BY_DISPATCH = 2
_LEAVE_S = 2.0
_COUNTS_CANCELS = sys.version_info >= (3, 11)  # Task.uncancel()


class _Cancel:
    def __repr__(self) -> str:
        return "pawl.aio.CANCEL"


CANCEL = _Cancel()
"""on_loss=CANCEL, which need not be said: cancel the task that entered the lock, and leave the `async with` as LostError."""

OnLoss = Union[_Cancel, None, Callable[[_errors.LostError], object]]


# ---- Clients ---------------------------------------------------------------------------------------------------------------------------


class Client(_clients.Client):
    """A connection of its own, for locks that are given it. The arguments are those of pawl.Client. It is of one event loop: the first that
    uses it."""

    def __init__(self, url: Optional[str] = None, *, _flags: int = 0, **options: Any) -> None:
        super().__init__(url, _flags=_flags | _LOSS_BY_DISPATCH, **options)
        # Weak: a hold is its task's. One that is dropped with its loop must not keep that loop alive.
        self._holds: weakref.WeakValueDictionary[int, Hold] = weakref.WeakValueDictionary()
        self._loop: Optional[weakref.ref[asyncio.AbstractEventLoop]] = None
        self._connected = False

    async def _connect(self) -> None:
        """Connect, unless that has been done, and have the loop look for what is due."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = weakref.ref(loop)
        if self._loop() is not loop:
            raise RuntimeError("the client is of another event loop: make one for each")
        if self._connected and not self.closed:
            return
        await loop.run_in_executor(None, self.open)
        if not self._connected:
            loop.add_reader(self._fd(), self._tell)
            self._connected = True

    def _tell(self) -> None:
        """Tell the holds what has become of them. It is Python that runs here, but no callback of the library."""
        try:
            notes = self._dispatch()
        except _errors.ClosedError:
            self._stop()
            return
        for number, lost, token, code, text in notes:
            hold = self._holds.get(number)
            if hold is None:
                continue
            error = _errors.make(code, text) if code else None
            if lost:
                hold._was_lost(error, token)
            else:
                hold._ended(error)

    def _stop(self) -> None:
        """It was closed: nobody waits any more."""
        for hold in list(self._holds.values()):
            hold._ended(_errors.make(_errors.NUMBERS["PAWL_ECLOSED"], f"the client of {hold.name!r} is closed"))

    def close(self) -> None:
        """Release what is held, end what waits, close. It blocks for two seconds at most: `await loop.run_in_executor(None, client.close)`
        does not."""
        loop = self._loop() if self._loop is not None else None
        if self._connected and loop is not None and not loop.is_closed():
            self._leave_loop(loop)
        super().close()

    def _leave_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Before the descriptor is closed: its number may be another's right afterwards."""
        descriptor = self._fd() if not self.closed else -1
        done = threading.Event()

        def leave() -> None:
            if descriptor >= 0:
                loop.remove_reader(descriptor)
            done.set()

        if asyncio._get_running_loop() is loop or not loop.is_running():
            leave()
        else:
            loop.call_soon_threadsafe(leave)
            done.wait(_LEAVE_S)  # a loop that is blocked does not keep the client from closing
        loop.call_soon_threadsafe(self._stop)


_shared: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Dict[str, Client]] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


def _client_for(url: Optional[str], client: Optional[Client]) -> Client:
    """The client that a lock is to use: its own, or that of the loop and the URL."""
    if client is not None:
        return client
    if url is None:
        url = _clients.default_url()
    clients = _shared.setdefault(asyncio.get_running_loop(), {})
    found = clients.get(url)
    if found is None or found.closed:
        found = clients[url] = Client(url)
    return found


# ---- Holds -----------------------------------------------------------------------------------------------------------------------------


class Hold:
    """A lock that is held, by no task in particular: what acquire() returns, and what `async with` gives. release() does not wait."""

    _ticket: _pawl.Ticket

    def __init__(self, client: Client, name: str, on_loss: OnLoss, task: Optional[asyncio.Task[Any]]) -> None:
        self._client, self._name, self._on_loss, self._task = client, name, on_loss, task
        self._number = next(_numbers)
        self._loop = asyncio.get_running_loop()
        self._waiter: Optional[asyncio.Future[None]] = None
        self._error: Optional[BaseException] = None
        self._loss: Optional[_errors.LostError] = None
        self._mode = Mode.EXCLUSIVE
        self._max_hold: Optional[float] = None
        self._is_over = self._is_decided = self._has_cancelled = False
        self._cancels = task.cancelling() if _COUNTS_CANCELS and task is not None else 0

    async def _acquire(self, made: _Made, mode: Mode, permits: int, timeout: Optional[float]) -> None:
        self._max_hold, self._mode = made.max_hold, mode
        self._ticket = _pawl.Ticket(
            self._client, made.name, made.kind.value, made.limit, mode.value, permits, timeout, made.max_hold, made.label, self._number
        )
        self._client._holds[self._number] = self
        try:
            self._client._tell()  # it may be there already
            if not self._is_decided:
                self._waiter = self._loop.create_future()
                await self._waiter
            if self._error is not None:
                raise self._error
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        """Nothing is told of it any more, and what it has is given back."""
        self._is_over = True
        self._client._holds.pop(self._number, None)
        self._ticket.free()

    def _ended(self, error: Optional[BaseException]) -> None:
        if self._is_decided:
            return
        self._is_decided, self._error = True, error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _was_lost(self, error: Optional[BaseException], token: int) -> None:
        assert isinstance(error, _errors.LostError)
        error.token = token
        self._loss = error
        # Not at once: a task that is running now would be cancelled at its next await, which may be after the hold has ended.
        self._loop.call_soon(self._act_on_loss, error)

    def _act_on_loss(self, error: _errors.LostError) -> None:
        if self._is_over:
            return
        if self._on_loss is None:
            return
        if not isinstance(self._on_loss, _Cancel):
            self._on_loss(error)
        elif self._task is not None and not self._task.done():
            self._has_cancelled = True
            self._task.cancel()

    def release(self) -> None:
        """End the hold. LostError: it had been lost. It does not wait for the server."""
        if self._is_over:
            raise _errors.make(_errors.NUMBERS["PAWL_ENOTHELD"], f"the hold of {self._name!r} was released already")
        try:
            self._ticket.release()
        except _errors.LostError as error:
            raise self._loss or error from None
        finally:
            self._end()

    async def extend(self, max_hold: Optional[float] = None, timeout: Optional[float] = None) -> None:
        """Let the hold last `max_hold` seconds from now (None: those of the lock; -1: no limit), once the server has confirmed it.
        Timeout: it has not within `timeout` seconds; None: wait as long as the hold lasts."""
        limit = self._max_hold if max_hold is None else max_hold
        try:
            await self._loop.run_in_executor(None, self._ticket.extend, limit, timeout)
        except _errors.LostError as error:
            raise self._loss or error from None

    async def value(self) -> Optional[Value]:
        """What lies beside the lock; None: nothing."""
        return await self._loop.run_in_executor(None, self._client.value, self._name)

    async def set_value(self, data: Optional[bytes]) -> None:
        """Write what lies beside the lock; None: nothing. LostError: the server says that this hold does not stand any more."""
        try:
            await self._loop.run_in_executor(None, self._client.set_value, self._name, self.token, data)
        except _errors.Error as error:
            if error.name != "PAWL_ETOKEN":
                raise
            raise self._loss or _errors.make(_errors.NUMBERS["PAWL_ELOST"], f"the hold of {self._name!r} was lost") from error

    def _leave(self, kind: Optional[Type[BaseException]], raised: Optional[BaseException]) -> None:
        """The end of an `async with`. What the body has raised is never hidden, but for the cancellation that a loss has caused."""
        cancelled = self._has_cancelled
        ours = cancelled and kind is not None and issubclass(kind, asyncio.CancelledError)
        if cancelled and _COUNTS_CANCELS and self._task is not None:
            ours = self._task.uncancel() <= self._cancels and ours  # else another has cancelled it, too
        try:
            if not self._is_over:  # else the body has released it
                self.release()
        except _errors.Error as error:
            if kind is None or (ours and isinstance(error, _errors.LostError)):
                raise error from raised
        else:
            if ours and self._loss is not None:
                raise self._loss from raised

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._name

    @property
    def token(self) -> int:
        """The number of this hold; it only rises. 0: not held."""
        return self._ticket.token

    @property
    def remaining(self) -> float:
        """For how many seconds the hold is still assured. 0: stop."""
        return self._ticket.remaining

    @property
    def state(self) -> State:
        """What became of the hold. Asks the clock, not the server."""
        return State(self._ticket.state)

    @property
    def lost(self) -> bool:
        """Whether the hold was lost."""
        return self.state is State.LOST

    def check(self) -> None:
        """Raise LostError if the hold was lost, NotHeldError if it is over."""
        state = self.state
        if state is State.LOST:
            text = f"the hold of {self._name!r} was lost: stop, and release it"
            raise self._loss or _errors.make(_errors.NUMBERS["PAWL_ELOST"], text)
        if state is State.NOT_HELD:
            raise _errors.make(_errors.NUMBERS["PAWL_ENOTHELD"], f"{self._name!r} is not held")

    async def __aenter__(self: _HoldType) -> _HoldType:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], raised: Optional[BaseException], *unused: object) -> None:
        self._leave(kind, raised)

    def __del__(self) -> None:
        if not self._is_over and self._is_decided and self._error is None and not self._client.closed:
            text = f"the hold of {self._name!r} was dropped while it was held; it is released now"
            try:
                warnings.warn(text, ResourceWarning, source=self)
            finally:
                self._end()  # who listens to warnings may keep it

    def __repr__(self) -> str:
        return f"<pawl.aio.{type(self).__name__} {self._name!r}: {self.state.name.lower().replace('_', ' ')}>"


class WriteHold(Hold):
    """A hold of the exclusive side of a read-write lock."""

    def downgrade(self) -> None:
        """Go on as a reader, and let no writer in between. The token stays."""
        self._ticket.downgrade()
        self._mode = Mode.SHARED


_HoldType = TypeVar("_HoldType", bound=Hold)


# ---- Locks -----------------------------------------------------------------------------------------------------------------------------


class _Made(NamedTuple):
    """What a lock is made of."""

    kind: Kind
    name: str
    limit: int
    url: Optional[str]
    client: Optional[Client]
    timeout: Optional[float]
    max_hold: Optional[float]
    label: Optional[str]
    on_loss: OnLoss


_Insiders = List[Tuple[Optional["asyncio.Task[Any]"], Hold]]


class _Part(Generic[_HoldType]):
    """A lock, and how it is taken. `insiders` are the tasks that are inside, of either side of a read-write lock, and their
    holds."""

    _hold_type: Type[_HoldType]

    def __init__(self, made: _Made, mode: Mode, permits: int = 1, insiders: Optional[_Insiders] = None) -> None:
        if made.url is not None and made.client is not None:
            raise TypeError("give a URL or a client, not both")
        if not (made.on_loss is None or isinstance(made.on_loss, _Cancel) or callable(made.on_loss)):
            raise TypeError(f"on_loss is a function, not {made.on_loss!r}")
        self._made, self._mode, self._permits = made, mode, permits
        self._entered: List[Tuple[Optional[asyncio.Task[Any]], _HoldType]] = []
        self._insiders: _Insiders = [] if insiders is None else insiders

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._made.name

    async def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> _HoldType:
        """Take it. Not in time: Timeout. A loss of this hold is told by on_loss, or by the hold itself: it cancels nobody."""
        return await self._acquire(blocking, timeout, None)

    async def _acquire(self, blocking: bool, timeout: Optional[float], task: Optional[asyncio.Task[Any]]) -> _HoldType:
        if not blocking and timeout is not None and timeout != -1:
            raise ValueError("an acquire that does not block has no timeout")
        if timeout is None:
            timeout = self._made.timeout
        client = _client_for(self._made.url, self._made.client)
        await client._connect()
        hold = self._hold_type(client, self._made.name, self._made.on_loss, task)
        await hold._acquire(self._made, self._mode, self._permits, timeout if blocking else 0)
        return hold

    def _waits_for_itself(self, task: Optional[asyncio.Task[Any]]) -> bool:
        """Holds are of no task, so none enters again by right; only readers, and those who take permits, stand beside each other."""
        return any(inside is task and Mode.EXCLUSIVE in (self._mode, hold._mode) for inside, hold in self._insiders)

    async def __aenter__(self) -> _HoldType:
        task = asyncio.current_task()
        if self._waits_for_itself(task):
            text = f"this task holds {self._made.name!r} already: it would wait for itself"
            raise _errors.make(_errors.NUMBERS["PAWL_EDEADLK"], text)
        hold = await self._acquire(True, None, task)
        self._entered.append((task, hold))
        self._insiders.append((task, hold))
        return hold

    async def __aexit__(self, kind: Optional[Type[BaseException]], raised: Optional[BaseException], *unused: object) -> None:
        task = asyncio.current_task()
        mine = [i for i, (entered, _) in enumerate(self._entered) if entered is task]
        entered, hold = self._entered.pop(mine[-1] if mine else -1)  # a fixture of a test may be left by another task
        self._insiders.remove((entered, hold))
        hold._leave(kind, raised)

    async def locked(self) -> bool:
        """Whether anybody holds the lock, here or elsewhere. Asks the server; the answer may be old when it arrives."""
        client = _client_for(self._made.url, self._made.client)
        entries = await asyncio.get_running_loop().run_in_executor(None, client.inspect, self._made.name)
        return any(not entry.waits for entry in entries)

    def __repr__(self) -> str:
        return f"<pawl.aio.{type(self).__name__} {self._made.name!r}>"


class Lock(_Part[Hold]):
    """A mutex: one holds it, the others wait in the order in which they came. The arguments are those of pawl.Lock; on_loss is CANCEL, None
    or a function, which the loop calls."""

    _hold_type = Hold

    def __init__(
        self,
        name: str,
        *,
        url: Optional[str] = None,
        client: Optional[Client] = None,
        timeout: Optional[float] = None,
        max_hold: Optional[float] = None,
        label: Optional[str] = None,
        on_loss: OnLoss = CANCEL,
    ) -> None:
        super().__init__(_Made(Kind.MUTEX, name, 1, url, client, timeout, max_hold, label, on_loss), Mode.EXCLUSIVE)


class Permits(_Part[Hold]):
    """Several permits of a semaphore at once."""

    _hold_type = Hold


class Semaphore(_Part[Hold]):
    """At most `limit` permits are out at any time, over all processes. `async with` takes one; permits(n) is for several at once."""

    _hold_type = Hold

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
        on_loss: OnLoss = CANCEL,
    ) -> None:
        super().__init__(_Made(Kind.SEMAPHORE, name, limit, url, client, timeout, max_hold, label, on_loss), Mode.PERMITS)

    def permits(self, count: int) -> Permits:
        """So many permits at once."""
        return Permits(self._made, Mode.PERMITS, count)


class ReadSide(_Part[Hold]):
    """The shared side of a read-write lock."""

    _hold_type = Hold


class WriteSide(_Part[WriteHold]):
    """The exclusive side of a read-write lock."""

    _hold_type = WriteHold


class RWLock:
    """Many readers, or one writer: `async with rwlock.read():`, `async with rwlock.write():`. The arguments are those of Lock."""

    def __init__(
        self,
        name: str,
        *,
        url: Optional[str] = None,
        client: Optional[Client] = None,
        timeout: Optional[float] = None,
        max_hold: Optional[float] = None,
        label: Optional[str] = None,
        on_loss: OnLoss = CANCEL,
    ) -> None:
        self._made = _Made(Kind.RWLOCK, name, 1, url, client, timeout, max_hold, label, on_loss)
        self._insiders: _Insiders = []

    def read(self) -> ReadSide:
        """The side of those who only look: many at a time."""
        return ReadSide(self._made, Mode.SHARED, insiders=self._insiders)

    def write(self) -> WriteSide:
        """The side of the one who changes something."""
        return WriteSide(self._made, Mode.EXCLUSIVE, insiders=self._insiders)

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._made.name

    async def locked(self) -> bool:
        """Whether anybody reads or writes, here or elsewhere. Asks the server."""
        return await self.read().locked()


# ---- Values ----------------------------------------------------------------------------------------------------------------------------


class _Watch:
    """An observer that is made and ended in the loop's executor. Who wants it may be cancelled meanwhile: then the thread that makes it
    ends it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._observer: Optional[_values.Observer] = None
        self._is_over = False

    def begin(self, client: Client, name: str, function: Callable[[_values.Observed], object]) -> None:
        observer = _values.Observer(client, name, function)
        with self._mutex:
            self._observer, is_over = observer, self._is_over
        if is_over:
            observer.stop()

    def end(self) -> None:
        with self._mutex:
            self._is_over, observer = True, self._observer
        if observer is not None:
            observer.stop()


async def observe(name: str, *, url: Optional[str] = None, client: Optional[Client] = None) -> AsyncIterator[_values.Observed]:
    """How the lock is now, and after every change: `async for observed in pawl.aio.observe("leader"):`. States may be skipped, the last one
    never is."""
    if url is not None and client is not None:
        raise TypeError("give a URL or a client, not both")
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    seen: List[_values.Observed] = []

    def note(observed: _values.Observed) -> None:
        seen[:] = [observed]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody looks any more
            loop.call_soon_threadsafe(changed.set)

    used, watch = _client_for(url, client), _Watch()
    await used._connect()
    try:
        await loop.run_in_executor(None, watch.begin, used, name, note)
        while True:
            await changed.wait()
            changed.clear()
            yield seen[0]
    finally:
        await asyncio.shield(loop.run_in_executor(None, watch.end))
