# SPDX-License-Identifier: Apache-2.0
"""The figures about Redlock, and about the token that helps where no lock can. Played on five real Redis servers without persistence."""

from draw import Figure, Sequence, Tokens
from on_redis import DELETE_IF_OWN, LEASE, LONG, ONE, TWO, nil
from stage import Clock, Five, Store, until

NAMES = "ABCDE"
UNDER = (
    "Redlock's majority rests on servers that remember, on clocks that run alike, and on clients that look at the time."
    " Each of these can fail.",
    "Redlock 的多数派依赖三件事：服务器不忘事，时钟走得一样快，客户端会看时间。哪一件都可能落空。",
)

WORDS = {"written": ("written", "已写入"), "refused": ("refused", "拒绝")}


class Scene:
    """Five servers for each figure: what one of them forgets, no other figure misses."""

    def __init__(self, stage):
        self.stage = stage

    def five(self, clock=None):
        self.servers = Five(self.stage, clock)
        return self.servers.url

    def vote(self, sequence, who, names, lease=LONG):
        """Ask these servers for a vote; returns the answers."""
        answers = []
        for name in names:
            answers.append(nil(self.servers.redis[name].do("SET", "lock", who, "NX", "PX", lease)))
            sequence.ask(who, name, "SET NX", answers[-1])
        return answers


def lanes():
    return [ONE] + [(name, name) for name in NAMES] + [TWO]


def count(answers, *before):
    return sum(answer == "OK" for answer in [*answers, *before])


def play_majority(scene):
    scene.five()
    sequence = Sequence("", lanes())
    first, last = scene.vote(sequence, "1", "ABC"), scene.vote(sequence, "2", "ED")
    first += scene.vote(sequence, "1", "DE")
    last += scene.vote(sequence, "2", "CBA")
    assert (count(first), count(last)) == (3, 2)
    sequence.hold("1", "holds")
    sequence.note("1", ("3 of 5: it holds", "5 票得 3：获得锁"), "good")
    sequence.note("2", ("2 of 5: it takes its votes back", "5 票得 2：撤回自己的票"))
    for name in "ED":
        gone = scene.servers.redis[name].do("EVAL", DELETE_IF_OWN, 1, "lock", "2")
        sequence.ask("2", name, ("DEL if mine", "比对后 DEL"), gone)
    return Figure("redlock-majority", ("Redlock: a majority of five servers", "Redlock：五台服务器的多数派"), sequence)


def play_restart(scene):
    scene.five()
    sequence = Sequence("", lanes())
    assert count(scene.vote(sequence, "1", "ABC")) == 3
    sequence.hold("1", "holds")
    sequence.note("1", ("3 of 5; D and E did not hear it", "5 票得 3；D 和 E 没收到请求"))
    scene.servers.restart("C")
    sequence.crash("C", ("restarts without persistence: it has forgotten", "未开持久化，重启后忘了"))
    sequence.resume("C", "")
    assert count(scene.vote(sequence, "2", "CDE")) == 3
    sequence.hold("1", "believes")
    sequence.hold("2", "holds")
    sequence.note("2", ("3 of 5, too", "也得了 3 票"), "bad")
    title = ("Redlock: a server restarts and has forgotten", "Redlock：服务器重启后忘了")
    return Figure("redlock-restart", title, sequence, under=UNDER)


def play_clock(scene):
    clock = Clock()
    scene.five(clock)
    sequence = Sequence("", lanes())
    assert count(scene.vote(sequence, "1", "ABC")) == 3
    sequence.hold("1", "holds")
    clock.jump(2 * LONG)
    until(lambda: scene.servers.redis["C"].do("EXISTS", "lock") == 0, "the key at C is over")
    sequence.note("C", ("its clock jumps ahead: to C the lock has expired", "时钟向前跳：在 C 看来锁已过期"), "bad")
    assert count(scene.vote(sequence, "2", "CDE")) == 3
    sequence.hold("1", "believes")
    sequence.hold("2", "holds")
    sequence.note("2", ("3 of 5, too", "也得了 3 票"), "bad")
    title = ("Redlock: a clock jumps", "Redlock：时钟跳变")
    return Figure("redlock-clock", title, sequence, under=UNDER)


def write(store, sequence, who, token, text):
    label = ("write, token A", "写入，令牌 A") if who == "1" else ("write, token B", "写入，令牌 B")
    answer = store.write(token, text)
    sequence.ask(who, "store", label, WORDS[answer])
    return answer


def play_pause(scene):
    url = scene.five()
    store, parts = Store(scene.servers.redis["A"]), []
    for heading, fenced in (
        (("a store that takes every write", "来者不拒的存储"), False),
        (("a store that refuses the lower token", "拒绝较小令牌的存储"), True),
    ):
        name = f"pause-{fenced}"
        one, two = scene.stage.actor("pawl", url, LEASE), scene.stage.actor("pawl", url, LONG)
        sequence = Sequence(heading, [ONE, ("redlock", "redlock:"), ("store", ("store", "存储")), TWO])
        first = one.do("acquire", name, LONG)
        tokens = Tokens()
        sequence.ask("1", "redlock", ("acquire", "加锁"), tokens.said(first))
        sequence.hold("1", "holds")
        one.stop()
        sequence.pause("1", ("a pause, longer than the lease", "停顿，超过了租约"))
        second = two.do("acquire", name, LONG)
        sequence.hold("1", "believes")
        sequence.ask("2", "redlock", ("acquire", "加锁"), tokens.said(second))
        first, second = int(first.split()[1]), int(second.split()[1])
        sequence.hold("2", "holds")
        if fenced:
            assert write(store, sequence, "2", second, "of 2") == "written"
        else:
            sequence.ask("2", "store", ("write", "写入"), WORDS["written"] if store.put("of 2") >= 0 else "?")
        one.go_on()
        sequence.resume("1", ("goes on where it was", "从原处继续运行"))
        if fenced:
            assert write(store, sequence, "1", first, "of 1") == "refused"
            sequence.note("1", ("nothing was overwritten", "没有数据被覆盖"), "good")
        else:
            sequence.ask("1", "store", ("write", "写入"), WORDS["written"] if store.put("of 1") >= 0 else "?")
            assert store.value() == "of 1"
            sequence.note("1", ("what client 2 wrote is gone", "客户端 2 写的被覆盖了"), "bad")
        assert one.do("state", name) == "lost"
        sequence.hold("1", None)
        parts.append(sequence)
    title = ("A pause, and the token that helps", "停顿，与能挡住它的令牌")
    return Figure("redlock-pause", title, *parts)


PLAYS = [play_majority, play_restart, play_clock, play_pause]
