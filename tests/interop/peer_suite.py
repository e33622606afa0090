# SPDX-License-Identifier: Apache-2.0
"""What the runners of peers' own tests share: the peer's sources, libpawl through ctypes, and TAP."""

import ctypes
import os
import signal
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../lab/bench/peers"))
import pypi  # noqa: E402

BUILD = os.environ.get("BUILD_DIR", os.path.join(HERE, "../../build"))
TEST_S = 60


def fetch(name, sha256):
    """The directory of the sources NAME (kazoo-2.10.0). Raises OSError."""
    directory = os.path.join(BUILD, "interop", name)
    if not os.path.isdir(directory):
        archive = pypi.fetch(f"{name}.tar.gz", sha256, os.path.join(BUILD, "interop"))
        with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
            with tarfile.open(archive) as files:
                files.extractall(scratch)
            os.rename(os.path.join(scratch, name), directory)
    return directory


# ---- libpawl ----

PAWL_FOREVER, PAWL_TASK = 2**63 - 1, 1
EHELD, ETIMEOUT, ECANCELED, ENOTHELD, ELOST, ELIMIT = -10, -11, -14, -17, -19, -21
HELD, LOST = 1, 3  # of enum pawl_state


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("flags", ctypes.c_uint), ("lease_ms", ctypes.c_int64), ("label", ctypes.c_char_p)]
    _fields_ += [("command", ctypes.c_char_p), ("log", ctypes.c_void_p), ("log_data", ctypes.c_void_p), ("max_hold_ms", ctypes.c_int64)]


class Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("mode", ctypes.c_int), ("flags", ctypes.c_uint)]
    _fields_ += [("position", ctypes.c_uint), ("permits", ctypes.c_uint), ("limit", ctypes.c_uint), ("token", ctypes.c_uint64)]
    _fields_ += [("host", ctypes.c_char_p), ("pid", ctypes.c_int64), ("command", ctypes.c_char_p), ("label", ctypes.c_char_p)]


VISIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Entry), ctypes.c_void_p)


def load():
    return ctypes.CDLL(os.path.join(BUILD, "src/libpawl.so"))


def call(function, *arguments):
    """Returns the code; a failure that no test can mean is an exception."""
    error = Error()
    code = function(*arguments, ctypes.byref(error))
    if code < 0 and code not in (EHELD, ETIMEOUT, ECANCELED, ENOTHELD, ELOST, ELIMIT):
        raise RuntimeError(error.text.decode())
    return code


def entries(libpawl, client, name):
    """Who holds NAME and who waits for it: labels and positions."""
    found = []

    def visit(entry, _):
        found.append((entry[0].label.decode(), entry[0].position))
        return 0

    call(libpawl.pawl_inspect, client, name, VISIT(visit), None)
    return found


# ---- TAP ----


def too_long(*_):
    raise TimeoutError(f"not within {TEST_S} s")


def play(tests, not_pawls):
    """TESTS are pairs of a name and a function that says what failed, a list of texts. NOT_PAWLS are not played, and said why. Returns the
    exit status."""
    signal.signal(signal.SIGALRM, too_long)
    failed = number = 0
    for name, run in tests:
        why = not_pawls.get(name.rsplit(".", 1)[-1])
        if why:
            print(f"# {name} does not apply: {why}", flush=True)
            continue
        number += 1
        signal.alarm(TEST_S)
        failures = run()
        signal.alarm(0)
        for text in failures:
            print("".join(f"# {line}\n" for line in text.splitlines()), end="")
        failed += bool(failures)
        print(f"{'not ' if failures else ''}ok {number} - {name}", flush=True)
    print(f"1..{number}", flush=True)
    return 1 if failed else 0
