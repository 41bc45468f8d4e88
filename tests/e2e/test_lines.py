# SPDX-License-Identifier: MIT
"""Probe lines: every kind of probe with fields, contexts (-t), conditions and --max-overhead together. All of it is one grammar and
one layout of events, so each combination must record the values that the target (tests/prog/values.c) is known to pass, and
babeltrace2 must read each trace."""
import pytest

import jab
import targets
import traces

N = [-1, 7, 8, 9, 1, 2, 3, 4, 5]
U = [0, 65535, 1, 2, 3, 4, 5, 6, 7]
V, BAD = [1, -2, 2147483647], None
TEXTS = ["", "1234567", {"cut": "12345678"}, {"cut": "12345678"}, BAD, BAD, BAD, "end", "end"]
ARRAYS = [V, V, V, V, V, BAD, BAD, [16843009, 16843009, 6581861], BAD]
BYTES = ["0001feff"] * 5 + [BAD, "0001feff", "656e6400", BAD]
DOUBLES = [0, -1.5, 1e300, .1, 1, 2, 3, 4, 5]
FLOATS = [0, .25, 1e30, .1, 1, 2, 3, 4, 5]

PLACES = {"entry": "exe:take", "instruction": "exe:take+0", "return": "exe:take%return", "call": "call:exe:take"}
FIELDS = "n=arg0:int s=arg1:string[8] v=arg2:int[3] u=arg3:u16 b=arg4:bytes[4] d=arg0:double f=xmm1:float"
CONDITIONS = {"": N, "if arg0 > 3": [n for n in N if n > 3 or n < 0], "if arg0 == 12345": []}
CONTEXTS = ["int:round:round_number", "string:title:title", "bytes[4]:b4:title+2", "int[2]:pair:round_number", "x32:hex:round_number",
            "o64:oct:round_number", "stack:16", "reg:rsp", "reg:xmm0", "backtrace:3"]


def is_fault(x):
    return isinstance(x, dict) and "fault" in x


def like(got, want):
    """One value; a float has as many digits as it holds."""
    if want is BAD:
        return is_fault(got)
    return abs(got - want) <= 1e-6 * abs(want) if isinstance(want, float) else got == want


def column(rows, name, want):
    got = [r["fields"][name] for r in rows]
    assert len(got) == len(want) and all(like(*x) for x in zip(got, want)), (name, got, want)


def check_contexts(rows, kind, nrounds, contexts):
    per = len(rows) // nrounds
    rounds = [r + 1 for r in range(nrounds) for _ in range(per)]
    names = {c.split(":")[1] if c.count(":") == 2 else c.split(":")[-1] if c.startswith("reg:") else c.split(":")[0] for c in contexts}
    for name in names & {"round", "hex"}:
        column(rows, name, rounds)
    if "title" in names:
        column(rows, "title", ['a "title"'] * len(rows))
    if "b4" in names:
        column(rows, "b4", [b'"title"'[:4].hex()] * len(rows))
    for r, number in zip(rows, rounds):
        f = r["fields"]
        if "pair" in names:
            assert len(f["pair"]) == 2 and f["pair"][0] == number, f
        if "oct" in names:
            assert f["oct"] & 0xffffffff == number, f
        if "stack" in names:
            assert len(f["stack"]) == 32, f
        if "rsp" in names and "stack" in names and kind in ("entry", "instruction"):
            # what is at the stack pointer there is the return address, which the backtrace has as well
            assert int.from_bytes(bytes.fromhex(f["stack"][:16]), "little") == int(f["backtrace"][1]["address"], 16), f
        if "backtrace" in names:
            assert [x["name"].split(":")[1].split("+")[0] for x in f["backtrace"]] == ["take", "one", "main"], f
        if "regs" in names:
            assert f["rsp"] and f["rip"], f


def record(path, line, contexts=(), options=(), rounds=2, **more_of_run):
    more = [x for c in contexts for x in ("-t", c)]
    r = traces.record(path, [line], [targets.build("values"), rounds], [*more, *options], **more_of_run)
    rows = jab.run("view", "--json", path).rows
    assert r.status == 0 and r.summary["clean"], r
    if traces.have_babeltrace():
        events, lost = traces.babeltrace(path)
        assert len(events) == len(rows) and not lost, r
    assert r.summary["probes"][0]["recorded"] == len(rows), r
    return rows


@pytest.mark.parametrize("overhead", [[], ["--max-overhead", "90"]], ids=["", "limited"])
@pytest.mark.parametrize("kind", PLACES)
def test_all_together(tmp_path, kind, overhead):
    for number, (condition, wanted) in enumerate(CONDITIONS.items()):
        if kind == "return":
            condition, wanted = condition.replace("arg0 > 3", "retval > 0").replace("arg0", "retval"), wanted if not condition else \
                [n for n, u in zip(N, U) if 2 * n - u > 0] if wanted else []
        fields = "r=retval:long" if kind == "return" else FIELDS
        rows = record(tmp_path / str(number), f"{PLACES[kind]} {fields} {condition}", CONTEXTS, overhead)
        assert len(rows) == 2 * len(wanted), rows
        check_contexts(rows, kind, 2, CONTEXTS)
        keep = [n in wanted for n in N]
        def of(values):
            return [x for x, k in zip(values, keep) if k] * 2

        if kind == "return":
            column(rows, "r", of([2 * n - u for n, u in zip(N, U)]))
            continue
        column(rows, "n", of(N))
        column(rows, "u", of(U))
        column(rows, "s", of(TEXTS))
        column(rows, "b", of(BYTES))
        column(rows, "d", [float(x) for x in of(DOUBLES)])
        column(rows, "f", [float(x) for x in of(FLOATS)])
        column(rows, "v", of(ARRAYS))


@pytest.mark.parametrize("context", [*CONTEXTS, "regs"])
def test_each_alone(tmp_path, context):
    """Beside a condition, in a call, and with nothing else at all."""
    for number, line in enumerate(["exe:take", "exe:take n if n == 7", "call:exe:take n if n == 7 && retval"]):
        rows = record(tmp_path / str(number), line, [context], rounds=1)
        assert len(rows) == (1 if number else len(N)), rows
        check_contexts(rows, "call" if number == 2 else "entry", 1, [context])


def test_fields_of_the_stack_and_backtraces_by_name(tmp_path):
    """As fields of one probe, beside others."""
    rows = record(tmp_path / "t", "exe:take $stack backtrace n $regs if n == 7", rounds=1)
    f = rows[0]["fields"]
    assert len(rows) == 1 and len(f["stack"]) == 128 and f["n"] == 7 and f["rdi"] == 7 and f["backtrace"][0]["name"] == "values:take", f


@pytest.mark.parametrize("context, says, caret", [
    ("int::0x10", "a name is missing", 5), ("int:x:", "an address is missing", 7), ("int:x:0xzz", "'0xzz' is no address", 7),
    ("int:x:sym+", "no address", 7), ("reg:foo", "'foo' is not known", 5), ("nonsense", "no such context", 1), ("regs:x", "no such context", 1),
    ("backtrace:0", "no good number", 11), ("backtrace:1000", "no good number", 11), ("stack:100000", "no good number", 7),
    ("bytes:x:1", "say how many", 1), ("int[0]:x:1", "no good number", 1), ("int x:y:1", "expected a type", 5), ("", "no such context", 1)])
def test_bad_contexts(context, says, caret):
    r = jab.run("trace", "-t", context, "exe:take", "--", targets.build("values"), 1)
    assert r.status == 1 and says in r.stderr and "-t:1:" in r.stderr, r
    if caret and context:
        assert "\n" + context + "\n" + " " * (caret - 1) + "~" in r.stderr, r


def test_a_context_that_is_nowhere():
    for line in "exe:take", "exe:take n if n == 7":
        r = jab.run("trace", "-t", "int:x:no_such_variable", line, "--", targets.build("values"), 1)
        assert r.status == 1 and "no variable 'no_such_variable'" in r.stderr, r
    r = jab.run("trace", "-t", "no_such_type:x:title", "exe:take n if n == 7", "--", targets.build("values"), 1)
    assert r.status == 1 and "no_such_type" in r.stderr, r


def test_the_top_of_the_stack(tmp_path):
    """More than there is: zeros behind what can be read, in every kind of event."""
    for number, line in enumerate(["exe:main n=arg0:int if arg0 == 2"]):
        rows = record(tmp_path / str(number), line, ["stack:2048"], env={}, wrap=["/usr/bin/setarch", "-R"])
        stack = bytes.fromhex(rows[0]["fields"]["stack"])
        assert len(rows) == 1 and len(stack) == 2048 and stack[-100:] == bytes(100) and b"x86_64" in stack, rows
    top = 1 << 47
    r = jab.run("trace", "--json", "-t", f"bytes[16]:x:{top - 4096:#x}", "exe:main if arg0 == 2", "--", targets.build("values"), 1)
    assert r.status == 0 and is_fault(r.rows[0]["fields"]["x"]), r
