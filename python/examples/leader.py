#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of several leads, and each of them knows who. To run a program only on the leader, `pawl elect` is enough."""

import threading

import pawl

led = threading.Event()


def observed(seen: pawl.Observed) -> None:  # on a thread of pawl's own: what is, and then every change
    if seen.holders_value is not None:  # never that of a former leader
        print(f"led by {seen.holders_value.data.decode()}")
        led.set()


with pawl.observe("web", observed), pawl.Lock("web") as lock:
    lock.value = b"north:8080"  # refused as soon as the term is over
    led.wait()
    print(f"{lock.remaining > 1}: there is time for a step of less than a second, in term {lock.token}")

# prints: led by north:8080
# prints: True: there is time for a step of less than a second, in term 1
