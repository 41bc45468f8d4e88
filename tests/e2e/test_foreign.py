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
