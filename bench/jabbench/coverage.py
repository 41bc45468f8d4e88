# SPDX-License-Identifier: MIT
"""Which share of entries, exits and instructions gets a jump, over large files; what is missed and why.

Three plans a file, each for all its sites at once: every entry, every exit, every instruction. Every miss
is a line of BUILD/coverage.jsonl, and so is the sum of a file."""

import json
import os
import subprocess
import threading
import time

from .common import Wrong, table
from .files import large_files

SECONDS = 110		# for all files; the rest is named, not planned
ONE = 60		# for one plan

KINDS = [("entries", "exe:*"), ("exits", "exe:*%return"), ("instructions", "insn:exe:*")]


def check(jab, path, spec, only_misses):
    """Objects that `jab check` prints, the summary last."""
    argv = [jab, "check", "--json"] + (["-m"] if only_misses else []) + [path, spec]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(ONE, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            yield json.loads(line)
        words = process.stderr.read().strip()
        if process.wait():
            raise Wrong("jab check %s '%s': status %d %s" % (path, spec, process.returncode, words))
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


class Tally:
    def __init__(self):
        self.sites = self.missed = 0
        self.tactics = {}

    def add(self, other):
        self.sites += other.sites
        self.missed += other.missed
        for name, n in other.tactics.items():
            self.tactics[name] = self.tactics.get(name, 0) + n

    def percent(self):
        return 100 * (1 - self.missed / self.sites) if self.sites else None


def plan(jab, path, kind, spec, out):
    """One plan of one file: a tally, and for exits another one by function."""
    tally, functions = Tally(), {}
    for o in check(jab, path, spec, kind != "exits"):
        if "summary" in o:
            tally.sites, tally.missed = o["summary"]["sites"], o["summary"]["refused"]
            tally.tactics = o["summary"]["tactics"]
            continue
        missed = o["tactic"] == "none"
        key = int(o["address"], 16) - o["offset"]
        functions[key] = functions.get(key, False) or missed
        if missed:
            out.write(json.dumps({"file": path, "kind": kind, **{k: o[k] for k in (
                "function", "offset", "address", "reason")}}) + "\n")
    whole = Tally()
    whole.sites, whole.missed = len(functions), sum(functions.values())
    return tally, whole


def one_file(jab, path, out, total):
    """The rows of one file; `total` collects."""
    mine = {}
    for kind, spec in KINDS:
        tally, whole = plan(jab, path, kind, spec, out)
        mine[kind] = tally
        if kind == "exits":
            mine["functions"] = whole
    for kind, tally in mine.items():
        total.setdefault(kind, Tally()).add(tally)
    out.write(json.dumps({"file": path, "sum": {k: [t.sites, t.missed, t.tactics] for k, t in mine.items()}}) + "\n")
    return mine


def cell(tally):
    return "%.3f" % tally.percent() if tally.sites else "-"


def row(name, mine):
    cells = [name]
    for kind in ("entries", "exits", "functions", "instructions"):
        t = mine[kind]
        cells += [str(t.sites), str(t.missed), cell(t)]
    return cells


def show_tactics(total):
    names = sorted({n for t in total.values() for n in t.tactics},
                   key=lambda n: -sum(t.tactics.get(n, 0) for t in total.values()))
    kinds = [k for k, _ in KINDS if k in total]
    table(["tactic, %"] + kinds, [[n] + ["%.4f" % (100 * total[k].tactics.get(n, 0) / max(total[k].sites, 1))
                                         for k in kinds] for n in names])


TARGETS = [("entries", 99.99), ("instructions", 99.9), ("exits", 99.9), ("functions", 99.9)]
WORDS = {"functions": "functions with every exit"}


def run(jab, builder, result):
    path = os.path.join(builder.build, "coverage.jsonl")
    total, rows, left = {}, [], []
    end = time.monotonic() + SECONDS
    with open(path, "w") as out:
        for file in large_files(builder):
            if time.monotonic() > end:
                left.append(os.path.basename(file))
                continue
            try:
                rows.append(row(os.path.basename(file), one_file(jab, file, out, total)))
            except Wrong as e:
                result.problem(str(e))
    if not rows:
        return
    table(["file", "entries", "missed", "%", "exits", "missed", "%", "functions", "missed", "%",
           "instructions", "missed", "%"], rows + [row("all", total)])
    if left:
        print("  no time left for: " + ", ".join(left))
    show_tactics(total)
    print("  every miss with its reason: " + os.path.relpath(path))
    result.data["coverage"] = {k: [t.sites, t.missed, t.tactics] for k, t in total.items()}
    for kind, limit in TARGETS:
        t = total[kind]
        result.target("coverage: " + WORDS.get(kind, kind), limit, "%", t.percent(),
                      "%d of %d missed, %d files" % (t.missed, t.sites, len(rows)), at_least=True)
