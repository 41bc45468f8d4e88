# SPDX-License-Identifier: MIT
"""docs/bpftrace.md: the example of each row is run. What works prints what the row says, what does not is refused by its name."""
import re
import shlex

import pytest

import jab
from targets import ROOT

STATES = ("works", "differs", "kernel only", "not yet")


def rows():
    section = ""
    for line in (ROOT / "docs/bpftrace.md").read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [x.strip().replace("\\|", "|") for x in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0] != "name" and set(cells[0]) != {"-"}:
            yield pytest.param(*cells[:4], id=f"{section}: {cells[0]}")


def command(example, script, pid):
    if not example.startswith("jab "):
        return ["-q", "-e", example, *(["--", script, "tail", "3"] if ":exe:" in example else [])]
    return [x.replace("SCRIPT", str(script)).replace("PID", str(pid)) for x in shlex.split(example)[1:]]


def test_every_name_has_a_row():
    """Names that the language knows are in the table, so that a new one is not forgotten."""
    known = re.findall(r'\{ "([a-z_]+)", [BC]_', (ROOT / "src/lang/builtin.c").read_text())
    beyond = {"duration", "left", "record", "every", "limit", "rate", "enable", "disable", "quantile", "errno", "args"}
    names = {x.values[0] for x in rows()}
    assert set(known) - beyond <= names, set(known) - beyond - names
    assert len(names) > 150


@pytest.mark.parametrize("name, here, example, prints", rows())
def test_row(built, target, name, here, example, prints):
    assert here in STATES and re.fullmatch(r"`.+`", example), (here, example)
    t = target("script", "serve") if "PID" in example else None
    r = jab.run(*command(example[1:-1], built("script"), t.pid if t else 0), limit=20)
    if t:
        t.stop()
    said = r.output + r.stderr
    if here in ("works", "differs"):
        assert r.status == 0 and re.search(prints[1:-1].replace("\\n", "\n"), said, re.M), r
        return
    word = re.split(r"[, ]", name)[0].lstrip("-")
    assert r.status in (1, 2) and (word in said or name == "address of a variable" and "address" in said), r
