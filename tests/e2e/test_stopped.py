# SPDX-License-Identifier: MIT
"""A target that SIGSTOP keeps from running: probed, counted and left all the same, and still stopped."""
import os
import signal
import time
from pathlib import Path

import pytest

import jab

BUSY = [("spin", [8]), ("storm", [8])]


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def freeze(t):
    """Stopped, as its parent sees it; the parent has taken notice."""
    os.kill(t.pid, signal.SIGSTOP)
    pid, status = os.waitpid(t.pid, os.WUNTRACED)
    assert pid == t.pid and os.WIFSTOPPED(status)
    wait_frozen(t)


def wait_frozen(t):
    """A thread that is let go needs a CPU once more, to lie down in the kernel."""
    end = time.monotonic() + jab.LIMIT
    while {state(f"{t.pid}/task/{x}") for x in os.listdir(f"/proc/{t.pid}/task")} != {"T"}:
        assert time.monotonic() < end, "it does not stop"
        time.sleep(.001)


def assert_frozen(t):
    """All threads, and the parent hears of nothing until the program goes on."""
    wait_frozen(t)
    assert os.waitpid(t.pid, os.WUNTRACED | os.WCONTINUED | os.WNOHANG) == (0, 0)


def thaw(t):
    os.kill(t.pid, signal.SIGCONT)
    pid, status = os.waitpid(t.pid, os.WCONTINUED)
    assert pid == t.pid and os.WIFCONTINUED(status)


@pytest.mark.parametrize("name,args", BUSY)
def test_stopped_before(target, name, args):
    """Its probes come and go while it is stopped."""
    t = target(name, *args)
    t.run(100)
    text = jab.text_hash(t.pid)
    for _ in range(5):
        freeze(t)
        with jab.Count(t.pid, "exe:work", "*:*") as c:
            assert_frozen(t)
            r = c.stop()
        assert r.status == 0 and r.summary["clean"], r
        assert r.hits("work") == 0
        assert_frozen(t)
        assert jab.text_hash(t.pid) == text
        assert not jab.leftovers(t.pid)
        thaw(t)
        t.run(100)
    t.stop()


@pytest.mark.parametrize("name,args", BUSY)
@pytest.mark.parametrize("probes", [["*:*"], ["insn:exe:noise*", "exe:/./%return"]])
def test_stopped_in_the_middle(target, name, args, probes):
    """It stops while probes are hit: threads and handlers stand in pads and can't leave them."""
    t = target(name, *args)
    t.run(100)
    text = jab.text_hash(t.pid)
    for _ in range(5):
        with jab.Count(t.pid, "exe:work", *probes) as c:
            t.run(100)
            freeze(t)
            r = c.stop()
        assert r.status == 0 and r.summary["clean"], r
        assert r.hits("work", "exe:work") == 100, r
        assert_frozen(t)
        assert jab.text_hash(t.pid) == text
        assert not jab.leftovers(t.pid)
        thaw(t)
        t.run(100)
    t.stop()


def test_stopped_for_a_while(target):
    """Stopped and resumed with the probes in: no hit is missed."""
    t = target("storm", 4)
    with jab.Count(t.pid, "exe:work", "exe:*") as c:
        for _ in range(10):
            t.run(100)
            freeze(t)
            thaw(t)
        r = c.stop()
    assert r.status == 0 and r.summary["clean"], r
    assert r.hits("work", "exe:work") == 1000, r
    t.stop()


@pytest.mark.parametrize("name,args", BUSY)
def test_recovered_while_stopped(target, name, args):
    """What a killed tracer left is taken out of a stopped program, too."""
    t = target(name, *args)
    t.run(100)
    text = jab.text_hash(t.pid)
    for _ in range(3):
        with jab.Count(t.pid, "*:*") as c:
            freeze(t)
            c.kill()
        r = jab.run("recover", t.pid)
        assert r.status == 0, r
        assert_frozen(t)
        assert jab.text_hash(t.pid) == text
        assert not jab.leftovers(t.pid)
        thaw(t)
        t.run(100)
    t.stop()
