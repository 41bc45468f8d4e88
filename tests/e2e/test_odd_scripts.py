# SPDX-License-Identifier: MIT
"""Programs that do odd but legal things with their stack, their flags, their clock and their system calls: what they print is
what they print alone, and what a script or a recording shows of them is right or says that it could not be read."""
import json
import re
import subprocess

import pytest

import jab
import scripts
from scripts import Script, keyed, scalar

N = 200


def alone(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=jab.LIMIT)


def run(text, *command, **options):
    a, r = alone(*command), scripts.run(text, *command, **options)
    assert (r.stdout, r.status) == (a.stdout, 0) and not a.returncode, r
    return r


def test_arguments_above_a_stack_that_ends(built):
    """They are in the next page, which is missing half of the time."""
    r = run('u:exe:work { printf("%d\\n", sarg0); @n = count(); @s = sum(sarg0) } u:exe:work /sarg0 > 1000/ { @more = count() }',
            built("stacktop"), N)
    want = ["<fault>"] * (N // 2) + [str(i + 1000) for i in range(N // 2, N)]
    assert [x for x in r.output.splitlines() if x and not x.startswith("@")] == want, r
    assert scalar(r.output, "n") == str(N) and scalar(r.output, "more") == str(N // 2), r
    assert scalar(r.output, "s") == str(sum(i + 1000 for i in range(N // 2, N))), r


@pytest.mark.parametrize("fields", ["x=arg6", "x=arg6 n=arg0 s=arg6:string"])
def test_recorded_arguments_above_a_stack_that_ends(built, tmp_path, fields):
    a = alone(built("stacktop"), N)
    r = jab.run("trace", "-o", tmp_path / "out", f"exe:work {fields}", "--", built("stacktop"), N)
    lines = [x for x in (tmp_path / "out").read_text().splitlines() if ":work" in x]
    assert r.status == 0 and r.output == a.stdout and len(lines) == N, r
    assert all("x=<fault" in x for x in lines[:N // 2]), lines[:3]
    assert all(f"x={i + 1000:#x}" in x for i, x in enumerate(lines[N // 2:], N // 2)), lines[-3:]


def test_text_where_the_direction_flag_is_set(built):
    """C code of ours would copy backwards."""
    r = run('u:exe:backwards+1 { @[str(reg("di"))] = count(); @b[buf(reg("di"), 5)] = count(); printf("%s\\n", str(reg("di"))) }',
            built("backwards"), N)
    assert keyed(r.output, "") == {"hello, world": str(N)} and list(keyed(r.output, "b").values()) == [str(N)], r
    assert r.output.count("hello, world\n") == N, r


def test_calls_that_are_dispatched_before_we_come(built, target):
    """A call of ours would be one of the program's own signals."""
    if alone(built("dispatch"), "late", 1).returncode == 4:
        pytest.skip("no Syscall User Dispatch here")
    t = target("dispatch", "early")
    with Script('u:exe:work { @n = count(); @s[str(arg0)] = count(); @c[comm] = count(); @u[ustack] = count() }', t.pid) as s:
        t.run(N)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == str(N) and "@s" not in r.output, r
    assert "has forbidden system calls" in r.stderr, r
    t.stop()


def test_calls_that_are_dispatched_later(built):
    if alone(built("dispatch"), "late", 1).returncode == 4:
        pytest.skip("no Syscall User Dispatch here")
    r = run("u:exe:work { @n = count(); @s[str(arg0)] = count() }", built("dispatch"), "late", N)
    assert scalar(r.output, "n") == str(2 * N) and keyed(r.output, "s") == {"on the heap": str(N)}, r


WITH_TIME = """u:exe:work { @n = count(); @k[arg0 & 3] = count() } call:exe:work { @d = hist(duration) } u:exe:work { @t = nsecs; @x = count() }
    u:exe:work { printf("%d\\n", arg0) }"""


def test_who_forbids_itself_the_clock(built):
    """Counting goes on; what needs the time does not."""
    r = run(WITH_TIME, built("timeless"), N)
    assert scalar(r.output, "n") == str(2 * N) and scalar(r.output, "x") == str(N), r
    assert [x for x in r.output.splitlines() if x.isdigit()] == [str(i) for i in range(N)], r
    assert f"{N} events were lost" in r.stderr and "time stamp counter" in r.stderr, r


@pytest.mark.parametrize("how", ["prctl", "seccomp"])
def test_strict_mode(built, tmp_path, how):
    """The strict mode of seccomp forbids the time stamp counter as well: each kind of code that reads it stops doing so."""
    a = alone(built("timeless"), N, how)
    if a.returncode:
        pytest.skip("no strict mode here")
    r = run(WITH_TIME, built("timeless"), N, how)
    assert scalar(r.output, "n") == str(2 * N) and scalar(r.output, "x") == str(N), r
    for probe in ("exe:work n=arg0", "call:exe:work", "exe:work%return"):
        r = jab.run("trace", "-o", tmp_path / "out", probe, "--", built("timeless"), N, how)
        lines = [x for x in (tmp_path / "out").read_text().splitlines() if ":work" in x]
        assert r.status == 0 and r.output == a.stdout and len(lines) == N, r
    r = jab.run("record", "-o", tmp_path / "t", "exe:work", "--", built("timeless"), N, how)
    assert r.status == 0 and r.output == a.stdout, r


def test_who_has_no_clock(target):
    t = target("timeless")
    with Script(WITH_TIME, t.pid) as s:
        t.run(N)
        r = s.stop()
    assert scalar(r.output, "n") == str(N) and "@x" not in r.output and "time stamp counter" in r.stderr, r
    t.stop()


def test_record_of_who_forbids_itself_the_clock(built, tmp_path):
    a = alone(built("timeless"), N)
    r = jab.run("trace", "-o", tmp_path / "out", "exe:work n=arg0", "--", built("timeless"), N)
    lines = [x for x in (tmp_path / "out").read_text().splitlines() if ":work" in x]
    assert r.status == 0 and r.output == a.stdout and len(lines) == N, r
    assert "time stamp counter" in r.stderr and "lost" in r.stderr and "--buffer-size" not in r.stderr, r


def test_calls_without_a_clock_are_lost(built, tmp_path):
    """The entry of a call is no hit: each call is counted once."""
    r = jab.run("trace", "--json", "-o", tmp_path / "out", "call:exe:work n=arg0", "--", built("timeless"), N)
    said = json.loads((tmp_path / "out").read_text().splitlines()[-1])["summary"]["probes"][0]
    assert r.status == 0 and (said["hits"], said["recorded"], said["lost"]) == (2 * N, N, N), (said, r)


@pytest.mark.parametrize("clause, lost", [
    ('u:exe:work { printf("%d %d\\n", arg0, nsecs); }', N),
    ('call:exe:work { printf("%d %d\\n", arg0, duration); }', N),
    ('u:exe:work /arg0 < 50/ { printf("%d\\n", nsecs); }', 0),
    ('call:exe:work /arg0 < 50/ { printf("%d\\n", duration); }', 0)])
def test_clauses_that_read_the_clock_count_what_is_lost(built, clause, lost):
    """A clause that asks for the time does nothing without a clock: the event that it would have written at each hit is lost.
    One with a condition has not asked for that either: no number is made up."""
    r = run(clause, built("timeless"), N)
    said = re.search(r"(\d+) events were lost", r.stderr)
    assert r.status == 0 and len(r.output.splitlines()) == (N if lost else 50), r
    assert (int(said[1]) if said else 0) == lost, r


def test_text_without_a_clock(built):
    """A clause that needs the scratch memory of a ring, and no event, goes on."""
    r = run("u:exe:work { @c[comm] = count() } call:exe:work { @e[comm, arg0 & 1] = count() }", built("timeless"), N)
    assert keyed(r.output, "c") == {"timeless": str(2 * N)} and "lost" not in r.stderr.replace("events are lost", ""), r
    assert sum(map(int, keyed(r.output, "e").values())) == 2 * N, r
