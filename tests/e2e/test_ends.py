# SPDX-License-Identifier: MIT
"""How a target ended is said: the signal, and where the instruction was that raised it, as far as the kernel tells."""
import os
import re
import subprocess

import pytest

import jab

KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
MAY_READ_LOG = os.access("/dev/kmsg", os.R_OK) and os.path.exists("/proc/sys/debug/exception-trace")

WAYS = [("fault", "signal 11 (Segmentation fault)", r" in crash:reads\+0x[0-9a-f]+, address 0x1230"),
        ("illegal", "signal 4 (Illegal instruction)", r" in crash:main(\.cold)?\+0x[0-9a-f]+"),
        ("abort", "signal 6 (Aborted)", ""), ("kill", "signal 9 (Killed)", "")]


@pytest.mark.parametrize("how,signal,where", WAYS, ids=[x[0] for x in WAYS])
@pytest.mark.parametrize("command", ["count", "trace"])
def test_of_a_command(built, how, signal, where, command):
    r = jab.run(command, "exe:reads", "--", built("crash"), how)
    assert r.status > 128, r
    said = re.findall(r"^jab: process \d+ \(crash\) was ended by (signal .*)$", r.stderr, re.M)
    assert len(said) == 1 and re.fullmatch(re.escape(signal) + (where if MAY_READ_LOG else ".*"), said[0]), r


@pytest.mark.parametrize("how,signal,where", [WAYS[0], WAYS[2]])
def test_of_a_process(built, how, signal, where):
    """That is not ours: without ptrace, also after its parent has taken its status."""
    with subprocess.Popen([built("crash"), how, "1.5"]) as p:
        with jab.Count(p.pid, "exe:reads") as c:
            p.wait()
            r = c.wait()
    if KERNEL >= (6, 15):
        assert re.search(r"process \d+ \(crash\) was ended by " + re.escape(signal) + (where if MAY_READ_LOG else ""), r.stderr), r
    elif where and MAY_READ_LOG:
        assert re.search(r"process \d+ \(crash\) (has ended after a fault|was ended by signal 11).*" + where, r.stderr), r


def test_of_others_nothing_is_said(built, target):
    assert "ended" not in jab.run("count", "exe:reads", "--", built("crash"), "3").stderr
    t = target("spin", 1)
    with jab.Count(t.pid, "exe:*") as c:
        assert "was ended by" not in c.stop().stderr


def test_a_second_run_says_what_to_do(target):
    t = target("spin", 1)
    with jab.Count(t.pid, "exe:*"):
        r = jab.run("count", "-d", 1, "-p", t.pid, "exe:main")
    assert r.status == 1 and re.search(r"is traced by jab \d+, which is alive; end that run, or give all probes to one run", r.stderr), r
