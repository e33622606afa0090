# SPDX-License-Identifier: Apache-2.0
"""The workloads of README.md for a lock of Python's: each client is a process of its own, so that none waits for another's interpreter.

A peer gives open(name) -> (acquire, release, close)."""

import json
import mmap
import multiprocessing
import os
import struct
import sys
import threading
import time
import zipfile

import pypi

WAIT, WARM, COUNT, STOP = range(4)
# Byte 0: the phase. 8: the owner; 16: when it was released; 24: changes of owner. Written by who holds. 64 and on: who waits.
OWNER, RELEASED, CHANGES, WAITING = 8, 16, 24, 64


class Board:
    def __init__(self):
        self.memory = mmap.mmap(-1, 4096)

    def get(self, at):
        return struct.unpack_from("q", self.memory, at)[0]

    def put(self, at, value):
        struct.pack_into("q", self.memory, at, value)

    @property
    def phase(self):
        return self.memory[0]

    def set_phase(self, phase):
        self.memory[0] = phase


def tell(rate, times=()):
    times = sorted(times)
    answer = {"rate": rate}
    if times:
        for key, share in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)):
            answer[key] = times[min(len(times) - 1, int(len(times) * share))] / 1000
    return answer


def alone(open_lock, ms):
    acquire, release, close = open_lock("pawl-bench-peer-alone")
    times = []
    end = time.monotonic() + ms / 4000
    while time.monotonic() < end:
        acquire()
        release()
    begin = now = time.perf_counter_ns()
    while now < begin + ms * 1000000:
        before = now
        acquire()
        release()
        now = time.perf_counter_ns()
        times.append(now - before)
    close()
    return tell(len(times) * 1e9 / (now - begin), times)


def contend(open_lock, board, number, ready, result):
    acquire, release, close = open_lock("pawl-bench-peer-turns")
    times = []
    ready.release()
    while board.phase == WAIT:
        time.sleep(0.001)
    while board.phase != STOP:
        board.memory[WAITING + number] = 1
        acquire()
        board.memory[WAITING + number] = 0
        now, released = time.monotonic_ns(), board.get(RELEASED)
        if board.get(OWNER) != number + 1:
            board.put(OWNER, number + 1)
            board.put(CHANGES, board.get(CHANGES) + 1)
            if released and board.phase == COUNT:
                times.append(now - released)
        while not any(board.memory[WAITING : WAITING + 256]) and board.phase != STOP:
            os.sched_yield()
        board.put(RELEASED, time.monotonic_ns())
        release()
    result.put(times)
    close()


def turns(open_lock, number, ms):
    board, ready, result = Board(), multiprocessing.Semaphore(0), multiprocessing.SimpleQueue()
    workers = [multiprocessing.Process(target=contend, args=(open_lock, board, i, ready, result), daemon=True) for i in range(number)]
    for process in workers:
        process.start()
    if not all(ready.acquire(timeout=60) for _ in workers):
        for process in workers:  # else they would wait for ever, beside all that is measured later
            process.kill()
            process.join()
        return {"missing": "not all clients could be opened"}
    board.set_phase(WARM)
    time.sleep(ms / 4000)
    changes, begin = board.get(CHANGES), time.monotonic()
    board.set_phase(COUNT)
    time.sleep(ms / 1000)
    rate = (board.get(CHANGES) - changes) / (time.monotonic() - begin)
    board.set_phase(STOP)
    times = [one for _ in workers for one in result.get()]
    for process in workers:
        process.join()
    return tell(rate, times)


def threads(open_lock, number, ms):
    acquire, release, close = open_lock("pawl-bench-peer-threads")
    holds, stop = [0] * number, threading.Event()

    def loop(i):
        while not stop.is_set():
            acquire()
            holds[i] += 1
            release()

    workers = [threading.Thread(target=loop, args=(i,)) for i in range(number)]
    for thread in workers:
        thread.start()
    time.sleep(ms / 4000)
    before, begin = sum(holds), time.monotonic()
    time.sleep(ms / 1000)
    rate = (sum(holds) - before) / (time.monotonic() - begin)
    stop.set()
    for thread in workers:
        thread.join()
    close()
    return tell(rate)


def answer(open_lock, words, without):
    if words[0] in without:
        return {"missing": without[words[0]]}
    if words[0] == "alone":
        return alone(open_lock, int(words[1]))
    if words[0] == "turns":
        return turns(open_lock, int(words[1]), int(words[2]))
    if words[0] == "threads":
        return threads(open_lock, int(words[1]), int(words[2]))
    return {"missing": "it knows no such workload"}


def say(document):
    print(json.dumps(document), flush=True)


def missing(peer, why):
    say({"peer": peer, "missing": why})
    sys.exit(0)


def choose(peer, wheel, sha256):
    """Have the library imported from this wheel of PyPI; with a second argument `debian`, as it is installed."""
    if sys.argv[2:] == ["debian"]:
        return
    build = os.environ.get("BUILD_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../build")
    directory = os.path.join(build, "bench-peers", wheel.removesuffix(".whl"))
    try:
        if not os.path.isdir(directory):
            # Not from the wheel itself: processes that were forked would read one file by one position.
            with zipfile.ZipFile(pypi.fetch(wheel, sha256, os.path.dirname(directory))) as files:
                files.extractall(directory + ".new")
            os.rename(directory + ".new", directory)
    except OSError as error:
        missing(peer, f"{peer} can't be fetched: {error}")
    sys.path.insert(0, directory)


def run(peer, version, open_lock, clean, without=None):
    """Serve standard input. `without`: workloads that it can't do, and why."""
    multiprocessing.set_start_method("fork")
    say({"peer": peer, "version": version})
    for line in sys.stdin:
        try:
            say(answer(open_lock, line.split(), without or {}))
        except Exception as error:  # one workload that fails must not end the others
            say({"missing": f"{type(error).__name__}: {error}"})
    clean()
