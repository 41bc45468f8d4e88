# SPDX-License-Identifier: MIT
"""Clean: after a detach everything is as before, and jab says that it looked."""
import random
import signal
import time

import pytest

import jab


def warmed(target, *args):
    """A target whose own mappings don't change any more, and what it looks like."""
    t = target(*args)
    t.run(1000)
    jab.settle_threads(t.pid, 1)
    t.run(1000)
    jab.settle_threads(t.pid, 1)
    return t, jab.snapshot(t.pid)


@pytest.mark.parametrize("probes", [["exe:work"], ["exe:*"], ["libc:*"], ["*:*"], ["insn:exe:*"],
                                    ["exe:*", "exe:/./%return"]])
def test_nothing_is_left(target, probes):
    t, before = warmed(target, "calls", "serve", 4)
    with jab.Count(t.pid, *probes) as c:
        assert jab.leftovers(t.pid), "nothing of ours is there while probes are active?"
        t.run(1000)
        jab.settle_threads(t.pid, 1)
        r = c.stop()
    assert r.status == 0, r
    assert r.summary["clean"] is True, r
    jab.assert_same(before, t.pid)
    t.run(1000)
    t.stop()


def test_nothing_is_writable_and_executable(target):
    t, _ = warmed(target, "calls", "serve", 2)
    with jab.Count(t.pid, "*:*") as c:
        assert not [x for x in jab.maps(t.pid) if "w" in x.split()[1] and "x" in x.split()[1]]
        assert c.stop().status == 0
    t.stop()


def test_idle_target_that_is_asleep_in_a_call(target):
    """No thread comes by to help: the detach must not need one."""
    t, before = warmed(target, "calls", "serve", 4)
    for _ in range(5):
        with jab.Count(t.pid, "*:*") as c:
            r = c.stop()
        assert r.status == 0 and r.summary["clean"] is True, r
        jab.assert_same(before, t.pid)
    t.stop()


def test_many_threads_asleep(target):
    """Threads of the blocking target sleep in fifty system calls; their stacks hold our code nowhere."""
    t = target("blocking")
    before = jab.snapshot(t.pid)
    with jab.Count(t.pid, "*:*") as c:
        r = c.stop()
    assert r.status == 0 and r.summary["clean"] is True, r
    after = jab.snapshot(t.pid)
    assert before["text"] == after["text"] and before["maps"] == after["maps"], jab.differences(before, after)
    assert set(before["threads"]) == set(after["threads"])
    t.stop()


def test_signal_handlers_and_masks_stay(target):
    """The storm target has handlers on alternate stacks, and signals all the time."""
    t = target("storm", 4)
    t.run(1000)
    caught = {x["SigCgt"] for x in jab.thread_status(t.pid).values()}
    with jab.Count(t.pid, "*:*") as c:
        t.run(1000)
        r = c.stop()
    assert r.status == 0 and r.summary["clean"] is True, r
    assert {x["SigCgt"] for x in jab.thread_status(t.pid).values()} == caught
    assert not jab.leftovers(t.pid)
    t.stop()


def test_a_forked_child_that_lives_on_is_cleaned_too(target):
    t = target("forks", 0)
    t.run(10)
    with jab.Count(t.pid, "exe:*") as c:
        child = int(t.ask("hold").split()[1])
        r = c.stop()
    assert r.status == 0 and r.summary["clean"] is True, r
    parent_text = {k.split()[-1]: v for k, v in jab.text_hash(t.pid).items()}
    child_text = {k.split()[-1]: v for k, v in jab.text_hash(child).items()}
    assert not jab.leftovers(t.pid)
    assert not jab.leftovers(child)
    assert parent_text == child_text
    assert t.ask("release") == "released 0"
    t.stop()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_every_polite_signal_takes_everything_out(target, how):
    t, before = warmed(target, "calls", "serve", 2)
    with jab.Count(t.pid, "exe:*") as c:
        t.run(100)
        jab.settle_threads(t.pid, 1)
        c.process.send_signal(how)
        r = c.wait()
    if how == signal.SIGINT:
        assert r.status == 0 and r.hits("work") == 100, r
    jab.assert_same(before, t.pid)
    t.stop()


def test_under_nohup(target):
    """Who has SIGHUP ignored from the start goes on when the terminal is closed."""
    t = target("calls", "serve", 1)
    was = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with jab.Count(t.pid, "exe:work") as c:
            c.process.send_signal(signal.SIGHUP)
            t.run(100)
            r = c.stop()
    finally:
        signal.signal(signal.SIGHUP, was)
    assert r.status == 0 and r.hits("work") == 100, r
    t.stop()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("name,args", [("calls", ["serve", 2]), ("spin", [2]), ("forks", [2])])
def test_polite_signals_at_any_moment(target, name, args, how):
    """From before its first look at the target until it is done, sometimes twice: it ends by itself and leaves nothing."""
    dice = random.Random(f"{name} {how}")
    t = target(name, *args)
    t.run(100)
    begin = time.monotonic()
    with jab.Count(t.pid, "*:*") as c:
        while_active = time.monotonic() - begin
        c.stop()
    text = jab.text_hash(t.pid)
    for i in range(10):
        with jab.Count(t.pid, dice.choice(["exe:*", "*:*"]), wait=False) as c:
            time.sleep(dice.random() * while_active * 1.2)
            c.process.send_signal(how)
            if dice.random() < .3:
                time.sleep(dice.random() * .02)
                c.process.send_signal(how)
            c.wait()
        assert t.alive() and not jab.leftovers(t.pid), f"round {i}"
        assert jab.text_hash(t.pid) == text, f"round {i}"
    t.run(100)
    t.stop()


def test_two_hundred_threads(target):
    """Most of them asleep: two hundred that spin leave too little of a small machine."""
    t = target("spin", 200)
    assert t.ask("sleep") == "sleep"
    t.run(200)
    text = jab.text_hash(t.pid)
    for _ in range(2):
        with jab.Count(t.pid, "exe:work", "*:*", "exe:*%return") as c:
            t.run(20000)
            r = c.stop()
        assert r.status == 0 and r.summary["clean"] is True, r
        assert r.probe("exe:work")["hits"] == 20000, r
        assert jab.text_hash(t.pid) == text
    t.run(200)
    t.stop()


def test_duration_ends_it(target):
    t, before = warmed(target, "calls", "serve", 2)
    r = jab.run("count", "--json", "-p", t.pid, "-d", "0.5", "exe:work")
    assert r.status == 0 and r.summary["clean"] is True, r
    jab.assert_same(before, t.pid)
    t.stop()


def test_target_that_ends_while_probed(target):
    """Its last counts are still told, and it ends as it would have."""
    t = target("calls", "serve", 4)
    with jab.Count(t.pid, "exe:work") as c:
        t.run(12345)
        t.stop()
        r = c.wait()
    assert r.status == 0, r
    assert r.hits("work") == 12345, r


def test_target_that_is_killed_while_probed(target):
    t = target("spin", 4)
    with jab.Count(t.pid, "*:*") as c:
        t.process.kill()
        r = c.wait()
    assert r.status in (0, 1), r
    assert r.summary is not None, r


def test_target_that_executes_another_program(built):
    """The new image is not the one that was probed; it must start and end normally."""
    script = f"{built('calls')} 1000 2; exec {built('calls')} 7 1"
    r = jab.count_command(["*:*"], ["/bin/sh", "-c", script])
    assert r.status == 0, r
    assert r.stdout == "1000\n7\n"
