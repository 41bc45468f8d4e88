# SPDX-License-Identifier: MIT
"""The command line around scripts: listing, dumps, plans, JSON, and what is said when it is used wrongly."""
import json
import os
import shutil
import signal
import subprocess

import pytest

import jab


def lines(*args, **popen):
    r = jab.run(*args, **popen)
    assert r.status == 0 and not r.stderr, r
    return r.output.splitlines()


def wrong(r, status, *words):
    """One sentence that says so, and nothing else."""
    assert r.status == status, r
    assert all(w in r.stderr for w in words), r
    assert r.output == "" and len(r.stderr.splitlines()) == 1, r


# --- listing ---

def test_list_pattern(built):
    calls = built("calls")
    assert lines("-l", f"uprobe:{calls}:work*") == [f"uprobe:{calls}:work", f"uprobe:{calls}:worker"]
    assert lines("-l", f"ur:{calls}:work") == [f"uretprobe:{calls}:work"]
    assert lines("-l", f"call:{calls}:work") == [f"call:{calls}:work"]
    assert lines("-l", f"uprobe:{calls}:work,ur:{calls}:worker") == [f"uprobe:{calls}:work", f"uretprobe:{calls}:worker"]
    assert f"uprobe:{calls}:main" in lines("-l", calls)


def test_listed_names_can_be_given_again(built):
    """Those of C++, too."""
    found = lines("-l", f"uprobe:{built('throw')}:*")
    assert any('"' in x for x in found), found
    for x in found:
        assert x in lines("-l", x), x
    assert set(lines("-l", "-e", ",".join(found) + " { }")) >= set(found)


def test_list_types(built):
    calls = built("calls")
    assert lines("-lv", f"uprobe:{calls}:work*") == [
        f"uprobe:{calls}:work", "    unsigned long x", "    unsigned long retval",
        f"uprobe:{calls}:worker", "    void *arg", "    void *retval"]
    (row,) = map(json.loads, lines("--json", "-l", f"uprobe:{calls}:worker"))
    assert row["spec"] == f"uprobe:{calls}:worker" and row["function"] == "worker", row
    assert row["args"] == [{"name": "arg", "type": "void *"}] and row["retval"] == "void *", row


def test_types_are_all_that_v_adds(target):
    t = target("calls", "serve", 1)
    out = lines("-lv", "-p", t.pid, "libc:mallo?")          # its names may come from another file: not told here
    assert out[0].endswith(":malloc") and all(x.startswith("    ") for x in out[1:]), out
    t.stop()


def test_list_command_types(built):
    out = lines("list", "-v", built("calls"), "work")
    assert out[0].split()[-1] == "calls:work" and out[1:] == ["    unsigned long x", "    unsigned long retval"]
    (row,) = map(json.loads, lines("list", "--json", built("calls"), "work"))
    assert row["args"] == [{"name": "x", "type": "unsigned long"}] and row["size"] > 0, row
    rows = [json.loads(x) for x in lines("list", "--json", "/bin/true")]
    assert rows and all(x["args"] is None for x in rows), rows


def test_list_of_a_process(target):
    t = target("calls", "serve", 1)
    exe = os.readlink(f"/proc/{t.pid}/exe")
    assert lines("-l", "-p", t.pid, "exe:work") == [f"uprobe:{exe}:work"]
    found = lines("-l", "-p", t.pid, "libc:mallo?")
    assert len(found) == 1 and found[0].startswith("uprobe:/") and found[0].endswith(":malloc"), found
    assert f"uprobe:{exe}:worker" in lines("-l", "-p", t.pid)
    t.stop()


def test_list_script(built, tmp_path):
    calls, script = built("calls"), tmp_path / "a.bt"
    text = f"BEGIN {{ exit(7); }} uprobe:{calls}:work*, call:{calls}:main {{ @ = count(); }} interval:s:1 {{ }}"
    script.write_text("#!/usr/bin/env jab\n" + text)
    expect = ["BEGIN", f"uprobe:{calls}:work", f"uprobe:{calls}:worker", f"call:{calls}:main", "interval:s:1"]
    assert lines("-l", script) == expect
    assert lines("-l", "-e", text) == expect
    assert lines("-lv", "-e", text)[1:3] == [f"uprobe:{calls}:work", "    unsigned long x"]


# --- looking without running ---

@pytest.mark.parametrize("what,word", [("ast", "(set @ (count))"), ("ir", "map_agg @"), ("asm", "# @")])
def test_dump(built, what, word):
    """Needs no process."""
    out = "\n".join(lines("--dump", what, "-e", f"u:{built('calls')}:work /arg0 > 5/ {{ @ = count(); }}"))
    assert word in out, out


def test_dump_asm_is_what_objdump_says(built, tmp_path):
    """Every line of code is an instruction, one behind the other, from the first byte to the last."""
    out = lines("--dump", "asm", "-e", f"call:{built('calls')}:work {{ @[pid] = hist(duration); printf(\"%s\", str(arg0)); }}")
    heads = [x for x in out if x.endswith(" bytes")]
    assert [x.split(" at ")[1].split(":")[0] for x in heads] == ["work (entry)", "work (exit)", "work (left)"], heads
    assert not [x for x in out if "(bad)" in x]
    code = [int(x.split()[0], 16) for x in out if x and x not in heads]
    entry = code[:code.index(0x10000000, 1)]
    assert entry == sorted(set(entry)) and entry[0] == 0x10000000


def test_dry_run_touches_nothing(target):
    t = target("calls", "serve", 1)
    before = jab.snapshot(t.pid)
    out = lines("--dry-run", "-p", t.pid, "-e", 'BEGIN { printf("no\\n"); } u:exe:work* { @ = count(); } END { printf("no\\n"); }')
    assert [x.split() for x in out] == [["SITES", "REFUSED", "PROBE"], ["2", "0", "u:exe:work*"]], out
    jab.assert_same(before, t.pid)
    r = jab.run("--dry-run", "--json", "-p", t.pid, "-e", "u:exe:work { }")
    assert r.status == 0 and r.summary["probes"][0]["sites"] == 1 and len(r.objects) == 1, r
    jab.assert_same(before, t.pid)
    t.stop()


# --- JSON ---

def test_json(built, tmp_path):
    out = tmp_path / "out"
    r = jab.run("--json", "-o", out, "-e", 'u:exe:work { @[arg0 % 2] = count(); @h = hist(arg0); } END { printf("bye\\n"); }',
                "--", built("calls"), 10, 1)
    assert r.status == 0 and r.output.strip() == "10", r
    got = [json.loads(x) for x in out.read_text().splitlines()]
    assert got[0] == {"type": "attached_probes", "count": 2, "data": {"probes": 2}}, got
    assert {"type": "printf", "data": "bye\n"} in got, got
    assert {"type": "map", "data": {"@": {"0": 5, "1": 5}}} in got, got
    assert {"type": "hist", "data": {"@h": [{"min": a, "max": b, "count": n} for a, b, n in
                                            [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 4), (8, 15, 2)]]}} in got, got
    assert got[-1]["summary"]["clean"] is True and got[-1]["summary"]["probes"] == [
        {"probe": "u:exe:work", "sites": 1, "refused": 0, "hits": None}], got


def test_json_is_that_of_bpftrace():
    text = ('BEGIN { @x["a", 1] = 5; @x["b \\"q\\"", 2] = -7; @n = 3; @str = "a\\nb"; @h = hist(5); @h = hist(70); @h = hist(-1);'
            ' @l = lhist(5, 0, 20, 10); @l = lhist(50, 0, 20, 10); @s["k"] = stats(4); @a = avg(3); @c[1] = count(); @t = (1, "x");'
            ' printf("hi %d\\n", 3); print(5); print((1, "two")); print(@x, 1); exit(); }')
    p = subprocess.run(["bpftrace", "-f", "json", "-e", text], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=jab.LIMIT) if shutil.which("bpftrace") and not os.geteuid() else None
    if not p or '"map"' not in p.stdout:
        pytest.skip("bpftrace does not work here")
    theirs = [json.loads(x) for x in p.stdout.splitlines() if x]
    ours = jab.run("-f", "json", "-e", text)
    assert ours.status == 0, ours
    assert ours.rows[1:] == theirs[1:]


def test_folded_stacks(built, tmp_path):
    out = tmp_path / "out"
    r = jab.run("--folded", "-o", out, "-e", 'u:exe:work { @[ustack] = count(); @n["x"] = count(); }', "--", built("calls"), 10, 1)
    assert r.status == 0, r
    stack, _, other = out.read_text().partition("\n")
    assert stack.endswith(";worker;work 10") and other.strip() == "@n[x]: 10", out.read_text()


def test_json_of_the_tracer_alone():
    for how in (["--json"], ["-f", "json"]):
        r = jab.run(*how, "-e", 'BEGIN { print((1, "x")); exit(3); }')
        assert r.status == 3 and r.rows[1:] == [{"type": "value", "data": [1, "x"]}] and r.summary["clean"], r
        assert r.rows[0] == {"type": "attached_probes", "count": 1, "data": {"probes": 1}}, r
        r = jab.run(*how, "-q", "-e", 'BEGIN { print((1, "x")); }')
        assert r.status == 0 and r.output == '{"type": "value", "data": [1,"x"]}\n', r


def test_begin_and_end_alone():
    """Nothing is waited for. The number of probes comes first, two empty lines separate the maps from the rest."""
    p = subprocess.run([jab.JAB, "-e", 'begin { printf("a\\n"); @x = 1 } end { printf("z") }'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=jab.LIMIT)
    assert (p.returncode, p.stdout) == (0, "Attached 2 probes\na\nz\n\n@x: 1\n"), p
    p = subprocess.run([jab.JAB, "-q", "-e", "begin { @x = 1 }"], capture_output=True, text=True, timeout=jab.LIMIT)
    assert (p.returncode, p.stdout, p.stderr) == (0, "\n\n@x: 1\n", ""), p


def test_messages_of_a_script_go_to_stderr(tmp_path):
    text = 'begin { errorf("n %d", 7); warnf("w"); assert(1 == 2, "no"); }'
    r = jab.run("-e", text, "-o", tmp_path / "out")
    assert r.status == 1 and (tmp_path / "out").read_text() == "\n\n", r
    assert r.stderr.splitlines() == ["stdin:1:9-26: ERROR: n 7", "stdin:1:28-38: WARNING: w", "stdin:1:40-60: ERROR: assert failed: no"], r
    r = jab.run("-q", "--json", "-e", text)
    assert r.rows == [{"type": "errorf", "msg": "n 7", "filename": "stdin", "line": 1, "col": 9},
                      {"type": "warnf", "msg": "w", "filename": "stdin", "line": 1, "col": 28},
                      {"type": "errorf", "msg": "assert failed: no", "filename": "stdin", "line": 1, "col": 40}], r


# --- mistakes ---

CASES = [
    (["-e"], 2, "a value is missing after '-e'"),
    (["-e", "BEGIN { }", "-e", "END { }"], 2, "more than once"),
    (["-e", "BEGIN { }", "--bogus"], 2, "no such option '--bogus'"),
    (["-e", "BEGIN { }", "-Z"], 2, "no such option '-Z'"),
    (["-e", "BEGIN { }", "--dump"], 2, "a value is missing after '--dump'"),
    (["-e", "BEGIN { }", "--dump", "nonsense"], 2, "--dump takes ast, ir or asm"),
    (["-e", "BEGIN { }", "--json", "--folded"], 2, "choose one"),
    (["-e", "BEGIN { }", "-f", "xml"], 2, "-f takes text or json"),
    (["-e", "BEGIN { }", "-d", "soon"], 2, "'soon' is not a valid value for --duration SECONDS"),
    (["-e", "BEGIN { }", "--buffer-size", "x"], 2, "not a valid value"),
    (["-e", "BEGIN { }", "--"], 2, "no command after --"),
    (["-e", "BEGIN { }", "-c", "true", "--", "true"], 2, "two commands"),
    (["-e", "u:libnosuch:malloc { }"], 2, "no target given (-p PID, -c CMD or -- CMD)"),
    (["--json"], 2, "no script given"),
    (["-l"], 2, "-l needs a probe"),
    (["-l", "libc:malloc"], 2, "names no file by its path"),
    (["-l", "-c", "true", "libc:malloc"], 2, "-l starts nothing"),
    (["-l", "uprobe:/nonexistent/x:*"], 1, "/nonexistent/x can't be opened: No such file"),
    (["-l", "uprobe:/bin/true"], 1, "FILE:FUNCTION"),
    (["-l", "uprobe:/bin/true:nothing_like_it*"], 1, "no function matches"),
    (["-l", "kprobe:do_nanosleep"], 1, "kernel probes"),
    (["-l", "-p", "99999999"], 1, "99999999"),
    (["/nonexistent/x.bt"], 1, "/nonexistent/x.bt can't be opened: No such file"),
    (["misspelt.bt"], 1, "misspelt.bt can't be opened: No such file"),
    (["/tmp"], 1, "/tmp can't be read: Is a directory"),
    (["/bin/true"], 1, "/bin/true is a program, not a script"),
    (["-e", "u:exe:main { }", "-p", "99999999"], 1, "99999999"),
    (["-e", "u:exe:main { }", "-p", "no_such_name_here"], 1, "no_such_name_here"),
    (["-e", "u:exe:main { }", "-c", "/nonexistent/x"], 1, "/nonexistent/x"),
    (["-e", "u:exe:main { }", "-c", "'unclosed"], 1, "is not closed"),
    (["-e", "u:exe:no_such_function_here { }", "-c", "true", "--no-follow"], 1, "no_such_function_here"),
    (["-e", "u:/nonexistent/x:main { }"], 1, "/nonexistent/x"),
    (["-e", "BEGIN { exit(); }", "-o", "/nonexistent/x"], 1, "/nonexistent/x can't be written: No such file"),
    (["-e", 'BEGIN { printf("x"); exit(); }', "-o", "/dev/full"], 1, "/dev/full can't be written: No space left"),
]


@pytest.mark.parametrize("args,status,words", CASES, ids=[" ".join(x[0]) for x in CASES])
def test_mistakes(args, status, words):
    wrong(jab.run(*args), status, words)


def test_scripts_without_sense(tmp_path):
    for text, word in [("", "there is no probe in this script"), ("  // nothing\n", "there is no probe"),
                       ("BEGIN { nonsense(5); }", "nonsense"), ("BEGIN {", "ERROR")]:
        r = jab.run("-e", text)
        assert r.status == 1 and word in r.stderr and r.stderr.startswith("stdin:"), r
    f = tmp_path / "bytes.bt"
    f.write_bytes(b"BEGIN { \0\1\2 }")
    wrong(jab.run(f), 1, "it holds binary data")
    f.write_bytes(b"")
    r = jab.run(f)
    assert r.status == 1 and "there is no probe" in r.stderr, r
    r = jab.run("-e", f)
    assert r.status == 1 and f"`jab {f}`, without -e, runs it" in r.stderr, r


def test_unreadable_script(tmp_path):
    if os.geteuid():
        pytest.skip("needs another user")
    os.chmod(tmp_path, 0o755)
    f = tmp_path / "mine.bt"
    f.write_text("BEGIN { exit(); }")
    f.chmod(0o600)
    if not jab.run("--version", wrap=AS_NOBODY).output:
        pytest.skip("another user can't run this build")
    wrong(jab.run(f, wrap=AS_NOBODY, cwd="/"), 1, "mine.bt can't be opened: Permission denied")


AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def test_process_of_another_user(target):
    if os.geteuid():
        pytest.skip("needs another user")
    if not jab.run("--version", wrap=AS_NOBODY).output:
        pytest.skip("another user can't run this build")
    t = target("calls", "serve", 1)
    r = jab.run("-e", "u:exe:work { }", "-p", t.pid, wrap=AS_NOBODY, cwd="/")
    assert r.status == 1 and str(t.pid) in r.stderr and len(r.stderr.splitlines()) == 1, r
    t.stop()


def test_closed_and_full_stdout():
    script = ["-e", 'BEGIN { printf("x\\n"); exit(); }']
    for to in ("/dev/full", None):
        with open(to or "/dev/null", "w") as f:
            p = subprocess.run([jab.JAB, *script], stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.PIPE, text=True,
                               timeout=jab.LIMIT, preexec_fn=None if to else lambda: os.close(1))
        assert p.returncode == 1 and "can't be written" in p.stderr and len(p.stderr.splitlines()) == 2, (to, p)


def test_target_that_ends(target):
    """The run ends with it, and says what it knows."""
    t = target("calls", "serve", 1)
    p = subprocess.Popen([jab.JAB, "-v", "-p", str(t.pid), "-e", 'u:exe:work { @ = count(); } END { printf("end\\n"); }'],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in p.stderr:
        if line.startswith("jab: active:"):
            break
    os.kill(t.pid, signal.SIGKILL)
    out, err = p.communicate(timeout=jab.LIMIT)
    assert p.returncode == 0 and "end" in out, (out, err)


def test_help():
    for args in (["-e", "--help"], ["--dump", "ast", "--help"]):
        out = lines(*args)
        assert out[0].startswith("usage: jab -e SCRIPT | FILE.bt") and out[-1] == "More: man jab-script", out
    assert any("jab -e SCRIPT" in x for x in lines("--help"))
