#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stock Kazoo client that does what its standard input says; the same commands as CuratorPeer.java, for KIND `mutex`."""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client = KazooClient(hosts=sys.argv[1])
client.start(timeout=60)
locks = {}
output = threading.Lock()


def say(text):
    with output:
        print(text, flush=True)


def lock_at(path):
    return locks.setdefault(path, client.Lock(path, "kazoo"))


def acquire(path, milliseconds):
    try:
        return "ok" if lock_at(path).acquire(timeout=milliseconds / 1000) else "no"
    except LockTimeout:
        return "no"


def start(path):
    def run():
        lock_at(path).acquire()
        say(f"granted mutex {path}")

    threading.Thread(target=run, daemon=True).start()
    return "ok"


def answer(words):
    if words[0] == "acquire":
        return acquire(words[2], int(words[3]))
    if words[0] == "release":
        lock_at(words[2]).release()
        return "ok"
    if words[0] == "start":
        return start(words[2])
    return "what?"


say("ready")
for line in sys.stdin:
    say(answer(line.split()))
client.stop()
