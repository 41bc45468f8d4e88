#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Containers: as many programs in user, pid, ipc and mount namespaces of their own, each traced by a jab of its own.

    containers.py [--seconds N] [--seed N] [--only 2,10,100]

The jabs come, go and are killed at random, all at the same time. Numbers of processes, of shared memory and of inodes
repeat from one container to the next; nothing of one may reach another. Every program's own check must hold, its text
must be as it was, and a probe that was there for a whole phase must have counted exactly.
"""
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import Report, arguments
import jab
from races import Hunt, Trouble
from targets import LIMIT, Target, build

UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--ipc", "--mount", "--fork", "--kill-child", "--mount-proc"]
KINDS = {"calls": ["serve", "2"], "spin": ["2"], "forks": ["1"], "storm": ["2"]}


def first_child(pid):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(.01)
    raise Trouble(f"process {pid} has no child")


class Contained(Hunt):
    """The rounds of races.py, in a container. (Its freeze() waits for the target as its parent, which we are not.)"""

    def round(self):
        what = self.dice.choice([self.phase, self.phase, self.brief, self.kill])
        self.report.count(what.__name__)
        self.story.append(what.__name__)
        what()
        self.look()


class Crowd:
    """A number of containers and a thread for each."""

    def __init__(self, n, seconds, dice, report):
        self.report, self.lock = report, threading.Lock()
        self.end = time.monotonic() + seconds
        self.threads = [threading.Thread(target=self.live, args=(i, random.Random(dice.randrange(1 << 32)))) for i in range(n)]

    def run(self):
        for t in self.threads:
            t.start()
        for t in self.threads:
            t.join()

    def live(self, i, dice):
        name = dice.choice(sorted(KINDS))
        hunt = None
        rounds = 0
        with Target(name, command=[*UNSHARE, str(build(name)), *KINDS[name]]) as t:
            try:
                t.pid = first_child(t.process.pid)
                hunt = Contained(t, dice, self.report)
                while rounds == 0 or time.monotonic() < self.end:
                    hunt.round()
                    rounds += 1
                t.stop()
            except (Trouble, AssertionError, TimeoutError, OSError, StopIteration, subprocess.TimeoutExpired) as e:
                with self.lock:
                    self.report.fail(f"container {i} ({name}), round {rounds}", f"{type(e).__name__}: {e}; status "
                                     f"{t.process.poll()}; last: {' | '.join(hunt.story) if hunt else ''}")
        with self.lock:
            self.report.count("containers")
            self.report.count("rounds", rounds)


def main():
    a = arguments(__doc__.splitlines()[0])
    dice = random.Random(a.seed)
    report = Report(a.seconds, seed=a.seed, jab=jab.JAB)
    sizes = [int(x) for x in a.only] or [2, 10, 100]
    for name in KINDS:
        build(name)
    for n in sizes:
        before = len(report.failures)
        Crowd(n, a.seconds / len(sizes), dice, report).run()
        report.line(containers=n, failures=len(report.failures) - before)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
