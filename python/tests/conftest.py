# SPDX-License-Identifier: Apache-2.0
"""What the tests share: TAP, servers, and a URL of their own for every test."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, TypeVar

import pytest

import pawl

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lab/servers"))
import launch  # type: ignore[import] # noqa: E402

Result = TypeVar("Result")
KINDS = {"redis": "redis", "zk": "zookeeper"}  # as pawl-servers calls them
ENGINES = ["local", "redis", "zk"]


# ---- TAP -------------------------------------------------------------------------------------------------------------------------------


class Tap:
    """One line a test, for tools/run-tests. What failed is told by pytest, before the line."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.count = stream, 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            if report.when == "teardown" and report.outcome == "skipped":
                return
            self.count += 1
            reason = report.longrepr[2] if report.outcome == "skipped" else ""
            told = f" # SKIP {reason.replace('Skipped: ', '')}" if reason else ""
            if report.outcome == "failed":
                print(*(f"# {line}" for line in str(report.longrepr).splitlines()), sep="\n", file=self.stream)
            print(f"{'not ok' if report.outcome == 'failed' else 'ok'} {self.count} - {report.nodeid}{told}", file=self.stream, flush=True)

    def pytest_sessionfinish(self) -> None:
        print(f"1..{self.count}", file=self.stream, flush=True)


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--long", action="store_true", help="run what takes long, too")


@pytest.hookimpl(trylast=True)  # type: ignore[misc]
def pytest_configure(config: Any) -> None:
    if not sys.stdout.isatty():
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)
        config.pluginmanager.register(Tap(sys.__stdout__))


def pytest_collection_modifyitems(config: Any, items: List[Any]) -> None:
    if not config.getoption("--long"):
        items[:] = [item for item in items if "long" not in item.keywords]
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        for item in items:
            if "forks" in item.keywords:
                item.add_marker(pytest.mark.skip("AddressSanitizer's allocator may stay locked in a child of a process with threads"))


# ---- None takes for ever ---------------------------------------------------------------------------------------------------------------

LIMIT_S, LONG_LIMIT_S, END_LIMIT_S = 150, 290, 60


def end_in(seconds: float) -> None:
    """Show all stacks then, and end the program; Python's global lock is not needed for it."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)


@pytest.hookimpl(hookwrapper=True)  # type: ignore[misc]
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    end_in(LONG_LIMIT_S if "long" in item.keywords else LIMIT_S)
    yield
    end_in(END_LIMIT_S)  # also after the last one, while Python waits for threads and processes that are left


# ---- Other threads ---------------------------------------------------------------------------------------------------------------------


def elsewhere(function: Callable[[], Result]) -> Result:
    """What it says in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def is_free(part: pawl.Part) -> bool:
    """Whether another thread could take it now."""

    def attempt() -> bool:
        if not part.acquire(blocking=False):
            return False
        part.release()
        return True

    return elsewhere(attempt)


# ---- Other processes -------------------------------------------------------------------------------------------------------------------


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a program that is all on its own, in a minute at most."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


# ---- Where the locks are ---------------------------------------------------------------------------------------------------------------


class Servers:
    """Each kind is started when it is first asked for, and ends with the tests."""

    def __init__(self) -> None:
        self.started: Dict[str, Any] = {}

    def url(self, engine: str) -> str:
        if engine not in self.started:
            try:
                self.started[engine] = launch.Servers(KINDS[engine])
            except launch.Missing as why:
                pytest.skip(str(why))
        return str(self.started[engine].url)

    def stop(self) -> None:
        for server in self.started.values():
            server.end()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    started = Servers()
    yield started
    started.stop()


@pytest.fixture
def local(tmp_path: Any, monkeypatch: Any) -> str:
    """A table of locks of the test's own, on this machine; also what is used where no URL is given."""
    url = f"local:{tmp_path}/locks"
    monkeypatch.setenv("PAWL_URL", url)
    return url


@pytest.fixture(params=ENGINES)
def engine(request: Any) -> str:
    if request.param not in pawl.engines():
        pytest.skip(f"{request.param} is not in this build")
    return str(request.param)


@pytest.fixture
def url(engine: str, servers: Servers, local: str) -> str:
    """A URL of each engine in turn."""
    return local if engine == "local" else servers.url(engine)


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return uuid.uuid4().hex
