#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Servers answer the same with everything probed as without, while jab comes and goes.

    servers.py [--seconds N] [--only nginx,redis,...]

Every case starts its server and takes the answers to a fixed load as reference. Then, for each
set of probes, jab attaches to all the server's processes under a second, endless load; the fixed
load is played; jab detaches, and the fixed load is played once more. All answers must agree,
nothing of ours may be left, and the server must end as it does untraced. A set of probes that the
time does not allow is left out, the first one never.
"""
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from common import Report, arguments
import jab
from serving import CASES
from targets import LIMIT

SETS = [["*:*"], ["*:*", "*:/./%return"]]


def children(pid):
    """The process and all its descendants."""
    out = [pid]
    with contextlib.suppress(OSError):		# threads and processes end while we look
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            out += children_of(task)
    return out


def children_of(task):
    out = []
    with contextlib.suppress(OSError):
        for c in (task / "children").read_text().split():
            out += children(int(c))
    return out


class Background:
    """The case's endless load on a thread of its own; what it met is in `wrong`."""

    def __init__(self, case, place):
        self.case, self.place, self.wrong, self.rounds, self.end = case, place, [], 0, False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            want = self.case.ping(self.place)
            while not self.end:
                got = self.case.ping(self.place)
                self.rounds += 1
                if got != want:
                    self.wrong.append(f"{got!r:.300} instead of {want!r:.300}")
                    return
        except Exception as e:                      # whatever a client can meet is a failure
            self.wrong.append(repr(e))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *what):
        self.end = True
        self.thread.join(LIMIT)
        if self.thread.is_alive():
            self.wrong.append("the endless load does not end")


def attached(case, server, place, probes):
    """One visit of jab. Returns its result and the answers during it."""
    who = [case.process_name] if case.process_name else children(server.pid)
    options = ["-i", "0"] + [x for p in who[1:] for x in ("-p", str(p))]
    with jab.Count(who[0], *probes, options=options) as count:
        answers = case.load(place)
        result = count.stop()
    left = []
    for p in children(server.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            left += jab.leftovers(p)
    return result, answers, left


def complaints(case, want, result, during, after, left, load):
    if result.status:
        yield f"jab: {result}"
    elif not any(r["hits"] for r in result.rows):
        yield f"nothing was counted: {result}"
    for when, got in (("during", during), ("after", after)):
        for k in want:
            if want[k] != got.get(k):
                yield f"{when}, {k}: {got.get(k)!r:.1000} instead of {want[k]!r:.1000}"
    if left:
        yield f"left behind: {left}"
    yield from (f"endless load: {x}" for x in load.wrong)


def visit(case, server, place, want, probes, report):
    begin = time.monotonic()
    with Background(case, place) as load:
        result, during, left = attached(case, server, place, probes)
        after = case.load(place)
    bad = list(complaints(case, want, result, during, after, left, load))
    if server.poll() is not None:
        bad.append(f"the server ended with {server.poll()}")
    report.count("visits")
    sums = {k: sum(p[k] for p in result.summary["probes"]) for k in ("sites", "refused", "hits")} if result.summary else None
    report.line(case=case.name, probes=probes, same=not bad, seconds=round(time.monotonic() - begin, 2), count=sums,
                rounds=load.rounds)
    for x in bad:
        report.fail(f"{case.name} {probes}", x)


def run_case(case, d, report, sets):
    server, place = case.start(d)
    log = d / "log"
    try:
        case.wait_ready(server, place)
        case.load(place)                            # what it finds the first time may differ
        want = case.load(place)
        if case.load(place) != want:
            report.fail(case.name, "two untraced loads differ")
            return
        for i, probes in enumerate(sets):
            if i and report.time_left() <= 0:
                report.count("left out")
            elif server.poll() is None:
                visit(case, server, place, want, probes, report)
        status = case.stop(server)
        if status not in case.statuses:
            report.fail(case.name, f"ended with {status}; its log: {log.read_text(errors='replace')[-2000:]}")
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main():
    a = arguments(__doc__.splitlines()[0])
    report = Report(a.seconds, seed=a.seed, cases=[c.name for c in CASES], jab=jab.JAB)
    cases = [c for c in CASES if not a.only or c.name in a.only]
    for case in report.in_time(cases, random.Random(a.seed), a.all):
        if not case.available():
            report.line(case=case.name, skipped="not installed here")
            continue
        with tempfile.TemporaryDirectory(prefix="jab-servers-") as d:
            os.chmod(d, 0o777)
            try:
                run_case(case, Path(d), report, case.sets or SETS)
            except Exception:
                report.fail(case.name, traceback.format_exc())
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
