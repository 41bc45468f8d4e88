# SPDX-License-Identifier: MIT
"""Fixtures of the end-to-end tests. `target` builds and starts programs of tests/prog and ends
them after the test, whatever happened."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import jab          # noqa: E402
import targets      # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than about ten seconds")


def pytest_collection_modifyitems(config, items):
    if not os.access(jab.JAB, os.X_OK):
        pytest.exit(f"{jab.JAB} is not built: run make first (or set JAB)", returncode=1)


@pytest.fixture
def built():
    """built("calls") -> path; skips where the compiler for it is not installed."""
    def build(name):
        try:
            return targets.build(name)
        except targets.Missing as e:
            pytest.skip(str(e))
    return build


@pytest.fixture
def target(built):
    """target("spin", 4) -> a running Target."""
    running = []

    def start(name, *args, **popen):
        if "command" not in popen:
            built(name)
        t = targets.Target(name, *args, **popen)
        running.append(t)
        return t
    yield start
    for t in running:
        t.__exit__()
