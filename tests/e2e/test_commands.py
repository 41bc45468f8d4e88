# SPDX-License-Identifier: MIT
"""list, check, count: what they print, for people and as JSON, and their exit status."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading

import pytest

import jab

TACTICS = {"nop", "jump", "slack", "back", "retarget", "hop", "evict", "pun", "hop-neighbour", "shared", "none", "trap"}


def test_list_of_a_file(built):
    r = jab.run("list", built("calls"))
    assert r.status == 0, r
    assert any(x.endswith(":work") or x == "work" for x in r.output.split()), r


def test_list_with_a_pattern(built):
    r = jab.run("list", built("calls"), "wor?")
    assert r.status == 0, r
    assert len(r.output.splitlines()) == 1 and "work" in r.output, r


def test_list_as_json(built):
    r = jab.run("list", "--json", built("throw"), "*through*")
    assert r.status == 0, r
    rows = [x for x in r.rows if jab.plain(x["function"]) == "shop::through"]
    assert len(rows) == 1, r
    assert rows[0]["size"] > 0 and rows[0]["module"].endswith("throw") and rows[0]["spec"], rows


def test_what_list_prints_can_be_probed(target):
    """One spec a line, ready to be pasted."""
    t = target("calls", "serve", 1)
    r = jab.run("list", "-p", t.pid, "exe:wor*")
    assert r.status == 0, r
    spec = r.output.splitlines()[0].split()[0]
    with jab.Count(t.pid, spec) as c:
        t.run(12)
        r = c.stop()
    assert r.status == 0 and r.probe(spec)["hits"] == 12, r
    t.stop()


def test_list_of_a_process_knows_its_libraries(target):
    t = target("calls", "serve", 1)
    r = jab.run("list", "--json", "-p", t.pid, "libc:mallo?")
    assert r.status == 0, r
    assert "malloc" in {x["function"] for x in r.rows}, r
    t.stop()


def test_check_of_a_file(built):
    r = jab.run("check", "--json", built("calls"), "work", "work%return")
    assert r.status == 0, r
    assert len(r.rows) >= 2, r
    for x in r.rows:
        assert set(x) >= {"probe", "module", "function", "address", "tactic", "cost", "reason"}, x
        assert int(x["address"], 16) > 0
        assert x["tactic"] in TACTICS, x
        assert x["function"] == "work"
    assert int(r.rows[0]["address"], 16) == jab.symbols(built("calls"))["work"]


def test_check_of_a_process_is_what_count_does(target):
    t = target("calls", "serve", 1)
    before = jab.snapshot(t.pid)
    r = jab.run("check", "--json", "-p", t.pid, "exe:*")
    assert r.status == 0, r
    missed = [x for x in r.rows if x["tactic"] == "none"]
    jab.assert_same(before, t.pid)
    with jab.Count(t.pid, "exe:*") as c:
        got = c.stop().probe("exe:*")
    assert (got["sites"], got["refused"]) == (len(r.rows), len(missed))
    t.stop()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/bin/bash", "/usr/bin/python3.11", "/lib/x86_64-linux-gnu/libc.so.6",
                                  "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib64/ld-linux-x86-64.so.2"])
def test_check_covers_real_files(path):
    """Entries: nearly all, and each miss has its reason."""
    if not os.path.exists(path):
        pytest.skip(f"{path} is not installed")
    r = jab.run("check", "--json", path, "*")
    assert r.status == 0, r
    missed = [x for x in r.rows if x["tactic"] == "none"]
    assert len(r.rows) > 250
    assert len(missed) <= max(3, len(r.rows) // 100), missed[:10]
    assert all(x["reason"] for x in missed), missed[:10]


def test_refusals_have_their_reason():
    """A system call instruction, the sigreturn code: never displaced, and said so."""
    r = jab.run("check", "--json", "/lib/x86_64-linux-gnu/libc.so.6", "insn:syscall", "insn:__restore_rt")
    assert r.status in (0, 1), r
    assert all(x["reason"] for x in r.rows if x["tactic"] == "none"), r


def test_count_prints_a_table(built):
    r = jab.run("count", "-c", f"{built('calls')} 4242 2", "exe:work")
    assert r.status == 0, r
    row = next(x for x in r.output.splitlines() if "work" in x)
    assert "4242" in row, r


def test_output_does_not_mix_with_the_programs(built, tmp_path):
    out = tmp_path / "table"
    r = jab.run("count", "-o", out, "exe:work", "--", built("calls"), 4242, 2)
    assert r.status == 0 and r.output == "4242\n", r
    assert "4242" in out.read_text()


def test_json_is_json(built):
    r = jab.count_command(["exe:*", "libc:mem*"], [built("calls"), 100, 2])
    assert r.status == 0, r
    assert all(x.startswith("{") for x in r.output.splitlines()), r
    for x in r.rows:
        assert set(x) >= {"probe", "module", "function", "hits"}, x
    s = r.summary
    assert set(s["attach"]) >= {"symbols_ns", "plan_ns", "write_ns", "pause_ns"}, s
    assert s["clean"] in (True, False)
    for p in s["probes"]:
        assert p["hits"] == sum(x["hits"] for x in r.rows if x["probe"] == p["probe"]), p


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_status_is_the_commands(status):
    r = jab.count_command(["exe:main"], ["/usr/bin/env", "sh", "-c", f"exit {status}"])
    r2 = jab.count_command(["libc:malloc"], ["/bin/sh", "-c", f"exit {status}"])
    assert r2.status == status, r2
    assert r.status in (status, 1), r       # env may be without a symbol main


def test_status_of_a_command_that_dies_by_a_signal():
    r = jab.count_command(["libc:malloc"], ["/bin/sh", "-c", "kill -TERM $$"])
    assert r.status in (-signal.SIGTERM, 128 + signal.SIGTERM), r


def test_arguments_input_and_environment_reach_the_command(tmp_path):
    p = subprocess.run([jab.JAB, "count", "-o", "/dev/null", "libc:malloc", "--", "/bin/sh", "-c",
                        'read x; echo "$x $MARK $1"', "sh", "a  b"], input="line of input\n", capture_output=True,
                       text=True, env=dict(os.environ, MARK="marked"), timeout=jab.LIMIT, cwd=tmp_path)
    assert (p.returncode, p.stdout) == (0, "line of input marked a  b\n"), p


def test_ctrl_c_of_a_started_command(built, tmp_path):
    """Both get the signal from a terminal; the table comes all the same."""
    out = tmp_path / "table"
    p = subprocess.Popen([jab.JAB, "count", "-v", "--json", "-o", str(out), "exe:work", "--", str(built("calls")), "serve",
                          "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         start_new_session=True)
    assert p.stdout.readline() == "ready\n"
    p.stdin.write("run 31\n")
    p.stdin.flush()
    assert p.stdout.readline() == "done 31\n"
    os.killpg(p.pid, signal.SIGINT)
    p.wait(jab.LIMIT)
    r = jab.Result(p.returncode, out.read_text(), "")
    assert r.hits("work") == 31, r


def test_patterns(built):
    """glob, regular expression, offset, name of its own: each finds the one function."""
    probes = ["exe:w?rk", "exe:/^work$/", "exe:work+0", "mine=exe:work", "u:exe:work", "uprobe:exe:work", "work"]
    r = jab.count_command(probes, [built("calls"), 100, 1])
    assert r.status == 0, r
    assert [p["hits"] for p in r.summary["probes"]] == [100] * len(probes), r


@pytest.mark.parametrize("name", ["a b", "a:b", "a\nb", 'a"b\\c', "a'b", "-dash", "x=y", "a{b", "u:x", "@k", "[z", "\udcff",
                                  "\u20ac", "*x?", "%return", "a+0x10"])
def test_odd_file_names(built, tmp_path, name):
    """What list prints can be probed, and JSON is JSON."""
    odd = tmp_path / name
    shutil.copy(built("calls"), odd)
    p = subprocess.run([jab.JAB, "list", "--json", odd, "work"], capture_output=True, timeout=jab.LIMIT)
    assert json.loads(p.stdout.decode())["function"] == "work", p
    p = subprocess.run([jab.JAB, "list", odd, "work"], capture_output=True, timeout=jab.LIMIT)
    spec = os.fsdecode(p.stdout).removesuffix("\n")
    p = subprocess.run([jab.JAB, "count", "--json", "-o", tmp_path / "out", spec, "--", odd, "10", "1"],
                       capture_output=True, timeout=jab.LIMIT)
    assert p.returncode == 0, p
    r = jab.Result(p.returncode, (tmp_path / "out").read_text(), "")
    assert r.hits("work") == 10, r


def test_list_of_several_processes(built, tmp_path):
    """By name: a file that all of them use is listed once."""
    prog = shutil.copy(built("calls"), tmp_path / "twocalls")
    targets = [subprocess.Popen([prog, "serve", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for t in targets:
            t.stdout.readline()
        r = jab.run("list", "-p", "twocalls", "exe:*")
        assert r.status == 0 and r.output.split().count("twocalls:work") == 1, r
        assert len(r.output.split()) == len(set(r.output.split())), r
        assert [x["function"] for x in jab.run("list", "--json", "-p", "twocalls", "exe:work").rows] == ["work"]
    finally:
        for t in targets:
            t.kill()
            t.communicate()


# --- the run is over, the command is not ---

AFTER = """import os, sys
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
for _ in range(5):
    os.getppid()
sys.stdin.read()
sys.exit(3)
"""


@contextlib.contextmanager
def started(*words):
    """jab with a command. Whatever becomes of jab, the command, which has the same pipes and may be stopped, ends as well."""
    p = subprocess.Popen([jab.JAB, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         errors="replace", start_new_session=True)

    def end():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)

    hung = threading.Timer(jab.LIMIT, end)
    hung.start()
    try:
        yield p
    finally:
        hung.cancel()
        end()
        with contextlib.suppress(BrokenPipeError):
            p.stdin.close()
        p.stdout.close()
        p.stderr.close()
        p.wait()


@pytest.mark.parametrize("words", [
    ["trace", "-n", 2, "libc:getppid"], ["trace", "-d", .5, "libc:getppid"], ["trace", "-n", 2, "-o", "/dev/stdout", "libc:getppid"],
    ["count", "-d", .5, "libc:getppid"], ["record", "-o", "-", "-n", 2, "libc:getppid"],
    ["-d", .5, "-e", "u:libc:getppid { @ = count() }"],
])
def test_the_command_outlives_the_run(words):
    """It is waited for, which is said; but a reader of our output does not wait, and its exit status is ours."""
    with started(*words, "--", "/usr/bin/python3", "-c", AFTER) as p:
        assert p.stdout.read()                  # to its end
        assert p.poll() is None
        said = p.stderr.readline()
        while said and "waiting for process" not in said:
            said = p.stderr.readline()
        assert "to end, which runs on without probes; Ctrl-C ends the wait" in said
        p.stdin.close()
        assert p.wait() == 3 and "waiting" not in p.stderr.read()


def test_exit_of_a_script_ends_the_command():
    """As with bpftrace."""
    with started("-e", 'u:libc:getppid { printf("%d\\n", pid); exit(7) }', "--", "/usr/bin/python3", "-c", AFTER) as p:
        pid = int(p.stdout.readline())
        assert p.wait() == 7
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert "waiting" not in p.stderr.read()


def test_words_of_the_command_are_those_of_sh(tmp_path):
    """In double quotes a backslash stays before what it does not protect."""
    line = r'''printf '%s|' "a\b" "c\"d" "e\\f" "g\$h" i\j 'k\l' "" '''
    want = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout
    r = jab.run("count", "-o", tmp_path / "out", "-c", line, "libc:puts")
    assert r.status == 0 and r.output == want, (want, r)


def test_recover_takes_the_pid_as_the_others(target):
    t = target("calls", "serve", 1)
    r = jab.run("recover", "-p", t.pid)
    assert r.status == 0 and r.output == "nothing was left behind\n", r
    assert jab.run("recover", "-p", t.pid, t.pid).status == 2
    t.stop()


def test_a_script_says_what_never_had_a_place(built):
    path = built("calls")
    r = jab.run("-c", f"env {path} 10 1", "-e", f"u:{path}:wrok {{ @a = count(); }} u:{path}:work {{ @b = count(); }}")
    assert r.status == 0 and f"u:{path}:wrok: no hit; nothing that was loaded has such a place" in r.stderr, r
    assert f"u:{path}:work: no hit" not in r.stderr, r


@pytest.mark.parametrize("probe", ["exe:work", "*:work"])
def test_a_program_that_is_executed_later_has_a_name(built, probe):
    r = jab.run("trace", "-c", f"env {built('calls')} 10 1", probe)
    assert r.status == 1 and "for a program that it executes later, write the function alone or PROGRAM:FUNCTION" in r.stderr, r
