#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Oddities: programs that do odd but legal things, in random order, under random visits, probes, kills and recoveries.

    oddities.py [--seconds N] [--seed N] [--only NAME,...]

Programs that serve commands work while jab comes, goes and is killed; in the end their own check must hold. Programs that
run once are started by jab, in a random mode; their output and status must be those of a run without it.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
import jab
from targets import LIMIT, Missing, Target, build

SCRIPT = ("u:exe:work { @n = count(); @h[tid] = hist(arg0); @s[str(arg0)] = count(); } ur:exe:work { @r = sum(retval); } "
          "call:exe:work { @d = hist(duration); }")

# name -> program, arguments
SERVERS = {
    "restorer": ("frames", "restorer"), "nested": ("frames", "nested"), "copied": ("frames", "copied"),
    "preempt": ("preempt", "4"), "rseqown": ("rseqown",), "timeless": ("timeless",), "dispatch": ("dispatch", "early"),
    "pauses": ("pauses",), "jail": ("jail", "chroot", None), "sharedtext": ("sharedtext", "libsharedtext.so", "w"),
    "calls": ("calls", "serve", "3"),
}
ONCE = {
    "new": ("oddthreads", "new", "2000"), "new_static": ("oddthreads_static", "new", "1000"), "bare": ("oddthreads", "bare"),
    "own": ("oddthreads", "own"), "moved": ("oddthreads", "moved"), "zeros": ("oddthreads", "zeros"),
    "clone3": ("oddthreads", "clone3"), "child": ("oddthreads", "child"),
    "stacktop": ("stacktop", "2000"), "backwards": ("backwards", "2000"), "dispatch_late": ("dispatch", "late", "500"),
    "timeless_late": ("timeless", "500"), "deep": ("deep", "20"),
}

FUNCTIONS = {"backwards": "backwards", "deep": "main.descend"}     # the others have work()


class Trouble(Exception):
    pass


def mode(dice, d):
    """Options of jab and its probes, in any order of modes."""
    what = dice.choice(["count", "count", "insn", "trace", "record", "script"])
    if what == "count":
        return ["count", "-o", str(d / "out"), *dice.choice([["exe:work"], ["exe:*"], ["exe:work%return"], ["*:*"]])]
    if what == "insn":
        return ["count", "-o", str(d / "out"), "insn:exe:work"]
    if what == "trace":
        return ["trace", "-o", str(d / "out"), *dice.choice([["exe:work"], ["exe:work n=arg0 x=arg6 s=arg0:string"],
                                                              ["exe:work backtrace"], ["libc:start_thread", "exe:work"]])]
    if what == "record":
        shutil.rmtree(d / "trace", ignore_errors=True)
        return ["record", "-o", str(d / "trace"), "exe:work n=arg0", "libc:*"]
    return ["-o", str(d / "out"), "-e", SCRIPT]


def probes_last(command, target):
    """Where the target goes: in front of the probes, or of -e."""
    at = 1 if not command[0].startswith("-") else 0
    return [*command[:at], *target, *command[at:]]


class Served:
    """A program that serves commands, and what is done to it."""

    def __init__(self, name, dice, report, d):
        self.dice, self.report, self.d = dice, report, d
        args = [str(d / "empty") if a is None else str(build(a)) if a.endswith(".so") else a for a in SERVERS[name][1:]]
        (d / "empty").mkdir(exist_ok=True)
        self.t = Target(SERVERS[name][0], *args)
        self.holds = SERVERS[name][0] == "frames"

    def work(self):
        if self.holds:
            if self.dice.random() < .5:
                if self.t.ask("hold") == "held":
                    time.sleep(self.dice.random() * .02)
                    self.t.ask("go")
        else:
            self.t.run(self.dice.choice([1, 100, 2000]))

    def start(self):
        with open(self.d / "err", "ab") as err:
            return subprocess.Popen([jab.JAB, *probes_last(mode(self.dice, self.d), ["-p", str(self.t.pid)])],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)

    def visit(self):
        p = self.start()
        time.sleep(self.dice.random() ** 2 * .3)
        self.work()
        p.send_signal(signal.SIGINT)
        try:
            status = p.wait(LIMIT)
        except subprocess.TimeoutExpired:
            p.kill()
            raise Trouble("jab did not end")
        if status < 0 and status != -signal.SIGINT:
            raise Trouble(f"jab ended with {status}")
        self.report.count("visits")

    def kill(self):
        p = self.start()
        time.sleep(self.dice.random() ** 2 * .3)
        p.kill()
        p.wait()
        self.work()
        if self.dice.random() < .7:
            r = subprocess.run([jab.JAB, "recover", str(self.t.pid)], capture_output=True, text=True, timeout=LIMIT)
            left = "has no probes or memory of jab" in r.stderr or "may still be inside a pad" in r.stdout     # as it is interrupted in our code somewhere
            if r.returncode and not left:
                raise Trouble(f"recover: {r}")
        self.report.count("kills")

    def round(self):
        (self.visit if self.dice.random() < .7 else self.kill)()
        self.work()
        if not self.t.alive():
            raise Trouble(f"the program is dead: {self.t.process.poll()}")


def serve(name, dice, report, d):
    s = Served(name, dice, report, d)
    with s.t:
        for _ in range(dice.randint(3, 8)):
            s.round()
        s.t.stop()


def once(name, dice, report, d):
    """Twice without jab first: what differs then is not compared."""
    command = [str(build(ONCE[name][0])), *ONCE[name][1:]]
    options = [x.replace("exe:work", "exe:" + FUNCTIONS.get(name, "work")) for x in mode(dice, d)]
    plain = [subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT) for _ in range(2)]
    p = subprocess.run([jab.JAB, *options, "--", *command], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    if p.returncode != plain[0].returncode:
        raise Trouble(f"status {p.returncode} instead of {plain[0].returncode}: {p.args}: {p.stderr[-1500:]!r}")
    if plain[0].stdout == plain[1].stdout != p.stdout:
        raise Trouble(f"output {p.stdout[-500:]!r} instead of {plain[0].stdout[-500:]!r}: {p.args}")
    report.count("runs")


def main():
    a = arguments(__doc__.splitlines()[0])
    dice = random.Random(a.seed)
    report = Report(a.seconds, seed=a.seed, jab=jab.JAB)
    names = [n for n in [*SERVERS, *ONCE] if not a.only or n in a.only]
    first = True
    while first or report.time_left() > 0:
        for name in report.in_time(names, dice, a.all and first):
            with tempfile.TemporaryDirectory() as d:
                try:
                    (serve if name in SERVERS else once)(name, dice, report, Path(d))
                    report.count(name)
                except Missing as e:
                    report.line(left_out=name, why=str(e))
                except (Trouble, AssertionError, TimeoutError, OSError, subprocess.TimeoutExpired) as e:
                    err = Path(d) / "err"
                    report.fail(name, f"{type(e).__name__}: {e}; jab said {err.read_text()[-800:] if err.exists() else ''}")
        first = False
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
