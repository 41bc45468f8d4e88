# SPDX-License-Identifier: MIT
"""Known memory (docs/why/reads.md): what is on the heap is read by plain loads, until the program takes it away; and where that can't be
known, by asking the kernel. Either way values are right, and the program lives."""
import os
import re
import subprocess
import time

import pytest

import jab
import scripts
import uprobe
from scripts import Script, keyed, scalar
from targets import Target

N = 20000
SCRIPT = """u:exe:look { @all = count() } u:exe:look /p->value == 7/ { @good = count() }
    u:exe:look /p->next->next->next->value == 7/ { @far = count() } u:exe:look /p->value != 7/ { @other = count() }"""


def until(target, script, what, limit=60):
    """Runs look() until -v says it. Returns how many calls that were."""
    calls, end = 0, time.monotonic() + limit
    while not any(what in line for line in script.stderr):
        assert time.monotonic() < end, "".join(script.stderr)
        target.run(N)
        calls += N
        time.sleep(.01)
    return calls


def settled(script):
    """Waits until the ranges of one addition have all been said."""
    n = -1
    while n != len(script.stderr):
        n = len(script.stderr)
        time.sleep(.3)


def plain(r):
    """(reads by plain loads, others) at the end."""
    found = re.findall(r"(\d+) reads of its memory were plain loads, (\d+) were not", r.stderr)
    return [int(x) for x in found[-1]]


def move_of_munmap(pid):
    """(libc, file offset of the instruction that sets munmap()'s number)"""
    path = next(line.split()[-1] for line in jab.maps(pid) if "/libc.so" in line)
    rows = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout.splitlines()
    start = next(int(row.split()[1], 16) for row in rows if row.split()[-1:] and row.split()[-1].startswith("munmap@"))
    with open(path, "rb") as f:
        f.seek(start)
        code = f.read(16)
    return path, start + code.index(b"\xb8\x0b\0\0\0")


def check(r, calls):
    for name in ("all", "good", "far"):
        assert scalar(r.output, name) == str(calls), r
    assert "@other" not in r.output and "could not be read" not in r.stderr, r


def test_the_heap(built):
    with Target("heap") as t, Script(SCRIPT, t.pid) as s:
        calls = until(t, s, "is read by plain loads")
        t.run(10 * N)
        r = s.stop()
        check(r, calls + 10 * N)
        assert plain(r)[0] >= 10 * N * 6 * .9, r.stderr
        t.stop()


def test_texts_and_bytes(built):
    """They are copied as a whole."""
    script = """u:exe:look { @[str(p->text)] = count() } u:exe:look { @s[str(p->text, 6)] = count() }
        u:exe:look { @b[buf(p->text, 4)] = count() } u:exe:look /str(p->text) == "text of a node on the heap"/ { @whole = count() }"""
    with Target("heap") as t, Script(script, t.pid) as s:
        calls = until(t, s, "is read by plain loads") + 4 * N
        t.run(4 * N)
        r = s.stop()
        assert keyed(r.output, "") == {"text of a node on the heap": str(calls)}, r
        assert keyed(r.output, "b") == {"text": str(calls)}, r
        (short, n), = keyed(r.output, "s").items()
        assert short.startswith("text ") and n == str(calls), r
        assert scalar(r.output, "whole") == str(calls) and "could not be read" not in r.stderr, r
        assert plain(r)[0] >= 4 * N * 4 * .9, r.stderr
        t.stop()


@pytest.mark.parametrize("name, way, why", [
    ("heap", "jit", "it has code that can change"),
    ("heap_raw", "", "it has system calls whose number is not known"),
    ("heap", "filler", "it fills pages itself"),
])
def test_what_may_change_unseen_is_asked(built, name, way, why):
    with Target(name, *[way][:len(way)]) as t, Script(SCRIPT, t.pid) as s:
        calls = until(t, s, "by asking the kernel: " + why)
        t.run(N)
        r = s.stop()
        if way != "filler":		# jab asks nothing then, either
            check(r, calls + N)
        assert plain(r)[0] == 0, r.stderr
        t.stop()


@pytest.mark.parametrize("name", ["heap_static", "heap_musl"])
def test_other_programs(built, name):
    """Other C libraries, and programs without one that can be told from the rest."""
    built(name)
    with Target(name) as t, Script(SCRIPT, t.pid) as s:
        for _ in range(5):
            t.run(N)
        r = s.stop()
        check(r, 5 * N)
        assert "is read by plain loads" not in r.stderr
        t.stop()


@pytest.mark.parametrize("command, added", [("lock", True), ("library", True), ("filler", False)])
def test_what_a_call_takes_away(built, command, added):
    """Before the call the heap is known. After it, only if it is as good as before and all code has been looked through."""
    with Target("heap") as t, Script(SCRIPT, t.pid) as s:
        calls = until(t, s, "is read by plain loads")
        settled(s)
        s.stderr.clear()        # what is added again may be said before the answer comes
        assert t.ask(command) == "done"
        calls += until(t, s, "is read by plain loads" if added else "a call whose effect is not followed")
        t.run(N)
        r = s.stop()
        assert scalar(r.output, "all") == str(calls + N), r
        if added:
            assert scalar(r.output, "good") == str(calls + N), r
        t.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="uprobes are root's")
def test_a_watch_that_gives_way(built):
    """Another tool's breakpoint over the jump before a call that takes memory away: the call is not seen any more."""
    with Target("heap") as t, Script(SCRIPT, t.pid) as s:
        calls = until(t, s, "is read by plain loads")
        path, offset = move_of_munmap(t.pid)
        with uprobe.Uprobe(path, offset, t.pid):
            calls += until(t, s, "by asking the kernel: a breakpoint was set where jab had a jump")
            t.run(10 * N)
            r = s.stop()
        check(r, calls + 10 * N)
        assert plain(r)[1] >= 10 * N, r.stderr
        t.stop()


def test_memory_that_goes(built):
    """Two threads take blocks away in all ways there are while two others have them read."""
    r = scripts.run("""u:exe:gone { @all = count() } u:exe:gone /p[0] == key/ { @key = count() } u:exe:gone /p[0] == 0/ { @zero = count() }
        u:exe:gone /p[0] != key && p[0] != 0/ { @bad = count() }""", built("heap"), "gone", 5000, options=["-v"])
    assert r.status == 0 and r.stdout.endswith("ok\n"), r
    assert "@bad" not in r.output, r
    loads, _ = plain(r)
    cuts = int(re.findall(r"and cut (\d+) times", r.stderr)[-1])
    assert loads > 1000 and cuts > 3, r.stderr
    seen = int(scalar(r.output, "key")) + int(scalar(r.output, "zero"))
    assert seen > int(scalar(r.output, "all")) // 10, r
