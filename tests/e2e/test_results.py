# SPDX-License-Identifier: MIT
"""Return values of every class of the calling convention. The program says what it got: a probe shows that, or says why it
shows nothing, and never what happens to lie in a register."""
import json
import re

import pytest

import jab
import scripts

UNKNOWN = {"unknown": "void"}


def said(stdout):
    """{function: [[part, ...] of each call]}"""
    found = {}
    for line in stdout.splitlines():
        name, *parts = line.split("|")
        found.setdefault(name, []).append(parts)
    return found


def same(part, value):
    if isinstance(value, str):
        return value == part
    return float(part) == value if re.search(r"[.e]", part) else int(part) == value


def shown(path, probes, tmp_path):
    """What the program says and what the events of these probes have, of one run."""
    out = tmp_path / "out"
    r = jab.run("trace", "--json", "-o", out, *(f"{name}={text}" for name, text in probes.items()), "--", path)
    assert r.status == 0, r
    got = {}
    for o in map(json.loads, jab.lines_of(out.read_text())):
        if "fields" in o:
            got.setdefault(o["probe"], []).append({n: jab.number(v) for n, v in o["fields"].items() if n != "duration"})
    return said(r.output), got


def compare(path, names, how, tmp_path):
    wanted, got = shown(path, {n: how.format(n) for n in names}, tmp_path)
    for n in names:
        values = [list(fields.values()) for fields in got[n]]
        assert len(values) == len(wanted[n]) == 2, n
        for parts, mine in zip(wanted[n], values):
            assert len(mine) == len(parts) and all(same(a, b) for a, b in zip(parts, mine)), (how, n, parts, mine)


def names_in(path):
    return sorted(said(jab.subprocess.run([str(path)], capture_output=True, text=True, check=True).stdout))


@pytest.mark.parametrize("build", ["results_O0", "results_O2", "results_clang", "results_cc"])
def test_shown(built, tmp_path, build):
    """Whether the fields are plain or a program."""
    path = built(build)
    names = names_in(path)
    assert len(names) > 10
    for how in ("exe:{}%return retval", "exe:{}%return $retval if 1", "call:exe:{} retval duration"):
        compare(path, names, how, tmp_path)


ODD = {"odd_x87": "long double can't be read", "odd_complex": "complex.* can't be read", "odd_complex_double": "complex.* can't be read",
       "odd_complex_x87": "complex.* can't be read", "odd_wide": "__int128 can't be read", "odd_struct": "nothing of this struct x87",
       "odd_inside": "nothing of this struct holds_complex", "odd_empty": "its type is empty", "odd_vector": "wider than a register",
       "odd_wider": "depends on the compiler's options"}


@pytest.mark.parametrize("build", ["results_O2", "results_clang"])
def test_refused(built, tmp_path, build):
    path = built(build)
    for name, why in ODD.items():
        for more in ("retval", "retval if 1", "retval:long", "retval:double", "retval:string"):
            r = jab.run("trace", "--dry-run", f"exe:{name}%return {more}", "--", path)
            assert r.status and ": ERROR: " in r.stderr and (re.search(why, r.stderr) or ":" in more), (name, more, r)
    # of many functions those are left out
    wanted, got = shown(path, {"all": "exe:*_w*%return retval"}, tmp_path)        # full_word, odd_wide, odd_wider
    assert [f["retval"] for hits in got.values() for f in hits] == [int(x) for x, in wanted["full_word"]], got
    # what nobody has asked for is not missed; whether the last one is handed an address for its result is not known
    _, got = shown(path, {n: f"call:exe:{n}" for n in ODD}, tmp_path)
    assert all(got[n] in ([{"n": 0}, {"n": 1}], [{}, {}] if n == "odd_wider" else []) for n in ODD), got


def test_beside_a_context(built):
    """A struct is shown beside any context."""
    r = jab.run("trace", "-t", "stack:8", "exe:give_ints%return retval", "--", built("results_O2"))
    assert r.status == 0 and "left out" not in r.stderr, r
    assert len(re.findall(r"give_ints%return retval_\S+=.* stack=[0-9a-f]{16}$", r.output, re.M)) == 2, r


def test_method_pointer(built):
    r = jab.run("trace", "--dry-run", "exe:odd_method%return retval", "--", built("results_cc"))
    assert r.status and "can't be read" in r.stderr, r


def test_virtual_base(built):
    """Only the program knows where it is: it is not shown at all."""
    r = scripts.run('ur:exe:make_shared { printf("it is "); print(retval) }', built("results_cc"))
    assert re.findall(r"^it is \{ \._vptr\.\w+ = 0x[0-9a-f]+, \.c = (\d+) \}$", r.output, re.M) == ["11", "12"], r


@pytest.mark.parametrize("build", ["results_O2", "results_clang"])
def test_nothing(built, tmp_path, build):
    path = built(build)
    for text in ("retval", "$retval if 1", "retval:u64", "retval=retval+1"):
        _, got = shown(path, {"p": f"exe:nothing%return {text}"}, tmp_path)
        assert got["p"] == [{"retval": UNKNOWN}] * 2, text
    _, got = shown(path, {"p": "call:exe:nothing"}, tmp_path)
    assert got["p"] == [{"n": 0}, {"n": 1}]
    r = jab.run("trace", "exe:nothing%return retval", "--", path)
    assert r.output.count("retval=<void>") == 2, r
    r = scripts.run('ur:exe:nothing { printf("%d\\n", retval); @s = sum(retval); @n = count() }', path)
    assert "<void>\n<void>\n" in r.output and "@n: 2" in r.output and not re.search("@s: [1-9]", r.output), r


def test_without_types(built, tmp_path):
    """-g1 knows functions, but not what they return: that is no void."""
    wanted, got = shown(built("results_g1"), {"p": "exe:give_unsigned%return retval", "q": "exe:give_unsigned%return retval if 1"}, tmp_path)
    assert [f["retval"] for f in got["p"]] == [f["retval"] for f in got["q"]] == [int(x) for x, in wanted["give_unsigned"]]


def test_converted(built, tmp_path):
    """A type that is written is converted to as C does, whichever way the value comes."""
    path = built("results_O2")
    for text, values in {"full_int%return retval:long": [-4, -4], "full_int%return retval:u64": [2 ** 64 - 4] * 2, "full_int%return retval:u8": [252] * 2,
                         "full_short%return retval:int": [-3, -3], "full_int%return retval:x64": [2 ** 64 - 4] * 2,
                         "give_float%return retval:double": [.25, 1.25], "give_double%return retval:float": [.125, 1.125],
                         "give_double%return retval:int": [0, 1], "full_int%return retval:double": [-4, -4]}.items():
        _, got = shown(path, {"p": "exe:" + text}, tmp_path)
        assert [f["retval"] for f in got["p"]] == values, (text, got)


RUST_RETURN = "it is in memory, and Rust does not keep its address until the return; a call: probe keeps it from the entry"


@pytest.mark.parametrize("level", [0, 2])
def test_rust_in_memory(built, tmp_path, level):
    """Their address is a hidden parameter: known at the entry, and in no register at the return."""
    path = built(f"results_rs_{level}")
    probes = {n: f"call:exe:results::{n} retval" for n in ("Db::insert", "array")}
    probes = {n.replace("::", "_"): text for n, text in probes.items()}
    wanted, got = shown(path, probes, tmp_path)
    assert [list(f.values()) for f in got["Db_insert"]] == [[int(x) for x in parts] for parts in wanted["Db::insert"]], got
    plain = scripts.run("call:exe:results::array { print((first, retval)); @[retval[3]] = count() }", path)
    assert "(40, [40,2,3,4])\n(50, [50,2,3,4])\n" in plain.output and "@[4]: 2" in plain.output, plain
    r = scripts.run('call:exe:results::Db::find { record(retval) }', path)
    assert re.findall(r"retval=(\w+) .*len=(\d+) .*=(.*)", r.output) == [("Err", "3", ""), ("Ok", "0", "found 50")] or \
        re.findall(r"retval=(\w+) \S+=(.*) \S+len=(\d+)", r.output) == [("Err", "", "3"), ("Ok", "found 50", "0")], r
    if_ = jab.run("trace", "--json", "call:exe:results::Db::insert retval.c if retval.a == 50", "--", path)
    assert [list(o["fields"].values()) for o in if_.objects if "fields" in o] == [[2]], if_


@pytest.mark.parametrize("level", [0, 2])
def test_rust_in_memory_at_a_return(built, level):
    """Nothing is made up where the address is not known."""
    path = built(f"results_rs_{level}")
    for how in (["trace", "exe:results::array%return retval"], ["trace", "exe:results::Db::insert%return retval if retval.a"],
                ["-e", "uretprobe:exe:results::Db::insert { print(retval) }"]):
        r = jab.run(*how, "--", path)
        assert r.status == 1 and RUST_RETURN in r.stderr, r
    r = jab.run("trace", "exe:results::Db::insert%return", "--", path)
    assert r.status == 0 and "retval" not in r.output, r
