#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight jobs, three at a time, that write in turn. A lock that is handed to another process is the same lock there."""

import multiprocessing
from typing import List

import pawl

downloads = pawl.Semaphore("downloads", 3)
catalogue = pawl.RWLock("catalogue")


def work(number: int) -> int:
    with downloads:
        pass  # fetch something
    with catalogue.write() as writing:
        return writing.token  # each is higher than all before


def run() -> List[int]:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        return pool.map(work, range(8))


if __name__ == "__main__":
    print(sorted(run()))
    with pawl.all_of(catalogue.read(), downloads.permits(2), timeout=10) as both:
        print("several at once:", len(both.tokens))

# prints: [1, 2, 3, 4, 5, 6, 7, 8]
# prints: several at once: 2
