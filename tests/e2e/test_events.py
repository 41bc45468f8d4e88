# SPDX-License-Identifier: MIT
"""What is recorded is what happened: every event whole, in order and accounted for, by whoever made it."""
import collections
import contextlib
import os
import signal
import struct
import subprocess
import time

import pytest

import jab
import traces
from targets import LIMIT

pytestmark = pytest.mark.skipif(not traces.have_babeltrace(), reason="no babeltrace2")

UNKNOWN = 2**32 - 1		# no CPU: a ring behind a lock
PLAIN = "exe:hit seq=arg0:long kind=arg1:int half=arg0:double"
TEXT = "exe:hit seq=arg0:long kind=arg1:int text=arg2:string"
WORDS = ["", "a", "hello", "a longer piece of text that has some length"]


def check(path, result, sequences=True):
    """Every call of every thread is there, or counted as lost, under its own numbers."""
    assert result.status == 0, result
    expect = traces.told(result)
    events, lost = traces.babeltrace(path)
    probe = result.summary["probes"][0]
    got = collections.Counter((e.pid, e.tid) for e in events)
    assert probe["hits"] == sum(expect.values()), (probe, expect)
    assert probe["recorded"] == len(events), (probe, len(events))
    assert probe["lost"] == lost == probe["hits"] - probe["recorded"], (probe, lost)
    assert set(got) <= set(expect), (got, expect)
    if not lost:
        assert got == expect
    for who in got if sequences else ():
        seqs = in_order([e for e in events if (e.pid, e.tid) == who])
        assert all(0 <= s < expect[who] for s in seqs), who
    return events


def in_order(events):
    """The seqs of one thread: each once, and in order on every CPU. Time stamp counters of two CPUs may differ a little."""
    seqs = [int(e.fields["seq"]) for e in events]
    assert len(set(seqs)) == len(seqs)
    for cpu in {e.cpu for e in events} - {UNKNOWN}:
        own = [int(e.fields["seq"]) for e in events if e.cpu == cpu]
        assert own == sorted(own), cpu
    return sorted(seqs)


@pytest.mark.parametrize("name", ["told", "told_static", "told_musl", "told_musl_static"])
@pytest.mark.parametrize("probe", [PLAIN, TEXT], ids=["plain", "text"])
def test_threads(built, tmp_path, name, probe):
    r = traces.record(tmp_path / "t", [probe], [built(name), "threads", 5000, 8], ["--buffer-size", "4M"])
    check(tmp_path / "t", r)


@pytest.mark.parametrize("mode", ["forks", "vforks", "clones", "blocks", "copies", "called", "called-bare"])
@pytest.mark.parametrize("probe", [PLAIN, TEXT], ids=["plain", "text"])
def test_children(built, tmp_path, mode, probe):
    r = traces.record(tmp_path / "t", [probe], [built("told"), mode, 3000, 6], ["--buffer-size", "4M"])
    check(tmp_path / "t", r)


@pytest.mark.parametrize("mode", ["vforks", "clones", "blocks", "copies"])
def test_children_with_another_libc(built, tmp_path, mode):
    r = traces.record(tmp_path / "t", [PLAIN], [built("told_musl"), mode, 3000, 6], ["--buffer-size", "4M"])
    check(tmp_path / "t", r)


def test_fast_again_when_strangers_are_gone(built, tmp_path):
    r = traces.record(tmp_path / "t", [PLAIN], [built("told"), "visits", 100])
    events = check(tmp_path / "t", r)
    assert all(e.cpu == UNKNOWN for e in events if e.fields["kind"] == "0")
    assert any(e.cpu != UNKNOWN for e in events if e.fields["kind"] == "1"), r


@pytest.mark.parametrize("mode", ["vforks", "threads", "forks"])
def test_without_rseq(built, tmp_path, mode):
    env = dict(os.environ, GLIBC_TUNABLES="glibc.pthread.rseq=0")
    r = traces.record(tmp_path / "t", [PLAIN], [built("told"), mode, 3000, 6], env=env)
    check(tmp_path / "t", r)


@pytest.mark.parametrize("probe", [PLAIN, TEXT], ids=["plain", "text"])
def test_signal_handlers(built, tmp_path, probe):
    r = traces.record(tmp_path / "t", [probe], [built("told"), "nested", 300000, 200], ["--buffer-size", "16M"])
    events = check(tmp_path / "t", r, sequences=False)
    nested = sorted((int(e.fields["seq"]) for e in events if e.fields["kind"] == "77"), reverse=True)
    assert len(set(nested)) == len(nested) > 0
    assert r.summary["probes"][0]["lost"] or nested == [-1 - i for i in range(len(nested))]


@pytest.mark.parametrize("probe", [PLAIN, TEXT], ids=["plain", "text"])
def test_overload_is_accounted_for(built, tmp_path, probe):
    r = traces.record(tmp_path / "t", [probe], [built("told"), "threads", 200000, 4], ["--buffer-size", "64k"])
    check(tmp_path / "t", r)


def test_values(built, tmp_path):
    r = traces.record(tmp_path / "t", [PLAIN], [built("told"), "threads", 500, 3])
    for e in check(tmp_path / "t", r):
        assert float(e.fields["half"]) == int(e.fields["seq"]) / 2
        assert 0 <= int(e.fields["kind"]) < 3


def test_names_of_the_source(built, tmp_path):
    """Without fields: the parameters as the source names them; by name, with and without another type."""
    r = traces.record(tmp_path / "t", ["exe:hit"], [built("told"), "threads", 100, 2])
    for e in check(tmp_path / "t", r):
        assert [x for x in e.fields if x[0] != "_"] == ["seq", "kind", "text", "half"], e
        assert int(e.fields["_text_length"]) == len(WORDS[int(e.fields["seq"]) & 3]) + 1
        assert float(e.fields["half"]) == int(e.fields["seq"]) / 2 and int(e.fields["kind"]) in (0, 1)
    r = traces.record(tmp_path / "u", ["exe:hit x=half text:string seq"], [built("told"), "threads", 100, 2])
    for e in check(tmp_path / "u", r):
        assert float(e.fields["x"]) == int(e.fields["seq"]) / 2
        assert int(e.fields["_text_length"]) == len(WORDS[int(e.fields["seq"]) & 3]) + 1


def test_name_that_is_none(built, tmp_path):
    r = traces.record(tmp_path / "t", ["exe:hit nothing"], [built("told"), "threads", 100, 2])
    assert r.status == 1 and "nothing" in r.stderr and "seq" in r.stderr, r


def test_texts(built, tmp_path):
    r = traces.record(tmp_path / "t", [TEXT], [built("told"), "threads", 500, 3])
    for e in check(tmp_path / "t", r):
        word = WORDS[int(e.fields["seq"]) & 3]
        assert int(e.fields["_text_length"]) == len(word) + 1
        if word:	# babeltrace2 2.0 shows an older text for an empty one
            assert e.fields["text"] == f'"{word}"'


def test_overwrite_keeps_the_newest(built, tmp_path):
    out = tmp_path / "t"
    r = traces.record(out, [PLAIN], [built("told"), "threads", 100000, 2],
                      ["--overwrite", "--buffer-size", "64k", "--snapshot-on", "EXIT"])
    assert r.status == 0, r
    expect = traces.told(r)
    found = sorted(p.parent for p in out.parent.rglob("metadata"))
    assert found, list(out.parent.rglob("*"))
    events, lost = traces.babeltrace(found[-1])
    assert r.summary["probes"][0]["hits"] == sum(expect.values())
    assert lost == 0 and events
    assert any(int(e.fields["seq"]) == 99999 for e in events)
    for who in {(e.pid, e.tid) for e in events}:
        in_order([e for e in events if (e.pid, e.tid) == who])


@pytest.mark.parametrize("after", [0, 0.015, 0.025, 0.035, None])
def test_killed_target_loses_nothing(built, tmp_path, after):
    """What was committed before a SIGKILL is there. Killed before it was probed, it is only gone."""
    out = tmp_path / "t"
    p = subprocess.Popen([jab.JAB, "record", "--json", "-o", str(out), "--buffer-size", "8M", PLAIN, "--",
                          str(built("told")), "threads", "100000000", "1"], stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.PIPE)
    child = wait_child(p.pid)
    if after is None:
        wait_stream(out)
    else:
        time.sleep(after)
    os.kill(child, signal.SIGKILL)
    stdout, stderr = p.communicate(timeout=LIMIT)
    if p.returncode == 1 and '"summary"' not in stdout:
        assert stderr.startswith("jab: ") and after is not None, (stdout, stderr)
        return
    assert p.returncode == 128 + signal.SIGKILL, (stdout, stderr)
    events, lost = traces.babeltrace(out)
    r = jab.Result(p.returncode, stdout, stderr)
    probe = r.summary["probes"][0]
    assert probe["recorded"] == len(events) and probe["lost"] == lost
    seqs = in_order(events)
    if not lost:
        assert seqs == list(range(len(seqs)))


def test_killed_tracer_leaves_a_readable_trace(built, target, tmp_path):
    out = tmp_path / "t"
    p = subprocess.Popen([jab.JAB, "record", "-o", str(out), PLAIN, "--", str(built("told")), "threads", "20000000", "1"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    child = wait_child(p.pid)
    wait_stream(out)
    p.kill()
    text, _ = p.communicate(timeout=LIMIT)	# the program has our pipe, and goes on to its end
    assert text.split()[-1] == "20000000", text
    events, _ = traces.babeltrace(out)
    assert events
    jab.run("recover", child)


def has_packet(part):
    """Is there a packet with content, committed by its head? It is the second one (docs/format.md)."""
    with part.open("rb") as f:
        f.seek(4096)
        head = f.read(88)
    return len(head) == 88 and struct.unpack_from("<Q", head, 48)[0] > 8 * 88


def wait_stream(path):
    """Until the first packets are there, but for those that tell of jab's own."""
    end = time.time() + LIMIT
    while time.time() < end:
        if any(has_packet(p) for p in path.glob("stream_*_*") if not p.name.startswith("stream_4294967040_")):
            return
        time.sleep(0.01)
    raise AssertionError("nothing is recorded")


def wait_child(pid):
    path = f"/proc/{pid}/task/{pid}/children"
    end = time.time() + LIMIT
    while time.time() < end:
        children = open(path).read().split()
        for c in children:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if "told" in os.path.basename(os.readlink(f"/proc/{c}/exe")):
                    return int(c)
        time.sleep(0.01)
    raise AssertionError("no child")


def test_started_in_every_way(built, tmp_path):
    """vfork and exec, posix_spawn, system, popen: each child is the same program again, probed from its first instruction."""
    r = traces.record(tmp_path / "t", ["exe:grind seq=arg0:long"], [built("mill"), "execs", 8, 200])
    check(tmp_path / "t", r)


@pytest.mark.parametrize("probe", ["exe:main.work x=rax:u64", "exe:main.work x=rax:u64 s=rax:string"], ids=["plain", "text"])
def test_go(built, tmp_path, probe):
    """Threads that libc knows nothing of, stacks that move, asynchronous preemption."""
    r = traces.record(tmp_path / "t", [probe], [built("hello_go"), 20000, 8], ["--buffer-size", "8M"])
    assert r.status == 0 and r.stdout == "20000", r
    summary = r.summary["probes"][0]
    events, lost = traces.babeltrace(tmp_path / "t")
    assert summary["hits"] == 20000 == len(events) + lost and summary["lost"] == lost, summary
    assert len({e.pid for e in events}) == 1 and all(e.tid >= e.pid for e in events)
    x = collections.Counter(int(e.fields["x"]) for e in events)
    assert lost or x == {i: 8 for i in range(2500)}, x.most_common(3)
