# SPDX-License-Identifier: MIT
"""Typed values of C, C++, Rust and Go programs, of python3 and of libc: jab and gdb run the same
deterministic program and must show the same at the same hit of the same place."""
import jab


def fields(path, probe, *args):
    """[{field: value}] of each hit."""
    r = jab.run("trace", "--json", probe, "--", path, *args)
    assert r.status == 0, r
    return [o["fields"] for o in r.objects if "fields" in o]


# Return values ---------------------------------------------------------------------------------------

def test_tail_call(built):
    """At a jump to another function the return value is not there yet, whoever asks for it."""
    path = built("typed_O2")
    lost = {"unknown": "tail call"}
    wanted = [100, lost, 102, lost]
    for probe in ("exe:tail_call%return", "exe:tail_call%return retval:long", "exe:tail_call%return retval if 1",
                  "call:exe:tail_call n retval"):
        assert [f["retval"] for f in fields(path, probe)] == wanted, probe
    assert [f["x"] for f in fields(path, "exe:tail_call%return x=retval*2")] == [200, lost, 204, lost]
    assert [f["retval"] for f in fields(path, "exe:tail_call%return retval:string")][1] == lost
    assert len(fields(path, "exe:tail_call%return retval if retval > 0")) == 2
    assert [f["retval"] for f in fields(path, "exe:tail_end%return")] == [10, 20]
    r = jab.run("-e", 'ur:exe:tail_call { printf("%d\\n", retval); @[retval] = count(); @sum = sum(retval) }', "-c", path)
    assert "100\n<tail call>\n102\n<tail call>\n" in r.output and "@sum: 202" in r.output, r
    assert "@[100]: 1" in r.output and r.output.count("@[") == 2
    assert "4 times a condition, key or value could not be read" in r.stderr
