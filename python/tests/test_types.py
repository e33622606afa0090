# SPDX-License-Identifier: Apache-2.0
"""The types are true: mypy --strict over the package, its examples and its tests; stubtest over what the extension has."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import List

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


def check(command: List[str], directory: str) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]} (Debian: mypy)")
    # A preloaded sanitizer is not for mypy.
    env = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "PYTHONMALLOC")}
    env["MYPYPATH"] = env["PYTHONPATH"]
    ended = subprocess.run(command, cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, ended.stdout


def test_mypy(tmp_path: str) -> None:
    package = os.path.join(os.environ["PYTHONPATH"], "pawl")
    check(["mypy", "--strict", f"--cache-dir={tmp_path}", package, "../examples", "."], HERE)


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="stubtest imports the extension, which has a sanitizer here")
def test_stubs() -> None:
    check(["stubtest", "pawl._pawl"], os.environ["PYTHONPATH"])
