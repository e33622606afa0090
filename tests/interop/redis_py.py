"""Each side holds while the other tries; then both count in a file that only the lock protects."""

import os
import subprocess
import sys
import tempfile

import redis

PAWL, URL, PORT = os.environ["PAWL"], os.environ["PAWL_URL"], int(os.environ["PORT"])
client = redis.Redis(port=PORT)


def pawl(*args):
    return subprocess.run([PAWL, "run", "-u", URL, *args], stdout=subprocess.PIPE, text=True)


# redis-py holds: pawl finds it held, and gets in when it is released.
lock = client.lock("job", timeout=30)
assert lock.acquire(blocking=False)
assert pawl("-n", "job", "--", "true").returncode == 75
waiting = subprocess.Popen([PAWL, "run", "-u", URL, "job", "--", "true"])
lock.release()
assert waiting.wait(20) == 0

# redis-py holds without an end, and dies: pawl waits, and says so; an operator frees it.
assert client.lock("job").acquire(blocking=False)
assert pawl("-w", "300ms", "job", "--", "true").returncode == 75
client.delete("job")

# pawl holds: redis-py finds it held; its release does not touch ours.
code = "import redis,sys; l = redis.Redis(port=%d).lock('job', timeout=5); sys.exit(l.acquire(blocking=False))" % PORT
assert pawl("job", "--", sys.executable, "-c", code).returncode == 0
assert lock.acquire(blocking=False)
lock.release()

# A hold of redis-py that expires on its own.
assert client.lock("job", timeout=0.3).acquire(blocking=False)
assert pawl("-w", "10s", "job", "--", "true").returncode == 0

# Both count.
ROUNDS = 20
with tempfile.NamedTemporaryFile("w", suffix=".count") as file:
    file.write("0")
    file.flush()
    bump = "n=$(cat %s); sleep 0.005; echo $((n + 1)) >%s" % (file.name, file.name)
    loop = "for i in $(seq %d); do %s run -u '%s' count -- sh -c '%s' || exit 1; done" % (ROUNDS, PAWL, URL, bump)
    shells = [subprocess.Popen(["sh", "-c", loop]) for _ in range(2)]
    mine = client.lock("count", timeout=30, sleep=0.01)
    for _ in range(ROUNDS):
        mine.acquire()
        subprocess.run(["sh", "-c", bump], check=True)
        mine.release()
    assert all(shell.wait(60) == 0 for shell in shells)
    counted = int(open(file.name).read())
    assert counted == 3 * ROUNDS, counted
