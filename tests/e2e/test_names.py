# SPDX-License-Identifier: MIT
"""Which function an event is of, where one probe matches several of them and their code is the same."""
import re
import subprocess

import pytest

import jab

THREE = ["many:op_a", "many:op_b", "many:op_c"]

# probe, and how often each function is seen
PROBES = [("call:exe:op_*", 2), ("exe:op_* x if x == 1", 1), ("exe:op_* a=arg0+1", 2), ("exe:op_*", 2), ("exe:op_*%return", 2),
          ("exe:op_* x", 2), ("exe:op_* x backtrace if x >= 0", 2)]


@pytest.mark.parametrize("probe, times", PROBES)
def test_each_function_under_its_own_name(built, tmp_path, probe, times):
    r = jab.run("trace", "--json", "-o", tmp_path / "out", probe, "--", built("many"))
    assert r.status == 0, r
    names = [o["probe"].removesuffix("%return") for o in jab.Result(0, (tmp_path / "out").read_text(), "").rows]
    assert names == THREE * times

    r = jab.run("trace", "-o", tmp_path / "text", probe, "--", built("many"))
    assert re.findall(r"^\d.*? (many:op_\w)", (tmp_path / "text").read_text(), re.M) == THREE * times, r


@pytest.mark.parametrize("probe, times", PROBES)
def test_each_function_under_its_own_name_in_a_trace(built, tmp_path, probe, times):
    r = jab.run("record", "-o", tmp_path / "trace", probe, "--", built("many"))
    assert r.status == 0, r
    text = subprocess.run(["babeltrace2", str(tmp_path / "trace")], capture_output=True, text=True, check=True).stdout
    assert re.findall(r" (many:op_\w)(?:%return)?: ", text) == THREE * times


@pytest.mark.parametrize("probe", ["exe:op_a x backtrace", "exe:op_a backtrace x", "exe:op_a x y=x+1 backtrace if x >= 0",
                                   "call:exe:op_a x backtrace"])
def test_a_backtrace_beside_a_variable(built, tmp_path, probe):
    r = jab.run("trace", "--json", "-o", tmp_path / "out", probe, "--", built("many"))
    assert r.status == 0, r
    for o in jab.Result(0, (tmp_path / "out").read_text(), "").rows:
        frames = [f["name"] for f in o["fields"]["backtrace"]]
        assert frames[0].startswith("many:op_a") and frames[1].startswith("many:main+"), o
