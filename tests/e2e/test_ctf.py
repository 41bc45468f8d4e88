# SPDX-License-Identifier: MIT
"""Traces as babeltrace2 sees them: the independent judge. It must read every trace without a complaint of its own
(the losses that a trace speaks of are no complaint) and show exactly what was written, also after a kill.

tests/e2e/ctfwrite.c drives the writer and the reader; no target is involved."""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tarfile
import time

import pytest

import jab

TOOL = os.path.join(os.path.dirname(os.path.abspath(jab.JAB)), "tests", "ctfwrite")
LOST = re.compile(r"^WARNING: Tracer discarded (\d+) events? between")

pytestmark = [pytest.mark.skipif(not os.access(TOOL, os.X_OK), reason="tests are not built"),
              pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")]


def tool(*args, **more):
    return subprocess.run([TOOL, *map(str, args)], stdout=subprocess.PIPE, timeout=jab.LIMIT, text=True, check=True, **more).stdout


def babeltrace(path, clock="--clock-cycles"):
    """-> (lines, lost). Anything else on stderr is a failure."""
    p = subprocess.run(["babeltrace2", "--no-delta", clock, str(path)], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=jab.LIMIT, text=True)
    said = p.stderr.splitlines()
    complaints = [x for x in said if x.strip() and not LOST.match(x)]
    assert p.returncode == 0 and not complaints, p.stderr[:2000]
    return p.stdout.splitlines(), sum(int(LOST.match(x).group(1)) for x in said if LOST.match(x))


def without_empty(line):
    """babeltrace2 2.0 shows an old text where a string is empty (or only its NUL); its length is right."""
    return re.sub(r'(_\w+_length = [01], \w+ = )"(\\.|[^"\\])*"', r'\1""', line)


def events(text):
    """Our own lines, without the frames of backtraces."""
    return [x for x in text.splitlines() if not x.startswith("\t")]


def counters(lines):
    return [int(re.search(r" n = (\d+) }$", x).group(1)) for x in lines]


@pytest.mark.parametrize("seed,count", [(1, 20), (2, 3000), (3, 20000)])
def test_every_type_order_and_losses(tmp_path, seed, count):
    *expected, lost = tool("write", tmp_path / "t", seed, count).splitlines()
    lines, seen = babeltrace(tmp_path / "t")
    assert len(expected) == count
    assert [without_empty(x) for x in lines] == [without_empty(x) for x in expected]
    assert lost == f"lost {seen}"


def test_archive_through_a_pipe(tmp_path):
    """Unpacked, also up to any entry, it is a trace like any other."""
    archive, whole = tmp_path / "a.tar", tmp_path / "whole"
    with open(archive, "wb") as f:
        *expected, lost = tool("write", f"fd:{f.fileno()}", 7, 2000, pass_fds=[f.fileno()]).splitlines()
    whole.mkdir()
    subprocess.run(["tar", "xf", archive, "-C", whole], check=True, timeout=jab.LIMIT)
    lines, seen = babeltrace(whole)
    assert [without_empty(x) for x in lines] == [without_empty(x) for x in expected]
    assert lost == f"lost {seen}"
    with tarfile.open(archive) as tar:
        ends = [m.offset for m in tar.getmembers() if m.name.startswith("stream")]
    assert len(ends) > 10
    for i in (1, len(ends) // 3, len(ends) - 1):
        cut = tmp_path / f"cut{i}"
        cut.mkdir()
        with open(archive, "rb") as f:
            subprocess.run(["tar", "x", "-C", cut], input=f.read(ends[i]), check=True, timeout=jab.LIMIT)
        lines, _ = babeltrace(cut)
        assert 0 < len(lines) <= len(expected)
        assert len(events(tool("read", cut))) - 1 == len(lines)


def test_our_reader_agrees(tmp_path):
    """The same events, in the same order, with the same names and numbers as babeltrace2."""
    tool("write", tmp_path / "t", 4, 5000)
    *ours, totals = events(tool("read", tmp_path / "t"))
    seconds, lost = babeltrace(tmp_path / "t", "--clock-seconds")
    wall = realtime_offset(tmp_path / "t")
    assert totals == f"lost {lost} damaged 0"
    assert len(ours) == len(seconds)
    for mine, theirs in zip(ours, seconds):
        m = re.match(r"(\d+)\.(\d+) \[(\d+)\] (\d+)/(\d+) (.*)", mine)
        t = re.match(r"\[\s*(\d+)\.?(\d*)\] \S+ (.*?): { cpu_id = (\d+) }, { pid = (\d+), tid = (\d+) }, {", theirs)
        # babeltrace2 counts in floating point
        assert abs(int(m[1] + m[2]) + wall - int(t[1] + t[2])) <= 2
        assert [int(m[3]), int(m[4]), int(m[5])] == [int(t[4]), int(t[5]), int(t[6])]
        assert values(mine[m.end(5):]) == values(without_empty(theirs)[t.end():]), (mine, theirs)


def values(text):
    """Decimal numbers and strings of either kind of line, in order; lengths are babeltrace2's only."""
    found = re.findall(r'(\w+) ?= ?(-?\d+(?=[ ,])|"(?:\\.|[^"\\])*")', re.sub(r"_\w+_length = \d+,", "", text) + " ")
    return [x for x in found if x[0] not in ("h", "bytes")]


def realtime_offset(trace):
    return int(re.search(r"realtime_offset_ns = (-?\d+)", (trace / "metadata").read_text())[1])


def test_times_are_those_of_the_clocks(tmp_path):
    """babeltrace2 shows the wall clock, and we CLOCK_MONOTONIC."""
    before, day = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
    tool("write", tmp_path / "t", 5, 10)
    after, later = time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.time_ns()
    out = subprocess.run(["babeltrace2", "--clock-seconds", "--no-delta", str(tmp_path / "t")], capture_output=True,
                         text=True, timeout=jab.LIMIT).stdout
    for line in out.splitlines():
        s, ns = re.match(r"\[\s*(\d+)\.(\d+)\]", line).groups()
        assert day < int(s) * 10**9 + int(ns) < later
    for line in events(tool("read", tmp_path / "t"))[:-1]:
        s, ns = line.split()[0].split(".")
        assert before < int(s) * 10**9 + int(ns) < after


def test_environment(tmp_path):
    tool("write", tmp_path / "t", 6, 1)
    p = subprocess.run(["babeltrace2", "-c", "sink.text.details", str(tmp_path / "t")], capture_output=True, text=True,
                       timeout=jab.LIMIT)
    assert p.returncode == 0 and "tracer_name: jab" in p.stdout, p.stderr
    assert 'command: trace "a b" \\ \n\tend' in p.stdout
    offset = int(re.search(r"realtime_offset_ns: ([\d,]+)", p.stdout).group(1).replace(",", ""))
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert now - after - 10**9 < offset < now - before + 10**9      # between two looks at clocks others may run


@pytest.mark.parametrize("how,most", [("run", "400000"), ("grow", "3000")])
def test_killed_at_any_time(tmp_path, how, most):
    """SIGKILL while packets are written, and while the metadata grows: a whole trace up to the last packet. It has an
    end, so that there is not too much to read where we are late."""
    for i in range(6):
        path = tmp_path / f"t{i}"
        with open(tmp_path / "said", "wb") as said:
            p = subprocess.Popen([TOOL, how, str(path), most], stdout=said)
        try:
            while not os.path.getsize(tmp_path / "said") and p.poll() is None:
                time.sleep(0.001)
            time.sleep(random.random() * 0.003)
        finally:
            p.send_signal(signal.SIGKILL)
            p.wait(jab.LIMIT)
        said = (tmp_path / "said").read_text().split()
        if not (path / "metadata").exists():
            assert not said
            continue
        told = int(said[-1]) if said else 0
        if not told and not list(path.glob("stream_*")):
            continue
        lines, lost = babeltrace(path)
        got = counters(lines)
        assert got == list(range(len(got)))
        assert told <= len(got) <= told + 20000 and lost == 0
        *ours, totals = tool("read", path).splitlines()
        assert len(ours) == len(got) and totals == "lost 0 damaged 0"
        shutil.rmtree(path)


def test_cut_in_every_part(tmp_path):
    """Several parts of a stream are one stream: the first part holds 4 MiB."""
    path = tmp_path / "t"
    with open(tmp_path / "said", "wb") as said:
        p = subprocess.Popen([TOOL, "run", str(path), "600000"], stdout=said)
    while not (path / "stream_0_2").exists() and p.poll() is None:
        time.sleep(0.005)
    p.kill()
    p.wait(jab.LIMIT)
    got = counters(babeltrace(path)[0])
    whole = got == list(range(len(got)))        # compared here: a diff of a million lines helps nobody
    assert whole and len(got) * 32 > 8 << 20    # well into the second part; heads and padding take some


def check_filled(path, out):
    written, failed = (int(re.search(rf"^{w} (\d+)$", out, re.M).group(1)) for w in ("written", "failed"))
    lines, lost = babeltrace(path)
    got = counters(lines)
    assert got == list(range(written)) and failed == 3 * 2000
    *ours, totals = tool("read", path).splitlines()
    assert len(ours) == written and totals.endswith("damaged 0")
    return lost, failed


def test_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("may not mount a small disk")
    try:
        out = tool("fill", disk / "t")
        assert "No space left" in out, out
        lost, failed = check_filled(disk / "t", out)
        assert lost in (0, failed)      # the empty packet that tells needs a page
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_no_space_at_the_start(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("may not mount a small disk")
    try:
        p = subprocess.run([TOOL, "fill", str(disk / "t")], capture_output=True, text=True, timeout=jab.LIMIT)
        assert p.returncode == 1 and "no space left" in p.stdout.lower()
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_file_size_limit_is_no_signal(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    out = tool("fill", tmp_path / "t", preexec_fn=limit)
    assert "too large" in out, out


@pytest.mark.parametrize("what", ["exists", "parent", "file"])
def test_clear_errors(tmp_path, what):
    path = tmp_path / "t"
    if what == "exists":
        path.mkdir()
    if what == "parent":
        path = tmp_path / "no" / "t"
    if what == "file":
        (tmp_path / "f").write_text("")
        path = tmp_path / "f" / "t"
    p = subprocess.run([TOOL, "write", str(path), "1", "1"], capture_output=True, text=True, timeout=jab.LIMIT)
    assert p.returncode == 1
    assert p.stdout.startswith("error: ") and str(path) in p.stdout
    assert {"exists": "exists already", "parent": "does not exist", "file": "Not a directory"}[what] in p.stdout
