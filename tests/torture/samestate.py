#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Typed values of real programs, jab's against gdb's, both looking at the same hit of the same process.

    samestate.py [--seconds N] [--seed S] [--only cxx,cxx0,rust,rust0,bash,redis,python,genmatch,cc1] [--work DIR] [--places N] [--hits N]

A program waits before its main() while jab comes and then gdb, which breaks at the very addresses that jab has put jumps to:
gdb's breakpoint is hit first and tells what it sees, then the jump is executed and jab tells. Nothing runs between the two, so
each value must be the same, whatever clocks, threads and memory that nobody has set do; and each hit that one of them
has the other must have. Places, variables and members are chosen by chance; rounds are repeated with other dice until the time
is over. What one can tell and the other can't is counted by reason. A place inside of another one's jump is left out, as most
exits are: a breakpoint there would break the jump. bash and redis-server are built into DIR once, from Debian's sources, which takes
minutes; the two of gcc (genmatch, which is C++, and cc1, which takes an hour) are left out unless they are built already or asked
for. Needs gdb, the network once, and for gcc libgmp-dev, libmpfr-dev and libmpc-dev.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from common import Report, arguments
import jab
import realprog_build as build
from realprog import ENV, HERE, LIMIT, Asker, explain, is_same, is_told, pairs, words

EXITS = ("nop", "jump", "slack")        # of a ret, which is too short for the others: they take bytes in front of it
OWN = ("nop", "jump", "slack", "retarget", "hop", "evict", "pun", "hop-neighbour")      # a jump that begins at the site


class Held:
    """The program, waiting at the gate."""

    def __init__(self, asker):
        self.gate = asker.scratch / "gate"
        self.gate.unlink(missing_ok=True)
        os.mkfifo(self.gate)
        library = asker.scratch / "gate.so"
        if not library.exists():
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "gate.c")], check=True)
        self.output = open(asker.scratch / "output", "w+b")
        self.process = subprocess.Popen(["setarch", "-R", "env", f"LD_PRELOAD={library}", f"JAB_GATE={self.gate}", *asker.command()],
                                        stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, cwd=asker.program.run, env=ENV)
        self.pid, self.hold = self.process.pid, self.wait_there()

    def wait_there(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(.005)
        raise RuntimeError("the program does not come to the gate")

    def result(self):
        """What it wrote and how it ended."""
        status = self.process.wait(LIMIT)
        self.output.seek(0)
        return status, self.output.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.hold)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.output.close()


class Tracer:
    """jab trace on a process, once its probes are there."""

    def __init__(self, pid, out, probes):
        self.out, self.said, self.active = out, [], threading.Event()
        self.process = subprocess.Popen([jab.JAB, "trace", "-v", "--strict", "--json", "--no-follow", "--buffer-size", "32M", "-o", str(out), "-p", str(pid), *probes],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("jab: active:"):
                self.active.set()
        self.active.set()

    def wait_active(self):
        if not self.active.wait(LIMIT) or self.process.poll() is not None:
            raise RuntimeError("jab does not become active: " + "".join(self.said)[-3000:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join(5)


class Both(Asker):
    def __init__(self, *what):
        super().__init__(*what)
        self.plain = None

    def plan(self, places):
        """Those of the places, planned together, that have jumps of their own which no breakpoint of another one touches."""
        for _ in range(6):
            by_probe = {}
            for o in jab.run("check", "--json", self.program.path, *dict.fromkeys(p["probe"] for p in places)).rows:
                by_probe.setdefault(o.get("probe"), []).append(o)
            wanted = {a for p in places for a in p["addresses"]}
            good = [p for p in places if self.is_good(p, by_probe.get(p["probe"], []), wanted)]
            if len(good) == len(places):
                return good
            places = good
        return []

    def is_good(self, p, rows, wanted):
        rows = [o for o in rows if int(o["address"], 16) in p["addresses"] and (p["kind"] != "exit" or o["kind"] == "exit")]
        own = [int(o["address"], 16) for o in rows if o["tactic"] in (EXITS if o["kind"] == "exit" else OWN)]
        own = [a for a in own if not any(a - d in wanted for d in (1, 2, 3, 4))]
        if sorted(own) == p["addresses"]:
            return True
        if own and p["kind"] != "exit" and p["address"] is None:        # one copy of a line or of an inlined function
            p["address"] = own[0]
            p["probe"], p["addresses"] = f"exe:{own[0]:#x}", own[:1]
            return True
        self.report.count("places left out: " + "/".join(sorted({o["tactic"] for o in rows if o["tactic"] not in OWN} or {"too close"})))
        return False

    def look(self, places, hits, seed):
        """What both say of one run: [gdb's hits], {place: {thread: [jab's]}}."""
        out = self.scratch / "events"
        out.unlink(missing_ok=True)
        with Held(self) as held, Tracer(held.pid, out, [self.text(i, p) for i, p in enumerate(places)]) as tracer:
            tracer.wait_active()
            self.program.drive()
            said = self.gdb("watch", places=places, pid=held.pid, gate=str(held.gate), hits=hits, seed=seed)
            self.check_end(held.result())
            tracer.process.wait(LIMIT)
        ours, lost = {}, 0
        for line in jab.lines_of(out.read_text(errors="replace")):
            o = json.loads(line)
            if "fields" in o and o["pid"] == held.pid:
                values = {k: jab.number(v) for k, v in o["fields"].items()}
                ours.setdefault(int(o["probe"].split(":")[0][1:]), {}).setdefault(o["tid"], []).append(values)
            elif "summary" in o:
                lost = sum(q["lost"] for q in o["summary"]["probes"])
        if lost:
            raise RuntimeError(f"{lost} lost events")
        return [json.loads(x) for x in said.splitlines()], ours

    def check_end(self, result):
        if self.program.exact and self.plain is None:
            with Held(self) as held:
                os.write(held.hold, b"x")
                self.plain = held.result()
        if result[0] or self.program.exact and result != self.plain:
            self.report.fail(type(self.program).__name__, f"ends otherwise than without tracers: {result!r}, and not {self.plain!r}")


def judge(places, theirs, ours, report):
    """Yields (place, hit, number of the expression, its words, jab's, gdb's, address of the place, addresses of the value) of differences."""
    totals = {(i, tid): (n, is_all) for i, tid, n, is_all in theirs[-1]["totals"]}
    for i, p in enumerate(places):
        for tid in set(ours.get(i, {})) | {t for j, t in totals if j == i}:
            mine, (n, is_all) = len(ours.get(i, {}).get(tid, [])), totals.get((i, tid), (0, theirs[-1]["all"][i]))
            report.count("hits of both", min(mine, n))
            if mine != n if is_all else mine < n:
                yield i, None, 0, "hits", mine, n, 0, []
        report.count(f"places, {p['kind']}" if i in ours else "places not hit")
    for hit in theirs[:-1]:
        i, p = hit["place"], places[hit["place"]]
        events = ours.get(i, {}).get(hit["tid"], [])
        if hit["n"] >= len(events):
            continue
        for k, (q, u) in enumerate(zip(p["asked"], hit["values"])):
            for part, m, v in differences(p, k, events[hit["n"]], u, hit["odd"][k], report):
                yield i, hit["n"], k, words(*q) + part, m, v, hit["pc"], hit["trails"][k]


def differences(p, k, fields, u, is_odd, report):
    """Yields (member, jab's, gdb's) of one answer."""
    if k in p["refused"]:
        if isinstance(u, dict) and "gone" in u:
            report.count("gone for both")
        else:
            yield "", {"refused": p["refused"][k]}, u
        return
    for part, m, v in pairs(k, p["asked"][k][1], fields, u):
        if is_told(v) and is_same(m, v):
            report.count("same")
        elif is_odd and is_told(v):
            report.count("memory that pads use, to which a pointer leads that nobody has set")
        else:
            yield part, m, v


def round_of(both, functions, a, dice, report):
    places = both.plan(both.places(functions, a.places, dice))
    if not places:
        return
    theirs, ours = both.look(places, a.hits, dice.randrange(1 << 30))
    shown = set()
    for i, n, k, name, mine, other, pc, trail in judge(places, theirs, ours, report):
        why = explain(places[i], k, mine, other, places[i]["code"].get(str(pc), ""), pc in both.entries, both.program.is_optimised)
        if why:
            report.count(why)
        elif (i, name) not in shown:
            shown.add((i, name))
            report.fail(f"{places[i]['probe']} hit {n}: {name}", f"jab {mine!r}, gdb {other!r} in {both.text(0, places[i])} ({places[i]['function']}), {[hex(x) for x in trail]}")


def options(p):
    p.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "jab-realprog", help="sources and programs, kept")
    p.add_argument("--places", type=int, default=60, help="of each round")
    p.add_argument("--hits", type=int, default=12, help="of each place that are compared")


def main():
    a = arguments(__doc__.splitlines()[0], options)
    a.work.mkdir(parents=True, exist_ok=True)
    total = Report(a.seconds, seed=a.seed, work=str(a.work))
    dice = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as scratch:
        todo = []
        for name, kind in build.PROGRAMS.items():
            program = kind(a.work)
            if name not in a.only if a.only else program.is_slow():
                continue
            program.prepare()
            report = Report.__new__(Tally)
            report.start(total, name)
            both = Both(program, report, scratch)
            todo.append((name, both, both.functions()))
            total.line(program=name, functions=len(todo[-1][2]))
        total.begin = time.monotonic()        # building does not count
        while total.time_left() > 0:
            for name, both, functions in todo:
                if total.time_left() > 0:
                    seed = dice.randrange(1 << 30)
                    round_of(both, functions, a, random.Random(seed), both.report)
                    total.line(round=name, seed=seed, tally=both.report.tally)
    return total.end()


class Tally(Report):
    """One program's counts; its failures are those of the whole run."""

    def start(self, total, name):
        self.tally, self.total, self.name = total.tally.setdefault(name, {}), total, name

    def fail(self, where, why):
        self.count("failures")
        self.total.fail(f"{self.name}: {where}", why)


if __name__ == "__main__":
    sys.exit(main())
