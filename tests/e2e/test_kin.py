# SPDX-License-Identifier: MIT
"""At its end jab looks for forks of its targets: it finds them wherever the kernel puts them, and leaves other processes alone."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jab
from targets import LIMIT, Target

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# "orphan": a fork whose parent ends at once. "enter PID": forks from then on are in that one's pid namespace.
TARGET = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
for line in sys.stdin:
    word, *more = line.split()
    if word == "enter":
        fd = os.open("/proc/%s/ns/pid" % more[0], os.O_RDONLY)
        print(libc.setns(fd, 0), flush=True)
    elif word == "orphan":
        r, w = os.pipe()
        if not os.fork():
            if not os.fork():
                os.close(0)
                os.write(w, os.readlink("/proc/self").encode())
                time.sleep(600)
            os._exit(0)
        os.wait()
        print(os.read(r, 99).decode(), flush=True)
    else:
        print("ok", flush=True)
        break
"""
# The kernel gives orphans to it.
REAPER = ["-c", "import ctypes, subprocess, sys; ctypes.CDLL(None).prctl(36, 1); sys.exit(subprocess.run(sys.argv[1:]).returncode)"]
COMMAND = [sys.executable, *REAPER, sys.executable, "-c", TARGET]


def child_of(pid):
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@contextlib.contextmanager
def family(*before):
    """The process that answers, and the one that is traced."""
    with Target("kin", command=[*before, *COMMAND]) as t:
        pid = child_of(t.process.pid)
        yield t, pid


def check_orphan(t, pid, orphan, c):
    try:
        assert jab.leftovers(orphan)
        r = c.stop()
        assert r.status == 0 and r.summary["clean"] and not jab.leftovers(orphan), r
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_orphans_of_a_target():
    """Their parent is an ancestor of the target that was there before."""
    with family() as (t, pid):
        with jab.Count(pid, "libc:getppid") as c:
            orphan = int(t.ask("orphan"))
            assert f"PPid:\t{t.process.pid}\n" in Path(f"/proc/{orphan}/status").read_text()
            check_orphan(t, pid, orphan, c)
        t.stop()


def test_orphans_of_a_target_that_has_ended():
    with family() as (t, pid):
        with jab.Count(pid, "libc:getppid") as c:
            orphan = int(t.ask("orphan"))
            t.stop()
            check_orphan(t, pid, orphan, c)


@needs_root
def test_orphans_in_another_namespace():
    """Their parent is the first process of that one."""
    first = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "sleep", "600"])
    try:
        end = time.monotonic() + LIMIT
        while not Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text() and time.monotonic() < end:
            time.sleep(.01)
        with family() as (t, pid):
            with jab.Count(pid, "libc:getppid") as c:
                assert t.ask(f"enter {child_of(first.pid)}") == "0"
                orphan = int(t.ask("orphan"))
                assert f"PPid:\t{child_of(first.pid)}\n" in Path(f"/proc/{orphan}/status").read_text()
                check_orphan(t, pid, orphan, c)
            t.stop()
    finally:
        first.kill()
        first.wait()


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_mappings_of_others_are_not_read(target, tmp_path):
    """Of those that were there before, and of those that these start: reading takes a lock of theirs."""
    t = target("calls", "serve", 1)
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(.05)         # start times are in hundredths of a second
        p = subprocess.Popen(["strace", "-f", "-e", "trace=openat", "-o", str(tmp_path / "calls"), jab.JAB, "count", "-v", "-p", str(t.pid), "exe:work"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        next(x for x in iter(p.stderr.readline, "") if "active:" in x)
        shell.stdin.write("sleep 600 > /dev/null & echo $!\n")
        shell.stdin.flush()
        young = int(shell.stdout.readline())
        tracer = child_of(p.pid)
        os.kill(tracer, signal.SIGINT)
        p.communicate(timeout=LIMIT)
        opened = {int(x) for x in re.findall(r'"/proc/(\d+)/(?:task/\d+/)?maps"', (tmp_path / "calls").read_text())}
        os.kill(young, signal.SIGKILL)
        assert t.pid in opened and not opened & {shell.pid, young, os.getpid()}, opened
    finally:
        shell.kill()
        shell.communicate()
    t.stop()
