# SPDX-License-Identifier: MIT
"""Targets at the limit of what a process may have: it is used sparingly, or the message names the limit."""
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import jab
from targets import LIMIT


def address_space(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def limit_address_space(pid, spare):
    most = address_space(pid) + spare
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def test_address_space_is_used_sparingly(target):
    """Pads all over libc, with less room than the distance between them."""
    t = target("calls", "serve", 2)
    t.run(100)      # its own threads' stacks are there before the limit is
    limit_address_space(t.pid, 24 << 20)
    before = jab.text_hash(t.pid)
    for _ in range(3):
        with jab.Count(t.pid, "*:*%return") as c:
            t.run(100)
            r = c.stop()
        assert r.status == 0 and r.summary["clean"], r
    assert before == jab.text_hash(t.pid) and not jab.leftovers(t.pid)
    t.stop()


def test_no_address_space_is_told(target):
    t = target("calls", "serve", 2)
    limit_address_space(t.pid, 64 << 10)
    before = jab.snapshot(t.pid)
    r = jab.run("count", "-p", t.pid, "-d", "0.1", "*:*")
    assert r.status == 1 and "ulimit -v" in r.stderr, r
    jab.assert_same(before, t.pid)
    t.stop()


@pytest.mark.parametrize("hard", [100, 3])
def test_no_descriptor_is_left(target, hard):
    """The limit is lifted for the moment in which one is needed. Beyond the hard one that takes CAP_SYS_RESOURCE."""
    t = target("calls", "serve", 2)
    t.run(1)        # its threads have been there
    resource.prlimit(t.pid, resource.RLIMIT_NOFILE, (3, hard))
    before = jab.snapshot(t.pid)
    if hard == 3 and not jab.may_raise_limits():
        r = jab.run("count", "-p", t.pid, "-d", "0.1", "exe:work")
        assert r.status == 1 and "ulimit -n" in r.stderr, r
    else:
        with jab.Count(t.pid, "exe:work") as c:
            assert resource.prlimit(t.pid, resource.RLIMIT_NOFILE) == (3, hard)
            t.run(100)
            assert c.stop().hits("work") == 100
    jab.assert_same(before, t.pid)
    assert resource.prlimit(t.pid, resource.RLIMIT_NOFILE) == (3, hard)
    t.stop()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_another_tracer_came_in_between(target):
    """We can't take our probes out while somebody else holds the process: what to do is told."""
    t = target("calls", "serve", 2)
    before = jab.text_hash(t.pid)
    with jab.Count(t.pid, "exe:*") as c:
        other = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(t.pid)], stderr=subprocess.DEVNULL)
        end = time.monotonic() + LIMIT
        while "TracerPid:\t0\n" in open(f"/proc/{t.pid}/status").read() and time.monotonic() < end:
            time.sleep(0.01)
        t.run(100)
        r = c.stop()
    other.terminate()
    other.wait(LIMIT)
    assert r.status == 1 and "strace" in r.stderr and "jab recover" in r.stderr and not r.summary["clean"], r
    t.run(100)
    r = jab.run("recover", t.pid)
    assert r.status == 0 and "everything is as before" in r.output, r
    assert before == jab.text_hash(t.pid) and not jab.leftovers(t.pid)
    t.stop()


MEMORY_GROUPS = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


@pytest.fixture
def memory_group():
    """memory_group(bytes) -> the directory of a new memory cgroup with that limit."""
    made = []

    def make(limit):
        for top, name in zip(MEMORY_GROUPS, ("memory.limit_in_bytes", "memory.max")):
            group = top / f"jab-test-{os.getpid()}"
            if not (top / "cgroup.procs").exists():
                continue
            try:
                group.mkdir()
                made.append(group)
                (group / name).write_text(str(limit))
            except OSError:
                continue
            return group
        pytest.skip("no memory cgroup can be made here")
    yield make
    for group in made:
        group.rmdir()


def test_a_full_memory_cgroup_is_told(target, memory_group):
    """Copies of libc's text don't fit: refused, where the kernel would kill the target. One page does."""
    group = memory_group(1 << 20)
    t = target("calls", "serve", 2)
    before = jab.snapshot(t.pid)
    (group / "cgroup.procs").write_text(str(t.pid))
    r = jab.run("count", "-p", t.pid, "-d", "0.1", "*:*")
    assert r.status == 1 and "memory cgroup" in r.stderr, r
    jab.assert_same(before, t.pid)
    r = jab.run("count", "-p", t.pid, "-d", "0.1", "exe:*")
    assert r.status == 0, r
    jab.assert_same(before, t.pid)
    t.stop()
    t.process.wait(LIMIT)


def test_a_program_that_is_executed_in_another_memory_cgroup(target, memory_group):
    """That the group of the last one has no limit says nothing of this one's."""
    group = memory_group(1 << 20)
    shell = 'for i in 1 2 3; do /bin/true; done; /bin/true; echo $$ > "$0"/cgroup.procs; exec /bin/echo lives'
    r = jab.run("count", "-v", "libc:*", "--", "/bin/sh", "-c", shell, str(group))
    assert "lives" in r.output and "limit of its memory cgroup" in r.stderr, r


@pytest.mark.parametrize("script", [
    "call:exe:work { @ = hist(duration) }",
    'config = { max_strlen = 60000 } u:exe:work { printf("%s", str(arg0)) }'])
def test_what_scripts_keep_in_a_small_memory_cgroup(target, memory_group, script):
    """Calls that are open and text in the making are in memory of the target's own: refused where that would kill it."""
    group = memory_group(512 << 10)
    t = target("calls", "serve", 2)
    t.run(100)
    before = jab.snapshot(t.pid)
    (group / "cgroup.procs").write_text(str(t.pid))
    r = jab.run("-p", t.pid, "-d", "0.1", "-e", script)
    assert r.status == 1 and "memory cgroup" in r.stderr, r
    jab.assert_same(before, t.pid)
    t.stop()
    t.process.wait(LIMIT)


def test_our_own_memory_cgroup_is_that_of_the_target(target, memory_group):
    """As in a container. The shared memory is ours, but the kernel would kill whoever is the largest."""
    group = memory_group(32 << 20)
    t = target("calls", "serve", 2)
    before = jab.snapshot(t.pid)
    (group / "cgroup.procs").write_text(str(t.pid))
    inside = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs; exec "$@"', str(group)]
    r = jab.run("-p", t.pid, "-d", "0.1", "-e", "let @k = hash(1000000); u:exe:work { @k[arg0] = count() }", wrap=inside)
    assert r.status == 1 and "our memory cgroup may take only" in r.stderr, r
    jab.assert_same(before, t.pid)
    r = jab.run("-p", t.pid, "-d", "0.1", "--buffer-size", "64k", "-e", "u:exe:work { @ = count() }", wrap=inside)
    assert r.status == 0, r
    jab.assert_same(before, t.pid)
    t.stop()
    t.process.wait(LIMIT)


def test_a_program_that_maps_all_the_time(target):
    """Places are taken between planning and mapping: plan again, as often as need be."""
    t = target("mapper", 4)
    for _ in range(12):
        with jab.Count(t.pid, "exe:work", "*:*") as c:
            t.run(1000)
            r = c.stop()
        assert r.status == 0, r
        assert r.probe("exe:work")["hits"] == 1000, r
    assert not jab.leftovers(t.pid)
    t.stop()
