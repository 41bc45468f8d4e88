# SPDX-License-Identifier: MIT
"""What it costs to follow a target to programs that it executes: short ones, one after the other."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

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


# --- another user's flood ---

FLOOD = 200		# processes
FLOOD_SECONDS = 6


def single_execs(program, watched, seconds):
    """Milliseconds of execs of one user, one at a time and with pauses."""
    out, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        p = subprocess.run([program, "1", watched], capture_output=True, text=True, timeout=120, check=True)
        out.append(float(p.stdout) / 1e3)
        time.sleep(.1)
    return out


class Watching:
    """jab, told of every process that executes a file."""

    def __init__(self, jab, watched):
        self.process = subprocess.Popen([jab, "-v", "-e", "uprobe:%s:main { @n = count(); }" % watched], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "active" in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        if self.process.poll() is not None:
            raise Wrong("jab does not watch %s" % watched)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def flooded(builder, program, watched):
    flood = builder.program("flood", ["flood.c"])
    shutil.copy(flood, os.path.dirname(watched))
    p = subprocess.Popen([os.path.join(os.path.dirname(watched), "flood"), str(FLOOD), str(FLOOD_SECONDS), watched], start_new_session=True)
    time.sleep(.3)
    try:
        return single_execs(program, watched, FLOOD_SECONDS - 1.5)
    finally:
        if p.wait(60):
            raise Skip("no flood: status %d" % p.returncode)


def others(jab, builder, program, result):
    """Execs of a watched program by root, while another user floods jab with them."""
    if os.geteuid():
        print("  (another user's flood: not measured: needs root)")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        watched = os.path.join(folder, "watched")
        shutil.copy(builder.program("watched", ["watched.c"]), watched)
        rows = [["alone", single_execs(program, watched, 1)], ["flood of %d" % FLOOD, flooded(builder, program, watched)]]
        with Watching(jab, watched):
            rows += [["jab", single_execs(program, watched, 1)], ["jab and flood", flooded(builder, program, watched)]]
    table(["ms each, another user's execs", "median", "worst", "n"], [[name, "%.2f" % median(v), "%.2f" % max(v), len(v)] for name, v in rows])
    result.data["exec_flood"] = {name: {"median_ms": median(v), "worst_ms": max(v)} for name, v in rows}
    result.target("an exec while another user floods", 100, "ms", max(rows[3][1]), "without jab %s ms" % number(max(rows[1][1])))


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
    others(jab, builder, program, result)
