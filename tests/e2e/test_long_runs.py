# SPDX-License-Identifier: MIT
"""A short slice of the long runs of tests/torture, so that they are never broken unnoticed."""
import json
import subprocess

import pytest

import targets

TORTURE = targets.ROOT / "tests" / "torture"


def run(script, *args, limit):
    p = subprocess.run(["/usr/bin/python3", str(TORTURE / script), *args], capture_output=True, text=True,
                       timeout=limit)
    assert p.returncode == 0, p.stdout[-6000:] + p.stderr[-3000:]
    return json.loads(p.stdout.splitlines()[-1])["summary"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bash", "python-work", "python", "cc1", "openssl-enc", "openssl-digest", "openssl-speed",
                                  "redis"])
def test_harmless(case):
    """Every function of every module probed; the other sets of probes are for the torture run."""
    s = run("harmless.py", "--seconds", "0", "--only", case, limit=targets.LIMIT * 20)
    if not s["tally"]:
        pytest.skip(f"what {case} needs is not installed")
    assert s["tally"]["runs"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("case", ["nginx", "memcached", "redis", "python-http", "go-http", "postgres-backend", "node"])
def test_servers(case):
    """A server under load with every function probed, and let go again."""
    s = run("servers.py", "--seconds", "0", "--only", case, limit=targets.LIMIT * 10)
    if not s["tally"]:
        pytest.skip(f"what {case} needs is not installed")
    assert s["tally"]["visits"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calls", "spin", "storm", "churn", "forks", "regs"])
def test_races(kind):
    s = run("races.py", "--seconds", "6", "--seed", "1", "--only", kind, limit=targets.LIMIT * 20)
    assert s["tally"]["targets"] >= 1


@pytest.mark.slow
def test_bad_pointers():
    s = run("faults.py", "--seconds", "0", "--events", "20000", "--only", "race-handled", limit=targets.LIMIT * 5)
    assert s["tally"]["events"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "bulky"])
def test_flight_recorder(kind):
    s = run("flight.py", "--seconds", "2", "--seed", "3", "--only", kind, limit=targets.LIMIT * 5)
    if not s["tally"]:
        pytest.skip("no babeltrace2")
    assert s["tally"][f"{kind} snapshots"] >= 1
