# SPDX-License-Identifier: MIT
"""Expressions of the debug info, one operation after the other: jab and gdb compute the same from the same registers."""
import re
import subprocess

import gdb
import targets

UNKNOWN = {"unknown": "optimized out"}
# What gdb does not say, or says as its own machine shifts.
OWN = {"by_nothing": UNKNOWN, "all_out": 0, "all_right": 0, "only_sign": -1}


def test_expressions(built, tmp_path):
    path = built("expressions")
    names = re.findall(r"^\texpr\t(\w+),", (targets.SRC / "places.S").read_text(), re.M)
    here = int(re.search(r"(\w+) T here$", subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout, re.M)[1], 16)
    asked = [n for n in names if n not in OWN]
    assert len(asked) >= 25
    assert gdb.compare([path], [gdb.Place(f"exe:{here:#x}", [here], asked)], tmp_path) == len(asked)
    assert gdb.ask_jab([path], gdb.Place(f"exe:{here:#x}", [here], list(OWN))) == [list(OWN.values())]
