# SPDX-License-Identifier: MIT
"""Program counters that are saved in odd places, and threads and text of odd kinds: the target comes through."""
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
    kept = 0
    for _ in range(6):
        with jab.Count(t.pid, "exe:work") as c:
            t.run(20000)
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
