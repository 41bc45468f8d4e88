# SPDX-License-Identifier: MIT
"""Calls that are left by an exception, a panic or longjmp: an event each, when their frame goes away, and the program does
the same as without."""
import collections
import json
import re
import shutil
import subprocess

import pytest

import jab
import scripts
from scripts import keyed, scalar

# Not seen: frames of coroutines that are jumped away from, at the end; and what setcontext() does.
STAY = {"yields", "escapes"}


def told(text):
    """{function: (called, returned, left)}"""
    return {x.split()[0]: tuple(map(int, x.split()[1:])) for x in text.splitlines() if not x.startswith("sum")}


def plain(path, *args):
    return subprocess.run([str(path), *map(str, args)], capture_output=True, text=True, check=True).stdout


def events(path, names, args, tmp_path, *fields):
    """[(function, fields)] in their order, and what the program said."""
    out = tmp_path / "out"
    r = jab.run("trace", "--json", "-o", out, *(" ".join((f"call:exe:{n}", *fields)) for n in names), "--", path, *map(str, args))
    assert r.status == 0, r
    found = [json.loads(x) for x in jab.lines_of(out.read_text())]
    return [(x["probe"].split(":")[-1], x["fields"]) for x in found if "fields" in x], r


def counted(found):
    n = collections.Counter((name, f.get("left", "return")) for name, f in found)
    assert not any("left" in f and f["retval"] != {"unknown": "none"} for _, f in found if "retval" in f)
    return n


@pytest.mark.parametrize("build", ["left", "left_static", "left_static_gcc", "left_clang", "left_rs"])
@pytest.mark.parametrize("threads", [1, 8])
def test_exceptions(built, tmp_path, build, threads):
    """Through several frames, with cleanups, thrown again, caught where they were thrown; threads that end in a call."""
    path, args = built(build), (threads, 64)
    want = plain(path, *args)
    found, r = events(path, told(want), args, tmp_path)
    assert r.stdout == want or r.output == want, r
    n = counted(found)
    assert {k: (n[k, "return"], n[k, "thrown"]) for k in told(want)} == {k: v[1:] for k, v in told(want).items()}
    assert not [k for k in n if k[1] == "longjmp"]


@pytest.mark.parametrize("build", ["leaps", "leaps_static", "leaps_musl", "leaps_fortified"])
@pytest.mark.parametrize("threads", [0, 8])
def test_longjmp(built, tmp_path, build, threads):
    """To the next frame and further, out of signal handlers on this stack and on another one; and not what coroutines do."""
    path, args = built(build), (threads, 64)
    want = plain(path, *args)
    found, r = events(path, told(want), args, tmp_path)
    assert r.stdout == want or r.output == want, r
    n = counted(found)
    assert {k: (n[k, "return"], n[k, "longjmp"]) for k in told(want)} == \
        {k: (v[1], 0 if k in STAY else v[2]) for k, v in told(want).items()}
    assert not [k for k in n if k[1] == "thrown"]


def test_what_is_not_seen_is_counted(built, tmp_path):
    """By the next call that finds the place of the last one taken."""
    found, r = events(built("leaps"), ["escapes", "inner"], (0, 16), tmp_path)
    assert "escapes" not in [n for n, _ in found]
    assert re.findall(r"call:exe:(\w+): (\d+) calls were left in a way that is not watched, and have no event", r.stderr) == [("escapes", "4")], r


def test_order_and_durations(built, tmp_path):
    """The innermost first; each has lasted as long as what was done in it, and no longer than what is around it."""
    found, _ = events(built("left"), ["bottom", "through", "again", "catcher", "tidy"], (1, 32), tmp_path)
    rounds, this = [], []
    for name, f in found:
        this.append((name, f.get("left"), f["duration"]))
        if name == "catcher":
            rounds.append(this)
            this = []
    assert len(rounds) == 32
    for i, this in enumerate(rounds):
        left = "thrown" if i % 4 < 2 else None
        # tidy() is the cleanup of through(): that is not gone before it is done
        assert [x[:2] for x in this] == [("bottom", left), ("tidy", None), ("through", left), ("again", left), ("catcher", None)] or \
            (left is None and [x[0] for x in this] == ["bottom", "tidy", "through", "again", "catcher"]), (i, this)
        d = {x[0]: x[2] for x in this}
        assert 20000 <= d["bottom"] <= d["through"] <= d["again"] <= d["catcher"], this


def test_recursion(built, tmp_path):
    """Many frames of one function at once, over more than one page of the stack."""
    found, _ = events(built("left"), ["deep"], (1, 64), tmp_path)
    want, depths = [], [i % 64 + 1 for i in range(0, 64, 8)]
    for n in depths:
        want += list(range(n + 1))
    assert [f["n"] for _, f in found] == want and all(f["left"] == "thrown" for _, f in found)
    assert all(a["duration"] <= b["duration"] for (_, a), (_, b) in zip(found, found[1:]) if b["n"])


def test_script(built):
    """In a script the clause runs, and `left` says how the call has ended."""
    path = built("left")
    want = told(plain(path, 2, 64))
    text = " ".join("call:exe:%s { @[\"%s\", left] = count(); @d[left] = min(duration) }" % (n, n) for n in ("bottom", "catcher", "deep"))
    r = scripts.run(text, path, 2, 64)
    assert r.status == 0, r
    got = {k: int(v) for k, v in keyed(r.output, "").items()}
    expect = {}
    for n in ("bottom", "catcher", "deep"):
        expect.update({f"{n}, {how}": v for how, v in (("return", want[n][1]), ("thrown", want[n][2])) if v})
    assert got == expect, r


def test_script_conditions(built):
    path = built("leaps")
    want = told(plain(path, 2, 64))
    r = scripts.run("""call:exe:inner /left == "longjmp"/ { @gone = count(); @i = sum(arg0) }
        call:exe:inner /left == "return"/ { @back = count(); @r = sum(retval - arg0) }
        call:exe:inner /retval >= 0/ { @known = count() }""", path, 2, 64)
    assert r.status == 0 and (scalar(r.output, "gone"), scalar(r.output, "back")) == (str(want["inner"][2]), str(want["inner"][1])), r
    assert scalar(r.output, "r") == "0" and scalar(r.output, "known") == str(want["inner"][1])
    assert int(scalar(r.output, "i")) == 3 * sum(i for i in range(64) if i % 4 in (1, 2))
    # what a retval is not known for is said
    assert re.search(r"%d times a condition, key or value could not be read" % want["inner"][2], r.stderr), r


def test_a_variable_of_that_name(built):
    """`left` is a word of the language in calls only, and in fields the program's own comes first."""
    r = jab.run("--dump", "ir", "-e", "uprobe:%s:bottom { @ = left }" % built("left"))
    assert r.status != 0 and "left" in r.stderr, r


def test_fields(built, tmp_path):
    """Registers of a frame that is gone are not known; what the entry saved is."""
    found, _ = events(built("leaps"), ["inner"], (0, 16), tmp_path, "arg0", "rbx", "rsp", "how=left", "retval")
    for i, (_, f) in enumerate(found):
        if i % 4 in (1, 2):
            assert (f["how"], f["rbx"], f["retval"], f["left"]) == ("longjmp", {"unknown": "none"}, {"unknown": "none"}, "longjmp"), f
        else:
            assert f["how"] == "return" and isinstance(f["retval"], int) and "left" not in f, f
        assert int(str(f["arg0"]), 0) == i and int(str(f["rsp"]), 0) == int(str(found[0][1]["rsp"]), 0), f


def test_libraries_that_come_and_go(built):
    """The unwinder comes with a library, goes with it and comes back; so does the code that ends its calls."""
    lib, host = built("libleft.so"), built("left_host")
    r = scripts.run("call:libleft.so:plug_bottom { @b[left] = count() } call:libleft.so:plug_top { @t[left] = count() }", host, lib, 4)
    assert r.status == 0 and plain(host, lib, 4) in r.stdout, r
    assert keyed(r.output, "b") == {"return": "200", "thrown": "200"} and keyed(r.output, "t") == {"return": "400"}, r


def test_leavers_stay(built):
    """A call that seems to be open when its library goes: frames go away over it, and there is code for it still."""
    lib, host = built("libleft.so"), built("left_host")
    r = scripts.run("call:libleft.so:plug_escape { @[left] = count() }", host, lib, 3)
    assert r.status == 0 and plain(host, lib, 3) in r.stdout and keyed(r.output, "") == {"longjmp": "3"}, r


def test_comes_and_goes_while_frames_go_away(built, tmp_path):
    """Pads, leavers and landings are taken out under threads that are in the middle of them."""
    t = subprocess.Popen([str(built("left")), "4", "1000000000"], stdout=subprocess.DEVNULL)
    thrown = n = 0
    try:
        while n < 4 or not thrown:
            out = tmp_path / f"out{n}"
            r = jab.run("trace", "-d", "0.1", "-o", out, "-p", t.pid, *(f"call:exe:{x}" for x in ("bottom", "through", "deep")))
            assert r.status == 0 and t.poll() is None, r
            thrown += out.read_text().count('left="thrown"')
            n += 1
        assert not [x for x in jab.maps(t.pid) if "jab-" in str(x)]
    finally:
        t.kill()
        t.wait()


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="babeltrace2 is not installed")
def test_record(built, tmp_path):
    path = built("left")
    want = told(plain(path, 2, 64))
    r = jab.run("record", "-o", tmp_path / "trace", "call:exe:bottom", "call:exe:catcher", "--", path, 2, 64)
    assert r.status == 0, r
    out = subprocess.run(["babeltrace2", str(tmp_path / "trace")], capture_output=True, text=True, check=True).stdout
    n = collections.Counter((m[1], m[2]) for m in re.finditer(r":(bottom|catcher): .*?(left = \"\w+\"|\}$)", out, re.M))
    assert n["bottom", 'left = "thrown"'] == want["bottom"][2] and n["bottom", "}"] == want["bottom"][1], out[:2000]
    assert n["catcher", "}"] == want["catcher"][1]
    shown = jab.run("view", tmp_path / "trace")
    assert shown.status == 0 and shown.output.count('retval=<none>') == want["bottom"][2], shown.output[:2000]


def test_attached(target):
    """A process that is there already; nothing of it is left in it afterwards."""
    t = target("script", "serve")
    before = jab.snapshot(t.pid)
    with scripts.Script("call:exe:leap { @[left] = count() }", t.pid) as s:
        lines = [t.ask("jump 300")]
        while lines[-1] != "told":
            lines.append(t.line())
        r = s.stop()
    left = int(scripts.told("\n".join(lines))["left"])
    assert keyed(r.output, "") == {"longjmp": str(left), "return": str(300 - left)} and left, r
    jab.assert_same(before, t.pid)
