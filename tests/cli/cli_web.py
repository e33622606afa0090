# SPDX-License-Identifier: Apache-2.0
"""pawl web: what it answers to those who ask honestly, and to those who do not."""

import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lab/servers"))
from launch import Missing, Servers, free_port  # noqa: E402
from web_common import (
    LOCKS,
    PATIENCE,
    PAWL,
    Stream,
    Web,
    check,
    equal,
    eventually,
    finish,
    hold,
    scratch,
    skip,
    start,
    status,
    wait_behind,
)

ODD = "<img src=x onerror=alert(1)>"


def refused(name, code, sentence, *arguments):
    done = subprocess.run(
        [PAWL, "web", "-u", LOCKS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    check(
        name,
        done.returncode == code and re.search(sentence, done.stderr) and done.stderr.count("\n") == 1,
        f"{done.returncode} {done.stderr}",
    )


def command_line():
    refused("no port", 64, "wants ADDRESS:PORT", "--listen", "127.0.0.1")
    refused("a port alone", 64, "such as localhost:7295", "--listen", "7295")
    refused("an address of another machine", 71, "no such address", "--listen", "192.0.2.1:0")
    refused("no such port", 64, "0 to 65535", "--listen", "127.0.0.1:65536")
    refused("a name to listen at", 64, "numeric address", "--listen", "example:80")
    refused("an empty path", 64, "wants a path", "--listen", "unix:")
    refused("every address without a name", 64, "--host NAME", "--listen", "0.0.0.0:0")
    refused("a host that is a URL", 64, "--host wants a name", "--host", "http://x/")
    refused("another way to break", 64, "--allow-break=now", "--allow-break=soon")
    refused("an interval of nothing", 64, "--interval wants", "--interval", "0")
    refused("a lock", 64, "takes no lock", "nightly")
    refused("a URL that is none", 64, "nosuch", "-u", "nosuch://x")
    taken = socket.create_server(("127.0.0.1", 0))
    refused("a port that is in use", 71, "port 0 takes one that is free", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    taken.close()


def keys():
    path = os.path.join(scratch, "key")
    first = Web("--key-file", path)
    equal("the file of the key is its owner's alone", 0o600, stat.S_IMODE(os.stat(path).st_mode))
    equal("it has the key in it", first.key + "\n", open(path, encoding="ascii").read())
    equal("SIGTERM ends it, as it should", 128 + signal.SIGTERM, first.stop() % 256)
    second = Web("--key-file", path)
    equal("the key stays", first.key, second.key)
    third = Web()
    check("without a file it is a new one each time", third.key not in (first.key, second.key))
    second.stop(), third.stop()
    os.chmod(path, 0o640)
    refused("a key that others can read", 77, "chmod 600", "--key-file", path)
    os.chmod(path, 0o600)
    with open(path, "w", encoding="ascii") as file:
        file.write("secret\n")
    refused("a file without a key", 74, "has no key in it", "--key-file", path)
    refused("a directory", 74, "no regular file", "--key-file", scratch)
    fifo = os.path.join(scratch, "fifo")
    os.mkfifo(fifo, 0o600)
    refused("a fifo that nobody writes to", 74, "no regular file", "--key-file", fifo)
    if os.geteuid() == 0:
        os.chown(path, 65534, -1)
        refused("a key that another user knows", 77, "is another user's", "--key-file", path)


def sockets():
    path = os.path.join(scratch, "socket")
    web = Web(listen="unix:" + path)
    equal("a unix socket is its owner's alone", 0o600, stat.S_IMODE(os.stat(path).st_mode))
    equal("... and serves", 200, web.get("/api/state")[0])
    web.host = "localhost:9999"
    equal("... by any port, as ssh -L makes it", 200, web.get("/api/state")[0])
    web.host = "evil.example"
    equal("... but by no other name", 421, web.get("/api/state")[0])
    web.host = "localhost"
    equal("... and wants the key", 401, web.get("/api/state", key=False)[0])
    refused("one that is in use", 71, "another program", "--listen", "unix:" + path)
    web.process.kill()
    web.process.wait()
    check("a kill leaves it", os.path.exists(path))
    web = Web(listen="unix:" + path)
    equal("... and the next one takes it over", 200, web.get("/api/state")[0])
    web.stop()
    check("its end removes it", not os.path.exists(path))


def both_loopbacks():
    """A browser that is sent to localhost may try ::1 first."""
    probe = socket.socket(socket.AF_INET6)
    try:
        probe.bind(("::1", 0))
    except OSError as error:
        skip("localhost is ::1, too", f"there is no ::1: {error}")
        return
    finally:
        probe.close()
    web = Web(listen="localhost:0")
    check("one address is printed", web.line.startswith("http://127.0.0.1:"), web.line)
    for host in "[::1]", "localhost", "127.0.0.1":
        with socket.create_connection(("::1", web.port), PATIENCE) as connection:
            connection.sendall(web.head("GET", "/api/state", host=False, more=[f"Host: {host}:{web.port}"]))
            equal(f"who comes by ::1 and asks for {host} is answered", b"HTTP/1.1 200", connection.recv(12))
    equal("... and by 127.0.0.1", 200, web.get("/api/state")[0])
    web.stop()
    out_of_descriptors()
    taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    port = taken.getsockname()[1]
    refused("somebody else at ::1", 71, rf"can't listen at \[::1\]:{port}", "--listen", f"localhost:{port}")
    taken.close()


def stat_of(pid):
    """What /proc says of a process, from its state on."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()


def cpu_time(web):
    return sum(map(int, stat_of(web.process.pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def out_of_descriptors():
    """Who comes by ::1 and can't be let in waits, and so does the server: it does not ask again and again."""
    web = Web(listen="localhost:0")
    pid, crowd = web.process.pid, []
    most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir(f"/proc/{pid}/fd")))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, most[1]))
    try:
        for _ in range(64):
            crowd.append(socket.create_connection(("::1", web.port), PATIENCE))
        crowd[-1].sendall(web.head("GET", "/"))

        def rests():
            before = cpu_time(web)
            time.sleep(0.5)
            return cpu_time(web) - before < 0.1

        check("without descriptors it rests", eventually(rests))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, most)
        equal("... and lets in who has waited when there are some", b"HTTP/1.1 200", crowd[-1].recv(12))
    finally:
        for connection in crowd:
            connection.close()
        web.stop()


def shown_addresses():
    """What is printed can be opened: a name that says its port is not given another one."""
    for option, wanted in ("db1.example:80", r"http://db1\.example:80/#"), ("db1.example", r"http://db1\.example:\d+/#"):
        process = start(
            PAWL, "web", "-u", LOCKS, "--listen", "0.0.0.0:0", "--host", option, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        line = process.stdout.readline()
        check(f"the address with --host {option}", re.match(wanted, line), line)
        process.terminate()


def page(web):
    total = 0
    for path, kind in ("/", "text/html"), ("/app.js", "text/javascript"), ("/app.css", "text/css"):
        code, headers, body = web.get(path, key=False)
        check(f"{path} is there for all", code == 200 and headers["content-type"].startswith(kind), f"{code} {headers}")
        check(
            f"{path} has no marker of a foreign origin",
            not re.search(rb"https?://(?!www\.w3\.org/2000/svg)|@import|url\((?![#$])", body),
        )
        total += len(body)
        tag = headers["etag"]
        code, headers, again = web.get(path, key=False, more=[f"If-None-Match: {tag}"])
        check(f"{path} is not sent again", code == 304 and not again, f"{code} {again}")
        kept = (headers.get("etag"), headers.get("cache-control"), headers.get("content-type", "").split(";")[0])
        equal("... and may still be kept", (tag, "no-cache", kind), kept)
    check("script, style and page are 60 kB at most", total <= 60000, total)
    print(f"# {total} bytes")
    headers = web.get("/", key=False)[1]
    policy = headers["content-security-policy"]
    check(
        "the policy lets in nothing from elsewhere",
        "default-src 'none'" in policy
        and "script-src 'self'" in policy
        and "unsafe" not in policy
        and "frame-ancestors 'none'" in policy
        and "require-trusted-types-for 'script'" in policy,
        policy,
    )
    for name, value in {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "connection": "close",
    }.items():
        equal(f"{name}", value, headers.get(name))
    equal("the state is not kept by anybody", "no-store", web.get("/api/state")[1]["cache-control"])
    source = web.get("/app.js", key=False)[2]
    check(
        "the script makes no markup",
        not re.search(rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", source),
    )


def state(web):
    seen = web.json("/api/state")
    locks = {lock["name"]: lock for lock in seen["places"][0]["locks"]}
    truth = {lock["name"]: lock for lock in status()}
    equal("all locks are there", sorted(truth), sorted(locks))
    check("a name that is markup is there as it is", ODD in locks)
    steady = lambda entries: [{key: value for key, value in entry.items() if key != "remaining_ms"} for entry in entries]
    for name, lock in truth.items():
        equal(
            f"{name}: holders and waiters as pawl status has them",
            steady(lock["holders"] + lock["waiters"]),
            steady(locks[name]["holders"] + locks[name]["waiters"]),
        )
    detail = web.json(f"/api/lock?url={LOCKS}&name=deploy")
    check("one lock comes with what is stored", "node" in detail["seen"]["locks"][0]["holders"][0]["raw"], detail)
    equal("... and with its holds", [truth["deploy"]["holders"][0]["token"]], [hold["token"] for hold in detail["holds"]])
    equal("a lock that is free has none", [], web.json(f"/api/lock?url={LOCKS}&name=free")["seen"]["locks"])
    equal("a URL that is not ours", 404, web.get("/api/lock?url=redis://x&name=deploy")[0])
    equal("no name", 400, web.get(f"/api/lock?url={LOCKS}")[0])
    equal("a name with a NUL", 400, web.get(f"/api/lock?url={LOCKS}&name=a%00b")[0])
    equal("a name that is no name", 400, web.get(f"/api/lock?url={LOCKS}&name=a%01b")[0])


def one_look_for_all(web):
    """Who has the same lock open is answered by the same look, for a second."""
    path, looked = f"/api/lock?url={LOCKS}&name=deploy", []
    for _ in range(5):
        began = time.monotonic()
        looked = [web.json(path)["seen"]["time_ms"] for _ in range(4)]
        if time.monotonic() - began < 0.5 and len(set(looked)) == 1:
            break
    equal("one look for all who have a lock open", 1, len(set(looked)))
    check("... and a new one when it is old", eventually(lambda: web.json(path)["seen"]["time_ms"] >= looked[0] + 900))


def metrics(web):
    equal("metrics want the key", 401, web.get("/metrics", key=False)[0])
    code, headers, body = web.get("/metrics")
    check(
        "metrics are as pawl export writes them",
        code == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"),
        headers,
    )
    once = subprocess.run([PAWL, "export", "-u", LOCKS], stdout=subprocess.PIPE, check=True).stdout
    figure = re.compile(rb"^pawl_(?:holders|waiters)\{.*$", re.M)
    equal("... with the same figures", sorted(figure.findall(once)), sorted(figure.findall(body)))
    code, headers, body = web.get("/metrics", more=["Accept: application/openmetrics-text; version=1.0.0"])
    check(
        "... and OpenMetrics for who asks",
        headers["content-type"].startswith("application/openmetrics-text") and body.endswith(b"# EOF\n"),
    )


def hostile(web):
    port, key = web.port, web.key
    bearer = f"Authorization: Bearer {key}"
    table = [
        # what, bytes, the statuses that are right
        ("no key", web.head("GET", "/api/state", key=False), {401}),
        ("a wrong key", web.head("GET", "/api/state", key=False, more=["Authorization: Bearer " + "0" * 32]), {401}),
        ("the key as a cookie", web.head("GET", "/api/state", key=False, more=[f"Cookie: key={key}"]), {401}),
        ("the key in the query", web.head("GET", f"/api/state?key={key}", key=False), {401}),
        ("two keys", web.head("GET", "/api/state", more=[bearer]), {400}),
        ("the stream without a key", web.head("GET", "/api/stream", key=False), {401}),
        ("a break without a key", web.head("POST", "/api/break", key=False, more=["Content-Length: 2"]) + b"{}", {401}),
        ("another host", web.head("GET", "/api/state", host=False, more=["Host: evil.example"]), {421}),
        ("another host, with our port", web.head("GET", "/api/state", host=False, more=[f"Host: evil.example:{port}"]), {421}),
        ("a host that begins as ours", web.head("GET", "/api/state", host=False, more=[f"Host: 127.0.0.1.evil.example:{port}"]), {421}),
        ("our name without the port", web.head("GET", "/api/state", host=False, more=["Host: localhost"]), {421}),
        ("another host for the page", web.head("GET", "/", host=False, more=["Host: evil.example"]), {421}),
        ("no host", web.head("GET", "/api/state", host=False), {400, 421}),
        ("no host in HTTP/1.0", f"GET /api/state HTTP/1.0\r\n{bearer}\r\n\r\n".encode(), {421}),
        ("two hosts", web.head("GET", "/api/state", more=["Host: evil.example"]), {400}),
        ("the whole URL of another host", web.head("GET", "http://evil.example/api/state"), {404}),
        ("localhost", web.head("GET", "/api/state", host=False, more=[f"Host: localhost:{port}"]), {200}),
        ("LOCALHOST", web.head("GET", "/api/state", host=False, more=[f"Host: LOCALHOST:{port}"]), {200}),
        ("from another site", web.head("GET", "/api/state", more=["Sec-Fetch-Site: cross-site"]), {403}),
        ("from a neighbour", web.head("GET", "/api/state", more=["Sec-Fetch-Site: same-site"]), {403}),
        ("from our page", web.head("GET", "/api/state", more=["Sec-Fetch-Site: same-origin"]), {200}),
        ("the script from another site", web.head("GET", "/app.js", more=["Sec-Fetch-Site: cross-site"]), {403}),
        ("the page by a link", web.head("GET", "/", key=False, more=["Sec-Fetch-Site: cross-site"]), {200}),
        ("two lengths", web.head("POST", "/api/break", more=["Content-Length: 2", "Content-Length: 3"]) + b"{} ", {400}),
        ("a body in chunks", web.head("POST", "/api/break", more=["Transfer-Encoding: chunked"]) + b"2\r\n{}\r\n0\r\n\r\n", {400}),
        (
            "chunks and a length",
            web.head("POST", "/api/break", more=["Content-Length: 2", "Transfer-Encoding: chunked"]) + b"0\r\n\r\n",
            {400},
        ),
        ("no length", web.head("POST", "/api/break"), {400}),
        ("a length that is none", web.head("POST", "/api/break", more=["Content-Length: 1x"]) + b"{}", {400}),
        ("a length below 0", web.head("POST", "/api/break", more=["Content-Length: -1"]) + b"{}", {400}),
        ("a body that is too long", web.head("POST", "/api/break", more=["Content-Length: 5000"]), {413}),
        ("a length beyond all", web.head("POST", "/api/break", more=["Content-Length: 99999999999999999999"]), {400, 413}),
        ("a body where there is none", web.head("GET", "/api/state", more=["Content-Length: 2"]) + b"{}", {413}),
        ("a head that is too long", web.head("GET", "/api/state", more=["X: " + "x" * 9000]), {431}),
        ("a head that never ends", web.head("GET", "/api/state", more=[f"X{i}: {'x' * 200}" for i in range(300)]), {431, 413, None}),
        ("a path that is too long", web.head("GET", "/" + "x" * 40000), {414, 431, None}),
        ("a NUL in a header", web.head("GET", "/api/state", more=["X: a\0b"]), {400, None}),
        ("a NUL in the host", web.head("GET", "/api/state", host=False, more=[f"Host: {web.host}\0.evil.example"]), {400, 421, None}),
        ("a NUL in the path", web.head("GET", "/api/state\0x"), {400, 404, None}),
        ("a NUL in the path, written", web.head("GET", "/api/state%00x"), {400, 404}),
        ("a header without a name", web.head("GET", "/api/state", more=[": x"]), {200, 400, None}),
        ("a header without a colon", web.head("GET", "/api/state", more=["nonsense"]), {400, None}),
        ("a space before the colon", web.head("GET", "/api/state", host=False, more=[f"Host : {web.host}"]), {400, 421, None}),
        (
            "a header that goes on",
            web.head("GET", "/api/state", key=False, more=["Authorization: Bearer", " " + key]),
            {400, 401, 200, None},
        ),
        ("a path with dots", web.head("GET", "/../../etc/passwd"), {404}),
        ("a path with dots, written", web.head("GET", "/%2e%2e/%2e%2e/etc/passwd"), {404}),
        ("a path that is not there, without a key", web.head("GET", "/nothing", key=False), {401}),
        ("another method", web.head("PUT", "/api/state", more=["Content-Length: 0"]), {405}),
        ("a method of nobody", web.head("BREW", "/"), {405}),
        ("GET of a break", web.head("GET", "/api/break"), {405}),
        (
            "OPTIONS, as another site's page asks",
            web.head("OPTIONS", "/api/state", key=False, more=["Origin: http://evil.example"]),
            {401, 405},
        ),
        ("TRACE", web.head("TRACE", "/"), {405}),
        ("no HTTP at all", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400, None}),
        ("an answer", b"HTTP/1.1 200 OK\r\n\r\n", {400, 401, 404, 405, 421, None}),
        ("a request behind the first", web.head("GET", "/") + web.head("GET", "/api/state"), {200}),
        ("a stream from nowhere", web.head("GET", "/api/stream?after=x"), {400}),
    ]
    for name, data, right in table:
        code, headers, body = web.send(data)
        check(f"{name}: {' or '.join(map(str, sorted(right, key=str)))}", code in right, f"{code} {body[:200]}")
        if code == 401:
            check("... and what it wants", headers.get("www-authenticate") == "Bearer")
        check("... no other site may read it", "access-control-allow-origin" not in headers)
    code, _, body = web.send(web.head("GET", "/") + web.head("GET", "/api/state"))
    check("nothing is read behind a request", body.count(b"HTTP/1.1") == 0 and b'"look":' not in body)
    equal("after all that it serves", 200, web.get("/api/state")[0])


def slow(web):
    """Those who send slowly: more than there is room for. An honest one is served meanwhile."""
    crowd = []
    try:
        for _ in range(400):
            connection = web.connect()
            connection.sendall(b"GET /api/state HTTP/1.1\r\nHost:")
            crowd.append(connection)
        took = []
        for turn in range(10):
            for connection in crowd[turn::10]:
                try:
                    connection.sendall(b" ")
                except OSError:
                    pass
            began = time.monotonic()
            code = web.get("/", key=False)[0]
            took.append(time.monotonic() - began)
            if code != 200:
                break
        equal("400 who send slowly do not keep out one who does not", 200, code)
        usual = 1e3 * sorted(took)[len(took) // 2]
        print(f"# an honest request took {usual:.1f} ms (the bar: 50 ms), {1e3 * max(took):.1f} ms at most")
        gone = sum(not connection.recv(1) for connection in crowd[:100])
        equal("the slowest were turned away", 100, gone)
    finally:
        for connection in crowd:
            connection.close()


def sockets_of(web):
    directory = f"/proc/{web.process.pid}/fd"
    return sum(os.readlink(os.path.join(directory, fd)).startswith("socket:") for fd in os.listdir(directory))


def closed_within(web, crowd, seconds):
    """Take a little of each answer each half second, so that nobody is idle, until the server has closed them all; how long that took."""
    began = time.monotonic()
    while sockets_of(web) > 1 and time.monotonic() < began + seconds:
        for reader in crowd:
            reader.recv(16384)
        time.sleep(0.5)
    return time.monotonic() - began if sockets_of(web) <= 1 else None


def ends_while_asked():
    """A request that arrives together with the signal is read in the server's last run, when no look is taken any more."""
    web = Web()
    before = sockets_of(web)
    with web.connect() as connection:
        assert eventually(lambda: sockets_of(web) == before + 1)
        web.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, web.process.pid, os.WSTOPPED)
        connection.sendall(web.head("GET", f"/api/lock?url={LOCKS}&name=deploy"))
        web.process.terminate()
        web.process.send_signal(signal.SIGCONT)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    check("who asks while it ends is told so", answer.startswith(b"HTTP/1.1 503") and answer.endswith(b"pawl is ending\n"), answer)
    equal("... and it ends as it should", 128 + signal.SIGTERM, web.process.wait(PATIENCE) % 256)


def slow_readers():
    """Those who ask at once and take the answer slowly: they are closed after a while, and at once where there are too many."""
    url, path = "local:" + os.path.join(scratch, "many"), os.path.join(scratch, "readers")
    for half in "one", "other":
        names = [f"a lock of the {half} half, with a long name, so that what is said of all is long: {i}" for i in range(1000)]
        holder = start(PAWL, "run", "-u", url, *names, "--", "sh", "-c", "echo held; exec sleep 600", stdout=subprocess.PIPE)
        assert holder.stdout.readline() == "held\n"
    web = Web(url=url, listen="unix:" + path)
    crowd = []

    def more():
        """False: the server has not yet taken those before this one."""
        try:
            connection = web.connect()
        except BlockingIOError:
            return False
        connection.sendall(web.head("GET", "/api/state"))
        crowd.append(connection)
        return True

    whole = len(web.get("/api/state")[2])
    try:
        while len(crowd) < 64 and eventually(more):
            pass
        equal("64 who read slowly have the beginning of an answer", 64, sum(bool(one.recv(1)) for one in crowd))
        began = time.monotonic()
        code, _, body = web.get("/api/state")
        took = time.monotonic() - began
        print(f"# beside 64 slow readers of {whole} bytes an honest one was answered in {1e3 * took:.1f} ms")
        check("... beside whom an honest one is answered", code == 200 and len(body) > whole // 2 and took < 1, f"{code} {took}")
        took = closed_within(web, crowd, 19)
        check("... they are closed before they have the whole", took is not None)
        print(f"# ... after {took or -1:.1f} s")
        while len(crowd) < 400 and eventually(more):
            pass
        equal("336 of them do not keep out an honest one", (400, 200), (len(crowd), web.get("/", key=False)[0]))
    finally:
        for connection in crowd:
            connection.close()
        web.stop()


def slow_goes_first():
    """Where there are too many, who has used up most of its time goes, and not who came first."""
    path = os.path.join(scratch, "first")
    web = Web(url="local:" + os.path.join(scratch, "many"), listen="unix:" + path)
    request = web.head("GET", "/api/state")
    first, crowd = web.connect(), []
    try:
        first.sendall(request[:-2])
        for _ in range(255):
            assert eventually(lambda: sockets_of(web) == len(crowd) + 2)
            crowd.append(web.connect())
        # All others were here before it is answered, from when on it has its time anew, and more of it: so it has used up the least.
        first.sendall(request[-2:])
        head = first.recv(1000)
        for _ in range(5):
            equal("one more is let in", 200, web.get("/", key=False)[0])
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) + head.index(b"\r\n\r\n") + 4
        got = len(head) + sum(map(len, iter(lambda: first.recv(65536), b"")))
        equal("who came first, and takes its answer, has the whole of it", length, got)
    finally:
        for connection in [first, *crowd]:
            connection.close()
        web.stop()


def many_streams(web):
    crowd = [Stream(web, 1) for _ in range(64)]
    equal("64 streams", [200] * 64, [one.status for one in crowd])
    equal("... and no more", 503, web.get("/api/stream")[0])
    equal("... beside them there are answers", 200, web.get("/api/state")[0])
    for one in crowd:
        one.close()

    def again():
        one = Stream(web)
        one.close()
        return one.status == 200

    check("... and streams, when they have gone", eventually(again))


def reader_that_stands_still():
    """A reader that stands still amid an event, until what it needs is not kept any more: nothing is written into the event."""
    url, path = "local:" + os.path.join(scratch, "long"), os.path.join(scratch, "still")
    names = [f"a lock with a long name, so that what differs between two looks is long: {i}" for i in range(1000)]
    web = Web("--interval", "100", url=url, listen="unix:" + path)

    def count():
        return len(web.json("/api/state")["places"][0]["locks"])

    equal("nothing is held", 0, count())
    one = Stream(web, web.json("/api/state")["look"])
    for _ in range(4):
        holder = start(PAWL, "run", "-u", url, *names, "--", "sleep", "600")
        check("all is held", eventually(lambda: count() == len(names)))
        holder.terminate()
        check("... and free", eventually(lambda: count() == 0))
    got = one.rest + b"".join(iter(one.more, b""))
    check("it has the beginning of an event", b"event: state" in got and not got.endswith(b"\n\n"), got[-200:])
    equal("... and nothing is written into it", 0, got.count(b"anew"))
    one.close()
    web.stop()


def crowded_export():
    """Many who ask while a look takes long: no more wait for it than may, and others are answered."""
    nobody = socket.create_server(("127.0.0.1", 0))
    export = Web.__new__(Web)
    silent_url = f"redis://127.0.0.1:{nobody.getsockname()[1]}"
    export.process = start(PAWL, "export", "-u", LOCKS, "-u", silent_url, "--listen", "127.0.0.1:0", stdout=subprocess.PIPE)
    export.port, export.path = int(re.search(r":(\d+)/metrics", export.process.stdout.readline())[1]), None
    export.host, export.key = f"127.0.0.1:{export.port}", ""
    crowd = []
    for _ in range(100):
        crowd.append(export.connect())
        crowd[-1].sendall(export.head("GET", "/metrics", key=False))
    equal("who asks for something else is answered", 200, export.get("/", key=False)[0])
    first = [one.recv(12)[9:] for one in crowd]
    equal("as many wait for a look as may, and the others are told", (64, 36), (first.count(b"200"), first.count(b"503")))
    for connection in crowd:
        connection.close()
    export.process.terminate()
    nobody.close()


def stream(web):
    holder = hold("handed")
    waiter = wait_behind("handed")
    look = web.json("/api/state")["look"]
    one, two = Stream(web, look), Stream(web, look)
    handed = status("handed")[0]["holders"][0]["token"]
    holder.terminate()
    changed = lambda data: [
        lock
        for place in data["places"]
        for lock in place["changed"]
        if lock["name"] == "handed" and lock["holders"] and lock["holders"][0]["token"] != handed
    ]
    first, second = one.until(changed), two.until(changed)
    check("a hand-off is told", first is not None, first)
    equal("... to all alike", first, second)
    equal("... with who holds it now", status("handed")[0]["holders"][0]["token"], changed(first)[0]["holders"][0]["token"])
    waiter.terminate()
    check("what is free is told as gone", one.until(lambda data: "handed" in data["places"][0]["gone"]) is not None)
    one.close(), two.close()
    far = Stream(web, 10**6)
    equal("who has seen what never was begins anew", ("anew", {}), far.next())
    equal("... and that is all", None, far.next())
    far.close()


def silence(web):
    """Nobody is here: nobody looks."""

    def look():
        return web.json("/api/state")["look"]

    def rests():
        before = look()
        time.sleep(0.5)  # five times as long as between two looks
        return look() <= before + 1

    check("while nobody is here there are no looks", eventually(rests))


def breaks():
    web = Web()
    holder = hold("broken")
    token = status("broken")[0]["holders"][0]["token"]
    wish = {"url": LOCKS, "name": "broken", "token": token, "now": False}
    equal("no break unless it is allowed", 403, web.post("/api/break", wish)[0])
    equal("... and none has happened", False, status("broken")[0]["holders"][0]["broken"])
    web.stop()
    web = Web("--allow-break")
    equal("a break at once unless that is allowed", 403, web.post("/api/break", {**wish, "now": True})[0])
    equal("another token", 409, web.post("/api/break", {**wish, "token": str(int(token) + 1)})[0])
    equal("a token that is a number", 400, web.post("/api/break", {**wish, "token": int(token)})[0])
    equal("a body that is no JSON", 400, web.post("/api/break", b"token=1")[0])
    equal("another URL", 404, web.post("/api/break", {**wish, "url": "redis://evil.example"})[0])
    equal("nobody's lock", 409, web.post("/api/break", {**wish, "name": "free"})[0])
    check("the holder still holds", holder.poll() is None and not status("broken")[0]["holders"][0]["broken"])
    seen = lambda: [hold["broken"] for lock in web.json(f"/api/lock?url={LOCKS}&name=broken")["seen"]["locks"] for hold in lock["holders"]]
    equal("the lock as it was", [False], seen())
    code, _, body = web.post("/api/break", wish)
    check("... is not what is shown after a break", False not in seen())
    check("with the token it is broken", code == 200 and b"asked to give up" in body, f"{code} {body}")
    equal("... and the holder hears of it", 76, holder.wait(PATIENCE))
    events = [event for event in web.json("/api/state")["events"] if event["kind"] == "break"]
    equal("each try is an event", 3, len(events))
    told = events[0]
    equal("... with the lock and the token", ("broken", token, wish["url"]), (told["lock"], told["token"], told["url"]))
    who = r"by somebody with the key at 127\.0\.0\.1:\d+: done"
    check("... with who it was and what came of it", re.fullmatch(who, told["what"]), told)
    web.stop()
    said = web.process.stderr.read()
    check(
        "each try is in the log",
        said.count("broke token") == 3 and f"broke token {token} of 'broken'" in said and said.rstrip().endswith("done"),
        said,
    )
    web = Web("--allow-break=now")
    holder = hold("taken")
    token = status("taken")[0]["holders"][0]["token"]
    equal("at once, where it is allowed", 200, web.post("/api/break", {**wish, "name": "taken", "token": token, "now": True})[0])
    equal("... it is free", [], status("taken"))
    web.stop()


def unreachable():
    port = free_port()
    web = Web("-u", f"redis://127.0.0.1:{port}")
    places = web.json("/api/state")["places"]
    check(
        "one place that can't be reached does not hide the others",
        len(places) == 2 and places[0]["locks"] and places[1]["error"],
        places,
    )
    wish = {"url": places[1]["url"], "name": "deploy", "token": "1", "now": False}
    equal("a lock there can't be looked at", 404, web.get(f"/api/lock?url={wish['url']}&name=deploy")[0])
    server = Servers("redis", port=port)
    check("it is seen once it is there", eventually(lambda: web.json("/api/state")["places"][1]["error"] is None))
    seen = web.json("/api/state")
    equal("... under the same name", wish["url"], seen["places"][1]["url"])
    kinds = [event["kind"] for event in seen["events"] if event["url"] == wish["url"]]
    equal("... and that is an event", ["reached", "unreachable"], kinds)
    check("... its locks, too", eventually(lambda: web.get(f"/api/lock?url={wish['url']}&name=deploy")[0] == 200))
    server.end()
    web.stop()


def silent():
    """A server that takes connections and says nothing: what is seen of the others is not old for that."""
    nobody = socket.create_server(("127.0.0.1", 0))
    web = Web("-u", f"redis://127.0.0.1:{nobody.getsockname()[1]}")
    began = time.monotonic()
    check("looks go on", eventually(lambda: web.json("/api/state")["look"] >= 3))
    print(f"# three looks beside a silent server took {time.monotonic() - began:.1f} s")
    web.stop()
    nobody.close()


def breaks_first():
    """A break goes before looks that were asked for earlier, which may take long: what such a look shows has happened after the break."""
    server = Servers("redis")
    pid, url = server.pids[0], f"redis://127.0.0.1:{server.port}"
    web = Web("--allow-break", "-u", url + "?command=30000")
    check("a look at a server", eventually(lambda: web.get(f"/api/lock?url={url}&name=slow")[0] == 200))
    hold("urgent")
    wish = {"url": LOCKS, "name": "urgent", "token": status("urgent")[0]["holders"][0]["token"], "now": False}
    body = json.dumps(wish).encode()
    os.kill(pid, signal.SIGSTOP)
    check("the server stands still", eventually(lambda: stat_of(pid)[0] == "T"))
    slow, behind, urgent = [web.connect() for _ in range(3)]
    slow.sendall(web.head("GET", f"/api/lock?url={url}&name=slower"))
    behind.sendall(web.head("GET", f"/api/lock?url={LOCKS}&name=urgent"))
    urgent.sendall(web.head("POST", "/api/break", more=[f"Content-Length: {len(body)}"]) + body)
    for _ in range(2):
        web.get("/", key=False)  # when the second is answered, all three were read
    os.kill(pid, signal.SIGCONT)
    equal("a break behind two looks", b"HTTP/1.1 200", urgent.recv(12))
    answer = b"".join(iter(lambda: behind.recv(65536), b"")).split(b"\r\n\r\n", 1)[1]
    seen = [holder["broken"] for lock in json.loads(answer)["seen"]["locks"] for holder in lock["holders"]]
    check("... goes before the second, which sees it", False not in seen, seen)
    for connection in slow, behind, urgent:
        connection.close()
    web.stop()
    server.end()


def with_server(test):
    try:
        test()
    except Missing as missing:
        skip(test.__name__.replace("_", " "), missing)


def main():
    command_line()
    keys()
    sockets()
    both_loopbacks()
    shown_addresses()
    hold("deploy", "--label", "release 4182")
    wait_behind("deploy")
    hold(ODD, "--label", '"><script>alert(1)</script>')
    web = Web("--interval", "100")
    check("one line, and no more", re.fullmatch(r"http://127\.0\.0\.1:\d+/#[0-9a-f]{32}\n", web.line))
    page(web)
    state(web)
    one_look_for_all(web)
    metrics(web)
    hostile(web)
    stream(web)
    silence(web)
    slow(web)
    many_streams(web)
    equal("it ends when it is told to", 128 + signal.SIGTERM, web.stop() % 256)
    equal("... and has said nothing", "", web.process.stderr.read())
    ends_while_asked()
    breaks()
    slow_readers()
    slow_goes_first()
    reader_that_stands_still()
    if b"redis" in subprocess.run([PAWL, "--version"], stdout=subprocess.PIPE, check=True).stdout:
        silent()
        crowded_export()
        with_server(unreachable)
        with_server(breaks_first)
    else:
        skip("servers", "no engine for Redis in this build")


if __name__ == "__main__":
    if subprocess.run([PAWL, "web", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        skip("pawl web", "built without libmicrohttpd")
        finish()
    try:
        main()
    except Exception as error:  # of any kind: the plan that finish() prints would hide it
        check(f"went through: {error!r}", False)
    finish()
