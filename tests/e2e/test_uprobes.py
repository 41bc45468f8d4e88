# SPDX-License-Identifier: MIT
"""Kernel uprobes and jab on the same function: whichever comes first, the program goes on."""
import os
import shutil
import signal
import time

import jab
import pytest
import targets
import uprobe

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="uprobes are root's")


def site(t, probe="exe:work"):
    """(live address, file offset) of the function, and the offset of jab's jump in it"""
    row = next(s for s in jab.run("check", "-p", t.pid, "--json", probe).rows if "function" in s)
    address = int(row["address"], 16)
    start = address - row["offset"]
    for line in jab.maps(t.pid):
        where, perms, offset, _ = line.split()[:4]
        lo, hi = (int(x, 16) for x in where.split("-"))
        if lo <= start < hi and "x" in perms:
            return address, start - lo + int(offset, 16), row["offset"]
    raise AssertionError(row)


def text(pid, at, n=16):
    with open(f"/proc/{pid}/mem", "rb") as mem:
        mem.seek(at)
        return mem.read(n)


def wait_for(c, words):
    end = time.monotonic() + targets.LIMIT
    while not any(words in line for line in c.stderr):
        assert time.monotonic() < end and not c.ended.is_set(), c.stderr
        time.sleep(.01)


def test_a_uprobe_that_is_there_is_left_alone(target):
    """The kernel puts it into every private mapping of the file, also into ours if we had one."""
    t = target("calls_O0", "serve", 1)
    address, offset, _ = site(t)
    before = text(t.pid, address)
    with uprobe.Uprobe(os.readlink(f"/proc/{t.pid}/exe"), offset) as u:
        assert text(t.pid, address) == b"\xcc" + before[1:]
        r = jab.run("check", "-p", t.pid, "--json", "exe:work")
        row = next(s for s in r.rows if "function" in s)
        assert row["tactic"] == "none" and "differs from its file" in row["reason"], r
        r = jab.run("count", "-p", t.pid, "-d", "0.1", "exe:work")
        assert r.status == 1 and "differs from its file" in r.stderr, r
        with jab.Count(t.pid, "exe:*") as c:        # the other functions are probed
            t.run(1000)
            r = c.stop()
        assert r.status == 0 and r.hits("run") == 1, r
        assert u.hits() == 1000
        assert text(t.pid, address) == b"\xcc" + before[1:]
    assert text(t.pid, address) == before
    t.run(10)
    t.stop()


def test_a_uprobe_of_all_processes_is_seen_in_a_new_one(built, tmp_path):
    """It is in the text before the program's first instruction."""
    path = tmp_path / "calls"
    shutil.copy(built("calls_O0"), path)
    with targets.Target("calls", command=[str(path), "serve", "1"]) as t:
        _, offset, _ = site(t)
    with uprobe.Uprobe(path, offset):
        r = jab.count_command(["exe:work", "exe:run"], [path, 1000, 1])
    assert r.status == 0 and r.stdout == "1000\n", r
    assert (r.hits("work"), r.hits("run")) == (0, 1) and "can't be placed" in r.stderr, r


def test_a_uprobe_on_the_landing_mark(target):
    """endbr64 stays in its place in any case: the jump is after it, and both see every call."""
    t = target("calls_cet", "serve", 1)
    address, offset, skip = site(t)
    if not skip and text(t.pid, address, 4) != b"\xf3\x0f\x1e\xfa":
        pytest.skip("this compiler makes no endbr64")
    with uprobe.Uprobe(os.readlink(f"/proc/{t.pid}/exe"), offset) as u:
        with jab.Count(t.pid, "exe:work") as c:
            t.run(1000)
            r = c.stop()
        assert (r.hits("work"), u.hits()) == (1000, 1000), r
    t.run(10)
    t.stop()


@pytest.mark.parametrize("inside", [0, 1])
def test_jab_gives_way_to_a_uprobe_that_comes_later(target, inside):
    """The kernel would go on in the middle of our jump."""
    t = target("calls_O0", "serve", 1)
    address, offset, _ = site(t)
    before = text(t.pid, address)
    with jab.Count(t.pid, "exe:work", "exe:run") as c:
        t.run(100)
        assert text(t.pid, address) != before
        with uprobe.Uprobe(os.readlink(f"/proc/{t.pid}/exe"), offset + inside) as u:
            wait_for(c, "jab has taken it out")
            assert text(t.pid, address) == before[:inside] + b"\xcc" + before[inside + 1:]
            t.run(1000)
            assert u.hits() == 1000
            r = c.stop()
            assert r.status == 0 and (r.hits("work"), r.hits("run")) == (100, 2), r
            assert "not by jab" not in r.stderr and r.summary["clean"], r
            assert not [x for x in jab.maps(t.pid) if "SYSV6a6162" in x or "memfd:jab" in x]
            t.run(1000)
            assert u.hits() == 2000
    assert text(t.pid, address) == before
    t.run(10)
    t.stop()


@pytest.mark.parametrize("end", ["stop", "recover"])
def test_a_jump_under_a_uprobe_is_taken_out(target, end):
    """Also where jab had no time to notice it, or is dead."""
    t = target("calls_O0", "serve", 1)
    address, offset, _ = site(t)
    before = text(t.pid, address)
    with jab.Count(t.pid, "exe:work") as c:
        t.run(100)
        if end == "recover":
            c.kill()
        else:
            c.process.send_signal(signal.SIGSTOP)   # it does not look meanwhile
        with uprobe.Uprobe(os.readlink(f"/proc/{t.pid}/exe"), offset) as u:
            if end == "recover":
                r = jab.run("recover", t.pid)
            else:
                c.process.send_signal(signal.SIGINT)
                c.process.send_signal(signal.SIGCONT)
                r = c.wait()
            assert r.status == 0, r
            assert text(t.pid, address) == b"\xcc" + before[1:]
            t.run(1000)
            assert u.hits() == 1000
        assert text(t.pid, address) == before
    t.run(10)
    t.stop()
