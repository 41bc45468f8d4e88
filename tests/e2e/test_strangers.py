# SPDX-License-Identifier: MIT
"""Children on their parent's thread block read a CPU number that is not theirs; they count all the same."""
import jab


def test_vfork_children_beside_busy_threads(built):
    r = jab.count_command(["exe:hit"], [built("vfork"), 20])
    assert r.status == 0, r
    assert r.hits("hit") == int(r.stdout), r
