# SPDX-License-Identifier: Apache-2.0
"""Servers for the benchmark: real ones, on loopback, on free ports, in a directory of their own. Each says why it can't be started where
it can't."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "servers"))
from launch import Missing, Servers, free_port  # noqa: E402,F401

PATIENCE_S = 90
started, launched = [], []

# A run that a signal ends cleans up, too: else the servers would outlive it.
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: sys.exit(128 + number))


def spawn(command, **how):
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    started.append(process)
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def end_all():
    for process in started:
        if process.poll() is None:
            kill(process)
    for several in launched:
        several.end()
    started.clear()
    launched.clear()


def await_that(true, what):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if true():
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"{what} does not serve")


def talk(port, text):
    """Send, and read until the other side closes or has sent a line."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(text)
        data = b""
        while piece := connection.recv(65536):
            data += piece
            if text.endswith(b"\r\n") and data.endswith(b"\r\n"):
                break
        return data.decode()


class Launched(Servers):
    def __init__(self, kind, **options):
        super().__init__(kind, **options)
        launched.append(self)


class Redis(Launched):
    """`lines`: of its configuration."""

    def __init__(self, *lines):
        super().__init__("redis", line=["enable-debug-command local", *lines])

    def ask(self, text):
        return talk(self.port, text.encode() + b"\r\n")


class Cluster(Launched):
    """Redis Cluster: three primaries, the slots in equal parts."""

    def __init__(self):
        super().__init__("cluster-bare", line=["enable-debug-command local"])


class Several(Launched):
    """Five Redis servers that know nothing of each other."""

    def __init__(self):
        super().__init__("redlock", line=["enable-debug-command local"])


class ZooKeeper(Launched):
    """One node, or an ensemble of three. What runs for long is worth compiling well."""

    def __init__(self, count):
        super().__init__("zookeeper" if count == 1 else f"zookeeper{count}", java=["-XX:TieredStopAtLevel=4"])

    def leader(self):
        """Which node leads; None: none does now."""
        for i, port in enumerate(self.ports):
            try:
                if "Mode: leader" in talk(port, b"srvr"):
                    return i
            except OSError:
                pass
        return None


class Etcd:
    def __init__(self, directory):
        if not shutil.which("etcd"):
            raise Missing("there is no etcd (Debian: etcd-server)")
        self.port, peer = free_port(), f"http://127.0.0.1:{free_port()}"
        client = f"http://127.0.0.1:{self.port}"
        self.process = spawn(
            ["etcd", "--data-dir", directory, "--listen-client-urls", client, "--advertise-client-urls", client]
            + ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        )
        await_that(lambda: "etcdserver" in talk(self.port, b"GET /version HTTP/1.0\r\n\r\n"), "etcd")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"
