#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a command with HOST:PORT of a ZooKeeper of its own as the last argument: with_zookeeper.py COMMAND [ARGUMENT]..."""

import shutil
import subprocess
import sys
import tempfile

from zookeeper_peers import Server, end_all

directory = tempfile.mkdtemp(prefix="pawl-zookeeper-")
try:
    server = Server(directory)
    status = subprocess.run([*sys.argv[1:], f"127.0.0.1:{server.port}"]).returncode
finally:
    end_all()
    shutil.rmtree(directory, ignore_errors=True)
sys.exit(status)
