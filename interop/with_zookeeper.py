#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a command with HOST:PORT of a ZooKeeper of its own as the last argument, and the server's pid in $ZOOKEEPER_PID:
with_zookeeper.py COMMAND [ARGUMENT]..."""

import os
import shutil
import subprocess
import sys
import tempfile

from zookeeper_peers import Server, end_all

directory = tempfile.mkdtemp(prefix="pawl-zookeeper-")
try:
    server = Server(directory)
    env = dict(os.environ, ZOOKEEPER_PID=str(server.process.pid))
    # Whatever descriptors the caller gave it are the command's, too.
    status = subprocess.run([*sys.argv[1:], f"127.0.0.1:{server.port}"], env=env, close_fds=False).returncode
finally:
    end_all()
    shutil.rmtree(directory, ignore_errors=True)
sys.exit(status)
