#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Races: attach, probe, detach in a random loop against busy targets; the tracer killed at random, the
target stopped and resumed at random.

    races.py [--seconds N] [--seed N] [--only spin,storm,churn,forks,calls,regs]
             [--without PROBE]

Nothing may crash or hang, the target's own checks must hold, nothing of ours may be left, its
text must be as it was, and a probe that was there for a whole phase must have counted exactly.
"""
import os
import random
import signal
import sys
import time

from common import Report, arguments
import jab
from targets import LIMIT, Target

# name -> arguments by number of threads
KINDS = {
    "calls": lambda n: ["serve", n],
    "spin": lambda n: [n],
    "storm": lambda n: [n],
    "churn": lambda n: [max(1, n // 8)],
    "forks": lambda n: [max(1, n // 16)],
    "regs": lambda n: ["serve"],
}
PROBES = ["exe:noise", "exe:noise*", "exe:noise%return", "insn:exe:noise", "exe:*", "libc:*", "*:*", "exe:/./%return",
          "insn:exe:noise_leaf", "libc:mem*", "exe:site_*", "insn:exe:site_*"]


class Trouble(Exception):
    pass


def probes_for(name, dice):
    def fits(p):
        if "site_" in p:
            return name == "regs"
        return not ("noise" in p and name in ("calls", "regs"))
    usable = [p for p in PROBES if fits(p)]
    return dice.sample(usable, dice.randint(1, min(3, len(usable))))


class Hunt:
    """One target and the rounds against it."""

    def __init__(self, target, dice, report):
        self.t, self.dice, self.report = target, dice, report
        self.story = []         # what was done last: a failure tells it
        self.text = self.settled_text()

    def settled_text(self):
        return {k: v for k, v in jab.text_hash(self.t.pid).items()}

    def count(self, *probes, **how):
        self.story = [*self.story[-5:], " ".join(probes)]
        return jab.Count(self.t.pid, *probes, **how)

    def run_some(self):
        n = self.dice.choice([1, 100, 5000]) if self.t.name != "regs" else 2
        self.t.run(n)
        return n

    def phase(self):
        """The probe is there from before the first call until after the last one."""
        counted = ["exe:work"] if self.t.name != "regs" else []
        more = probes_for(self.t.name, self.dice) if self.dice.random() < .7 or not counted else []
        with self.count(*counted, *more) as c:
            n = sum(self.run_some() for _ in range(self.dice.randint(1, 3)))
            r = c.stop()
        if r.status != 0:
            raise Trouble(f"count ended badly: {r}")
        self.end_clean(r)
        if counted and r.probe("exe:work")["hits"] != n:
            raise Trouble(f"{r.probe('exe:work')['hits']} hits instead of {n}: {r}")
        self.report.count("exact hits", n)

    def brief(self):
        """Told to end at any moment, also before its probes are in."""
        with self.count(*probes_for(self.t.name, self.dice), wait=False) as c:
            time.sleep(self.dice.random() ** 3 * .3)
            r = c.stop()
        if r.status not in (0, 130, -2):
            raise Trouble(f"count ended badly: {r}")
        if r.status != 0:       # it had not even begun to listen
            self.recover()
        elif r.summary:
            self.end_clean(r)

    def kill(self):
        with self.count(*probes_for(self.t.name, self.dice), wait=False) as c:
            way = self.dice.random()
            if way < .5:
                c.active.wait(LIMIT)
            if way < .25:
                c.process.send_signal(2)
            time.sleep(self.dice.random() ** 3 * .2)
            c.kill()
        if self.dice.random() < .5:
            self.run_some()     # it goes on with whatever is left in it
        if self.dice.random() < .8:
            self.recover()
        else:                   # the next attach must do it
            self.phase()

    def stutter(self, most):
        """Stopped and resumed by somebody else, again and again."""
        for _ in range(self.dice.randint(0, most)):
            os.kill(self.t.pid, signal.SIGSTOP)
            time.sleep(self.dice.random() ** 3 * .02)
            os.kill(self.t.pid, signal.SIGCONT)
            time.sleep(self.dice.random() ** 3 * .02)

    def freeze(self):
        """The probes come and go while the target is stopped and resumed, or remains stopped."""
        counted = ["exe:work"] if self.t.name != "regs" else []
        with self.count(*counted, *probes_for(self.t.name, self.dice), wait=False) as c:
            self.stutter(20)
            c.wait_active()
            n = self.run_some()
            still = self.dice.random() < .5
            if still:
                os.kill(self.t.pid, signal.SIGSTOP)
            c.process.send_signal(signal.SIGINT)
            if not still:
                self.stutter(20)
            r = c.wait()
        if still and self.t.process.poll() is None:
            pid, status = os.waitpid(self.t.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                raise Trouble(f"its parent sees status {status} instead of a stop")
            os.kill(self.t.pid, signal.SIGCONT)
        if r.status != 0:
            raise Trouble(f"count ended badly: {r}")
        self.end_clean(r)
        if counted and r.probe("exe:work")["hits"] != n:
            raise Trouble(f"{r.probe('exe:work')['hits']} hits instead of {n}: {r}")

    def end_clean(self, r):
        """What a signal handler has left on a stack of the program's own looks like a frame that it may go back to."""
        if r.summary["clean"]:
            return
        if "like a signal frame of no thread" not in r.stderr:
            raise Trouble(f"not clean: {r}")
        for _ in range(100):    # until it is written over
            self.run_some()
            if jab.run("recover", self.t.pid).status == 0 and not jab.leftovers(self.t.pid):
                return
        raise Trouble(f"not clean, and can't be recovered: {r}")

    def recover(self):
        r = jab.run("recover", self.t.pid)
        if r.status != 0:
            raise Trouble(f"recover: {r}")

    def look(self):
        if not self.t.alive():
            raise Trouble(f"the target is gone, status {self.t.process.poll()}")
        left = jab.leftovers(self.t.pid)
        if left:
            raise Trouble(f"left behind: {left}")
        text = self.settled_text()
        if text != self.text:
            raise Trouble("text differs: " + jab.differences({"text": self.text}, {"text": text}) +
                          f"; {jab.changed_text(self.t.pid)}")

    def round(self):
        what = self.dice.choice([self.phase, self.phase, self.brief, self.kill, self.freeze])
        self.report.count(what.__name__)
        self.story.append(what.__name__)
        what()
        self.look()
        if self.dice.random() < .3:
            self.run_some()


def hunt(name, threads, rounds, dice, report):
    where = f"{name} with {threads} threads"
    at = 0
    h = None
    with Target(name, *KINDS[name](threads)) as t:
        try:
            h = Hunt(t, dice, report)
            for at in range(rounds):
                if at and report.time_left() <= 0:
                    break
                h.round()
            t.stop()
            report.line(target=where, rounds=at + 1)
        except (Trouble, AssertionError, TimeoutError, OSError, StopIteration) as e:
            story = " | ".join(h.story) if h else ""
            report.fail(f"{where}, round {at}", f"{type(e).__name__}: {e}; target status {t.process.poll()}; last: {story}")


def main():
    a = arguments(__doc__.splitlines()[0])
    for p in a.without:
        PROBES.remove(p)
    dice = random.Random(a.seed)
    report = Report(a.seconds, seed=a.seed, jab=jab.JAB)
    names = a.only or list(KINDS)
    turn = 0
    while turn == 0 or report.time_left() > 0:
        name = names[turn % len(names)]
        threads = dice.choice([1, 2, 4, 8, 16, 50, 200])
        hunt(name, threads, dice.randint(5, 20), dice, report)
        report.count("targets")
        turn += 1
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
