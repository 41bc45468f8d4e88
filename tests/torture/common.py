# SPDX-License-Identifier: MIT
"""What the long runs share: the harness of the end-to-end tests, a clock, and one way to report."""
import argparse
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))


def arguments(what, more=None):
    """more: adds options of its own to the parser."""
    p = argparse.ArgumentParser(description=what)
    p.add_argument("--seconds", type=float, default=60, help="start nothing new after that long (default 60)")
    p.add_argument("--seed", type=int, default=None, help="repeat a run (printed at its start)")
    p.add_argument("--only", default="", help="names to run, separated by commas")
    p.add_argument("--all", action="store_true", help="each case once, whatever time it takes")
    p.add_argument("--without", action="append", default=[], help="a set of probes to leave out")
    if more:
        more(p)
    a = p.parse_args()
    if a.seed is None:
        a.seed = random.SystemRandom().randrange(1 << 32)
    a.only = [x for x in a.only.split(",") if x]
    return a


class Report:
    """One JSON object a line on stdout; the last one is the summary."""

    def __init__(self, seconds, **facts):
        self.begin, self.seconds = time.monotonic(), seconds
        self.failures, self.tally, self.had = [], {}, []
        self.line(begin=facts)

    def line(self, **what):
        print(json.dumps(what), flush=True)

    def time_left(self):
        return self.seconds - (time.monotonic() - self.begin)

    def in_time(self, cases, dice, is_all=False):
        """Cases in random order while there is time, at least one of them. Those that never had a turn in this run are left out, and
        are told; of a last lap that time has cut short nothing is."""
        for i, case in enumerate(dice.sample(cases, len(cases))):
            if i and not is_all and self.time_left() <= 0:
                never = [str(c) for c in cases if c not in self.had]
                if never:
                    self.count("cases left out", len(never))
                    self.line(cases_left_out=never)
                return
            if case not in self.had:
                self.had.append(case)
            yield case

    def count(self, what, n=1):
        self.tally[what] = self.tally.get(what, 0) + n

    def fail(self, where, why):
        self.failures.append(where)
        self.line(failure=where, why=str(why)[-4000:])

    def end(self):
        """The exit status of the run."""
        self.line(summary={"seconds": round(time.monotonic() - self.begin, 1), "tally": self.tally,
                           "failures": len(self.failures)})
        return 1 if self.failures else 0
