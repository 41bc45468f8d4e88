# SPDX-License-Identifier: MIT
"""Program counters that are saved in odd places, and threads and text of odd kinds: the target comes through."""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jab


def test_preempted_user_level_threads(target):
    """They are interrupted in pads and windows, and their frames are on stacks that no thread uses: found and led out."""
    t = target("preempt", 12)
    t.run(1000)
    text = jab.text_hash(t.pid)
    for _ in range(8):
        with jab.Count(t.pid, "exe:work") as c:
            t.run(5000000)
            r = c.stop()
        assert r.status == 0 and r.summary["clean"], r
        assert r.hits("work") >= 5000000, r
        assert jab.text_hash(t.pid) == text
        assert not jab.leftovers(t.pid)
        t.run(5000000)
    t.stop()


def test_preempted_while_jab_comes_and_goes(target):
    """The same with a program that goes on switching during attach and detach."""
    t = target("preempt", 8)
    for _ in range(8):
        t.process.stdin.write("run 30000000\n")
        t.process.stdin.flush()
        for _ in range(2):
            r = jab.run("count", "--json", "-p", str(t.pid), "-d", "0.02", "exe:work", "insn:exe:body")
            assert r.status == 0, r
        assert t.line() == "done 30000000"
    t.stop()


def test_preempted_inside_the_bytes_that_are_replaced(target):
    """Its saved program counter, on a stack of no thread, is led into the pad and back."""
    t = target("midway")
    t.run(3)
    text = jab.text_hash(t.pid)
    for _ in range(3):
        with jab.Count(t.pid, "exe:spot") as c:
            t.run(5)
            r = c.stop()
        assert r.status == 0 and r.summary["clean"] and r.hits("spot") == 5, r     # the first of them had begun before
        assert jab.text_hash(t.pid) == text and not jab.leftovers(t.pid)
        t.run(5)
    t.stop()


@pytest.mark.parametrize("how", ["restorer", "nested"])
def test_odd_signal_frames(target, how):
    """A handler that is held when jab leaves comes back to the program, whatever its frame looks like."""
    t = target("frames", how)
    text = jab.text_hash(t.pid)
    for _ in range(12):
        with jab.Count(t.pid, "exe:work") as c:
            t.run(20000)
            assert t.ask("hold") == "held"
            r = c.stop()
        assert r.status == 0 and r.summary["clean"], r
        assert jab.text_hash(t.pid) == text
        assert not jab.leftovers(t.pid)
        assert t.ask("go") == "gone"
        t.run(1000)
    t.stop()


def test_copied_registers_keep_the_arena(target):
    """A handler's copy of interrupted registers can't be finished for the program: the arena stays until it is used."""
    t = target("frames", "copied")
    text = jab.text_hash(t.pid)
    kept = tries = 0
    while tries < 6 or (not kept and tries < 200):      # it is by chance that a signal finds it in a pad
        tries += 1
        with jab.Count(t.pid, "exe:work") as c:
            t.run(2000)
            assert t.ask("hold") == "held"
            r = c.stop()
        assert r.status == 0, r
        assert bool(jab.leftovers(t.pid)) == (not r.summary["clean"])
        kept += not r.summary["clean"]
        assert t.ask("go") == "gone"
        t.run(1000)
        r = jab.run("recover", "-v", str(t.pid))
        assert r.status == 0 and not jab.leftovers(t.pid), r
        assert jab.text_hash(t.pid) == text
    assert kept, "the program was never interrupted in a pad"
    t.stop()


@pytest.mark.parametrize("probe", ["insn:exe:bump", "exe:bump", "exe:bump%return"])
def test_own_sequence_without_a_descriptor(target, probe):
    """A restartable sequence that only its signature shows: nothing is placed in its function, and it stays exact."""
    t = target("rseqown")
    t.run(40000)
    r = jab.run("count", "--json", "-p", str(t.pid), "-d", "0.1", probe)
    assert r.status != 0 and "can't be placed" in r.stderr, r
    r = jab.run("check", "-p", str(t.pid), probe)
    assert "restartable sequence of the program whose bounds are not known" in r.output + r.stderr, r
    t.run(400000)
    with jab.Count(t.pid, "exe:loop") as c:
        t.run(400000)
        assert c.stop().hits("loop") == 4
    t.stop()


@pytest.mark.parametrize("how", ["w", "r"])
def test_shared_text(built, target, tmp_path, how):
    """Code that is mapped shared is refused: its file is never written to. The rest of the program can be probed."""
    lib = tmp_path / "libsharedtext.so"
    shutil.copy(built("libsharedtext.so"), lib)
    before = lib.read_bytes()
    t = target("sharedtext", lib, how)
    r = jab.run("count", "--json", "-p", str(t.pid), "-d", "0.1", "libsharedtext.so:in_library")
    assert r.status != 0 and "is mapped shared" in r.stderr, r
    with jab.Count(t.pid, "*:work", "exe:work") as c:
        t.run(1000)
        assert lib.read_bytes() == before
        r = c.stop()
    assert r.hits("work", "exe:work") == 1000 and r.summary["clean"], r
    assert "its functions are left out" in r.stderr, r
    assert lib.read_bytes() == before
    t.stop()


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def freezer():
    """A freezer (version 1): a thread in it is in an uninterruptible sleep."""
    group = FREEZER / f"jab-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"no freezer: {e}")

    def freeze(tid):
        (group / "tasks").write_text(str(tid))
        (group / "freezer.state").write_text("FROZEN")
        while (group / "freezer.state").read_text() != "FROZEN\n":
            time.sleep(.001)

    freeze.thaw = lambda: (group / "freezer.state").write_text("THAWED")
    yield freeze
    freeze.thaw()
    for tid in (group / "tasks").read_text().split():
        try:
            (FREEZER / "tasks").write_text(tid)
        except ProcessLookupError:
            pass
    group.rmdir()


def test_uninterruptible_sleep(target, freezer):
    """The other threads go on meanwhile, when jab comes and when it goes; then it works."""
    t = target("pauses")
    tid = int(t.ask("tid"))
    freezer(tid)
    t.ask("longest")
    r = jab.run("count", "--json", "-p", str(t.pid), "-d", "0.1", "exe:work")
    assert r.status != 0 and "uninterruptible sleep" in r.stderr, r
    # Two seconds without the handling; a machine with much other work adds its own pauses.
    assert int(t.ask("longest")) < 1800000
    freezer.thaw()
    with jab.Count(t.pid, "exe:work") as c:
        t.run(1000)
        freezer(tid)
        t.ask("longest")
        c.process.send_signal(2)
        time.sleep(.1)
        t.run(1000)
        freezer.thaw()
        r = c.wait()
    assert r.status == 0 and r.summary["clean"], r
    assert int(t.ask("longest")) < 1800000
    t.run(1000)
    t.stop()


def longest_stop(pid, tid, while_runs):
    """Seconds that a thread stood for a tracer at a time."""
    longest, since = 0, None
    while while_runs.poll() is None:
        state = Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[0]
        since = (since or time.monotonic()) if state == "t" else None
        longest = max(longest, time.monotonic() - since if since else 0)
        time.sleep(.002)
    return longest


def test_who_stops_late_is_not_held_for_a_sleeper(target, freezer):
    """A thread without a CPU stops only after jab has given up for now. It is let go then, not when jab ends."""
    t = target("pauses")
    busy, cpu = max(map(int, os.listdir(f"/proc/{t.pid}/task"))), max(os.sched_getaffinity(0))
    freezer(int(t.ask("tid")))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        for x in (busy, *(p.pid for p in others)):
            os.sched_setaffinity(x, {cpu})
        os.setpriority(os.PRIO_PROCESS, busy, 5)
        longest = 0
        for _ in range(4):
            p = subprocess.Popen([jab.JAB, "count", "-p", str(t.pid), "-d", "0.1", "exe:work"], stderr=subprocess.PIPE, text=True)
            longest = max(longest, longest_stop(t.pid, busy, p))
            said = p.stderr.read()
            assert p.returncode and "uninterruptible sleep" in said, said
    finally:
        for p in others:
            p.kill()
            p.wait()
    assert longest < 1, f"{longest} s"
    freezer.thaw()
    t.stop()


@pytest.fixture
def freezer2():
    """A control group of version 2: what is frozen there can be stopped by a tracer, and makes no system call."""
    top = next((x for x in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (x / "cgroup.procs").exists()), None)
    if not top:
        pytest.skip("no control groups of version 2")
    group = top / f"jab-test-{os.getpid()}"
    group.mkdir()

    def freeze(pid, on):
        (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text(str(int(on)))
        while f"frozen {int(on)}" not in (group / "cgroup.events").read_text():
            time.sleep(.001)

    yield freeze
    (group / "cgroup.freeze").write_text("0")
    for pid in (group / "cgroup.procs").read_text().split():
        (top / "cgroup.procs").write_text(pid)
    group.rmdir()


def test_frozen(target, freezer2):
    """Frozen as a whole: refused when jab comes, waited for when it goes."""
    t = target("spin", 2)
    freezer2(t.pid, True)
    r = jab.run("count", "-p", str(t.pid), "-d", "0.1", "exe:work")
    assert r.status != 0 and "is the process frozen?" in r.stderr, r
    freezer2(t.pid, False)
    t.run(1000)
    with jab.Count(t.pid, "exe:work") as c:
        t.run(1000)
        freezer2(t.pid, True)
        c.process.send_signal(2)
        time.sleep(.1)
        freezer2(t.pid, False)
        r = c.wait()
    assert r.status == 0 and r.hits("work", "exe:work") == 1000 and r.summary["clean"], r
    t.run(1000)
    t.stop()
