# SPDX-License-Identifier: MIT
"""The longest time that a thread of the target stands still, measured by such a thread.

It sees every gap, also those that have nothing to do with us: a quiet phase of the same length right
after each attach shows how long those are. `net` leaves out the time in which the thread was ready and
another program had the CPU."""

import time

from .common import Jab, Program, median, table

ROUNDS = 9
# threads (one of them spins and looks at the clock; 0: it is the only one), probes, spec, most microseconds
CASES = [(0, 1, "exe:f10000", 300), (2, 1, "exe:f10000", 300), (8, 1, "exe:f10000", 300), (8, 5000, "exe:f?????", 2000)]


def gap(program):
    return [ns / 1e3 for ns in program.numbers("gap")]


def one(jab, program, spec):
    program.ask("gap")
    start = time.monotonic()
    with Jab(jab, program.pid, [spec]) as run:
        attach = gap(program)
        summary = run.stop()
    removal = gap(program)
    time.sleep(time.monotonic() - start)
    quiet = gap(program)
    return attach + removal + quiet + [summary["attach"]["pause_ns"] / 1e3]


def middle(runs):
    return [median(column) for column in zip(*runs)]


def cells(runs, mid):
    """Median and lowest: what other programs add is in the first, hardly in the second."""
    low = [min(column) for column in zip(*runs)]
    return ["%.0f (%.0f)" % pair for pair in zip(mid, low)]


def crowd(threads):
    return "%d threads" % threads if threads else "1 thread alone"


def judge(result, threads, probes, limit, mid):
    """The gap as seen, unless other programs make such gaps by themselves: then the net one."""
    attach, attach_net, quiet = mid[0], mid[1], mid[4]
    what = "pause, %d probe%s, %s" % (probes, "s"[:probes > 1], crowd(threads))
    if attach <= limit or quiet < limit / 2:
        result.target(what, limit, "us", attach, "without attaching: %.0f us" % quiet)
    else:
        result.target(what, limit, "us", attach_net, "net; as seen %.0f us, without attaching %.0f us" % (attach, quiet))


def run(jab, builder, result):
    path = builder.program("many5000", ["many.c", "many.S"], "-DN=5000")
    runs = {case: [] for case in CASES}
    for threads in sorted({case[0] for case in CASES}):
        with Program(path, str(threads)) as program:
            for _ in range(ROUNDS):
                for case in (c for c in CASES if c[0] == threads):
                    runs[case].append(one(jab, program, case[2]))
    rows = []
    for case in CASES:
        mid = middle(runs[case])
        rows.append(["%s, %d probe%s" % (crowd(case[0]), case[1], "s"[:case[1] > 1])] + cells(runs[case], mid))
        judge(result, case[0], case[1], case[3], mid)
        result.data["pause_%d_%d" % case[:2]] = runs[case]
    table(["us", "attach", "net", "removal", "net", "quiet", "net", "jab says"], rows)
    print("  medians of %d attaches; in brackets the lowest" % ROUNDS)
