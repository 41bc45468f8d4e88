#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Hostile: a program whose children overwrite everything of jab's that they can write, in every mode of jab.

    hostile.py [--seconds N] [--seed N] [--only count,trace,json,record,script,snapshot,follow,recover]

jab is the sanitized build if there is one (build-asan/jab). Beside the hostile family the same jab traces an honest
program. In each round: no memory error in jab, no hang (a second that is not the machine's: ending.py), its output is valid,
the family's parent ends with the right results, and so does the honest program, whose text is then as it was. What the family
makes of its own events does not matter.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
from ending import Ending
import jab
from targets import LIMIT, ROOT, Target, build

SANITIZED = ROOT / "build-asan" / "jab"
JAB = os.environ.get("JAB") or str(SANITIZED if SANITIZED.exists() else jab.JAB)
NAMES = ["exe:deed", "exe:outer"]
SCRIPT = r"""
config = { max_map_keys = 64 }
uprobe:%s:deed { @n[arg0 & 63] = count(); @t[str(arg1)] = hist(arg0); @l = lhist(arg0, 0, 1000, 50); @s[tid] = stats(arg0);
  @w[str(arg1)] = (arg0, str(arg1)); @k[ustack(4)] = count(); @start[tid] = nsecs; printf("%%d %%s\n", arg0, str(arg1)); }
uretprobe:%s:deed /@start[tid]/ { @d = quantile(nsecs - @start[tid], .5, .99); delete(@start[tid]); }
call:%s:outer { @c = hist(duration); }
interval:ms:50 { @ticks++; print(@n); clear(@n); }
end { printf("the end\n"); }
"""


def mode_count(d, pids):
    return ["count", "--json", *pids, *NAMES], "json"


def mode_trace(d, pids):
    return ["trace", *pids, "exe:deed n=arg0 text=arg1:string if arg0 % 7 == 0", "call:exe:outer duration"], "text"


def mode_json(d, pids):
    return ["trace", "--json", *pids, "exe:deed n=arg0 text=arg1:string backtrace", "exe:outer%return"], "json"


def mode_record(d, pids):
    return ["record", "-o", str(d / "trace"), *pids, "exe:deed n=arg0 text=arg1:string", "exe:outer"], "trace"


def mode_script(d, pids):
    exe = str(build("hostile"))
    return [*pids, "-e", SCRIPT % (exe, exe, exe)], "text"


def mode_snapshot(d, pids):
    return ["record", "--overwrite", "-o", str(d / "trace"), *pids, "exe:deed n=arg0", "exe:outer"], "trace"


def mode_follow(d, pids):
    return ["trace", *pids, "exe:deed", "libm:*"], "text"


MODES = {"count": mode_count, "trace": mode_trace, "json": mode_json, "record": mode_record, "script": mode_script,
         "snapshot": mode_snapshot, "follow": mode_follow, "recover": mode_trace}


class Trouble(Exception):
    pass


def check_output(kind, d, out):
    if kind == "json":
        for line in jab.lines_of(out):
            json.loads(line)
    if kind == "trace":
        for trace in d.glob("trace*"):
            p = subprocess.run(["babeltrace2", str(trace)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               errors="replace", timeout=LIMIT)
            if p.returncode:
                raise Trouble("babeltrace2: " + " ".join(p.stderr.split("CAUSED BY")[-1].split())[:600])


def ended(p, report, *others):
    """Nothing may block its loop: no second of its own until it ends. What it waits for a CPU, or its targets do, is not its own."""
    e = Ending(p, *others)
    if p.poll() is None and others:
        p.send_signal(signal.SIGINT)
    if not e.wait(LIMIT):
        p.kill()
        p.wait()
        raise Trouble(f"jab did not end within {LIMIT} s")
    report.ends.append(e)
    if e.is_hang:
        raise Trouble(f"jab took too long to end: {e}")


def recover(p, report, honest, family):
    p.kill()
    p.wait(LIMIT)
    for pid in (honest.pid, family.pid):
        r = subprocess.Popen([JAB, "recover", str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace")
        ended(r, report)
        check_errors(r.returncode, r.communicate()[1])


def check_errors(status, err):
    if "Sanitizer" in err or "runtime error:" in err:
        raise Trouble(f"memory error: {err[:6000]}")
    if status < 0 or status > 2:
        raise Trouble(f"jab ended with status {status}: {err[-2000:]}")


def check_text(pid, report):
    """The kernel puts the breakpoints of uprobes into every process that has mapped the file, so into this one, which jab never
    touches: what is changed here as well is another tool's."""
    changed = jab.changed_text(pid, None)
    others = jab.changed_text(os.getpid(), None) if changed else []
    ours = [x for x in changed if x not in others]
    if ours:
        raise Trouble(f"the honest program's text is not as it was: {ours[:8]}")
    if changed:
        report.count("rounds with uprobes of another tool")


def wait_for_handlers(p):
    """Before it has them, on a busy machine, the signal that asks it to end would kill it."""
    end = time.monotonic() + LIMIT
    while p.poll() is None and time.monotonic() < end:
        caught = int(re.search(r"SigCgt:\t(\w+)", Path(f"/proc/{p.pid}/status").read_text())[1], 16)
        if caught >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(.01)


def one_round(mode, dice, report, d):
    seconds = 2 if mode != "follow" else 4
    family = subprocess.Popen([str(build("hostile")), str(seconds), str(dice.randrange(1 << 20)),
                               *(["exec"] if mode == "follow" else [])], stdout=subprocess.PIPE, text=True)
    with Target("calls", "serve", 2) as honest:
        command, kind = MODES[mode](d, ["-p", str(honest.pid), "-p", str(family.pid)])
        with open(d / "out", "w+", errors="replace") as out, open(d / "err", "w+", errors="replace") as err:
            p = subprocess.Popen([JAB, *command, *([] if mode == "script" else ["exe:work"])], stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=err)
            try:
                wait_for_handlers(p)
                time.sleep(.8 + dice.random())
                honest.run(5000)
                if mode == "snapshot":
                    p.send_signal(signal.SIGUSR1)
                    time.sleep(.2)
                if mode == "recover":
                    recover(p, report, honest, family)
                said = family.communicate(timeout=LIMIT)[0].strip().splitlines()
                if mode != "recover":
                    ended(p, report, honest.pid)
            finally:
                if p.poll() is None:
                    p.kill()
                    p.wait()
                if family.poll() is None:
                    family.kill()
                    family.wait()
            out.seek(0)
            err.seek(0)
            if mode != "recover":
                check_errors(p.returncode, err.read())
                check_output(kind, d, out.read())
        if family.returncode or said[-1:] != ["ok"]:
            raise Trouble(f"the hostile family's parent was harmed: status {family.returncode}, said {said}")
        honest.run(100)
        check_text(honest.pid, report)
        honest.stop()


def main():
    a = arguments(__doc__.splitlines()[0])
    dice = random.Random(a.seed)
    report = Report(a.seconds, seed=a.seed, jab=JAB)
    report.ends = []
    modes = [m for m in MODES if not a.only or m in a.only]
    while report.time_left() > 0 and len(report.failures) < 5:
        for mode in dice.sample(modes, len(modes)):
            if report.time_left() <= 0:
                break
            with tempfile.TemporaryDirectory() as d:
                try:
                    one_round(mode, dice, report, Path(d))
                    report.count(mode)
                except (Trouble, AssertionError, ValueError, TimeoutError, subprocess.TimeoutExpired) as e:
                    report.fail(mode, e)
    for what in ("wall", "own"):
        if report.ends:
            report.line(slowest_end_of_jab=str(max(report.ends, key=lambda e: getattr(e, what))), by=what)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
