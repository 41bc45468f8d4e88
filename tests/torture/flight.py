#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""A flight recorder for hours, with snapshots at any time, each judged by babeltrace2.

    flight.py [--seconds N] [--only plain,bulky]

Threads that are interrupted and moved all the time call without end, and note how far they are where we can see it. At a
random moment we look there and ask for a snapshot. It must hold whole events only, in order per ring and per thread; of each
thread every call without a gap from the time on that all rings reach back to; and its newest call when we asked. Every
few minutes the recorder is another one, with events of fixed length or with bulky ones, and rings of another size.
"""
import collections
import mmap
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
import jab
import targets
import traces
from targets import LIMIT

PLAIN = "exe:grind a=arg0:long b=arg1:long"
PROBES = {"plain": [PLAIN], "bulky": ["-t", "stack:16", PLAIN + " c=arg1:string"]}
SIZES = {"plain": ["64k", "256k", "1M", "4M"], "bulky": ["64k", "128k"]}	# of the bulky there are more rings
THREADS = 6
TELLER = struct.Struct("<iiqqq")			# struct teller of tests/prog/mill.c
HEAD = struct.Struct("<I16sIQQQQQQQQ")		# docs/format.md: packets
PAGE = 4096


def reaches_back(path):
    """The time from which on every ring has all that was written to it."""
    first = 0
    for part in path.glob("stream_*"):
        with part.open("rb") as f:
            at = 0
            while len(head := f.read(HEAD.size)) == HEAD.size:
                _, _, _, stream, begin, _, content, size, _, seq, _ = HEAD.unpack(head)
                if stream != 4294967040 and content > 8 * HEAD.size and seq == 1:
                    first = max(first, begin)
                at += size // 8
                f.seek(at)
    return first


class Board:
    def __init__(self, path):
        with path.open("r+b") as f:
            self.map = mmap.mmap(f.fileno(), THREADS * TELLER.size)

    def done(self):
        """By tid: a time, and how many calls are over, the last of which began not before it."""
        since = [TELLER.unpack_from(self.map, i * TELLER.size)[4] for i in range(THREADS)]
        rows = [TELLER.unpack_from(self.map, i * TELLER.size) for i in range(THREADS)]
        return {row[1]: (t, row[3]) for t, row in zip(since, rows) if row[1]}


def wait_board(path):
    """The program makes it, and its threads write their names."""
    end = time.monotonic() + LIMIT
    while not path.exists() or path.stat().st_size < THREADS * TELLER.size or len(Board(path).done()) < THREADS:
        assert time.monotonic() < end, "nobody writes on the board"
        time.sleep(.01)
    return Board(path)


def wait_calls(board):
    """Somebody has his turn."""
    before, end = board.done(), time.monotonic() + LIMIT
    while board.done() == before:
        assert time.monotonic() < end, "nobody calls"
        time.sleep(.01)


def judge(path, done, most_lost=0):
    """Raises if anything is wrong; returns how many events, and whose newest call could be looked for."""
    events, lost = traces.babeltrace(path)
    assert events and lost <= most_lost, (len(events), lost)
    common, last, newest = reaches_back(path), {}, collections.Counter()
    times = {}
    for e in events:
        n = int(e.fields["a"])
        assert int(e.fields["b"]) == 2 * n, e
        assert e.cpu > 4096 or times.get(e.cpu, 0) <= e.time, e
        times[e.cpu] = e.time
        if n == -1:
            continue
        before = last.get(e.tid)
        assert before is None or (n > before if e.time < common else n == before + 1 or before < newest[e.tid]), (e, before, common)
        if e.time < common:
            newest[e.tid] = n + 1	# there may be a gap behind those
        last[e.tid] = n
    sure = {tid: n for tid, (since, n) in done.items() if since > common}
    behind = {tid: (last.get(tid), n) for tid, n in sure.items() if last.get(tid, -1) < n - 1}
    assert not behind, behind
    return len(events), len(sure)


def ask(p, board):
    """One snapshot: its directory, and how far everybody was before."""
    done = board.done()
    p.send_signal(signal.SIGUSR1)
    line = next((x for x in p.stderr if "snapshot of" in x), None)
    assert line, f"no snapshot, status {p.poll()}"
    return Path(line.split(" in ", 1)[1].strip()), done


def take_out(pid):
    end = time.monotonic() + LIMIT
    while (r := jab.run("recover", pid)).status != 0:
        assert time.monotonic() < end, r
        time.sleep(1)


def a_moment(report):
    return max(report.time_left(), 0) / 2 + .1


def flight(report, target, board, d, kind, size, seconds):
    p = subprocess.Popen([jab.JAB, "record", "-v", "--overwrite", "--buffer-size", size, "-p", str(target.pid), "-o", str(d / "f"),
                          *PROBES[kind]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + seconds
    try:
        for line in p.stderr:
            if line.startswith("jab: active:"):
                break
        wait_calls(board)
        time.sleep(1)
        over = False
        while not over:
            time.sleep(min(random.random() ** 3 * 10, a_moment(report)))
            path, done = ask(p, board)
            events, threads = judge(path, done)
            shutil.rmtree(path)
            report.count(f"{kind} snapshots")
            report.count(f"{kind} events", events)
            report.count("newest calls", threads)
            over = time.monotonic() > end or report.time_left() <= 0
        p.send_signal(signal.SIGINT)
        text = p.communicate(timeout=LIMIT)[1]
        if "could not be stopped" in text:		# starved by others: as it says, later
            report.count("removed later")
            take_out(target.pid)
        else:
            assert p.returncode == 0, text
    finally:
        if p.poll() is None:
            p.kill()
        p.communicate()
    for path in d.glob("f*"):			# it has left one more at its end
        # Who was about to make an event when the probes were taken out was led out by hand, and the event is lost: one of
        # each thread, and one of its handler.
        judge(path, {}, 2 * THREADS)
        shutil.rmtree(path)


def main():
    a = arguments("A flight recorder for hours.")
    report = Report(a.seconds, seed=a.seed)
    random.seed(a.seed)
    if not traces.have_babeltrace():
        report.line(skipped="no babeltrace2")
        return report.end()
    kinds = [k for k in PROBES if not a.only or k in a.only]
    with tempfile.TemporaryDirectory(prefix="jab-torture-") as name:
        d = Path(name)
        target = subprocess.Popen([str(targets.build("mill")), "storm", str(THREADS), str(1 << 60), str(d / "board")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            board = wait_board(d / "board")
            first = True
            while first or report.time_left() > 0 and not report.failures:
                first = False
                kind = random.choice(kinds)
                size = random.choice(SIZES[kind])
                try:
                    flight(report, target, board, d, kind, size, min(a.seconds / 4 + 1, random.uniform(60, 240)))
                    report.count("flights")
                except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as e:
                    report.fail(f"{kind} {size}", repr(e))
            assert target.poll() is None
        finally:
            target.kill()
            target.wait()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
