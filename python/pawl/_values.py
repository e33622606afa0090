# SPDX-License-Identifier: Apache-2.0
"""The value beside a lock, and who observes it. It is C that copies what the library shows (value.c); here it gets names."""

from __future__ import annotations

import atexit
from typing import Any, Callable, NamedTuple, Optional, Set, Tuple

from . import _losses, _pawl
from ._clients import Client, client_for
from ._operator import Entry, Value


class Observed(NamedTuple):
    """How a lock is: who holds it, and what lies beside it."""

    name: str
    holder: Optional[Entry]  # None: nobody; of several, the first
    value: Optional[Value]  # what lies beside the lock, no matter who wrote it
    holders_value: Optional[Value]  # the same if this holder wrote it: what a dead leader left is never taken for the next one's

    @classmethod
    def _of(cls, name: str, told: Tuple[Any, Any, Any]) -> Observed:
        holder, value, holders_value = told
        return cls(name, Entry._of(holder) if holder is not None else None, Value._of(value), Value._of(holders_value))


_all: Set[Observer] = set()  # until stop(), also where a program does not keep what observe() has returned


class Observer(_pawl.Observer, _losses.Told):
    """One that is told how a lock is: observe() makes it. stop() ends it, and so does `with`."""

    def __new__(cls, client: Client, name: str, function: Callable[[Observed], object]) -> Observer:
        return super().__new__(cls)

    def __init__(self, client: Client, name: str, function: Callable[[Observed], object]) -> None:
        if not callable(function):
            raise TypeError(f"observe wants a function, not {function!r}")
        self.name, self._function = name, function
        self.log = self._look
        super().__init__(client, name, _losses.want(self))
        client._observers.add(self)
        _all.add(self)

    def _look(self, level: int, text: str) -> None:
        told = self._take()
        if told is not None:
            self._function(Observed._of(self.name, told))

    def stop(self) -> None:
        """Nothing is told any more."""
        super().stop()
        _all.discard(self)

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()


def observe(
    name: str, function: Callable[[Observed], object], *, url: Optional[str] = None, client: Optional[Client] = None
) -> Observer:
    """Have function(observed) called, on a thread of its own, with how the lock is now, and after every change of who holds it or of what
    lies beside it. States may be skipped, the last one never is. It goes on until stop()."""
    return Observer(client_for(url, client), name, function)


def _stop_all() -> None:
    """Before the clients are closed, which those who observe keep open."""
    for observer in list(_all):
        observer.stop()


atexit.register(_stop_all)
