# SPDX-License-Identifier: MIT
"""Expressions and places of the debug info, one after the other: jab and gdb read the same from the same registers."""
import re
import struct
import subprocess

import gdb
import targets

UNKNOWN = {"unknown": "optimized out"}
# What gdb does not say, or says as its own machine shifts.
OWN = {"by_nothing": UNKNOWN, "all_out": 0, "all_right": 0, "only_sign": -1}


def test_expressions(built, tmp_path):
    path = built("expressions")
    names = re.findall(r"^\t(?:expr|at)\t(\w+),", (targets.SRC / "places.S").read_text(), re.M)
    here = int(re.search(r"(\w+) T here$", subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout, re.M)[1], 16)
    asked = [n for n in names if n not in OWN]
    assert len(asked) >= 40
    places = [gdb.Place(f"exe:{here:#x}", [here], asked[i::2]) for i in range(2)]
    assert gdb.compare([path], places, tmp_path) == len(asked)
    assert gdb.ask_jab([path], gdb.Place(f"exe:{here:#x}", [here], list(OWN))) == [list(OWN.values())]


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def test_small_structs(built):
    """As the program hands them over; gdb looks for some in memory where they are not yet."""
    members = "p.x p.y q.a q.b q.c q.d m.i m.f g.no g.yes g.c g.s g.f h.d h.f h.s".split()
    wanted = [[i + .5, -i - .25, i, 2 * i, 3.5 * i, 1e10, -i, .125 * i, 0, i & 1, -5 - i, 65535 - i, -1.5 * i, i / 3, f32(i / 3), -7 * i]
              for i in range(3)]
    assert gdb.ask_jab([built("small")], gdb.Place("exe:take", "take", members)) == wanted
