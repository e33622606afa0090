#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kazoo's own tests of its locks, played on pawl: what its users rely on must hold for a pawl in the same place. Prints TAP.

The tests come from Kazoo's source archive, which is fetched; where it can't be, that is a skip. They are run as they are. Only the classes
that they test stand in for Kazoo's here: a Lock, ReadLock, WriteLock or Semaphore of a client is a client of libpawl's, through ctypes,
with Kazoo's manners: an object is held once, by whatever thread, and does not enter twice. All connections of a Kazoo client's locks go
through a way of their own, so that a session can be made to expire. What does not apply is named in NOT_PAWLS, with the reason."""

import ctypes
import hashlib
import io
import os
import signal
import socket
import sys
import tarfile
import tempfile
import threading
import time
import types
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from zookeeper_peers import Missing, Servers, end_all, free_port  # noqa: E402

BUILD = os.environ.get("BUILD_DIR", os.path.join(HERE, "../build"))
VERSION = "2.10.0"
ADDRESS = (
    "https://files.pythonhosted.org/packages/ff/01/75d0baf017c89de8909e4429a1865a17e45d9b787ce8084a2c55c95a79c9/"
    f"kazoo-{VERSION}.tar.gz"
)
SHA256 = "905796ae4f4c12bd4e4ae92e6e5d018439e6b56c8cfbb24825362e79b230dab1"
SESSION_MS, TEST_S = 2000, 60
NOT_PAWLS = {
    "test_lock_ephemeral": "a lock of pawl's ends with its session; it has none that stay",
    "test_inconsistent_max_leases_other_data": "pawl asks for one limit; a semaphore with two is refused (PAWL_ELIMIT)",
    "test_get_predecessor": "Kazoo's own function, not what a user sees",
    "test_get_predecessor_go": "Kazoo's own function, not what a user sees",
}


def fetch():
    """The directory of Kazoo's sources. Raises OSError."""
    directory = os.path.join(BUILD, "interop", f"kazoo-{VERSION}")
    if not os.path.isdir(directory):
        with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
            data = answer.read()
        if hashlib.sha256(data).hexdigest() != SHA256:
            raise OSError("it is not the archive that was meant")
        with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
            tarfile.open(fileobj=io.BytesIO(data)).extractall(scratch)
            os.makedirs(os.path.dirname(directory), exist_ok=True)
            os.rename(os.path.join(scratch, f"kazoo-{VERSION}"), directory)
    return directory


class Way:
    """To the server, until it is cut."""

    def __init__(self, target):
        self.target, self.port, self.open, self.sockets = target, free_port(), True, set()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here = self.listener.accept()[0]
                there = socket.create_connection(("127.0.0.1", self.target)) if self.open else None
            except OSError:
                return
            if there is None:
                here.close()
                continue
            self.sockets |= {here, there}
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        self.end(source, target)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self, seconds):
        self.open = False
        self.end(*self.sockets)
        time.sleep(seconds)
        self.open = True


# ---- libpawl ----

PAWL_FOREVER, PAWL_TASK = 2**63 - 1, 1
EHELD, ETIMEOUT, ECANCELED, ENOTHELD, ELOST, ELIMIT = -10, -11, -14, -17, -19, -21
LOST = 3  # of enum pawl_state


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
libpawl = None  # loaded by main()


def call(function, *arguments):
    """Returns the code; whatever else goes wrong than a test can mean is an exception."""
    error = Error()
    code = function(*arguments, ctypes.byref(error))
    if code < 0 and code not in (EHELD, ETIMEOUT, ECANCELED, ENOTHELD, ELOST, ELIMIT):
        raise RuntimeError(error.text.decode())
    return code


class Stand:
    """What Kazoo's locks have in common."""

    shared = False

    def __init__(self, client, path, identifier=None, *_, **__):
        self.client, self.name, self.label = client, path.lstrip("/").encode(), identifier or ""
        self.local, self.is_acquired, self.cancelled = threading.Lock(), False, False
        self.wake_event = threading.Event()
        self.pawl, self.lock = ctypes.c_void_p(), ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), label=self.label.encode())
        url = f"zk://127.0.0.1:{client.way.port}/suite?session={SESSION_MS}"
        call(libpawl.pawl_open, url.encode(), ctypes.byref(options), ctypes.byref(self.pawl))
        self.make()
        client.stands.append(self)

    def acquire(self, blocking=True, timeout=None, ephemeral=True):
        from kazoo.exceptions import CancelledError, LockTimeout

        self.cancelled = False
        if not self.local.acquire(blocking, -1 if timeout is None or not blocking else timeout):
            return False
        try:
            if self.is_acquired:
                return self.twice()
            wait_ms = 0 if not blocking else PAWL_FOREVER if timeout is None else int(timeout * 1000)
            acquire = libpawl.pawl_acquire_shared if self.shared else libpawl.pawl_acquire
            code = call(acquire, self.lock, ctypes.c_int64(wait_ms))
            self.is_acquired = code == 0
        finally:
            if not self.is_acquired:
                self.local.release()
        if code == ETIMEOUT:
            raise LockTimeout(f"not within {timeout} seconds")
        if code == ECANCELED:
            raise CancelledError()
        if code == ELIMIT:
            raise ValueError("inconsistent max leases")
        return self.is_acquired

    def release(self):
        if not self.is_acquired:
            return False
        self.is_acquired = False
        code = call(libpawl.pawl_release_shared if self.shared else libpawl.pawl_release, self.lock)
        self.local.release()
        return code == 0

    def cancel(self):
        self.cancelled = True
        libpawl.pawl_cancel(self.lock)

    def entries(self):
        found = []

        def visit(entry, _):
            found.append((entry[0].label.decode(), entry[0].position))
            return 0

        call(libpawl.pawl_inspect, self.pawl, self.name, VISIT(visit), None)
        return found

    def contenders(self):
        return [label for label, _ in self.entries()]

    def lease_holders(self):
        return [label for label, position in self.entries() if position == 0]

    def close(self):
        libpawl.pawl_close(self.pawl)
        libpawl.pawl_lock_free(self.lock)

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()


class Mutex(Stand):
    def make(self):
        call(libpawl.pawl_mutex_new, self.pawl, self.name, PAWL_TASK, ctypes.byref(self.lock))

    @staticmethod
    def twice():
        return False


class Write(Mutex):
    def make(self):
        call(libpawl.pawl_rwlock_new, self.pawl, self.name, PAWL_TASK, ctypes.byref(self.lock))


class Read(Write):
    shared = True


class Semaphore(Stand):
    def __init__(self, client, path, identifier=None, max_leases=1):
        self.limit = max_leases
        super().__init__(client, path, identifier)

    def make(self):
        call(libpawl.pawl_semaphore_new, self.pawl, self.name, self.limit, PAWL_TASK, ctypes.byref(self.lock))

    def acquire(self, *arguments, **named):
        return True if self.is_acquired else super().acquire(*arguments, **named)


# ---- What the tests import ----


def case_class(server):
    from kazoo.client import KazooClient

    class Client(KazooClient):
        """A stock client, but for its locks."""

        def __init__(self):
            super().__init__(hosts=f"127.0.0.1:{server.port}")
            self.way, self.stands = Way(server.port), []
            for name, stand in (("Lock", Mutex), ("ReadLock", Read), ("WriteLock", Write), ("Semaphore", Semaphore)):
                setattr(self, name, lambda *arguments, stand=stand, **named: stand(self, *arguments, **named))

        def stop(self):
            for stand in self.stands:
                stand.close()
            self.stands.clear()
            super().stop()

    class Case(unittest.TestCase):
        def setUp(self):
            self.clients = []
            self.client = self._get_client()
            self.client.start()

        def _get_client(self):
            self.clients.append(Client())
            return self.clients[-1]

        def expire_session(self, _):
            for stand in self.client.stands:
                stand.wake_event.set()
            self.client.way.cut(SESSION_MS / 1000 * 1.5)
            kept = [stand for stand in self.client.stands if stand.is_acquired and libpawl.pawl_state(stand.lock) != LOST]
            assert not kept, "a session was to expire, and did not"

        def tearDown(self):
            for client in self.clients:
                client.stop()

    return Case


class InOrder(threading.Thread):
    """Started when it stands in line, or has ended: a test that starts two of them means them to come in this order."""

    def start(self):
        stands = [argument for argument in self._args if isinstance(argument, Stand)]
        super().start()
        end = time.monotonic() + TEST_S / 2
        while stands and self.is_alive() and time.monotonic() < end:
            if stands[0].is_acquired or stands[0].label in stands[0].contenders():
                return
            time.sleep(0.01)


def too_long(*_):
    raise TimeoutError(f"not within {TEST_S} s")


def play(suite):
    signal.signal(signal.SIGALRM, too_long)
    tests = [test for cases in suite for test in cases]
    failed = 0
    for number, test in enumerate(tests, 1):
        name = test.id().rsplit(".", 2)[-2:]
        if name[1] in NOT_PAWLS:
            print(f"ok {number} - {'.'.join(name)} # SKIP {NOT_PAWLS[name[1]]}", flush=True)
            continue
        result = unittest.TestResult()
        signal.alarm(TEST_S)
        test.run(result)
        signal.alarm(0)
        for _, why in result.failures + result.errors:
            print("".join(f"# {line}\n" for line in why.splitlines()), end="")
        failed += not result.wasSuccessful()
        print(f"{'' if result.wasSuccessful() else 'not '}ok {number} - {'.'.join(name)}", flush=True)
    print(f"1..{len(tests)}")
    return 1 if failed else 0


def main():
    global libpawl
    try:
        sys.path.insert(0, fetch())
    except OSError as error:
        print(f"1..0 # SKIP Kazoo's tests can't be fetched: {error}")
        return 0
    try:
        server = Servers("zookeeper")
    except Missing as missing:
        print(f"1..0 # SKIP {missing}")
        return 0
    libpawl = ctypes.CDLL(os.path.join(BUILD, "src/libpawl.so"))
    try:
        sys.modules["kazoo.testing"] = types.SimpleNamespace(KazooTestCase=case_class(server))
        sys.modules["pytest"] = types.SimpleNamespace(raises=unittest.TestCase().assertRaises)
        from kazoo.tests import test_lock

        test_lock.threading = types.SimpleNamespace(**{**vars(threading), "Thread": InOrder})
        status = play(unittest.defaultTestLoader.loadTestsFromModule(test_lock))
        sys.stdout.flush()
    finally:
        end_all()
    os._exit(status)  # whatever a test that failed has left waiting


sys.exit(main())
