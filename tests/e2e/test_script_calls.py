# SPDX-License-Identifier: MIT
"""call: and return probes: paired under recursion, left by longjmp or an exception, tail calls, threads."""
import re

import pytest

import jab
import scripts
from scripts import Script, histogram, keyed, scalar, told


def run(prog, text, *args, options=()):
    r = scripts.run(text, prog, *args, options=options)
    assert r.status == 0, r
    return r


def test_entry_arguments_and_results(built):
    r = run(built("script"), "call:exe:take { @n = sum(n); @ret = sum(retval) } call:exe:take { @w[str(s)] = count() } "
            "call:exe:take { @i[it->id] = sum(n) }",
            "tell", 300)
    c = told(r.stdout)
    assert (scalar(r.output, "n"), scalar(r.output, "ret")) == (c["sum"], c["ret_sum"])
    assert keyed(r.output, "w") == {k: str(v[0]) for k, v in c["word"].items()}
    assert keyed(r.output, "i") == {k: str(v[1]) for k, v in c["item"].items()}
    assert not r.stderr, r


def test_conditions(built):
    r = run(built("script"), "call:exe:take /n > 100/ { @pos = count() } call:exe:take /retval > 100/ { @r = count() } "
            "call:exe:take /duration >= 0 && n > 100/ { @d = count() }", "tell", 300)
    c = told(r.stdout)
    assert scalar(r.output, "pos") == scalar(r.output, "d") == c["pos"] and not r.stderr, r
    assert 0 < int(scalar(r.output, "r")) < 300


def test_recursion(built):
    r = run(built("script"), """call:exe:sink_in { @by[arg0] = count(); @ret[arg0] = max(retval); @low[arg0] = min(retval);
        @d[arg0] = min(duration); @all = count(); @h = hist(duration) }
        uprobe:exe:sink_in { @in = count() } uretprobe:exe:sink_in { @out = count() }""", "deep", 50, 20)
    assert keyed(r.output, "by") == {str(k): "50" for k in range(1, 21)}
    # each level returns the sum of all depths below: the one that belongs to its own entry
    want = {str(k): str(k * (k + 1) // 2) for k in range(1, 21)}
    assert keyed(r.output, "ret") == want and keyed(r.output, "low") == want
    d = {int(k): int(v) for k, v in keyed(r.output, "d").items()}
    assert all(d[k] <= d[k + 1] for k in range(1, 20)), d
    assert scalar(r.output, "all") == scalar(r.output, "in") == scalar(r.output, "out") == "1000"
    assert sum(histogram(r.output, "h").values()) == 1000


@pytest.mark.parametrize("saved, most", [("", 16384), ("@s = sum((arg1 ^ arg2 ^ arg3 ^ arg4 ^ arg5) & 1);", 2048)])
def test_deep_recursion(built, saved, most):
    """Deeper than calls are kept: those are counted, the rest is right, the program does not notice."""
    r = run(built("script"), "call:exe:sink_in { @all = count(); @bad = sum(retval != arg0 * (arg0 + 1) / 2 ? 1 : 0); %s }" % saved,
            "deep", 3, 40000, options=["-v"])
    c = told(r.stdout)
    assert c["calls"] == "120000" and c["sum"] == str(3 * 40000 * 40001 // 2)
    assert scalar(r.output, "bad") == "0"
    missed = sum(int(x) for x in re.findall(r"sink_in: (\d+) ", r.stderr))
    assert int(scalar(r.output, "all")) + missed == 120000 and "because more than about %d were open at once" % most in r.stderr, r


def test_deep_recursion_with_a_condition(built):
    """An exit can't know then whether its entry was lost or not wanted: those that lose their place are counted. The last
    one that came in has its place for sure."""
    r = run(built("script"), "call:exe:sink_in /arg0 % 2 == 0/ { @all = count() } call:exe:sink_in /arg0 == 1/ { @last = count() }",
            "deep", 3, 80000)
    assert 12000 < int(scalar(r.output, "all")) < 120000 and scalar(r.output, "last") == "3"
    said = re.findall(r"^jab: (\d+) calls were given up, because more than about 16384 were open at once$", r.stderr, re.M)
    assert [int(scalar(r.output, "all")) + int(x) for x in said] == [120000] and len(r.stderr.splitlines()) == 1, r


@pytest.mark.parametrize("action, times", [("count()", 0), ("sum(retval + arg0)", 0), ("hist(duration)", 3), ("sum(duration + arg0)", 3)])
def test_the_clock_is_read_where_it_is_asked_for(built, action, times):
    out = jab.run("--dump", "asm", "-e", "call:%s:sink_in { @ = %s }" % (built("script"), action)).output
    assert out.count("(entry)") == out.count("(exit)") == out.count("(left)") == 1 and out.count(" rdtsc") == times, out


def test_longjmp(built):
    r = run(built("script"), "call:exe:leap { @n[left] = count(); @sum = sum(retval); @bad = sum(retval != arg0 + 7 ? 1 : 0) }",
            "jump", 300)
    c = told(r.stdout)
    assert keyed(r.output, "n") == {"return": str(300 - int(c["left"])), "longjmp": c["left"]}
    assert (scalar(r.output, "sum"), scalar(r.output, "bad")) == (c["sum"], "0")


def test_longjmp_and_a_condition(built):
    """Who is not watched is not taken for one that was, never returned, and had the same place on the stack."""
    r = run(built("script"), "call:exe:leap /arg0 % 3 == 0/ { if (left == \"return\") { @never[arg0] = count() } } "
            "call:exe:leap /arg0 % 6 == 0 || arg0 % 6 == 1/ { if (left == \"return\") { @n = count() } @bad = sum(retval != arg0 + 7 ? 1 : 0) }",
            "jump", 300)
    assert "@never" not in r.output and (scalar(r.output, "n"), scalar(r.output, "bad")) == ("50", "0"), r


def test_exceptions(built):
    r = run(built("throw"), """call:exe:source { @["source", left] = count() } call:exe:shop::through { @["shop::through", left] = count() }
        call:exe:shop::rethrow { @["shop::rethrow", left] = count() }
        call:exe:catcher { @["catcher", left] = count(); @r[arg0] = sum(retval) }""", 400)
    want = {}
    for name, entries, returns in (x.split() for x in r.stdout.splitlines() if not x.startswith("sum")):
        want.update({f"{name}, {how}": str(n) for how, n in (("return", int(returns)), ("thrown", int(entries) - int(returns))) if n})
    assert keyed(r.output, "") == want
    got = {int(k): int(v) for k, v in keyed(r.output, "r").items()}
    assert sum(got.values()) == int(re.search(r"^sum (\S+)", r.stdout, re.M)[1])
    assert got[1] == -1 and got[4] == -1 and got[2] == 5


def test_tail_calls(built):
    r = run(built("script"), "call:exe:tail { @n = count(); @a = sum(arg0) } call:exe:tail_end { @end = count(); @sum = sum(retval) }",
            "tail", 100)
    c = told(r.stdout)
    assert (scalar(r.output, "end"), scalar(r.output, "sum")) == ("100", c["sum"])
    assert scalar(r.output, "n") == "100" and scalar(r.output, "a") == str(sum(range(100)))


def test_threads(built):
    r = run(built("script"),  "call:exe:take { @n = count(); @bad = sum(retval != arg0 * 3 - it->id ? 1 : 0) } "
            "call:exe:take { @k[it->id] = count() }",
            "threads", 8, 20000)
    assert scalar(r.output, "n") == "160000" and scalar(r.output, "bad") == "0"
    assert keyed(r.output, "k") == {x.split()[2]: x.split()[1] for x in r.stdout.splitlines() if x.startswith("item")}


def test_by_hand_with_the_thread_as_key(built):
    """As everybody writes it: the start kept by thread, taken out at the return."""
    r = run(built("script"), """uprobe:exe:take { @start[tid] = nsecs; @arg[tid] = n }
        uretprobe:exe:take /@start[tid]/ { @ns = hist(nsecs - @start[tid]); @n = count(); @sum = sum(@arg[tid]);
            delete(@start[tid]); delete(@arg[tid]) }""", "threads", 8, 5000)
    c = r.stdout.splitlines()
    assert scalar(r.output, "n") == "40000" and f"sum {scalar(r.output, 'sum')}" in c
    assert sum(histogram(r.output, "ns").values()) == 40000
    assert "@start" not in r.output, r.output


def test_coroutines(target):
    """Calls that are open on many stacks of one thread at a time; those that were open before are said."""
    t = target("contexts", 7)
    with Script("call:exe:one_turn { @n = count(); @bad = sum(retval != x * 3 + 1 ? 1 : 0) } call:exe:pause_here { @p = count() } "
                "call:exe:jump_back { @never = count() }", t.pid) as s:
        t.run(700)
        r = s.stop()
    n = int(scalar(r.output, "n"))
    before = [int(x) for x in re.findall(r"one_turn: (\d+) returns", r.stderr)]
    assert r.status == 0 and scalar(r.output, "bad") == "0" and n + sum(before) == 700 and n >= 693, r
    assert "@never" not in r.output
    t.stop()


def test_calls_that_were_open_before(target):
    """Each coroutine sleeps in a call when we come. That is no call of ours, and is said."""
    t = target("contexts", 3)
    with Script("call:exe:one_turn { @n = count() }", t.pid) as s:
        t.run(30)
        r = s.stop()
    assert r.status == 0 and "one_turn: 3 returns of calls that began before" in r.stderr, r
    assert scalar(r.output, "n") == "27"
    t.stop()
