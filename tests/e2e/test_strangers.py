# SPDX-License-Identifier: MIT
"""Children on their parent's thread block read a CPU number that is not theirs; they count all the same."""
import os

import pytest

import jab


def test_vfork_children_beside_busy_threads(built):
    r = jab.count_command(["exe:hit"], [built("vfork"), 20])
    assert r.status == 0, r
    assert r.hits("hit") == int(r.stdout), r


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_vfork_children_on_another_cpu(built):
    """Their parent's block has the number of the CPU on which the others count at that time."""
    r = jab.count_command(["exe:hit"], [built("vfork"), 5, "apart"])
    assert r.status == 0, r
    assert r.hits("hit") == int(r.stdout), r
