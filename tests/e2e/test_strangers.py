# SPDX-License-Identifier: MIT
"""Children on their parent's thread block read a CPU number that is not theirs; they count all the same."""
import os
import subprocess

import pytest

import jab
import traces


def test_vfork_children_beside_busy_threads(built):
    r = jab.count_command(["exe:hit"], [built("vfork"), 20])
    assert r.status == 0, r
    assert r.hits("hit") == int(r.stdout), r


def test_vfork_children_have_no_cpu(built, tmp_path):
    """The number in the block is their parent's: their events do not go to that CPU's ring."""
    r = traces.record(tmp_path / "t", ["exe:hit"], [built("vfork"), 5, "few"])
    assert r.status == 0, r
    lines = subprocess.run(["babeltrace2", str(tmp_path / "t")], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [int(x.split("cpu_id = ")[1].split()[0]) for x in lines if ":hit:" in x] == [0xffffffff] * 50, lines


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_vfork_children_on_another_cpu(built):
    """Their parent's block has the number of the CPU on which the others count at that time."""
    r = jab.count_command(["exe:hit"], [built("vfork"), 5, "apart"])
    assert r.status == 0, r
    assert r.hits("hit") == int(r.stdout), r
