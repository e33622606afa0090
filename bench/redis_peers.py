#!/usr/bin/python3
"""Owner changes per second of redis-py's Lock, hold 0: redis_peers.py PORT. To be compared with bench-redis in the same run only."""

import sys
import threading
import time

import redis

PORT, SECONDS = int(sys.argv[1]), 3


def measure(count):
    state = {"owner": None, "changes": 0, "acquired": 0}
    stop = time.monotonic() + SECONDS

    def contend(number):
        lock = redis.Redis(port=PORT).lock(f"bench:peer:{count}", timeout=10, sleep=0.1)
        while time.monotonic() < stop:
            if not lock.acquire(blocking_timeout=SECONDS):
                continue
            state["acquired"] += 1
            state["changes"] += state["owner"] != number
            state["owner"] = number
            lock.release()

    threads = [threading.Thread(target=contend, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes, acquired = state["changes"] / SECONDS, state["acquired"] / SECONDS
    print(f"redis-py, {count:3} clients     {changes:.0f} owner changes/s ({acquired:.0f} acquisitions/s)")


for contenders in (2, 16, 64):
    measure(contenders)
