# SPDX-License-Identifier: MIT
"""Pointers that lead nowhere: the field says so, the program notices nothing, whatever it does about SIGSEGV."""
import collections
import subprocess

import pytest

import jab
import traces

PROBE = "exe:look n=arg0:long text=arg1:string v=arg2:int[2] b=arg2:bytes[8] good=arg3:string"
KINDS = ["null", "unmapped", "none", "odd", "kernel", "race", "cross"]
ADDRESS = {"null": "0x0", "odd": "0x1234567890abcdef", "kernel": "0xffffffff81000000"}
CALLS = 7000


def check_fields(kind, fields, seen):
    assert fields["good"] == "good", fields
    if kind == "race":	# whole or not at all; what it holds is zeros or text
        assert fields["text"] in ("", "m" * 64) or "fault" in fields["text"] or fields["text"].strip("m") == "", fields
        seen["race fault" if "fault" in fields["v"] else "race good"] += 1
        return
    for name in ("text", "v", "b"):
        assert set(fields[name]) == {"fault"}, (kind, fields)
        assert fields[name]["fault"] == ADDRESS.get(kind, fields[name]["fault"]), (kind, fields)
        assert fields[name]["fault"] is not None
    seen[kind] += 1


@pytest.mark.parametrize("disposition", ["default", "handled", "ignored", "blocked"])
def test_bad_pointers(built, tmp_path, disposition):
    command = [built("wild"), "all", disposition, CALLS]
    plain = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=jab.LIMIT)
    r = traces.record(tmp_path / "t", [PROBE], command, ["--buffer-size", "8M"])
    assert r.status == 0 and r.stdout == plain.stdout.strip() and ", 0 signals," in r.stdout, r
    probe = r.summary["probes"][0]
    assert (probe["hits"], probe["recorded"], probe["lost"]) == (CALLS, CALLS, 0), probe
    rows = jab.run("view", "--json", tmp_path / "t").rows
    seen = collections.Counter()
    assert [x["fields"]["n"] for x in rows] == list(range(CALLS))
    for row in rows:
        check_fields(KINDS[row["fields"]["n"] % 7], row["fields"], seen)
    assert all(seen[k] == CALLS // 7 for k in KINDS if k != "race"), seen


def test_words(built, tmp_path):
    r = traces.record(tmp_path / "t", [PROBE], [built("wild"), "none", "default", 3])
    assert r.status == 0, r
    for line in jab.run("view", tmp_path / "t").output.splitlines():
        assert line.endswith(' text=<fault> v=<fault> b=<fault> good="good"'), line
    if traces.have_babeltrace():
        events, lost = traces.babeltrace(tmp_path / "t")
        assert len(events) == 3 and not lost


def test_live(built):
    r = jab.run("trace", PROBE, "--", built("wild"), "odd", "handled", 3)
    lines = [x for x in r.output.splitlines() if "wild:look" in x]
    assert r.status == 0 and len(lines) == 3, r
    assert all(" text=<fault> v=<fault> b=<fault>" in x for x in lines), lines


def test_cut_texts(built, tmp_path):
    """A text that is longer than its limit is marked; one that just fits is not."""
    for limit, shown in ((3, '"goo"...'), (4, '"good"...'), (5, '"good"')):
        path = tmp_path / str(limit)
        r = traces.record(path, [f"exe:look text=arg3:string[{limit}]"], [built("wild"), "null", "default", 1])
        assert r.status == 0, r
        line, = jab.run("view", path).output.splitlines()
        assert line.endswith(f" text={shown}"), line
        row, = jab.run("view", "--json", path).rows
        assert row["fields"]["text"] == ("good" if limit == 5 else {"cut": "good"[:limit]}), row
