#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Events under all kinds of trouble: what was called is what was recorded and lost, by whom it was called.

    events.py [--seconds N] [--only storm,forks,...]

Each case is recorded, its own tellings are compared with the summary and with what babeltrace2 reads, and that
again and again until the time is over. A short run does each once, small.
"""
import collections
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
import targets
import traces
from targets import LIMIT

PLAIN = "exe:grind a=arg0:long b=arg1:long"
LOOK = "exe:look n=arg0:long text=arg1:string v=arg2:int[2] good=arg3:string"


def record(out, probe, command, options=(), limit=LIMIT):
    r = traces.record(out, [probe], command, options, limit=limit)
    return r, r.summary["probes"][0] if r.summary else None


def assert_totals(path, probe, expect, read):
    """hits = told = recorded + lost; and the trace has those that were recorded, under the right numbers."""
    assert probe["hits"] == sum(expect.values()) == probe["recorded"] + probe["lost"], (probe, sum(expect.values()))
    if not read:
        return
    events, lost = traces.babeltrace(path)
    got = collections.Counter((e.pid, e.tid) for e in events)
    assert len(events) == probe["recorded"] and lost == probe["lost"], (probe, len(events), lost)
    assert all(got[who] <= expect[who] for who in got), (got - expect)
    assert lost or got == expect, (got - expect, expect - got)
    for who in got:
        numbers = [int(e.fields["a"]) for e in events if (e.pid, e.tid) == who and e.fields["a"] != "-1"] if len(got) < 50 else []
        assert numbers == sorted(set(numbers)), who


def mill(d, scale, mode, count, calls, options=("--buffer-size", "16M")):
    out = d / mode
    r, probe = record(out, PLAIN, [targets.build("mill"), mode, count, calls], options)
    assert r.status == 0, r
    assert_totals(out, probe, traces.told(r), read=probe["recorded"] < 3000000)
    return {"hits": probe["hits"], "lost": probe["lost"], "signals": int((r.stderr.split(" signals")[0].split() or "0")[-1])
            if " signals" in r.stderr else None}


def storm(d, scale):
    return mill(d, scale, "storm", 200, 500 * scale)


def storm_overload(d, scale):
    return mill(d, scale, "storm", 200, 500 * scale, ("--buffer-size", "64k"))


def forks(d, scale):
    return mill(d, scale, "forks", min(200 * scale, 1000), 20)


def execs(d, scale):
    return mill(d, scale, "execs", 4 * scale, 100, ())


def faults(d, scale):
    """All kinds of bad pointers; a new disposition each time. Ten million is many of these."""
    how = random.choice(["default", "handled", "ignored", "blocked"])
    n = 100000 * scale
    r, probe = record(d / "faults", LOOK, [targets.build("wild"), "all", how, n], ["--buffer-size", "1M"])
    assert r.status == 0 and r.stdout.startswith(f"{n} calls, 0 signals,"), r
    assert probe["hits"] == n == probe["recorded"] + probe["lost"], probe
    return {"hits": n, "lost": probe["lost"], "how": how}


def killed(d, scale):
    """SIGKILL of the recorder at any moment; the program goes on to its own end, and nothing is left after a recover."""
    for i in range(5 * scale):
        out = d / f"killed{i}"
        t = subprocess.Popen([str(targets.build("mill")), "forks" if i % 2 else "storm", "4", "2000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p = subprocess.Popen([jab.JAB, "record", "-p", str(t.pid), "-o", str(out), PLAIN], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(random.choice([0, .002, .01, .02, .03, .05, .1]) * random.random())
        p.kill()
        p.wait()
        text, err = t.communicate(timeout=LIMIT)
        assert t.returncode == 0 and len(text.splitlines()) >= 4, (t.returncode, text, err)
        if (out / "metadata").exists():
            traces.babeltrace(out)
        shutil.rmtree(out, ignore_errors=True)
    return {"rounds": 5 * scale}


def recovered(d, scale):
    """The same with a program that lives on: `jab recover` takes everything out."""
    t = targets.Target("calls", "serve", 2)
    try:
        before = jab.text_hash(t.pid)
        for i in range(5 * scale):
            p = subprocess.Popen([jab.JAB, "record", "-p", str(t.pid), "-o", str(d / f"r{i}"), "exe:work arg0:string", "libc:malloc"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(.1 * random.random())
            if i % 3 == 2:	# while it is taking its probes out
                p.send_signal(signal.SIGINT)
                time.sleep(.02 * random.random())
            t.run(1000)
            p.kill()
            p.wait()
            t.run(1000)
            r = jab.run("recover", t.pid)
            assert r.status == 0, r
            t.run(1000)
            assert jab.text_hash(t.pid) == before and not jab.leftovers(t.pid), i
            shutil.rmtree(d / f"r{i}", ignore_errors=True)
        t.stop()
    finally:
        t.__exit__()
    return {"rounds": 5 * scale}


def line_with(stream, words):
    """The next line that has these words; None at the end."""
    return next((line for line in stream if words in line), None)


def snapshots(d, scale):
    """A flight recorder under load, snapshots at any time: whole, ordered, the newest complete."""
    t = subprocess.Popen([str(targets.build("mill")), "storm", "4", str(100000 * scale)], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    p = subprocess.Popen([jab.JAB, "record", "-v", "--overwrite", "--buffer-size", "256k", "-p", str(t.pid), "-o", str(d / "s"), PLAIN],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    taken = events = 0
    try:
        is_active = line_with(p.stderr, "jab: active:")
        while is_active and t.poll() is None and taken < 10 * scale:
            time.sleep(.05 + .1 * random.random())
            p.send_signal(signal.SIGUSR1)
            line = line_with(p.stderr, "snapshot of")
            if not line:
                break
            path = Path(line.split(" in ", 1)[1].strip())
            events += check_snapshot(path)
            shutil.rmtree(path)
            taken += 1
        assert taken == 10 * scale or t.wait(LIMIT) == 0
        assert events or not taken
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=LIMIT)
        assert p.returncode in (0, 1), p.returncode
    finally:
        for x in (p, t):
            if x.poll() is None:
                x.kill()
            x.wait()
    return {"snapshots": taken}


def check_snapshot(path):
    """Of each thread the calls without a gap, up to the time when the last one of them all was made. A thread moves
    between CPUs, and the rings of these reach back differently: gaps may be where one begins only. Returns how many
    there are: none, if the program has not had its turn yet."""
    events, lost = traces.babeltrace(path)
    assert not lost, lost
    if not events:
        return 0
    rings = collections.defaultdict(lambda: events[0].time)
    for e in reversed(events):
        rings[e.cpu] = e.time
    common = max(rings.values())		# from here on all rings reach back
    last = {}
    for e in events:
        n = int(e.fields["a"])
        if n == -1 or e.time < common:
            continue
        assert int(e.fields["b"]) == 2 * n, e
        assert e.tid not in last or n == last[e.tid] + 1, (path, e, last[e.tid])
        last[e.tid] = n
    return len(events)


CASES = [storm, forks, execs, faults, killed, recovered, snapshots, storm_overload]


def main():
    a = arguments("Events under trouble.")
    report = Report(a.seconds, seed=a.seed)
    random.seed(a.seed)
    if not traces.have_babeltrace():
        report.line(skipped="no babeltrace2")
        return report.end()
    cases = [c for c in CASES if not a.only or c.__name__ in a.only]
    rounds, scale = 0, 1
    while rounds == 0 or report.time_left() > 0:
        for case in report.in_time(cases, random, a.all and not rounds):
            with tempfile.TemporaryDirectory(prefix="jab-torture-") as d:
                try:
                    report.line(case=case.__name__, scale=scale, **case(Path(d), scale))
                    report.count(case.__name__)
                except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired, TimeoutError) as e:
                    report.fail(case.__name__, repr(e))
        rounds += 1
        scale = min(scale * 2, 16)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
