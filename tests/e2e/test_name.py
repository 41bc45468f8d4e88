# SPDX-License-Identifier: MIT
"""Attaching by name to a service whose processes come and go: those that end meanwhile don't matter."""
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import jab
from targets import LIMIT


SLEEPS = {"35", "230"}      # nanosleep, clock_nanosleep


def wait_asleep(pid):
    """Until it has all its mappings and does what it will do for ever."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and Path(f"/proc/{pid}/syscall").read_text().split()[0] not in SLEEPS:
        time.sleep(.01)


class Crowd:
    """One process that stays, and three threads that start short ones of the same name all the time."""

    def __init__(self, program):
        self.program, self.over = str(program), threading.Event()
        self.failed = []
        self.keeper = subprocess.Popen([self.program, "1000"])
        wait_asleep(self.keeper.pid)
        self.threads = [threading.Thread(target=self.churn) for _ in range(3)]
        for t in self.threads:
            t.start()

    def churn(self):
        while not self.over.is_set():
            status = subprocess.run([self.program, "0.01"], timeout=LIMIT).returncode
            if status:
                self.failed.append(status)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.over.set()
        for t in self.threads:
            t.join()
        self.keeper.kill()
        self.keeper.wait()


def test_processes_that_end_while_we_attach(tmp_path):
    program = tmp_path / f"crowd{os.getpid()}"     # nobody else's: all of that name are probed
    shutil.copy("/bin/sleep", program)
    with Crowd(program) as crowd:
        before = jab.snapshot(crowd.keeper.pid)
        for _ in range(12):
            r = jab.run("count", "--json", "-p", program.name, "-d", "0.02", "libc:clock_nanosleep", "exe:*")
            assert r.status == 0 and r.summary["clean"], r
        jab.assert_same(before, crowd.keeper.pid)
    assert not crowd.failed


def test_only_processes_that_ended(tmp_path):
    program = tmp_path / f"gone{os.getpid()}"
    shutil.copy("/bin/sleep", program)
    subprocess.run([str(program), "0"], timeout=LIMIT)
    r = jab.run("count", "-p", program.name, "-d", "0.02", "exe:*")
    assert r.status == 1 and f"no process is called {program.name}" in r.stderr, r


def test_tells_whose_processes_they_are(tmp_path):
    """Anybody can call a program so: with -v user and file of each are told, and always if there are several users."""
    program = tmp_path / f"whose{os.getpid()}"
    shutil.copy("/bin/sleep", program)
    for d in (tmp_path, *tmp_path.parents[:-2]):
        os.chmod(d, 0o755)
    mine, theirs = subprocess.Popen([program, "1000"]), None
    try:
        wait_asleep(mine.pid)
        line = f"jab: {program.name} is process {{}} of user {{}}, {program}\n"
        quiet = jab.run("check", "-s", "-p", program.name, "exe:main")
        told = jab.run("check", "-s", "-v", "-p", program.name, "exe:main")
        assert " of user " not in quiet.stderr and line.format(mine.pid, os.getuid()) in told.stderr, (quiet, told)
        if os.getuid() == 0:
            theirs = subprocess.Popen([program, "1000"], user=65534)
            wait_asleep(theirs.pid)
            r = jab.run("check", "-s", "-p", program.name, "exe:main")
            assert line.format(mine.pid, 0) in r.stderr and line.format(theirs.pid, 65534) in r.stderr, r
    finally:
        for p in filter(None, (mine, theirs)):
            p.kill()
            p.wait()
