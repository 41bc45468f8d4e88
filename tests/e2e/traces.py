# SPDX-License-Identifier: MIT
"""Records with the real binary and reads the trace with babeltrace2, which judges: its own complaints fail the test."""
import collections
import re
import shutil
import subprocess

import jab
from targets import LIMIT

LINE = re.compile(r"^\[(?P<time>\d+)\] (?:\S+ )?(?P<name>\S+): \{ cpu_id = (?P<cpu>\d+) \}, "
                  r"\{ pid = (?P<pid>\d+), tid = (?P<tid>\d+) \}(?:, \{ (?P<fields>.*) \})?$")
FIELD = re.compile(r"(\w+) = (\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|[^,]+)")
LOST = re.compile(r"Tracer discarded (\d+) events? ")

Event = collections.namedtuple("Event", "time name cpu pid tid fields")


def babeltrace(path):
    """(events in order, events that it says were discarded). Own events (jab:...) are left out."""
    p = subprocess.run(["babeltrace2", "--no-delta", "--clock-cycles", str(path)], capture_output=True, text=True,
                       errors="replace", timeout=LIMIT)
    assert p.returncode == 0, p.stderr
    lost = 0
    for line in p.stderr.splitlines():
        found = LOST.search(line)
        assert found, line
        lost += int(found[1])
    events = []
    for line in jab.lines_of(p.stdout):
        m = LINE.match(line)
        assert m, line
        if m["name"].startswith("jab:"):
            continue
        events.append(Event(int(m["time"]), m["name"], int(m["cpu"]), int(m["pid"]), int(m["tid"]),
                            dict(FIELD.findall(m["fields"] or ""))))
    # It sorts by nanoseconds; some cycles of different rings are in the same one.
    assert all(a.time <= b.time + 8 for a, b in zip(events, events[1:]))
    return events, lost


def record(path, probes, command, options=(), env=None, wrap=(), limit=None):
    """jab record ... -- COMMAND. Result.rows is empty, Result.summary what it says at the end."""
    p = subprocess.run([*wrap, jab.JAB, "record", "--json", "-o", str(path), *options, *probes, "--", *map(str, command)],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                       timeout=limit or LIMIT, env=env)
    lines = [x for x in jab.lines_of(p.stdout) if x.startswith("{")]
    own = "\n".join(x for x in jab.lines_of(p.stdout) if not x.startswith("{"))
    return jab.Result(p.returncode, "\n".join(lines), p.stderr, own)


def told(result):
    """What the program "told" says of itself: calls by (pid, tid)."""
    calls = collections.Counter()
    for line in result.stdout.splitlines():
        pid, tid, n = map(int, line.split())
        calls[pid, tid] += n
    return calls


def have_babeltrace():
    return shutil.which("babeltrace2") is not None
