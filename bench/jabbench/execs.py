# SPDX-License-Identifier: MIT
"""What it costs to follow a target to programs that it executes: short ones, one after the other."""

import os
import shutil
import subprocess
import tempfile

from .common import Skip, Wrong, median, number, table

TIMES = 50
ROUNDS = 5
PROGRAM = "/bin/true"


def run_once(argv, program):
    """Microseconds of each exec."""
    p = subprocess.run([*argv, program, str(TIMES), PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    took = [float(line) for line in p.stdout.split()]
    if p.returncode or len(took) != TIMES:
        raise Wrong("%s: status %d, %d of %d execs: %s" % (argv[0] if argv else program, p.returncode, len(took), TIMES, p.stderr.strip()))
    return took, p.stderr


def traced(jab, program, probe, expected):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "events")
        took, said = run_once([jab, "trace", "-o", out, probe, "--"], program)
        with open(out) as events:
            n = sum(1 for _ in events)
    if expected is not None and n < expected:
        raise Wrong("%d events of %s instead of %d: %s" % (n, probe, expected, said))
    return took


def ways(jab, program):
    """Each with the function that measures it once."""
    out = [("alone", lambda: run_once([], program)[0])]
    strace = shutil.which("strace")
    if strace:
        out.append(("strace -f", lambda: run_once([strace, "-f", "-o", "/dev/null"], program)[0]))
    out.append(("jab trace, a probe that matches", lambda: traced(jab, program, "libc:exit", TIMES)))
    out.append(("jab trace, one that does not", lambda: traced(jab, program, "no_such_function", None)))
    out.append(("jab count", lambda: run_once([jab, "count", "-o", "/dev/null", "libc:exit", "--"], program)[0]))
    return out


def run(jab, builder, result):
    if not os.path.exists(PROGRAM):
        raise Skip("no %s" % PROGRAM)
    program = builder.program("execs", ["execs.c"])
    measured = {name: [] for name, _ in ways(jab, program)}
    for _ in range(ROUNDS):		# side by side: whatever else the machine does is the same for all
        for name, once in ways(jab, program):
            measured[name] += once()[2:]	# the first ones read the files
    best = {name: sorted(took)[len(took) // 10] / 1e3 for name, took in measured.items()}
    rows = []
    for name, took in measured.items():
        rows.append([name, best[name], median(took) / 1e3, sorted(took)[len(took) * 9 // 10] / 1e3, best[name] / best["alone"]])
        result.data.setdefault("exec", {})[name] = {"best_tenth_ms": best[name], "median_ms": rows[-1][2], "ratio": rows[-1][4]}
    table(["ms each, %d x %s" % (TIMES * ROUNDS, PROGRAM), "best tenth", "median", "nine of ten", "x alone"],
          [[r[0]] + ["%.2f" % x for x in r[1:]] for r in rows])
    print("  x alone: of the best tenths, which have not waited for a CPU.")
    followed = best["jab trace, a probe that matches"]
    result.target("following an exec", 2, "ms", followed - best["alone"],
                  "best tenths: alone %s ms, with jab %s ms" % (number(best["alone"]), number(followed)))
