# SPDX-License-Identifier: MIT
"""`make torture SECONDS=N` takes about N seconds, whatever its parts make of their shares."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torture"))

from share import Part, shares      # noqa: E402


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def run(seconds, takes):
    """takes: what each part makes of its share. The time in all, and the shares."""
    clock, given = Clock(), []

    def part(i, use):
        def work(share):
            given.append(share)
            clock.now += use(share)
            return True
        return Part(str(i), 1 + i % 3, work)

    begin = clock.now
    assert shares([part(i, use) for i, use in enumerate(takes)], seconds, clock=clock, say=lambda line: None) == []
    return clock.now - begin, given


@pytest.mark.parametrize("seconds", [60, 240, 3600])
def test_whole_time(seconds):
    exact, given = run(seconds, [lambda s: s] * 20)
    assert abs(exact - seconds) < 1 and max(given) / min(given) < 3.1
    late, _ = run(seconds, [lambda s: s * 1.3 + 0.5] * 20)
    assert seconds * 0.95 <= late < seconds * 1.15 + 2
    early, _ = run(seconds, [lambda s: s * 0.7] * 19 + [lambda s: s])
    assert abs(early - seconds) < 1
    # One that takes half of all leaves the other half to the rest.
    greedy, given = run(seconds, [lambda s: seconds / 2] + [lambda s: s] * 19)
    assert abs(greedy - seconds) < 1 and sum(given[1:]) < seconds * 0.51


def test_failures_are_named():
    assert shares([Part("a", 1, lambda s: True), Part("b", 1, lambda s: False)], 5, say=lambda line: None) == ["b"]


def test_no_time_for_all():
    """Those that are left out are named; a slice leaves out none."""
    for leave_out in (True, False):
        clock, ran, said = Clock(), [], []

        def work(name):
            def run_it(share):
                ran.append(name)
                clock.now += max(share, 30)
                return True
            return run_it

        begin = clock.now
        shares([Part(str(i), 1, work(i), 30) for i in range(6)], 100, leave_out, clock, said.append)
        assert ran == ([0, 1, 2] if leave_out else list(range(6))), ran
        assert sum("left out" in line for line in said) == (3 if leave_out else 0), said
        assert clock.now - begin <= 120 or not leave_out
