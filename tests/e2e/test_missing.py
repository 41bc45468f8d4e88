# SPDX-License-Identifier: MIT
"""Probes whose place does not exist: what the script's `missing_probes` says is done, and what a file on disk can tell is told
before anybody waits for a process that uses it."""
import os

import pytest

import jab
import scripts

FILE_PROBES = "uprobe:{path}:no_such_function {{ @a++ }} uprobe:{path}:work {{ @n = count() }}"


def run(text, *command, limit=20):
    return scripts.run(text, *command, limit=limit)


@pytest.mark.parametrize("how, says", [("warn", True), ("ignore", False)])
def test_left_out(built, how, says):
    path = built("calls")
    r = run(f'config = {{ missing_probes = "{how}" }} ' + FILE_PROBES.format(path=path), path, 50, 1)
    assert r.status == 0 and "@n: 50" in r.output, r
    assert ("no function matches 'no_such_function'" in r.stderr and "the probe is left out" in r.stderr) == says, r
    assert says or "no_such_function" not in r.stderr, r
    inside = run(f'config = {{ missing_probes = "{how}" }} uprobe:{path}:work+1 {{ @a++ }} uprobe:{path}:work {{ @n = count() }}', path, 50, 1)
    assert inside.status == 0 and "@n: 50" in inside.output and ("is inside an instruction" in inside.stderr) == says, inside


def test_error(built):
    path = built("calls")
    for text in ('config = { missing_probes = "error" } ' + FILE_PROBES.format(path=path), FILE_PROBES.format(path=path)):
        r = run(text, path, 50, 1)
        assert r.status == 1 and "no function matches 'no_such_function'" in r.stderr and not r.stdout, r
    # It would wait for a library that no program has: that is said to be a mistake, or awaited.
    waits = "uprobe:libnosuch:f { @a++ } uprobe:exe:work { @n = count() }"
    r = run('config = { missing_probes = "error" } ' + waits, path, 50, 1)
    assert r.status == 1 and "no mapped file matches 'libnosuch'" in r.stderr, r
    r = run(waits, path, 50, 1)
    assert r.status == 0 and "@n: 50" in r.output and "the probe waits until one is loaded" in r.stderr, r
    r = run('config = { missing_probes = "ignore" } ' + waits, path, 50, 1)
    assert r.status == 0 and "@n: 50" in r.output and "libnosuch" not in r.stderr, r
    # What the file on disk has is not missing, though no process uses it yet.
    r = run(f'config = {{ missing_probes = "error" }} uprobe:{path}:work {{ @n = count() }}', "sh", "-c", f"{path} 50 1; true")
    assert r.status == 0 and "@n: 50" in r.output, r


def test_value_is_checked():
    r = run('config = { missing_probes = "perhaps" } BEGIN { exit() }')
    assert r.status == 1 and "'perhaps' is no value for missing_probes" in r.stderr, r


def test_without_a_target(tmp_path):
    """The rest of the script runs; a script of which nothing is left does not."""
    r = run('config = { missing_probes = "warn" } uprobe:/no/such/file:f { @a++ } interval:ms:10 { print("tick"); exit() }')
    assert r.status == 0 and r.output == "tick\n" and "/no/such/file" in r.stderr and "left out" in r.stderr, r
    r = run('config = { missing_probes = "ignore" } uprobe:/no/such/file:f { @a++ }')
    assert r.status == 1 and "none of the script's probes can be placed" in r.stderr, r
    r = run("uprobe:/no/such/file:f { @a++ } interval:ms:10 { exit() }")
    assert r.status == 1 and "/no/such/file" in r.stderr, r


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told of new processes")
@pytest.mark.parametrize("place, why", [
    ("0x10", "no function is known there"), ("work+1", "is inside an instruction"), ("work+0x5000", "is not in that function"),
    ("no_such_function", "no function matches"), ("0xffffff", "0xffffff"),
])
def test_places_that_are_no_code_are_not_waited_for(built, place, why):
    r = jab.run("-e", f"uprobe:{built('calls')}:{place} {{ @a++ }}", "-d", "5", limit=20)
    assert r.status == 1 and why in r.stderr, r


def test_a_function_that_a_release_lacks(built):
    """One of a list may be missing; not all, and not one that stands alone."""
    path = built("calls")
    r = run(f"uprobe:{path}:work, uprobe:{path}:no_such_function {{ @ = count() }}", path, 50, 1)
    assert r.status == 0 and "@: 50" in r.output and "no_such_function" in r.stderr and "left out" in r.stderr, r
    for probes in (f"uprobe:{path}:no_such_function", f"uprobe:{path}:no_such_function, uprobe:{path}:nor_this"):
        r = run(probes + " { @ = count() } interval:ms:50 { exit() }", path, 50, 1)
        assert r.status == 1 and "no function matches" in r.stderr, r
    r = jab.run("-e", "uprobe:libnosuchthing:f { @ = count() }")
    assert r.status == 2 and "names a file by its path" in r.stderr, r


def test_a_library_by_its_name():
    """As the loader finds it; a program by PATH. Nothing uses this one."""
    r = jab.run("--dry-run", "-v", "-e", "uprobe:libform:new_form { @ = count() }", "--no-follow")
    assert r.status == 1 and "no running process uses /" in r.stderr and "libform.so" in r.stderr, r
    r = jab.run("--dry-run", "-e", "uprobe:ctags:main { @ = count() }", "--no-follow")
    assert r.status == 1 and "/ctags" in r.stderr, r
