# SPDX-License-Identifier: MIT
"""What makes lines readable every day: names of threads, times, text, colours, short names; and filters of threads and slow calls."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import jab
from targets import LIMIT

LINE = re.compile(r"(\S+) \[(?:\d+|---)\] (?:(\S+) )?(\d+)/(\d+) (\S+?:.*?)(?= \w+=|$)(.*)")


def lines(text):
    """(time, comm, tid, probe, fields) of each line."""
    return [(m[1], m[2], int(m[4]), m[5], m[6].strip()) for m in map(LINE.match, text.splitlines()) if m]


def trace(tmp_path, *args, program="daily", rounds=20, built=None, **more):
    r = jab.run("trace", "-o", tmp_path / "out", *args, "--", built(program), rounds, **more)
    assert r.status == 0, r
    r.lines = lines((tmp_path / "out").read_text())
    return r


@pytest.fixture
def daily(built, tmp_path):
    return lambda *args, **more: trace(tmp_path, *args, built=built, **more)


def test_lines_have_the_name_of_the_thread(daily):
    got = daily("exe:greet").lines
    assert len(got) == 40
    assert {x[1] for x in got} == {"daily", 'odd\\x20\\"name'}
    assert len({(x[1], x[2]) for x in got}) == 2


@pytest.mark.parametrize("probe", ["exe:greet", "exe:greet $params", "call:exe:greet"])
def test_text_is_shown_without_asking(daily, probe):
    for x in daily(probe).lines:
        assert re.match(r'name="world" buf=0x\w+ bytes=0x\w+ n=\d+', x[4]), x
    # who names it gets what he names
    assert all(re.fullmatch(r"name=0x\w+ n=\d+", x[4]) for x in daily("exe:greet name n").lines)


def test_text_of_cxx_and_names(daily):
    got = daily("exe:take*").lines
    assert len(got) == 40 and {re.match(r's="(\w+)"', x[4])[1] for x in got} == {"a", "longer"}
    assert {x[3] for x in got} == {"daily:take(std::string const&, std::map<int, std::string>&)"}
    full = {x[3] for x in daily("--full-names", "exe:take*").lines}
    assert len(full) == 1 and "basic_string<char, std::char_traits<char>, std::allocator<char>" in full.pop()


def test_names_in_tables(built, tmp_path):
    for options, name in ((), "take(std::string const&, std::map<int, std::string>&)"), (("--full-names",), "take(std::__cxx11::basic_string<"):
        r = jab.run("count", "-o", tmp_path / "c", *options, "exe:take*", "--", built("daily"), 4)
        assert r.status == 0 and "daily:" + name in (tmp_path / "c").read_text(), r


def test_slow_calls(daily):
    """The program says how many calls slept."""
    r = daily("--slower", "15ms", "call:exe:take*")
    assert len(r.lines) == int(r.output) == 10
    assert all(int(re.search(r"duration=(\d+)", x[4])[1]) >= 15e6 and 's="longer"' in x[4] for x in r.lines)
    assert not daily("--slower", "100s", "call:exe:take*").lines
    both = daily("--slower", "15ms", 'call:exe:take* duration if tid() == 1').lines
    assert not both         # both conditions


def test_filters_of_threads(daily, target, tmp_path):
    got = daily("--comm", 'odd "name', "exe:greet n").lines
    assert len(got) == 20 and {x[1] for x in got} == {'odd\\x20\\"name'}
    assert not daily("--comm", "other", "exe:greet").lines
    assert len(daily("--comm", "other", "--comm", "daily", "exe:greet if n < 5").lines) == 5
    t = target("spin", 3)
    tids = sorted(int(x) for x in os.listdir(f"/proc/{t.pid}/task"))
    r = jab.run("trace", "-n", 30, "--tid", tids[-1], "-p", t.pid, "exe:*")
    assert r.status == 0 and {x[2] for x in lines(r.output)} == {tids[-1]}, r


@pytest.mark.parametrize("args,says", [
    (["--slower", "1ms", "exe:greet"], "--slower is for call probes"),
    (["--slower", "1", "call:exe:greet"], "not a valid value for --slower"),
    (["--tid", "x", "exe:greet"], "'x' is not a thread's number"),
    (["--time", "noon", "exe:greet"], "--time takes boot, wall, relative or delta"),
    (["--color", "red", "exe:greet"], "--color takes auto, always or never"),
])
def test_wrong_values(built, args, says):
    r = jab.run("trace", *args, "--", built("daily"), 1)
    assert r.status == 2 and says in r.stderr, r


def seconds(text):
    h, m, s = text.split(":")
    return int(h) * 3600 + int(m) * 60 + float(s)


def test_times(daily):
    env = dict(os.environ, TZ="UTC")
    before = time.time() % 86400
    wall = [seconds(x[0]) for x in daily("--time=wall", "exe:greet", env=env).lines]
    assert wall and (wall == sorted(wall) or max(wall) - min(wall) > 86000)
    assert (wall[0] - before) % 86400 < LIMIT
    assert daily("--time=wall", "exe:greet", env=dict(os.environ, TZ="UTC-1")).lines[0][0][:2] != \
        time.strftime("%H", time.gmtime()) or time.gmtime().tm_min == 59
    relative = [float(x[0]) for x in daily("--time=relative", "exe:greet").lines]
    assert relative[0] == 0 and relative == sorted(relative) and .08 < relative[-1] < LIMIT
    delta = [float(x[0]) for x in daily("--time=delta", "exe:greet").lines]
    assert delta[0] == 0 and .08 < sum(delta) < LIMIT and max(delta) < sum(delta)


def test_colours(daily, tmp_path):
    def text(*args):
        daily("-n", 1, *args, "exe:greet")
        return (tmp_path / "out").read_text()
    assert "\033[" in text("--color=always") and "\033[" not in text("--color=auto") + text("--color", "never") + text("--no-colour")


def babeltrace_times(directory, env):
    out = subprocess.run(["babeltrace2", "--no-delta", str(directory)], capture_output=True, text=True, timeout=LIMIT, check=True, env=env)
    return [seconds(m[1]) for m in re.finditer(r"^\[(\S+)\] .*daily:greet", out.stdout, re.M)]


def test_wall_clock_times_of_traces(built, tmp_path):
    """babeltrace2 and jab view show the same, which is the time of day; and the clock may be set meanwhile."""
    step, env = tmp_path / "step", dict(os.environ, TZ="UTC")
    preloaded = dict(env, LD_PRELOAD=str(built("libclockstep.so")), CLOCK_STEP=str(step))
    before = time.time() % 86400
    p = subprocess.Popen([str(built("daily")), "400"], stdout=subprocess.DEVNULL)
    r = subprocess.Popen([jab.JAB, "record", "-v", "-o", str(tmp_path / "t"), "-p", str(p.pid), "exe:greet"], stderr=subprocess.PIPE, text=True,
                         env=preloaded)
    while "active" not in r.stderr.readline():
        pass
    time.sleep(.2)
    step.write_text("")         # from now on the clock is an hour ahead
    time.sleep(.2)
    r.send_signal(signal.SIGINT)
    said = r.communicate(timeout=LIMIT)[1]
    p.kill()
    p.wait()
    assert r.returncode == 0 and re.search(r"clock was set 3600\.\d\d\d s forward during the run", said), said
    ours = [seconds(x[0]) for x in lines(jab.run("view", "--time=wall", tmp_path / "t", env=env).output)]
    theirs = babeltrace_times(tmp_path / "t", env)
    assert len(ours) == len(theirs) > 10 and all(abs(a - b) < 1e-6 for a, b in zip(ours, theirs)), (ours[:3], theirs[:3])
    after = time.time()
    assert all((x - before) % 86400 <= (after - before) % 86400 for x in ours), (before, ours[0], ours[-1])
    boot = [float(x[0]) for x in lines(jab.run("view", tmp_path / "t").output)]
    offset = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)
    assert all(abs((b + offset - a) % 86400 - 43200) > 43199 for a, b in zip(ours, boot))
    objects = [json.loads(x) for x in jab.run("view", "--json", "--time=wall", tmp_path / "t").output.splitlines()[:-1]]
    assert all(abs(o["time"] / 1e9 - b - offset) < 1 for o, b in zip(objects, boot))
