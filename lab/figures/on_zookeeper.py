# SPDX-License-Identifier: Apache-2.0
"""The figures about ZooKeeper. Each function plays its scene on a real server and returns the figure of what happened."""

import re
import time

import raw
from draw import Chart, Figure, Sequence, Tokens, Trees, both
from stage import until

SESSION = 4000  # ms: of those that are killed
LONG = 60000
HERD, HAND_OFFS = 1000, 5
EVENTS = {
    1: ("event: created", "事件：节点创建"),
    2: ("event: deleted", "事件：节点删除"),
    3: ("event: data changed", "事件：数据修改"),
    4: ("event: children changed", "事件：子节点变更"),
}
CLIENTS = ["client 1", "client 2", "client 3"]


class Scene:
    def __init__(self, stage):
        self.stage, self.port = stage, stage.zookeeper().port
        self.zookeeper = raw.ZooKeeper(self.port)

    def pawl(self, session_ms=LONG, options=""):
        return self.stage.actor("pawl", f"zk://127.0.0.1:{self.port}/pawl{options}", session_ms)

    def requests(self):
        """How many the server has received so far."""
        return int(re.search(r"zk_packets_received\s+(\d+)", raw.word(self.port, "mntr"))[1])

    def settle(self):
        """Until nobody has anything more to ask: of twenty looks in a row each finds no more requests than its own."""
        seen = []

        def quiet():
            seen.append(self.requests())
            return len(seen) > 20 and seen[-1] - seen[-21] <= 25

        until(quiet, "nobody asks any more")

    def watchers(self):
        """Which sessions watch which path."""
        found, path = [], ""
        for line in raw.word(self.port, "wchp").splitlines():
            if line.startswith("/"):
                path = line.strip()
            elif line.strip():
                found.append((int(line.strip(), 16), path))
        return found


def short(name):
    """The number that the server gave, and what stands before it; not the mark by which a client finds its node again."""
    return re.sub(r"^_c_.*?-(?=lock-)", "_c_…-", name)


def play_znodes(scene):
    zookeeper = scene.zookeeper
    zookeeper.create("/kinds")
    client = raw.ZooKeeper(scene.port)
    kinds = [("persistent", False, False), ("persistent-", False, True), ("ephemeral", True, False), ("ephemeral-", True, True)]
    made = [client.create(f"/kinds/{name}", ephemeral, sequence).rsplit("/", 1)[1] for name, ephemeral, sequence in kinds]
    notes = [
        ("persistent", "持久节点"),
        ("persistent, sequential", "持久顺序节点"),
        ("ephemeral", "临时节点"),
        ("ephemeral, sequential", "临时顺序节点"),
    ]

    def nodes():
        there, found = set(zookeeper.children("/kinds")), []
        for name, note in zip(made, notes):
            if name in there:
                found.append((name, "ephemeral" if zookeeper.owner(f"/kinds/{name}") else "persistent", "", note))
        return found

    trees = Trees("", "/kinds")
    trees.stage(("a client makes one node of each kind", "一个客户端把四种节点各建一个"), nodes())
    client.end()
    until(lambda: len(zookeeper.children("/kinds")) == 2, "the ephemeral nodes are gone")
    trees.stage(("after its session ended", "它的会话结束之后"), nodes())
    under = (
        "Dashed: ephemeral. It goes with the session, not with the connection. The number is a counter of the parent's and never goes"
        " back.",
        "虚线为临时节点：它随会话消失，而不是随连接消失。序号来自父节点的计数器，永不回退。",
    )
    return Figure("znodes", ("Four kinds of znodes, before and after their client goes", "四种 Znode：客户端离开前后"), trees, under=under)


class Queue:
    """Three clients of pawl at one lock, and what the server shows of them."""

    def __init__(self, scene, name, first_session=LONG):
        self.scene, self.name, self.path = scene, name, f"/pawl/{name}"
        self.actors = [scene.pawl(first_session if index == 0 else LONG) for index in range(3)]
        self.owner, self.order = {}, []
        for index, actor in enumerate(self.actors):
            if index == 0:
                assert actor.do("acquire", name, LONG).startswith("held")
            else:
                actor.tell("acquire", name, LONG)
            until(lambda count=index + 1: len(self.children()) == count, "it has queued")
            for child in self.children():
                if child not in self.owner:
                    self.owner[child] = CLIENTS[index]
                    self.order.append(child)

    def children(self):
        return scene_children(self.scene, self.path)

    def watches(self):
        """(client, node, how far ahead) for those that are watched by another than their owner."""
        sessions = {self.scene.zookeeper.owner(f"{self.path}/{child}"): child for child in self.children()}
        found = []
        for session, path in self.scene.watchers():
            name = path.rsplit("/", 1)[1]
            if session in sessions and path.startswith(self.path + "/") and name in self.order and name != sessions[session]:
                ahead = self.order.index(sessions[session]) - self.order.index(name)
                found.append((self.owner[sessions[session]], short(name), ahead))
        return sorted(found)

    def nodes(self, gone=()):
        there = self.children()
        first, found = min(there, key=lambda name: name[-10:], default=None), []
        for child in self.order:
            if child in there:
                kind, note = ("ephemeral holds", ("holds", "持有锁")) if child == first else ("ephemeral", ("waits", "等待"))
                found.append((short(child), kind, self.owner[child], note))
            elif child in gone:
                found.append((short(child), "gone", self.owner[child], ("deleted", "已删除")))
        return found

    def watched(self, count):
        """Each that waits watches the one ahead of it; and the second ahead, where there is one."""
        expected = sorted([1] * count + [2] * max(count - 1, 0))
        until(lambda: sorted(ahead for _, _, ahead in self.watches()) == expected, "each watches the one ahead")
        return self.watches()


def scene_children(scene, path):
    return [name for name in scene.zookeeper.children(path) if "-lock-" in name]


def play_queue(scene):
    queue = Queue(scene, "queue")
    trees = Trees("", "/pawl/queue")
    watches = queue.watched(2)
    nodes = queue.nodes()
    for count, caption in (
        (1, ("client 1 comes: its node is the first, it holds", "客户端 1 到来：它的节点最靠前，获得锁")),
        (2, ("client 2 watches the node ahead of its own", "客户端 2 监听排在自己前面的节点")),
        (3, ("client 3 watches that of client 2, not the first", "客户端 3 监听的是前一个，不是第一个")),
    ):
        names = {node[0] for node in nodes[:count]}
        trees.stage(caption, nodes[:count], [watch for watch in watches if watch[1] in names and watch[0] in CLIENTS[:count]])
    under = (
        "Arrows: watches that the server lists (wchp). A release wakes the next one alone. Thin: pawl also looks at the second ahead, off"
        " the critical path, which saves a list when its turn comes.",
        "箭头为服务器列出的监听（wchp）。一次释放只唤醒下一个。细线：pawl 还会顺带监听再前面的一个，轮到自己时就省去一次取列表。",
    )
    return Figure("queue", ("The queue: who watches whom", "等待队列：谁监听谁"), trees, under=under)


def play_release(scene):
    queue = Queue(scene, "release")
    trees = Trees("", "/pawl/release")
    trees.stage(("client 1 holds", "客户端 1 持有锁"), queue.nodes(), queue.watched(2))
    for index, caption in (
        (0, ("it deletes its node; client 2 alone is woken", "它删除自己的节点，只有客户端 2 被唤醒")),
        (1, ("client 2 does the same; client 3 holds", "客户端 2 同样释放，客户端 3 获得锁")),
    ):
        assert queue.actors[index].do("release", "release") == "released"
        assert queue.actors[index + 1].hear().startswith("held")
        until(lambda left=2 - index: len(queue.children()) == left, "the node is gone")
        trees.stage(caption, queue.nodes(gone=queue.order[: index + 1]), queue.watched(1 - index))
    return Figure("release", ("Release: the next one is woken", "释放锁：唤醒下一个"), trees)


def play_crash(scene):
    queue = Queue(scene, "crash", SESSION)
    trees = Trees("", "/pawl/crash")
    trees.stage(("client 1 holds", "客户端 1 持有锁"), queue.nodes(), queue.watched(2))
    queue.actors[0].crash()
    trees.stage(("kill -9: the node is still there", "kill -9：节点还在"), queue.nodes(), queue.watched(2), crashed=[CLIENTS[0]])
    assert queue.actors[1].hear().startswith("held")
    until(lambda: len(queue.children()) == 2, "the node is gone")
    trees.stage(("its session has ended: client 2 holds", "会话超时之后：客户端 2 获得锁"), queue.nodes(gone=queue.order[:1]), queue.watched(1))
    under = (
        f"The session was {SESSION} ms here; 15 s by default. Until it has ended nobody else can know that the client is dead.",
        f"这里的会话超时为 {SESSION} ms，默认 15 s。在它到期之前，别人无从得知客户端已经死了。",
    )
    return Figure("crash", ("A crash: the node goes with the session", "客户端崩溃：节点随会话消失"), trees, under=under)


def counted(scene, step):
    """Do `step` HAND_OFFS times; the requests that the server has received, over time."""
    begin, before, points = time.monotonic(), scene.requests(), [(0, 0)]
    for number in range(HAND_OFFS):
        step(number)
        points.append(((time.monotonic() - begin) * 1000, scene.requests() - before - number - 1))
    return points


def measured(points):
    """How many requests in all, and in which time."""
    ms, requests = points[-1]
    return both((": {requests} requests in {ms} ms", "：{ms} ms 内 {requests} 个请求"), requests=f"{requests:,}", ms=f"{ms:,.0f}")


def play_herd(scene):
    zookeeper = scene.zookeeper
    zookeeper.create("/herd")
    clients = [raw.ZooKeeper(scene.port) for _ in range(HERD + HAND_OFFS)]
    nodes = [client.create("/herd/lock-", ephemeral=True, sequence=True) for client in clients]
    for client in clients:
        client.children("/herd", watch=True)

    def release(number):
        clients[number].delete(nodes[number])
        for client in clients[number + 1 :]:
            client.event()
            client.children("/herd", watch=True)

    herd = counted(scene, release)
    for client in clients:
        client.close()
    sessions = [scene.stage.actor("queue", f"zk://127.0.0.1:{scene.port}/pawl?handoff=0", LONG, "herd") for _ in range(20)]
    for session in sessions:
        session.do("join", (HERD + HAND_OFFS) // len(sessions))
    until(lambda: len(scene.zookeeper.children("/pawl/herd")) >= HERD, "all of them have queued")
    scene.settle()
    holders = []

    def hand_on(_):
        until(lambda: any(holder(session) for session in sessions), "one of them holds")

    def holder(session):
        if session.do("release") == "released":
            holders.append(session)
            return True
        return False

    chain = counted(scene, hand_on)
    chart = Chart(
        both(("{count} wait; {times} hand-offs", "{count} 个等待者，{times} 次交接"), count=f"{HERD:,}", times=HAND_OFFS),
        "ms",
        ("requests to the server, in all", "服务器收到的请求总数"),
        [HERD, HAND_OFFS, herd[-1][1] >= HERD * HAND_OFFS, chain[-1][1] < HERD],
    )
    chart.line(("all watch the directory", "都监听父节点"), herd, measured(herd))
    chart.line(("each watches the one ahead (pawl)", "各自监听前一个（pawl）"), chain, measured(chain))
    return Figure("herd", ("The herd, and the chain", "羊群效应与排队链"), chart)


def play_missed(scene):
    zookeeper = scene.zookeeper
    zookeeper.create("/missed")

    def pair():
        one, two = raw.ZooKeeper(scene.port), raw.ZooKeeper(scene.port)
        return one, one.create("/missed/lock-", True, True), two, two.create("/missed/lock-", True, True)

    lanes = [("a", ("client a", "客户端 a")), ("zk", "ZooKeeper"), ("b", ("client b", "客户端 b"))]
    parts = []
    for heading, atomic in (
        (("list, and only then watch: the event is missed", "先取列表，再设监听：错过事件"), False),
        (("list and watch in one request: it can't be missed", "取列表与设监听是同一个请求：不会错过"), True),
    ):
        one, node, two, _ = pair()
        sequence = Sequence(heading, lanes)
        sequence.hold("a", "holds")
        seen = two.children("/missed", watch=atomic)
        sequence.ask("b", "zk", "getChildren(/missed, watch)" if atomic else "getChildren(/missed)", ", ".join(n[-5:] for n in seen[-2:]))
        sequence.note("b", ("not first: it has to wait", "不是第一个，要等待"))
        sequence.ask("a", "zk", f"delete(…{node[-5:]})", "OK" if one.delete(node) == 0 else "?")
        sequence.hold("a", None)
        if atomic:
            sequence.ask("zk", "b", EVENTS[two.event()])
            again = two.children("/missed", watch=True)
            sequence.ask("b", "zk", "getChildren(/missed, watch)", ", ".join(n[-5:] for n in again))
            sequence.hold("b", "holds")
            sequence.note("b", ("first now: it holds", "现在是第一个：获得锁"), "good")
        else:
            # What it waits for has happened: getData with a watch says so, but this program does not look.
            watches = len(scene.watchers())
            answer = two.exists(node, True)
            sequence.ask("b", "zk", f"exists(…{node[-5:]}, watch)", "NONODE" if answer == raw.ZooKeeper.NONODE else "?")
            assert len(scene.watchers()) == watches + 1
            sequence.note("b", ("a number never comes again: it waits for ever", "序号不会再次出现：永远等不到"), "bad")
        for client in (one, two):
            client.end()
        until(lambda: not zookeeper.children("/missed"), "the nodes are gone")
        parts.append(sequence)
    title = ("List and watch: why they must be one request", "取列表与设监听：为什么必须是一个请求")
    return Figure("missed", title, *parts)


def play_paused(scene):
    """What no lock prevents: a holder that is paused for longer than its session."""
    one, two = scene.pawl(SESSION), scene.pawl()
    lanes = [("1", ("client 1", "客户端 1")), ("zk", "ZooKeeper"), ("2", ("client 2", "客户端 2"))]
    sequence = Sequence("", lanes)
    tokens = Tokens()
    sequence.ask("1", "zk", ("acquire", "加锁"), tokens.said(one.do("acquire", "paused", LONG)))
    sequence.hold("1", "holds")
    two.tell("acquire", "paused", LONG)
    until(lambda: len(scene_children(scene, "/pawl/paused")) == 2, "the second one has queued")
    sequence.ask("2", "zk", ("acquire", "加锁"), ("queued", "排队等待"))
    one.stop()
    sequence.pause("1", ("a pause (SIGSTOP), longer than its session", "停顿（SIGSTOP），超过了会话超时"))
    second = two.hear()
    sequence.hold("1", "believes")
    sequence.ask("zk", "2", tokens.said(second))
    sequence.hold("2", "holds")
    one.go_on()
    state = one.do("state", "paused")
    sequence.resume("1", ("goes on, and works before it looks", "恢复运行，先干活后检查"))
    assert state == "lost"
    sequence.note("1", ("then it is told: lost", "随后得知：锁已丢失"), "bad")
    sequence.hold("1", None)
    under = (
        "On ZooKeeper as on Redis: between the pause's end and the first look two may act. A store that refuses the lower"
        " token is what helps.",
        "ZooKeeper 与 Redis 一样：从恢复运行到第一次检查之间，可能有两个在干活。能挡住的，是拒绝较小令牌的存储。",
    )
    return Figure("paused", ("The paused holder, on ZooKeeper too", "停顿的持有者：ZooKeeper 也一样"), sequence, under=under)


PLAYS = [play_znodes, play_queue, play_release, play_crash, play_herd, play_missed, play_paused]
