# SPDX-License-Identifier: Apache-2.0
"""The figures about Redis. Each function plays its scene on real servers and returns the figure of what happened."""

import threading
import time

import raw
from draw import Chart, Figure, Lanes, Sequence, Tokens, both
from stage import Valve, until

SHORT, LEASE, LONG = 300, 1500, 600000  # ms
DELETE_IF_OWN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
ENTER = """
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    return redis.call('hincrby', KEYS[1], ARGV[1], 1)
end
return 0
"""
LEAVE = """
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count == 0 then redis.call('del', KEYS[1]) end
return count
"""
ONE, TWO, THREE = ("1", ("client 1", "客户端 1")), ("2", ("client 2", "客户端 2")), ("3", ("client 3", "客户端 3"))
SERVER = ("redis", "Redis")


class Scene:
    def __init__(self, stage):
        self.stage, self.port = stage, stage.redis().port
        self.redis = raw.Redis(self.port)
        self.url = f"redis://127.0.0.1:{self.port}"

    def gone(self, key):
        until(lambda: self.redis.do("EXISTS", key) == 0, f"{key} expires")

    def pawl(self, lease_ms=LONG, options=""):
        return self.stage.actor("pawl", self.url + options, lease_ms)

    def scripts(self):
        """How many were run since CONFIG RESETSTAT."""
        lines = self.redis.do("INFO", "commandstats").split("\r\n")
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_eval"))

    def server_ms(self):
        seconds, micros = self.redis.do("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


def nil(answer):
    return "nil" if answer is None else answer


def play_setnx(scene):
    """All send at once; MONITOR shows in which order the server took them."""
    monitor, count = raw.Redis(scene.port), 4
    monitor.do("MONITOR")
    clients = [raw.Redis(scene.port) for _ in range(count)]
    answers, start = {}, threading.Barrier(count)

    def send(number):
        start.wait()
        answers[str(number + 1)] = nil(clients[number].do("SET", "lock", f"client-{number + 1}", "NX", "PX", LONG))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = []
    while len(order) < count:
        line = monitor.answer()
        if '"SET" "lock"' in line:
            order.append(line.split('"client-')[1][0])
    # Which client comes first differs from run to run: the first in the server's row is called client 1.
    sequence = Sequence("", [("redis", "Redis")] + [(str(n + 1), (f"client {n + 1}", f"客户端 {n + 1}")) for n in range(count)])
    for place, number in enumerate(order):
        sequence.ask(str(place + 1), "redis", f"SET lock {place + 1} NX PX …", answers[number])
        if answers[number] == "OK":
            sequence.hold(str(place + 1), "holds")
    under = (
        "They were sent at the same moment. The order is that of the server (MONITOR): all are carried out, one after the other, and NX"
        " lets only the first succeed.",
        "四条命令同时发出，先后由服务器定（MONITOR）：都会执行，一条接一条；因为有 NX，只有第一条成功。",
    )
    return Figure("setnx", ("SET NX: in a row at the server", "SET NX：在服务器上排成一行"), sequence, under=under)


def play_wrong_delete(scene):
    redis = scene.redis
    broken = Sequence(("DEL without looking whose lock it is", "DEL 时不看是谁的锁"), [ONE, SERVER, TWO, THREE])
    broken.ask("1", "redis", f"SET lock 1 NX PX {SHORT}", redis.do("SET", "lock:1", "1", "NX", "PX", SHORT))
    broken.hold("1", "holds")
    broken.note("1", ("(1) works for longer than the expiry", "(1) 业务时间超过过期时间"))
    scene.gone("lock:1")
    broken.hold("1", "believes")
    broken.ask("2", "redis", "SET lock 2 NX PX …", redis.do("SET", "lock:1", "2", "NX", "PX", LONG))
    broken.hold("2", "holds")
    broken.note("2", ("(2) gets it", "(2) 加锁成功"))
    broken.ask("1", "redis", "DEL lock", redis.do("DEL", "lock:1"))
    broken.hold("1", None)
    broken.note("1", ("(3) done, deletes; (4) that was client 2's", "(3) 执行 del；(4) 删掉的是客户端 2 的锁"), "bad")
    broken.hold("2", "believes")
    broken.ask("3", "redis", "SET lock 3 NX PX …", redis.do("SET", "lock:1", "3", "NX", "PX", LONG))
    broken.hold("3", "holds")
    broken.note("3", ("(5) gets it, too", "(5) 也加锁成功"), "bad")

    good = Sequence(("pawl in the same place", "同样的场景，换成 pawl"), [ONE, SERVER, TWO, THREE])
    one, two, three, tokens = scene.pawl(LEASE), scene.pawl(), scene.pawl(), Tokens()
    good.ask("1", "redis", ("acquire", "加锁"), tokens.said(one.do("acquire", "own", LONG)))
    good.hold("1", "holds")
    one.stop()
    good.pause("1", ("stopped for longer than its lease", "停顿，超过了租约"))
    second = two.do("acquire", "own", LONG)
    good.hold("1", None)
    good.ask("2", "redis", ("acquire", "加锁"), tokens.said(second))
    good.hold("2", "holds")
    one.go_on()
    good.resume("1", ("goes on, and releases", "恢复运行，释放锁"))
    good.ask("1", "redis", ("release", "解锁"), one.do("release", "own"))
    good.ask("3", "redis", ("try", "尝试加锁"), three.do("acquire", "own", 0))
    assert two.do("state", "own") == "held"
    good.note("2", ("still holds", "仍然持有"), "good")
    return Figure("wrong-delete", ("The wrong delete, in five steps", "错误删除锁：五步"), broken, good)


def play_check_delete(scene):
    redis = scene.redis
    broken = Sequence(("GET, compare, DEL: three steps", "GET、比较、DEL：三步"), [ONE, SERVER, TWO])
    broken.ask("1", "redis", "SET lock 1 NX PX …", redis.do("SET", "lock:2", "1", "NX", "PX", LEASE))
    broken.hold("1", "holds")
    broken.ask("1", "redis", "GET lock", redis.do("GET", "lock:2"))
    broken.pause("1", ("it is mine; and then a pause (GC)", "是我的；这时出现停顿（GC）"))
    scene.gone("lock:2")
    broken.hold("1", "believes")
    broken.ask("2", "redis", "SET lock 2 NX PX …", redis.do("SET", "lock:2", "2", "NX", "PX", LONG))
    broken.hold("2", "holds")
    broken.resume("1", ("goes on", "恢复运行"))
    broken.ask("1", "redis", "DEL lock", redis.do("DEL", "lock:2"))
    broken.hold("1", None)
    broken.hold("2", "believes")
    broken.note("2", ("its lock is gone, and it does not know", "锁没了，自己却不知道"), "bad")
    good = Sequence(("compare and delete in one script", "比较与删除放进一个脚本"), [ONE, SERVER, TWO])
    redis.do("SET", "lock:2", "2", "NX", "PX", LONG)
    good.hold("2", "holds")
    good.ask("1", "redis", "EVAL 'if GET == mine then DEL'", redis.do("EVAL", DELETE_IF_OWN, 1, "lock:2", "1"))
    good.note("1", ("nothing was deleted", "什么也没删"), "good")
    return Figure("check-delete", ("The pause between check and delete", "比较与删除之间的停顿"), broken, good)


def sampled(scene, key, ms):
    """PTTL of a key over time, by the server's clock."""
    begin, points = scene.server_ms(), []
    while not points or points[-1][0] < ms:
        left = scene.redis.do("PTTL", key)
        points.append((scene.server_ms() - begin, max(left, 0)))
        time.sleep(0.01)  # the distance of two samples
    return points


def play_expiry(scene):
    span = 2 * LEASE + LEASE // 2
    scene.redis.do("SET", "work", "1", "NX", "PX", LEASE)
    plain = sampled(scene, "work", span)
    holder = scene.pawl(LEASE)
    assert holder.do("acquire", "renewed", LONG).startswith("held")
    renewed = sampled(scene, "renewed", span)
    assert holder.do("state", "renewed") == "held"
    chart = Chart(
        both(("{lease} ms, and work that takes longer", "过期时间 {lease} ms，业务时间更长"), lease=LEASE),
        "ms",
        ("time left at the server (PTTL), ms", "服务器上剩余的时间（PTTL），ms"),
        [min(left for _, left in plain) == 0, min(left for _, left in renewed) > 0],
    )
    chart.line(("SET NX PX: it ends while the work goes on", "SET NX PX：业务还没完，锁已过期"), plain)
    chart.line(("pawl: renewed at a third of the lease", "pawl：每过三分之一租约续期一次"), renewed)
    chart.mark(next(at for at, left in plain if left == 0), ("others are let in", "别人可以加锁了"))
    return Figure("expiry", ("An expiry that is too short, and renewal", "过期时间太短，与自动续期"), chart)


def play_reentry(scene):
    redis, sequence = scene.redis, Sequence(("the count at the server, by script", "计数放在服务器上，用脚本维护"), [ONE, SERVER])
    for depth in range(2):
        sequence.ask("1", "redis", "HINCRBY lock uuid 1", redis.do("EVAL", ENTER, 1, "count", "uuid"))
        if depth == 0:
            sequence.hold("1", "holds")
    sequence.note("1", ("if this answer is lost and it asks again, the count is 3", "如果应答丢失而重试，计数就成了 3"), "bad")
    for _ in range(2):
        sequence.ask("1", "redis", "HINCRBY lock uuid -1", redis.do("EVAL", LEAVE, 1, "count", "uuid"))
    sequence.hold("1", None)
    sequence.note("1", ("0: deleted", "为 0 时删除"))
    good = Sequence(("pawl: the count stays in the process", "pawl：计数留在进程里"), [ONE, SERVER])
    holder = scene.pawl()
    enter, again, leave = ("acquire", "加锁"), ("acquire again", "再次加锁"), ("release", "解锁")
    for text, verb in ((enter, "acquire"), (again, "acquire"), (leave, "release"), (leave, "release")):
        redis.do("CONFIG", "RESETSTAT")
        holder.do(verb, "enter", *([LONG] if verb == "acquire" else []))
        asked = scene.scripts()
        fields = redis.do("HGETALL", "enter")
        counts = [count for owner, count in zip(fields[::2], fields[1::2]) if not owner.startswith("@")]
        if asked:
            good.ask("1", "redis", text, both(("count at the server: {n}", "服务器上的计数：{n}"), n=counts[0] if counts else 0))
            good.hold("1", "holds" if counts else None)
        else:
            good.note("1", (f"{text[0]}: no request", f"{text[1]}：不发请求"), "good")
    return Figure("reentry", ("Counting re-entries", "重入计数"), sequence, good)


def pair(stage):
    primary = stage.redis()
    valve = Valve(primary.port)
    replica = stage.redis(f"replicaof 127.0.0.1 {valve.port}").port
    follower = raw.Redis(replica)
    until(lambda: "master_link_status:up" in follower.do("INFO", "replication"), "the replica follows")
    until(lambda: "state=online" in raw.Redis(primary.port).do("INFO", "replication"), "the primary knows its replica")
    return primary, valve, replica, follower


def play_failover(scene):
    stage, lanes = scene.stage, [ONE, ("primary", ("primary", "主节点")), ("replica", ("replica", "从节点")), TWO]
    broken = Sequence(("replication is asynchronous", "复制是异步的"), lanes)
    primary, valve, _, follower = pair(stage)
    valve.shut.set()
    broken.ask("1", "primary", "SET lock 1 NX PX …", raw.Redis(primary.port).do("SET", "lock", "1", "NX", "PX", LONG))
    broken.hold("1", "holds")
    primary.kill()
    broken.crash("primary", ("dies before the replica has heard", "从节点还没收到，它就宕机了"))
    follower.do("REPLICAOF", "NO", "ONE")
    broken.note("replica", ("promoted", "升为主节点"))
    broken.hold("1", "believes")
    broken.ask("2", "replica", "SET lock 2 NX PX …", follower.do("SET", "lock", "2", "NX", "PX", LONG))
    broken.hold("2", "holds")
    broken.note("2", ("both were told OK", "两个都收到了 OK"), "bad")
    good = Sequence(("pawl with ?replicas=1: granted when the replica has it", "pawl 加 ?replicas=1：从节点收到，才算加锁成功"), lanes)
    primary, valve, replica, follower = pair(stage)
    one = stage.actor("pawl", f"redis://127.0.0.1:{primary.port}?replicas=1", LONG)
    answer, copied = one.do("acquire", "lock", LONG), follower.do("EXISTS", "lock")
    good.ask("1", "primary", ("acquire", "加锁"))
    if copied:
        good.ask("primary", "replica", ("replicated", "复制"))
    good.ask("primary", "1", Tokens().said(answer))
    good.note("replica", both(("EXISTS lock → {n}", "EXISTS lock → {n}"), n=copied))
    good.hold("1", "holds")
    primary.kill()
    good.crash("primary", ("dies", "宕机"))
    follower.do("REPLICAOF", "NO", "ONE")
    good.note("replica", ("promoted", "升为主节点"))
    two = stage.actor("pawl", f"redis://127.0.0.1:{replica}", LONG)
    good.ask("2", "replica", ("try", "尝试加锁"), two.do("acquire", "lock", 0))
    good.note("2", ("the lock is there", "锁还在"), "good")
    return Figure("failover", ("A failover that forgets", "主从切换丢锁"), broken, good)


def play_turns(scene):
    """examples/ten_threads: what it prints, and when."""
    rows = scene.stage.example("ten_threads", scene.url, "40")
    moments = {}
    for at, line in rows:
        name, _, rest = line.partition(" ")
        entry = moments.setdefault(name, {})
        entry["asked" if rest.startswith("tries") else "held"] = at
        if "token" in rest:
            entry["token"] = int(rest.rsplit(" ", 1)[1])
    end = rows[-1][0] + 40
    order = sorted(moments, key=lambda name: moments[name]["held"])
    tokens = [moments[name]["token"] for name in order]
    lanes = Lanes(
        (
            "examples/ten_threads.c: dotted waits, filled holds; the number is the order of its token",
            "examples/ten_threads.c：虚线在等待，实心为持有；数字是令牌的次序",
        ),
        [len(order), tokens == sorted(tokens)],
    )
    for index, name in enumerate(order):
        entry = moments[name]
        released = moments[order[index + 1]]["held"] if index + 1 < len(order) else end
        lanes.row(name, entry["asked"], entry["held"], released, index + 1)
    return Figure("turns", ("Ten threads take turns", "十个线程轮流持有"), lanes)


PLAYS = [play_setnx, play_wrong_delete, play_check_delete, play_expiry, play_reentry, play_failover, play_turns]
