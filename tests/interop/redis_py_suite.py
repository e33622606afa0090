#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""redis-py's own tests of its Lock, played on pawl.compat.redis.Lock: what its users rely on must hold for a pawl in the same place.
Prints TAP.

The tests come from redis-py's source archive, which is fetched; where it can't be, that is a skip. They are run as they are, with its own
client to look at the keys. What can't pass is named in KNOWN, with the reason; the list may only shrink, so one of these that passes is a
failure."""

import importlib.util
import inspect
import os
import sys
import traceback
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer_suite  # noqa: E402
from zookeeper_peers import Missing, Servers  # noqa: E402

SOURCES = ("redis-6.4.0", "b01bc7282b8444e28ec36b261df5375183bb47a07eb9c603f284e89cbc5ef010")
KNOWN = {
    "test_lock": "a key of pawl's always has an end: its lease, which is renewed",
    "test_lock_token": "pawl names its owners itself, so that no two are alike",
    "test_lock_token_thread_local_false": "pawl names its owners itself, so that no two are alike",
}
TIMED = "measures to 50 ms, which a machine with other work need not keep; the contract's tests have time-outs"
NOT_PLAYED = {"test_blocking_timeout": TIMED, "test_context_manager_blocking_timeout": TIMED}


def load_tests(directory):
    """The module of the tests, with what it imports."""
    import redis.lock

    import pawl

    redis.lock.Lock = pawl.compat.redis.Lock
    package, conftest, pytest = (types.ModuleType(name) for name in ("peer", "peer.conftest", "pytest"))
    package.__path__, conftest._get_client = [], None
    pytest.fixture, pytest.raises = lambda: lambda function: function, unittest.TestCase().assertRaises
    pytest.fail = unittest.TestCase().fail
    sys.modules.update({"peer": package, "peer.conftest": conftest, "pytest": pytest})
    spec = importlib.util.spec_from_file_location("peer.test_lock", os.path.join(directory, "tests/test_lock.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(case, name, method, port):
    """What failed, a list of texts."""
    failures = run_alone(case, method, port)
    if name not in KNOWN:
        return failures
    return [] if failures else [f"{name} passes: take it out of KNOWN"]


def run_alone(case, method, port):
    import redis
    from pawl._clients import client_for
    from pawl.compat.redis import url_of

    clients = {"r": redis.Redis(port=port), "r_decoded": redis.Redis(port=port, decode_responses=True)}
    clients["r"].flushall()
    try:
        method(case, **{name: clients[name] for name in inspect.signature(method).parameters if name != "self"})
    except Exception:  # of any kind: the test has failed
        return [traceback.format_exc()]
    finally:
        client_for(url_of(clients["r"]), None).close()  # a test that fails may not have released
        for client in clients.values():
            client.close()
    return []


def main():
    try:
        directory = peer_suite.fetch(*SOURCES)
        sys.path[:0] = [directory, os.path.join(peer_suite.BUILD, "python")]
        module = load_tests(directory)
    except (OSError, ImportError) as error:
        print(f"1..0 # SKIP redis-py's tests can't be fetched, or the package pawl is not built: {error}")
        return 0
    try:
        server = Servers("redis")
    except Missing as missing:
        print(f"1..0 # SKIP {missing}")
        return 0
    tests = []
    for case in (module.TestLock, module.TestLockClassSelection):
        for name, method in vars(case).items():
            if name.startswith("test_"):
                play = lambda case=case, name=name, method=method: run(case(), name, method, server.port)  # noqa: E731
                tests.append((f"{case.__name__}.{name}", play))
    status = peer_suite.play(tests, NOT_PLAYED)
    server.end()
    return status


sys.exit(main())
