# SPDX-License-Identifier: Apache-2.0
"""The stage on which the pitfalls are played: servers of their own, processes that do what they are told, and a report.

Nothing here sleeps and hopes. What must come is waited for: an answer, the end of a process, or until() a question to the server has the
answer that it must have, with patience for a slow machine and no longer.
"""

import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import raw

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "servers"))
from launch import Missing, Servers  # noqa: E402,F401

BUILD = os.path.join(os.path.dirname(os.path.dirname(HERE)), os.environ.get("BUILD_DIR", "build"))
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
        self.count, self.failed, self.left_out, self.start = 0, [], [], 0

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
        self.left_out.append(name)
        self.line(f"   left out: {reason}", "33")
        if self.tap:
            print(f"ok {self.count} - {name} # SKIP {reason}", flush=True)

    def end(self):
        self.line()
        if self.tap:
            print(f"1..{self.count}")
            return 1 if self.failed else 0
        if self.failed:
            self.line("Not as it must be: " + "; ".join(self.failed), "1;31")
        if self.left_out:
            self.line("Left out: " + "; ".join(self.left_out), "1;33")
        if self.failed or self.left_out:
            return 1
        self.line("Every broken version broke, and pawl held every time.", "1;32")
        return 0


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


class Clock:
    """A wall clock for servers that are started with it; it can be set. See lab/servers/clock.h."""

    def __init__(self):
        self.fd = os.memfd_create("pawl-clock", 0)
        os.truncate(self.fd, 4096)
        self.page = mmap.mmap(self.fd, 4096)

    def environment(self):
        shim = os.path.join(BUILD, "tests", "libclock_shim.so")
        if not os.path.exists(shim):
            # Not Missing: what a package could bring may be left out, what this build should have made may not.
            raise RuntimeError("there is no libclock_shim.so: ninja -C build tests/libclock_shim.so")
        return {"PAWL_CLOCK_FD": str(self.fd), "LD_PRELOAD": shim}

    def jump(self, ms):
        struct.pack_into("=q", self.page, 8, ms * 1000000)


class Five:
    """Five independent Redis servers without a disk, A to E."""

    def __init__(self, stage, clock=None):
        """`clock`: of the server C."""
        self.stage = stage
        self.servers = {name: stage.redis(clock=clock if name == "C" else None) for name in "ABCDE"}
        self.redis = {name: raw.Redis(server.port) for name, server in self.servers.items()}
        self.url = "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers.values())

    def kill(self, name):
        self.servers[name].kill()

    def restart(self, name):
        """Without its data."""
        self.kill(name)
        self.servers[name] = self.stage.redis(port=self.servers[name].port)
        self.redis[name] = raw.Redis(self.servers[name].port)


class Store:
    """What is guarded by a lock: it takes every write, or those alone whose token is not lower than the highest that it has seen.
    Tokens are compared as text, the longer one is the higher: numbers in Lua have 53 bits."""

    WRITE = """
        local seen, mine = redis.call('HGET', KEYS[1], 'token') or '0', ARGV[1]
        if #seen > #mine or (#seen == #mine and seen > mine) then return 'refused' end
        redis.call('HSET', KEYS[1], 'token', mine, 'value', ARGV[2])
        return 'written'
    """

    def __init__(self, redis, key="store"):
        self.redis, self.key = redis, key

    def put(self, text):
        return self.redis.do("HSET", self.key, "value", text)

    def write(self, token, text):
        return self.redis.do("EVAL", self.WRITE, 1, self.key, token, text)

    def value(self):
        return self.redis.do("HGET", self.key, "value")


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

    def start(self, kind, *lines, **options):
        self.servers.append(Servers(kind, line=lines, **options))
        return self.servers[-1]

    def redis(self, *lines, **options):
        """A server without a disk."""
        return self.start("redis", "repl-diskless-sync-delay 0", "repl-timeout 3600", *lines, **options)

    def zookeeper(self):
        return self.start("zookeeper", "maxSessionTimeout=120000")

    def example(self, name, *arguments):
        """Run a program of examples/ to its end: its lines, each with the ms at which it came."""
        program = os.path.join(BUILD, "examples", name)
        if not os.path.exists(program):
            raise Missing(f"{name} is not built: ninja -C build examples/{name}")
        begin, lines = time.monotonic(), []
        command = ["stdbuf", "-oL", program, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        for line in process.stdout:
            lines.append(((time.monotonic() - begin) * 1000, line.strip()))
        if process.wait() != 0:
            raise RuntimeError(f"{name} failed")
        return lines
