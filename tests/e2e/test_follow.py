# SPDX-License-Identifier: MIT
"""Programs that a target executes and libraries that it loads are probed before they run; nobody waits for the dead."""
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jab
import traces
from targets import LIMIT

pytestmark = pytest.mark.skipif(not traces.have_babeltrace(), reason="no babeltrace2")

HIT = "hit seq=arg0:long"


def check(path, r):
    assert r.status == 0, r
    expect = traces.told(r)
    events, lost = traces.babeltrace(path)
    assert lost == 0 and r.summary["probes"][0]["recorded"] == len(events), r
    got = {}
    for e in events:
        got[e.pid, e.tid] = got.get((e.pid, e.tid), 0) + 1
    assert got == dict(expect), (got, expect, r)


@pytest.mark.parametrize("rounds", [1, 20])
def test_library_that_comes_and_goes(built, tmp_path, rounds):
    """Also its constructor, which runs before anybody has its handle."""
    r = traces.record(tmp_path / "t", ["liblate:late_hit who=arg0:int"], [built("late"), built("liblate.so"), rounds])
    assert r.status == 0, r
    events, lost = traces.babeltrace(tmp_path / "t")
    assert lost == 0 and len(events) == int(r.stdout) == 3 * rounds, r
    assert [int(e.fields["who"]) for e in events] == [x for i in range(rounds) for x in (-1, i, i)]


def test_library_of_musl(built, tmp_path):
    r = traces.record(tmp_path / "t", ["liblate_musl:late_hit who=arg0:int"],
                      [built("late_musl"), built("liblate_musl.so"), 3])
    assert r.status == 0, r
    events, lost = traces.babeltrace(tmp_path / "t")
    assert lost == 0 and [int(e.fields["who"]) for e in events][:3] == [-1, 0, 0], r


def libc_folder():
    """Named in the environment, the loader does not open its cache, which would show when it is ready."""
    text = Path("/proc/self/maps").read_text()
    return str(Path(next(line.split()[-1] for line in text.splitlines() if line.endswith("/libc.so.6"))).parent)


# With this signal blocked there is no breakpoint in the loader, which is followed by its system calls instead.
BLOCKED = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG]); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.mark.parametrize("libc, cache", [("", True), ("", False), ("_musl", True)], ids=["glibc", "no-cache", "musl"])
@pytest.mark.parametrize("before", [[], ["env"], [sys.executable, "-c", BLOCKED]], ids=["started", "executed", "by-calls"])
def test_constructor_of_a_library(built, tmp_path, libc, cache, before):
    """It runs before the entry point of the program; a command is probed earlier, as a program that is executed is."""
    lib = built(f"liblate{libc}.so")
    env = None if cache else dict(os.environ, LD_LIBRARY_PATH=libc_folder())
    r = traces.record(tmp_path / "t", [f"liblate{libc}:late_hit who=arg0:int"], [*before, built(f"late_linked{libc}"), lib, 1], env=env)
    assert r.status == 0, r
    events, lost = traces.babeltrace(tmp_path / "t")
    assert lost == 0 and [int(e.fields["who"]) for e in events] == [-1, 0, 0], r


def test_pending_signal_of_the_kind_that_the_breakpoint_sends(built, tmp_path):
    """It stays what it was, and none of ours is there."""
    urgent = built("urgent")
    for argv in [urgent, "pending"], ["sh", "-c", f"exec {urgent} handled"]:
        alone = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=LIMIT, check=True)
        r = traces.record(tmp_path / f"t{len(argv)}", ["hit seq=arg0:long"], argv)
        assert r.status == 0 and r.stdout == alone.stdout.rstrip("\n"), (r, alone)
        assert r.summary["probes"][0]["recorded"] == 1, r


def test_flood_of_the_signal_that_the_breakpoint_sends(built, tmp_path):
    """It comes at every moment of the loader's work, also at the breakpoint."""
    r = traces.record(tmp_path / "t", [HIT], [built("urgent"), "flood", 60])
    assert r.status == 0 and r.stdout == "done", r
    events, lost = traces.babeltrace(tmp_path / "t")
    assert lost == 0 and [int(e.fields["seq"]) for e in events] == list(range(60, -1, -1)), r


@pytest.mark.parametrize("name", ["told", "told_static", "told_musl", "told_musl_static"])
def test_program_executed_by_a_shell(built, tmp_path, name):
    told = built(name)
    r = traces.record(tmp_path / "t", [HIT], ["sh", "-c", f"{told} threads 100 2; {told} threads 50 1; exec {told} threads 20 1"])
    check(tmp_path / "t", r)


def test_program_executed_through_others(built, tmp_path):
    told = built("told")
    r = traces.record(tmp_path / "t", [HIT], ["env", "nice", "sh", "-c", f"env env {told} forks 100 3 | cat"])
    check(tmp_path / "t", r)


def test_program_spawned(built, tmp_path):
    """posix_spawn: the exec is made by a child on its parent's memory."""
    script = f"import subprocess; print(subprocess.run(['{built('told')}', 'threads', '100', '2'], capture_output=True, text=True).stdout, end='')"
    r = traces.record(tmp_path / "t", [HIT], ["python3", "-c", script])
    check(tmp_path / "t", r)


def test_program_that_is_changed_in_place(built, tmp_path):
    """The same inode and name, another program: what was known of the first is not used for the second. And one that has not changed
    is one file, whoever executes it, however young it is."""
    prog = tmp_path / "prog"
    text = f"cat {built('told')} >{prog}; chmod +x {prog}; {prog} threads 100 2; {prog} threads 10 1; cat {built('told_static')} >{prog}; " \
           f"{prog} threads 50 1; {prog} threads 20 1"
    r = traces.record(tmp_path / "t", [HIT], ["sh", "-c", text])
    check(tmp_path / "t", r)
    assert "has changed" not in r.stderr, r
    classes = (tmp_path / "t" / "metadata").read_bytes().count(b"prog:hit")
    assert classes == 2, classes


def test_rings_of_a_program_that_is_executed():
    """It takes time to map them, so there are no more than will be used."""
    p = subprocess.run([jab.JAB, "trace", "-v", "-o", "/dev/null", "libc:exit", "--", "sh", "-c", "exec cat /proc/self/maps"],
                       capture_output=True, text=True, timeout=LIMIT, check=True)
    if "by a locked increment" in p.stderr:
        pytest.skip("threads without restartable sequences use other rings")
    shared = [line for line in p.stdout.splitlines() if " rw-s " in line and "/memfd:jab-" in line]
    assert 0 < len(shared) <= os.sysconf("SC_NPROCESSORS_CONF") + 3, p.stdout


def test_exec_that_fails(built, tmp_path):
    """A search along PATH tries many files; none of these attempts costs the program anything."""
    env = dict(os.environ, PATH="/nowhere:/nowhere/else:/tmp:" + os.environ["PATH"])
    r = traces.record(tmp_path / "t", [HIT], ["sh", "-c", f"nosuchprogram; /dev/null; {built('told')} threads 10 1"], env=env)
    check(tmp_path / "t", r)


def test_counts_follow(built):
    """As events do: all that a shell executes is in the table, also of processes that are long gone; and libraries."""
    many = built("many")
    command = ["sh", "-c", f"for i in $(seq 30); do {many}; done"]
    r = jab.count_command(["many:op_*"], command)
    assert r.status == 0 and [r.hits(f"op_{x}") for x in "abc"] == [60] * 3, r
    assert r.probe("many:op_*")["hits"] == 180, r
    r = jab.count_command(["op_a%return"], command)
    assert r.status == 0 and r.hits("op_a") == 60 and r.rows[0]["open"] == 0, r
    r = jab.count_command(["liblate:late_hit"], [built("late"), built("liblate.so"), 3])
    assert r.status == 0 and r.hits("late_hit") == int(r.stdout) == 9, r
    r = jab.count_command(["libc:printf"], command, ["--no-follow"])
    assert r.status == 0 and r.hits("printf") == 0, r
    assert jab.count_command(["libc:printf"], command).hits("printf") == 30


FUNCTIONS = 6000

BIG = """
extern int (*const all[])(void);
int call_all(void) { int n = 0; for (int i = 0; i < %d; i++) n += all[i]() == i; return n; }
""" % FUNCTIONS

LOADS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *lib = dlopen(argv[argc - 1], RTLD_NOW);
	int (*call)(void) = (int (*)(void))dlsym(lib, "call_all");
	printf("%d\\n", call() + call());
	return 0;
}
"""


@pytest.fixture
def large_library(tmp_path):
    """A program, and a library with many functions that it loads."""
    code = "".join(f".globl big{i}\n.type big{i},@function\nbig{i}: mov ${i},%eax\nret\n.size big{i},.-big{i}\n" for i in range(FUNCTIONS))
    table = "".join(f".quad big{i}\n" for i in range(FUNCTIONS))
    (tmp_path / "big.S").write_text(f".text\n{code}.data\n.globl all\nall:\n{table}.section .note.GNU-stack,\"\",@progbits\n")
    (tmp_path / "call.c").write_text(BIG)
    (tmp_path / "loads.c").write_text(LOADS)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", "libbig.so", "big.S", "call.c"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-O1", "-o", "loads", "loads.c", "-ldl"], cwd=tmp_path, check=True)
    return [str(tmp_path / "loads"), str(tmp_path / "libbig.so")]


def test_counters_of_a_large_library_that_comes_later(large_library):
    """There is room for them: none is refused, and each has its own."""
    r = jab.count_command(["libbig:big*"], large_library)
    assert r.status == 0 and int(r.stdout) == 2 * FUNCTIONS and "not probed" not in r.stderr, r
    assert r.probe("libbig:big*")["hits"] == 2 * FUNCTIONS and {row["hits"] for row in r.rows} == {2}, r
    assert len(r.rows) == FUNCTIONS


def test_events_of_a_large_library_that_comes_later(large_library, tmp_path):
    r = traces.record(tmp_path / "t", ["libbig:big*"], large_library)
    assert r.status == 0 and int(r.stdout) == 2 * FUNCTIONS and "not probed" not in r.stderr, r
    summary = r.summary["probes"][0]
    assert summary["recorded"] + summary["lost"] == 2 * FUNCTIONS, r


def crowd(built, tmp_path, n, wrap=()):
    """n processes that execute a program at the same moment, each with three calls."""
    script = f"""
import os
go, gate = os.pipe()
for i in range({n}):
    if not os.fork():
        os.close(gate)
        os.read(go, 1)
        os.execv('{built('told')}', ['told', 'threads', '3', '1'])
os.close(gate)
for i in range({n}):
    os.wait()
"""
    r = traces.record(tmp_path / "t", [HIT], [sys.executable, "-c", script], wrap=wrap)
    assert r.status == 0 and sum(traces.told(r).values()) == 3 * n, r
    return r, r.summary["probes"][0]["recorded"], r.summary.get("not_followed")


def test_programs_executed_at_the_same_time(built, tmp_path):
    r, recorded, passed = crowd(built, tmp_path, 100)
    assert passed is None and recorded == 300, r
    assert "not probed" not in r.stderr, r


def test_programs_beyond_what_can_be_traced_are_counted(built, tmp_path):
    """With few descriptors there are few targets."""
    r, recorded, passed = crowd(built, tmp_path, 60, ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"])
    assert passed["programs"] > 0 and recorded == 3 * (60 - passed["programs"]) > 0, r
    assert f"{passed['programs']} programs were executed and not probed: too many were traced at that time" in r.stderr, r


def test_process_that_the_command_leaves_behind(built, tmp_path):
    """A fork that lives on, as a daemon does, is no longer traced: that is said, and not for a fork that has ended."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    r = traces.record(tmp_path / "t", [HIT], ["sh", "-c", f"(:) & wait; (read x <{gate}) >/dev/null 2>&1 & exit 3"])
    gate.write_text("")
    assert r.status == 3 and r.summary["left_running"] == 1, r
    assert "which the command has started, goes on and is no longer traced" in r.stderr, r


def test_no_follow(built, tmp_path):
    r = traces.record(tmp_path / "t", ["sh:main"], ["sh", "-c", f"{built('told')} threads 10 1"], ["--no-follow"])
    assert r.status in (0, 1), r


def test_tracer_killed_while_somebody_parks(built, tmp_path):
    """A shell that executes programs all the time: whatever the tracer is doing when it dies, the shell goes on."""
    told = built("told")
    for i in range(5):
        p = subprocess.Popen([jab.JAB, "record", "-o", str(tmp_path / f"t{i}"), HIT, "--", "sh", "-c",
                              f"for i in 1 2 3 4 5 6 7 8; do {told} threads 10 1 >/dev/null; done; echo done"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time.sleep(0.1 + 0.13 * i)
        p.kill()
        out, _ = p.communicate(timeout=LIMIT)
        assert out in ("done\n", ""), out	# "": before the shell was let go


def test_tracer_killed_while_loaders_work(built):
    """Breakpoints in loaders go with their tracer: no program that a shell executes notices."""
    dice = random.Random(1)
    for i in range(60):
        shell = subprocess.Popen(["sh", "-c", f"read x; for i in $(seq 40); do {built('urgent')} handled || echo $?; done"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with jab.Count(shell.pid, "libc:exit") as c:
            shell.stdin.write("\n")
            shell.stdin.flush()
            time.sleep(dice.random() * .12)
            c.kill()
        out, _ = shell.communicate(timeout=LIMIT)
        assert out == "pending 0 then 0 came 1\n" * 40 and shell.returncode == 0, (i, out)
