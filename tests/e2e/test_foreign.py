# SPDX-License-Identifier: MIT
"""Text that somebody else has changed is left alone, and the rest is probed."""
import os

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
