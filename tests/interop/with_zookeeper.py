#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a command with HOST:PORT of a ZooKeeper of its own as the last argument, and the server's pid in $ZOOKEEPER_PID:
with_zookeeper.py COMMAND [ARGUMENT]... It listens at $ZOOKEEPER_ADDRESS (127.0.0.1)."""

import os
import shutil
import subprocess
import sys
import tempfile

from zookeeper_peers import Server, end_all

directory = tempfile.mkdtemp(prefix="pawl-zookeeper-")
try:
    address = os.environ.get("ZOOKEEPER_ADDRESS", "127.0.0.1")
    server = Server(directory, address)
    env = dict(os.environ, ZOOKEEPER_PID=str(server.process.pid))
    place = f"[{address}]" if ":" in address else address
    # Whatever descriptors the caller gave it are the command's, too.
    status = subprocess.run([*sys.argv[1:], f"{place}:{server.port}"], env=env, close_fds=False).returncode
finally:
    end_all()
    shutil.rmtree(directory, ignore_errors=True)
sys.exit(status)
