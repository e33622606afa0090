# SPDX-License-Identifier: Apache-2.0
"""What the documents name beside locks: a distributed cache (the title of the fifth), configuration and naming (the first line of the
second). Played with nodes alone, and with the value beside a lock of pawl's and who observes it; on ZooKeeper, as they have it."""

import re

import raw
from built import pawl
from stage import until

SESSION = 4000  # ms: of those that are killed or stopped
READERS, READS = 3, 1000


class Scene:
    def __init__(self, stage, report):
        self.stage, self.report = stage, report
        self.port = stage.zookeeper().port
        self.zookeeper = raw.ZooKeeper(self.port)
        self.url = f"zk://127.0.0.1:{self.port}/pawl"

    def pawl(self, session_ms=60000):
        return self.stage.actor("pawl", self.url, session_ms)

    def client(self):
        return pawl.Client(self.url, lease=60, label="pitfalls")

    def node(self, path, text):
        self.zookeeper.create(path)
        self.zookeeper.write(path, text)

    def requests(self):
        return int(re.search(r"zk_packets_received\s+(\d+)", raw.word(self.port, "mntr"))[1])


def play_cache(scene):
    report, zookeeper = scene.report, scene.zookeeper
    report.side("the broken version: who has read a node keeps what it read")
    scene.node("/price", "10")
    kept = raw.ZooKeeper(scene.port).read("/price")
    zookeeper.write("/price", "12")
    report.step("reader", f"answers from its memory: {kept}; the server has {zookeeper.read('/price')}")
    report.verdict("a cache without a lock", kept == "10" and zookeeper.read("/price") == "12", "nobody tells the readers that it is old")
    report.side("pawl: readers share a lock and keep it; a writer gets it when all of them have given it back")
    with pawl.RWLock("price", client=scene.client()).write() as price:
        price.value = b"10"
    readers = [pawl.RWLock("price", client=scene.client(), keep=600) for _ in range(READERS)]

    def read(lock):
        with lock.read() as price:
            return price.value.decode()

    first = [read(lock) for lock in readers]
    before = scene.requests()
    again = {read(lock) for lock in readers for _ in range(READS)}
    asked = scene.requests() - before
    report.step("readers", f"{READERS * READS:,} reads under the lock: {', '.join(again)}; requests to the server meanwhile: {asked}")
    with pawl.RWLock("price", client=scene.client()).write() as price:
        price.value = b"12"
    then = [read(lock) for lock in readers]
    report.step("readers", f"after one has written 12: {', '.join(then)}")
    held = first == ["10"] * READERS and again == {"10"} and asked < READERS * READS // 10 and then == ["12"] * READERS
    report.verdict("pawl's cache", held, "read from memory, and never what is old")


def play_configuration(scene):
    report, zookeeper = scene.report, scene.zookeeper
    report.side("the broken version: a watch that is set once")
    scene.node("/setting", "1")
    program = raw.ZooKeeper(scene.port)
    program.read("/setting", watch=True)
    zookeeper.write("/setting", "2")
    program.event()
    used = program.read("/setting")
    zookeeper.write("/setting", "3")
    there = program.read("/setting")  # an event would have come before this answer
    report.step("program", f"was told once, and uses {used}; the server has {there}; events: {program.seen}")
    report.verdict("a watch that is set once", (used, there, program.seen) == ("2", "3", 1), "the second change was told to nobody")
    report.side("pawl: an observer is told every change, or a later one; and the server refuses a writer that has lost the lock")
    told = []
    with pawl.observe("setting", told.append, client=scene.client()):
        one, two = scene.pawl(SESSION), scene.pawl()
        one.do("acquire", "setting", 60000)
        said = [one.do("write", "setting", number) for number in range(1, 21)]
        until(lambda: told and told[-1].value and told[-1].value.data == b"20", "the observer is told the last one")
        report.step("observer", f"20 writes: told {len(told)} times, the last time of {told[-1].value.data.decode()}")
        one.stop()
        second = two.do("acquire", "setting", 60000)
        said.append(two.do("write", "setting", 21))
        one.go_on()
        late = one.do("write", "setting", 99)
        report.step("pawl 1", f"was stopped (SIGSTOP) until pawl 2 held and wrote 21; goes on, and writes 99: {late}")
        until(lambda: told[-1].value.data == b"21", "the observer is told what pawl 2 wrote")
    with scene.client() as client:
        value = client.value("setting")
    held = set(said) == {"written"} and late == "ELOST" and value.data == b"21" and value.token == int(second.split()[1])
    report.verdict("pawl's value", held, "what was written last was told, and what came too late was refused by the server itself")


def play_naming(scene):
    report, zookeeper = scene.report, scene.zookeeper
    report.side("the broken version: the leader writes its address to a node, and dies")
    leader = scene.stage.actor("zookeeper", scene.port)
    leader.do("create", "/leader")
    zookeeper.write("/leader", "one:80")
    leader.crash()
    found = zookeeper.read("/leader")
    report.step("client", f"looks for the leader: {found}")
    report.verdict("an address that stays", found == "one:80", "nobody is there any more")
    report.side("pawl: the value beside the leader's lock, and whose it is")
    told = []
    with pawl.observe("leader", told.append, client=scene.client()):
        one, two = scene.pawl(SESSION), scene.pawl()
        one.do("acquire", "leader", 60000)
        one.do("write", "leader", "one:80")
        until(lambda: told and told[-1].holders_value, "the address of the first is told")
        first = told[-1]
        one.crash()
        two.do("acquire", "leader", 60000)
        until(lambda: told[-1].holder and told[-1].holder.pid != first.holder.pid, "the next leader is told of")
        between = told[-1]
        left = between.value.data.decode()
        report.step("client", f"the next one leads, and has written nothing yet: beside the lock lies {left}, which is not its own")
        two.do("write", "leader", "two:80")
        until(lambda: told[-1].holders_value, "its address is told")
    report.step("client", f"then: {told[-1].holders_value.data.decode()}")
    wrong = [seen for seen in told if seen.holders_value and seen.holder.pid != first.holder.pid and seen.holders_value.data == b"one:80"]
    held = between.value.data == b"one:80" and between.holders_value is None and not wrong and told[-1].holders_value.data == b"two:80"
    report.verdict("pawl's leader", held, "a dead leader's address was never taken for that of the next")


PLAYS = [
    ("A cache that nobody empties", "分布式缓存：没有人让它失效", "the fifth document's title, Zookeeper实现分布式缓存", play_cache),
    ("A setting that changes twice", "配置管理：第二次变化没人知道", "the second document, first line: 配置管理 (configuration)", play_configuration),
    ("The address of a dead leader", "命名：死去的 leader 的地址", "the second document, first line: 命名 (naming)", play_naming),
]
