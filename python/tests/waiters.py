# SPDX-License-Identifier: Apache-2.0
"""Wait until others have come to a lock's queue, or have left it."""

from __future__ import annotations

import threading
import time
from typing import Callable

import pawl

PATIENCE_S = 60.0


def wait_for_queue(name: str, url: str, is_so: Callable[[int], bool]) -> None:
    """Wait until it is so of the number of those who hold the lock or wait for it."""
    end = time.monotonic() + PATIENCE_S
    with pawl.Client(url) as client:
        while not is_so(len(client.inspect(name))):
            if time.monotonic() > end:
                raise TimeoutError(f"{name}: the queue has {len(client.inspect(name))}")
            time.sleep(0.001)


def when_queued(name: str, url: str, count: int, act: Callable[[], None]) -> threading.Thread:
    """Act, in a thread, once so many hold the lock or wait for it; or after a minute, so that nobody waits for ever."""

    def watch() -> None:
        try:
            wait_for_queue(name, url, lambda queued: queued >= count)
        finally:
            act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def wait_until_left(name: str, url: str, count: int) -> None:
    """Wait until no more than so many hold the lock or wait for it: who gives up leaves in the background."""
    wait_for_queue(name, url, lambda queued: queued <= count)
