# SPDX-License-Identifier: MIT
"""--max-overhead: hot probes are on for a part of the time only, and that is said; cold ones miss nothing."""
import subprocess

import pytest

import jab
import scripts
import targets
import traces
from scripts import scalar


def may_measure():
    r = scripts.run("uprobe:exe:cold { @ = count(); }", targets.build("warm"), 1, options=("--max-overhead", "50%"))
    return "can't be measured" not in r.stderr


@pytest.fixture(scope="module", autouse=True)
def measuring():
    if not may_measure():
        pytest.skip("the kernel does not let us look at threads (perf_event_open)")


def test_the_hot_one_is_thinned_and_said_so(tmp_path):
    r = traces.record(tmp_path / "t", ["hot s=arg0:string", "cold n=arg0"], [targets.build("warm"), "2"],
                      options=("--max-overhead", "5"))
    hots, colds = map(int, r.stdout.split())
    assert r.status == 0 and "hot: on for 50 % of the time" in r.stderr, r
    assert "cold: on for" not in r.stderr
    probes = {p["probe"].split()[0]: p for p in r.summary["probes"]}
    assert 0 < probes["hot"]["hits"] < hots
    assert probes["cold"]["hits"] == colds
    out = subprocess.run(["babeltrace2", str(tmp_path / "t")], capture_output=True, text=True, errors="replace",
                         timeout=targets.LIMIT).stdout
    said = [line for line in out.splitlines() if "jab:thinned" in line]
    assert said and all('probe = "hot"' in line for line in said) and "millionths = 500000" in said[0]


def test_within_the_limit_nothing_is_missed():
    r = scripts.run("uprobe:exe:hot { @h = count(); } uprobe:exe:cold { @c = count(); printf(\"%d\\n\", arg0); }",
                    targets.build("warm"), 1, options=("--max-overhead", "60%"))
    hots, colds = map(int, r.stdout.split())
    assert r.status == 0 and not r.stderr, r
    assert (scalar(r.output, "h"), scalar(r.output, "c")) == (str(hots), str(colds))


@pytest.mark.parametrize("value", ["0", "-1", "101", "x", "2%%", ""])
def test_no_limit_at_all(value):
    r = jab.run("-e", "uprobe:exe:hot { @ = count(); }", "--max-overhead", value, "-c", "true")
    assert r.status == 2 and "not a valid value for --max-overhead" in r.stderr, r
