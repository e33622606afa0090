# SPDX-License-Identifier: Apache-2.0
"""FileLock and Timeout as the package filelock has them, on pawl. A PROGRAM THAT STILL USES FLOCK ON THE FILE IS NOT EXCLUDED: change all
programs that use it over at once.

    from pawl.compat.filelock import FileLock, Timeout

    with FileLock("data.json.lock", timeout=10):        # $PAWL_URL, else this machine
        ...

The path only names the lock: no file is made, opened or looked at. Two paths name the same lock if the real paths of their directories and
their last parts are equal. On a server the name is the same on all machines. Those who wait have their turns in order, and do not poll.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import threading
import time
import warnings
from typing import Any, ClassVar, Optional, Tuple, Type, Union
from weakref import WeakValueDictionary

from .. import _errors
from .._locks import Hold, Lock

_LOGGER = logging.getLogger("filelock")  # the name, and the texts, that programs know
_NAME_MAX = 255


class Timeout(_errors.Timeout):
    """Not acquired in time."""

    def __init__(self, lock_file: str) -> None:
        super().__init__(lock_file)
        self.lock_file = lock_file

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.lock_file,)

    def __str__(self) -> str:
        return f"The file lock '{self.lock_file}' could not be acquired."

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lock_file!r})"


class AcquireReturnProxy:
    """What acquire() returns: `with lock.acquire():` releases once, and does not acquire again."""

    def __init__(self, lock: FileLock) -> None:
        self.lock = lock

    def __enter__(self) -> FileLock:
        return self.lock

    def __exit__(self, *raised: Any) -> None:
        self.lock.__exit__(*raised)


class _Context:
    """What a thread holds by a FileLock, or, with thread_local=False, what all threads do."""

    def __init__(self) -> None:
        self.hold: Optional[Hold] = None
        self.count = 0
        self.entering = threading.RLock()  # by one that waits for the lock
        self.changing = threading.RLock()  # while hold and count change


class _LocalContext(_Context, threading.local):
    pass


class _Singletons(type):
    """With is_singleton=True a class has one object for a path."""

    _instances: WeakValueDictionary[str, Any]

    def __call__(cls, lock_file: Union[str, "os.PathLike[str]"], *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("is_singleton"):
            return super().__call__(lock_file, *args, **kwargs)
        found = cls._instances.get(str(lock_file))
        if found is None:
            cls._instances[str(lock_file)] = found = super().__call__(lock_file, *args, **kwargs)
            return found
        asked = dict(zip(("timeout", "mode", "thread_local"), args), **kwargs)
        has = dict(timeout=found.timeout, mode=found.mode, thread_local=found.is_thread_local(), blocking=found.blocking, url=found.url)
        default = dict(timeout=-1, mode=0o644, thread_local=True, blocking=True, url=None)
        differ = [f"{key} ({has[key]!r}, not {asked.get(key, default[key])!r})" for key in has if has[key] != asked.get(key, default[key])]
        if differ:
            raise ValueError(f"Singleton lock instances cannot be initialized with differing arguments: {', '.join(differ)}")
        return found


class FileLock(contextlib.ContextDecorator, metaclass=_Singletons):
    """filelock's FileLock on pawl. A thread may acquire it again; with `thread_local=False` every thread may, and any may release it.

    `timeout` (seconds) is how long an acquire waits, negative: for ever; then it raises Timeout. `url` says where the lock is; None:
    $PAWL_URL, else this machine. `mode` is kept, and means nothing: there is no file.
    """

    _instances: ClassVar[WeakValueDictionary[str, Any]] = WeakValueDictionary()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._instances = WeakValueDictionary()

    def __init__(
        self,
        lock_file: Union[str, "os.PathLike[str]"],
        timeout: float = -1,
        mode: int = 0o644,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        url: Optional[str] = None,
    ) -> None:
        self._lock_file = os.fspath(lock_file)
        self._timeout, self._mode, self._is_thread_local, self._is_singleton = timeout, mode, thread_local, is_singleton
        self.blocking = blocking
        self._url = url
        self._lock: Optional[Lock] = None
        self._context: _Context = _LocalContext() if thread_local else _Context()

    @property
    def lock_file(self) -> str:
        """The path, as it was given."""
        return self._lock_file

    @property
    def timeout(self) -> float:
        """How long an acquire waits that does not say; negative: for ever."""
        return self._timeout

    @timeout.setter
    def timeout(self, value: Union[float, str]) -> None:
        self._timeout = float(value)

    @property
    def mode(self) -> int:
        """As it was given. There is no file that has it."""
        return self._mode

    @property
    def url(self) -> Optional[str]:
        """Where the lock is, as it was given."""
        return self._url

    def is_thread_local(self) -> bool:
        """Whether each thread has holds of its own."""
        return self._is_thread_local

    @property
    def is_singleton(self) -> bool:
        """Whether the class has only this one for its path."""
        return self._is_singleton

    @property
    def is_locked(self) -> bool:
        """Whether this thread holds it through this object; with thread_local=False, whether any thread does."""
        return self._context.hold is not None

    @property
    def lock_counter(self) -> int:
        """How often it was acquired and not yet released."""
        return self._context.count

    @property
    def hold(self) -> Optional[Hold]:
        """pawl's hold, with its token, remaining and check(); None: not held."""
        return self._context.hold

    def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: float = 0.05,
        *,
        poll_intervall: Optional[float] = None,
        blocking: Optional[bool] = None,
    ) -> AcquireReturnProxy:
        """Acquire it, or once more. Not in time, or, without `blocking`, not at once: Timeout. The interval is not used: pawl waits."""
        if poll_intervall is not None:
            warnings.warn("use poll_interval instead of poll_intervall", DeprecationWarning, stacklevel=2)
        if timeout is None:
            timeout = self._timeout
        if not (self.blocking if blocking is None else blocking):
            timeout = 0
        self._enter(timeout)
        _LOGGER.debug("Lock %s acquired on %s", id(self), self._lock_file)
        return AcquireReturnProxy(self)

    def _enter(self, timeout: float) -> None:
        context = self._context
        until = time.monotonic() + timeout
        if not context.entering.acquire(timeout=min(timeout, threading.TIMEOUT_MAX) if timeout >= 0 else -1):
            raise Timeout(self._lock_file)
        try:
            with context.changing:
                if context.hold is not None:
                    context.hold.check()  # raises if it was lost, or is the parent's
                    context.count += 1
                    return
            _LOGGER.debug("Attempting to acquire lock %s on %s", id(self), self._lock_file)
            hold = self._named().hold(None if timeout < 0 else max(0.0, until - time.monotonic()))
            with context.changing:
                context.hold, context.count = hold, 1
        except _errors.Timeout as error:
            told = Timeout(self._lock_file)
            told.code = error.code
            raise told from error
        finally:
            context.entering.release()

    def _named(self) -> Lock:
        """The lock. A relative path counts from where the program is at the first acquire."""
        if self._lock is None:
            self._lock = Lock(_name(self._lock_file), url=self._url)
        return self._lock

    def release(self, force: bool = False) -> None:
        """Release it once; with `force` entirely. If it is not held, nothing happens. LostError: it was lost meanwhile, and is released."""
        context = self._context
        with context.changing:
            hold = context.hold
            if hold is None:
                return
            context.count -= 1
            if context.count > 0 and not force:
                return
            _LOGGER.debug("Attempting to release lock %s on %s", id(self), self._lock_file)
            context.hold, context.count = None, 0
            hold.release()
        _LOGGER.debug("Lock %s released on %s", id(self), self._lock_file)

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *unused: Any) -> None:
        try:
            self.release()
        except _errors.Error:
            if kind is None:
                raise

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            with contextlib.suppress(_errors.Error):
                self.release(force=True)

    def __repr__(self) -> str:
        return f"<pawl.compat.filelock.{type(self).__name__} {self._lock_file!r}{': locked' if self.is_locked else ''}>"


def _name(lock_file: str) -> str:
    """The lock's name: the path, or a digest of it where that is too long or has characters that a name may not have."""
    if "\0" in os.fsdecode(lock_file):
        raise ValueError("embedded null byte in the path of a lock")
    if not lock_file:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), lock_file)
    directory, last = os.path.split(os.fsdecode(lock_file))
    if not last or os.path.isdir(lock_file):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), lock_file)
    path = os.path.join(os.path.realpath(directory), last)
    name = f"filelock:{path}"
    if name.isprintable() and len(name.encode()) <= _NAME_MAX:
        return name
    return f"filelock:sha256:{hashlib.sha256(os.fsencode(path)).hexdigest()}"


__all__ = ["AcquireReturnProxy", "FileLock", "Timeout"]
