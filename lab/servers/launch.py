# SPDX-License-Identifier: Apache-2.0
"""Real servers for the scripts in Python, started by pawl-servers. They end by end(), or with this process."""

import os
import select
import signal
import socket
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def free_port():
    """Of loopback; nobody has it at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Missing(Exception):
    """They can't be started on this machine; the text says what to install."""


class Servers:
    """A KIND of pawl-servers. Keywords are its options, a list for those that may be given several times; `clock`: what they
    read the time from, with a descriptor and an environment()."""

    def __init__(self, kind, clock=None, **options):
        program = os.path.join(ROOT, os.environ.get("BUILD_DIR", "build"), "pawl-servers")
        command = [program, "start", kind]
        for name, values in options.items():
            for value in values if isinstance(values, (list, tuple)) else [values]:
                command += ["--" + name.replace("_", "-"), str(value)]
        # In a session of its own: Ctrl-C is for us, who end it.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=[clock.fd] if clock else [],
            env=dict(os.environ, **clock.environment()) if clock else None,
        )
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise Missing(self.process.communicate()[1].strip().removeprefix("pawl: "))
        lines = [line.split() for line in iter(self.process.stdout.readline, "\n")]
        self.ports, self.pids = [int(line[0]) for line in lines], [int(line[1]) for line in lines]
        self.address = ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def port(self):
        return self.ports[0]

    def kill(self, index=0):
        """kill -9, and really gone: its connections are closed."""
        if not self.pids[index]:
            return
        end = os.pidfd_open(self.pids[index])
        os.kill(self.pids[index], signal.SIGKILL)
        select.select([end], [], [])
        os.close(end)
        self.pids[index] = 0

    def end(self):
        self.process.communicate()
