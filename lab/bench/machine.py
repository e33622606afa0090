# SPDX-License-Identifier: Apache-2.0
"""The machine that was measured on, and how much of it others had meanwhile."""

import datetime
import os
import platform
import resource
import subprocess
import time

from figures import as_share

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def first_field(path, name):
    """What stands behind `name :` in a file of /proc; "": nothing."""
    for line in open(path):
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return ""


def cpu_model():
    return first_field("/proc/cpuinfo", "model name") or platform.machine()


def memory_gib():
    return int(first_field("/proc/meminfo", "MemTotal").split()[0]) / 1048576


def description():
    return f"{cpu_model()}, {os.cpu_count()} processors, {memory_gib():.1f} GiB; {platform.system()} {platform.release()}"


def commit():
    try:
        asked = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        return asked.stdout.strip()
    except OSError:
        return ""


def own_cpu_s():
    """Of this process, and of all that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def all_cpu_s():
    """Of all processors: (since the machine was started, idle, stolen by other guests of its host)"""
    ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in open("/proc/stat").readline().split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4], ticks[7]


class Watch:
    """From here to end(), which is to be called when all that was started has ended."""

    def __init__(self):
        self.began, self.load = time.time(), os.getloadavg()[0]
        self.own, self.all = own_cpu_s(), all_cpu_s()

    def end(self):
        own, (total, idle, stolen) = own_cpu_s() - self.own, (now - before for now, before in zip(all_cpu_s(), self.all))
        return {
            "machine": description(),
            "began": round(self.began),
            "seconds": round(time.time() - self.began, 1),
            "load": [round(self.load, 2), round(os.getloadavg()[0], 2)],
            # Shares of all that the processors could have done.
            "idle": round(idle / total, 4),
            "stolen": round(stolen / total, 4),
            "others": round(max(total - idle - stolen - own, 0) / total, 4),
        }


def date_of(watched):
    began = datetime.datetime.fromtimestamp(watched["began"], datetime.timezone.utc)
    return f"{began:%Y-%m-%d}, {watched['seconds'] / 60:.1f} minutes"


def in_short(watched):
    """What end() returned, of a run that is told of beside another."""
    shares = f"{as_share(watched['idle'])} idle, {as_share(watched['stolen'])} stolen, {as_share(watched['others'])} used by others"
    return f"{date_of(watched)}, {shares}"


def lines(watched):
    """What end() returned, in words."""
    yield f"date: {date_of(watched)}"
    yield f"machine: {watched['machine']}"
    yield f"load average: {watched['load'][0]:.1f} when it began, {watched['load'][1]:.1f} when it ended, itself included"
    yield (
        f"of all CPU time meanwhile, {as_share(watched['idle'])} was idle, {as_share(watched['stolen'])} was stolen by other machines "
        f"of the same host, and {as_share(watched['others'])} was used by programs that have nothing to do with this"
    )
