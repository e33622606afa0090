# SPDX-License-Identifier: Apache-2.0
"""Telling a program that a hold was lost, and what the library has to log. The library's own threads only take a note (loss.c); a thread of
ours reads the notes and calls what the program gave as on_loss or log. It is started with the first that is given."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import sys
import threading
import weakref
from typing import Callable, Optional

from . import _errors, _pawl

OnLoss = Callable[[_errors.LostError], object]
Log = Callable[[int, str], object]


class Told:
    """One that is told of losses, or what is logged."""

    on_loss: Optional[OnLoss] = None
    log: Optional[Log] = None


_LEVELS = (logging.WARNING, logging.DEBUG)  # by enum pawl_log_level


_numbers = itertools.count(1)
_wanted: weakref.WeakValueDictionary[int, Told] = weakref.WeakValueDictionary()
_thread: Optional[threading.Thread] = None
_starting = threading.Lock()
_STOP_S = 2.0


def want(told: Told) -> int:
    """The number under which what concerns it is noted; 0: it does not ask."""
    for word, function in (("on_loss", told.on_loss), ("log", told.log)):
        if function is not None and not callable(function):
            raise TypeError(f"{word} is a function, not {function!r}")
    if told.on_loss is None and told.log is None:
        return 0
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
            if told is not None and code < 0 and told.on_loss is not None:
                _call(told.on_loss, _lost(token, code, text))
            elif told is not None and code >= 0 and told.log is not None:
                _call(told.log, _LEVELS[code], text)
            del told  # it may be gone before the next loss comes


def _lost(token: int, code: int, text: str) -> _errors.LostError:
    error = _errors.make(code, text)
    assert isinstance(error, _errors.LostError)
    error.token = token
    return error


def _call(function: Callable[..., object], *arguments: object) -> None:
    try:
        function(*arguments)
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def catch_up() -> None:
    """Wait until all that was noted so far has been told; not for long, and not in the thread that tells."""
    if _thread is None or threading.current_thread() is _thread:
        return
    done, mark = threading.Event(), Told()
    mark.log = lambda level, text: done.set()
    _pawl.losses_mark(want(mark))
    done.wait(_STOP_S)


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
