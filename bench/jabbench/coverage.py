# SPDX-License-Identifier: MIT
"""Which share of entries, exits and instructions gets a jump, over large files; what is missed and why.

bench/coverage.c plans every site of a file alone and then all entries and exits at once; of large files it
takes a part of the instructions unless --full is given. `jab check` then plans all entries and exits of the
same file. Every miss is a line of BUILD/coverage.jsonl, and so are the sums of each file.

The targets are for what Debian ships. Programs that were built here stand beside it: in Go, instructions that may fault
are never displaced (docs/why/go.md), which is one in twenty."""

import json
import os
import re
import subprocess
import time

from .common import Wrong, table
from .files import large_files

SECONDS = 125		# for all files; those left over are named
SAMPLE = 4 << 20	# one function of every so many bytes of file gives its instructions
KINDS = ("entries", "exits", "instructions", "all at once")
ROW = re.compile(r"^ +(%s) +(\d+) +([\d.]+)%%((?: +\d+)+) +[\d.]+$" % "|".join(KINDS))
WHOLE = re.compile(r"functions with every exit: (\d+) of (\d+)")
TARGETS = [("entries", 99.99), ("instructions", 99.9), ("exits", 99.9), ("functions", 99.9)]
WORDS = {"functions": "functions with every exit"}


class Tally:
    def __init__(self, sites=0, missed=0, tactics=None):
        self.sites, self.missed, self.tactics = sites, missed, tactics or {}

    def add(self, other):
        self.sites += other.sites
        self.missed += other.missed
        for name, n in other.tactics.items():
            self.tactics[name] = self.tactics.get(name, 0) + n

    def percent(self):
        return 100 * (1 - self.missed / self.sites) if self.sites else None

    def cell(self):
        return "%.4f" % self.percent() if self.sites else "-"


def parse(text):
    """The table that coverage.c prints for one file."""
    mine, names = {}, []
    for line in text.splitlines():
        row, whole = ROW.match(line), WHOLE.search(line)
        if line.split()[:2] == ["sites", "covered"]:
            names = line.split()[2:-2]
        elif row:
            counts = [int(n) for n in row.group(4).split()]
            mine[row.group(1)] = Tally(int(row.group(2)), counts[-1], dict(zip(names + ["none"], counts)))
        elif whole:
            good, all_of = int(whole.group(1)), int(whole.group(2))
            mine["functions"] = Tally(all_of, all_of - good)
    return mine


def by_driver(driver, path, full, seconds, jsonl):
    every = 1 if full else 1 + os.path.getsize(path) // SAMPLE
    misses = jsonl.name + ".part"
    try:
        done = subprocess.run([driver, "-j", misses, "-n", str(every), path], capture_output=True, text=True,
                              timeout=seconds)
        if done.returncode:
            raise Wrong("coverage %s: status %d %s" % (path, done.returncode, done.stderr.strip()))
        with open(misses) as part:
            jsonl.write(part.read())
    finally:
        if os.path.exists(misses):
            os.unlink(misses)
    mine = parse(done.stdout)
    if not set(KINDS) <= set(mine):
        raise Wrong("coverage %s: can't read its table" % path)
    return mine


def by_jab(jab, path, seconds):
    """All entries and exits at once, as a user sees it. A function without any exit is no miss."""
    argv = [jab, "check", "--json", "-m", path, "exe:*", "exe:*%return"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise Wrong("jab check %s: status %d %s" % (path, done.returncode, done.stderr.strip()))
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    endless = sum("never returns" in o.get("reason", "") for o in objects)
    sums = objects[-1]["summary"]
    return Tally(sums["sites"] - endless, sums["refused"] - endless)


def one_file(jab, driver, path, full, end, jsonl):
    def left():
        return 3600 if full else max(end - time.monotonic(), 1)

    mine = by_driver(driver, path, full, left(), jsonl)
    mine["jab check"] = by_jab(jab, path, left())
    jsonl.write(json.dumps({"file": path, "sum": {k: [t.sites, t.missed, t.tactics] for k, t in mine.items()}}) +
                "\n")
    return mine


COLUMNS = ("entries", "exits", "functions", "instructions", "all at once", "jab check")


def row(name, mine):
    return [name] + ["%d of %d" % (mine[kind].missed, mine[kind].sites) for kind in COLUMNS]


def total_of(files):
    total = {}
    for mine in files:
        for kind, tally in mine.items():
            total.setdefault(kind, Tally()).add(tally)
    return total


def show(files, total, packaged):
    table(["missed"] + list(COLUMNS),
          [row(os.path.basename(p), mine) for p, mine in files.items()] + [row("all", total), row("Debian's", packaged)] +
          [["placed, %"] + [total[kind].cell() for kind in COLUMNS]] +
          [["Debian's, %"] + [packaged[kind].cell() for kind in COLUMNS]])
    names = [n for n in total["entries"].tactics if any(total[k].tactics.get(n) for k in KINDS)]
    table(["tactic, %"] + list(KINDS), [[n] + ["%.4f" % (100 * total[k].tactics.get(n, 0) / total[k].sites)
                                               for k in KINDS] for n in names])


def measure(jab, driver, builder, full, result):
    files, late = {}, []
    end = time.monotonic() + SECONDS
    with open(os.path.join(builder.build, "coverage.jsonl"), "w") as jsonl:
        for path in large_files(builder):
            try:
                if not full and time.monotonic() > end:
                    raise subprocess.TimeoutExpired(path, 0)
                files[path] = one_file(jab, driver, path, full, end, jsonl)
            except subprocess.TimeoutExpired:
                late.append(os.path.basename(path))
            except Wrong as e:
                result.problem(str(e))
    if late:
        print("  no time left for: " + ", ".join(late))
    return files


def run(jab, builder, result, full=False):
    files = measure(jab, builder.inside("coverage"), builder, full, result)
    if not files:
        return
    theirs = [mine for path, mine in files.items() if not path.startswith(builder.build)]
    total, packaged = total_of(files.values()), total_of(theirs)
    show(files, total, packaged)
    print("  every miss with its reason: " + os.path.relpath(os.path.join(builder.build, "coverage.jsonl")))
    result.data["coverage"] = {k: [t.sites, t.missed, t.tactics] for k, t in total.items()}
    for kind, limit in TARGETS:
        t = packaged[kind]
        result.target("coverage: " + WORDS.get(kind, kind), limit, "%", t.percent(),
                      "%d of %d missed, %d files of Debian" % (t.missed, t.sites, len(theirs)), at_least=True)
