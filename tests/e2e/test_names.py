# SPDX-License-Identifier: MIT
"""Which function an event is of, where one probe matches several of them and their code is the same."""
import re
import shutil
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


TWINS = {
    "one.c": "int turn(int x) { return x * 2 + 1; }",
    "twin.c": "int turn(int x) { return x; }",
    "prog.c": """int turn(int x);
int copied(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
__attribute__((noinline)) int idle(int x) { __asm__ volatile("" : "+r"(x)); return x; }
int main(int argc, char **argv) { int s = 0; for (int i = 0; i < 3; i++) s += copied(i) + turn(i); return s == 1 ? idle(2) : 0; }
""",
}


def make_twins(tmp_path):
    for name, text in TWINS.items():
        (tmp_path / name).write_text(text)
    for name in "one", "twin":
        subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", "-o", f"lib{name}.so", f"{name}.c"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-O2", "-g", "-o", "prog", "prog.c", "-L.", "-Wl,--no-as-needed", "-lone", "-ltwin",
                    f"-Wl,-rpath,{tmp_path}"], cwd=tmp_path, check=True)
    subprocess.run(["strip", "-o", "bare", "prog"], cwd=tmp_path, check=True)


def test_hints_for_probes_without_a_hit(tmp_path):
    """Where a reason is known it is said at the end, when the user wonders; else the 0 of the table is all."""
    make_twins(tmp_path)
    for prog, probe, hint in [
        ("prog", "libtwin:turn", "libtwin:turn: no hit; libone.so has a function turn: 'libone.so:turn'"),
        ("prog", "exe:copied", "exe:copied: no hit; calls that the compiler has inlined (1) don't reach its entry"),
        ("bare", "copied", "copied: no hit; nothing that was loaded has such a place ("),
        ("prog", "libnone:nothing", "libnone:nothing: no hit; nothing that was loaded has such a place"),
        ("prog", "exe:idle", None), ("prog", "libone:turn", None),
    ]:
        for command in ["count"], ["trace"], ["record", "-o", tmp_path / "t"]:
            if command == ["count"] and hint and "nothing that was loaded" in hint:
                continue        # it refuses what is not there yet
            r = jab.run(*command, probe, "--", tmp_path / prog)
            said = [x for x in r.stderr.splitlines() if "no hit" in x]
            assert r.status == 0 and len(said) == (hint is not None) and (not hint or said[0].startswith(f"jab: {hint}")), (probe, r)
            assert prog != "bare" or "bare is stripped" in said[0], r
            shutil.rmtree(tmp_path / "t", ignore_errors=True)
    r = jab.run("trace", "libtwin:turn arg0 if arg0 == 77", "--", tmp_path / "prog")
    assert r.status == 0 and "no hit" not in r.stderr, r       # it may have been reached


ODD_NAMES = ["odd name", "a:b", "x+1", "t%return", "g*", "0x12", "b\\s", "q[1]", "f(char const*)", "V::operator*(V const&) const",
             "int V::get<int>(int, char const*)", "bool f<int>()", "plain", "x if y", "$dollar"]


def test_listed_names_mean_the_function_when_they_are_typed(tmp_path):
    """As probes of commands and of scripts: each function by the text that stands for it in the list, and no other one."""
    def symbol(name):
        quoted = '"' + name.replace("\\", "\\\\") + '"'
        return f".globl {quoted}\n.type {quoted},@function\n{quoted}: nop; nop; nop; nop; nop; ret\n.size {quoted},6\n"

    source, path = tmp_path / "odd.S", tmp_path / "odd"
    # near misses of those that would be patterns
    source.write_text("".join(map(symbol, [*ODD_NAMES, "gx", "x", "t", "f(char constant)", "int V::get<int>(int, char constant)"])) +
                      ".globl _start\n_start: ret\n.section .note.GNU-stack\n")
    subprocess.run(["gcc", "-nostdlib", "-o", str(path), str(source)], check=True)
    rows = jab.run("list", "--json", path).rows
    assert set(ODD_NAMES) <= {r["function"] for r in rows}
    for r in rows:
        assert [x["function"] for x in jab.run("list", "--json", path, r["spec"]).rows] == [r["function"]], r
    lines = jab.run("-l", path).output.splitlines()
    assert len(lines) == len(set(lines)) >= len(rows) and "uprobe:" + str(path) + ':"odd name"' in lines, lines
    for line in lines:
        assert jab.run("-l", "-e", line + " { }").output.splitlines() == [line], line
        assert jab.run("-l", line).output.splitlines() == [line], line
