# SPDX-License-Identifier: MIT
"""The memory that jab shares with a target: no other process gets at it, and what another process maps under its name changes
nothing but that process."""
import contextlib
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jab
from targets import LIMIT

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user or to unshare")
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]

# Maps what it gets under the name that it gets, as any program may.
FORGER = """
import mmap, os, sys, time
for name in sys.argv[2:]:
    fd = os.memfd_create(name)
    os.write(fd, bytes.fromhex(sys.argv[1]))
    m = mmap.mmap(fd, 8192, mmap.MAP_SHARED)
    os.close(fd)
    globals()[name] = m
print("ready", flush=True)
while True:
    time.sleep(.01)
"""

VERSION = int(re.search(r"#define UNDO_VERSION (\d+)", (jab.ROOT / "src/proc/undo/undo.h").read_text())[1])
HEAD = struct.Struct("<QIIQIIIIQIIIIiIQQQQQQQQQQQ")


def record(edits, tracer=(1, 1, 1)):
    """An undo record as src/proc/undo/undo.h has it. edits: (address, bytes to be put there, bytes that stand there)."""
    room = 4
    head = HEAD.pack(0x6f646e752062616a, VERSION, HEAD.size, 4096, room, 4 * room, HEAD.size, 56, HEAD.size + 56 * room, 16, 1,
                     len(edits), 0, tracer[0], 0, tracer[1], tracer[2], 0, 0, 0, 0, 1, 2, 3, 4, 0)
    body = b"".join(struct.pack("<QQB7x16s16s", at, at, len(old), old, new) for at, old, new in edits)
    return (head + body).ljust(8192, b"\0")


@contextlib.contextmanager
def forger(what, *names):
    p = subprocess.Popen([*AS_NOBODY, sys.executable, "-c", FORGER, what.hex(), *names], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        yield p.pid
        assert p.poll() is None, "the forger died"
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


def arena_name(pid):
    return re.search(r"/memfd:(jab-\S+-[0-9a-f]+) ", "\n".join(jab.maps(pid)))[1]


def memory(pid, at, n):
    with open(f"/proc/{pid}/mem", "rb") as mem:
        mem.seek(at)
        return mem.read(n)


def identity(pid):
    start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return pid, int(start), os.stat(f"/proc/{pid}/ns/pid").st_ino


@needs_root
def test_two_ipc_namespaces(target, built):
    """Two containers, each with a jab: the end of one is nothing to the other."""
    first = target("calls", command=["unshare", "--ipc", built("calls"), "serve", "1"])
    second = target("calls_nonpie", command=["unshare", "--ipc", built("calls_nonpie"), "serve", "1"])
    with jab.Count(first.pid, "exe:work") as a, jab.Count(second.pid, "exe:work") as b:
        first.run(100)
        second.run(100)
        assert a.stop().hits("work") == 100
        assert not jab.leftovers(first.pid)
        assert jab.leftovers(second.pid)
        second.run(200)
        r = b.stop()
        assert (r.status, r.hits("work")) == (0, 300), r
    first.stop()
    second.stop()


@needs_root
@pytest.mark.parametrize("command", [("recover",), ("count", "-d", "0.1", "-p")])
def test_forged_record_of_a_neighbour(target, built, command):
    """A user's process has a record for the text of root's traced daemon, under the name of that one's arena."""
    t = target("calls_nonpie", "serve", 1)
    at = jab.symbols(built("calls_nonpie"))["main"]
    with jab.Count(t.pid, "exe:work") as c:
        t.run(10)
        text, name = jab.text_hash(t.pid), arena_name(t.pid)
        with forger(record([(at, b"\xcc" * 8, memory(t.pid, at, 8))]), name) as pid:
            r = jab.run(*command, pid, *(["libc:clock_nanosleep"] if command[0] == "count" else []))
            assert r.status in (0, 1) and "alive" not in r.stderr, r     # what its record says of its own text is its own affair
        assert jab.text_hash(t.pid) == text
        t.run(10)
        r = c.stop()
        assert (r.status, r.hits("work")) == (0, 20), r
    t.stop()


@needs_root
def test_false_tracer():
    """To name any living process as one's tracer makes no process untraceable."""
    tracer = identity(os.getpid())
    with forger(record([], tracer), "jab-%d-%d-%d-1" % tracer) as pid:
        r = jab.run("count", "-d", "0.1", "-p", pid, "libc:clock_nanosleep")
        assert r.status == 0, r
        assert not jab.leftovers(pid)


def test_zombie_tracer(target):
    """A killed jab that its parent has not waited for is dead."""
    t = target("calls", "serve", 1)
    with jab.Count(t.pid, "exe:work") as c:
        c.process.send_signal(9)
        end = time.monotonic() + LIMIT
        while identity_state(c.process.pid) != "Z" and time.monotonic() < end:
            time.sleep(.005)
        r = jab.run("recover", t.pid)
        assert identity_state(c.process.pid) == "Z"
        assert r.status == 0, r
    assert not jab.leftovers(t.pid)
    t.run(10)
    t.stop()


def identity_state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_living_tracer(target):
    t = target("calls", "serve", 1)
    with jab.Count(t.pid, "exe:work") as c:
        r = jab.run("recover", t.pid)
        assert r.status != 0 and f"jab {c.process.pid}, which is alive" in r.stderr, r
        t.run(10)
        assert c.stop().hits("work") == 10
    t.stop()


def test_nothing_to_open(target):
    """Neither side keeps a descriptor, there is no segment, and nothing is both executable and writable."""
    t = target("calls", "serve", 1)
    with jab.Count(t.pid, "exe:work") as c:
        ours = [x for x in jab.maps(t.pid) if "memfd:jab" in x]
        for pid in (t.pid, c.process.pid):
            assert not [x for x in jab.descriptors(pid).values() if "memfd:jab" in x or "SYSV" in x]
        for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            assert str(c.process.pid) not in line.split()[4:6]
        assert ours and all(("w" in x.split()[1]) == ("-data" in x) for x in ours), ours
        c.stop()
    t.stop()


@pytest.mark.parametrize("forkers", [1, 3])
def test_no_descriptor_gets_out(target, forkers):
    """While jab attaches, other threads fork and open files: no child has a descriptor of ours, and no open() finds one."""
    t = target("openers", forkers)
    for _ in range(int(os.environ.get("JAB_ATTACHES", 30))):
        r = jab.run("count", "-d", "0.01", "-p", t.pid, "exe:work")
        assert r.status == 0, r
    t.run(10)
    t.stop()
