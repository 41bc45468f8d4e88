# SPDX-License-Identifier: MIT
"""Readers that are slow or stopped, limits, crashes, small memory: the program never waits, and what is lost is said."""
import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

import jab
import traces
from targets import LIMIT
from test_record import Recorder, counts

pytestmark = pytest.mark.skipif(not traces.have_babeltrace(), reason="no babeltrace2")

PROBE = "exe:work x=arg0:u64"


def bytes_in(fd):
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]


@pytest.fixture
def stalled(target):
    """A program that is recorded into a pipe that nobody reads: (target, recorder, read end)."""
    t = target("calls", "serve", 1)
    r, w = os.pipe()
    p = subprocess.Popen([jab.JAB, "record", "-v", "--json", "--buffer-size", "64k", "-o", f"fd:{w}", "-p", str(t.pid), PROBE],
                         pass_fds=[w], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.close(w)
    for line in p.stderr:
        if line.startswith("jab: active:"):
            break
    n = same = before = 0
    while same < 10 and n < 20000000:	# until nothing goes in any more
        t.run(20000)	# it comes back, whoever reads
        n += 20000
        time.sleep(.02)
        now = bytes_in(r)
        same = same + 1 if now == before > fcntl.fcntl(r, fcntl.F_GETPIPE_SZ) // 2 else 0
        before = now
    t.run(300000)
    yield t, p, r, n + 300000
    if p.poll() is None:
        p.kill()
    p.communicate()
    t.stop()


def wait_until_out(pid):
    end = time.monotonic() + LIMIT
    while jab.leftovers(pid) and time.monotonic() < end:
        time.sleep(.01)
    assert not jab.leftovers(pid)


def test_stopped_reader(stalled, tmp_path):
    """Ctrl-C takes the probes out, though nobody reads; what was taken then comes out whole, with the losses."""
    t, p, r, n = stalled
    p.send_signal(signal.SIGINT)
    wait_until_out(t.pid)
    t.run(1000)
    assert p.poll() is None
    subprocess.run(["tar", "x", "-C", tmp_path], stdin=r, check=True, timeout=LIMIT)
    os.close(r)
    out, err = p.communicate(timeout=LIMIT)
    assert p.returncode == 0, err
    probe = jab.Result(0, out, err).summary["probes"][0]
    assert probe["hits"] == n == probe["recorded"] + probe["lost"] and probe["lost"] > 0, probe
    assert f"{probe['lost']} events were lost" in err
    assert counts(tmp_path) == (probe["recorded"], probe["lost"])


def test_stopped_reader_twice_interrupted(stalled):
    t, p, r, n = stalled
    p.send_signal(signal.SIGINT)
    wait_until_out(t.pid)
    end = time.monotonic() + LIMIT
    while p.poll() is None and time.monotonic() < end:	# the second one may come before it waits for the reader
        p.send_signal(signal.SIGINT)
        time.sleep(.05)
    assert p.poll() == 1
    os.close(r)


def test_limit_of_file_size(built, target, tmp_path):
    """Ours: the files of the trace stay below it, and shared memory is no file. The program's own: no business of ours."""
    hard = 1 << 20 if jab.may_raise_limits() else resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))   # noqa: E731
    r = jab.run("record", "--buffer-size", "16M", "-o", tmp_path / "s", PROBE, "--", built("calls"), 100000, 1, preexec_fn=small)
    assert r.status == 0, r
    assert sum(counts(tmp_path / "s")) == 100000
    t = target("calls", "serve", 1, preexec_fn=small)
    rec = Recorder(t.pid, "-o", tmp_path / "t", PROBE)
    t.run(100000)
    assert rec.stop().status == 0
    assert sum(counts(tmp_path / "t")) == 100000
    t.stop()


def test_device_that_is_full(built):
    r = subprocess.run(["sh", "-c", f'"{jab.JAB}" record -o fd:7 "{PROBE}" -- {built("calls")} 10 1 7>/dev/full'],
                       capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 1 and "No space left" in r.stderr and not r.stdout, r


@pytest.mark.parametrize("sig", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGKILL])
def test_crash(built, tmp_path, sig):
    """Its own status, its own last events, with and without us."""
    command = [built("mill"), "crash", int(sig), 500]
    plain = subprocess.run(list(map(str, command)), capture_output=True, timeout=LIMIT)
    assert plain.returncode == -sig
    r = traces.record(tmp_path / "t", ["exe:grind a=arg0:long"], command)
    assert r.status == 128 + sig, r
    events, lost = traces.babeltrace(tmp_path / "t")
    assert not lost and [int(e.fields["a"]) for e in events] == list(range(500))


@pytest.mark.parametrize("when,sig,taken", [("CRASH", signal.SIGABRT, True), ("EXIT", signal.SIGSEGV, True), ("SIGNAL", signal.SIGSEGV, False)])
def test_snapshot_of_a_crash(built, tmp_path, when, sig, taken):
    r = traces.record(tmp_path / "t", ["exe:grind a=arg0:long"], [built("mill"), "crash", int(sig), 100000],
                      ["--overwrite", "--snapshot-on", when, "--buffer-size", "64k"])
    assert r.status == 128 + sig and (tmp_path / "t").exists() == taken, r
    if taken:
        events, _ = traces.babeltrace(tmp_path / "t")
        numbers = [int(e.fields["a"]) for e in events]
        # each ring reaches back as far as it can; what any of them has forgotten is older than this
        assert numbers[-1000:] == list(range(99000, 100000)) and numbers == sorted(set(numbers))


@pytest.fixture
def small_group():
    """A memory cgroup of 32 MiB, of either version."""
    roots = [(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
             (Path("/sys/fs/cgroup"), "memory.max", "memory.peak")]
    for root, limit, peak in roots:
        group = root / f"jab-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(32 << 20))
            yield group, group / peak
            return
        except OSError:
            continue
        finally:
            end = time.monotonic() + 10
            while time.monotonic() < end:
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(.05)
    pytest.skip("no memory cgroup that we may use")


def test_small_memory(small_group, target, tmp_path):
    """64 MiB a CPU of buffers are not the program's."""
    group, peak = small_group
    t = target("calls", "serve", 2)
    (group / "cgroup.procs").write_text(str(t.pid))
    rec = Recorder(t.pid, "--buffer-size", "64M", "-o", tmp_path / "t", "exe:work arg0 arg1:string")
    t.run(200000)
    r = rec.stop()
    assert r.status == 0, r
    if peak.exists():
        assert int(peak.read_text()) < 16 << 20
    t.run(1000)
    t.stop()


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="no own pid namespace")
def test_pid_namespace(built, tmp_path):
    """Numbers in the trace are ours, not those that the program knows."""
    wrap = ["unshare", "--pid", "--fork", str(built("calls")), "serve", "1"]
    p = subprocess.Popen(wrap, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    pid = int(Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[0])
    tids = {int(x) for x in os.listdir(f"/proc/{pid}/task")}
    rec = Recorder(pid, "-o", tmp_path / "t", PROBE, "libc:read")
    p.stdin.write("run 100\n")
    p.stdin.flush()
    assert p.stdout.readline() == "done 100\n"
    assert rec.stop().status == 0
    rows = jab.run("view", "--json", tmp_path / "t").rows
    assert {x["pid"] for x in rows} == {pid}
    assert {x["tid"] for x in rows if x["probe"].endswith(":read")} <= tids
    p.stdin.close()
    assert p.wait(LIMIT) == 0


@pytest.mark.skipif(not shutil.which("gdb"), reason="no gdb")
def test_stepped_by_gdb(target, tmp_path):
    """Single steps through a pad come to its end, and the event is there."""
    t = target("calls", "serve", 1)
    rec = Recorder(t.pid, "-o", tmp_path / "t", "libc:read n=arg0:int")
    gdb = subprocess.Popen(["gdb", "-nx", "-batch", "-p", str(t.pid), "-ex", "hbreak read", "-ex", "continue", "-ex", "stepi 400",
                            "-ex", "detach"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in gdb.stdout:
        if "Continuing" in line or "breakpoint 1" in line:
            break
    time.sleep(.3)
    for _ in range(3):
        t.run(10)
    text = gdb.communicate(timeout=LIMIT)[0]
    t.run(10)
    r = rec.stop()
    assert r.status == 0 and not jab.leftovers(t.pid), (r, text)
    n, lost = counts(tmp_path / "t")
    assert n >= 3, text
    t.stop()


@pytest.mark.parametrize("seed", range(2))
def test_hostile_rings(built, target, tmp_path, seed):
    """A program that writes into its own rings spoils its own part of the trace and nothing else."""
    t = target("calls", "serve", 1)
    bad = subprocess.Popen([str(built("vandal")), "2", str(seed)])
    p = subprocess.Popen([jab.JAB, "record", "-v", "--json", "-o", tmp_path / "t", "-p", str(t.pid), "-p", str(bad.pid),
                          "exe:/^(work|deed)$/ x=arg0:u64", "exe:deed s=arg1:string"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    for line in p.stderr:
        if line.startswith("jab: active:"):
            break
    for _ in range(10):
        t.run(1000)
    bad.wait(LIMIT)
    t.run(1000)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=LIMIT)
    assert p.returncode in (0, 1), (p.returncode, err)		# 1: not all could be written, which is true
    assert not jab.leftovers(t.pid)
    rows = jab.run("view", "--json", "--probe", "calls:work", tmp_path / "t")
    assert [x["fields"]["x"] for x in rows.rows if x["pid"] == t.pid] == list(range(1000)) * 11
    subprocess.run(["babeltrace2", str(tmp_path / "t")], stdout=subprocess.DEVNULL, check=True, timeout=LIMIT)
    t.stop()


def test_events_left_by_a_jump(built, tmp_path):
    """A handler that jumps out of the middle of an event leaves its lock behind; soon nobody has one. They are found and freed."""
    p = subprocess.Popen([jab.JAB, "trace", "-o", tmp_path / "out", "exe:/^(leap|rest)$/ n=arg0:long s=arg1:string", "--",
                          str(built("leaver"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "tired\n"
    end = time.monotonic() + LIMIT
    while "leaver:rest" not in (tmp_path / "out").read_text() and time.monotonic() < end:
        time.sleep(.05)
    p.stdin.close()
    err = p.stderr.read()
    assert p.wait(LIMIT) == 0, err
    lines = (tmp_path / "out").read_text().splitlines()
    assert any('leaver:rest' in x and 's="resting"' in x for x in lines), err
    lost = sum(int(x.split()[2]) for x in err.splitlines() if x.strip().endswith('s=arg1:string'))
    assert lost > 0, err	# there was none left
    assert all(' s="leaping"' in x or ' s="resting"' in x for x in lines)
