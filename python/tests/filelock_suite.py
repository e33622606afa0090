# SPDX-License-Identifier: Apache-2.0
"""For pytest (-p filelock_suite): filelock's own tests, with pawl's FileLock and Timeout in the place of filelock's. What became of each
test goes as JSON to $FILELOCK_RESULTS."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Dict, Iterator, List
from unittest import mock

import pytest

import pawl

filelock: Any = importlib.import_module("filelock")
filelock.FileLock, filelock.Timeout = pawl.compat.filelock.FileLock, pawl.compat.filelock.Timeout
results: Dict[str, str] = {}


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "timeout: of a package that need not be there")


def pytest_collection_modifyitems(items: List[Any]) -> None:
    """Not the half that is the same for filelock's SoftFileLock."""
    items[:] = [item for item in items if "[SoftFileLock" not in item.name and "SoftFileLock]" not in item.name]


class Mocker:
    """As much of pytest-mock as the tests use."""

    def __init__(self) -> None:
        self.started: List[Any] = []

    def patch(self, target: str, **options: Any) -> None:
        self.started.append(mock.patch(target, **options))
        self.started[-1].start()


@pytest.fixture
def mocker() -> Iterator[Mocker]:
    made = Mocker()
    yield made
    for patch in made.started:
        patch.stop()


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        results[report.nodeid.split("::", 1)[1]] = report.outcome


def pytest_sessionfinish() -> None:
    with open(os.environ["FILELOCK_RESULTS"], "w", encoding="utf-8") as out:
        json.dump(results, out)
