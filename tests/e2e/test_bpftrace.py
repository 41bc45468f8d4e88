# SPDX-License-Identifier: MIT
"""A few of the scripts of beside.py, by bpftrace and by us; tests/torture/bpftrace.py runs all of them."""
import functools

import pytest

import beside
import targets

missing = functools.cache(beside.missing)


@pytest.mark.parametrize("name", beside.QUICK)
def test_same_answers(name):
    case = next(c for c in beside.CASES if c.name == name)
    try:
        why = missing()
        if why:
            pytest.skip(why)
        theirs, ours, said = beside.compare(case)
    except targets.Missing as e:
        pytest.skip(str(e))
    assert theirs and ours == theirs, f"bpftrace: {theirs}\njab: {ours}\n{said}"
