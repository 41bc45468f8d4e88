#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Scripts put into a busy program and ended at any moment, by SIGINT or SIGKILL: its answers must be right, its text as
before. `scripts.py --seconds N [--seed N]`; ends with status 1 at the first thing that is wrong."""
import argparse
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

import jab          # noqa: E402
import scripts      # noqa: E402
import targets      # noqa: E402

CLAUSES = [
    "u:exe:take { @n = count(); @x++; @k[n % 7] = sum(n) }",
    "u:exe:take { @w[str(s)] = count(); @l[str(s)] = n; @t = (n, str(s)) }",
    'u:exe:take /it->flag > 2/ { printf("%d %s\\n", n, str(it->name)) }',
    "call:exe:take { @d = hist(duration); @r[it->id] = sum(retval) }",
    "uretprobe:exe:take { @q = quantile(retval, .5, .9) }",
    "u:exe:take { @start[tid] = nsecs } uretprobe:exe:take /@start[tid]/ { @ns = hist(nsecs - @start[tid]); delete(@start[tid]) }",
    "u:exe:take /every(100)/ { @[ustack(4)] = count() }",
    "u:libc:* { @f[func] = count() }",
    "interval:ms:5 { print(@x) } u:exe:take { @x++ }",
    "interval:ms:20 { clear(@c) } u:exe:take { @c[n] = count() }",
]


def answer(t):
    lines = []
    while not lines or lines[-1] != "told":
        lines.append(t.line())
    return lines


def one_round(r):
    """What is wrong, or None."""
    text = "\n".join(r.sample(CLAUSES, r.randint(1, 4)))
    text = text if text.count("@x++") == 1 or "print(@x)" not in text else text.replace("interval:ms:5 { print(@x) } ", "")
    with targets.Target("script", "serve") as t:
        before = jab.text_hash(t.pid)
        with scripts.Script(text, t.pid, wait=False) as s:
            t.process.stdin.write("threads 4 3000\n")
            t.process.stdin.flush()
            time.sleep(r.random() * r.choice((.05, .3, 1)))
            how = r.choice((signal.SIGINT, signal.SIGKILL))
            s.signal(how)
            got = s.wait()
        if how == signal.SIGKILL:
            got = jab.run("recover", t.pid)
        lines = answer(t)
        t.run(100)
        now = jab.text_hash(t.pid)
        left = jab.leftovers(t.pid)
        t.stop()
    if got.status not in (0, -signal.SIGINT, 128 + signal.SIGINT) or "count 12000" not in lines:
        return f"{text}\n{how}\n{got}\n{lines}"
    changed = [k for k in before if now.get(k) != before[k]]
    return f"{text}\n{how}\nleft behind: {changed} {left}\n{got}" if changed or left else None


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--seconds", type=float, default=30)
    a.add_argument("--seed", type=int, default=int(time.time()))
    a = a.parse_args()
    r, end, n = random.Random(a.seed), time.monotonic() + a.seconds, 0
    while time.monotonic() < end:
        wrong = one_round(r)
        if wrong:
            print(f"seed {a.seed}, round {n}: {wrong}")
            return 1
        n += 1
    print(f"{n} rounds, seed {a.seed}")
    return 0


sys.exit(main())
