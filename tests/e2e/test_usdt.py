# SPDX-License-Identifier: MIT
"""Static tracepoints (USDT): what is listed, the values of arguments, semaphores, and what is refused by name."""
import json
import struct

import pytest

import jab
import scripts

NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
TABLE = bytes((0x81 + 7 * i) & 0xff for i in range(64))         # tests/prog/operands.S


def unsigned(value, size):
    return value & ((1 << 8 * size) - 1)


def signed(value, size):
    value = unsigned(value, size)
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def both(value, *sizes):
    return [f(value, n) for n in sizes for f in (unsigned, signed)]


def at(offset, code):
    return struct.unpack_from("<" + code, TABLE, offset)[0]


def register(number):
    return 0xf1e2d3c4b5a69780 + number


def forms():
    """What each tracepoint of operands.S hands over."""
    all_of = {r: both(register(i), 8, 4, 2, 1) + (both(register(i) >> 8, 1) if i < 4 else [])
              for i, r in enumerate(NAMES) if r != "rsp"}
    v = register(0)
    stack = struct.pack("<Q", 0x8899aabbccddeeff)
    return {
        **all_of,
        "widths": [v, unsigned(v, 4), signed(v, 2), unsigned(v, 1), signed(v, 4), signed(v, 8)],
        "constants": [-5, 5, 0x1234567890abcdef, 255, -1, 65535, -9223372036854775808, 8, 0],
        "vectors": [-2.5, 1e100, 0.25, -8.0, -2.5],
        "memory": [at(0, "Q"), at(4, "i"), at(16, "H"), at(1, "B"), at(8, "q"), at(4, "I"), at(4, "B"), at(0, "Q")],
        "symbols": [at(0, "Q"), at(8, "i"), at(14, "H"), at(1, "B"), -2.5, -8.0],
        "thread_local": [-77, 78],
        "stack": [0x8899aabbccddeeff, struct.unpack_from("<i", stack, 4)[0], struct.unpack_from("<H", stack, 6)[0]],
        "nothing": [], "pair": [1], "nop5": [2], "nop10": [3],
        "unread": [unsigned(0xccddeeff, 4), 2],
    }


BUILDS = ["tracepoints", "tracepoints_static", "tracepoints_clang", "tracepoints_O0"]


@pytest.mark.parametrize("name", BUILDS)
def test_operands(built, name):
    r = jab.run("trace", "--json", "usdt:forms:*", "--", built(name), "work", 2)
    want = forms()
    assert r.status == 0 and r.summary["probes"][0]["refused"] == 0, r
    assert "arg1 of forms:unread ('8@%st') is left out" in r.stderr, r
    for name, values in want.items():
        seen = [list(x["fields"].values()) for x in r.rows if x["probe"] == f"forms:{name}"]
        assert seen == [values, values], name
    assert len(r.rows) == 2 * len(want), r
    assert list(next(x for x in r.rows if x["probe"] == "forms:unread")["fields"]) == ["arg0", "arg13"]


def test_fields_and_scripts(built):
    """Fields by number, also with names, types and conditions; the same in a script."""
    path = built("tracepoints")
    r = jab.run("trace", "--json", "usdt:forms:memory n=arg1 arg5:x32 arg2:int if arg1 < 0", "--", path, "work", 1)
    assert [x["fields"] for x in r.rows] == [{"n": at(4, "i"), "arg5": hex(at(4, "I")), "arg2": at(16, "H")}], r
    r = scripts.run('usdt:forms:r* { @[probe] = sum(arg7) } U:*:forms:v* { printf("%.2f %s\\n", arg2, probetype); print(args.arg3) }'
                    ' usdt:$1:pair { printf("pair %d %s\\n", arg0, func) }', path, "work", 2, params=[path])
    assert r.status == 0, r
    assert r.output.count("0.25 usdt\n-8\n") == 2 and r.output.count("pair 1 operands\n") == 2, r
    for i, n in enumerate(NAMES):
        if n.startswith("r") and n not in ("rsp",):
            assert f"@[usdt:{path}:forms:{n}]: {2 * signed(register(i), 1)}\n" in r.output, (n, r)


def test_what_has_no_argument(built):
    path = built("tracepoints")
    for text, says in [("usdt:forms:pair arg1", "forms:pair has 1 argument"), ("usdt:forms:nothing arg0", "forms:nothing has no arguments"),
                       ("usdt:forms:unread arg4", "arg4 of forms:unread ('4@missing(%rip)') can't be read: its symbol 'missing'"),
                       ("usdt:forms:pair retval", "retval is known at returns only")]:
        r = jab.run("trace", text, "--", path, "work", 1)
        assert r.status != 0 and says in r.stderr, (text, r)


def test_list(built):
    path = built("tracepoints")
    r = jab.run("list", path, "usdt:*")
    assert "usdt:tracepoints:app:plain\n" in r.output and "usdt:tracepoints:forms:pair\n" in r.output, r
    assert len(r.output.splitlines()) == len(forms()) + 3, r
    r = jab.run("list", "-v", path, "usdt:forms:memory")
    assert "        s64 arg4  -8@-8(%rbp,%rcx,8)\n" in r.output and "operands+0x" in r.output, r
    r = jab.run("list", "--json", path, "usdt:app:both")
    (row,) = r.rows
    assert row["provider"] == "app" and row["name"] == "both" and len(row["sites"]) == 2, r
    assert [s["args"][0]["type"] for s in row["sites"]] == ["s32", "s64"] and row["sites"][0]["semaphore"], r
    r = jab.run("-l", f"usdt:{path}:app:*")
    assert sorted(r.output.splitlines()) == [f"usdt:{path}:app:{n}" for n in ("both", "guarded", "plain")], r
    r = jab.run("list", path, "usdt:app:plian")
    assert r.status != 0 and "no static tracepoint matches 'usdt:app:plian'" in r.stderr, r
    r = jab.run("list", "/bin/true", "usdt:*")
    assert r.status != 0 and "none of the files has notes" in r.stderr, r
    assert json.loads(jab.run("check", "--json", path, "usdt:forms:pair").output.splitlines()[0])["function"] == "forms:pair"
