# SPDX-License-Identifier: Apache-2.0
"""What the documents warn of on ZooKeeper, and pawl in the same place. 'The ZooKeeper article' is "如何使用zookeeper实现分布式锁？"."""

import asyncio
import re
import selectors
import time

import raw
from built import pawl
from stage import Store, until

SESSIONS = 20  # of pawl, among which the herd is divided: the server counts sessions


class Scene:
    def __init__(self, stage, report, herd):
        self.stage, self.report, self.herd = stage, report, herd
        self.port = stage.zookeeper().port
        self.zookeeper = raw.ZooKeeper(self.port)
        self.zookeeper.create("/lock")

    def pawl(self, session_ms):
        return self.stage.actor("pawl", f"zk://127.0.0.1:{self.port}/pawl", session_ms)

    def watches(self):
        return int(re.search(r"Total watches:(\d+)", raw.word(self.port, "wchs"))[1])

    def fired(self, kind):
        """How many watches the server has told of, so far: by deletions of nodes, or by changes of children."""
        return int(float(re.search(rf"zk_sum_node_{kind}_watch_count\s+(\S+)", raw.word(self.port, "mntr"))[1]))


def play_persistent_node(scene):
    report, zookeeper = scene.report, scene.zookeeper
    report.side("the broken version: a persistent node")
    one = scene.stage.actor("zookeeper", scene.port)
    path = one.do("create", "/lock/persistent")
    report.step("client 1", f"create {path} -> it holds")
    one.crash()
    report.step("client 1", "kill -9: its connection is gone")
    again, owner = zookeeper.create("/lock/persistent"), zookeeper.owner("/lock/persistent")
    report.step("client 2", f"create /lock/persistent -> {again} (node exists); ephemeralOwner: {owner}")
    broke = again == raw.ZooKeeper.NODEEXISTS and owner == 0
    report.verdict("a persistent node and a crash", broke, "no session owns it, so no end of a session removes it")
    report.side("pawl: an ephemeral node, which goes with its session")
    one, two = scene.pawl(2000), scene.pawl(2000)
    report.step("pawl 1", one.do("acquire", "crash", 60000))
    one.crash()
    nodes = zookeeper.children("/pawl/crash")
    report.step("pawl 1", f"kill -9. Right afterwards there is still {len(nodes)} node: it goes with the session, not with the connection")
    got = two.do("acquire", "crash", 60000)
    report.step("pawl 2", got)
    two.crash()
    report.verdict("pawl's ephemeral node", got.startswith("held"), "the session ended, the node with it, and the next one was let in")


def count_events(clients, expected):
    """Read one event from each; returns how many came."""
    selector, count = selectors.DefaultSelector(), 0
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
    while count < expected:
        ready = selector.select(60)
        if not ready:
            break
        for key, _ in ready:
            key.data.event()
            selector.unregister(key.fileobj)
            count += 1
    selector.close()
    return count


async def pawls_herd(scene, count):
    """How many were let in by one release, how many were woken for it, and how many sessions the server told of it."""
    zookeeper, heard, granted = scene.zookeeper, [], []
    url = f"zk://127.0.0.1:{scene.port}/pawl?handoff=0"
    how = {"lease": 60, "label": "pitfalls", "log": lambda level, text: heard.append(text), "trace": True}
    clients = [pawl.aio.Client(url, **how) for _ in range(SESSIONS)]
    holder = await pawl.aio.Lock("herd", client=clients[0]).acquire()

    async def wait(number):
        granted.append(await pawl.aio.Lock("herd", client=clients[number % SESSIONS]).acquire())

    async def happens(question):
        while not question():
            await asyncio.sleep(0.005)

    def count_woken():
        pawl._losses.catch_up()
        return sum("woken" in text for text in heard)

    async def play():
        await happens(lambda: len(zookeeper.children("/pawl/herd")) == count + 1)  # all of them have queued
        await happens(lambda: scene.watches() > 2 * count)  # each watches the one ahead and its own node
        before, woken = scene.fired("deleted"), count_woken()
        holder.release()
        await happens(lambda: granted and len(zookeeper.children("/pawl/herd")) == count)
        return len(granted), count_woken() - woken, scene.fired("deleted") - before

    waiters = [asyncio.ensure_future(wait(number)) for number in range(count)]
    try:
        return await asyncio.wait_for(play(), 120)
    finally:
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        for client in clients:
            client.close()


def held_up(stranger, clients):
    """How many ms a read takes that has nothing to do with them: before all of these list, and meanwhile."""
    took = []
    for busy in ([], clients):
        for client in busy:
            client.send_children("/lock/herd")
        begin = time.monotonic()
        stranger.exists("/lock", False)
        took.append((time.monotonic() - begin) * 1000)
    return took


def play_herd(scene):
    report, zookeeper, count = scene.report, scene.zookeeper, scene.herd
    report.side(f"the broken version: {count} wait, and each watches all children")
    zookeeper.create("/lock/herd")
    head = zookeeper.create("/lock/herd/lock-", ephemeral=True, sequence=True)
    clients = [raw.ZooKeeper(scene.port) for _ in range(count)]
    for client in clients:
        client.create("/lock/herd/lock-", ephemeral=True, sequence=True)
    for client in clients:
        client.children("/lock/herd", watch=True)
    before = scene.fired("children")
    zookeeper.delete(head)
    woken = count_events(clients, count)
    fired = scene.fired("children") - before
    report.step("client 1", f"deletes {head}: {woken} clients were woken (the server counts {fired}), for one lock")
    alone, behind = held_up(zookeeper, clients)
    report.step("a stranger", f"reads another node in {behind:.1f} ms while they all list; in {alone:.1f} ms before")
    for client in clients:
        client.close()
    report.verdict("the herd", woken == count == fired, f"{count} wake-ups for one hand-off, and each of them lists {count} nodes")

    report.side(f"pawl: {count} wait, over {SESSIONS} sessions, and each watches the one ahead")
    granted, woken, fired = asyncio.run(pawls_herd(scene, count))
    report.step("pawl", f"released: {granted} of {count} was let in; {woken} was woken; the server told {fired} sessions")
    held = granted == 1 and woken == 1 and 1 <= fired <= 3
    report.verdict("pawl's queue", held, f"one wake-up instead of {count}, for any number of waiters")


def play_exists_leaves_a_watch(scene):
    report, zookeeper = scene.report, raw.ZooKeeper(scene.port)
    until(lambda: scene.watches() == 0, "the watches of what was played before are gone")
    report.side("the broken version: exists() on the node ahead, which is gone already")
    answer = zookeeper.exists("/lock/gone-0000000007", True)
    left = scene.watches()
    report.step("client 1", f"exists(/lock/gone-0000000007, watch) -> {answer} (no node); watches at the server: {left}")
    broke = answer == raw.ZooKeeper.NONODE and left == 1
    report.verdict("the watch that exists leaves behind", broke, "it waits for a node whose number is never given again")
    zookeeper.close()
    until(lambda: scene.watches() == 0, "its session's watches are gone")
    report.side("getData instead, and so does pawl")
    zookeeper = raw.ZooKeeper(scene.port)
    answer = zookeeper.get("/lock/gone-0000000007", True)
    report.step("client 1", f"getData(/lock/gone-0000000007, watch) -> {answer} (no node); watches at the server: {scene.watches()}")
    one, two = scene.pawl(60000), scene.pawl(60000)
    said = []
    for _ in range(5):
        one.do("acquire", "watch", 60000)
        two.tell("acquire", "watch", 60000)
        until(lambda: len(zookeeper.children("/pawl/watch")) == 2, "the second one has queued")
        one.do("release", "watch")
        said.append(two.hear().split()[0])
        two.do("release", "watch")
    until(lambda: not zookeeper.children("/pawl/watch"), "the nodes are gone")
    until(lambda: scene.watches() == 0, "no watch is left")
    report.step("pawl", f"handed on {len(said)} times; watches at the server: {scene.watches()}")
    report.verdict("pawl's watches", answer == raw.ZooKeeper.NONODE and said == ["held"] * 5, "no watch is left behind")


def play_list_then_watch(scene):
    report, zookeeper = scene.report, scene.zookeeper
    zookeeper.create("/lock/between")

    def pair():
        one, two = raw.ZooKeeper(scene.port), raw.ZooKeeper(scene.port)
        return one, one.create("/lock/between/lock-", True, True), two, two.create("/lock/between/lock-", True, True)

    report.side("the broken version: list the children, then watch the one ahead by exists()")
    one, ahead, two, _ = pair()
    seen = two.children("/lock/between")
    one.delete(ahead)
    answer = two.exists(ahead, True)
    report.step("client b", f"lists {len(seen)} children, and is not first; client a deletes its node; exists(watch) -> {answer} (no node)")
    broke = len(seen) == 2 and answer == raw.ZooKeeper.NONODE and two.seen == 0
    report.verdict("a list, and then a watch", broke, "the event was before the watch: it waits for a number that never comes again")
    two.end()
    report.side("as the document says: the list itself sets the watch")
    one, ahead, two, _ = pair()
    two.children("/lock/between", watch=True)
    one.delete(ahead)
    two.event()
    report.step("client b", f"is told of the change; lists again: {len(two.children('/lock/between'))} child, its own")
    two.end()
    report.side("pawl: a list without a watch, then getData with one, whose answer says that the node is gone")
    holder, waiter = scene.pawl(60000), scene.pawl(60000)
    said = []
    for _ in range(20):
        holder.do("acquire", "between", 60000)
        waiter.tell("acquire", "between", 60000)
        holder.do("release", "between")  # at any moment of the other's list and watch
        said.append(waiter.hear().split()[0])
        waiter.do("release", "between")
    report.step("pawl", f"released at any moment, {len(said)} times: {said.count('held')} got it")
    report.verdict("pawl's list and watch", said == ["held"] * 20, "nothing is missed: the test forces each moment, one by one")


def play_paused(scene):
    report, stage = scene.report, scene.stage
    store = Store(raw.Redis(stage.redis().port))
    report.side("the broken version: a session that ends while its client is paused, and no token")
    one, two = raw.ZooKeeper(scene.port, 4000), scene.zookeeper
    one.create("/lock/paused", ephemeral=True)
    report.step("client 1", "create /lock/paused (ephemeral) -> it holds; and is paused for longer than its session of 4 s")
    until(lambda: two.create("/lock/paused", ephemeral=True) == "/lock/paused", "its session is over")
    store.put("of client 2")
    report.step("client 2", "create /lock/paused -> it holds, and writes 'of client 2'")
    store.put("of client 1")
    report.step("client 1", f"goes on, and writes: the store has '{store.value()}'")
    report.verdict("a paused holder", store.value() == "of client 1", "ZooKeeper did what it promises, and what client 2 wrote is gone")
    two.delete("/lock/paused")
    report.side("pawl: the holder is told, and a store that compares tokens refuses what came too late")
    one, two = scene.pawl(4000), scene.pawl(60000)
    first = one.do("acquire", "paused", 60000)
    one.stop()
    second = two.do("acquire", "paused", 60000)
    tokens = int(first.split()[1]), int(second.split()[1])
    report.step("pawl 2", f"{second}, while pawl 1 ({first}) is stopped; writes: {store.write(tokens[1], 'of pawl 2')}")
    one.go_on()
    refused, state = store.write(tokens[0], "of pawl 1"), one.do("state", "paused")
    report.step("pawl 1", f"goes on, and writes: {refused}; asks for its hold: {state}")
    held = refused == "refused" and state == "lost" and store.value() == "of pawl 2"
    report.verdict("pawl's token", held, "the lower token was refused, and what pawl 2 wrote is there")


ARTICLE, OTHER = "the ZooKeeper article", "the Redis article"
PLAYS = [
    (
        "A persistent node, and a crash",
        "持久节点，客户端宕机",
        f"{ARTICLE}, 算法流程 step 1; {OTHER}, 13. Zookeeper 节点类型",
        play_persistent_node,
    ),
    ("The herd", "羊群效应", f"{ARTICLE}, 羊群效应 (1,000 clients woken for one lock)", play_herd),
    (
        "The watch that exists leaves behind",
        "exists 留下的监听器",
        f"{ARTICLE}, Curator的源码分析 (getData, not checkExists); {OTHER}, 15. 加锁原理",
        play_exists_leaves_a_watch,
    ),
    ("A list, and then a watch", "先取列表，再设监听", f"{ARTICLE}, 获取列表与设置监听的原子性", play_list_then_watch),
    ("The paused holder, on ZooKeeper too", "停顿的持有者：ZooKeeper 也一样", "the second document's advice (safe, where Redis is not)", play_paused),
]
