# SPDX-License-Identifier: Apache-2.0
"""pawl web in a real browser: what the page shows, what it lets one do, and what it never does."""

import json
import os
import re
import subprocess
import urllib.parse

import webdriver
from web_common import LOCKS, PATIENCE, PAWL, Web, check, equal, finish, hold, scratch, skip, start, status, wait_behind

HOSTILE = {
    "<img src=x onerror=alert(1)>": "\"><script>document.title='cracked'</script>",
    "x" * 255: "long",
    "\u202egnp.exe": "\u202eright to left",
    "a'b\"c&amp;`$(id)": "javascript:alert(1)",
}
DASH = "-uredis://evil.example"
NARROW, WIDE, HEIGHT = 400, 1280, 900
VIEWS = {
    "locks": "#/",
    "waits": "#/waits",
    "events": "#/events",
    "health": "#/health",
    "one lock": "#/lock/deploy",
    "a lock with a long name": "#/lock/" + "x" * 255,
}
ESCAPE, ENTER = "\ue00c", "\ue007"
with open(os.path.join(os.path.dirname(__file__), "web_probe.js"), encoding="utf-8") as file:
    PROBE = file.read() + "\nreturn "


def go(browser, where):
    browser.run("location.hash = arguments[0]", where)
    browser.wait("return document.querySelector('main').innerText.length > 10")


def rows(browser):
    browser.wait(PROBE + "rowElements().length")
    return {row["name"]: row for row in browser.run(PROBE + "rows()")}


def the_list(browser):
    truth = {lock["name"]: lock for lock in status()}
    shown = rows(browser)
    equal("every lock has a row", sorted(truth), sorted(shown))
    for name, lock in truth.items():
        row = shown.get(name, {})
        wanted = (lock["holders"][0]["token"], str(len(lock["waiters"])))
        equal(f"{ascii(name[:20])}: token and queue as pawl status has them", wanted, (row.get("token"), row.get("waiters")))
    equal("names that are markup are text", 0, browser.run("return document.querySelectorAll('main img, main script').length"))
    equal("the key is not in the address", "#/", browser.run("return location.hash"))


def hand_off(browser):
    holder = hold("handed")
    waiter = wait_behind("handed")
    token = status("handed")[0]["holders"][0]["token"]
    equal("a new lock appears by itself", token, browser.wait(PROBE + "tokenShown('handed')"))
    holder.terminate()
    browser.wait(PROBE + "![arguments[0], ''].includes(tokenShown('handed'))", token, what="the next token")
    equal("a row changes after a hand-off", status("handed")[0]["holders"][0]["token"], browser.run(PROBE + "tokenShown('handed')"))
    waiter.terminate()
    browser.wait(PROBE + "tokenShown('handed') === ''", what="a lock that is free goes")


def keyboard(browser):
    browser.keys("/")
    browser.keys("release 4182")
    browser.wait(PROBE + "rowElements().length === 1", what="the search for a label")
    browser.keys(ESCAPE)
    browser.keys("j" + ENTER)
    browser.wait("return document.querySelector('h1')?.textContent === 'deploy'", what="the lock that was chosen by keys")
    browser.keys(ESCAPE)
    browser.wait("return location.hash === '#/'")
    for key, view in ("2", "waits"), ("3", "events"), ("4", "health"), ("1", ""):
        browser.keys(key)
        browser.wait("return location.hash === '#/' + arguments[0]", view, what=f"the view behind {key}")
    browser.run("const q = document.getElementById('q'); q.value = ''; q.dispatchEvent(new Event('input'))")
    check("it can be used without a mouse", True)


def the_queue(browser):
    go(browser, "#/lock/deploy")
    browser.wait("return document.querySelectorAll('.link').length === 3", what="one holder and two who wait")
    shown = browser.run("return [...document.querySelectorAll('.link')].map(el => el.innerText)")
    look = subprocess.run([PAWL, "status", "-u", LOCKS, "--json", "--raw", "deploy"], stdout=subprocess.PIPE, check=True).stdout
    lock = json.loads(look)["locks"][0]
    stored = [entry["raw"].split(" session ")[0] for entry in lock["holders"] + lock["waiters"]]
    check("beside each is what is stored for it", all(part in row for row, part in zip(shown, stored)), f"{shown}\n{stored}")
    equal("an arrow from each who waits", 2, browser.wait("return document.querySelectorAll('.chain > svg > path').length"))
    drawn = "return document.querySelectorAll('.bar-h').length === 1 && document.querySelectorAll('.bar-w').length === 2"
    browser.wait(drawn, what="the timeline")


EDGES = """const done = arguments[2];
ask('/api/lock?url=' + encodeURIComponent(arguments[0]) + '&name=' + arguments[1]).then(answer => answer.json()).then(
    ({seen}) => done(edgesOf({...seen.locks[0], place: {engine: arguments[0].split(':')[0]}})));"""


def start_servers(kind):
    """The URL; None, and it was skipped, if they are not there."""
    where = {**os.environ, "TMPDIR": scratch}
    process = start(PAWL + "-servers", "start", kind, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=where)
    url = process.stdout.readline().strip()
    if not url:
        skip(f"a lock's page on {kind}", process.stderr.read().strip())
    return url or None


def on_servers(browser, kind, stored_of):
    """Who waits for whom on a real server, beside what is stored there: by `stored_of`, of what `pawl status --raw` says."""
    url = start_servers(kind)
    if not url:
        return
    hold("watched", url=url)
    wait_behind("watched", url=url), wait_behind("watched", url=url)
    web = Web(url=url)
    browser.open("about:blank")
    browser.open(web.address + "/lock/watched")
    browser.wait("return document.querySelectorAll('.link').length === 3", what=f"one holder and two who wait on {kind}")
    shown = browser.run("return [...document.querySelectorAll('.link .stored')].map(el => el.innerText)")
    look = subprocess.run([PAWL, "status", "-u", url, "--json", "--raw", "watched"], stdout=subprocess.PIPE, check=True).stdout
    lock = json.loads(look)["locks"][0]
    wanted = [stored_of(entry) for entry in lock["holders"] + lock["waiters"]]
    missing = [part for row, parts in zip(shown, wanted) for part in parts if part not in row]
    check(f"{kind}: beside each is what is stored for it", len(shown) == 3 and not missing, f"{shown}\n{wanted}")
    place = web.json("/api/state")["places"][0]["url"]
    edges = browser.later(EDGES, place, "watched")
    equal(f"{kind}: the first waits for the holder, the next for the first", [[1, 0, "hard"], [2, 1, "soft"]], edges)
    equal("... and both are drawn", 2, browser.wait("return document.querySelectorAll('.chain > svg > path').length"))
    browser.open("about:blank")
    web.stop()


def stored_on_zookeeper(entry):
    """The znode, and whom it watches."""
    return [entry["raw"].split(" ")[0], *re.findall(r"watches \S+$", entry["raw"])]


def stored_on_redis(entry):
    """The key: who holds is in the lock's, who waits in the queue's."""
    return ["pawl:queue:{watched}" if entry.get("position") else "watched"]


def the_legend(browser):
    """An edge is drawn in the colour that the legend has for it."""
    go(browser, "#/waits")
    for kind in "hard", "soft":
        edge = browser.wait("const el = document.querySelector('.e.' + arguments[0]); return el && getComputedStyle(el).stroke", kind)
        shown = browser.run("return getComputedStyle(document.querySelector('.legend em.' + arguments[0])).borderTopColor", kind)
        equal(f"the colour of a {kind} edge, and of its legend", shown, edge)


def words(line):
    """What a shell makes of a line that somebody pasted: the words behind `pawl`."""
    made = subprocess.run(["bash", "-c", 'pawl() { printf "%s\\0" "$@"; }\n' + line], stdout=subprocess.PIPE, check=True).stdout
    return made.decode().split("\0")[:-1]


def commands(browser):
    """The lines to copy are one command with one lock, also where its name is odd."""
    for name in DASH, "a'b\"c&amp;`$(id)":
        go(browser, "#/lock/" + urllib.parse.quote(name, safe=""))
        line = browser.wait("return document.querySelector('.head .acts button')?.title")
        equal(f"pawl status of {name}", ["status", "-u", LOCKS, "--", name], words(line))
        browser.wait("const b = document.querySelector('.link button'); if (b) b.click(); return !!b")
        line = browser.wait("return document.querySelector('.dlg .cmd code')?.title")
        token = status(name)[0]["holders"][0]["token"]
        equal(f"pawl break of {name}", ["break", "-u", LOCKS, "--token", token, "--", name], words(line))
        browser.run("document.getElementById('dialog').close()")


def hide(browser, hidden):
    browser.run(
        "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))",
        hidden,
    )


def one_stream(browser):
    """A tab that was hidden and shown while the server was down has one stream, and none when it is hidden again."""
    browser.run(
        """const fetched = window.fetch;
        window.down = true;
        window.streams = [];
        window.fetch = (path, options) => {
            if (window.down)
                return Promise.reject(new Error('down'));
            if (path.startsWith('/api/stream'))
                window.streams.push(options.signal);
            return fetched(path, options);
        };"""
    )
    hide(browser, True)
    hide(browser, False)
    browser.wait("return document.querySelector('.live.lost')", what="that the server is down")
    hide(browser, True)
    browser.run("window.down = false; window.back = performance.now()")
    hide(browser, False)
    browser.wait("return window.streams.length > 0")
    browser.wait("return performance.now() > window.back + 2000", what="the end of the wait before the next try")
    equal("one stream", 1, browser.run("return window.streams.filter(signal => !signal.aborted).length"))
    hide(browser, True)
    equal("a hidden tab has none", 0, browser.run("return window.streams.filter(signal => !signal.aborted).length"))
    hide(browser, False)
    browser.wait("return document.querySelector('.live:not(.lost)')", what="that it is live again")


def strange_views(browser):
    for where in "#/constructor", "#/__proto__", "#/toString/x":
        go(browser, where)
        browser.wait("return document.querySelector('nav a[aria-current=page]')", what=f"a view at {where}")
    check("an address that is no view shows the locks", True)


def break_it(browser, holder):
    token = status("deploy")[0]["holders"][0]["token"]
    browser.keys("b")
    browser.wait("return document.getElementById('dialog').open")
    check("nothing can be sent before the token is typed", browser.run("return document.querySelector('.btn.solid').disabled"))
    check("=now was not allowed, and can't be chosen", browser.run("return document.querySelectorAll('.opt input')[1].disabled"))
    browser.keys(token[-4:])
    browser.run("document.querySelector('.btn.solid').click()")
    equal("a break works", 76, holder.wait(PATIENCE))
    browser.wait("return !document.getElementById('dialog').open")
    browser.wait("return document.querySelector('.link .mono').textContent !== arguments[0]", token, what="the next holder")


def looks(browser):
    for theme in "light", "dark":
        browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
        for width in WIDE, NARROW:
            browser.size(width, HEIGHT)
            for name, where in VIEWS.items():
                go(browser, where)
                equal(f"{name}, {width} px: nothing is wider than the window", [], browser.run(PROBE + "tooWide()"))
                equal(f"{name}, {theme}, {width} px: all can be read", [], browser.run(PROBE + "faint()"))
    browser.size(WIDE, HEIGHT)


def many(browser, directory):
    """10,000 locks. How long it takes is told, and no more."""
    url = "local:" + os.path.join(directory, "many")
    names = [f"lock-{i:05}" for i in range(10000)]
    holder = start(PAWL, "run", "-u", url, *names, "--", "sh", "-c", "echo held; exec sleep 600", stdout=subprocess.PIPE)
    assert holder.stdout.readline() == "held\n"
    web = Web(url=url)
    browser.open("about:blank")
    browser.open(web.address)
    browser.wait(PROBE + "rowElements().length")
    paint, state, now = browser.run(PROBE + "times()")
    print(f"# 10,000 locks: first paint {paint:.0f} ms, state here {state:.0f} ms, rows seen within {now:.0f} ms")
    equal("all are counted", "10,000", browser.run("return document.querySelector('.figure b').textContent"))
    check("only rows in sight are in the document", browser.run(PROBE + "rowElements().length") < 100)
    browser.run("scrollTo(0, document.documentElement.scrollHeight)")
    browser.wait(PROBE + "rowElements().some(tr => nameOf(tr) === 'lock-09999')", what="the last row")
    check("... also at the end", browser.run(PROBE + "rowElements().length") < 100)
    equal("the console is still empty", [], [line["message"] for line in browser.log("browser")])
    web.stop()
    holder.terminate()
    browser.wait("return document.body.classList.contains('stale')", what="that what is shown is old, once pawl web has ended")


def whole_story(browser, web, holder):
    browser.open(web.address)
    the_list(browser)
    hand_off(browser)
    keyboard(browser)
    strange_views(browser)
    one_stream(browser)
    commands(browser)
    looks(browser)
    the_legend(browser)
    the_queue(browser)
    break_it(browser, holder)
    equal("no request went elsewhere", [], browser.run(PROBE + "foreignRequests()"))
    check("no name has run", "cracked" not in browser.run("return document.title"))
    equal("the console is empty", [], [line["message"] for line in browser.log("browser")])
    on_servers(browser, "redis", stored_on_redis)
    on_servers(browser, "zookeeper", stored_on_zookeeper)
    many(browser, scratch)


def main():
    for name, label in HOSTILE.items():
        hold(name, "--label", label)
    hold(DASH, "--")
    holder = hold("deploy", "--label", "release 4182")
    wait_behind("deploy")
    wait_behind("deploy")
    web = Web("--allow-break", "--interval", "200")
    browser = webdriver.Browser(os.path.join(scratch, "profile"))
    try:
        whole_story(browser, web, holder)
    finally:
        browser.close()


if __name__ == "__main__":
    without = webdriver.missing()
    if subprocess.run([PAWL, "web", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        skip("the page", "built without libmicrohttpd")
    elif without:
        skip("the page", f"needs {' and '.join(without)}")
    else:
        try:
            main()
        except AssertionError as error:
            check(f"went through: {error}", False)
    finish()
