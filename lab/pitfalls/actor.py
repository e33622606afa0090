#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A process of its own that does what it is told, line by line, and says what came of it: so that it can be killed and stopped like a
program that uses a lock.

    actor.py pawl URL LEASE_MS      acquire NAME TIMEOUT_MS | release NAME | state NAME | write NAME TEXT
    actor.py queue URL LEASE_MS NAME   join COUNT: so many threads ask for it | release: who holds, if any of them does
    actor.py redis PORT             any Redis command
    actor.py zookeeper PORT         create PATH [ephemeral] [sequence]
"""

import sys
import threading

import raw
from built import pawl


def client_of(url, lease_ms):
    return pawl.Client(url, lease=int(lease_ms) / 1000 or None, label="pitfalls")


def acquire(lock, timeout_ms):
    """'held TOKEN', or the name of the error."""
    if lock.acquire(timeout=timeout_ms / 1000):
        return f"held {lock.token}"
    return "ETIMEOUT" if timeout_ms else "EHELD"


def locks(url, lease_ms):
    client, made = client_of(url, lease_ms), {}

    def do(verb, name, *rest):
        lock = made.setdefault(name, pawl.Lock(name, client=client))
        try:
            if verb == "acquire":
                return acquire(lock, int(rest[0]))
            if verb == "release":
                lock.release()
                return "released"
            if verb == "write":
                lock.value = rest[0].encode()
                return "written"
        except pawl.Error as error:
            return error.name.removeprefix("PAWL_")
        return lock.state.name.lower().replace("_", " ")

    return do


class Queue:
    """Threads that wait for one lock. Who holds it keeps it until it is told to release."""

    def __init__(self, url, lease_ms, name):
        self.client, self.name = client_of(url, lease_ms), name
        self.holding, self.leave, self.left = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def wait(self):
        lock = pawl.Lock(self.name, client=self.client)
        lock.acquire()
        self.holding.set()
        self.leave.acquire()
        self.holding.clear()
        lock.release()
        self.left.release()

    def do(self, verb, *count):
        if verb == "join":
            for _ in range(int(count[0])):
                threading.Thread(target=self.wait, daemon=True).start()
            return "joined"
        if not self.holding.is_set():
            return "none"
        self.leave.release()
        self.left.acquire()
        return "released"


def redis(port):
    return raw.Redis(int(port)).do


def zookeeper(port):
    client = raw.ZooKeeper(int(port))
    return lambda verb, path, *how: client.create(path, "ephemeral" in how, "sequence" in how)


def main():
    kind, *rest = sys.argv[1:]
    do = {"pawl": locks, "queue": lambda *how: Queue(*how).do, "redis": redis, "zookeeper": zookeeper}[kind](*rest)
    print("ready", flush=True)
    for line in sys.stdin:
        print(do(*line.split()), flush=True)


main()
