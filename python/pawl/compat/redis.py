# SPDX-License-Identifier: Apache-2.0
"""For programs that lock with redis-py: `r.lock("nightly", timeout=60, lock_class=pawl.compat.redis.Lock)`.

It is the same key, and who holds it excludes redis-py's own Lock and pawls with ?layout=plain: processes change over one by one. Those
who wait do so in a queue, instead of looking ten times a second; a hold without `timeout` is renewed while its process lives; and a hold
has a token (`lock.fencing_token`) that only rises. docs/python.md says row by row what differs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import threading
import time
import types
from typing import Any, Iterator, Optional, Union
from urllib.parse import quote, urlencode

from .. import _errors, _locks

_exceptions: Any = importlib.import_module("redis.exceptions")

__all__ = ["Lock"]


# ---- The same server -------------------------------------------------------------------------------------------------------------------

_TLS = {"ssl_ca_certs": "ca", "ssl_certfile": "cert", "ssl_keyfile": "key"}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _user(arguments: Any) -> str:
    name, password = arguments.get("username"), arguments.get("password")
    if name is None and password is None:
        return ""
    return f"{quote(_text(name or ''), safe='')}:{quote(_text(password or ''), safe='')}@"


def _place(host: Any, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _tls_options(arguments: Any) -> Any:
    options = {option: arguments[key] for key, option in _TLS.items() if arguments.get(key)}
    if str(arguments.get("ssl_cert_reqs", "required")).lower() in ("none", "0", "verifymode.cert_none"):
        options["verify"] = "none"
    return options


def url_of(redis: Any) -> str:
    """The URL of the server that a redis-py client speaks to, as pawl writes it."""
    if inspect.iscoroutinefunction(getattr(redis, "execute_command", None)):
        raise _exceptions.LockError("this lock would block the event loop: use pawl.aio.Lock with redis.asyncio")
    pool = getattr(redis, "connection_pool", None)
    if pool is None:
        raise _exceptions.LockError(f"pawl can't tell where {redis!r} connects to: give pawl.Lock the URL of the cluster")
    arguments, kind = pool.connection_kwargs, pool.connection_class
    tls = any(base.__name__ == "SSLConnection" for base in kind.__mro__) or "ssl_cert_reqs" in arguments
    options = {"layout": "plain", **(_tls_options(arguments) if tls else {})}
    if hasattr(pool, "sentinel_manager"):
        places = (sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels)
        hosts = ",".join(_place(place.get("host", "localhost"), place.get("port", 26379)) for place in places)
        where = f"-sentinel://{_user(arguments)}{hosts}/{quote(pool.service_name, safe='')}/{arguments.get('db', 0)}"
    elif "path" in arguments:
        where, options["db"] = f"+unix://{_user(arguments)}{arguments['path']}", arguments.get("db", 0)
    else:
        where = f"://{_user(arguments)}{_place(arguments.get('host', 'localhost'), arguments.get('port', 6379))}/{arguments.get('db', 0)}"
    return f"redis{'s' if tls else ''}{where}?{urlencode(options)}"


# ---- The lock --------------------------------------------------------------------------------------------------------------------------


def _lock_error(name: Union[str, bytes], text: str, kind: str = "LockError") -> Any:
    error = getattr(_exceptions, kind)(text)
    error.lock_name = name
    return error


@contextlib.contextmanager
def _redis_errors(name: Union[str, bytes]) -> Iterator[None]:
    """What pawl says, as redis-py says it."""
    try:
        yield
    except _errors.LostError as error:
        raise _lock_error(name, str(error), "LockNotOwnedError") from error
    except _errors.ConnectionLost as error:
        raise _exceptions.ConnectionError(str(error)) from error
    except _errors.Error as error:
        raise _lock_error(name, str(error)) from error


def _value_of(redis: Any, name: Union[str, bytes]) -> Optional[bytes]:
    value = redis.get(name)
    return value.encode() if isinstance(value, str) else value


class _Held:
    """What a thread has: redis-py's `lock.local`."""

    hold: Optional[_locks.Hold] = None
    ends: float = 0.0  # by time.monotonic(), where there is a timeout
    value: Optional[bytes] = None
    key: Any = None  # asks for it

    @property
    def token(self) -> Optional[bytes]:
        """The value of the key, which names the owner. It is asked for when it is wanted; None: not held, or lost before that."""
        if self.hold is not None and self.value is None:
            value = self.key()
            if self.hold.remaining > 0:  # else it may be another's
                self.value = value
        return self.value if self.hold is not None else None


class _HeldByThread(_Held, threading.local):
    pass


class Lock:
    """In the place of redis.lock.Lock. `sleep` counts only where it is longer than blocking_timeout: then there is one try."""

    def __init__(
        self,
        redis: Any,
        name: Union[str, bytes],
        timeout: Optional[float] = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[float] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis, self.name, self.timeout, self.sleep = redis, name, timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local, self.raise_on_release_error = bool(thread_local), raise_on_release_error
        self.local: Any = _HeldByThread() if thread_local else _Held()
        with _redis_errors(self.name):
            self._lock = _locks.Lock(_text(name), url=url_of(redis), max_hold=timeout)

    def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """Take it. False: not in time."""
        if token is not None:
            raise _lock_error(self.name, "pawl names the owner itself, so that no two are alike: leave `token` out; local.token tells it")
        sleep = self.sleep if sleep is None else sleep
        blocking = self.blocking if blocking is None else blocking
        patience = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not blocking or (patience is not None and sleep > patience):
            patience = 0
        try:
            with _redis_errors(self.name):
                hold = self._hold(patience)
        except _exceptions.LockError as error:
            if isinstance(error.__cause__, _errors.Timeout):
                return False
            raise
        self._drop()
        # Not a method of ours: a lock that is dropped has to end at once, and not when Python next looks for cycles.
        self.local.hold, self.local.value, self.local.key = hold, None, functools.partial(_value_of, self.redis, self.name)
        self.local.ends = time.monotonic() + (self.timeout or 0)
        return True

    def _hold(self, patience: Optional[float]) -> _locks.Hold:
        return self._lock.hold(-1 if patience is None else patience)

    def _drop(self) -> None:
        """What an object had before it acquired again is lost, or it could not have."""
        hold, self.local.hold = self.local.hold, None
        if hold is not None:
            with contextlib.suppress(_errors.Error):
                hold.release()

    def _needs_hold(self, verb: str) -> _locks.Hold:
        hold: Optional[_locks.Hold] = self.local.hold
        if hold is None:
            raise _lock_error(self.name, f"{self.name!r} is not held through this lock, and can't be {verb}")
        return hold

    def release(self) -> None:
        """End the hold. LockNotOwnedError: it had been lost."""
        hold = self._needs_hold("released")
        self.local.hold = None
        with _redis_errors(self.name):
            hold.release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Let the hold last so many seconds more; with replace_ttl, from now on."""
        hold = self._needs_hold("extended")
        if self.timeout is None:
            raise _lock_error(self.name, f"{self.name!r} has no timeout that could be extended: it is renewed as long as it is held")
        seconds = additional_time if replace_ttl else self._left() + additional_time
        with _redis_errors(self.name):
            hold.extend(seconds)
        self.local.ends = time.monotonic() + seconds
        return True

    def _left(self) -> float:
        """What is left of `timeout`. Within the lease that is what the server has written; beyond, it will be renewed until then."""
        left: float = self.local.ends - time.monotonic()
        return left if left > self._lock.client.lease else max(float(self.redis.pttl(self.name)), 0) / 1000

    def reacquire(self) -> bool:
        """Let the hold last as long as `timeout` says, from now on."""
        self._needs_hold("acquired again")
        return self.extend(self.timeout or 0, replace_ttl=True)

    def locked(self) -> bool:
        """Whether anybody holds the key."""
        return self.redis.get(self.name) is not None

    def owned(self) -> bool:
        """Whether the hold of this lock is still the key's. Asks the server."""
        hold: Optional[_locks.Hold] = self.local.hold
        if hold is None or hold.lost:
            return False
        with _redis_errors(self.name):
            entries = self._lock.client.inspect(self._lock.name)
        return any(entry.token == hold.token and not entry.waits for entry in entries)

    @property
    def fencing_token(self) -> int:
        """The number of the hold; it only rises. Send it along with what you write. 0: not held."""
        hold: Optional[_locks.Hold] = self.local.hold
        return hold.token if hold is not None else 0

    def __enter__(self) -> Lock:
        if not self.acquire():
            raise _lock_error(self.name, f"{self.name!r} was not acquired within {self.blocking_timeout} s")
        return self

    def __exit__(
        self,
        kind: Optional[type],
        value: Optional[BaseException],
        traceback: Optional[types.TracebackType],
    ) -> None:
        try:
            self.release()
        except _exceptions.LockError:
            if self.raise_on_release_error:
                raise
