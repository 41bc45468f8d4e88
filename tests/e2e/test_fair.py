# SPDX-License-Identifier: MIT
"""What waits for whom: no target keeps jab from its other work, and no program waits for a jab that is stopped, frozen or flooded."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

import jab
import scripts
from targets import LIMIT
from test_newcomers import copy, doormen, patient, run, Script     # noqa: F401
from test_everywhere import AS_NOBODY, can_suspend_seccomp, public_jab, set_user_id    # noqa: F401

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# --- forged requests ---

@contextlib.contextmanager
def forger(built, victim):
    with subprocess.Popen([str(built("forger")), "steal", str(victim)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        try:
            yield p
        finally:
            p.kill()


def wait_for(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(.005)


def test_requests_of_a_thread_that_never_sleeps(built, tmp_path):
    """They are dropped, their target is no longer followed, and the programs of another one are followed in the meantime."""
    told = built("told")
    os.mkfifo(tmp_path / "fifo")
    text = (f"exec 3<>{tmp_path}/fifo; {built('forger')} spin >&3 & read first <&3; {told} threads 100 2; {told} threads 50 1; "
            "read then <&3; kill $!; echo $first $then")
    r = jab.run("trace", "-o", tmp_path / "out", "hit", "--", "sh", "-c", text)
    calls = [int(x.split()[2]) for x in r.output.splitlines() if x[0].isdigit()]
    assert r.status == 0 and r.output.endswith("found closed\n") and r.stderr.count("are no longer followed") == 1, r
    assert sum(calls) == 250 and len(re.findall(r"\bhit\b", (tmp_path / "out").read_text())) >= 250, (r, calls)


def tracer_of(pid):
    return int(re.search(r"TracerPid:\t(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def test_request_in_the_name_of_another_process(built):
    """A number that is not of its own threads: the other process is not touched."""
    victim = subprocess.Popen([str(built("forger")), "wait"])
    try:
        with forger(built, victim.pid) as p, scripts.Script("u:work { @w = count(); }", p.pid) as s:
            seen = set()
            said = threading.Thread(target=p.stdout.read, daemon=True)
            assert p.stdout.readline() == "found\n"
            said.start()
            while said.is_alive() and not any("no longer followed" in x for x in s.stderr):
                seen.add(tracer_of(victim.pid))
                time.sleep(.0005)
            r = s.stop()
        assert r.status == 0 and seen == {0} and "no longer followed" in r.stderr, (r, seen)
    finally:
        victim.kill()
        victim.wait()


def test_a_child_says_that_the_dead_tracer_lives(target):
    """Whoever parks goes on when the tracer has died, whatever a child writes into the memory that it shares; so does its removal."""
    t = target("liar")
    p = subprocess.Popen([jab.JAB, "trace", "-v", "--buffer-size", "64k", "-o", "/dev/null", "-p", str(t.pid), "exe:work", "libm:cos"],
                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    next(x for x in iter(p.stderr.readline, "") if "active:" in x)
    said = int(t.ask("lie"))
    p.kill()
    p.wait()
    time.sleep(3)           # longer than a thread parks at most
    longest = int(t.ask("longest"))
    r = jab.run("recover", t.pid)
    assert r.status == 0 and longest < 1500, (longest, said, r)
    t.stop()


# --- the doorman ---

@needs_root
@patient
def test_doorman_is_stopped(copy):      # noqa: F811
    """It is continued, so that who waits goes on and is probed."""
    prog = copy("script")
    with Script(f"u:{prog}:tail {{ @n = count() }}") as s:
        doorman, = doormen(s.process.pid)
        for _ in range(3):
            os.kill(doorman, signal.SIGSTOP)
            run(prog, "tail", 3)
        r = s.stop()
    assert r.status == 0 and scripts.scalar(r.output, "n") == "9", r


class Frozen:
    """A control group whose processes can be frozen."""

    def __init__(self):
        self.old = Path("/sys/fs/cgroup/freezer")
        top = self.old if self.old.is_dir() else Path("/sys/fs/cgroup")
        try:
            self.dir = Path(tempfile.mkdtemp(prefix="jabtest.", dir=top))
        except OSError as e:
            pytest.skip(f"no control groups here: {e}")
        self.is_old = top == self.old
        if not (self.dir / ("freezer.state" if self.is_old else "cgroup.freeze")).exists():
            self.dir.rmdir()
            pytest.skip("no freezer here")

    def add(self, pid):
        (self.dir / "cgroup.procs").write_text(str(pid))

    def freeze(self, on):
        if self.is_old:
            (self.dir / "freezer.state").write_text("FROZEN" if on else "THAWED")
            wait_for(lambda: (self.dir / "freezer.state").read_text().strip() == ("FROZEN" if on else "THAWED"), "no change")
        else:
            (self.dir / "cgroup.freeze").write_text(str(int(on)))
            wait_for(lambda: f"frozen {int(on)}" in (self.dir / "cgroup.events").read_text(), "no change")

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.freeze(False)
        wait_for(lambda: not (self.dir / "cgroup.procs").read_text(), "processes are left")
        self.dir.rmdir()


def runs(prog):
    """Without a limit of our own, a program that hangs in its exec would keep the test."""
    p = subprocess.Popen(["sh", "-c", f"exec {prog} tail 3"], stdout=subprocess.DEVNULL)
    try:
        return p.wait(30) == 0
    except subprocess.TimeoutExpired:
        p.kill()
        return False


@needs_root
def test_doorman_is_frozen(copy):       # noqa: F811
    """The tracer answers in its place, and says that it goes on without newcomers."""
    prog = copy("script")
    with Frozen() as group:
        with scripts.Script(f"u:{prog}:tail {{ @n = count() }}") as s:
            doorman, = doormen(s.process.pid)
            group.add(doorman)
            group.freeze(True)
            first, second = runs(prog), runs(prog)
            r = s.wait()
            group.freeze(False)
    assert first and second and r.status == 0 and "those that start from now on are not probed" in r.stderr, r


@needs_root
def test_all_is_frozen(copy):           # noqa: F811
    """The control group in which jab was started: the doorman is not in it any more, and lets everybody go."""
    prog = copy("script")
    with Frozen() as group:
        enter = ["sh", "-c", 'echo 0 > "$0"; exec "$@"', str(group.dir / "cgroup.procs")]
        with open(prog.parent / "err", "w+") as err:
            p = subprocess.Popen([*enter, jab.JAB, "-v", "-e", f"u:{prog}:tail {{ @n = count() }}"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=err, text=True)
            wait_for(lambda: "active" in Path(err.name).read_text() or p.poll() is not None, "not active")
            group.freeze(True)
            while_frozen = runs(prog)
            group.freeze(False)
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=LIMIT)
    assert while_frozen and p.returncode == 0


@needs_root
def test_more_of_a_user_than_may_wait(copy):    # noqa: F811
    """They all run, and each is probed or counted as one that is not."""
    prog = copy("script")
    os.chmod(prog, 0o755)
    flood = f"for i in $(seq 150); do {prog} tail 1 & done; wait"
    for _ in range(10):     # on a busy machine all 150 may have been let go before the first one is probed
        with scripts.Script(f"u:{prog}:tail {{ @n = count() }}") as s:
            run("sh", "-c", flood)
            r = s.stop()
        probed = int((re.search(r"jab: (\d+) processes started meanwhile", r.stderr) or [0, 0])[1])
        others = sum(map(int, re.findall(r"jab: (\d+) processes started and were not probed", r.stderr)))
        assert r.status == 0 and probed + others >= 150, r
        assert not probed or scripts.scalar(r.output, "n") == str(probed), r
        if probed:
            return
    assert False, r


# --- what must not be followed ---

@needs_root
def test_set_user_id_programs_are_not_followed_without_root(public_jab):      # noqa: F811
    """`trace` follows what a target executes; under a tracer without privilege such a program would lose its own."""
    program = set_user_id(public_jab, "return geteuid() != 0;")
    out = public_jab / "out"
    p = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "trace", "-o", "/dev/null", "main", "--", "sh", "-c",
                        f"bad=0; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {program} || bad=$((bad + 1)); done; echo bad $bad"],
                       capture_output=True, text=True, timeout=LIMIT)
    assert p.stdout == "bad 0\n" and p.stderr.count("has privileges that it would lose under a tracer: not followed") == 12, (p, out)


@pytest.mark.parametrize("when", [[], ["late"]])
def test_nobody_parks_under_a_filter(built, when):
    """The filter kills whoever makes a system call that a parked thread makes; then a library is loaded."""
    if not can_suspend_seccomp():
        pytest.skip("this kernel does not let seccomp be suspended")
    p = subprocess.Popen([str(built("forbids")), str(built("liblate.so")), *when], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    with scripts.Script("u:work { @n = count(); }", p.pid) as s:
        out, _ = p.communicate("go\n", timeout=LIMIT)
        r = s.wait()
    assert p.returncode == 0 and out == "loaded\n" and r.status == 0 and scripts.scalar(r.output, "n") == "1000", (p.returncode, out, r)

    p = subprocess.Popen([str(built("forbids")), str(built("liblate.so")), *when], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    with jab.Count(p.pid, "exe:work") as c:
        out, _ = p.communicate("go\n", timeout=LIMIT)
        r = c.wait()
    assert p.returncode == 0 and out == "loaded\n" and r.hits("work") == 1000, (p.returncode, out, r)


def test_go_function_that_begins_again_counts_once(built):
    if not shutil.which("go"):
        pytest.skip("no go")
    r = jab.count_command(["exe:main.descend"], [built("deep"), 200])
    assert r.status == 0 and r.hits("main.descend") == int(r.stdout.split()[0]) == 40200, r
