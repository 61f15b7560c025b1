# SPDX-License-Identifier: Apache-2.0
"""What a figure depends on: machine, commit, command. No host names."""
import datetime
import os
import platform
import shlex
import subprocess
import sys

from .build import ROOT


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    try:
        name = git("rev-parse", "--verify", "HEAD")
        changed = git("status", "--porcelain")
    except OSError:
        return "unknown"
    return (name or "none yet") + (" with uncommitted changes" if changed else "")


def first_value(path, key):
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return "unknown"


def huge_pages():
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="utf-8") as text:
            return text.read().strip()
    except OSError:
        return "unknown"


def command_line():
    return " ".join(["scripts/bench", *(shlex.quote(word) for word in sys.argv[1:])])


def describe():
    """Lines of "what: value"."""
    now = datetime.datetime.now(datetime.timezone.utc)
    cpu = first_value("/proc/cpuinfo", "model name")
    if cpu == "unknown":
        cpu = platform.machine()
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    lines = [
        f"date: {now:%Y-%m-%d %H:%M} UTC",
        f"commit: {commit()}",
        f"command: {command_line()}",
        f"cpu: {cpu}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores usable",
        f"memory: {first_value('/proc/meminfo', 'MemTotal')}",
        f"kernel: {platform.system()} {platform.release()}, glibc {platform.libc_ver()[1]}",
        f"transparent huge pages: {huge_pages()}",
        f"load average at the end: {load}",
    ]
    if "HEARTH_CONF" in os.environ:
        lines.append(f"HEARTH_CONF: {os.environ['HEARTH_CONF']}")
    return lines
