# SPDX-License-Identifier: Apache-2.0
"""An exception for every code of pawl.h. Its text is the library's: one sentence that says what is wrong and what to do."""

from __future__ import annotations

from typing import Dict, Tuple, Type

from . import _pawl

# {number: (name, meaning)}
CODES: Dict[int, Tuple[str, str]] = _pawl.codes()


NUMBERS: Dict[str, int] = {name: number for number, (name, _) in CODES.items()}


class Error(Exception):
    """What all exceptions of pawl have in common. `code` is the number in pawl.h; 0: it came from Python."""

    code: int = 0

    @property
    def name(self) -> str:
        """The name of the code in pawl.h, like "PAWL_ELOST"."""
        return CODES[self.code][0] if self.code in CODES else ""


class Timeout(Error, TimeoutError):
    """Not acquired in time, or held by another and not waited for."""


class LostError(Error):
    """The hold was lost. What was begun under it must stop; others may be let in."""

    token: int = 0

    @property
    def reason(self) -> str:
        """ "broken" by an operator, "expired" (its lease or its max_hold ran out), or "lost": the server does not have it any more,
        or nobody asked in time why."""
        return {"PAWL_EBROKEN": "broken", "PAWL_EEXPIRED": "expired"}.get(self.name, "lost")


class DeadlockError(Error, RuntimeError):
    """It would wait for itself for ever."""


class NotHeldError(Error, RuntimeError):
    """Not held, or held by another thread."""


class ClosedError(Error):
    """The client was closed, or the acquire cancelled."""


class ForkedError(Error):
    """The hold is the parent's, and this is a child."""


class ConnectionLost(Error, ConnectionError):
    """No connection to the server, or no answer from it."""


class MismatchError(Error):
    """The name is in use as another kind of lock, or as a semaphore of another limit."""


class ArgumentError(Error, ValueError):
    """A name, a URL, an option or a number that makes no sense."""


class SystemFailure(Error, OSError):
    """The operating system refused."""


class EngineError(Error):
    """The engine or its server cannot do it, or not now."""


_CLASSES: Dict[str, Type[Error]] = {
    name: kind
    for kind, names in {
        Timeout: "EHELD ETIMEOUT",
        LostError: "ELOST EBROKEN EEXPIRED",
        DeadlockError: "EDEADLK",
        NotHeldError: "ENOTHELD ENOTOWNER",
        ClosedError: "ECLOSED ECANCELED",
        ForkedError: "EFORKED",
        ConnectionLost: "ECONNLOST EUNKNOWN",
        MismatchError: "EKIND ELIMIT",
        ArgumentError: "EINVAL ENAME EURL EENGINE EOPTION EDURATION EPERMITS ETOOLARGE",
        SystemFailure: "ESYSTEM EACCES ENOSPACE EFILESYSTEM",
        EngineError: "EBUSY ETOKEN EFORMAT EVERSION EFULL EGONE EUNSUPPORTED EOVERFLOW EREPLICAS ETOPOLOGY EORPHAN",
    }.items()
    for name in names.split()
}


def make(code: int, text: str) -> BaseException:
    """The exception for a code. The extension raises it."""
    name = CODES[code][0] if code in CODES else ""
    if name == "PAWL_ENOMEM":
        return MemoryError(text)
    error = _CLASSES.get(name[len("PAWL_") :], EngineError)(text)
    error.code = code
    return error
