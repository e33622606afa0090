#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long job that stops when its hold is lost. Here an operator breaks it: `pawl break` would do the same."""

import threading

import pawl

stop = threading.Event()


def lost(error: pawl.LostError) -> None:  # on a thread of pawl's own
    print(f"told: {error.reason}")
    stop.set()


try:
    with pawl.Lock("job", on_loss=lost) as lock:
        lock.check()  # raises LostError if it was lost; asks the clock, not the server
        pawl.break_("job", lock.token)
        stop.wait()
except pawl.LostError:  # the body raised nothing; the end of `with` says that the work was not protected to its end
    print("lost")

# prints: told: broken
# prints: lost
