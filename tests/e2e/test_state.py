# SPDX-License-Identifier: MIT
"""Harmless: registers, flags, vector state, red zone and stack around sites of every kind.

The target (tests/prog/regs.c) compares every observable after each piece itself and ends with 3
at the first difference; here it is run with probes of every kind on its pieces.
"""
import subprocess

import pytest

import jab


def untraced(program, rounds):
    p = subprocess.run([str(program), str(rounds)], capture_output=True, text=True, timeout=jab.LIMIT)
    assert p.returncode == 0, p.stdout
    return p.stdout


PROBES = {
    "entries": ["exe:site_*"],
    "returns": ["exe:/^site_/%return"],
    "entries and returns": ["exe:site_*", "exe:/^site_/%return"],
    "instructions": ["insn:exe:site_*"],
    "everything at once": ["exe:site_*", "exe:/^site_/%return", "insn:exe:site_*"],
    "the whole program": ["exe:*"],
    "all modules": ["*:*"],
}


@pytest.mark.parametrize("program", ["regs", "regs_pie"])
@pytest.mark.parametrize("what", PROBES)
def test_nothing_changes(built, program, what):
    path = built(program)
    want = untraced(path, 60)
    r = jab.count_command(PROBES[what], [path, 60])
    assert r.status == 0 and r.stdout.endswith("ok\n"), f"{r.stdout}\n{r}"
    if program == "regs":       # not a PIE: its addresses, and so its checksum, are the same every time
        assert r.stdout == want
    assert sum(p["sites"] for p in r.summary["probes"]) > 50, r


def test_each_piece_counts_exactly(built):
    """Entries, returns: 60 rounds are 60 entries and 60 returns of every piece that was placed."""
    r = jab.count_command(["exe:site_*", "exe:/^site_/%return"], [built("regs"), 60])
    assert r.status == 0, r
    sums = {}
    for row in r.rows:
        key = row["function"], row["probe"].endswith("%return")
        sums[key] = sums.get(key, 0) + row["hits"]
    loop = sums.pop(("site_entry_target", False))       # it loops back to its own entry: each round is a call for both
    assert loop >= 60 and sums.pop(("site_entry_target", True)) == loop
    wrong = {k: n for k, n in sums.items() if n not in (0, 60)}
    assert not wrong, f"{wrong}\n{r}"
    assert len([n for n in sums.values() if n]) > 100, sums


def test_attach_and_detach_while_it_runs(target):
    t = target("regs", "serve")
    for probes in PROBES.values():
        with jab.Count(t.pid, *probes) as c:
            t.run(20)
            r = c.stop()
        assert r.status == 0, r
        t.run(5)
    t.stop()
