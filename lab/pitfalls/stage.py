# SPDX-License-Identifier: Apache-2.0
"""The stage on which the pitfalls are played: servers of their own, processes that do what they are told, and a report.

Nothing here sleeps and hopes. What must come is waited for: an answer, the end of a process, or until() a question to the server has the
answer that it must have, with patience for a slow machine and no longer.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import raw

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "servers"))
from launch import Missing, Servers  # noqa: E402,F401

PATIENCE = 60


def until(question, what):
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise RuntimeError(f"it never happened: {what}")
        time.sleep(0.005)


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
        self.processes, self.servers = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for servers in self.servers:
            servers.end()

    def actor(self, *arguments):
        return Actor(self, *arguments)

    def start(self, kind, *lines):
        self.servers.append(Servers(kind, line=lines))
        return self.servers[-1]

    def redis(self, *lines):
        """A server without a disk."""
        return self.start("redis", "repl-diskless-sync-delay 0", "repl-timeout 3600", *lines)

    def zookeeper(self):
        return self.start("zookeeper", "maxSessionTimeout=120000")
