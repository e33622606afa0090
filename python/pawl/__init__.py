# SPDX-License-Identifier: Apache-2.0
"""Locks between processes, on one machine or across many.

    import pawl

    with pawl.Lock("nightly") as lock:      # $PAWL_URL, else this machine
        write(lock.token)                   # a number that only rises: send it along with what you write

docs/python.md tells of loss, tokens, fork, Ctrl-C and errors.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from . import _pawl

if not _pawl.is_main():
    raise ImportError("pawl can't be used in a sub-interpreter: its clients belong to the process; import it in the main one")

from . import aio, compat
from ._clients import Client
from ._decorator import exclusive
from ._errors import (
    ArgumentError,
    ClosedError,
    ConnectionLost,
    DeadlockError,
    EngineError,
    Error,
    ForkedError,
    LostError,
    MismatchError,
    NotHeldError,
    SystemFailure,
    Timeout,
)
from ._locks import AllOf, Hold, Lock, Part, Permits, ReadSide, RWLock, Semaphore, State, WriteSide, all_of
from ._operator import Entry, Finding, Kind, Mode, Severity, Value
from ._values import Observed, Observer, observe

__version__ = _pawl.version()

_LOOK = 8


def engines() -> Tuple[str, ...]:
    """The engines of this build: "local", and "redis", "redlock" and "zk" where they are."""
    return tuple(_pawl.engines().split())


def inspect(name: Optional[str] = None, *, url: Optional[str] = None) -> List[Entry]:
    """Who holds and who waits, lock by lock, in their order: of one lock, or of all."""
    with Client(url, _flags=_LOOK) as client:
        return client.inspect(name)


def break_(name: str, token: int, *, now: bool = False, url: Optional[str] = None) -> None:
    """Ask the holder with this token to give up. With `now` the lock is free at once, and the old holder may still be acting."""
    with Client(url, _flags=_LOOK) as client:
        client.break_(name, token, now=now)


def value(name: str, *, url: Optional[str] = None) -> Optional[Value]:
    """What lies beside the lock; None: nothing."""
    with Client(url, _flags=_LOOK) as client:
        return client.value(name)


def examine(url: Optional[str] = None) -> List[Finding]:
    """What endangers the locks where they are, and what to change."""
    with Client(url, _flags=_LOOK) as client:
        return client.examine()


__all__ = [
    "AllOf",
    "ArgumentError",
    "Client",
    "ClosedError",
    "ConnectionLost",
    "DeadlockError",
    "EngineError",
    "Entry",
    "Error",
    "Finding",
    "ForkedError",
    "Hold",
    "Kind",
    "Lock",
    "LostError",
    "MismatchError",
    "Mode",
    "NotHeldError",
    "Observed",
    "Observer",
    "Part",
    "Permits",
    "RWLock",
    "ReadSide",
    "Semaphore",
    "Severity",
    "State",
    "SystemFailure",
    "Timeout",
    "Value",
    "WriteSide",
    "aio",
    "all_of",
    "break_",
    "compat",
    "engines",
    "examine",
    "exclusive",
    "inspect",
    "observe",
    "value",
]
