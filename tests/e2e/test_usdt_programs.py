# SPDX-License-Identifier: MIT
"""Static tracepoints of programs as Debian has them: python3, libstdc++; the JVM is in tests/torture/tracepoints.py."""
import json
import re
import subprocess

import pytest

import jab
import scripts

PYTHON = "/usr/bin/python3"


def readelf(path):
    """{(provider, name, address): [operands]}, by other code than ours."""
    text = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Provider: (.*)\n\s+Name: (.*)\n\s+Location: (0x\w+), .*\n\s+Arguments: ?(.*)", text)
    return {(p, n, int(at, 16)): args.split() for p, n, at, args in found}


def listed(path):
    rows = jab.run("list", "--json", path, "usdt:*").rows
    return {(r["provider"], r["name"], int(s["address"], 16)): [a["operand"] for a in s["args"]] for r in rows for s in r["sites"]}, rows


@pytest.mark.parametrize("path", [PYTHON, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"])
def test_all_notes_are_listed(path):
    ours, rows = listed(path)
    assert ours == readelf(path) and len(ours) >= 3
    assert not [a for r in rows for s in r["sites"] for a in s["args"] if "reason" in a], rows
    r = jab.run("check", "--json", path, "usdt:*")
    assert r.summary["refused"] == 0 and r.summary["sites"] == len(ours), r


SCRIPT = """
import gc, json
def fall(n):
    return 0 if n == 0 else 1 + fall(n - 1)
print(json.dumps([fall(20) for i in range(30)]))
print(gc.collect(), gc.collect())
"""


def test_python(tmp_path):
    """All of its tracepoints at once, the program's results unchanged; names and lines are what the source says."""
    (tmp_path / "work.py").write_text(SCRIPT)
    command = [PYTHON, "-I", tmp_path / "work.py"]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    r = jab.count_command(["usdt:python:*"], command)
    assert (r.status, r.stdout) == (0, alone), r
    hits = {x["function"].removeprefix("python:"): x["hits"] for x in r.rows}
    assert hits["function__entry"] == hits["function__return"] > 600 and hits["line"] > 1000 and hits["gc__start"] == hits["gc__done"] >= 2, r
    assert all(x["hits"] for x in r.rows) and len(r.rows) == 8, r
    # while lines are asked for, python tells all functions, too
    s = scripts.run('usdt:python:line { @lines = count(); } usdt:python:function__entry /str(arg1) == "fall"/ { @[str(arg1), arg2] = count(); }',
                    *command)
    assert s.status == 0 and s.stdout == alone and f"@[fall, 3]: {30 * 21}\n" in s.output, s
    t = jab.run("trace", "--json", "-o", tmp_path / "out", "usdt:python:gc__start",
                "usdt:python:line file=arg0:string func=arg1:string line=arg2 if arg2 == 4", "--", *command)
    assert t.status == 0 and t.output == alone, t
    t = jab.Result(t.status, (tmp_path / "out").read_text(), t.stderr)
    mine = [x["fields"] for x in t.rows if x["probe"] == "python:line" and x["fields"]["func"] == "fall"]
    assert mine == [{"file": str(tmp_path / "work.py"), "func": "fall", "line": 4}] * (30 * 21), mine[:3]
    assert [x["fields"] for x in t.rows if x["probe"] == "python:gc__start"][-2:] == [{"arg0": 2}, {"arg0": 2}], t


THROWS = r"""
#include <cstdio>
#include <stdexcept>
#include <string>
static int go(int n)
{
	try {
		if (n % 3)
			throw std::runtime_error(std::to_string(n));
		throw n;
	} catch (const std::exception &e) {
		return std::stoi(e.what());
	} catch (int i) {
		try { throw; } catch (int k) { return k; }
	}
}
int main() { long sum = 0; for (int i = 0; i < 300; i++) sum += go(i); std::printf("%ld\n", sum); }
"""


def test_libstdcxx(tmp_path):
    (tmp_path / "throws.cc").write_text(THROWS)
    subprocess.run(["g++", "-O2", "-o", tmp_path / "throws", tmp_path / "throws.cc"], check=True)
    r = jab.count_command(["usdt:libstdcxx:*"], [tmp_path / "throws"])
    assert r.stdout == "44850\n", r
    assert {x["function"]: x["hits"] for x in r.rows} == {"libstdcxx:throw": 300, "libstdcxx:catch": 400, "libstdcxx:rethrow": 100}, r
    t = jab.run("trace", "--json", "-o", tmp_path / "out", "usdt:libstdcxx:throw", "usdt:libstdcxx:catch", "--", tmp_path / "throws")
    t = jab.Result(t.status, (tmp_path / "out").read_text(), t.stderr)
    thrown = [x["fields"]["arg0"] for x in t.rows if x["probe"] == "libstdcxx:throw"]
    caught = [x["fields"]["arg0"] for x in t.rows if x["probe"] == "libstdcxx:catch"]
    assert len(thrown) == 300 and set(thrown) <= set(caught), json.dumps(t.rows[:4])
