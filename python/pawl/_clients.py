# SPDX-License-Identifier: Apache-2.0
"""Clients: a connection to where the locks are. Locks of one URL share one, unless they are given another."""

from __future__ import annotations

import atexit
import functools
import math
import os
import re
import threading
import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import _errors, _losses, _pawl
from ._operator import Entry, Finding, Value

_FOREVER = 2**63 - 1
_shared: Dict[str, Client] = {}


def default_url() -> str:
    """$PAWL_URL, else `local:`."""
    return os.environ.get("PAWL_URL", "local:")


_TRACE = 4  # PAWL_OPEN_TRACE


class Client(_pawl.Client, _losses.Told):
    """A connection of its own, for locks that are given it: `pawl.Lock("nightly", client=client)`.

    It is opened with the first use. `lease` (seconds) is how long a server keeps a hold that nobody renews; `label` is shown by
    `pawl status`; no hold lasts longer than `max_hold` (seconds); opening waits no longer than `connect` (seconds). What an operator should
    know is given to `log`, with `trace` every step of the algorithm, too: `log=logging.getLogger("pawl").log`. It is called on a thread of
    its own, and has heard all when close() returns. Use the client in a `with` statement, or call close().
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        lease: Optional[float] = None,
        label: Optional[str] = None,
        max_hold: Optional[float] = None,
        connect: Optional[float] = None,
        log: Optional[_losses.Log] = None,
        trace: bool = False,
        _flags: int = 0,
    ) -> None:
        if url is None:
            url = default_url()
        self._options: Dict[str, Any] = dict(lease=lease, label=label, max_hold=max_hold, connect=connect, _flags=_flags)
        self._options.update(log=log, trace=trace)
        self._url, self.log = url, log
        self._observers: weakref.WeakSet[_pawl.Observer] = weakref.WeakSet()
        super().__init__(url, lease, label, max_hold, connect, _flags | (_TRACE if trace else 0), _losses.want(self))

    def __reduce__(self) -> Tuple[Any, ...]:
        return functools.partial(type(self), **self._options), (self._url,)

    def __repr__(self) -> str:
        url = re.sub("//[^?]*@", "//", self._url)  # who it is, and the password, are not for logs
        return f"<pawl.Client {url}{' closed' if self.closed else ''}>"

    def __enter__(self) -> Client:
        self.open()
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what is held, end what waits, close. It takes two seconds at most."""
        for observer in list(self._observers):
            observer.stop()
        super().close()
        if self.log is not None:
            _losses.catch_up()

    @property
    def url(self) -> str:
        """Where the locks are, in full, without secrets."""
        return self._describe()[0]

    @property
    def engine(self) -> str:
        """What keeps the locks: "local", "redis", ..."""
        return self._describe()[1]

    @property
    def lease(self) -> float:
        """Seconds after which a hold that is not renewed ends; infinite if it never does."""
        milliseconds = self._describe()[2]
        return math.inf if milliseconds == _FOREVER else milliseconds / 1000

    def inspect(self, name: Optional[str] = None) -> List[Entry]:
        """Who holds and who waits: of one lock, or of all."""
        return [Entry._of(told) for told in self._inspect(name)]

    def break_(self, name: str, token: int, *, now: bool = False) -> None:
        """Ask the holder with this token to give up; with `now` free the lock at once."""
        self._break(name, token, now)

    def value(self, name: str) -> Optional[Value]:
        """What lies beside the lock; None: nothing."""
        return Value._of(self._value_read(name))

    def set_value(self, name: str, token: int, data: Optional[bytes]) -> None:
        """Write it in the name of the hold with this token, if that stands: for what `pawl run` starts, and finds in PAWL_TOKEN."""
        self._value_set_as(name, token, data)

    def examine(self) -> List[Finding]:
        """What endangers the locks where they are, and what to change."""
        return [Finding._of(told) for told in self._examine()]


def client_for(url: Optional[str], client: Optional[Client]) -> Client:
    """The client that a lock is to use."""
    if client is not None:
        if url is not None:
            raise TypeError("give a URL or a client, not both")
        return client
    if url is None:
        url = default_url()
    found = _shared.get(url)
    if found is not None and not found.closed:
        return found
    if found is not None:
        _shared.pop(url, None)
    return _shared.setdefault(url, Client(url))


def _end() -> None:
    """At the end of the interpreter only daemon threads are left. That their locks are closed is no fault of the program's: a thread that
    does not catch the exception ends without a word."""
    told = threading.excepthook

    def tell(arguments: threading.ExceptHookArgs, /) -> object:
        thread = arguments.thread
        if thread is not None and thread.daemon and issubclass(arguments.exc_type, _errors.ClosedError):
            return None
        return told(arguments)

    threading.excepthook = tell
    _pawl.close_all()


atexit.register(_end)
