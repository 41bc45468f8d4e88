# SPDX-License-Identifier: MIT
"""What a hit costs, seen by the program itself: jab, a kernel uprobe and two instructions side by side.

Every figure is the difference to the bare call measured a moment before, and the median over rounds in
which all variants take turns, so that a change of the machine's mood hits all alike."""

import subprocess

from .common import Jab, Program, Skip, end_of, median, number, table
from .tracefs import Tracefs, bpftrace

ROUNDS = 5
MS = 60

# name, function, threads, what is put on it
VARIANTS = [
    ("rdtsc", "work_push", 1, ("ref", "ref_rdtsc")),
    ("lock inc", "work_push", 1, ("ref", "ref_lock")),
    ("jab, on another function", "work_push", 1, ("jab", "exe:work_other")),
    ("jab entry", "work_push", 1, ("jab", "exe:work_push")),
    ("jab return", "work_push", 1, ("jab", "exe:work_push%return")),
    ("jab entry and return", "work_push", 1, ("jab", "exe:work_push", "exe:work_push%return")),
    ("uprobe", "work_push", 1, ("uprobe", "p")),
    ("uretprobe", "work_push", 1, ("uprobe", "r")),
    ("jab entry, 5-byte nop", "work_nop", 1, ("jab", "exe:work_nop")),
    ("uprobe, 5-byte nop", "work_nop", 1, ("uprobe", "p")),
    ("jab entry, mov", "work_step", 1, ("jab", "exe:work_step")),
    ("uprobe, mov (single-stepped)", "work_step", 1, ("uprobe", "p")),
    ("lock inc, 2 threads", "work_push", 2, ("ref", "ref_lock")),
    ("jab entry, 2 threads", "work_push", 2, ("jab", "exe:work_push")),
    ("uprobe, 2 threads", "work_push", 2, ("uprobe", "p")),
]


def measure(program, function, threads):
    return program.numbers("measure %s %d %d" % (function, threads, MS))[0]


def with_jab(jab, program, function, threads, probes):
    with Jab(jab, program.pid, probes) as run:
        value = measure(program, function, threads)
        run.stop()
    return value


def with_uprobe(tracefs, program, function, threads, kind):
    if not tracefs:
        raise Skip("no tracefs")
    offset = program.file_offset(int(program.ask("where " + function), 16))
    tracefs.insert(program.path, [offset], kind)
    try:
        return measure(program, function, threads)
    finally:
        tracefs.remove()


def one(jab, tracefs, program, variant):
    function, threads, how = variant[1:]
    base = measure(program, function, threads)
    if how[0] == "ref":
        value = measure(program, how[1], threads)
    elif how[0] == "jab":
        value = with_jab(jab, program, function, threads, how[1:])
    else:
        value = with_uprobe(tracefs, program, function, threads, how[1])
    return value - base


def rounds(jab, tracefs, program):
    """Dict: name of the variant -> added ns, one a round."""
    added = {}
    for _ in range(ROUNDS):
        for variant in VARIANTS:
            try:
                added.setdefault(variant[0], []).append(one(jab, tracefs, program, variant))
            except Skip:
                pass
    return added


# Which uprobe does the same as which of our variants.
PEERS = {
    "jab entry": "uprobe",
    "jab return": "uretprobe",
    "jab entry and return": "uretprobe",
    "jab entry, 5-byte nop": "uprobe, 5-byte nop",
    "jab entry, mov": "uprobe, mov (single-stepped)",
    "jab entry, 2 threads": "uprobe, 2 threads",
}


def show(added):
    mid = {name: median(v) for name, v in added.items() if v}

    def against_peer(name):
        peer = PEERS.get(name)
        return "%.0fx" % (mid[peer] / mid[name]) if peer in mid and mid[name] > .05 else "-"

    table(["added to a call", "ns", "low", "high", "of rdtsc", "the uprobe is"],
          [[name, "%.2f" % mid[name], "%.2f" % min(added[name]), "%.2f" % max(added[name]),
            "%.2f" % (mid[name] / mid["rdtsc"]), against_peer(name)] for name in mid])
    return mid


def pad_cost(builder):
    """The pad alone, in a process that was not attached to: what the generated code itself takes."""
    try:
        done = subprocess.run([builder.inside("pad_cost")], capture_output=True, text=True, timeout=60)
    except Skip as e:
        print("  (the pad alone: not measured: %s)" % e)
        return
    print("  the pad alone:")
    for line in done.stdout.splitlines():
        print("    " + line)


def bpftrace_cost(program):
    """Only where it is installed; it brings its own compiler."""
    tool = bpftrace()
    if not tool:
        return None
    script = "uprobe:%s:work_push { @ = count(); }" % program.path
    base = measure(program, "work_push", 1)
    run = subprocess.Popen([tool, "-e", "BEGIN { printf(\"ready\\n\"); } " + script],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in run.stdout:
            if line.startswith("ready"):
                return measure(program, "work_push", 1) - base
    finally:
        end_of(run)
    return None


def run(jab, builder, result):
    program_path = builder.program("hit", ["hit.c", "hit.S"])
    try:
        tracefs = Tracefs()
    except Skip as e:
        print("  (uprobes: not measured: %s)" % e)
        tracefs = None
    try:
        with Program(program_path) as program:
            print("  a bare call: %.2f ns" % measure(program, "work_push", 1))
            added = rounds(jab, tracefs, program)
            other = bpftrace_cost(program)
            if other is not None:
                added["bpftrace count"] = [other]
    finally:
        if tracefs:
            tracefs.close()
    mid = show(added)
    pad_cost(builder)
    result.data["hit"] = added
    note = ""
    if "uprobe" in mid:
        note = "uprobe %s ns, rdtsc %s ns" % (number(mid["uprobe"]), number(mid["rdtsc"]))
    result.target("counted call, added", 3, "ns", mid.get("jab entry"), note)
