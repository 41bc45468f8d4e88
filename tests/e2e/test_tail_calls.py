# SPDX-License-Identifier: MIT
"""A call lasts until control is back in its caller, also where its function ends with a jump to another one (tests/prog/tails.cc)."""
import json
import os
import re
import statistics
import subprocess
import time

import pytest

import beside
import jab
import scripts
from scripts import keyed, scalar
from targets import LIMIT

STRAIGHT = ["direct", "twice", "maybe", "both"]
ROUND = ["even", "odd", "round_one", "round_two"]       # come back to themselves
UNKNOWN = ["through_plt", "by_pointer", "to_pointer"]
NOT_KNOWN = "calls went on in a function that was not known"
LEARNED = re.compile(r"probes at return addresses .*: [1-9]")


class Running(subprocess.Popen):
    def __init__(self, *args):
        super().__init__([*map(str, args)], stdout=subprocess.DEVNULL)

    def __exit__(self, *args):
        self.kill()
        super().__exit__(*args)


def told(text):
    """{name: (calls, returns, sum)} as the program has counted them itself."""
    return {n: tuple(map(int, rest)) for n, *rest in (line.split() for line in text.splitlines())}


def until(script, enough):
    """Wait until what a script has printed so far is enough."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        text = os.pread(script.out.fileno(), 1 << 26, 0).decode(errors="replace")
        if enough(text[:text.rfind("\n") + 1]):
            return
        time.sleep(.05)
    raise AssertionError(f"not enough: {text[-500:]!r} {script.stderr[-20:]}")


def are_numbers(values, n):
    return len(values) >= n and all(re.fullmatch(r"\d+", v) for v in values[-n:])


def clauses(kind, names):
    return " ".join(f'{kind}:exe:{n} {{ @n["{n}"] = count(); @s["{n}"] = sum((int64)retval) }}' for n in names)


def numbers(output):
    return {n: (int(v), int(keyed(output, "s").get(n, 0))) for n, v in keyed(output, "n").items()}


@pytest.mark.parametrize("args", [(40,), (40, 4)])
def test_returns(built, args):
    names = STRAIGHT + ROUND + ["via"]
    r = scripts.run(clauses("uretprobe", names), built("tails"), *args)
    c = told(r.stdout)
    assert numbers(r.output) == {n: c[n][1:] for n in names}, r
    assert NOT_KNOWN not in r.stderr, r


@pytest.mark.parametrize("args", [(40,), (40, 4)])
def test_calls(built, args):
    names = STRAIGHT + ["via"]
    r = scripts.run(clauses("call", names), built("tails"), *args)
    c = told(r.stdout)     # calls that are left by an exception are calls, too; they have no value
    assert numbers(r.output) == {n: (c[n][0], c[n][2]) for n in names} and r.status == 0, r
    assert NOT_KNOWN not in r.stderr and "duration" not in r.stderr, r


def test_calls_that_come_back_to_their_function(built):
    """They are the same call, which has one value."""
    r = scripts.run(clauses("call", ROUND), built("tails"), 40)
    firsts = {"even": [n % 7 % 2 == 0 for n in range(40)], "odd": [n % 7 % 2 == 0 for n in range(40) if n % 7],
              "round_one": [None] * 40, "round_two": [None for n in range(40) if n % 9 > 3]}
    got = numbers(r.output)
    assert {n: v[0] for n, v in got.items()} == {n: len(v) for n, v in firsts.items()}, r
    assert all(got[n][1] == sum(firsts[n]) for n in ("even", "odd")), r
    assert NOT_KNOWN not in r.stderr and "not watched" not in r.stderr, r


def test_calls_last_from_their_first_entry(built):
    """Four naps of 300 us, in one function or in two, are one call of the first."""
    r = scripts.run('call:exe:again,call:exe:ping { @n[func, retval] = count(); @d[func] = min(duration) }', built("naps"), 5)
    assert keyed(r.output, "n") == {"again, 5": "5", "ping, 7": "5"}, r
    assert all(1200000 <= int(v) for v in keyed(r.output, "d").values()) and len(keyed(r.output, "d")) == 2, r


TIMED = ["end_short", "end_long", "one_jump", "two_jumps", "naps_before", "on_condition", "by_pointer", "to_pointer", "last_handler",
         "next_handler", "first_handler", "_ZN4Slow3runEl", "_ZN4Wrap3runEl", "_ZN4Both5namedEl", "by_thunk", "ping", "pong", "again", "tight",
         "by_plt"]
NAPS = 60       # rounds


def timed(text):
    """{function: durations in us}, of lines "name ns"."""
    found = {}
    for n, d in re.findall(r"^(\w+) (\d+)$", text, re.M):
        found.setdefault(n, []).append(int(d) / 1000)
    return found


def test_durations_are_those_of_bpftrace(built):
    """Each function's count and the middle one of its durations; bpftrace's own traps take some microseconds of each."""
    why = beside.missing()
    if why:
        pytest.skip(why)
    pairs = "".join(f"""uprobe:<naps>:{n} {{ @d["{n}", tid]++; @s["{n}", tid, @d["{n}", tid]] = nsecs; }}
                    uretprobe:<naps>:{n} {{ printf("{n} %lu\\n", nsecs - @s["{n}", tid, @d["{n}", tid]]); @d["{n}", tid]--; }}""" for n in TIMED)
    calls = "".join(f'call:<naps>:{n} {{ printf("{n} %lu\\n", duration) }}' for n in TIMED)
    theirs, *ours = [timed(run(beside.Case("naps", f"<naps> {NAPS}", text))[0]) for run, text in
                     [(beside.run_bpftrace, pairs), (beside.run_jab, pairs), (beside.run_jab, calls)]]
    assert set(theirs) == set(TIMED)
    assert {n: len(d) for n, d in theirs.items()} == {n: len(d) for n, d in ours[0].items()}
    once = {"ping": NAPS, "pong": NAPS, "again": NAPS, "tight": NAPS}       # what comes back by a jump is one call
    assert {n: len(d) for n, d in ours[1].items()} == {n: once.get(n, len(d)) for n, d in theirs.items()}
    for n, d in theirs.items():
        for own in ours[0], ours[1] if n not in once else ours[0]:
            a, b = statistics.median(d), statistics.median(own[n])
            assert abs(a - b) < 150 + a * .2, (n, a, b)


def test_plain_events(built, tmp_path):
    """Probes without a program: events of fixed fields, one probe for each and one for all."""
    for probes in [f"exe:{n}%return" for n in STRAIGHT + ROUND], ["exe:*%return retval:long"]:
        r = jab.run("trace", "--json", "-o", tmp_path / "out", *probes, "--", built("tails"), 30)
        c = told(r.output)
        events = [o for o in map(json.loads, (tmp_path / "out").read_text().splitlines()) if "fields" in o]
        for n in STRAIGHT + ROUND:
            got = [o["fields"]["retval"] for o in events if o["probe"].endswith(f":{n}%return")]
            assert (len(got), sum(got)) == c[n][1:], (n, probes)


def test_durations_are_nested(built):
    """The inner call ends first, and no call is shorter than the one that it goes on in."""
    order = ["leaf", "direct", "twice"]
    r = scripts.run(" ".join(f'call:exe:{n} {{ printf("{n} %d\\n", duration) }}' for n in order), built("tails"), 60)
    lines = [(n, int(d)) for n, d in re.findall(r"^(\w+) (\d+)$", r.output, re.M)]
    for (a, da), (b, db) in zip(lines, lines[1:]):
        if b != "leaf":
            assert a == order[order.index(b) - 1] and db >= da, (a, da, b, db)
    c = told(r.stdout)
    for n in order[1:]:
        own = [d for m, d in lines if m == n]
        assert len(own) == c[n][1] and max(own) >= 300000, n     # where leaf sleeps


def test_unknown_functions_are_counted_and_said(built):
    """A call whose end is not seen is one all the same; it says so, one by one and for patterns."""
    path = built("tails_lazy")
    for probe in ["call:exe:by_pointer", "call:exe:*_pointer"]:
        r = scripts.run(f"{probe} {{ @n[func] = count(); @d = max(duration) }}", path, 20)
        c = told(r.stdout)
        assert keyed(r.output, "n").get("by_pointer") == str(c["by_pointer"][0]), r
        assert f"{probe}: by_pointer" in r.stderr and "may end with a jump to a function that is not known before" in r.stderr, r
        assert re.search(rf"{re.escape(probe)}: \d+ {NOT_KNOWN}|{re.escape(probe)}: \d+ calls of several functions", r.stderr), r
    r = scripts.run('uretprobe:exe:through_plt { printf("%d\\n", retval) }', path, 1)
    assert r.output.split("\n")[0] in ("<tail call>", "0"), r


@pytest.mark.parametrize("kind", ["call", "uretprobe"])
@pytest.mark.parametrize("name", ["by_pointer", "to_pointer", "through_plt"])
def test_return_addresses_are_learned(built, kind, name):
    """After a while calls end where they return, with their value."""
    with Running(built("tails_lazy"), 1000000, "calm") as t, \
         scripts.Script(f'{kind}:exe:{name} {{ printf("v %d\\n", retval); @n = count() }}', t.pid) as s:
        until(s, lambda text: are_numbers(re.findall(r"^v (.*)$", text, re.M), 20))
        r = s.stop()
    values = re.findall(r"^v (.*)$", r.output, re.M)
    assert int(scalar(r.output, "n")) == len(values)
    assert any(LEARNED.search(x) for x in s.stderr) and re.search(rf"\d+ {NOT_KNOWN}", r.stderr), r


def test_forks(built):
    """A child returns from the function that its parent has jumped to, too."""
    r = scripts.run(clauses("uretprobe", ["forked"]), built("tails"), 6, "fork")
    assert numbers(r.output) == {"forked": (12, 2 * sum(range(1, 7)) + 6000)}, r


def test_what_is_behind_no_call_is_not_learned(built):
    """A word on the stack is a return address only if a call is in front of it: nothing is put there."""
    with Running(built("tails_lazy"), 1000000, "odd") as t, \
         scripts.Script('uretprobe:exe:by_pointer { printf("v %d\\n", retval) }', t.pid) as s:
        until(s, lambda text: text.count("v ") > 2000)      # it takes longer than a look of the tracer's
        r = s.stop()
        assert t.poll() is None
    values = re.findall(r"^v (.*)$", r.output, re.M)
    assert len(values) > 20 and set(values) == {"<tail call>"}, values[-20:]
    assert not LEARNED.search(r.stderr), r


def test_results_with_every_instruction_probed(built):
    """Where there are jumps already, no second one is put over them or over what they lean on."""
    plain = subprocess.run([built("tails_lazy"), "800", "calm"], capture_output=True, text=True, check=True).stdout
    r = scripts.run("insn:exe:one_round { @i = count() } uretprobe:exe:*_pointer,uretprobe:exe:through_plt { @n[func] = count() }",
                    built("tails_lazy"), 800, "calm")
    assert r.stdout == plain, r
    c = told(plain)
    assert keyed(r.output, "n") == {n: str(c[n][1]) for n in UNKNOWN}, r


@pytest.mark.parametrize("kind", ["call", "uretprobe"])
def test_exits_where_many_calls_end(built, kind):
    """More functions jump to one than are followed: no call is lost, and those of the others are said not to be whole."""
    r = scripts.run(f"{kind}:exe:many_* {{ @n = count(); @s = sum((int64)retval); @by[func] = count() }}", built("tails"), 50, "many")
    calls, _, total = told(r.stdout)["many"]
    assert scalar(r.output, "n") == str(calls) and set(keyed(r.output, "by").values()) == {"50"}, r
    early = int(re.search(r"(\d+) calls of several functions went on", r.stderr)[1])
    assert 0 < early <= 4 * 50 and 0 < int(scalar(r.output, "s")) < total, r


def test_one_place_that_calls_many_is_learned_once(built):
    """Functions that are called through one pointer one after the other, each of them with a jump to an unknown one."""
    with Running(built("tails_lazy"), 1000000, "loop") as t, \
         scripts.Script('call:exe:turn_* { printf("%s %d\\n", func, retval) }', t.pid) as s:
        until(s, lambda text: all(are_numbers(re.findall(rf"^{n} (.*)$", text, re.M), 20) for n in ("turn_one", "turn_two", "turn_three")))


def test_many_places_that_call_are_learned(built):
    """Every return address of twenty functions, of which each is called in five places."""
    def learned(text):
        last = dict(re.findall(r"^(\d+) (.*)$", text, re.M))
        return len(last) == 100 and set(last.values()) == {"9"}
    with Running(built("tails_lazy"), 1000000, "hops") as t, \
         scripts.Script('call:exe:hop_* { printf("%d %d\\n", arg1, retval) }', t.pid) as s:
        until(s, learned)


@pytest.mark.parametrize("kind", ["call", "uretprobe"])
def test_variables_that_lead_elsewhere_later(built, kind):
    """Where a variable points at the start is not where it points at the end: no call is lost."""
    r = scripts.run(f"{kind}:exe:by_hook {{ @n = count(); @s = sum((int64)retval) }}", built("tails"), 200, "hook")
    calls, _, total = told(r.stdout)["by_hook"]
    early = re.search(rf"(\d+) {NOT_KNOWN}", r.stderr)
    assert scalar(r.output, "n") == str(calls) and early and int(early[1]) < calls, r
    assert total * .7 < int(scalar(r.output, "s")) <= total, r
