# SPDX-License-Identifier: Apache-2.0
"""@pawl.exclusive: a function that runs once at a time, over all processes."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, TypeVar, Union, cast

from . import _errors, _losses, aio
from ._locks import Lock

Function = TypeVar("Function", bound=Callable[..., Any])

_RAISE: Any = object()


def exclusive(
    name: Union[str, Callable[..., str]],
    *,
    url: Optional[str] = None,
    blocking: bool = True,
    timeout: Optional[float] = None,
    max_hold: Optional[float] = None,
    on_loss: Optional[_losses.OnLoss] = None,
    otherwise: Any = _RAISE,
) -> Callable[[Function], Function]:
    """Let a function, `def` or `async def`, run only while it holds the lock.

    `name` may use the arguments: "report-{day}", "report-{0}", or a function of them. A call that does not get the lock in time, or, with
    `blocking=False`, at once, returns `otherwise`; if that is not given it raises Timeout.
    """
    if not blocking and timeout is not None:
        raise ValueError("an acquire that does not block has no timeout")
    options = dict(url=url, timeout=timeout if blocking else 0, max_hold=max_hold, on_loss=on_loss)

    def decorate(function: Function) -> Function:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator runs after its call has returned: hold the lock inside it")
        name_of = _naming(name, function)

        def call(*args: Any, **kwargs: Any) -> Any:
            lock = Lock(name_of(*args, **kwargs), **cast(Any, options))
            try:
                lock.__enter__()
            except _errors.Timeout:
                if otherwise is _RAISE:
                    raise
                return otherwise
            with _Entered(lock):
                return function(*args, **kwargs)

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            lock = aio.Lock(name_of(*args, **kwargs), **cast(Any, {k: v for k, v in options.items() if v is not None}))
            try:
                await lock.__aenter__()
            except _errors.Timeout:
                if otherwise is _RAISE:
                    raise
                return otherwise
            async with _EnteredAsync(lock):
                return await function(*args, **kwargs)

        wrapper = call_async if inspect.iscoroutinefunction(function) else call
        return cast(Function, functools.wraps(function)(wrapper))

    return decorate


class _Entered:
    """The second half of a `with`: a Timeout of the body is not one of the lock."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> Any:
        return self.lock.__exit__(*raised)


class _EnteredAsync:
    def __init__(self, lock: Any) -> None:
        self.lock = lock

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *raised: Any) -> Any:
        return await self.lock.__aexit__(*raised)


def _naming(name: Union[str, Callable[..., str]], function: Callable[..., Any]) -> Callable[..., str]:
    """What gives a call its name. Parameters are known by their names, however they were passed."""
    if callable(name):
        return name
    text = name
    if "{" not in text:
        return lambda *args, **kwargs: text
    signature = inspect.signature(function)

    def fill_in(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return text.format(*bound.args, **bound.arguments)

    return fill_in
