# SPDX-License-Identifier: MIT
"""A script without -p and -c: processes that start later, or load the library later, are probed before they run code of the file.

Every test has a copy of the file for itself: nobody else uses it.
"""
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import beside
import jab
import scripts
import targets
from scripts import keyed, scalar
from targets import LIMIT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root is told of new processes")
missing = functools.cache(beside.missing)


class TooBusy(Exception):
    pass


def in_time(said):
    """Nobody waits for jab for more than two seconds. If somebody would have, others have the CPU, and jab says so."""
    if "they would have waited for too long" in said:
        raise TooBusy(said)
    return said


def patient(test):
    """Begins anew where jab had to let somebody go: what it counts is open then."""
    @functools.wraps(test)
    def again(*args, **more):
        for _ in range(9):
            with contextlib.suppress(TooBusy):
                return test(*args, **more)
        return test(*args, **more)
    return again


class Script(scripts.Script):
    def result(self, status):
        r = super().result(status)
        in_time(r.stderr)
        return r


@pytest.fixture
def copy(built, tmp_path):
    """Another one at each call: the last one may still be running."""
    made = []

    def make(name):
        made.append(tmp_path / str(len(made)) / name)
        made[-1].parent.mkdir()
        shutil.copy(built(name), made[-1])
        return made[-1]
    return make


def run(*command, **popen):
    p = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT, **popen)
    assert p.returncode == 0, p
    return p.stdout


def at_once(n, *command):
    """They all end well, each in time."""
    all = [subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL) for _ in range(n)]
    try:
        assert [p.wait(LIMIT) for p in all] == [0] * n
    finally:
        for p in all:
            p.kill()


def doormen(pid):
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_gone(pid):
    end = time.monotonic() + LIMIT
    while is_there(pid):
        assert time.monotonic() < end, f"{pid} is still there"
        time.sleep(.01)


@patient
def test_program(target, copy):
    """One that ran before, some in a row by a shell, some at once: every hit of each."""
    prog = copy("script")
    old = target("script", command=[str(prog), "serve"])
    with Script(f"u:{prog}:tail {{ @n = count(); @by[pid] = count() }} u:{prog}:take {{ @old[pid] = count() }}") as s:
        run("bash", "-c", f"for ((i = 0; i < 40; i++)); do {prog} tail 3; done")
        old.run(50)
        at_once(30, prog, "tail", 5)
        run("env", "nice", prog, "tail", 7)
        r = s.stop()
    old.stop()
    assert r.status == 0 and scalar(r.output, "n") == str(40 * 3 + 30 * 5 + 7), r
    assert sorted(keyed(r.output, "by").values()) == sorted(["3"] * 40 + ["5"] * 30 + ["7"]), r
    assert keyed(r.output, "old") == {str(old.pid): "50"} and "not probed" not in r.stderr, r
    assert "71 processes started" in r.stderr, r


@pytest.mark.parametrize("name", ["told", "told_static", "told_musl", "told_musl_static"])
@patient
def test_kinds_of_programs(copy, name):
    prog = copy(name)
    with Script(f"u:{prog}:hit {{ @by[pid] = count() }}") as s:
        said = [run(prog, "threads", 100, 2), run(prog, "forks", 20, 3)]
        r = s.stop()
    expect = {}
    for pid, _, calls in (x.split() for text in said for x in text.splitlines()):
        expect[pid] = expect.get(pid, 0) + int(calls)
    assert r.status == 0 and keyed(r.output, "by") == {p: str(n) for p, n in expect.items() if n}, (r, said)


@patient
def test_interpreter_of_a_script(copy, tmp_path):
    """The kernel opens it where the thread can't be seized."""
    prog, text = copy("script"), tmp_path / "text"
    text.write_text(f"#!{prog} tail\n")
    text.chmod(0o755)
    again = tmp_path / "again"
    again.write_text(f"#!/bin/sh\nexec {prog} tail 6\n")
    again.chmod(0o755)
    with Script(f"u:{prog}:main {{ @m = count() }} u:{prog}:tail {{ @n = count() }}") as s:
        for _ in range(3):
            subprocess.run([str(text)], stdout=subprocess.DEVNULL, timeout=LIMIT)
            run(again)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "m") == "6" and scalar(r.output, "n") == "18" and "not probed" not in r.stderr, r


@patient
def test_exec_that_fails(copy):
    prog = copy("script")
    with Script(f"u:{prog}:tail {{ @n = count() }}") as s:
        with pytest.raises(OSError, match="too long"):
            subprocess.run([str(prog), "x" * (3 << 20)])
        run(prog, "tail", 2)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "2", r


@patient
def test_library(target, copy, built):
    """By programs that load it at their start and by those that load it later, with the constructor; a reader does not count."""
    lib, late = copy("liblate.so"), built("late")
    old = target("dlopen", lib)
    with Script(f"u:{lib}:late_hit {{ @n = count(); @c[(int32)arg0] = count() }}") as s:
        said = [int(run(late, lib, rounds)) for rounds in (1, 3)]
        said += [int(run(late, lib, 2, env={**os.environ, "LD_PRELOAD": str(lib)})) + 1 - 2]     # stays loaded: one constructor
        run("cmp", lib, lib)
        at_once(20, late, lib, 1)
        r = s.stop()
    old.stop()
    assert r.status == 0 and "not probed" not in r.stderr and "23 processes started" in r.stderr and "robust" not in r.stderr, r
    assert scalar(r.output, "n") == str(3 + 9 + 5 + 60) and keyed(r.output, "c")["-1"] == str(1 + 3 + 1 + 20), (r, said)


@patient
def test_library_in_a_process_that_ran_before(target, copy):
    lib = copy("libplug.so")
    with Script(f"u:{lib}:plug_work {{ @by[pid] = count() }}") as s:
        before = target("dlopen", lib)
        assert before.ask("open") == "open"
        before.run(70)
        assert before.ask("close") == "close"
        assert before.ask("open") == "open"
        before.run(700)
        r = s.stop()
    assert r.status == 0 and keyed(r.output, "by") == {str(before.pid): "770"}, r
    before.stop()


@patient
def test_several_files(copy, built):
    prog, lib = copy("script"), copy("liblate.so")
    with Script(f"u:{prog}:tail {{ @t = count() }} u:{lib}:late_hit {{ @l = count() }} u:{prog}:take {{ @k = count() }}") as s:
        for _ in range(3):
            run(prog, "tail", 4)
            run(built("late"), lib, 2)
        run(prog, "tell", 10, env={**os.environ, "LD_PRELOAD": str(lib)})
        r = s.stop()
    assert r.status == 0 and [scalar(r.output, x) for x in "tlk"] == ["12", "19", "10"], r


@pytest.mark.parametrize("after", [.02, .1, .3])
def test_killed_while_they_come(copy, after):
    """Nobody waits for us, nobody is harmed, and nobody is left of us."""
    prog = copy("script")
    with Script(f"u:{prog}:tail {{ @n = count() }}") as s:
        doorman, = doormen(s.process.pid)
        kill = threading.Timer(after, s.process.kill)
        kill.start()
        at_once(40, prog, "tail", 3)
        kill.join()
        s.wait()
    wait_gone(doorman)
    run(prog, "tail", 3)


@patient
def test_doorman_is_killed(copy):
    prog = copy("script")
    with Script(f"u:{prog}:tail {{ @n = count() }}") as s:
        run(prog, "tail", 3)
        os.kill(*doormen(s.process.pid), signal.SIGKILL)
        run(prog, "tail", 3)
        r = s.wait()        # nobody is left who could be traced
    assert r.status == 0 and scalar(r.output, "n") == "3" and "are not probed" in r.stderr, r


@patient
def test_stopped(copy):
    """As by Ctrl-Z: they go on without us, and that is said. Also if we hold some of them at that moment."""
    prog = copy("script")
    with Script(f"u:{prog}:tail {{ @n = count() }}") as s:
        s.signal(signal.SIGSTOP)
        for _ in range(3):
            run(prog, "tail", 3)
        s.signal(signal.SIGCONT)
        run(prog, "tail", 3)
        stop = threading.Timer(.05, s.signal, [signal.SIGSTOP])
        stop.start()
        at_once(20, prog, "tail", 3)
        stop.join()
        s.signal(signal.SIGCONT)
        r = s.stop()
    assert r.status == 0 and int(scalar(r.output, "n")) % 3 == 0 and "jab was stopped" in r.stderr, r


def test_output_that_nobody_reads(copy, tmp_path):
    """While we wait to write, nobody waits for us: neither at the door nor half-way to a probe."""
    prog = copy("script")
    text = f'u:{prog}:tail {{ printf("%d {"x" * 200}\\n", arg0) }}'
    with open(tmp_path / "err", "w+") as err:
        p = subprocess.Popen([jab.JAB, "-v", "-e", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        end = time.monotonic() + LIMIT
        while "active" not in Path(err.name).read_text():
            assert time.monotonic() < end and p.poll() is None
            time.sleep(.01)
        for _ in range(3):
            run(prog, "tail", 300)
        at_once(10, prog, "tail", 300)
        probed = Path(err.name).read_text().count("begins to use")
        lines = [p.stdout.readline() for _ in range(300 * probed)]      # all that is written, so that no write is interrupted
        p.send_signal(signal.SIGINT)
        rest = p.communicate(timeout=LIMIT)[0]
        said = Path(err.name).read_text()
    assert p.returncode == 0 and all(lines) and rest == b"\n\n", said
    assert probed == said.count("begins to use") == 13 or "not probed: they would have waited" in said, said


@patient
def test_more_than_can_be_traced(copy):
    if not shutil.which("prlimit"):
        pytest.skip("no prlimit")
    prog = copy("script")
    out = subprocess.Popen(["prlimit", "--nofile=80:80", jab.JAB, "-v", "-e", f"u:{prog}:take {{ @by[pid] = count() }}"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "active" not in out.stderr.readline():
        assert out.poll() is None
    all = [targets.Target("script", command=[str(prog), "serve"]) for _ in range(13)]
    for t in all:
        t.run(5)
    out.send_signal(signal.SIGINT)
    text, said = out.communicate(timeout=LIMIT)
    for t in all:
        t.run(5)
        t.stop()
    in_time(said)
    assert out.returncode == 0 and keyed(text, "by") == {str(t.pid): "5" for t in all[:10]}, (text, said)
    assert "10 processes are traced at a time" in said and "3 processes started and were not probed: too many" in said, said


@patient
def test_traced_by_another(copy):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    prog = copy("script")
    with Script(f"u:{prog}:tail {{ @n = count() }}") as s:
        run("strace", "-f", "-o", "/dev/null", prog, "tail", 3)
        run(prog, "tail", 3)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "3" and "1 processes started and were not probed: another tracer" in r.stderr, r


@patient
def test_ends(copy):
    """exit() of a newcomer, and a time that is given."""
    prog = copy("script")
    with Script(f"u:{prog}:tail /arg0 == 2/ {{ exit() }}") as s:
        run(prog, "tail", 5)
        assert s.wait().status == 0
    r = jab.run("-e", f"u:{prog}:tail {{ @n = count() }}", "-d", ".2")
    assert r.status == 0 and not r.output, r


def test_mistakes(copy):
    prog = copy("script")
    r = jab.run("-e", f"u:{prog}:tial {{ @n = count() }}")
    assert r.status == 1 and "did you mean" in r.stderr and "tail" in r.stderr, r
    r = jab.run("-e", f"u:{prog}:tail {{ @n = count() }}", "--no-follow")
    assert r.status == 1 and "no running process uses" in r.stderr, r
    if shutil.which("setpriv"):
        r = jab.run("-e", f"u:{prog}:tail {{ @n = count() }}", wrap=["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])
        assert r.status == 1 and f"no running process uses {prog}, " in r.stderr and ": only root (CAP_SYS_ADMIN) can" in r.stderr, r


@patient
def test_only_those_that_end_at_once(copy, tmp_path):
    """Who uses the file when we look for users ends before it is probed. Others come."""
    prog = copy("script")
    over = threading.Event()

    def churn():
        while not over.is_set():
            run(prog, "tell", 1)

    crowd = threading.Thread(target=churn)
    crowd.start()
    try:
        for i in range(25):
            out = tmp_path / f"out{i}"
            with open(out, "w") as f:
                p = subprocess.Popen([jab.JAB, "-e", f'uprobe:{prog}:take {{ printf("up\\n"); }}'], stdin=subprocess.DEVNULL, stdout=f,
                                     stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + LIMIT
            while "up" not in out.read_text():
                assert time.monotonic() < end and p.poll() is None, p.communicate()
                time.sleep(.005)
            p.send_signal(signal.SIGINT)
            said = p.communicate(timeout=LIMIT)[1]
            assert p.returncode == 0, said
    finally:
        over.set()
        crowd.join()


def beside_each_other(text, prog, out, args):
    """One tool on newcomers: the same ones for all."""
    with open(out, "w+") as f:
        p = subprocess.Popen([*args, text], stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + LIMIT
        while "up" not in Path(out).read_text():
            assert time.monotonic() < end and p.poll() is None, p.communicate()
            run(prog, "tell", 1)
        for i in range(5):
            run(prog, "tail", 3 + i)
        at_once(5, prog, "tail", 10)
        p.send_signal(signal.SIGINT)
        said = in_time(p.communicate(timeout=LIMIT)[1])
    return sorted(x for x in Path(out).read_text().splitlines() if x.startswith("@")), said


@patient
def test_same_as_bpftrace(copy, tmp_path):
    try:
        why = missing()
    except targets.Missing as e:
        why = str(e)
    if why:
        pytest.skip(why)
    prog = copy("script")
    text = f'uprobe:{prog}:take {{ printf("up\\n"); }} uprobe:{prog}:tail {{ @[comm] = count(); @by[arg0] = count(); @s = sum(arg0); }}'
    theirs, err = beside_each_other(text, prog, tmp_path / "theirs", ["bpftrace", "-e"])
    ours, said = beside_each_other(text, prog, tmp_path / "ours", [jab.JAB, "-e"])
    assert theirs and ours == theirs, f"bpftrace: {theirs}\njab: {ours}\n{err}{said}"
