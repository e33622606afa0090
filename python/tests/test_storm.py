# SPDX-License-Identifier: Apache-2.0
"""Cancellations at any moment; storm.py is the program."""

from __future__ import annotations

import gc
import os

import pytest
from storm import storm


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.long)])
def test_storm_of_cancellations(url: str, seconds: float) -> None:
    storm(url, 0)
    before = descriptors()
    _, cancels = storm(url, seconds)
    assert cancels > 0
    assert descriptors() <= before
