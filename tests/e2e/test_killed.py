# SPDX-License-Identifier: MIT
"""A tracer killed by SIGKILL at any moment: the target goes on, and `jab recover` undoes the rest."""
import os
import random
import subprocess
import sys
import time

import pytest

import jab


def recover(pid):
    r = jab.run("recover", pid)
    assert r.status == 0, r
    return r


def test_killed_while_active(target):
    t = target("calls", "serve", 4)
    t.run(1000)
    jab.settle_threads(t.pid, 1)
    before = jab.snapshot(t.pid)
    with jab.Count(t.pid, "*:*") as c:
        c.kill()
    assert jab.leftovers(t.pid), "killed too late?"
    t.run(1000)                         # goes on with our jumps in it
    jab.settle_threads(t.pid, 1)
    recover(t.pid)
    jab.assert_same(before, t.pid)
    t.run(1000)
    with jab.Count(t.pid, "exe:work") as c:
        t.run(500)
        assert c.stop().hits("work") == 500
    t.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name,args", [("calls", ["serve", 4]), ("spin", [4]), ("storm", [4]), ("blocking", [])])
def test_killed_at_random_moments(target, name, args):
    """From before the first stop until well after the last write, and during removal."""
    dice = random.Random(f"{name} 1")
    t = target(name, *args)
    t.run(100)
    if name == "calls":
        jab.settle_threads(t.pid, 1)
    text = jab.text_hash(t.pid)
    for i in range(25):
        c = jab.Count(t.pid, dice.choice(["exe:*", "*:*", "exe:noise", "libc:*"]), wait=False)
        with c:
            if dice.random() < .4:
                c.active.wait(jab.LIMIT)
                c.process.send_signal(2)        # then it dies while it takes everything out
            time.sleep(dice.random() ** 2 * .08)
            c.kill()
        assert t.alive(), f"round {i}"
        if dice.random() < .5:
            t.run(100)
        recover(t.pid)
        assert not jab.leftovers(t.pid), f"round {i}"
        assert jab.text_hash(t.pid) == text, f"round {i}"
    t.run(100)
    if name == "blocking":
        t.ask("stop")       # a tracer that dies while threads are stopped: the kernel itself makes some
        assert t.process.wait(jab.LIMIT) in (0, 3)      # calls return EINTR. It ends by itself all the same.
    else:
        t.stop()


def test_next_attach_recovers_by_itself(target):
    t = target("calls", "serve", 2)
    t.run(100)
    jab.settle_threads(t.pid, 1)
    before = jab.snapshot(t.pid)
    with jab.Count(t.pid, "exe:*") as c:
        c.kill()
    with jab.Count(t.pid, "exe:work") as c:
        t.run(333)
        jab.settle_threads(t.pid, 1)
        r = c.stop()
    assert r.status == 0, r
    assert r.hits("work") == 333, r
    jab.assert_same(before, t.pid)
    t.stop()


def test_killed_with_forked_children(target):
    """The record is shared with children: recover walks all of them."""
    t = target("forks", 0)
    t.run(10)
    with jab.Count(t.pid, "exe:*") as c:
        child = int(t.ask("hold").split()[1])
        c.kill()
    recover(t.pid)
    assert not jab.leftovers(t.pid)
    assert not jab.leftovers(child)
    assert t.ask("release") == "released 0"
    t.stop()


# Recovery without a pid looks at all processes: here it sees none but the test's own, so that it neither cleans the
# targets of another run on this machine nor stumbles over them.
ALONE = ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--pid", "--fork", "--kill-child", "--mount-proc"]


def run_alone(name):
    """This test in a pid namespace of its own, where that is permitted. False: we are there, or can't be."""
    if "JAB_ALONE" in os.environ or subprocess.run([*ALONE, "true"], capture_output=True, timeout=jab.LIMIT).returncode:
        return False
    p = subprocess.run([*ALONE, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{name}"],
                       env=dict(os.environ, JAB_ALONE="1"), capture_output=True, text=True, timeout=jab.LIMIT * 5)
    assert p.returncode == 0 and "1 passed" in p.stdout, p.stdout + p.stderr
    return True


def test_recover_without_pid_finds_it(target):
    if run_alone("test_recover_without_pid_finds_it"):
        return
    t = target("calls", "serve", 2)
    before = jab.snapshot(t.pid)
    with jab.Count(t.pid, "exe:*") as c:
        c.kill()
    r = jab.run("recover")
    assert r.status == 0, r
    jab.assert_same(before, t.pid)
    t.stop()


# Has a descriptor like those that a killed jab leaves, from the moment it is told to.
SEEMS_LEFT = "import os; input(); os.memfd_create('jab-4194303-1-%d-1' % os.stat('/proc/self/ns/pid').st_ino); print('ready', flush=True); input()"


def test_recover_without_pid_passes_living_jabs_over(target):
    """Another jab may begin to trace a process after it was found; what is left elsewhere is taken out all the same."""
    if run_alone("test_recover_without_pid_passes_living_jabs_over"):
        return
    t = target("calls", "serve", 2)
    traced = subprocess.Popen([sys.executable, "-c", SEEMS_LEFT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with jab.Count(traced.pid, "libc:read", "libc:clock_nanosleep") as living:
        traced.stdin.write("now\n")
        traced.stdin.flush()
        assert traced.stdout.readline() == "ready\n"
        with jab.Count(t.pid, "exe:*") as c:
            c.kill()
        r = jab.run("recover", "-v")
        assert r.status == 0 and r.output.startswith("1 process:") and not jab.leftovers(t.pid), r
        assert f"passed over: process {traced.pid} is traced by jab {living.process.pid}, which is alive" in r.stderr, r
        assert jab.run("recover", traced.pid).status == 1
        assert living.stop().status == 0
    traced.communicate("end\n")
    t.stop()


def test_recover_where_nothing_was_left(target):
    t = target("calls", "serve", 2)
    before = jab.snapshot(t.pid)
    recover(t.pid)
    jab.assert_same(before, t.pid)
    t.stop()


def test_recover_leaves_a_living_tracer_alone(target):
    """Its probes are in use: recover must not pull them out from under it."""
    t = target("calls", "serve", 2)
    with jab.Count(t.pid, "exe:work") as c:
        jab.run("recover", t.pid)
        t.run(50)
        r = c.stop()
    assert r.status == 0, r
    assert r.hits("work") == 50, r
    t.stop()


def test_started_command_outlives_its_tracer(built, tmp_path):
    """Once it runs, a command that we started does not die with us."""
    import subprocess
    fifo, out = tmp_path / "go", tmp_path / "out"
    import os
    os.mkfifo(fifo)
    script = f"echo begun > {out}; read line < {fifo}; {built('calls')} 100 2; echo done >> {out}"
    p = subprocess.Popen([jab.JAB, "count", "-o", "/dev/null", "exe:*", "--", "/bin/sh", "-c", script],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + jab.LIMIT
    while not out.exists() and time.monotonic() < end:
        time.sleep(.01)
    p.kill()
    p.wait()
    with open(fifo, "w") as f:
        f.write("go\n")
    while "done" not in out.read_text() and time.monotonic() < end:
        time.sleep(.01)
    assert out.read_text() == "begun\ndone\n"
