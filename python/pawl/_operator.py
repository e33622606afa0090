# SPDX-License-Identifier: Apache-2.0
"""For operators: who holds, who waits, what endangers the locks."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple, Optional, Tuple

_FOREVER = 2**63 - 1
_WAITER, _BROKEN, _STOPPED, _FOREIGN = 1, 2, 4, 8


class Kind(enum.Enum):
    """What a lock is."""

    MUTEX = 0
    RWLOCK = 1
    SEMAPHORE = 2


class Mode(enum.Enum):
    """How a lock is held."""

    EXCLUSIVE = 0
    SHARED = 1
    PERMITS = 2


class Severity(enum.Enum):
    """How bad a finding is."""

    GOOD = 0
    UNKNOWN = 1
    WARNING = 2


class Entry(NamedTuple):
    """One that holds or waits."""

    name: str
    kind: Kind
    mode: Mode
    waits: bool
    position: int  # 0: holds; 1: the first that waits
    permits: int
    limit: int
    token: int  # of a holder; 0 for one that waits
    host: str
    pid: int  # 0: not known
    command: str
    label: str
    since: Optional[float]  # Unix time
    remaining: Optional[float]  # seconds; infinite: it never ends by itself
    broken: bool  # asked to give up
    stopped: bool  # stopped in the middle of an acquire: nobody on this lock moves until it goes on
    foreign: bool  # not pawl
    raw: str  # what the engine stores, in its own words

    @classmethod
    def _of(cls, told: Tuple[str, int, int, int, int, int, int, int, str, int, str, str, int, int, str]) -> Entry:
        name, kind, mode, flags, position, permits, limit, token, host, pid, command, label, since, remaining, raw = told
        return cls(
            name,
            Kind(kind),
            Mode(mode),
            bool(flags & _WAITER),
            position,
            permits,
            limit,
            token,
            host,
            pid,
            command,
            label,
            since / 1000 if since else None,
            math.inf if remaining == _FOREVER else remaining / 1000 if remaining >= 0 else None,
            bool(flags & _BROKEN),
            bool(flags & _STOPPED),
            bool(flags & _FOREIGN),
            raw,
        )


class Value(NamedTuple):
    """What lies beside a lock."""

    data: bytes
    token: int  # of the hold that wrote it
    version: int  # rises with every write
    written: float  # Unix time, by the server's clock

    @classmethod
    def _of(cls, told: Optional[Tuple[bytes, int, int, int]]) -> Optional[Value]:
        return None if told is None else cls(told[0], told[1], told[2], told[3] / 1000)


class Finding(NamedTuple):
    """One thing about the server, or the place, that matters to locks."""

    severity: Severity
    what: str
    advice: str  # "": there is nothing to change

    @classmethod
    def _of(cls, told: Tuple[int, str, str]) -> Finding:
        return cls(Severity(told[0]), told[1], told[2])
