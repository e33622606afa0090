# SPDX-License-Identifier: Apache-2.0
"""Run bench-redlock (redlock.c) on several servers, the last of which is stopped half way through."""

import json
import os
import signal
import subprocess

PATIENCE_S = 120


def measure(program, several, rounds):
    """What it printed: {"servers": "all", "trip": us, "default": {"acquire": us, ...}, ...}, the same with one stopped, and both
    with servers that are 2 ms away."""
    last = several.pids[-1]
    command = [program, str(rounds), str(last), *map(str, several.ports)]
    try:
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S).stdout
    finally:
        os.kill(last, signal.SIGCONT)  # also if the program failed
    return [json.loads(line) for line in output.splitlines()]
