# SPDX-License-Identifier: Apache-2.0
"""Every code of pawl.h has its class, and what is raised is of use to a program."""

from __future__ import annotations

import pickle

import pytest
from conftest import run

import pawl
from pawl import _errors

CLASSES = {
    pawl.Timeout: (TimeoutError, "EHELD ETIMEOUT"),
    pawl.LostError: (pawl.Error, "ELOST EBROKEN EEXPIRED"),
    pawl.DeadlockError: (RuntimeError, "EDEADLK"),
    pawl.NotHeldError: (RuntimeError, "ENOTHELD ENOTOWNER"),
    pawl.ClosedError: (pawl.Error, "ECLOSED ECANCELED"),
    pawl.ForkedError: (pawl.Error, "EFORKED"),
    pawl.ConnectionLost: (ConnectionError, "ECONNLOST EUNKNOWN"),
    pawl.MismatchError: (pawl.Error, "EKIND ELIMIT"),
    pawl.ArgumentError: (ValueError, "EINVAL ENAME EURL EOPTION EDURATION EPERMITS ETOOLARGE EENGINE"),
    pawl.SystemFailure: (OSError, "ESYSTEM EACCES ENOSPACE EFILESYSTEM"),
    pawl.EngineError: (pawl.Error, "EBUSY ETOKEN EFORMAT EVERSION EFULL EGONE EUNSUPPORTED EOVERFLOW EREPLICAS ETOPOLOGY EORPHAN"),
    MemoryError: (MemoryError, "ENOMEM"),
}


def test_every_code_has_its_class() -> None:
    expected = {name: (kind, base) for kind, (base, names) in CLASSES.items() for name in names.split()}
    assert set(expected) == {name[len("PAWL_") :] for name, _ in _errors.CODES.values()}
    for number, (name, meaning) in _errors.CODES.items():
        error = _errors.make(number, meaning)
        kind, base = expected[name[len("PAWL_") :]]
        assert type(error) is kind and isinstance(error, base)
        assert str(error) == meaning
        if isinstance(error, pawl.Error):
            assert (error.code, error.name) == (number, name)


@pytest.mark.parametrize("code", _errors.CODES)
def test_an_error_can_travel(code: int) -> None:
    error = _errors.make(code, "why")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == "why"
    assert getattr(again, "code", 0) == getattr(error, "code", 0)


def test_why_a_hold_was_lost() -> None:
    reasons = {"PAWL_EBROKEN": "broken", "PAWL_EEXPIRED": "expired", "PAWL_ELOST": "lost"}
    for name, reason in reasons.items():
        error = _errors.make(_errors.NUMBERS[name], "")
        assert isinstance(error, pawl.LostError) and error.reason == reason


def test_errors_of_arguments(local: str) -> None:
    for name, url in [("", local), ("a\n", local), ("a", "no such URL"), ("a", "nowhere:"), ("a", "")]:
        with pytest.raises(pawl.ArgumentError) as caught:
            pawl.Lock(name, url=url).acquire()
        assert isinstance(caught.value, ValueError) and str(caught.value)
    with pytest.raises(pawl.ArgumentError):
        pawl.Semaphore("a", 0).acquire()
    with pytest.raises(TypeError):
        pawl.Lock("a", url=local, client=pawl.Client(local))
    with pytest.raises(TypeError):
        pawl.Lock("a", on_loss=3)  # type: ignore[arg-type]
    for timeout in [-2, float("nan"), "soon"]:
        with pytest.raises((ValueError, TypeError)):
            pawl.Lock("a").acquire(timeout=timeout)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        pawl.Lock("a").acquire(False, 3)


def test_the_error_of_opening_is_raised_when_others_may_open() -> None:
    """Python may run anything then, a signal handler that uses the same client for one."""
    script = """
import pawl
from pawl import _errors
make, calls = _errors.make, []

def make_and_open(code, text):
    calls.append(code)
    if len(calls) == 1:
        try:
            client.open()
        except pawl.ArgumentError:
            print("again")
    return make(code, text)

_errors.make = make_and_open
client = pawl.Client("nonsense:")
try:
    client.open()
except pawl.ArgumentError:
    print("refused")
"""
    ended = run(script)
    assert (ended.stdout, ended.stderr) == ("again\nrefused\n", "")
