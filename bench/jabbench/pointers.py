# SPDX-License-Identifier: MIT
"""What it costs to follow pointers: conditions on members, texts as fields and as keys of maps, and values that come and go. Each
script runs on the same function in two copies of one program, with jab and with bpftrace, in turns.

The memory is the heap of glibc, that of jemalloc (LD_PRELOAD), or shared. At the end, a program that does nothing but map, touch
and unmap memory which its probe reads."""

import os
import shutil
import subprocess
import tempfile
import time

from .common import Jab, Program, Skip, end_of, median, table
from .tracefs import bpftrace

ROUNDS = 3
MS = 50
PAUSE = 1000        # us, where events are written
STRINGS = 1000
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"

EMPTY = "uprobe:P:follow { }"
REGISTER = "uprobe:P:follow /arg0 == 0/ { @ = count(); }"
MEMBER = "uprobe:P:follow /7 == *(uint64 *)arg0/ { @ = count(); }"
STEPS = "uprobe:P:follow /7 == *(uint64 *)(*(uint64 *)(*(uint64 *)(arg0 + 8) + 8))/ { @ = count(); }"
PAIR = ("uprobe:P:follow { @start[tid] = nsecs; } "
        "uretprobe:P:follow /@start[tid]/ { @d = hist(nsecs - @start[tid]); delete(@start[tid]); }")
KEY = "uprobe:P:follow { @[str(arg1, %d)] = count(); }"
TEXT = "uprobe:P:follow { printf(\"%%s\\n\", str(arg1, %d)); }"
MEMBER_TEXT = "uprobe:P:follow { printf(\"%%d %%s\\n\", *(uint64 *)arg0, str(arg1, %d)); }"
BPFTRACE_TEXT_MOST = 200

# name, memory, length of the texts, jab's script or (for events) its probe, bpftrace's script
ROWS = [
    ("condition on a register", "glibc", 16, REGISTER, REGISTER),
    ("condition on n->v", "glibc", 16, MEMBER, MEMBER),
    ("condition on n->next->next->v", "glibc", 16, STEPS, STEPS),
    ("@[str] = count(), 16 bytes", "glibc", 16, KEY % 64, KEY % 64),
    ("@[str] = count(), 64 bytes", "glibc", 64, KEY % 80, KEY % 80),
    ("@[str] = count(), 256 bytes", "glibc", 256, KEY % 260, None),
    ("@start[tid] set, read, deleted", "glibc", 16, PAIR, PAIR),
    ("event, two integers", "glibc", 16, ("exe:follow arg0 arg1",), None),
    ("event, a string of 16 bytes", "glibc", 16, ("exe:follow s=arg1:string",), TEXT % 64),
    ("event, a string of 64 bytes", "glibc", 64, ("exe:follow s=arg1:string",), TEXT % 80),
    ("event, a string of 256 bytes", "glibc", 256, ("exe:follow s=arg1:string",), None),
    ("event, n->v and 16 bytes", "glibc", 16, ("exe:follow v=n->v s=arg1:string",), MEMBER_TEXT % 64),
    ("condition on n->v", "jemalloc", 16, MEMBER, None),
    ("@[str] = count(), 16 bytes", "jemalloc", 16, KEY % 64, None),
    ("event, a string of 16 bytes", "jemalloc", 16, ("exe:follow s=arg1:string",), None),
    ("condition on n->v", "shared", 16, MEMBER, None),
    ("@[str] = count(), 16 bytes", "shared", 16, KEY % 64, None),
    ("event, a string of 16 bytes", "shared", 16, ("exe:follow s=arg1:string",), None),
]
LIMITS = {"condition on n->v": 10, "condition on n->next->next->v": 18, "@[str] = count(), 16 bytes": 40, "@start[tid] set, read, deleted": 40}


def prepare(program, memory, length):
    program.ask("use %s %d %d" % ("shared" if memory == "shared" else "heap", length, STRINGS))


def measure(program, pause=0):
    return program.numbers("measure %d %d" % (MS, pause))[0]


def with_script(jab, program, script):
    with Jab(jab, program.pid, (), command=["-e", script.replace("P:", program.path + ":")]) as run:
        measure(program)        # every page of maps and tables has been seen
        value = measure(program)
        run.stop()
    return value


def with_events(jab, program, probes):
    """An event that is lost costs little, so a figure with losses is none."""
    with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
        with Jab(jab, program.pid, probes, command=["record", "--buffer-size", "64M", "-o", d + "/t"]) as run:
            measure(program, PAUSE)
            value = measure(program, PAUSE)
            summary = run.stop()
    lost = sum(p["lost"] for p in summary["probes"])
    return None if lost > summary["hits"] / 100 else value


def wait_for_bpftrace(run, out, path):
    """It has written its first line, and the function has its breakpoint: "ready" may come earlier."""
    end = time.monotonic() + 20
    while time.monotonic() < end and run.poll() is None and not os.fstat(out.fileno()).st_size:
        time.sleep(.05)
    time.sleep(.3)
    if run.poll() is not None or not os.fstat(out.fileno()).st_size:
        raise Skip("bpftrace does not run this: " + path)


class Bpftrace:
    """A script on a program's file while measured. With many events it writes to a file that is removed."""

    def __init__(self, tool, program, script):
        text = "BEGIN { printf(\"ready\\n\"); } " + script.replace("P:", program.path + ":")
        self.out = tempfile.TemporaryFile()
        env = dict(os.environ, BPFTRACE_STRLEN=str(BPFTRACE_TEXT_MOST - 8))
        self.process = subprocess.Popen([tool, "-e", text], stdout=self.out, stderr=subprocess.DEVNULL, env=env)
        try:
            wait_for_bpftrace(self.process, self.out, script)
        except Skip:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        end_of(self.process)
        self.out.close()


def peer_of(tool, program, row):
    """ns that bpftrace adds, the median of as many rounds; None: it can't."""
    _, memory, length, probe, script = row
    if not tool or not script:
        return None
    prepare(program, memory, length)
    pause = PAUSE if isinstance(probe, tuple) else 0
    base = median([measure(program, pause) for _ in range(ROUNDS)])
    try:
        with Bpftrace(tool, program, script):
            return median([measure(program, pause) for _ in range(ROUNDS)]) - base
    except Skip as e:
        print("  (%s)" % e)
        return None


def one(jab, programs, row):
    """ns over the plain function, and over one with an empty clause."""
    _, memory, length, probe, _ = row
    program = programs["jemalloc" if memory == "jemalloc" else "glibc"]
    prepare(program, memory, length)
    if isinstance(probe, tuple):
        base = measure(program, PAUSE)
        value = with_events(jab, program, probe)
        return (value - base, value - base) if value else None
    base, empty = measure(program), with_script(jab, program, EMPTY)
    value = with_script(jab, program, probe)
    return value - base, value - empty


def all_rows(jab, programs, tool):
    got = [[] for _ in ROWS]
    for _ in range(ROUNDS):
        for i, row in enumerate(ROWS):
            if row[1] != "jemalloc" or "jemalloc" in programs:
                value = one(jab, programs, row)
                got[i] += [value] if value else []
    for row, g in zip(ROWS, got):
        if not g and (row[1] != "jemalloc" or "jemalloc" in programs):
            print("  (%s, %s: too many events were lost)" % row[:2])
    peers = [peer_of(tool, programs["peer"], row) for row in ROWS]
    return [(row, median([v[0] for v in g]), median([v[1] for v in g]), peer) for row, g, peer in zip(ROWS, got, peers) if g]


# ---- a program that maps and unmaps ----

def churn(program, threads):
    return program.numbers("churn %d %d" % (threads, 2 * MS))[0]


def churns(jab, programs, tool):
    """threads -> ns a round: untraced, with a probe that reads nothing, with one that reads the new memory; and with bpftrace."""
    out = {}
    for threads in (1, 2):
        p, peer, plain, counted, read = programs["glibc"], programs["peer"], [], [], []
        for _ in range(ROUNDS):
            plain.append(churn(p, threads))
            for script, to in ((REGISTER, counted), (MEMBER, read)):
                with Jab(jab, p.pid, (), command=["-e", script.replace("P:", p.path + ":")]) as run:
                    to.append(churn(p, threads))
                    run.stop()
        theirs = None
        if tool:
            try:
                with Bpftrace(tool, peer, MEMBER):
                    theirs = median([churn(peer, threads) for _ in range(ROUNDS)])
            except Skip as e:
                print("  (%s)" % e)
        out[threads] = [median(plain), median(counted), median(read), theirs]
    return out


def show(rows, churned):
    lines = []
    for (name, memory, *_), added, over, peer in rows:
        lines.append([name, memory, "%.1f" % added, "%.1f" % over, "%.0f" % peer if peer else "-",
                      "%.0f" % (peer / max(added, 1)) if peer else "-"])
    table(["added", "memory", "ns", "over empty", "bpftrace ns", "times"], lines)
    print()
    table(["map, touch, call, unmap", "untraced ns", "condition on a register", "on the memory", "bpftrace, on the memory"],
          [["%d thread%s" % (n, "s" * (n > 1)), *("%.0f" % v if v else "-" for v in c)] for n, c in churned.items()])


def targets(result, rows, churned, rdtsc):
    value = {row[0]: (added, over) for row, added, over, _ in rows if row[1] == "glibc"}
    for name, limit in LIMITS.items():
        result.target(name + ", heap, over an empty clause", limit, "ns", value[name][1])
    text, plain = value.get("event, a string of 16 bytes"), value.get("event, two integers")
    result.target("event: a string of 16 bytes over two integers", rdtsc, "ns", text[0] - plain[0] if text and plain else None)
    for (name, memory, *_), added, _, peer in rows:
        if peer and memory == "glibc":
            result.target("bpftrace's cost of the same, " + name, 50, "times", peer / max(added, 1), at_least=True)
    for threads, (_, counted, read, _) in churned.items():
        result.target("map and unmap, %d threads, with reads" % threads, 1.1, "times", read / counted)


def cost_of_clock(builder):
    with Program(builder.program("hit", ["hit.c", "hit.S"])) as hit:
        plain, clock = hit.numbers("measure work_push 1 %d 0" % MS)[1], hit.numbers("measure ref_rdtsc 1 %d 0" % MS)[1]
    return clock - plain


def run(jab, builder, result):
    path = builder.program("pointers", ["pointers.c"], "-g")
    copy = path + ".peer"
    shutil.copy(path, copy)
    programs = {"glibc": Program(path), "peer": Program(copy)}
    if os.path.exists(JEMALLOC):
        programs["jemalloc"] = Program(path, env=dict(os.environ, LD_PRELOAD=JEMALLOC))
    else:
        print("  (no jemalloc: libjemalloc2 is not installed)")
    try:
        tool, rdtsc = bpftrace(), cost_of_clock(builder)
        rows = all_rows(jab, programs, tool)
        churned = churns(jab, programs, tool)
    finally:
        for program in programs.values():
            program.__exit__()
    show(rows, churned)
    result.data["pointers"] = {"rows": [[row[0], row[1], added, over, peer] for row, added, over, peer in rows], "churn": churned}
    targets(result, rows, churned, rdtsc)
