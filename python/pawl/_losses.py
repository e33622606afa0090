# SPDX-License-Identifier: Apache-2.0
"""Telling a program that a hold was lost. The library's own thread only takes a note (loss.c); a thread of ours reads the notes and calls
what the program gave as on_loss. It is started with the first lock that has one."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
import weakref
from typing import Callable, Optional

from . import _errors, _pawl

OnLoss = Callable[[_errors.LostError], object]


class Told:
    """One that is told of losses."""

    on_loss: Optional[OnLoss] = None


_numbers = itertools.count(1)
_wanted: weakref.WeakValueDictionary[int, Told] = weakref.WeakValueDictionary()
_thread: Optional[threading.Thread] = None
_starting = threading.Lock()
_STOP_S = 2.0


def want(told: Told) -> int:
    """The number under which its losses are noted; 0: it does not ask."""
    if told.on_loss is None:
        return 0
    if not callable(told.on_loss):
        raise TypeError(f"on_loss is a function, not {told.on_loss!r}")
    number = next(_numbers)
    _wanted[number] = told
    _start()
    return number


def _start() -> None:
    global _thread
    with _starting:
        if _thread is None or not _thread.is_alive():
            thread = threading.Thread(target=_tell, name="pawl-losses", daemon=True)
            thread.start()
            _thread = thread


def _tell() -> None:
    while True:
        notes = _pawl.losses()
        if not notes:
            return
        for number, token, code, text in notes:
            told = _wanted.get(number)
            if told is not None and told.on_loss is not None:
                _call(told.on_loss, token, code, text)
            del told  # it may be gone before the next loss comes


def _call(on_loss: OnLoss, token: int, code: int, text: str) -> None:
    error = _errors.make(code, text)
    assert isinstance(error, _errors.LostError)
    error.token = token
    try:
        on_loss(error)
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _stop() -> None:
    if _thread is not None:
        _pawl.losses_stop()
        _thread.join(_STOP_S)  # a function that never returns does not keep the program from ending


def _after_fork() -> None:
    """The thread is the parent's; a child that has locks with on_loss needs one of its own."""
    global _thread, _starting
    _starting = threading.Lock()
    _thread = None
    if _wanted:
        _start()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_stop)
