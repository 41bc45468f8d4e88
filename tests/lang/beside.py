#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs scripts of this folder with bpftrace and compares what it prints with NAME.out, line by line
without empty ones. The made-up program of a script becomes a real one: its memory is mapped where
the "//! mem" lines say, and its functions are called as the "//! hit" lines say.

    beside.py [-j JAB] FILE.bt...      as root; prints same, DIFFERENT or "not comparable" and why

With -j it is JAB that runs them, so that native code on a real program is compared with the interpreter.
What bpftrace (0.17) does not know, and what only the made-up world has (pid=5), can't be compared.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

ARGS = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]
SIZES = {"mem8": "B", "mem16": "H", "mem32": "I", "mem64": "Q"}


class NotComparable(Exception):
    pass


def memory(kind, rest):
    addr, _, what = rest.strip().partition(" ")
    what = what.strip()
    if what.startswith('"'):
        return int(addr, 0), what[1:what.rindex('"')].encode() + b"\0"
    if kind not in SIZES:
        raise NotComparable(kind)
    size = struct.calcsize(SIZES[kind])
    return int(addr, 0), b"".join((int(w, 0) & ((1 << 8 * size) - 1)).to_bytes(size, "little") for w in what.split())


def clauses(text):
    """The function of each clause, in order; None for begin, end and interval."""
    bare = re.sub(r"//[^\n]*", "", text)
    found = []
    depth = 0
    for m in re.finditer(r'"(?:\\.|[^"\\])*"|[{}]|\b(?:uprobe|uretprobe|u|ur):exe:(\w+)|\b(?:BEGIN|END|begin|end)\b(?=\s*\{)|\b(?:interval|i):[\w:]+', bare):
        word = m.group(0)
        if word in "{}":
            depth += 1 if word == "{" else -1
        elif depth == 0 and word[0] != '"':
            found.append((m.group(1), word.startswith("ur")))
    return found


def target(text):
    mems, calls = [], []
    where = clauses(text)
    seen = [f for f, _ in where if f]
    if len(seen) != len(set(seen)):
        raise NotComparable("two clauses for one function")
    for line in text.splitlines():
        m = re.match(r"//!\s*(\w+)\s*(.*)", line)
        if not m:
            continue
        kind, rest = m.groups()
        if kind.startswith("mem"):
            mems.append(memory(kind, rest))
        elif kind == "hit":
            n, _, regs = rest.partition(" ")
            values = dict(w.split("=") for w in regs.split())
            if int(n) >= len(where):
                raise NotComparable("a probe that is not on a plain function of exe")
            func, is_return = where[int(n)]
            if func is None or set(values) - set(ARGS) - ({"rax"} if is_return else set()):
                raise NotComparable("only the made-up world has this: " + line)
            calls.append((func, [values.get(r, "0") for r in ARGS], values.get("rax", "0")))
        elif kind not in ("param",):
            raise NotComparable(kind)
    return mems, calls, sorted(set(seen))


PROGRAM = """#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static long result;
%s
int main(void)
{
    sleep(WAIT);
%s
    return 0;
}
"""


def build(text, dir, wait):
    mems, calls, funcs = target(text)
    body = []
    for addr, data in mems:
        page, end = addr & ~4095, (addr + len(data) + 4095) & ~4095
        body.append("    mmap((void *)%d, %d, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);" % (page, end - page))
    for addr, data in mems:
        body.append("    memcpy((void *)%d, \"%s\", %d);" % (addr, "".join("\\%03o" % b for b in data), len(data)))
    for func, args, rax in calls:
        body.append("    result = %sL; %s(%s);" % (rax, func, ", ".join(a + "L" for a in args)))
    defs = ["__attribute__((noinline)) long %s(long a, long b, long c, long d, long e, long f) { __asm__ volatile(\"\" :: \"r\"(a), \"r\"(b), "
            "\"r\"(c), \"r\"(d), \"r\"(e), \"r\"(f)); return result; }" % f for f in funcs]
    source = os.path.join(dir, "made.c")
    with open(source, "w") as f:
        f.write(PROGRAM % ("\n".join(defs), "\n".join(body)))
    subprocess.run(["gcc", "-O1", "-DWAIT=%d" % (wait if calls else 0), "-o", os.path.join(dir, "made"), source], check=True)


def lines(text):
    return [l.rstrip() for l in text.splitlines() if l.strip()]


def command(jab, made, script, text):
    params = re.findall(r"^//! param (.*)$", text, re.M)
    if jab:
        return [jab, "-c", made, script] + params
    return ["bpftrace", "-c", made, script] + params


def compare(path, wait, jab):
    text = open(path).read()
    with open(path[:-3] + ".out") as f:
        want = lines(f.read())
    with tempfile.TemporaryDirectory() as dir:
        build(text, dir, wait)
        made = os.path.join(dir, "made")
        script = os.path.join(dir, "script.bt")
        if not jab:
            text = re.sub(r"\b(uprobe|uretprobe|u|ur):exe:", lambda m: m.group(0).replace("exe", made), text)
        with open(script, "w") as f:
            f.write(text)
        r = subprocess.run(command(jab, made, script, text), capture_output=True, text=True, timeout=30 if jab else 120)
    noise = ("Attaching ", "ERROR: Unknown error -1: couldn't set RLIMIT", "open(/sys/kernel", "ERROR: failed to detach")
    got = [l for l in lines(r.stdout) if not l.startswith(noise)]
    said = [l for l in lines(r.stderr) if not l.startswith(noise) and "WARNING" not in l]
    if not jab and any("ERROR" in l or "FATAL" in l for l in said):
        raise NotComparable(next(l for l in said if "ERROR" in l or "FATAL" in l)[-100:])
    return want, got + (said if jab and r.returncode else [])


def main():
    bad = 0
    paths = sys.argv[1:]
    jab = paths[1] if paths[:1] == ["-j"] else None
    wait = 0 if jab else 3
    for path in paths[2:] if jab else paths:
        name = os.path.basename(path)
        try:
            want, got = compare(path, wait, jab)
            if sorted(want) != sorted(got) and not jab:
                want, got = compare(path, 10, jab)
        except NotComparable as e:
            print("%s: not comparable: %s" % (name, e), flush=True)
            continue
        except Exception as e:
            print("%s: not comparable: %r" % (name, e), flush=True)
            continue
        if want == got or sorted(want) == sorted(got):
            print("%s: same" % name, flush=True)
        else:
            bad += 1
            print("%s: DIFFERENT\n--- here\n%s\n--- bpftrace\n%s\n---" % (name, "\n".join(want), "\n".join(got)), flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
