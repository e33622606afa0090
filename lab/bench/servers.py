# SPDX-License-Identifier: Apache-2.0
"""Servers for the benchmark: real ones, on loopback, on free ports, in a directory of their own, stopped by their process. Each
class says why it can't be started where it can't."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

JARS = "/usr/share/java"
PATIENCE_S = 90
started = []

# Whoever ends a run by a signal gets the clean-up of its end, too: else the servers would outlive it.
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: sys.exit(128 + number))


class Missing(Exception):
    """It is not on this machine; the text says what to install."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


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


class Redis:
    """Options are settings of redis-server, as on its command line."""

    def __init__(self, directory, *options, port=None, binary="redis-server"):
        if not shutil.which(binary):
            raise Missing(f"there is no {binary} (Debian: redis-server)")
        self.port = port or free_port()
        os.makedirs(directory, exist_ok=True)
        self.process = spawn(
            [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
            + ["--logfile", f"{directory}/log", "--enable-debug-command", "local", *options]
        )
        await_that(lambda: "PONG" in self.ask("PING"), "Redis")

    def ask(self, text):
        return talk(self.port, text.encode() + b"\r\n")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


class Cluster:
    """Redis Cluster: three primaries, the slots in equal parts."""

    SLOTS = 16384

    def __init__(self, directory, count=3):
        buses = [free_port() for _ in range(count)]
        self.nodes = [
            Redis(f"{directory}/{i}", "--cluster-enabled", "yes", "--cluster-port", str(bus)) for i, bus in enumerate(buses)
        ]
        for i, node in enumerate(self.nodes):
            node.ask(f"CLUSTER ADDSLOTSRANGE {self.SLOTS * i // count} {self.SLOTS * (i + 1) // count - 1}")
            node.ask(f"CLUSTER MEET 127.0.0.1 {self.nodes[0].port} {buses[0]}")
        for node in self.nodes:
            await_that(lambda node=node: "cluster_state:ok" in node.ask("CLUSTER INFO"), "a Redis Cluster")

    @property
    def address(self):
        return ",".join(node.address for node in self.nodes)


class Several:
    """So many Redis servers that know nothing of each other."""

    def __init__(self, directory, count=5):
        self.servers = [Redis(f"{directory}/{i}") for i in range(count)]

    @property
    def address(self):
        return ",".join(server.address for server in self.servers)


class ZooKeeper:
    """An ensemble of so many nodes."""

    def __init__(self, directory, count, tick_ms=500):
        if not os.path.exists(f"{JARS}/zookeeper.jar") or not shutil.which("java"):
            raise Missing("there is no ZooKeeper (Debian: zookeeper, default-jre-headless)")
        self.ports = [free_port() for _ in range(count)]
        members = [f"server.{i + 1}=127.0.0.1:{free_port()}:{free_port()}" for i in range(count)]
        self.processes = []
        for i, port in enumerate(self.ports):
            home = f"{directory}/{i + 1}"
            os.makedirs(f"{home}/data")
            with open(f"{home}/zoo.cfg", "w") as config:
                config.write(
                    f"tickTime={tick_ms}\ninitLimit=20\nsyncLimit=10\ndataDir={home}/data\nclientPort={port}\n"
                    "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
                )
                config.write("\n".join(members) + "\n" if count > 1 else "")
            with open(f"{home}/data/myid", "w") as file:
                file.write(f"{i + 1}\n")
            self.processes.append(self.start(home))
        for port in self.ports:
            await_that(lambda port=port: "Mode:" in talk(port, b"srvr"), "ZooKeeper")

    @staticmethod
    def start(home):
        path = ":".join(f"{JARS}/{jar}.jar" for jar in ("zookeeper", "slf4j-nop", "slf4j-api"))
        return spawn(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Dzookeeper.jmx.log4j.disable=true"]
            + ["-Dzookeeper.preAllocSize=1024", "-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{home}/zoo.cfg"]
        )

    def leader(self):
        """Which node leads; None: none does now."""
        for i, port in enumerate(self.ports):
            try:
                if "Mode: leader" in talk(port, b"srvr"):
                    return i
            except OSError:
                pass
        return None

    @property
    def address(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)


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
