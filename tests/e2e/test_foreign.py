# SPDX-License-Identifier: MIT
"""Text that somebody else has changed is left alone, and the rest is probed."""
import os
import subprocess

import jab


def put_byte(pid, address, byte):
    fd = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    try:
        old = os.pread(fd, 1, address)
        os.pwrite(fd, byte, address)
    finally:
        os.close(fd)
    return old


def test_a_breakpoint_is_left_alone(target):
    t = target("calls", "serve", 1)
    sites = {s["function"]: int(s["address"], 16) for s in jab.run("check", "-p", t.pid, "--json", "exe:*").rows
             if "function" in s}
    assert {"main", "work"} <= set(sites), sites
    put_byte(t.pid, sites["main"], b"\xcc")      # runs once only, and has run
    r = jab.run("check", "-p", t.pid, "--json", "exe:main", "exe:work")
    by = {s["function"]: s for s in r.rows if "function" in s}
    assert by["main"]["tactic"] == "none" and "differs from its file" in by["main"]["reason"], by
    assert by["work"]["tactic"] == "jump", by
    r = jab.run("count", "-p", t.pid, "-d", "0.2", "exe:*")
    assert r.status == 0, r
    assert "can't be placed" in r.stderr, r
    assert put_byte(t.pid, sites["main"], b"\xcc") == b"\xcc"
    r = jab.run("count", "-p", t.pid, "-d", "0.2", "exe:main")
    assert r.status == 1 and "differs from its file" in r.stderr, r


def test_exits_without_a_place_are_told(target):
    """A row that can't count all returns says so, in the table and in JSON."""
    t = target("calls", "serve", 1)
    probes = ["exe:main%return", "exe:work%return"]
    exits = [int(s["address"], 16) for s in jab.run("check", "-p", t.pid, "--json", probes[0]).rows if s["kind"] == "exit"]
    assert len(exits) > 1
    old = put_byte(t.pid, exits[0], b"\xcc")
    with jab.Count(t.pid, *probes) as c:
        t.run(10)
        r = c.stop()
    assert {x["function"]: x.get("unplaced_exits", 0) for x in r.rows} == {"main": 1, "work": 0}, r
    table = jab.run("count", "-d", "0.1", "-p", t.pid, *probes).output
    assert [x for x in table.splitlines() if "main%return" in x][0].endswith("(1 exit not covered)"), table
    assert table.count("not covered") == 1, table
    put_byte(t.pid, exits[0], old)
    t.stop()


def without_entry(t):
    """main runs already and returns when the target is asked to end; its entry gets a breakpoint."""
    sites = jab.run("check", "-p", t.pid, "--json", "exe:main").rows
    put_byte(t.pid, next(int(s["address"], 16) for s in sites if s.get("kind") == "entry"), b"\xcc")


def test_a_call_whose_entry_has_no_place(target):
    """Its exit alone makes no event: that is not a function without calls."""
    t = target("calls", "serve", 1)
    without_entry(t)
    words = ("-d", "0.1", "-p", t.pid)
    r = jab.run("trace", *words, "call:exe:main", "exe:work")
    table = [x.split()[-5:] for x in r.stderr.splitlines() if x.endswith("  call:exe:main")]
    assert r.status == 0 and table == [["not", "placed", "0", "0", "call:exe:main"]], r
    why = "call:exe:main: not placed, so it is not known how often it was reached (main+0: the text differs from its file here"
    assert why in r.stderr and "no hit" not in r.stderr, r
    r = jab.run("trace", "--json", *words, "call:exe:main", "exe:work")
    assert r.probe("call:exe:main")["placed"] is False and "placed" not in r.probe("exe:work"), r
    assert r.probe("call:exe:main")["reason"].startswith("main+0: the text differs") and "reason" not in r.probe("exe:work"), r
    r = jab.run(*words, "-e", "call:exe:main { @a = count(); } uprobe:exe:work { @b = count(); }")
    assert r.status == 0 and why in r.stderr and "exe:work" not in r.stderr, r
    t.stop()


def test_the_table_names_returns(target, tmp_path):
    """Also where the entry has no place, so that it is not known how many are open."""
    t = target("calls", "serve", 1)
    without_entry(t)
    out = tmp_path / "table"
    p = subprocess.Popen([jab.JAB, "count", "-v", "-p", str(t.pid), "-o", str(out), "exe:main", "exe:main%return"],
                         stderr=subprocess.PIPE, text=True)
    while "active:" not in (line := p.stderr.readline()):
        assert line, "it ended"
    t.stop()
    said = p.communicate()[1]
    rows = [x.split() for x in out.read_text().splitlines()[1:]]
    assert sorted(x[:-1] + [x[-1].split(":")[1]] for x in rows) == [["1", "main%return"], ["not", "placed", "main"]], (rows, said)
