#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Pointers that lead nowhere, ten million of each kind, whatever the program does about SIGSEGV.

    faults.py [--seconds N] [--events N] [--state FILE] [--only null-default,race-blocked,...]

Each kind with each disposition is a case. A case is recorded in slices, so that the disk holds one slice only; of each slice
all events are read back, and each must say <fault>. The program's own output must be the one it has without us. The slice
with the fewest events so far comes next, so a run that is ended early has done some of everything; FILE remembers the sums,
and the next run goes on there. Events that were lost are counted, but not among those that were looked at.
"""
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
import jab
import targets
import traces

KINDS = ["null", "unmapped", "none", "odd", "race"]
DISPOSITIONS = ["default", "handled", "ignored", "blocked"]
PROBE = "exe:look n=arg0:long text=arg1:string v=arg2:int[2] b=arg2:bytes[8] good=arg3:string"
SLICE = 500000
LIMIT = 1800        # one core, and not ours alone

FAULT = r' text=<fault> v=<fault> b=<fault> good="good"$'
# Mapped and unmapped by another thread all the time: each field for itself is text, zeros, or not there.
RACE = (r' text=(<fault>|"m*") v=(<fault>|\[(0|1835887981),(0|1835887981)\]) b=(<fault>|(00|6d){8}) good="good"$')


def options(p):
    p.add_argument("--events", type=int, default=10000000, help="of each case (default ten million)")
    p.add_argument("--state", type=Path, default=None, help="what was done by earlier runs, and by this one")


def load(path):
    if path and path.exists():
        return json.loads(path.read_text())
    return {}


def save(path, state):
    if path:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(state, indent=1))
        fresh.replace(path)


def others(path, pattern):
    """(events in the trace, those that don't match)."""
    counts = []
    for flags in (["-c", "-E", " n=[0-9]+ "], ["-c", "-v", "-E", pattern]):
        view = subprocess.Popen([jab.JAB, "view", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        found = subprocess.run(["grep", *flags], stdin=view.stdout, capture_output=True, text=True, timeout=LIMIT,
                               env=dict(os.environ, LC_ALL="C"))
        view.stdout.close()
        assert view.wait(LIMIT) == 0
        counts.append(int(found.stdout))
    return counts


def one_slice(case, n, d):
    kind, how = case.split("-")
    command = [str(targets.build("wild")), kind, how, str(n)]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT).stdout.strip()
    r = traces.record(d / "t", [PROBE], command, ["--buffer-size", "4M"], limit=LIMIT)
    assert r.status == 0 and r.stdout == plain and plain.startswith(f"{n} calls, 0 signals,"), (r, plain)
    probe = r.summary["probes"][0]
    assert probe["hits"] == n == probe["recorded"] + probe["lost"], probe
    read, wrong = others(d / "t", RACE if kind == "race" else FAULT)
    assert (read, wrong) == (probe["recorded"], 0), (read, wrong, probe)
    return probe


def main():
    a = arguments("Bad pointers by the million.", options)
    report = Report(a.seconds, seed=a.seed, events=a.events)
    state = load(a.state)
    cases = ["-".join(x) for x in itertools.product(KINDS, DISPOSITIONS)]
    cases = [c for c in cases if not a.only or c in a.only]
    for c in cases:
        state.setdefault(c, {"recorded": 0, "lost": 0, "seconds": 0})
    first = True
    while first or report.time_left() > 0:
        first = False
        case = min(cases, key=lambda c: state[c]["recorded"])
        left = a.events - state[case]["recorded"]
        if left <= 0:
            break
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="jab-torture-") as d:
            try:
                probe = one_slice(case, min(SLICE, left), Path(d))
            except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as e:
                report.fail(case, repr(e))
                break
        state[case]["recorded"] += probe["recorded"]
        state[case]["lost"] += probe["lost"]
        state[case]["seconds"] = round(state[case]["seconds"] + time.monotonic() - begin, 1)
        report.count("slices")
        report.count("events", probe["recorded"])
        save(a.state, state)
    report.line(cases=state)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
