# SPDX-License-Identifier: MIT
"""Unnoticed: no blocking system call returns early or with EINTR because of us.

JAB_ROUNDS sets how often jab attaches and detaches; `make torture` uses a hundred.
"""
import os

import pytest

import jab

ROUNDS = int(os.environ.get("JAB_ROUNDS", "30"))


@pytest.mark.slow
def test_blocking_calls_sleep_on(target):
    t = target("blocking")
    names = t.ask("list").split()
    missing = [n for n in names if n.startswith("!")]
    assert len(names) > 50 and len(missing) <= 3, missing
    for i in range(ROUNDS):
        with jab.Count(t.pid, ["exe:*", "libc:*", "exe:write_byte"][i % 3]) as c:
            r = c.stop()
        assert r.status == 0, f"round {i}: {r}"
        assert t.alive()
    t.stop()        # says which call noticed, if any


def test_a_target_stopped_by_job_control_stays_stopped(target):
    import signal
    import time
    t = target("calls", "serve", 2)
    t.process.send_signal(signal.SIGSTOP)

    def state():
        with open(f"/proc/{t.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]

    def wait_stopped():     # it needs a CPU to get there, also when it is let go
        end = time.monotonic() + jab.LIMIT
        while state() != "T":
            assert time.monotonic() < end, state()
            time.sleep(0.01)
    wait_stopped()
    with jab.Count(t.pid, "exe:work") as c:
        r = c.stop()
    assert r.status == 0, r
    wait_stopped()
    t.process.send_signal(signal.SIGCONT)
    t.run(10)
    t.stop()
