# SPDX-License-Identifier: MIT
"""jab view on traces that tests/e2e/ctfwrite.c makes: lines, JSON, filters, sums, names, damage."""
import json
import os
import re
import subprocess

import pytest

import jab
from test_ctf import TOOL, babeltrace, events, tool

pytestmark = pytest.mark.skipif(not os.access(TOOL, os.X_OK), reason="tests are not built")


@pytest.fixture
def trace(tmp_path):
    tool("write", tmp_path / "t", 11, 2000)
    return tmp_path / "t"


def heads(text):
    """(time, cpu, pid, tid, rest) of each line."""
    found = [re.match(r"(\d+)\.(\d{9}) \[(\d+|---)\] (?:\S+ )?(\d+)/(\d+) (.*)", x) for x in events(text)]
    return [(int(m[1]) * 10**9 + int(m[2]), None if m[3] == "---" else int(m[3]), int(m[4]), int(m[5]), m[6])
            for m in found]


def test_all_events_and_their_lines(trace):
    r = jab.run("view", trace)
    assert r.status == 0, r.stderr
    lines = r.output.splitlines()
    assert lines == tool("read", trace).splitlines()[:-1]
    assert len(heads(r.output)) == 2000
    lost = babeltrace(trace)[1]
    assert f"{lost} events were lost" in r.stderr


def test_json_says_the_same(trace):
    plain = heads(jab.run("view", trace).output)
    r = jab.run("view", "--json", trace)
    assert r.status == 0, r.stderr
    *objects, last = [json.loads(x) for x in r.output.splitlines()]
    assert last == {"summary": {"events": 2000, "lost": babeltrace(trace)[1], "damaged": 0}}
    assert [(o["time"], o["cpu"], o["pid"], o["tid"]) for o in objects] == [x[:4] for x in plain]
    for o, x in zip(objects, plain):
        assert set(o) == {"time", "cpu", "pid", "tid", "comm", "probe", "fields"}
        assert o["probe"].encode("ascii", "replace")[:6].decode() == x[4][:6] or "\\" in x[4]
        for name, v in o["fields"].items():
            if isinstance(v, int) and o["probe"] == 'libc:num"bers\\' and name in "abcdef":
                assert f" {name}={v}" in x[4] + " "


def test_filters(trace):
    everything = heads(jab.run("view", trace).output)
    start, end = everything[0][0], everything[-1][0]
    third, half = start + (end - start) // 3, start + (end - start) // 2

    def seconds(ns):
        return f"{ns // 10**9}.{ns % 10**9:09}"

    def view(*options):
        r = jab.run("view", *options, trace)
        assert r.status == 0, r.stderr
        return heads(r.output)

    assert view("--from", seconds(third)) == [x for x in everything if x[0] >= third]
    assert view("--to", seconds(half)) == [x for x in everything if x[0] <= half]
    assert view("--from", "+" + seconds(third - start), "--to", "+" + seconds(half - start)) == \
        [x for x in everything if third <= x[0] <= half]
    assert view("--cpu", "7") == [x for x in everything if x[1] == 7]
    assert view("--pid", "100", "-p", "101") == [x for x in everything if x[2] in (100, 101)]
    assert view("--tid", everything[5][3]) == [x for x in everything if x[3] == everything[5][3]]
    assert view("--probe", "exe:*") == [x for x in everything if x[4].startswith("exe:")]
    assert view("--probe", "exe:nothing", "--probe", "short*", "--cpu", "0x0") == \
        [x for x in everything if re.match("exe:nothing|short", x[4]) and x[1] == 0]
    assert view("-n", "17") == everything[:17]
    assert view("--probe", "short one", "-n", "3") == [x for x in everything if x[4].startswith("short one")][:3]
    assert view("--probe", "nothing like it") == []


@pytest.mark.parametrize("args", [["--from", "x"], ["--to", "1.2.3"], ["--from", "+"], ["--tid", "-1"], ["--cpu", "1x"],
                                  ["--pid", "99999999999"], ["-n"], ["another"], ["--", "ls"]])
def test_wrong_usage(trace, args):
    r = jab.run("view", trace, *args)
    assert r.status == 2 and "try `jab view --help`" in r.stderr, r


def test_stats(trace):
    everything = heads(jab.run("view", trace).output)
    r = jab.run("view", "--stats", "--fields", "--json", trace)
    assert r.status == 0, r.stderr
    rows = [json.loads(x) for x in r.output.splitlines()]
    probes = {x["probe"]: x for x in rows if "probe" in x}
    streams = [x for x in rows if "stream" in x]
    assert sum(x["events"] for x in probes.values()) == sum(x["events"] for x in streams) == 2000
    assert all(x["cpu"] is None or x["cpu"] < 1 << 16 for x in streams), streams
    assert sum(x["lost"] for x in streams) == rows[-1]["summary"]["lost"] == babeltrace(trace)[1]
    short = [x for x in everything if x[4].startswith("short one")]
    got = probes["short one"]
    assert (got["events"], got["first"], got["last"]) == (len(short), short[0][0], short[-1][0])
    values = [int(re.search(r"event=0x([0-9a-f]+)", x[4])[1], 16) for x in short]
    values = [v - 65536 if v > 32767 else v for v in values]
    assert (got["fields"]["event"]["min"], got["fields"]["event"]["max"]) == (min(values), max(values))
    assert got["fields"]["event"]["avg"] == pytest.approx(sum(values) / len(values))
    text = jab.run("view", "--stats", trace).output
    assert re.search(rf"^ +{len(short)} .* short one$", text, re.M) and "IN STREAM" in text, text


def build_id(path):
    out = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    m = re.search(r"Build ID: ([0-9a-f]+)", out)
    return m[1] if m else ""


def test_names_of_backtraces(tmp_path, built):
    """The file that was mapped, if it is still the same; otherwise its name alone. The same for threads."""
    path = built("calls")
    syms = jab.symbols(path)
    base = 0x10000000
    at = [base + syms["work"], base + syms["main"] + 9, base + 0xfff00, 0x20000000]
    tool("names", tmp_path / "t", path, build_id(path), *at)
    r = jab.run("view", tmp_path / "t")
    assert r.status == 0, r.stderr
    line, *frames = r.output.splitlines()
    assert line.endswith(" 77/78 exe:f n=5")
    assert frames[:2] == [f"\t{at[0]:#x} calls:work", f"\t{at[1]:#x} calls:main+0x9"]
    assert frames[2].startswith(f"\t{at[2]:#x} calls") and frames[3] == "\t0x20000000"
    o = jab.run("view", "--json", tmp_path / "t").rows[0]
    assert o["comm"] == "worker"
    assert o["fields"]["backtrace"][0] == {"address": f"{at[0]:#x}", "name": "calls:work"}
    assert o["fields"]["backtrace"][3] == {"address": "0x20000000"}
    # our own events are shown when asked for
    assert len(events(jab.run("view", "--probe", "jab:*", tmp_path / "t").output)) == 2
    tool("names", tmp_path / "u", path, "00" * 20, *at)
    r = jab.run("view", "-v", "--probe", "exe:f", tmp_path / "u")
    assert r.output.splitlines()[1] == f"\t{at[0]:#x} calls+{syms['work']:#x}"
    assert "build id differs" in r.stderr


def test_a_return_address_belongs_to_its_call(tmp_path, built):
    """Behind a call at a function's end the next function begins."""
    path = built("calls")
    syms = jab.symbols(path)
    end = 0x10000000 + syms["work"]
    tool("names", tmp_path / "t", path, build_id(path), end, end)
    frames = jab.run("view", tmp_path / "t").output.splitlines()[1:]
    assert frames[0].endswith(" calls:work") and not frames[1].endswith(" calls:work"), frames


def test_damage_is_told_and_the_rest_shown(trace):
    everything = jab.run("view", trace).output.splitlines()
    path = trace / "stream_1_0"
    size = path.stat().st_size
    os.truncate(path, size - 5000)
    r = jab.run("view", trace)
    assert r.status == 1
    assert re.search(r"damaged: stream_1_0: no whole packet at byte \d+ of \d+", r.stderr), r.stderr
    shown = r.output.splitlines()
    assert 0 < len(shown) < len(everything) and set(shown) < set(everything)
    path.unlink()
    r = jab.run("view", trace)
    assert len(heads(r.output)) > 0
    with open(trace / "stream_0_0", "r+b") as f:
        f.seek(4096 + 88 + 4)
        f.write(b"\xff\xff")
    r = jab.run("view", trace)
    assert r.status == 1 and "stream_0_0: no whole event at byte" in r.stderr, r.stderr


def test_a_missing_part_is_told(tmp_path):
    archive, whole = tmp_path / "a.tar", tmp_path / "t"
    with open(archive, "wb") as f:
        tool("write", f"fd:{f.fileno()}", 7, 2000, pass_fds=[f.fileno()])
    whole.mkdir()
    subprocess.run(["tar", "xf", archive, "-C", whole], check=True, timeout=jab.LIMIT)
    assert jab.run("view", whole).status == 0
    (whole / "stream_0_2").unlink()
    r = jab.run("view", whole)
    assert r.status == 1 and "packet 3 is missing" in r.stderr, r.stderr


def test_what_is_no_trace(tmp_path):
    assert "no such" in jab.run("view", tmp_path / "x").stderr.lower()
    assert jab.run("view", tmp_path).status == 1
    (tmp_path / "metadata").write_text("/* CTF 1.8 */\n")
    r = jab.run("view", tmp_path)
    assert r.status == 1 and "not a trace of jab" in r.stderr


def test_output_to_a_file_and_a_full_disk(trace, tmp_path):
    assert jab.run("view", "-o", tmp_path / "out", trace).output == ""
    assert (tmp_path / "out").read_text() == jab.run("view", trace).output
    r = jab.run("view", "-o", "/dev/full", trace)
    assert r.status == 1 and "/dev/full can't be written" in r.stderr, r
