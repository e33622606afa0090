# SPDX-License-Identifier: Apache-2.0
"""What is said against Redlock, and pawl's redlock: in the same place, on five real servers without persistence."""

from stage import Clock, Five, Store, until

LEASE, LONG = 1500, 600000  # ms
FIRST, SECOND = "client-1", "client-2"


class Scene:
    def __init__(self, stage, report):
        self.stage, self.report = stage, report

    def votes(self, five, who, names, lease=LONG):
        """Ask these servers, as a client of Redlock does; returns how many gave their vote."""
        given = [name for name in names if five.redis[name].do("SET", "lock", who, "NX", "PX", lease) == "OK"]
        self.report.step(who.replace("-", " "), f"SET lock NX at {' '.join(names)} -> OK from {' '.join(given) or 'none'}")
        return len(given)


def token_of(said):
    return int(said.split()[1]) if said.startswith("held") else 0


def play_restart(scene):
    report, five = scene.report, Five(scene.stage)
    report.side("the broken version: a majority that knows of the lock, and one of it forgets")
    first = scene.votes(five, FIRST, "ABC")
    five.restart("C")
    report.step("server C", "restarts without persistence")
    second = scene.votes(five, SECOND, "CDE")
    report.verdict("a restart without persistence", first == second == 3, "both have three of five: two work at the same time")
    report.side("pawl in the same place: D and E are down when it takes the lock, then C forgets")
    five = Five(scene.stage)
    five.kill("D")
    five.kill("E")
    one = scene.stage.actor("pawl", five.url, LONG)
    got = one.do("acquire", "lock", 60000)
    report.step("pawl 1", got)
    for name in "CDE":
        five.restart(name)
    report.step("servers", "D and E are there again, and C has restarted without persistence")
    then = scene.stage.actor("pawl", five.url, LONG).do("acquire", "lock", 2000)
    report.step("pawl 2", then)
    fenced = got.startswith("held") and (not then.startswith("held") or token_of(then) > token_of(got))
    fence, refusal = "two hold, and the later token is the higher one: fenced", "pawl 1 had asked D and E again: it was not let in"
    report.verdict("pawl and a restart without persistence", fenced, fence if then.startswith("held") else refusal)


def play_clock(scene):
    report, clock = scene.report, Clock()
    five = Five(scene.stage, clock)
    report.side("the broken version: a server ends keys by its clock, and the clock jumps")
    first = scene.votes(five, FIRST, "ABC")
    clock.jump(2 * LONG)
    until(lambda: five.redis["C"].do("EXISTS", "lock") == 0, "the key at C is over")
    report.step("server C", "its clock jumps ahead by 20 minutes: to it the lock has expired")
    second = scene.votes(five, SECOND, "CDE")
    report.verdict("a clock that jumps", first == second == 3, "both have three of five: two work at the same time")
    report.side("pawl in the same place")
    clock = Clock()
    five = Five(scene.stage, clock)
    one = scene.stage.actor("pawl", five.url, LONG)
    got = one.do("acquire", "lock", 60000)
    report.step("pawl 1", got + ", with the votes of all that answer")
    # A majority grants at once; the votes of the others come a moment later.
    until(lambda: all(redis.do("EXISTS", "lock") == 1 for redis in five.redis.values()), "all five have voted")
    clock.jump(2 * LONG)
    until(lambda: five.redis["C"].do("EXISTS", "lock") == 0, "the key at C is over")
    tried, state = scene.stage.actor("pawl", five.url, LONG).do("acquire", "lock", 0), one.do("state", "lock")
    report.step("pawl 2", f"tries after C's clock has jumped: {tried}; pawl 1's hold: {state}")
    held = got.startswith("held") and tried == "EHELD" and state == "held"
    report.verdict("pawl and a clock that jumps", held, "one wrong clock of five gives nobody a majority; with more, the token tells")


def play_pause(scene):
    report, five = scene.report, Five(scene.stage)
    store = Store(five.redis["A"])
    report.side("the broken version: a client that is paused for longer than its votes last")
    first = scene.votes(five, FIRST, "ABCDE", 200)
    for name in "ABCDE":
        until(lambda server=name: five.redis[server].do("EXISTS", "lock") == 0, "the votes are over")
    report.step("client 1", "was paused meanwhile")
    second = scene.votes(five, SECOND, "ABCDE")
    store.put("of client 2")
    report.step("client 2", "writes 'of client 2'")
    store.put("of client 1")
    report.step("client 1", f"goes on, and writes: the store has '{store.value()}'")
    broke = first == second == 5 and store.value() == "of client 1"
    report.verdict("a paused client of Redlock", broke, "five servers do not help: what client 2 wrote is gone")
    report.side("pawl, and a store that refuses the lower token")
    one, two = scene.stage.actor("pawl", five.url, LEASE), scene.stage.actor("pawl", five.url, LONG)
    got = one.do("acquire", "paused", 60000)
    report.step("pawl 1", f"{got}; and is stopped (SIGSTOP)")
    one.stop()
    then = two.do("acquire", "paused", 60000)
    report.step("pawl 2", f"{then}; writes: {store.write(token_of(then), 'of pawl 2')}")
    one.go_on()
    refused = store.write(token_of(got), "of pawl 1")
    report.step("pawl 1", f"goes on, and writes: {refused}; the store has '{store.value()}'; its hold: {one.do('state', 'paused')}")
    held = refused == "refused" and store.value() == "of pawl 2"
    report.verdict("pawl's token at the store", held, "the lower token was refused, and what pawl 2 wrote is there")


PAGE = "Kleppmann, How to do distributed locking, as the second document names it"
PLAYS = [
    ("Redlock, and a restart without persistence", "Redlock：未持久化的节点重启", PAGE, play_restart),
    ("Redlock, and a clock that jumps", "Redlock：时钟跳变", PAGE, play_clock),
    ("Redlock, and a client that is paused", "Redlock：客户端停顿", PAGE, play_pause),
]
