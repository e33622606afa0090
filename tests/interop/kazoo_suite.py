#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kazoo's own tests of its locks, played on pawl: what its users rely on must hold for a pawl in the same place. Prints TAP.

The tests come from Kazoo's source archive, which is fetched; where it can't be, that is a skip. They are run as they are. Only the classes
that they test stand in for Kazoo's here: a Lock, ReadLock, WriteLock or Semaphore of a client is a client of libpawl's, through ctypes,
with Kazoo's manners: an object is held once, by any thread, and does not enter twice. All connections of a Kazoo client's locks go
through a way of their own, so that a session can be made to expire. What does not apply is named in NOT_PAWLS, with the reason."""

import ctypes
import os
import socket
import sys
import threading
import time
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer_suite  # noqa: E402
from peer_suite import ECANCELED, ELIMIT, ETIMEOUT, LOST, PAWL_FOREVER, PAWL_TASK, TEST_S, Options, call  # noqa: E402
from zookeeper_peers import Missing, Servers, end_all, free_port  # noqa: E402

SOURCES = ("kazoo-2.10.0", "905796ae4f4c12bd4e4ae92e6e5d018439e6b56c8cfbb24825362e79b230dab1")
SESSION_MS = 2000
NOT_PAWLS = {
    "test_lock_ephemeral": "a lock of pawl's ends with its session; it has none that stay",
    "test_inconsistent_max_leases_other_data": "pawl asks for one limit; a semaphore with two is refused (PAWL_ELIMIT)",
    "test_get_predecessor": "Kazoo's own function, not what a user sees",
    "test_get_predecessor_go": "Kazoo's own function, not what a user sees",
}


libpawl = None  # loaded by main()


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
        return peer_suite.entries(libpawl, self.pawl, self.name)

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


def run(test):
    result = unittest.TestResult()
    test.run(result)
    return [why for _, why in result.failures + result.errors]


def main():
    global libpawl
    try:
        sys.path.insert(0, peer_suite.fetch(*SOURCES))
    except OSError as error:
        print(f"1..0 # SKIP Kazoo's tests can't be fetched: {error}")
        return 0
    try:
        server = Servers("zookeeper")
    except Missing as missing:
        print(f"1..0 # SKIP {missing}")
        return 0
    libpawl = peer_suite.load()
    try:
        sys.modules["kazoo.testing"] = types.SimpleNamespace(KazooTestCase=case_class(server))
        sys.modules["pytest"] = types.SimpleNamespace(raises=unittest.TestCase().assertRaises)
        from kazoo.tests import test_lock

        test_lock.threading = types.SimpleNamespace(**{**vars(threading), "Thread": InOrder})
        tests = [test for cases in unittest.defaultTestLoader.loadTestsFromModule(test_lock) for test in cases]
        status = peer_suite.play([(".".join(test.id().rsplit(".", 2)[-2:]), lambda test=test: run(test)) for test in tests], NOT_PAWLS)
    finally:
        end_all()
    os._exit(status)  # threads that a failed test has left waiting end, too


sys.exit(main())
