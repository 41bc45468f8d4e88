# SPDX-License-Identifier: MIT
"""What bpftrace's users bring along: its options, its environment, commands started by a script, names of probes."""
import os

import pytest

import jab
import scripts
from jab import lines_of
from scripts import keyed

SYSTEM = 'u:exe:tail /arg0 == 2/ { system("echo %d %s; exit 3", arg0, "two"); printf("after\\n") }'


def test_commands(built):
    r = scripts.run(SYSTEM, built("script"), "tail", 5, options=["--unsafe"])
    assert (r.status, r.output, r.stderr) == (0, "2 two\nafter\n", ""), r
    r = scripts.run(SYSTEM, built("script"), "tail", 5, options=["--unsafe", "-f", "json"])
    assert r.rows[1:] == [{"type": "syscall", "data": "2 two\n"}, {"type": "printf", "data": "after\n"}], r
    r = jab.run("--unsafe", "-e", 'BEGIN { system("nosuchcommand 2>/dev/null; printf ab"); system("echo c"); exit() }')
    assert (r.status, r.output) == (0, "abc\n"), r


def test_commands_need_a_word(built):
    r = scripts.run(SYSTEM, built("script"), "tail", 5)
    assert (r.status, r.output) == (1, "") and "--unsafe" in r.stderr and "~~~" in r.stderr, r


def test_warnings_can_be_left_out():
    text = '#include <stdio.h>\nBEGIN { warnf("w"); errorf("e"); printf("p\\n"); exit() }'
    r = jab.run("-e", text)
    assert r.status == 0 and "WARNING: #include" in r.stderr and "2:9-19: WARNING: w\n" in r.stderr and lines_of(r.output) == ["p"], r
    r = jab.run("--no-warnings", "-e", text)
    assert (r.status, r.stderr, lines_of(r.output)) == (0, "stdin:2:21-32: ERROR: e\n", ["p"]), r
    r = jab.run("--no-warnings", "-e", text.replace("exit()", "exit("))
    assert r.status == 1 and "ERROR" in r.stderr and "WARNING" not in r.stderr, r


@pytest.mark.parametrize("options", [["-k"], ["-kk"], ["-q", "-B", "line"], ["--usdt-file-activation"], ["-I", "/", "--include", "x.h"],
                                     ["--no-feature", "uprobe_multi"]])
def test_options_of_bpftrace(built, options):
    r = scripts.run("u:exe:tail { @ = count() }", built("script"), "tail", 3, options=options)
    assert (r.status, r.output.strip(), r.stderr) == (0, "@: 3", ""), r


def with_env(text, **env):
    return scripts.run(text, env={**os.environ, **env})


def test_environment():
    """The names of 0.17 and the newer ones. They win over what the script says; those that mean nothing here do nothing."""
    cat = 'config = { max_cat_bytes = 9 } BEGIN { cat("/proc/sys/kernel/ostype"); exit() }'
    assert with_env(cat).output == "Linux\n"
    assert with_env(cat, BPFTRACE_CAT_BYTES_MAX="3").output == "Lin"
    assert with_env(cat, BPFTRACE_MAX_CAT_BYTES="4", BPFTRACE_COLOR="never", BPFTRACE_NOSUCH="x").output == "Linu"
    keys = "BEGIN { @[1] = 1; @[2] = 1; @[3] = 1; exit() }"
    for name in ("BPFTRACE_MAP_KEYS_MAX", "BPFTRACE_MAX_MAP_KEYS"):
        assert len(keyed(with_env(keys, **{name: "2"}).output, "")) == 2
    assert with_env(keys, BPFTRACE_PRINT_MAPS_ON_EXIT="0").output == ""
    r = with_env(keys, BPFTRACE_MAX_MAP_KEYS="many")
    assert r.status == 1 and "'many' is no value for BPFTRACE_MAX_MAP_KEYS" in r.stderr, r


def test_environment_limits_text(built):
    text = 'u:exe:show { printf("%d\\n", strlen(str(arg5)) <= 3) }'
    for name in ("BPFTRACE_STRLEN", "BPFTRACE_MAX_STRLEN"):
        r = scripts.run(text, built("script"), "format", env={**os.environ, name: "3"})
        assert r.status == 0 and set(lines_of(r.output)) == {"1"}, r


def test_names_of_probes(built):
    """probe is the name in full, also where the short one was written; each probe of a list has its own."""
    r = scripts.run('u:exe:tail, ur:exe:tail_end { @[probe] = count() } BEGIN, END { printf("%s\\n", probe) }', built("script"), "tail", 3)
    assert keyed(r.output, "") == {"uprobe:exe:tail": "3", "uretprobe:exe:tail_end": "3"}, r
    assert lines_of(r.output)[:2] == ["begin", "end"], r
