# SPDX-License-Identifier: Apache-2.0
"""What the tests of pawl web share: TAP, a pawl web of their own, and requests to it as bytes."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

PAWL = os.environ["PAWL"]
PATIENCE = 30  # seconds, for anything that is waited for
scratch = tempfile.mkdtemp()
LOCKS = "local:" + os.path.join(scratch, "locks")
count = failures = 0
processes = []


def check(name, good, more=""):
    global count, failures
    count += 1
    failures += not good
    if not good and more:
        print("# " + str(more).replace("\n", "\n# "))
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)


def equal(name, wanted, got):
    check(name, wanted == got, f"wanted: {wanted}\n   got: {got}")


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}", flush=True)


def finish():
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"1..{count}")
    sys.exit(failures > 0)


def start(*arguments, **how):
    process = subprocess.Popen(arguments, text=True, **how)
    processes.append(process)
    return process


def eventually(question):
    """Ask until the answer is true; it is returned."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer or time.monotonic() > deadline:
            return answer
        time.sleep(0.02)


def hold(name, *options, url=LOCKS):
    """A process that holds the lock when this returns."""
    process = start(
        PAWL,
        "run",
        "-u",
        url,
        *options,
        name,
        "--",
        "sh",
        "-c",
        "echo holds; exec sleep 600",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == "holds\n"
    return process


def status(name=None, url=LOCKS):
    arguments = [PAWL, "status", "-u", url, "--json"] + (["--", name] if name else [])
    return json.loads(subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout)["locks"]


def wait_behind(name, *options, url=LOCKS):
    """A process that waits for the lock when this returns."""
    waiting = lambda: sum(len(lock["waiters"]) for lock in status(name, url))
    before = waiting()
    process = start(PAWL, "run", "-u", url, *options, name, "--", "sleep", "600", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert eventually(lambda: waiting() == before + 1)
    return process


class Web:
    """A pawl web, and how to talk to it."""

    def __init__(self, *options, url=LOCKS, listen="127.0.0.1:0"):
        self.process = start(PAWL, "web", "-u", url, "--listen", listen, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.line = self.process.stdout.readline()
        found = re.fullmatch(r"http://([0-9.]+|\[[0-9a-f:]+\]):(\d+)/#([0-9a-f]{32})\n|unix:(.*)#([0-9a-f]{32})\n", self.line)
        assert found, self.line + self.process.stderr.read()
        self.port, self.path = int(found[2] or 0), found[4]
        self.key = found[3] or found[5]
        self.host = "localhost" if self.path else f"127.0.0.1:{self.port}"
        self.address = self.line.strip()

    def connect(self):
        connection = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET)
        connection.settimeout(PATIENCE)
        connection.connect(self.path or ("127.0.0.1", self.port))
        return connection

    def head(self, method, path, host=True, key=True, more=()):
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"Host: {self.host}"] if host else []
        lines += [f"Authorization: Bearer {self.key}"] if key else []
        return ("\r\n".join([*lines, *more]) + "\r\n\r\n").encode("latin-1")

    def send(self, data):
        """These bytes; returns the status (None: it was closed without one), the headers and the body, once the server has closed."""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            except (ConnectionResetError, BrokenPipeError):
                return None, {}, b""
        if not answer:
            return None, {}, b""
        head, body = answer.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, value in (line.split(":", 1) for line in lines)}
        return int(first.split()[1]), headers, body

    def get(self, path, **how):
        return self.send(self.head("GET", path, **how))

    def json(self, path):
        code, _, body = self.get(path)
        assert code == 200, (code, body)
        return json.loads(body)

    def post(self, path, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send(self.head("POST", path, more=[f"Content-Length: {len(data)}"]) + data)

    def stop(self):
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Stream:
    """The events of /api/stream, one by one."""

    def __init__(self, web, after=None):
        self.file = web.connect()
        self.file.sendall(web.head("GET", "/api/stream" + (f"?after={after}" if after is not None else "")))
        self.reader = self.file.makefile("rb")
        self.status = int(self.reader.readline().split()[1])
        self.chunked = False
        while (line := self.reader.readline()) not in (b"\r\n", b""):
            self.chunked |= b"chunked" in line.lower()
        self.rest = b""

    def more(self):
        if not self.chunked:
            return self.reader.read1(65536)
        size = int(self.reader.readline() or b"0", 16)
        data = self.reader.read(size)
        self.reader.readline()
        return data

    def next(self):
        """The next event, as (name, data); None: the end."""
        while b"\n\n" not in self.rest:
            more = self.more()
            if not more:
                return None
            self.rest += more
        event, self.rest = self.rest.split(b"\n\n", 1)
        fields = dict(line.split(": ", 1) for line in event.decode().split("\n"))
        return (fields["event"], json.loads(fields["data"])) if "event" in fields else self.next()

    def until(self, wanted):
        """The first difference for which `wanted` is true, of the next thousand."""
        for _ in range(1000):
            name, data = self.next()
            if name == "state" and wanted(data):
                return data
        return None

    def close(self):
        self.reader.close()
        self.file.close()
