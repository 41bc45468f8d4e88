# SPDX-License-Identifier: MIT
"""Parameters that a function has not kept, asked of whoever called it. The program writes down what it got: a value is
that one or unknown, and never another."""
import re

import pytest

import gdb
import jab
import targets

SOURCE = targets.SRC / "entry.c"
UNKNOWN = {"unknown": "optimized out"}
# What each way to call tells at least, of the parameters a, b, s and h; the last two can tell nothing.
TOLD = {1: "abh", 2: "ab", 3: "bs", 4: "ab", 5: "", 6: ""}


def hits(path, probe):
    r = jab.run("trace", "--json", probe, "--", path)
    assert r.status == 0, r
    return [o["fields"] for o in r.objects if "fields" in o]


@pytest.mark.parametrize("name", ["entry", "entry_clang"])
def test_handed_over(built, name):
    names = {"a": "", "b": "", "s": ":string", "h": ""}
    asked = " ".join(f"{n}={n}{t} truth_{n}=truth.{n}{t}" for n, t in names.items())
    seen = hits(built(name), f"exe:@entry.c:{gdb.line_of(SOURCE, 'lost')} way=truth.way {asked}")
    assert [f["way"] for f in seen] == [1, 2, 2, 3, 4, 4, 4, 5, 6] * 3
    for f in seen:
        for n in names:
            assert f[n] == f[f"truth_{n}"] or (f[n] == UNKNOWN and n not in TOLD[f["way"]]), (n, f)
        assert f["way"] < 5 or all(f[n] == UNKNOWN for n in names), f


def test_unknown_is_no_value(built):
    """Conditions on it are false, maps leave it out, what it points to is unknown, too."""
    path, line = built("entry"), gdb.line_of(SOURCE, "lost")
    assert len(hits(path, f"exe:@entry.c:{line} if a == -7")) == 3
    assert len(hits(path, f"exe:@entry.c:{line} if a != -7")) == 3 * 5          # of eight: three are not known
    assert [f["x"] for f in hits(path, f"exe:@entry.c:{line} x=a+1 if truth.way >= 5")] == [UNKNOWN] * 6
    assert [f["x"] for f in hits(path, f"exe:@entry.c:{line} x=*s if truth.way >= 5")] == [UNKNOWN] * 6
    r = jab.run("-e", f'u:exe:@entry.c:{line} {{ printf("%d %d %s\\n", truth.way, a, str(s)); @[a] = count(); @all = sum(a) }}', "-c", path)
    assert "1 -7 constant\n" in r.output and "5 <optimized out> <optimized out>\n" in r.output, r
    assert "@[-7]: 3" in r.output and "times a condition, key or value could not be read" in r.stderr, r


@pytest.mark.parametrize("name", ["entry", "entry_clang"])
def test_way_back(built, name):
    """A function that comes back to itself by jumps can't know who called it first."""
    r = jab.run("trace", f"exe:@entry.c:{gdb.line_of(SOURCE, 'there')} n", "--", built(name))
    assert r.status == 1 and re.search("'n' can't be read at this place: it is not kept .* also jumps to itself", r.stderr), r


def test_gdb_agrees(built, tmp_path):
    """What we know, gdb knows and says the same. It also sees through a jump."""
    path = built("entry")
    place = gdb.Place.line(path, "entry.c", gdb.line_of(SOURCE, "lost"), ["a", "h", "s:string"])
    ours, theirs = gdb.ask_jab([path], place), gdb.ask_gdb([path], [place], tmp_path)[0]
    assert len(ours) == len(theirs) == 27
    assert all(a in (UNKNOWN, b) for mine, other in zip(ours, theirs) for a, b in zip(mine, other)), (ours, theirs)
