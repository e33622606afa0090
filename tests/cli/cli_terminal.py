# SPDX-License-Identifier: Apache-2.0
"""The command on a terminal: job control and the line shown while it waits.

An interactive bash runs on a pseudo-terminal; what a person would type is written to it, and what the person would see is read.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import tempfile
import termios
import time

PAWL = os.environ["PAWL"]
SECONDS = 40  # that something may take,
SECONDS_AFTER_A_FAILURE = 5  # and no longer once something did not come: the rest fails for the same reason
count = failures = 0


def check(name, good, why=""):
    global count, failures
    count += 1
    if not good:
        failures += 1
        print("# " + repr(why))
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)


def deadline():
    return time.monotonic() + (SECONDS_AFTER_A_FAILURE if failures else SECONDS)


class Terminal:
    """A shell on a terminal of its own. `seen` is what it printed since the last expect()."""

    def __init__(self, scratch, columns=120):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(scratch)
            env = dict(os.environ, PAWL_URL=f"local:{scratch}/locks", PS1="$ ", TERM="dumb", pawl=PAWL, HISTFILE="")
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], env)
        self.resize(columns)
        self.expect(r"\$ $")
        self.run("stty -echo; PS1='% '")

    def resize(self, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
            return True
        except OSError:
            return False

    def expect(self, pattern):
        """What was printed up to the first match, that included; None if it does not come in time."""
        end = deadline()
        while True:
            match = re.search(pattern, self.seen)
            if match:
                before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
                return before
            if not self.read(max(0, end - time.monotonic())) or time.monotonic() > end:
                return None

    def run(self, command):
        """Run a command to its end and return what it printed, and its status after a blank."""
        self.type(command + "; echo =$?=\n")
        out = self.expect(r"=\d+=\r?\n.*[%$] $")
        return out and re.sub(r"\r", "", out).replace("=\n", "=")

    def status(self):
        """The status of what has just ended."""
        out = self.run("(exit $?)")
        return out and re.search(r"=(\d+)=", out)[1]

    def foreground(self):
        """Continue the last job, one that does not end by itself. bash prints its name before it gives it the terminal."""
        self.type("fg\n")
        end = deadline()
        while os.tcgetpgrp(self.fd) == self.pid and time.monotonic() < end:
            time.sleep(0.01)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def job_control(t):
    t.type("$pawl run x -- sh -c 'echo ready; exec sleep 60'\n")
    t.expect("ready")
    t.type("\x03")
    t.expect("% $")
    check("Ctrl-C ends it, and the shell sees why", t.status() == "130", t.seen)

    t.type("$pawl run x -- sh -c 'echo ready; exec sleep 60'\n")
    t.expect("ready")
    t.type("\x1a")
    check("Ctrl-Z stops it", t.expect(r"Stopped[^\n]*run x") is not None, t.seen)
    t.expect("% $")
    out = t.run("ps -o stat=,comm= | grep -E ' (pawl|sleep|sh)$'")
    check("... and the command with it", out and len(re.findall(r"^T", out, re.M)) == 2, out)
    t.run("bg")
    out = t.run("ps -o stat=,comm= | grep -E ' (pawl|sleep|sh)$'")
    check("bg makes both go on", out and len(re.findall(r"^S", out, re.M)) == 2, out)
    t.foreground()
    t.type("\x03")
    t.expect("% $")
    check("fg, and Ctrl-C after that", t.status() == "130", t.seen)

    t.type("$pawl run x -- sh -c 'echo ready; kill -STOP $$; echo went on'\n")
    t.expect("ready")
    check("a command that is stopped by SIGSTOP gives the shell its prompt back", t.expect(r"Stopped[^\n]*run x") is not None, t.seen)
    t.expect("% $")
    t.type("fg\n")
    check("... and goes on with fg", t.expect("went on") is not None, t.seen)
    t.expect("% $")
    check("... to its end", t.status() == "0", t.seen)

    out = t.run("$pawl run x -- sh -c 'test $(ps -o tpgid= -p $$) = $(ps -o pgid= -p $$) && echo front'")
    check("the command is in the foreground", out and "front" in out, out)
    t.type("$pawl run x -- sh -c 'read -r a; echo got $a'\n")
    t.type("typed\n")
    check("it reads what is typed", t.expect("got typed") is not None, t.seen)
    t.expect("% $")
    out = t.run("$pawl run x -- cat & until jobs | grep Stopped; do :; done")
    check("in the background it stops when it reads", out and "Stopped" in out, out)
    t.foreground()
    t.type("line\n")
    check("... and reads in the foreground", t.expect("line\r?\n") is not None, t.seen)
    t.type("\x04")
    t.expect("% $")


def pipelines(t):
    t.type("$pawl run x -- echo through | sh -c 'cat; read -r a </dev/tty; echo got $a'\n")
    t.expect("through")
    t.type("typed\n")
    check("in a pipeline, the others keep the terminal", t.expect("got typed") is not None, t.seen)
    t.expect("% $")
    t.type("$pawl run x -- sh -c 'read -r a </dev/tty; echo got $a' | cat\n")
    t.type("typed\n")
    check("... and the command gets it when it asks", t.expect("got typed") is not None, t.seen)
    t.expect("% $")
    t.type("$pawl run x -- sh -c 'echo ready >&2; exec sleep 60' | cat\n")
    t.expect("ready")
    t.type("\x03")
    t.expect("% $")
    check("... and Ctrl-C is for all of it", t.status() in ("0", "130"), t.seen)
    check("... so that the lock is free", "=0=" in (t.run("$pawl run -w 10 x -- true") or ""))


def breaking(t):
    """pawl break --holder shows whom it found, and asks."""
    t.run("$pawl run gone -- sleep 600 & until $pawl status gone --check -q; do sleep 0.1; done")
    t.type("$pawl break gone --holder\n")
    asked = t.expect(r"'gone' is held by sleep \(process \d+ on .*\), token \d+\. Ask it to give up\? \[y/N\] $")
    check("break --holder asks", asked is not None, t.seen)
    t.type("n\n")
    check("... no is no", t.expect(r"% $") is not None and t.status() == "1", t.seen)
    t.run("$pawl status gone --check -q; echo held $?")
    t.type("$pawl break gone --holder --now\n")
    check("... with --now it says so", t.expect(r"Free the lock at once\? \[y/N\] $") is not None, t.seen)
    t.type("yes\n")
    check("... yes is yes", t.expect(r"is taken from the holder") is not None, t.seen)
    t.run("wait")
    t.type("$pawl break gone --holder; echo status $?\n")
    check("... nobody holds it", t.expect(r"nobody holds 'gone'\s+status 65") is not None, t.seen)
    t.expect(r"% $")


def scripts(t, scratch):
    with open(scratch + "/script", "w") as file:
        file.write("$pawl run x -- sh -c 'echo ready; exec sleep 60'\necho went on\n")
    t.type("bash script\n")
    t.expect("ready")
    t.type("\x03")
    before = t.expect("% $")
    check("Ctrl-C ends the script around it, too", before is not None and "went on" not in before and t.status() == "130", before)
    t.type("bash script\n")
    t.expect("ready")
    t.type("\x1a")
    check("Ctrl-Z stops the script around it, too", t.expect(r"Stopped[^\n]*script") is not None, t.seen)
    t.expect("% $")
    t.foreground()
    t.type("\x03")
    t.expect("% $")
    check("... and fg lets both go on", t.status() == "130", t.seen)


def killed(t):
    t.type("$pawl run x -- sh -c 'echo ready; exec sleep 60' & wait\n")
    t.expect("ready")
    t.type("\x03")
    t.expect("% $")
    out = t.run("kill -9 %1; wait %1 2>/dev/null; $pawl run -w 10 x -- echo mine")
    check("kill -9 of a job", out and "mine" in out, out)


def waiting_line(t):
    t.run("$pawl run --label 'who has it' busy -- sleep 60 & until $pawl status busy | grep -q 'who has it'; do :; done")
    t.type("$pawl run busy -- true\n")
    line = t.expect(r"waiting 1 s for 'busy'[^\r\n]*\x1b\[K")
    check("the line says for how long, and for what", line is not None, line or (t.seen, t.run("(exit $?)"), t.run("jobs; $pawl status")))
    line = (line or "").split("\r")[-1]
    host = re.escape(os.uname().nodename)
    check("... who holds it", re.search(rf"held by {host} pid \d+ \(sleep\) since \d\d:\d\d:\d\d", line), line)
    check("... how many are ahead, and how soon a crash shows", ", you are next, a crash shows at once" in line, line)
    check("... and fits", "\n" not in line and len(line) - 3 <= 117, line)
    t.resize(20)
    os.kill(os.tcgetpgrp(t.fd), signal.SIGWINCH)
    t.expect(r"waiting \d+ s[^\r\n]*\x1b\[K")
    line = t.expect(r"waiting \d+ s[^\r\n]*\x1b\[K") or ""
    check("20 columns are enough", 10 <= len(line.split("\r")[-1]) - 3 <= 17, line)
    t.type("\x1a")
    check("Ctrl-Z stops a wait", t.expect("Stopped") is not None, t.seen)
    t.expect("% $")
    t.foreground()
    check("fg resumes it", t.expect(r"waiting \d+ s") is not None, t.seen)
    t.resize(300)
    line = t.expect(r"waiting \d+ s[^\r\n]*local:[^\r\n]*/locks\x1b\[K")
    check("a wide terminal shows the place, too", line is not None, t.seen)
    t.type("\x03")
    out = t.expect("% $")
    check("Ctrl-C ends a wait", t.status() == "130", out)
    check("... and the line is erased", out and out.split("% ")[0].rstrip().endswith("\r\x1b[K"), out)
    t.type("$pawl run -w 60 busy -- echo mine\n")
    t.expect(r"waiting[^\r\n]*\x1b\[K")
    os.system(f"{PAWL} break busy --token $({PAWL} status --json busy | sed 's/.*\"token\":\"\\([0-9]*\\)\".*/\\1/') >/dev/null")
    out = t.expect("mine")
    check("when it has the lock, the line is erased before the command runs", out and "\r\x1b[Kmine" in out, out)
    t.expect("% $")


def main():
    scratch = tempfile.mkdtemp()
    os.environ["PAWL_URL"] = f"local:{scratch}/locks"
    try:
        for scene in (job_control, pipelines, breaking, lambda t: scripts(t, scratch), killed, waiting_line):
            terminal = Terminal(scratch)
            scene(terminal)
            terminal.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"1..{count}")
    return 1 if failures else 0


raise SystemExit(main())
