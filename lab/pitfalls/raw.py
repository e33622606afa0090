# SPDX-License-Identifier: Apache-2.0
"""Redis and ZooKeeper as they are on the wire: what the documents' programs do must not depend on what a library adds."""

import socket
import struct


class Closed(Exception):
    pass


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Redis:
    def __init__(self, port):
        self.file = connect(port).makefile("rwb")

    def do(self, *words):
        """The answer; an error is text that begins with '-'."""
        self.file.write(b"*%d\r\n" % len(words))
        for word in words:
            data = str(word).encode()
            self.file.write(b"$%d\r\n%s\r\n" % (len(data), data))
        self.file.flush()
        return self.answer()

    def answer(self):
        line = self.file.readline()
        if not line:
            raise Closed
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"$":
            return None if rest == "-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.answer() for _ in range(max(int(rest), 0))]
        return int(rest) if kind == b":" else "-" + rest if kind == b"-" else rest


class ZooKeeper:
    """One session. Events are counted as they are met on the way to an answer, or by events()."""

    CREATE, DELETE, EXISTS, GET, SET, CHILDREN, END = 1, 2, 3, 4, 5, 8, -11
    NONODE, NODEEXISTS = -101, -110

    def __init__(self, port, timeout_ms=120000):
        self.socket, self.number, self.seen = connect(port), 0, 0
        self.send(struct.pack(">iqiqi16s", 0, 0, timeout_ms, 0, 16, b""))
        self.session = struct.unpack(">iiq", self.receive()[:16])[2]

    def send(self, data):
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def receive(self):
        return self.take(struct.unpack(">i", self.take(4))[0])

    def take(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise Closed
            data += part
        return data

    def ask(self, kind, body):
        """The error, and what follows the header."""
        self.number += 1
        self.send(struct.pack(">ii", self.number, kind) + body)
        while True:
            data = self.receive()
            number, _, error = struct.unpack(">iqi", data[:16])
            if number == self.number:
                return error, data[16:]
            self.seen += number == -1

    @staticmethod
    def text(value):
        return struct.pack(">i", len(value)) + value.encode()

    def create(self, path, ephemeral=False, sequence=False):
        """The path that it got, or the error."""
        acl = struct.pack(">ii", 1, 31) + self.text("world") + self.text("anyone")
        error, data = self.ask(self.CREATE, self.text(path) + self.text("") + acl + struct.pack(">i", ephemeral + 2 * sequence))
        return error if error else data[4:].decode()

    def delete(self, path):
        return self.ask(self.DELETE, self.text(path) + struct.pack(">i", -1))[0]

    def exists(self, path, watch):
        return self.ask(self.EXISTS, self.text(path) + bytes([watch]))[0]

    def get(self, path, watch):
        return self.ask(self.GET, self.text(path) + bytes([watch]))[0]

    def read(self, path, watch=False):
        data = self.ask(self.GET, self.text(path) + bytes([watch]))[1]
        return data[4 : 4 + struct.unpack(">i", data[:4])[0]].decode()

    def write(self, path, text):
        return self.ask(self.SET, self.text(path) + self.text(text) + struct.pack(">i", -1))[0]

    def owner(self, path):
        """The session that an ephemeral node belongs to; 0: it is persistent."""
        data = self.ask(self.EXISTS, self.text(path) + b"\0")[1]
        return struct.unpack(">q", data[44:52])[0]

    def children(self, path, watch=False):
        error, data = self.ask(self.CHILDREN, self.text(path) + bytes([watch]))
        names, at = [], 4
        while not error and at < len(data):
            (length,) = struct.unpack(">i", data[at : at + 4])
            names.append(data[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return sorted(names)

    def send_children(self, path):
        """Ask, and leave the answer where it is."""
        self.number += 1
        self.send(struct.pack(">ii", self.number, self.CHILDREN) + self.text(path) + b"\0")

    def event(self):
        """Wait for an event; returns what happened: 1 created, 2 deleted, 3 data changed, 4 children changed."""
        before = self.seen
        while self.seen == before:
            packet = self.receive()
            self.seen += struct.unpack(">i", packet[:4])[0] == -1
        return struct.unpack(">i", packet[16:20])[0]

    def end(self):
        """End the session, and with it its ephemeral nodes."""
        self.ask(self.END, b"")
        self.close()

    def close(self):
        """The connection alone: the session goes on until its time is up."""
        self.socket.close()


def word(port, letters, seconds=60):
    """ZooKeeper's four-letter words."""
    connection = connect(port)
    connection.settimeout(seconds)
    connection.sendall(letters.encode())
    data = b""
    while part := connection.recv(65536):
        data += part
    return data.decode()
