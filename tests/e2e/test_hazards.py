# SPDX-License-Identifier: MIT
"""Hazards of code that was moved: whoever keeps, compares or looks up program counters."""
import http.client
import json
import socket
import subprocess
import time

import pytest

import jab

EVERYTHING = ["*:*", "*:/./%return"]


@pytest.mark.parametrize("program", ["calls_static", "calls_static_pie", "calls_musl_static", "hello_go", "calls",
                                     "calls_musl"])
def test_from_the_first_instruction(built, program):
    """Everything probed at the entry point: the first functions run before there is a thread block (%fs is 0)."""
    r = jab.count_command(EVERYTHING, [built(program), 20000, 4])
    assert (r.status, r.stdout) == (0, "20000\n"), r
    name = "main.work" if program == "hello_go" else "work"
    assert r.hits(name, "*:*") == 20000, r
    start = {"hello_go": "_rt0_amd64_linux"}.get(program, "_start")
    assert r.hits(start, "*:*") >= 1, r


@pytest.mark.parametrize("program", ["calls_static", "calls_musl_static"])
def test_every_instruction_from_the_first_one(built, program):
    """The code that makes the thread block, between any two of its instructions."""
    names = ["_start", "__libc_start_main*", "__libc_setup_tls", "__init_libc", "__init_tls", "_dl_relocate_static_pie",
             "__libc_init_secure", "static_init_tls", "__init_tp", "_dl_aux_init"]
    listed = jab.run("list", "--json", built(program)).output
    there = {json.loads(x)["function"] for x in listed.splitlines() if "function" in x}
    probes = [f"insn:exe:{n}" for n in names if n in there or (n.endswith("*") and any(t.startswith(n[:-1]) for t in there))]
    assert len(probes) >= 3, there
    r = jab.count_command(probes, [built(program), 1000, 2])
    assert (r.status, r.stdout) == (0, "1000\n"), r
    assert r.summary["probes"][0]["hits"] > 0, r


@pytest.mark.parametrize("probes", [
    ["exe:*", "exe:*%return"],
    ["insn:exe:one_turn", "insn:exe:jump_back", "insn:exe:pause_here", "insn:exe:body"],
    ["libc:*context*", "libc:*setjmp*", "libc:*longjmp*", "insn:libc:swapcontext", "insn:libc:__sigsetjmp",
     "insn:libc:__longjmp"],
])
def test_contexts_sleep_through_it(target, probes):
    """Stack pointers and return addresses that setjmp and swapcontext keep are those of the program, before and after."""
    t = target("contexts", 7)
    t.run(50)
    for _ in range(3):
        with jab.Count(t.pid, "exe:work", *probes) as c:
            t.run(3001)
            r = c.stop()
        assert r.status == 0, r
        assert r.probe("exe:work")["hits"] == 3001, r
        assert all(p["hits"] for p in r.summary["probes"]), r
        t.run(51)
    t.stop()


@pytest.mark.parametrize("probes", [["exe:*", "exe:*%return"], ["insn:exe:noise", "insn:exe:work", "insn:exe:spin*"], ["*:*"]])
def test_looked_at_between_any_two_instructions(target, probes):
    """Stack walks of a profiler and asynchronous cancellation meet threads in pads."""
    t = target("async", 2)
    t.run(2000)
    for _ in range(2):
        with jab.Count(t.pid, "exe:work", *probes) as c:
            t.run(100000)
            r = c.stop()
        assert r.status == 0, r
        assert r.probe("exe:work")["hits"] == 100000, r
        t.run(2000)
    t.stop()


@pytest.mark.parametrize("probes", [["*:*"], ["libc:*", "libc:*%return"], ["insn:libc:read", "insn:libc:*nanosleep*",
                                                                            "insn:libc:poll", "insn:exe:work"]])
def test_cancelled_in_a_call(target, probes):
    """The unwinder starts from the PC of the blocked call: destructors run whether the thread blocked before, during or
    after the visit."""
    t = target("cancel")
    t.run(16)
    assert t.ask("block") == "block"
    with jab.Count(t.pid, *probes) as c:
        assert t.ask("end") == "end"            # blocked before, cancelled now
        t.run(64)
        assert t.ask("block") == "block"
        r = c.stop()
    assert r.status == 0, r
    assert t.ask("end") == "end"                # blocked then, cancelled afterwards
    t.run(16)
    t.stop()


def functions(path):
    p = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout
    rows = [x.split() for x in p.splitlines() if " FUNC " in x and " UND " not in x]
    return [(int(f[1], 16), int(f[2], 0), f[7].split("@")[0]) for f in rows if len(f) > 7]


def test_no_entry_inside_a_function():
    """The unwind table of libc has entries that begin inside clone and setcontext: those are no functions."""
    libc = "/usr/lib/x86_64-linux-gnu/libc.so.6"
    rows = [json.loads(x) for x in jab.run("list", "--json", libc).output.splitlines()]
    inside = []
    for addr, size, name in functions(libc):
        if name not in ("clone", "__clone", "setcontext", "__clone3"):
            continue
        inside += [r for r in rows if addr < int(str(r["address"]), 0) < addr + size]
    assert not inside, inside


def fetch(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=jab.LIMIT)
    try:
        c.request("GET", path)
        return c.getresponse().read()
    finally:
        c.close()


@pytest.mark.parametrize("probe", ["exe:main.*", "exe:main.*%return", "insn:exe:main.follow", "insn:exe:main.framed"])
def test_go_recovers_from_a_nil_pointer(built, probe):
    """Go makes a panic of a fault only if it knows the PC, or finds the caller's on top of the stack."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen([built("serve_go"), f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + jab.LIMIT
        want = {}
        while not want:
            try:
                want = {path: fetch(port, path) for path in ("/nil", "/framed")}
            except OSError:
                assert time.monotonic() < end and server.poll() is None
                time.sleep(.05)
        with jab.Count(server.pid, probe) as c:
            for path in want:
                assert fetch(port, path) == want[path]
                assert want[path].startswith(b"recovered")
            r = c.stop()
        assert r.status == 0 and r.summary["probes"][0]["hits"] > 0, r
    finally:
        server.kill()
        server.wait()
