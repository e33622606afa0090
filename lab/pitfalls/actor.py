#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A process of its own that does what it is told, line by line, and says what came of it: so that it can be killed and stopped like a
program that uses a lock.

    actor.py pawl URL LEASE_MS      acquire NAME TIMEOUT_MS | release NAME | state NAME
    actor.py redis PORT             any Redis command
    actor.py zookeeper PORT         create PATH [ephemeral] [sequence]
"""

import sys

import libpawl
import raw


def pawl(url, lease_ms):
    client = libpawl.Client(url, int(lease_ms))
    locks = {}

    def do(verb, name, *rest):
        lock = locks.setdefault(name, client.mutex(name))
        if verb == "acquire":
            return lock.acquire(int(rest[0]))
        return lock.release() if verb == "release" else lock.state()

    return do


def redis(port):
    return raw.Redis(int(port)).do


def zookeeper(port):
    client = raw.ZooKeeper(int(port))
    return lambda verb, path, *how: client.create(path, "ephemeral" in how, "sequence" in how)


def main():
    kind, *rest = sys.argv[1:]
    do = {"pawl": pawl, "redis": redis, "zookeeper": zookeeper}[kind](*rest)
    print("ready", flush=True)
    for line in sys.stdin:
        print(do(*line.split()), flush=True)


main()
