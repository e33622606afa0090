# SPDX-License-Identifier: Apache-2.0
"""The examples run, and print what they say that they do; so do the ten lines of docs/python.md."""

from __future__ import annotations

import glob
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = sorted(glob.glob(os.path.join(HERE, "../examples/*.py")))


@pytest.mark.parametrize("path", EXAMPLES, ids=os.path.basename)
def test_example(local: str, path: str) -> None:
    with open(path, encoding="utf-8") as file:
        expected = [line[len("# prints: ") :] for line in file.read().splitlines() if line.startswith("# prints: ")]
    ended = subprocess.run([sys.executable, "-W", "error", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == expected


def test_there_are_some() -> None:
    assert EXAMPLES
