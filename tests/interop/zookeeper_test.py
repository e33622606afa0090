#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pawl beside stock Curator, Kazoo and go-zookeeper on a real ZooKeeper, in the same locks: they exclude each other, queue in one order
and wake each other, both ways. Prints TAP. $PAWL is the command; what is missing on this machine is a skip that is named."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from zookeeper_peers import PATIENCE, Missing, Peer, Servers, Talker, curator, end_all, kazoo

HERE = os.path.dirname(os.path.abspath(__file__))
PAWL = os.environ.get("PAWL", os.path.join(HERE, "../../build/pawl"))


class Pawl(Talker):
    """`pawl hold`: holds until its standard input ends."""

    flags = {"mutex": [], "write": ["-x"], "read": ["-s"], "semmutex": ["--permits", "1/1"], "sem:2": ["--permits", "1/2"]}

    def __init__(self, url, kind, name, *more):
        super().__init__([PAWL, "hold", "-u", url, *self.flags[kind], *more, name], stderr=subprocess.DEVNULL)

    def holds(self):
        line = self.hear()
        return line is not None and line.startswith("token ")

    def is_refused(self):
        return self.hear() is None and self.process.wait(PATIENCE) == 75

    def lets_go(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0


class Queue:
    """The children of a node, seen by a further client: to know that somebody waits."""

    def __init__(self, url):
        self.url = url

    def await_waiters(self, name, count):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = subprocess.run([PAWL, "status", "--raw", "-u", self.url, name], stdout=subprocess.PIPE, text=True).stdout
            if text.count(" waits ") == count:
                return
            time.sleep(0.02)
        raise RuntimeError(f"{name} never has {count} waiters:\n{text}")


def pawl_waits_for_peer(url, peer, kind, other, name, path):
    assert peer.gets(other, path)
    if kind != "sem:2":
        assert Pawl(url, kind, name, "-n").is_refused()
    waiter = Pawl(url, kind, name)
    Queue(url).await_waiters(name, 1)
    peer.lets_go(other, path)
    assert waiter.holds()
    waiter.lets_go()


def peer_waits_for_pawl(url, peer, kind, other, name, path):
    holder = Pawl(url, kind, name)
    assert holder.holds()
    assert peer.is_refused(other, path)
    peer.starts(other, path)
    assert peer.is_silent()
    holder.lets_go()
    assert peer.is_granted(other, path)
    peer.lets_go(other, path)


def one_queue(url, one, two, kind, name, path):
    assert one.gets(kind, path)
    middle = Pawl(url, kind, name)
    Queue(url).await_waiters(name, 1)
    two.starts(kind, path)
    Queue(url).await_waiters(name, 2)
    last = Pawl(url, kind, name)
    Queue(url).await_waiters(name, 3)
    one.lets_go(kind, path)
    assert middle.holds() and two.is_silent()
    middle.lets_go()
    assert two.is_granted(kind, path) and last.is_silent()
    two.lets_go(kind, path)
    assert last.holds()
    last.lets_go()


def readers_share(url, peer, name, path):
    assert peer.gets("read", path)
    reader, writer = Pawl(url, "read", name), None
    assert reader.holds()
    writer = Pawl(url, "write", name)
    Queue(url).await_waiters(name, 1)
    peer.lets_go("read", path)
    assert writer.is_silent()
    reader.lets_go()
    assert writer.holds() and peer.is_refused("read", path)
    writer.lets_go()


def semaphore_counts(url, one, two, name, path):
    assert one.gets("sem:2", path)
    mine = Pawl(url, "sem:2", name)
    assert mine.holds()
    assert two.is_refused("sem:2", path)
    assert Pawl(url, "sem:2", name, "-n").is_refused()
    both = Pawl(url, "sem:2", name)
    Queue(url).await_waiters(name, 1)
    one.lets_go("sem:2", path)
    assert both.holds()
    two.starts("sem:2", path)
    assert two.is_silent()
    mine.lets_go()
    assert two.is_granted("sem:2", path)
    both.lets_go()
    two.lets_go("sem:2", path)


def killed_holder(url, peer, name, path):
    holder = Pawl(url + "?session=2000", "mutex", name)
    assert holder.holds()
    peer.starts("mutex", path)
    os.kill(holder.process.pid, signal.SIGKILL)
    assert peer.is_granted("mutex", path)
    peer.lets_go("mutex", path)


def killed_waiter(url, one, two, name, path):
    assert one.gets("mutex", path)
    middle = Pawl(url + "?session=2000", "mutex", name)
    Queue(url).await_waiters(name, 1)
    two.starts("mutex", path)
    Queue(url).await_waiters(name, 2)
    os.kill(middle.process.pid, signal.SIGKILL)
    one.lets_go("mutex", path)
    assert two.is_granted("mutex", path)
    two.lets_go("mutex", path)


def holder_of(url, name):
    text = subprocess.run([PAWL, "status", "--json", "-u", url, name], stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)["locks"][0]["holders"][0]


def pawl_breaks_peer(url, peer, name, path):
    """Politely: the holder is told, and goes on holding until it lets go by itself."""
    assert peer.gets("revocable", path)
    holder = holder_of(url, name)
    assert holder["foreign"] and not holder["broken"]
    waiter = Pawl(url, "mutex", name)
    Queue(url).await_waiters(name, 1)
    subprocess.run([PAWL, "break", "-u", url, name, "--token", holder["token"]], check=True)
    assert peer.hear() == f"revoked {path}"
    assert holder_of(url, name)["broken"] and waiter.is_silent()
    peer.lets_go("revocable", path)
    assert waiter.holds()
    waiter.lets_go()


def peer_breaks_pawl(url, peer, name, path):
    run = Talker([PAWL, "run", "-u", url, name, "--", "sh", "-c", "echo runs; exec sleep 60"], stderr=subprocess.DEVNULL)
    assert run.hear() == "runs"
    waiter = Pawl(url, "mutex", name)
    Queue(url).await_waiters(name, 1)
    assert peer.ask(f"revoke {path}") == "ok"
    assert run.process.wait(PATIENCE) == 76
    assert waiter.holds()
    waiter.lets_go()


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def run(self, name, function, *arguments):
        self.count += 1
        try:
            function(*arguments)
            print(f"ok {self.count} - {name}", flush=True)
        except Exception as error:
            self.failed += 1
            print(f"# {type(error).__name__}: {error} (line {error.__traceback__.tb_next.tb_lineno})")
            print(f"not ok {self.count} - {name}", flush=True)

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}", flush=True)


def curator_tests(tap, url, server, directory):
    one, two = curator(server, directory), curator(server, directory)
    if not one:
        tap.skip("Curator", "Curator or javac is missing (Debian: libcurator-recipes-java, default-jdk-headless)")
        return None
    for kind in ("mutex", "semmutex", "write"):
        tap.run(f"Curator {kind}: pawl waits for Curator", pawl_waits_for_peer, url, one, kind, kind, f"c-{kind}", f"/i/c-{kind}")
        tap.run(f"Curator {kind}: Curator waits for pawl", peer_waits_for_pawl, url, one, kind, kind, f"d-{kind}", f"/i/d-{kind}")
    for kind in ("mutex", "write"):
        tap.run(f"Curator {kind}: one queue", one_queue, url, one, two, kind, f"q-{kind}", f"/i/q-{kind}")
    tap.run("Curator read: pawl's writer waits for Curator's reader", pawl_waits_for_peer, url, one, "write", "read", "rw1", "/i/rw1")
    tap.run("Curator read: pawl's reader waits for Curator's writer", pawl_waits_for_peer, url, one, "read", "write", "rw2", "/i/rw2")
    tap.run("Curator read: Curator's reader waits for pawl's writer", peer_waits_for_pawl, url, one, "write", "read", "rw3", "/i/rw3")
    tap.run("Curator read: Curator's writer waits for pawl's reader", peer_waits_for_pawl, url, one, "read", "write", "rw4", "/i/rw4")
    tap.run("Curator read: readers share", readers_share, url, one, "rw5", "/i/rw5")
    tap.run("Curator semaphore: both count the same leases", semaphore_counts, url, one, two, "sem", "/i/sem")
    tap.run("Curator revocable: pawl break asks a Curator holder", pawl_breaks_peer, url, one, "rev1", "/i/rev1")
    tap.run("Curator revocable: Curator's Revoker asks a pawl", peer_breaks_pawl, url, one, "rev2", "/i/rev2")
    tap.run("Curator: a pawl that was killed makes way", killed_holder, url, one, "kill", "/i/kill")
    tap.run("Curator: so does one that waited", killed_waiter, url, one, two, "kill2", "/i/kill2")
    return one


def kazoo_tests(tap, url, server, peer):
    one, two = kazoo(server), kazoo(server)
    if not one:
        tap.skip("Kazoo", "Kazoo is missing (Debian: python3-kazoo)")
        return
    url += "?compat=kazoo"
    tap.run("Kazoo: pawl waits for Kazoo", pawl_waits_for_peer, url, one, "mutex", "mutex", "k1", "/i/k1")
    tap.run("Kazoo: Kazoo waits for pawl", peer_waits_for_pawl, url, one, "mutex", "mutex", "k2", "/i/k2")
    tap.run("Kazoo: one queue of two pawls and a Kazoo", one_queue, url, one, two, "mutex", "k3", "/i/k3")
    if peer:
        tap.run("compat=kazoo: pawl waits for Curator", pawl_waits_for_peer, url, peer, "mutex", "mutex", "k4", "/i/k4")
        tap.run("compat=kazoo: Curator waits for pawl", peer_waits_for_pawl, url, peer, "mutex", "mutex", "k5", "/i/k5")


def go_tests(tap, url, hosts, directory):
    go = shutil.which("go")
    source = f"{HERE}/go"
    if not go:
        tap.skip("go-zookeeper", "there is no go")
        return
    binary = f"{directory}/go-peer"
    env = dict(os.environ, GOFLAGS="-mod=mod", HOME=directory, GOCACHE=f"{directory}/go-cache", GOPATH=f"{directory}/go-path")
    shutil.copytree(source, f"{directory}/go-source")
    try:
        built = subprocess.run([go, "build", "-o", binary, "."], cwd=f"{directory}/go-source", env=env, timeout=120, capture_output=True)
    except subprocess.TimeoutExpired:
        built = None
    if built is None or built.returncode:
        tap.skip("go-zookeeper", "its module can't be fetched here")
        return
    peer = Peer([binary, hosts])
    tap.run("go-zookeeper: pawl waits for go", pawl_waits_for_peer, url, peer, "mutex", "mutex", "g1", "/i/g1")
    tap.run("go-zookeeper: go waits for pawl", peer_waits_for_pawl, url, peer, "mutex", "mutex", "g2", "/i/g2")


def main():
    try:
        server = Servers("zookeeper")
    except Missing as missing:
        print(f"1..1\nok 1 - interop with ZooKeeper's clients # SKIP {missing}")
        return 0
    tap = Tap()
    directory = tempfile.mkdtemp(prefix="pawl-interop-")
    try:
        hosts = f"127.0.0.1:{server.port}"
        url = f"zk://{hosts}/i"
        peer = curator_tests(tap, url, server, directory)
        kazoo_tests(tap, url, server, peer)
        go_tests(tap, url, hosts, directory)
    finally:
        end_all()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


sys.exit(main())
