# SPDX-License-Identifier: Apache-2.0
"""Tasks that take turns at a lock and are cancelled at any moment: never two inside, and nothing is left behind.

    PYTHONPATH=build/python python3 python/tests/storm.py --time 30 [URL]...
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import time
import uuid
from typing import List, Tuple

from pawl import aio

TASKS = 40


class Storm:
    """One lock, and what happens at it."""

    def __init__(self, url: str, seed: int) -> None:
        self.lock = aio.Lock(uuid.uuid4().hex, url=url)
        self.url, self.random = url, random.Random(seed)
        self.inside = self.holds = self.cancels = 0
        self.last = 0

    async def work(self) -> None:
        async with self.lock as hold:
            self.inside += 1
            try:
                assert self.inside == 1, "LOCK VIOLATED: two are inside"
                assert hold.token > self.last, "a token has fallen"
                self.last = hold.token
                self.holds += 1
                if self.random.random() < 0.5:
                    await asyncio.sleep(self.random.random() * 0.002)
            finally:
                self.inside -= 1

    async def blow(self, until: float, least: int) -> None:
        """Cancel one after the other, until it is time and so many holds were had."""
        tasks: List[asyncio.Task[None]] = []
        while time.monotonic() < until or self.holds < least:
            tasks += [asyncio.ensure_future(self.work()) for _ in range(TASKS - len(tasks))]
            await asyncio.sleep(self.random.random() * 0.004)
            for task in self.random.sample(tasks, len(tasks) // 2):
                self.cancels += task.cancel()
            ended = [task for task in tasks if task.done()]
            for task in ended:
                if not task.cancelled():
                    task.result()
            tasks = [task for task in tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self, seconds: float, least: int) -> None:
        await self.blow(time.monotonic() + seconds, least)
        async with aio.Lock(self.lock.name, url=self.url, timeout=30):  # it is free
            pass
        client = aio._client_for(self.url, None)
        gc.collect()
        assert not client._holds and not self.lock._entered, "something was left behind"
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, client.inspect, self.lock.name):
            await asyncio.sleep(0.01)


def storm(url: str, seconds: float, least: int = 20, seed: int = 1) -> Tuple[int, int]:
    """Returns how many held, and how many were cancelled."""
    one = Storm(url, seed)
    asyncio.run(asyncio.wait_for(one.run(seconds, least), seconds + 120))
    return one.holds, one.cancels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("url", nargs="*", default=["local:"])
    arguments = parser.parse_args()
    for url in arguments.url:
        holds, cancels = storm(url, arguments.time, seed=arguments.seed)
        print(f"{url}: {holds} holds, {cancels} cancellations, never two inside, nothing left")


if __name__ == "__main__":
    main()
