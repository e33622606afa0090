# SPDX-License-Identifier: Apache-2.0
"""The stage on which the pitfalls are played: servers of their own, processes that do what they are told, and a report.

Nothing here sleeps and hopes. What must come is waited for: an answer, the end of a process, or until() a question to the server has the
answer that it must have, with patience for a slow machine and no longer.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import raw

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60
JARS = [f"/usr/share/java/{name}.jar" for name in ("zookeeper", "slf4j-log4j12", "log4j-1.2")]


class Missing(Exception):
    """A server that this machine does not have."""


def until(question, what):
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise RuntimeError(f"it never happened: {what}")
        time.sleep(0.005)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Report:
    """Prints the traces and adds up the verdicts. On a terminal in colour; with `tap` as TAP, the traces as comments."""

    def __init__(self, tap):
        self.tap, self.colour = tap, sys.stdout.isatty() and not tap and not os.environ.get("NO_COLOR")
        self.count, self.failed, self.start = 0, [], 0

    def paint(self, code, text):
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def line(self, text="", code=None):
        text = self.paint(code, text) if code else text
        print(("# " if self.tap and text else "") + text, flush=True)

    def title(self, number, title, chinese, section):
        self.line()
        self.line(f"{number}. {title}  {chinese}", "1")
        self.line(f"   {section}", "2")
        self.start = time.monotonic()

    def side(self, text):
        self.line(f"   {text}", "4")

    def step(self, who, text):
        self.line(f"   {(time.monotonic() - self.start) * 1000:7.0f} ms  {who:<10} {text}")

    def verdict(self, name, as_expected, text):
        """`as_expected`: the broken one broke, or pawl held."""
        self.count += 1
        if not as_expected:
            self.failed.append(name)
        self.line(f"   => {text}" + ("" if as_expected else "   THAT IS NOT WHAT MUST HAPPEN"), "32" if as_expected else "1;31")
        if self.tap:
            print(f"{'ok' if as_expected else 'not ok'} {self.count} - {name}: {text}", flush=True)

    def skip(self, name, reason):
        self.count += 1
        self.line(f"   left out: {reason}", "33")
        if self.tap:
            print(f"ok {self.count} - {name} # SKIP {reason}", flush=True)

    def end(self):
        self.line()
        if self.tap:
            print(f"1..{self.count}")
        elif self.failed:
            self.line("Not as it must be: " + "; ".join(self.failed), "1;31")
        else:
            self.line("Every broken version broke, and pawl held every time.", "1;32")
        return 1 if self.failed else 0


class Actor:
    """A process that does what it is told: see actor.py."""

    def __init__(self, stage, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "actor.py"), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stage.processes.append(self.process)
        self.hear()

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("an actor has died")
        return line.strip()

    def do(self, *words):
        self.tell(*words)
        return self.hear()

    def crash(self):
        """kill -9, and really gone: its connections are closed."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T", "it stops")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Valve:
    """Between a replica and its primary: forwards, until it is shut. What comes then is lost, as with a host that goes down."""

    def __init__(self, port):
        self.to, self.shut = port, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            inside, _ = self.listener.accept()
            try:
                outside = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                inside.close()
                continue
            for source, target in ((inside, outside), (outside, inside)):
                threading.Thread(target=self.forward, args=(source, target), daemon=True).start()

    def forward(self, source, target):
        try:
            while data := source.recv(65536):
                if not self.shut.is_set():
                    target.sendall(data)
        except OSError:
            pass


class Stage:
    """All servers and processes; none survives it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="pawl-pitfalls-")
        self.processes, self.log = [], open(os.path.join(self.directory, "log"), "w")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, command, **kwargs):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, **kwargs)
        self.processes.append(process)
        return process

    def actor(self, *arguments):
        return Actor(self, *arguments)

    def redis(self, *options):
        """A server without a disk; returns its port and process."""
        if not shutil.which("redis-server"):
            raise Missing("there is no redis-server; on Debian: apt-get install redis-server")
        port = free_port()
        process = self.run(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            + ["--dir", self.directory, "--repl-diskless-sync-delay", "0", "--repl-timeout", "3600", *map(str, options)]
        )

        def answers():
            try:
                return raw.Redis(port).do("PING") == "PONG"
            except (OSError, raw.Closed):
                return False

        until(answers, "the Redis server answers")
        return port, process

    def zookeeper(self):
        if not shutil.which("java") or not all(map(os.path.exists, JARS)):
            raise Missing("there is no ZooKeeper; on Debian: apt-get install zookeeper default-jre-headless")
        directory, port = os.path.join(self.directory, "zookeeper"), free_port()
        os.makedirs(directory)
        with open(os.path.join(directory, "zoo.cfg"), "w") as file:
            file.write(
                f"tickTime=500\ninitLimit=10\nsyncLimit=5\ndataDir={directory}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
                "maxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=120000\nadmin.enableServer=false\n"
                "4lw.commands.whitelist=*\n"
            )
        with open(os.path.join(directory, "log4j.properties"), "w") as file:
            file.write("log4j.rootLogger=ERROR, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n")
            file.write("log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n")
        self.run(
            ["java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            + ["-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.preAllocSize=1024"]
            + ["-cp", ":".join([directory, *JARS]), "org.apache.zookeeper.server.quorum.QuorumPeerMain", directory + "/zoo.cfg"]
        )

        def answers():
            try:  # a server that still starts may never answer
                return "Mode:" in raw.word(port, "srvr", 2)
            except OSError:
                return False

        until(answers, "the ZooKeeper server answers")
        return port
