# SPDX-License-Identifier: MIT
"""Programs that do odd but legal things with their stack, their flags, their clock and their system calls: what they print is
what they print alone, and what a script or a recording shows of them is right or says that it could not be read."""
import subprocess

import pytest

import jab
import scripts
from scripts import Script, keyed, scalar

N = 200


def alone(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=jab.LIMIT)


def run(text, *command, **options):
    a, r = alone(*command), scripts.run(text, *command, **options)
    assert (r.stdout, r.status) == (a.stdout, 0) and not a.returncode, r
    return r


def test_arguments_above_a_stack_that_ends(built):
    """They are in the next page, which is missing half of the time."""
    r = run('u:exe:work { printf("%d\\n", sarg0); @n = count(); @s = sum(sarg0) } u:exe:work /sarg0 > 1000/ { @more = count() }',
            built("stacktop"), N)
    want = ["<fault>"] * (N // 2) + [str(i + 1000) for i in range(N // 2, N)]
    assert [x for x in r.output.splitlines() if x and not x.startswith("@")] == want, r
    assert scalar(r.output, "n") == str(N) and scalar(r.output, "more") == str(N // 2), r
    assert scalar(r.output, "s") == str(sum(i + 1000 for i in range(N // 2, N))), r


@pytest.mark.parametrize("fields", ["x=arg6", "x=arg6 n=arg0 s=arg6:string"])
def test_recorded_arguments_above_a_stack_that_ends(built, tmp_path, fields):
    a = alone(built("stacktop"), N)
    r = jab.run("trace", "-o", tmp_path / "out", f"exe:work {fields}", "--", built("stacktop"), N)
    lines = [x for x in (tmp_path / "out").read_text().splitlines() if ":work" in x]
    assert r.status == 0 and r.output == a.stdout and len(lines) == N, r
    assert all("x=<fault" in x for x in lines[:N // 2]), lines[:3]
    assert all(f"x={i + 1000:#x}" in x for i, x in enumerate(lines[N // 2:], N // 2)), lines[-3:]


def test_text_where_the_direction_flag_is_set(built):
    """C code of ours would copy backwards."""
    r = run('u:exe:backwards+1 { @[str(reg("di"))] = count(); @b[buf(reg("di"), 5)] = count(); printf("%s\\n", str(reg("di"))) }',
            built("backwards"), N)
    assert keyed(r.output, "") == {"hello, world": str(N)} and list(keyed(r.output, "b").values()) == [str(N)], r
    assert r.output.count("hello, world\n") == N, r
