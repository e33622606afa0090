#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stock clients of a real ZooKeeper that are driven line by line: for the interop tests."""

import os
import queue
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "lab/servers"))
from launch import Missing, Servers, free_port  # noqa: E402,F401

JARS = "/usr/share/java"
PATIENCE = 60
SHORT_MS = 300  # long enough to see that nothing comes; too short would only miss a fault

children = []


def spawn(command, **how):
    """Start a process that ends with this one, also if that is killed."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], start_new_session=True, **how)
    children.append(process)
    return process


class Talker:
    """A process that answers lines."""

    def __init__(self, command, **how):
        self.lines = queue.Queue()
        self.process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def hear(self, seconds=PATIENCE):
        return self.lines.get(timeout=seconds)

    def is_silent(self):
        time.sleep(SHORT_MS / 1000)
        return self.lines.empty()

    def ask(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.hear()


class Peer(Talker):
    """A stock client of somebody else's."""

    def __init__(self, command):
        super().__init__(command)
        assert self.hear() == "ready"

    def starts(self, kind, path):
        assert self.ask(f"start {kind} {path}") == "ok"

    def gets(self, kind, path):
        return self.ask(f"acquire {kind} {path} {PATIENCE * 1000}") == "ok"

    def is_refused(self, kind, path):
        return self.ask(f"acquire {kind} {path} {SHORT_MS}") == "no"

    def lets_go(self, kind, path):
        assert self.ask(f"release {kind} {path}") == "ok"

    def is_granted(self, kind, path):
        return self.hear() == f"granted {kind} {path}"


def curator(server, directory):
    """How to run a Curator client; None: it is not on this machine."""
    names = ("curator-framework", "curator-recipes", "curator-client", "zookeeper", "guava", "slf4j-nop", "slf4j-api")
    jars = [f"{JARS}/{jar}.jar" for jar in names]
    if not all(map(os.path.exists, jars)) or not shutil.which("javac"):
        return None
    path = ":".join(jars)
    if not os.path.exists(f"{directory}/CuratorPeer.class"):
        subprocess.run(["javac", "-d", directory, "-cp", path, f"{HERE}/CuratorPeer.java"], check=True)
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{directory}:{path}", "CuratorPeer"]
    return Peer([*java, f"127.0.0.1:{server.port}"])


def kazoo(server):
    if subprocess.run(["/usr/bin/python3", "-c", "import kazoo"], stderr=subprocess.DEVNULL).returncode:
        return None
    return Peer(["/usr/bin/python3", f"{HERE}/kazoo_peer.py", f"127.0.0.1:{server.port}"])


def end_all():
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()
