#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""redis-py's own tests of its Lock, played on pawl with ?layout=plain: what its users rely on must hold for a pawl in the same place.
Prints TAP.

The tests come from redis-py's source archive, which is fetched; where it can't be, that is a skip. They are run as they are, with its own
client to look at the keys. Only Lock is another: a client of libpawl's, through ctypes, with redis-py's manners: an object is held once,
and a wait that would be over before the next look is none. What does not apply is named in NOT_PAWLS, with the reason."""

import ctypes
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer_suite  # noqa: E402
from peer_suite import ELOST, ENOTHELD, HELD, PAWL_FOREVER, PAWL_TASK, Options, call  # noqa: E402
from zookeeper_peers import free_port  # noqa: E402

SOURCES = (
    "redis-4.6.0",
    "73/88/63d802c2b18dd9eaa5b846cbf18917c6b2882f20efda398cc16a7500b02c",
    "585dc516b9eb042a619ef0a39c3d7d55fe81bdb4df09a52c9cdde0d07bf1aa7d",
)
RENEWS = "pawl renews a hold by itself: there is nothing to prolong"
NOT_PAWLS = {
    "test_lock": "a key of pawl's always has an end: its lease, which is renewed",
    "test_lock_token": "pawl makes its owners' names itself",
    "test_lock_token_thread_local_false": "pawl makes its owners' names itself",
    "test_blocking_timeout": "measures to 50 ms, and wants less than the time-out; the contract's tests have time-outs",
    "test_context_manager_blocking_timeout": "measures to 50 ms, and wants less than the time-out; the contract's tests have time-outs",
    "test_extend_lock": RENEWS,
    "test_extend_lock_replace_ttl": RENEWS,
    "test_extend_lock_float": RENEWS,
    "test_extending_unlocked_lock_raises_error": RENEWS,
    "test_extending_lock_with_no_timeout_raises_error": RENEWS,
    "test_extending_lock_no_longer_owned_raises_error": RENEWS,
    "test_reacquire_lock": RENEWS,
    "test_reacquiring_unlocked_lock_raises_error": RENEWS,
    "test_reacquiring_lock_with_no_timeout_raises_error": RENEWS,
    "test_reacquiring_lock_no_longer_owned_raises_error": RENEWS,
    "test_context_manager_reacquiring_lock_with_no_timeout_raises_error": RENEWS,
    "test_lock_class_argument": "no lock is taken in it",
}
port = free_port()
libpawl = None  # loaded by main()


class Stand:
    """In the place of redis-py's Lock."""

    open = []

    def __init__(self, redis, name, timeout=None, sleep=0.1, blocking=True, blocking_timeout=None, thread_local=True):
        self.redis, self.name, self.sleep, self.blocking, self.patience = redis, name, sleep, blocking, blocking_timeout
        self.local = types.SimpleNamespace(token=None)
        self.pawl, self.lock = ctypes.c_void_p(), ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), lease_ms=int((timeout or 0) * 1000))
        call(libpawl.pawl_open, f"redis://127.0.0.1:{port}?layout=plain".encode(), ctypes.byref(options), ctypes.byref(self.pawl))
        call(libpawl.pawl_mutex_new, self.pawl, name.encode(), PAWL_TASK, ctypes.byref(self.lock))
        self.open.append(self)

    def acquire(self, blocking=None, blocking_timeout=None):
        blocking = self.blocking if blocking is None else blocking
        patience = self.patience if blocking_timeout is None else blocking_timeout
        if patience is not None and self.sleep > patience:
            blocking = False
        wait_ms = 0 if not blocking else PAWL_FOREVER if patience is None else int(patience * 1000)
        if call(libpawl.pawl_acquire, self.lock, ctypes.c_int64(wait_ms)) < 0:
            return False
        self.local.token = self.redis.get(self.name)
        return True

    def release(self):
        from redis.exceptions import LockError, LockNotOwnedError

        code = call(libpawl.pawl_release, self.lock)
        self.local.token = None
        if code == ENOTHELD:
            raise LockError("not held")
        if code == ELOST:
            raise LockNotOwnedError("lost")

    def locked(self):
        return any(position == 0 for _, position in peer_suite.entries(libpawl, self.pawl, self.name.encode()))

    def owned(self):
        return libpawl.pawl_state(self.lock) == HELD

    def __enter__(self):
        from redis.exceptions import LockError

        if not self.acquire():
            raise LockError("not acquired")
        return self

    def __exit__(self, *_):
        self.release()

    @classmethod
    def close_all(cls):
        for stand in cls.open:
            libpawl.pawl_close(stand.pawl)
            libpawl.pawl_lock_free(stand.lock)
        cls.open.clear()


def load_tests(directory):
    """The module of the tests, with what it imports."""
    import redis.lock

    redis.lock.Lock = Stand
    package, conftest, pytest = (types.ModuleType(name) for name in ("peer", "peer.conftest", "pytest"))
    package.__path__, conftest._get_client = [], None
    pytest.fixture, pytest.raises = lambda: lambda function: function, unittest.TestCase().assertRaises
    sys.modules.update({"peer": package, "peer.conftest": conftest, "pytest": pytest})
    spec = importlib.util.spec_from_file_location("peer.test_lock", os.path.join(directory, "tests/test_lock.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(case, method):
    import redis

    clients = {"r": redis.Redis(port=port), "r_decoded": redis.Redis(port=port, decode_responses=True)}
    clients["r"].flushall()
    try:
        method(case, **{name: clients[name] for name in inspect.signature(method).parameters if name != "self"})
    except Exception:  # of any kind: the test has failed
        return [traceback.format_exc()]
    finally:
        Stand.close_all()
    return []


def start_server(directory):
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory],
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout == b"PONG\n":
            return server
        time.sleep(0.05)
    raise OSError("no redis-server could be started")


def main():
    global libpawl
    if not shutil.which("redis-server"):
        print("1..0 # SKIP there is no redis-server (Debian: redis-server)")
        return 0
    try:
        directory = peer_suite.fetch(*SOURCES)
        sys.path.insert(0, directory)
        module = load_tests(directory)
    except (OSError, ImportError) as error:
        print(f"1..0 # SKIP redis-py's tests can't be fetched: {error}")
        return 0
    libpawl = peer_suite.load()
    with tempfile.TemporaryDirectory() as scratch:
        server = start_server(scratch)
        tests = []
        for case in (module.TestLock, module.TestLockClassSelection):
            for name, method in vars(case).items():
                if name.startswith("test_"):
                    tests.append((f"{case.__name__}.{name}", lambda case=case, method=method: run(case(), method)))
        status = peer_suite.play(tests, NOT_PAWLS)
        server.terminate()
        server.wait()
    return status


sys.exit(main())
