# SPDX-License-Identifier: MIT
"""What a script costs at a hit: conditions, aggregations and calls, over an empty clause at the same place. The same
text is given to bpftrace on the same function, where it is installed.

And how long it takes until many probes with a condition and three typed fields are active."""

import os
import subprocess
import tempfile
import time

from .common import Jab, Program, Skip, end_of, median, table
from .tracefs import bpftrace

ROUNDS = 5
MS = 60
FUNCTION = "work_push"

# name, script (P: the program's file)
VARIANTS = [
    ("false condition", "uprobe:P:work_push /arg0 == 123456789/ { @ = count(); }"),
    ("count()", "uprobe:P:work_push { @ = count(); }"),
    ("sum(arg0)", "uprobe:P:work_push { @ = sum(arg0); }"),
    ("hist(arg0)", "uprobe:P:work_push { @ = hist(arg0); }"),
    ("count() by 1,000 keys", "uprobe:P:work_push { @[arg0 % 1000] = count(); }"),
    ("@x++", "uprobe:P:work_push { @x++; }"),
]
EMPTY = "uprobe:P:work_push { }"
OFF = "BEGIN { disable(\"w\"); } w=uprobe:P:work_push { @ = count(); }"
CALL = "call:P:work_push { @ = hist(duration); }"
UNTIMED = "call:P:work_push { @ = sum(retval); }"
# A false condition at the end of three pointers; AT: where they begin.
CHAIN = "uprobe:P:work_push /5 == *(uint64 *)(*(uint64 *)(*(uint64 *)AT))/ { @ = count(); }"
CHAINS = [("three pointers in data", "data"), ("three pointers in the heap", "heap")]
# what bpftrace's users write for a call
PAIR = "uprobe:P:work_push { @start[tid] = nsecs; } uretprobe:P:work_push /@start[tid]/ { @ = hist(nsecs - @start[tid]); delete(@start[tid]); }"

WHOLE = ("rdtsc", "empty clause", "switched off by disable()", "call: hist(duration)", "call: sum(retval)")     # not over an empty clause

LIMITS = {"three pointers in data": 2 + 3 * 3, "false condition": 2, "count()": 3, "hist(arg0)": 5, "count() by 1,000 keys": 15}


def measure(program, function=FUNCTION):
    return program.numbers("measure %s 1 %d 0" % (function, MS))[0]


def with_jab(jab, program, script):
    with Jab(jab, program.pid, (), command=["-e", script.replace("P:", program.path + ":")]) as run:
        measure(program)        # every page of maps and pairs has been seen
        value = measure(program)
        run.stop()
    return value


def with_bpftrace(tool, program, script):
    text = "BEGIN { printf(\"ready\\n\"); } " + script.replace("P:", program.path + ":")
    base = median([measure(program) for _ in range(ROUNDS)])
    with tempfile.TemporaryFile() as out:
        run = subprocess.Popen([tool, "-e", text], stdout=out, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 20
            while time.monotonic() < end and run.poll() is None and not os.fstat(out.fileno()).st_size:
                time.sleep(.05)
            time.sleep(.3)
            if run.poll() is not None or not os.fstat(out.fileno()).st_size:
                raise Skip("bpftrace does not work here")
            return median([measure(program) for _ in range(ROUNDS)]) - base
        finally:
            end_of(run)


def rounds(jab, program):
    """name -> ns over the empty clause, one a round; and rdtsc, calls and what is switched off over the plain function."""
    added = {}
    variants = VARIANTS + [(name, CHAIN.replace("AT", "%d" % program.numbers("chain " + where)[0])) for name, where in CHAINS]
    for _ in range(ROUNDS):
        base = measure(program)
        added.setdefault("rdtsc", []).append(measure(program, "ref_rdtsc") - base)
        empty = with_jab(jab, program, EMPTY)
        added.setdefault("empty clause", []).append(empty - base)
        added.setdefault("switched off by disable()", []).append(with_jab(jab, program, OFF) - base)
        for name, script in variants:
            added.setdefault(name, []).append(with_jab(jab, program, script) - empty)
        added.setdefault("call: hist(duration)", []).append(with_jab(jab, program, CALL) - base)
        added.setdefault("call: sum(retval)", []).append(with_jab(jab, program, UNTIMED) - base)
    return added


def peers(program, added):
    """name -> ns that bpftrace adds to a call."""
    tool = bpftrace()
    out = {}
    try:
        if not tool:
            raise Skip("not installed")
        for name, script in VARIANTS[:5] + [("call: hist(duration)", PAIR)]:
            out[name] = with_bpftrace(tool, program, script)
    except Skip as e:
        print("  (bpftrace: not measured: %s)" % e)
    return out


def show(added, others, empty):
    rows = []
    for name, v in added.items():
        whole = median(v) + (0 if name in WHOLE else empty)
        peer = others.get(name)
        rows.append([name, "%.2f" % median(v), "%.2f" % min(v), "%.2f" % max(v), "%.0f" % peer if peer else "-",
                     "%.0f" % (peer / whole) if peer else "-"])
    table(["added", "ns", "low", "high", "bpftrace ns", "times"], rows)


def compile_fast(jab, builder, result):
    many = builder.program("many5000", ["many.c", "many.S"], "-DN=5000")
    with Program(many) as program:
        # A condition and three fields of three types, on 5,000 functions.
        times = []
        for _ in range(3):
            with Jab(jab, program.pid, ("exe:/^f1[0-9]*$/ a=arg0:int b=arg1:x64 c=arg2:u8 if arg0 > 5 && arg1 != 3",),
                     command=["trace", "--no-follow"]) as run:
                sites = [line for line in run.said if line.startswith("jab: active:")]
                summary = run.stop()
            t = summary["attach"]
            times.append((t["symbols_ns"] + t["plan_ns"] + t["write_ns"]) / 1e6)
    print("  %s; symbols, compiling, planning and writing took %s ms" % (sites[0][5:], ", ".join("%.0f" % x for x in times)))
    result.data["compile"] = times
    result.target("5,000 probes with condition and 3 fields", 150, "ms", median(times))


def run(jab, builder, result):
    with Program(builder.program("hit", ["hit.c", "hit.S"])) as program:
        added = rounds(jab, program)
        others = peers(program, added)
    empty, rdtsc = median(added["empty clause"]), median(added["rdtsc"])
    show(added, others, empty)
    result.data["script"] = added
    for name, limit in LIMITS.items():
        result.target(name + " over an empty clause", limit, "ns", median(added[name]))
    # One call of the kernel for all three: what it costs by itself is the floor that reads.py prints.
    print("  three pointers: %.2f ns a step where reads are provably good, %.0f ns a step by one call of the kernel"
          % tuple((median(added[name]) - median(added["false condition"])) / 3 for name, _ in CHAINS))
    result.target("probe that is switched off by disable()", 1, "ns", median(added["switched off by disable()"]))
    result.target("call: with a histogram of durations", 2.5 * rdtsc + 10, "ns", median(added["call: hist(duration)"]))
    for name, peer in others.items():
        whole = median(added[name]) + (0 if name.startswith("call:") else empty)
        result.target("bpftrace's cost of the same, " + name, 50, "times", peer / whole, at_least=True)
    compile_fast(jab, builder, result)
