# SPDX-License-Identifier: MIT
"""jab trace: what the program itself says is what is printed, with its values; options, the end, the summary."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest

import jab
from targets import LIMIT
from test_view import heads

VALUES = "exe:take n=arg0:int s=arg1:string[8] v=arg2:int[3] u=arg3:u16 b=arg4:bytes[4] d=xmm0:double f=xmm1:float"
CONTEXT = ["-t", "int:round:round_number", "-t", "string:title:title"]


def trace(*args, **more):
    return jab.run("trace", *args, **more)


def probes(r):
    """The summary's lines: probe -> (hits, recorded, lost)."""
    found = re.findall(r"^ +(\d+) +(\d+) +(\d+)  (.*)$", r.stderr, re.M)
    return {x[3]: (int(x[0]), int(x[1]), int(x[2])) for x in found}


def fields(line):
    return re.sub(r"^\S+ \[\S+\] \S+ \d+/\d+ \S+ ?", "", line)


def test_values_are_those_of_the_program(built, tmp_path):
    r = trace("-o", tmp_path / "out", VALUES, *CONTEXT, "--", built("values"), 20)
    assert r.status == 0, r
    lines = (tmp_path / "out").read_text().splitlines()
    assert [fields(x) for x in lines] == r.output.splitlines()
    assert probes(r) == {VALUES: (180, 180, 0)}, r.stderr


def test_json(built, tmp_path):
    r = trace("--json", "-o", tmp_path / "out", VALUES, *CONTEXT, "--", built("values"), 2)
    assert r.status == 0, r
    *events, last = [json.loads(x) for x in (tmp_path / "out").read_text().splitlines()]
    p = last["summary"]["probes"][0]
    assert (p["probe"], p["sites"], p["refused"], p["hits"], p["recorded"], p["lost"]) == (VALUES, 1, 0, 18, 18, 0)
    assert last["summary"]["clean"] is True
    for o in events:
        assert set(o) == {"time", "cpu", "pid", "tid", "comm", "probe", "fields"}
        assert (o["probe"], o["comm"], o["pid"]) == ("values:take", "values", o["tid"])
    f = [o["fields"] for o in events]
    assert f[1] == {"n": 7, "s": "1234567", "v": [1, -2, 2147483647], "u": 65535, "b": "0001feff", "d": -1.5, "f": .25,
                    "round": 1, "title": 'a "title"'}
    assert f[2]["s"] == {"cut": "12345678"} and f[9]["round"] == 2
    assert f[4]["s"] == {"fault": "0x0"} and f[6]["s"] == {"fault": "0x8000000000000000"}
    assert int(f[5]["v"]["fault"], 16) % 4096 == 64


def test_returns_and_registers(built, tmp_path):
    r = trace("-o", tmp_path / "out", "exe:work%return $retval:u64", "exe:work x=arg0:u64 r=rdi:u64", "--",
              built("calls"), 5, 1)
    assert r.status == 0, r
    lines = [fields(x) for x in (tmp_path / "out").read_text().splitlines()]
    assert lines == [y for i in range(5) for y in (f"x={i} r={i}", f"retval={3 * i + 1}")]


def test_words_of_the_rfc(built, tmp_path):
    syms = jab.symbols(built("calls_nonpie"))
    r = trace("-o", tmp_path / "out", "--function", "work", "--probe", f"{syms['main']:#x}", "--probe", "work+0", "-t",
              "reg:rdi", "-t", "regs", "-c", f"{built('calls_nonpie')} 3 1")
    assert r.status == 0, r
    lines = (tmp_path / "out").read_text().splitlines()
    assert [x.split()[4].split(":")[-1] for x in lines] == ["main"] + ["work", "work+0x0"] * 3 or \
        len(lines) == 7, lines
    assert all(re.search(r" rdi=0x\S+ .*rip=0x", x) for x in lines), lines[:2]


def test_order_count_and_threads(built, tmp_path):
    """Every call of every thread, in the order of time, each thread in its own."""
    r = trace("-o", tmp_path / "out", "exe:work x=arg0:u64", "--", built("calls"), 20000, 8)
    assert r.status == 0, r
    got = heads((tmp_path / "out").read_text())
    hits, recorded, lost = probes(r)["exe:work x=arg0:u64"]
    assert hits == 20000 == recorded + lost and recorded == len(got)
    assert [x[0] for x in got] == sorted(x[0] for x in got)
    for tid in {x[3] for x in got}:
        mine = [int(x[4].split("=")[1]) for x in got if x[3] == tid]
        assert mine == sorted(mine)
        assert lost or mine == list(range(2500))


def test_count_option(built):
    r = trace("-n", 7, "exe:work x=arg0:u64", "--", built("calls"), 1000, 1)
    assert r.status == 0, r
    lines = [x for x in r.output.splitlines() if "work" in x]
    assert len(lines) == 7 and lines[6].endswith("x=6"), r


@pytest.mark.parametrize("status", [0, 7])
def test_status_is_the_commands(status):
    r = trace("-o", "/dev/null", "libc:exit", "--", "/bin/sh", "-c", f"exit {status}")
    assert r.status == status, r


class Live:
    """jab trace -p that runs until stop()."""

    def __init__(self, pid, *args):
        self.p = subprocess.Popen([jab.JAB, "trace", "-v", "-p", str(pid), *args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in self.p.stderr:
            if line.startswith("jab: active:"):
                return
        raise AssertionError("not active")

    def stop(self):
        self.p.send_signal(signal.SIGINT)
        out, err = self.p.communicate(timeout=LIMIT)
        return jab.Result(self.p.returncode, out, err)


def test_a_running_program_live(target):
    """A line comes when its event does, not at the end; afterwards the program is as before."""
    t = target("calls", "serve", 1)
    t.run(1)        # what its first thread brings with it stays
    jab.settle_threads(t.pid, 1)
    before = jab.snapshot(t.pid)
    live = Live(t.pid, "exe:work x=arg0:u64")
    t.run(3)
    assert [live.p.stdout.readline().split("x=")[1] for _ in range(3)] == ["0\n", "1\n", "2\n"]
    t.run(2)
    assert live.p.stdout.readline().endswith("x=0\n")
    r = live.stop()
    assert r.status == 0 and probes(r)["exe:work x=arg0:u64"] == (5, 5, 0), r
    jab.settle_threads(t.pid, 1)
    jab.assert_same(before, t.pid)
    t.stop()


def test_two_processes(target):
    a, b = target("calls", "serve", 1), target("calls", "serve", 1)
    live = Live(a.pid, "-p", str(b.pid), "exe:work")
    a.run(3)
    b.run(4)
    r = live.stop()
    got = heads(r.output)
    assert sorted(x[2] for x in got) == sorted([a.pid] * 3 + [b.pid] * 4), r
    assert probes(r)["exe:work"] == (7, 7, 0), r
    a.stop()
    b.stop()


def test_duration(target):
    t = target("calls", "serve", 1)
    start = time.monotonic()
    r = trace("-p", t.pid, "-d", "0.3", "exe:work")
    assert r.status == 0 and time.monotonic() - start >= .3, r
    t.stop()


@pytest.mark.parametrize("args", [["trace", "exe:work"], ["count", "exe:work"], ["-e", "u:exe:work { print(1) }"]])
def test_why_the_output_failed(built, args):
    r = jab.run(*args, "-o", "/dev/full", "--", built("calls"), 1000, 1)
    assert "jab: /dev/full can't be written: No space left on device\n" in r.stderr, r


def test_reader_goes_away(built):
    """As `jab trace | head -1`: the probes come out, the program goes on."""
    p = subprocess.Popen([jab.JAB, "trace", "exe:work", "--", str(built("calls")), "serve", "1"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    p.stdin.write("run 3\n")
    p.stdin.flush()
    while "work" not in p.stdout.readline():
        pass
    p.stdout.close()
    with contextlib.suppress(BrokenPipeError):      # it may have met the closed pipe and be gone by now
        p.stdin.write("run 3\nrun 3\nrun 3\n")
        p.stdin.close()
    p.wait(LIMIT)


def test_backtrace(built, tmp_path):
    r = trace("-o", tmp_path / "out", "-t", "backtrace", "exe:work", "--", built("calls"), 1, 1)
    assert r.status == 0, r
    line, *frames = (tmp_path / "out").read_text().splitlines()
    names = [x.split()[1] for x in frames]
    assert names[0] == "calls:work" and names[1].startswith("calls:worker+0x"), frames
    assert any("start_thread" in x or "clone" in x for x in frames) or len(frames) >= 2, frames


def test_backtrace_through_a_second_mapping(built, tmp_path):
    """What lies between a file as it was loaded and another mapping of a part of it is not that file's."""
    def run(command):
        with subprocess.Popen([built("twice")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            assert p.stdout.readline() == "ready\n"
            with subprocess.Popen([jab.JAB, command, "-v", "-o", str(tmp_path / command), "-p", str(p.pid), "-t", "backtrace", "exe:hit"],
                                  stderr=subprocess.PIPE, text=True) as j:
                while "active" not in j.stderr.readline():
                    assert j.poll() is None
                p.communicate("\n", LIMIT)
                assert j.communicate(None, LIMIT) and j.returncode == 0

    run("trace")
    frames = [x.split(None, 1) for x in (tmp_path / "trace").read_text().splitlines() if x.startswith("\t")]
    assert frames[0][1] == "twice:hit" and frames[1][1].startswith("twice:through+0x"), frames
    assert len(frames[1][0]) > len(frames[0][0]), "the copy is far from the program"
    run("record")
    module, = (x["fields"] for x in jab.run("view", "-v", "--json", tmp_path / "record").rows
               if x.get("probe") == "jab:module" and x["fields"]["path"].endswith("/twice"))
    assert module["size"] < 1 << 20, module


def test_dry_run_touches_nothing(target):
    t = target("calls", "serve", 1)
    before = jab.snapshot(t.pid)
    r = trace("--dry-run", "-p", t.pid, "exe:work arg0")
    assert r.status == 0 and [x.split() for x in r.output.splitlines()] == [["SITES", "REFUSED", "PROBE"], ["1", "0", "exe:work", "arg0"]], r
    jab.assert_same(before, t.pid)
    t.stop()


@pytest.mark.parametrize("args,status,word", [
    (["-c", "true"], 2, "no probe given"),
    (["libc:malloc"], 2, "no target given"),
    (["libc:malloc", "--"], 2, "no command after --"),
    (["libc:malloc", "-c", "true", "--buffer-size", "x"], 2, "not a valid value for --buffer-size"),
    (["libc:malloc", "-c", "true", "--buffer-size", "99G"], 1, "buffer"),
    (["libc:malloc", "-c", "true", "-t", "nonsense"], 1, "nonsense"),
    (["libc:malloc arg0:nonsense", "-c", "true"], 1, "nonsense"),
    (["libc:malloc", "-p", "99999999"], 1, "99999999"),
    (["-o", "/nonexistent/x", "libc:malloc", "-c", "true"], 1, "/nonexistent/x"),
])
def test_errors(args, status, word):
    r = trace(*args)
    assert r.status == status and word in r.stderr, r


def test_help_is_there():
    for command in ("trace", "record", "view"):
        r = jab.run(command, "--help")
        assert r.status == 0 and f"usage: jab {command}" in r.output and f"man jab-{command}" in r.output
        assert os.path.exists(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "man", f"jab-{command}.1"))


@pytest.mark.parametrize("more", ["", " if arg0 == 1", " ; z=1+1"])
def test_untyped_values_look_alike_with_and_without_a_condition(built, more):
    """A condition or an expression makes a program of the probe, which must not show: hexadecimal, and numbers in JSON."""
    probe = "exe:op_a a=arg0 arg0 rdi $regs" + more.replace(" ;", "")
    text = jab.run("trace", probe, "--", built("many")).output
    line = next(x for x in text.splitlines() if "many:op_a" in x and " a=0x1 " in x)
    assert " arg0=0x1 rdi=0x1 rax=0x" in line, line
    r = jab.run("trace", "--json", probe, "--", built("many"))
    fields = next(o["fields"] for o in r.objects if o.get("fields", {}).get("a") == 1)
    assert fields["arg0"] == fields["rdi"] == 1 and isinstance(fields["rax"], int), fields


def test_parameters_after_a_text(built):
    """What is shown of a const char * is an expression of its own; the parameters after it do not use it (seen by the sanitized build)."""
    r = jab.run("trace", "exe:deed", "--", built("hostile"), "1", "1")
    assert r.status == 0 and "Sanitizer" not in r.stderr and re.search(r':deed n=\d+ text="text \d+" list=0x\w+\n', r.output), r.stderr
