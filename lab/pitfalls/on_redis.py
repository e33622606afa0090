# SPDX-License-Identifier: Apache-2.0
"""What the documents warn of on Redis, and pawl in the same place. 'The Redis article' is the one whose sections are numbered, from
"1. 基于Redis实现分布式锁" to "19. 总结"."""

import time

import raw
from built import pawl
from stage import Valve, until

DELETE_IF_OWN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
# As it stands in section 10 of the Redis article, but for the names of its variables and a blank in the word 'expire'.
REENTRANT = """
if (redis.call('exists', KEYS[1]) == 0) then
    redis.call('hset', KEYS[1], ARGV[1], 1);
    redis.call('expire', KEYS[1], ARGV[2]);
    return 1;
end;
if (redis.call('hexists', KEYS[1], ARGV[1]) == 1) then
    redis.call('hincrby', KEYS[1], ARGV[1], 1);
    redis.call('expire', KEYS[1], ARGV[1]);
    return 1;
end;
return 0;
"""

LONG = 600000  # ms: the lease of those to whom nothing happens, however slow the machine


class Scene:
    def __init__(self, stage, report):
        self.stage, self.report = stage, report
        self.server = stage.redis()
        self.port = self.server.port
        self.redis = raw.Redis(self.port)
        self.url = f"redis://127.0.0.1:{self.port}"

    def gone(self, key):
        until(lambda: self.redis.do("EXISTS", key) == 0, f"{key} expires")

    def server_ms(self):
        seconds, micros = self.redis.do("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def scripts(self):
        """How many were run since CONFIG RESETSTAT."""
        lines = self.redis.do("INFO", "commandstats").split("\r\n")
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_eval"))

    def pawl(self, lease_ms=1000, options=""):
        return self.stage.actor("pawl", self.url + options, lease_ms)

    def client(self):
        return self.stage.actor("redis", self.port)


def play_no_expiry(scene):
    report, redis = scene.report, scene.redis
    report.side("the broken version: SETNX, and nothing that ends it")
    one = scene.client()
    report.step("client 1", f"SETNX lock 1 -> {one.do('SETNX', 'lock', 'client-1')}")
    one.crash()
    report.step("client 1", "kill -9 while it works")
    left, again = redis.do("PTTL", "lock"), redis.do("SETNX", "lock", "client-2")
    report.step("client 2", f"SETNX lock 2 -> {again}; PTTL lock -> {left}")
    report.verdict("no expiry and a crash", left == -1 and again == 0, "the lock has no end and no owner: nobody gets it ever again")
    report.side("pawl: every hold has a lease")
    two, three = scene.pawl(), scene.pawl(LONG)
    report.step("pawl 1", two.do("acquire", "pawl", 60000))
    two.crash()
    report.step("pawl 1", "kill -9 while it works")
    got = three.do("acquire", "pawl", 60000)
    report.step("pawl 2", got)
    report.verdict("pawl after a crash", got.startswith("held"), "the next one is let in when the lease has ended")


def options_of_set(report, redis):
    """EX, PX and NX beside the commands that are said to do the same; XX, which has none."""
    report.side("the options of SET, and the older commands")
    same = []
    for option, older, most, ask in (("EX", "SETEX", 100, "TTL"), ("PX", "PSETEX", 100000, "PTTL")):
        redis.do("SET", f"by-{option}", "v", option, most)
        redis.do(older, f"by-{older}", most, "v")
        left = [redis.do(ask, f"by-{name}") for name in (option, older)]
        report.step("client 1", f"SET {option} {most}, {older} {most} -> {ask} {left[0]}, {left[1]}")
        same.append(all(0 < ms <= most for ms in left))
    first = redis.do("SET", "by-NX", "1", "NX"), redis.do("SETNX", "by-SETNX", "1")
    again = redis.do("SET", "by-NX", "2", "NX"), redis.do("SETNX", "by-SETNX", "2")
    kept = redis.do("GET", "by-NX"), redis.do("GET", "by-SETNX")
    report.step("client 1", f"SET NX, SETNX -> {first}; where there is a key -> {again}, and it keeps {kept}")
    same.append(first == ("OK", 1) and again == (None, 0) and kept == ("1", "1"))
    absent, there = redis.do("SET", "by-XX", "1", "XX"), redis.do("SET", "by-NX", "3", "XX")
    report.step("client 1", f"SET XX -> {absent} where there is no key, {there} where another's is")
    same.append(absent is None and there == "OK")
    report.verdict("the options of SET", all(same), "the effects are the same, the answers are not; XX takes another's key, too")


def play_between_setnx_and_expire(scene):
    report, redis = scene.report, scene.redis
    options_of_set(report, redis)
    report.side("the broken version: SETNX, then EXPIRE")
    one = scene.client()
    report.step("client 1", f"SETNX half 1 -> {one.do('SETNX', 'half', 'client-1')}")
    one.crash()
    report.step("client 1", "kill -9 before it could send EXPIRE half 1")
    left = redis.do("PTTL", "half")
    report.step("client 2", f"PTTL half -> {left}")
    report.verdict("a crash between SETNX and EXPIRE", left == -1, "two commands, and only one arrived: the lock never ends")
    report.side("pawl: one script takes the lock and sets its end")
    two = scene.pawl(3000)
    redis.do("CONFIG", "RESETSTAT")
    report.step("pawl 1", two.do("acquire", "whole", 60000))
    left = redis.do("PTTL", "whole")
    asked = scene.scripts()
    two.crash()
    report.step("pawl 1", f"kill -9. It had sent {asked} script; PTTL whole -> {left}")
    got = scene.pawl().do("acquire", "whole", 60000)
    report.step("pawl 2", got)
    report.verdict("pawl's one step", 0 < left <= 3000 and got.startswith("held"), "there was no moment in which it had no end")


def play_wrong_owner(scene):
    report, redis = scene.report, scene.redis
    report.side("the broken version: DEL without looking who holds it")
    report.step("client 1", f"(1) SET del 1 NX PX 50 -> {redis.do('SET', 'del', 'client-1', 'NX', 'PX', 50)}; works too long")
    scene.gone("del")
    two = redis.do("SET", "del", "client-2", "NX", "PX", 600000)
    report.step("client 2", f"(2) SET del 2 NX PX 600000 -> {two}")
    deleted = redis.do("DEL", "del")
    report.step("client 1", f"(3) done: DEL del -> {deleted}   (4) that was client 2's")
    three = redis.do("SET", "del", "client-3", "NX", "PX", 600000)
    report.step("client 3", f"(5) SET del 3 NX PX 600000 -> {three}")
    broke = two == "OK" and deleted == 1 and three == "OK"
    report.verdict("deleted by the wrong owner", broke, "clients 2 and 3 work at the same time")
    report.side("pawl: a release names its owner, and who was too late is told")
    one, two, three = scene.pawl(), scene.pawl(LONG), scene.pawl(LONG)
    first = one.do("acquire", "own", 60000)
    report.step("pawl 1", f"(1) {first}; and is stopped (SIGSTOP)")
    one.stop()
    second = two.do("acquire", "own", 60000)
    report.step("pawl 2", f"(2) {second}")
    one.go_on()
    released = one.do("release", "own")
    report.step("pawl 1", f"(3) goes on, and releases: {released}")
    third, still = three.do("acquire", "own", 0), two.do("state", "own")
    report.step("pawl 3", f"(5) tries: {third}; pawl 2's hold: {still}")
    higher = int(second.split()[1]) > int(first.split()[1])
    held = released == "ELOST" and third == "EHELD" and still == "held" and higher
    report.verdict("pawl's owner", held, "pawl 1 was told that it had lost it, pawl 2 kept it, and its token is the higher one")


def play_check_then_delete(scene):
    report, redis = scene.report, scene.redis
    report.side("the broken version: GET, compare, DEL")
    redis.do("SET", "check", "client-1", "NX", "PX", 2000)
    value = redis.do("GET", "check")
    report.step("client 1", f"GET check -> {value}: it is mine; and then a long pause")
    scene.gone("check")
    two = redis.do("SET", "check", "client-2", "NX", "PX", 600000)
    report.step("client 2", f"SET check 2 NX PX 600000 -> {two}")
    deleted = redis.do("DEL", "check")
    report.step("client 1", f"goes on: DEL check -> {deleted}")
    broke = value == "client-1" and two == "OK" and deleted == 1
    report.verdict("the pause between check and delete", broke, "what it had checked was not so any more: client 2's lock is gone")
    report.side("the documents' own remedy, and pawl's: compare and delete in one script")
    redis.do("SET", "check", "client-2")
    refused = redis.do("EVAL", DELETE_IF_OWN, 1, "check", "client-1")
    report.step("client 1", f"EVAL 'if GET == mine then DEL' -> {refused}")
    one, two = scene.pawl(), scene.pawl(LONG)
    one.do("acquire", "script", 60000)
    one.stop()
    two.do("acquire", "script", 60000)
    one.go_on()
    released, still = one.do("release", "script"), two.do("state", "script")
    report.step("pawl 1", f"stopped until pawl 2 had it, then releases: {released}; pawl 2's hold: {still}")
    held = refused == 0 and released == "ELOST" and still == "held"
    report.verdict("pawl's script", held, "between the check and the deletion there is no moment in which anything could happen")


def play_long_work(scene):
    report, redis = scene.report, scene.redis
    report.side("the broken version: a lease, and work that takes longer")
    report.step("client 1", f"SET work 1 NX PX 50 -> {redis.do('SET', 'work', 'client-1', 'NX', 'PX', 50)}; works on")
    scene.gone("work")
    two = redis.do("SET", "work", "client-2", "NX", "PX", 600000)
    report.step("client 2", f"SET work 2 NX PX 600000 -> {two}, while client 1 still works")
    report.verdict("work that outlives the lease", two == "OK", "two work at the same time, and client 1 does not know")
    report.side("pawl: renewed while it lives, told when it can't be")
    one, two = scene.pawl(3000), scene.pawl(LONG)
    report.step("pawl 1", one.do("acquire", "renewed", 60000) + " for 3000 ms")
    begin = scene.server_ms()
    until(lambda: scene.server_ms() - begin > 6500, "two leases go by")
    tried, state = two.do("acquire", "renewed", 0), one.do("state", "renewed")
    report.step("pawl 2", f"after more than two leases, tries: {tried}; pawl 1's hold: {state}")
    renewed = tried == "EHELD" and state == "held"
    one.stop()
    got = two.do("acquire", "renewed", 60000)
    one.go_on()
    state = one.do("state", "renewed")
    report.step("pawl 1", f"is stopped; pawl 2: {got}; pawl 1 goes on, and asks: {state}")
    told = got.startswith("held") and state == "lost"
    report.verdict("pawl's lease", renewed and told, "it lasted as long as its holder could renew it, and then the holder was told")


def play_reentry(scene):
    report, redis = scene.report, scene.redis
    report.side("the broken version: the holder waits for itself")
    redis.do("SET", "again", "client-1", "NX", "PX", 600000)
    second, holder = redis.do("SET", "again", "client-1", "NX", "PX", 600000), redis.do("GET", "again")
    report.step("client 1", f"SET again 1 NX -> OK, and once more -> {second}; GET again -> {holder}")
    report.verdict("re-entry that deadlocks on itself", second is None and holder == "client-1", "it waits for a lock that it has itself")
    report.side("the script of section 10, as it is printed: EXPIRE with the uuid as the number of seconds")
    uuid = "6c1f0d7e-client-1"
    first = redis.do("EVAL", REENTRANT, 1, "hash", uuid, 600)
    second = redis.do("EVAL", REENTRANT, 1, "hash", uuid, 600)
    count = redis.do("HGET", "hash", uuid)
    report.step("client 1", f"first -> {first}; second -> {second}")
    report.step("client 1", f"HGET hash uuid -> {count}: counted, though the caller saw an error")
    broke = first == 1 and str(second).startswith("-") and count == "2"
    report.verdict("expiry set to the uuid", broke, "one release too few will follow, and the lock stays until its time ends")
    report.side("pawl: the owner enters again; the count stays in the process")
    client = pawl.Client(scene.url, label="pitfalls")
    lock = pawl.Lock("enter", client=client)
    said = [(lock.acquire(blocking=False), lock.token), (lock.acquire(blocking=False), lock.token)]
    fields = redis.do("HGETALL", "enter")
    counts = [count for owner, count in zip(fields[::2], fields[1::2]) if not owner.startswith("@")]  # @: who that is, as text
    states = []
    for _ in said:
        lock.release()
        states.append(lock.state)
    client.close()
    tokens = ", ".join(f"acquired, token {token}" for _, token in said)
    report.step("pawl 1", f"{tokens}, released twice; its count on the server, while it held twice: {counts[0]}")
    held = said[0] == said[1] and said[0][0] and states == [pawl.State.HELD, pawl.State.NOT_HELD] and counts == ["1"]
    report.verdict("pawl's re-entry", held, "as many releases as acquires, one token, and a lost answer can't count twice")


def play_failover(scene):
    report, stage = scene.report, scene.stage

    def pair():
        primary = stage.redis()
        port = primary.port
        valve = Valve(port)
        replica = stage.redis(f"replicaof 127.0.0.1 {valve.port}").port
        follower = raw.Redis(replica)
        until(lambda: "master_link_status:up" in follower.do("INFO", "replication"), "the replica follows")
        until(lambda: "state=online" in raw.Redis(port).do("INFO", "replication"), "the primary knows its replica")
        return port, primary, valve, replica, follower

    def fail_over(primary, follower):
        primary.kill()
        follower.do("REPLICAOF", "NO", "ONE")
        report.step("operator", "the primary is dead; its replica is promoted")

    report.side("the broken version: SET NX PX on a primary that has not told its replica yet")
    port, primary, valve, _, follower = pair()
    valve.shut.set()
    one = raw.Redis(port).do("SET", "lock", "client-1", "NX", "PX", 600000)
    report.step("client 1", f"SET lock 1 NX PX 600000 -> {one}")
    fail_over(primary, follower)
    two = follower.do("SET", "lock", "client-2", "NX", "PX", 600000)
    report.step("client 2", f"SET lock 2 NX PX 600000 -> {two}")
    report.verdict("the lock lost at failover", one == two == "OK", "both were told OK: replication is asynchronous")

    report.side("pawl without ?replicas=: the same can happen, and only the token tells")
    port, primary, valve, replica, follower = pair()
    one = stage.actor("pawl", f"redis://127.0.0.1:{port}", 600000)
    valve.shut.set()
    first = one.do("acquire", "lock", 60000)
    report.step("pawl 1", first)
    fail_over(primary, follower)
    second = stage.actor("pawl", f"redis://127.0.0.1:{replica}", 600000).do("acquire", "lock", 60000)
    report.step("pawl 2", second)
    fenced = second.startswith("held") and int(second.split()[1]) > int(first.split()[1])
    report.verdict("pawl without replicas", fenced, "not exclusive, but fenced: the later token is the higher one")

    report.side("pawl with ?replicas=1: granted when the replica has it")
    port, primary, valve, replica, follower = pair()
    one = stage.actor("pawl", f"redis://127.0.0.1:{port}?replicas=1", 600000)
    first = one.do("acquire", "lock", 60000)
    report.step("pawl 1", first)
    valve.shut.set()
    refused = stage.actor("pawl", f"redis://127.0.0.1:{port}?replicas=1", 600000).do("acquire", "other", 1500)
    report.step("pawl 2", f"wants another lock, and the replica does not hear: {refused}")
    fail_over(primary, follower)
    third = stage.actor("pawl", f"redis://127.0.0.1:{replica}", 600000)
    tried, other = third.do("acquire", "lock", 0), third.do("acquire", "other", 0)
    report.step("pawl 3", f"tries both at the new primary: {tried}, {other}")
    held = first.startswith("held") and not refused.startswith("held") and tried == "EHELD" and other.startswith("held")
    report.verdict("pawl with replicas", held, "what was granted was there after the failover; what could not be was not granted")


def play_polling(scene):
    report, redis, count = scene.report, scene.redis, 100
    report.side(f"the broken version: {count} ask again and again, every 10 ms, for a lock that is held")
    redis.do("SET", "poll", "holder", "NX", "PX", LONG)
    asking = [raw.Redis(scene.port) for _ in range(count)]
    begin, asked = time.monotonic(), 0
    while time.monotonic() - begin < 1:
        round_begin = time.monotonic()
        for client in asking:
            client.do("SET", "poll", "me", "NX", "PX", LONG)
        asked += count
        time.sleep(max(0, 0.01 - (time.monotonic() - round_begin)))  # as such clients do
    seconds = time.monotonic() - begin
    report.step(f"{count} clients", f"{asked / seconds:,.0f} requests a second, and nobody gets any further")
    report.verdict("waiting by polling", asked > count, "the server works for nothing, the more the more wait")
    report.side(f"pawl: {count} wait in a queue at the server")
    one, waiting = scene.pawl(LONG), scene.stage.actor("queue", scene.url + "?handoff=0", LONG, "queued")
    one.do("acquire", "queued", 60000)
    waiting.do("join", count)
    until(lambda: redis.do("ZCARD", "pawl:queue:{queued}") == count, "all of them have queued")
    redis.do("CONFIG", "RESETSTAT")
    begin = scene.server_ms()
    until(lambda: scene.server_ms() - begin > 1000, "a second goes by")
    scripts = scene.scripts()
    report.step(f"{count} waiters", f"{scripts} scripts in a second")
    report.verdict("waiting in pawl's queue", scripts < count // 10, "who waits asks nothing: the server tells the next one")


def play_thread_ids(scene):
    report, redis = scene.report, scene.redis
    report.side("the broken version: the owner is the id of a thread, and every machine has a thread 1")
    mine = redis.do("SET", "thread", "1", "NX", "PX", LONG)
    report.step("machine A", f"its thread 1: SET thread 1 NX -> {mine}")
    deleted = redis.do("EVAL", DELETE_IF_OWN, 1, "thread", "1")
    report.step("machine B", f"its thread 1 releases what it does not hold: 'if GET == 1 then DEL' -> {deleted}")
    report.verdict("ids of threads as owners", mine == "OK" and deleted == 1, "compared and found equal: B deleted the lock of A")
    report.side("pawl: every claim has an owner of its own")
    one, two = scene.pawl(LONG), scene.pawl(LONG)
    got = one.do("acquire", "owner", 60000)
    released, state = two.do("release", "owner"), one.do("state", "owner")
    report.step("pawl 2", f"releases what pawl 1 has: {released}; pawl 1's hold: {state}")
    owners = [owner for owner in redis.do("HGETALL", "owner")[::2] if not owner.startswith("@")]
    held = got.startswith("held") and released == "ENOTHELD" and state == "held"
    report.step("pawl 1", f"is stored as {owners[0]}")
    report.verdict("pawl's owners", held, "a random number of the process, and a count: never the same twice")


ARTICLE = "the Redis article"
PLAYS = [
    ("No expiry, and a crash", "没有过期时间，程序崩溃", f"{ARTICLE}, 3. 死锁问题 (deadlock)", play_no_expiry),
    ("A crash between SETNX and EXPIRE", "加锁后、设置过期时间前崩溃", f"{ARTICLE}, 3. 死锁问题, 4. 使用原子命令", play_between_setnx_and_expire),
    ("The lock deleted by the wrong owner", "错误删除锁", f"{ARTICLE}, 6. 错误删除锁问题, its five steps", play_wrong_owner),
    ("The pause between check and delete", "比较与删除之间的停顿", f"{ARTICLE}, 7. 加入锁标识, 8. 引入lua脚本", play_check_then_delete),
    ("Work that outlives the lease", "业务时间超过过期时间", f"{ARTICLE}, 9. 自动续期问题 (renewal)", play_long_work),
    ("Re-entry that deadlocks on itself", "不可重入，自己等自己", f"{ARTICLE}, 10. 可重入锁 (re-entry)", play_reentry),
    ("The lock lost at failover", "主从切换丢锁", f"{ARTICLE}, 18. Redis 和 Zookeeper 锁对比 (consistency)", play_failover),
    ("What polling costs", "不断尝试获取锁", "the second document, 两种方案的优缺点比较 (it asks again and again)", play_polling),
    ("Ids of threads as owners", "用线程 id 作锁标识", f"{ARTICLE}, 7. 加入锁标识; the first document's release by threadId", play_thread_ids),
]
