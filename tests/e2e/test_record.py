# SPDX-License-Identifier: MIT
"""jab record: directories, archives, snapshots, losses, disks that are full, readers that go away. babeltrace2
reads what comes out, without a complaint."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import jab
from targets import LIMIT
from test_ctf import babeltrace
from test_trace import CONTEXT, VALUES, fields, probes
from test_view import heads

pytestmark = pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")


def record(*args, **more):
    return jab.run("record", *args, **more)


def counts(path):
    """Events and losses, as babeltrace2 and as jab view have them; they must agree."""
    lines, lost = babeltrace(path)
    lines = [x for x in lines if " jab:" not in x]
    r = jab.run("view", "--json", path)
    summary = r.objects[-1]["summary"]
    assert (r.status, summary["events"], summary["lost"], summary["damaged"]) == (0, len(lines), lost, 0), r.stderr
    return len(lines), lost


def test_values(built, tmp_path):
    r = record("-o", tmp_path / "t", VALUES, *CONTEXT, "--", built("values"), 3)
    assert r.status == 0, r
    counts(tmp_path / "t")
    lines = jab.run("view", tmp_path / "t").output.splitlines()
    assert [fields(x) for x in lines] == r.output.splitlines()
    assert probes(r) == {VALUES: (27, 27, 0)}


def test_totals_add_up(built, tmp_path):
    """Also where a small buffer loses some: hits = recorded + lost, and the trace says so, too."""
    for size, n in (("64k", 1000000), ("8M", 30000)):
        path = tmp_path / size
        r = record("--json", "--buffer-size", size, "-o", path, "exe:work arg0", "--", built("calls"), n, 4)
        assert r.status == 0, r
        p = next(x for x in r.objects if "summary" in x)["summary"]["probes"][0]
        assert p["hits"] == n == p["recorded"] + p["lost"], p
        assert counts(path) == (p["recorded"], p["lost"])
    assert p["lost"] == 0


@pytest.mark.parametrize("probe", ["exe:look arg1", "exe:look arg0:int[4]", "exe:look%return retval", "exe:look p->text if n >= 0"])
@pytest.mark.parametrize("left", [1000, 500, 300, 240])
def test_hardly_any_stack(built, tmp_path, probe, left):
    """What needs more than there is, is lost and counted, and the program goes on."""
    command = [built("harsh"), "stack", 300, left]
    alone = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=LIMIT)
    r = record("--json", "-o", tmp_path / "t", probe, "--", *command)
    assert r.status == 0 and alone.stdout in r.output, r
    p = next(x for x in r.objects if "summary" in x)["summary"]["probes"][0]
    assert p["hits"] == 300 == p["recorded"] + p["lost"] and p["lost"] == p.get("no_stack", 0), p
    assert p["lost"] == 0 or left < 1000, p
    assert counts(tmp_path / "t") == (p["recorded"], p["lost"])


def test_default_directory(built, tmp_path):
    r = record("exe:work", "--", built("calls"), 3, 1, cwd=tmp_path)
    assert r.status == 0, r
    name, = os.listdir(tmp_path)
    assert re.fullmatch(r"jab-calls-\d{8}-\d{6}", name), name
    assert f"3 events" in r.stderr and name in r.stderr
    r = record("-p", os.getpid(), "-d", "0", "libc:getppid", cwd=tmp_path)
    assert any(re.match(r"jab-[\w.+-]+-\d{8}", x) and x != name for x in os.listdir(tmp_path)) or r.status, r


@pytest.mark.parametrize("output", ["-", "fd:5"])
def test_archive(built, tmp_path, output):
    """What the command prints does not get into it."""
    (tmp_path / "t").mkdir()
    more = " >/dev/null" if output != "-" else ""
    shell = f'"$0" record -o {output} "exe:work arg0" -- "$1" 5000 2 5>&1{more} | tar x -C "$2"'
    p = subprocess.run(["sh", "-c", shell, jab.JAB, built("calls"), tmp_path / "t"], capture_output=True, text=True,
                       timeout=LIMIT)
    assert p.returncode == 0, p
    assert counts(tmp_path / "t") == (5000, 0)


def test_archive_not_to_a_terminal(built):
    main, side = os.openpty()
    p = subprocess.run([jab.JAB, "record", "-o", "-", "exe:work", "--", built("calls"), "1", "1"], stdout=side,
                       stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    os.close(side)
    os.close(main)
    assert p.returncode == 1 and "terminal" in p.stderr, p


def test_reader_of_the_archive_goes_away(target):
    t = target("calls", "serve", 1)
    r, w = os.pipe()
    p = subprocess.Popen([jab.JAB, "record", "-v", "-o", "-", "-p", str(t.pid), "exe:work"], stdout=w,
                         stderr=subprocess.PIPE, text=True)
    os.close(w)
    for line in p.stderr:
        if line.startswith("jab: active:"):
            break
    os.close(r)
    for _ in range(20):
        t.run(1000)
    _, err = p.communicate(timeout=LIMIT)
    assert p.returncode == 1 and "the reader of stdout has closed it" in err, err
    assert not jab.leftovers(t.pid)
    t.stop()


def test_errors_before_anything_is_touched(built, tmp_path):
    """The command does not run at all."""
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    mark = tmp_path / "mark"
    for path, word in ((tmp_path / "there", "exists already"), (tmp_path / "no" / "t", "does not exist"),
                       (tmp_path / "file" / "t", "Not a directory"), ("fd:99", "fd:99"), ("fd:x", "no descriptor")):
        r = record("-o", path, "libc:exit", "--", "touch", mark)
        assert r.status == 1 and word in r.stderr, r
        assert not mark.exists()
    assert sorted(os.listdir(tmp_path)) == ["file", "there"]
    # and nothing is left of a trace that was not begun
    r = record("-o", tmp_path / "new", "-p", 99999999, "exe:work")
    assert r.status == 1 and not (tmp_path / "new").exists(), r
    r = record("-o", tmp_path / "new", "exe:work arg0:nonsense", "--", built("calls"), 1, 1)
    assert r.status == 1 and not (tmp_path / "new").exists(), r
    r = record("--dry-run", "-o", tmp_path / "new", "exe:work", "--", built("calls"), 1, 1)
    assert not (tmp_path / "new").exists(), r


def test_full_disk(built, tmp_path):
    """Said, counted, and the program does not notice."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("may not mount a small disk")
    try:
        r = record("--json", "-o", disk / "t", "exe:work arg0", "--", built("calls"), 500000, 1)
        assert r.status == 1 and "No space left" in r.stderr, r
        assert "500000" in r.output
        p = next(x for x in r.objects if "summary" in x)["summary"]["probes"][0]
        assert p["hits"] == 500000 == p["recorded"] + p["lost"] and p["lost"] > 0, p
        lines, _ = babeltrace(disk / "t")
        assert len([x for x in lines if " jab:" not in x]) == p["recorded"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


class Recorder:
    """jab record -p in the background."""

    def __init__(self, pid, *args):
        self.p = subprocess.Popen([jab.JAB, "record", "-v", "-p", str(pid), *map(str, args)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for("jab: active:")

    def wait_for(self, word):
        for line in self.p.stderr:
            if word in line:
                return line
        raise AssertionError(f"it did not say {word}")

    def stop(self, sig=signal.SIGINT):
        self.p.send_signal(sig)
        out, err = self.p.communicate(timeout=LIMIT)
        return jab.Result(self.p.returncode, out, err)


def test_killed_recorder(target, tmp_path):
    """SIGKILL leaves a trace up to the last packet, and the program unharmed."""
    t = target("calls", "serve", 1)
    rec = Recorder(t.pid, "-o", tmp_path / "t", "exe:work x=arg0:u64")
    for _ in range(20):
        t.run(1000)
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and len(jab.run("view", tmp_path / "t").output.splitlines()) < 1000:
        time.sleep(.02)
    rec.stop(signal.SIGKILL)
    n, lost = counts(tmp_path / "t")
    assert n >= 1000 and not lost
    t.run(1000)
    assert jab.run("recover", t.pid).status == 0
    t.run(1000)
    t.stop()


def newest(path):
    return [int(re.search(r"x=(\d+)", x[4])[1]) for x in heads(jab.run("view", path).output)]


def test_flight_recorder(target, tmp_path):
    """SIGUSR1 takes one, the end another: the newest, whole, in order, without a gap. On one CPU: each has a ring of
    its own, and who moved leaves old ones behind, as those do who were interrupted and took a ring behind a lock."""
    cpu = min(os.sched_getaffinity(0))
    t = target("calls", "serve", 1, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    rec = Recorder(t.pid, "--overwrite", "--buffer-size", "64k", "-o", tmp_path / "t", "exe:work x=arg0:u64")
    t.run(100000)
    rec.p.send_signal(signal.SIGUSR1)
    assert "t\n" in rec.wait_for("snapshot of")
    t.run(50)
    r = rec.stop()
    assert r.status == 0 and f"{tmp_path}/t.2" in r.stderr, r
    for name, last in (("t", 99999), ("t.2", 49)):
        got = newest(tmp_path / name)
        babeltrace(tmp_path / name)
        assert 1000 < len(got) < 10000 and got[-1] == last, (len(got), got[-5:])
        assert all(b == a + 1 or (a, b) == (99999, 0) for a, b in zip(got[-1000:], got[-999:]))
    t.stop()


@pytest.mark.parametrize("when,arg,taken", [("EXIT", "1", True), ("CRASH", "1", False), ("CRASH", "crash", True),
                                            ("crash", "crash", True), ("SIGNAL", "1", False), ("USR2", "1", False)])
def test_snapshot_on(built, tmp_path, when, arg, taken):
    r = record("--overwrite", "--snapshot-on", when, "-o", tmp_path / "t", "exe:take", "--", built("values"), arg)
    assert r.status == (128 + signal.SIGSEGV if arg == "crash" else 0), r
    assert (tmp_path / "t").exists() == taken, r
    assert ("no snapshot was taken" in r.stderr) != taken
    if taken:
        assert counts(tmp_path / "t") == (9, 0)


def test_hits_that_nobody_counts(built, tmp_path):
    """A condition is decided by the program of the probe, which counts only what is lost."""
    r = record("--overwrite", "-o", tmp_path / "t", "exe:work", "exe:work if arg0 >= 0", "--", built("calls"), 30, 1)
    assert r.status == 0 and re.search(r"^ +30 +30 +0  exe:work$", r.stderr, re.M), r
    assert re.search(r"^ +- +30 +0  exe:work if arg0 >= 0$", r.stderr, re.M), r


def test_names_in_a_snapshot(built, tmp_path):
    r = record("--overwrite", "-o", tmp_path / "t", "-t", "backtrace", "exe:work", "--", built("calls"), 3, 1)
    assert r.status == 0, r
    counts(tmp_path / "t")
    frames = jab.run("view", tmp_path / "t").output.splitlines()
    assert frames[1].endswith(" calls:work") and "calls:worker+0x" in frames[2], frames


def test_crash_keeps_the_last_events(built, tmp_path):
    r = record("-o", tmp_path / "t", "exe:take n=arg0:int", "--", built("values"), "crash")
    assert r.status == 128 + signal.SIGSEGV, r
    assert counts(tmp_path / "t") == (9, 0)


@pytest.mark.parametrize("args,word", [(["--snapshot-on", "EXIT"], "goes with --overwrite"),
                                       (["--overwrite", "--snapshot-on", "NEVER"], "NEVER"),
                                       (["--overwrite", "--snapshot-on", "KILL"], "KILL")])
def test_wrong_usage(args, word):
    r = record(*args, "libc:exit", "--", "true")
    assert r.status == 2 and word in r.stderr, r


def test_count_and_duration(target, tmp_path):
    t = target("calls", "serve", 1)
    rec = Recorder(t.pid, "-n", 100, "-o", tmp_path / "t", "exe:work")
    t.run(500)
    rec.p.communicate(timeout=LIMIT)
    assert rec.p.returncode == 0
    assert counts(tmp_path / "t")[0] >= 100
    r = record("-p", t.pid, "-d", ".2", "-o", tmp_path / "u", "exe:work")
    assert r.status == 0 and counts(tmp_path / "u") == (0, 0), r
    t.stop()


def test_progress_on_a_terminal(target, tmp_path):
    t = target("calls", "serve", 1)
    main, side = os.openpty()
    p = subprocess.Popen([jab.JAB, "record", "-o", tmp_path / "t", "-p", str(t.pid), "-d", "2.5", "exe:work"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=side, text=True)
    os.close(side)
    p.wait(LIMIT)
    text = b""
    try:
        while chunk := os.read(main, 4096):
            text += chunk
    except OSError:
        pass
    os.close(main)
    assert re.search(rb"\r\d+ s: \d+ events, \d+/s, [\d.]+ MB, \d+ lost", text), text
    t.stop()


def test_module_table(built, tmp_path):
    r = record("-o", tmp_path / "t", "-t", "backtrace", "exe:work", "--", built("calls"), 1, 1)
    assert r.status == 0, r
    frames = jab.run("view", tmp_path / "t").output.splitlines()[1:]
    assert frames[0].endswith(" calls:work") and "calls:worker+0x" in frames[1], frames
    own = jab.run("view", "--json", "--probe", "jab:module", tmp_path / "t").rows
    paths = {os.path.basename(x["fields"]["path"]): x["fields"] for x in own}
    assert len(paths["calls"]["build_id"]) == 40 and "libc.so.6" in paths, paths
    json.dumps(own)
