# SPDX-License-Identifier: MIT
"""One probe with many places, of which some lack what the clause asks for: these are left out, and it is said which and
why. A function that was asked for by its name is an error, and so is a clause that means nothing anywhere."""
import json
import subprocess

import pytest

import jab
import scripts
from scripts import scalar

N = 10
SUM = sum(5 * i for i in range(N))      # of what place_two() is given


def total(r):
    assert r.status == 0 and r.stdout == f"{N} {SUM}\n", r
    return r.output.strip()


@pytest.mark.parametrize("probe, where, why", [
    ("u:exe:place_*", "place_one: ", "unknown name 'wide'"),
    ("call:exe:place_*", "place_one: ", "unknown name 'wide'"),
    ("u:exe:copied", "place_one+0x", "the compiler kept no place for it"),
])
def test_others_are_probed(built, probe, where, why):
    what = "b" if "copied" in probe else "wide"
    r = scripts.run(f"{probe} {{ @[func] = sum({what}); }}", built("places"), N)
    assert total(r) == f"@[place_two]: {SUM}", r
    assert r.stderr.count("leaves out") == 1 and f"jab: probe '{probe}' leaves out {where}" in r.stderr and why in r.stderr, r.stderr


def test_maps_are_known_from_the_place_that_has_it(built):
    """The first place tells nothing about @last, and another clause uses it."""
    r = scripts.run("u:exe:place_* { @last[n] = wide; } END { for ($kv : @last) { @sum += $kv.1 } clear(@last) }", built("places"), N)
    assert total(r) == f"@sum: {SUM}", r


def test_lines(built):
    r = jab.run("trace", "exe:place_* n wide", "--", built("places"), N)
    assert r.status == 0 and len([x for x in r.output.splitlines() if "wide=" in x]) == N, r
    assert "leaves out place_one: " in r.stderr, r
    r = jab.run("trace", "exe:place_* if wide > 1000", "--", built("places"), N)
    assert r.status == 0 and "wide=" not in r.output and "leaves out place_one: " in r.stderr, r


@pytest.mark.parametrize("text", [
    "u:exe:place_one { @ = sum(wide) }",
    "u:exe:place_one, u:exe:place_two { @ = sum(wide) }",
    "u:exe:place_* { @ = sum(nosuch) }",
    "u:exe:copied { @ = sum(nosuch) }",
    "u:exe:place_* { @ = sum(n) } u:exe:place_* { @ = sum(nosuch) }",
])
def test_errors(built, text):
    r = scripts.run(text, built("places"), N)
    assert r.status == 1 and r.stdout == "" and "ERROR: unknown name" in r.stderr and "leaves out" not in r.stderr, r


def test_strict(built):
    r = scripts.run("u:exe:place_* { @ = sum(wide) }", built("places"), N, options=["--strict"])
    assert r.status == 1 and r.stdout == "" and "1 of 2 sites can't be placed (place_one+0: unknown name 'wide'" in r.stderr, r


def test_counted(built):
    r = jab.run("--json", "-e", "u:exe:place_* { @ = sum(wide) }", "--", built("places"), N)
    assert r.status == 0 and json.loads(r.output.splitlines()[-1])["summary"]["probes"][0]["refused"] == 1, r


def test_library_that_comes_later(built):
    """Said once, however often it is loaded. The functions of a file that is named by its path are looked at before."""
    lib = built("liblate.so")
    r = scripts.run(f"u:{lib}:late_* {{ @[func] = sum(who + 10); @n++ }}", built("late"), lib, 3)
    assert r.status == 0 and r.stdout == "9\n" and scalar(r.output, "n") == "9" and "@[late_hit]: 93" in r.output, r
    assert r.stderr.count("leaves out late_call: unknown name 'who'") == 1, r.stderr
    r = scripts.run("u:liblate:late_* { @n = sum(who) }", built("late"), lib, 1)
    assert r.status == 0 and r.stdout == "3\n" and "name it by its whole path" in r.stderr, r


def test_copies_have_the_name_of_their_function(tmp_path):
    """Also a copy at the beginning of another function, whose parameters are not meant."""
    source, path = tmp_path / "inl.c", tmp_path / "inl"
    source.write_text("static inline __attribute__((always_inline)) int sq(int x) { return x * x; }\n"
                      "int main(int c, char **v) { return sq(c) + sq(c + 1) == 0; }\n")
    subprocess.run(["gcc", "-O2", "-g", "-o", path, source], check=True)
    for probe, fields in ("exe:sq", set()), ("exe:sq x", {"x"}), ("exe:sq x if x", {"x"}):
        r = jab.run("trace", "--json", probe, "--", path)
        events = [o for o in r.objects if "fields" in o]
        assert r.status == 0 and len(events) == 2, r
        assert all(o["probe"].startswith("inl:sq@main") and o["fields"].keys() == fields for o in events), r
