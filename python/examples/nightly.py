#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""At most one of these runs at a time, over all machines that share $PAWL_URL. Without one: on this machine."""

import sys

import pawl


def backup(token: int) -> None:
    print(f"backing up, with token {token}")


try:
    with pawl.Lock("nightly", timeout=0) as lock:
        backup(lock.token)  # send it along with what you write: it only rises
except pawl.Timeout:
    sys.exit("another backup is running")

# prints: backing up, with token 1
