# SPDX-License-Identifier: MIT
"""Threads that can't be told apart by their thread blocks, and those that can't be yet: each call counts, once, and
nothing of theirs is touched. What a forked child writes into the memory that it shares changes no memory of its parent."""
import subprocess

import pytest

import jab
import traces


def recorded(path, probes, command, options=()):
    r = traces.record(path, probes, command, options)
    assert r.status == 0, r
    return r


@pytest.mark.parametrize("program", ["oddthreads", "oddthreads_static"])
def test_new_threads_on_used_stacks(built, tmp_path, program):
    """They run code of the C library before they are registered, and find the CPU of another thread."""
    start = "exe:start_thread" if program.endswith("static") else "libc:start_thread"
    r = recorded(tmp_path / "t", [start, "exe:nothing"], [built(program), "new", 20000])
    assert [(p["recorded"], p["lost"]) for p in r.summary["probes"]] == [(20004, 0), (20000, 0)], r
    view = jab.run("view", "--json", tmp_path / "t").objects[-1]["summary"]
    assert (view["events"], view["lost"], view["damaged"]) == (40004, 0, 0)
    c = jab.count_command([start, "exe:nothing"], [built(program), "new", 20000])
    assert [p["hits"] for p in c.summary["probes"]] == [20004, 20000], c


def test_new_thread_has_no_cpu_yet(built, tmp_path):
    """The number that it finds on a used stack is that of another thread: its first event does not go to that CPU's ring."""
    recorded(tmp_path / "t", ["libc:start_thread", "exe:nothing"], [built("oddthreads"), "again", 50])
    lines = subprocess.run(["babeltrace2", str(tmp_path / "t")], capture_output=True, text=True, check=True).stdout.splitlines()
    cpus = {name: [int(x.split("cpu_id = ")[1].split()[0]) for x in lines if f":{name}:" in x] for name in ("start_thread", "nothing")}
    assert cpus["start_thread"] == [0xffffffff] * 50, cpus
    assert len(cpus["nothing"]) == 50 and 0xffffffff not in cpus["nothing"], cpus


def test_new_threads_keep_the_fast_way(built, tmp_path):
    """pthread_create() makes no strangers: the locks stay unused."""
    r = recorded(tmp_path / "t", ["exe:nothing"], [built("oddthreads"), "new", 2000], ["-v"])
    assert "its threads can be told apart" in r.stderr, r
    assert "events go per CPU again" not in r.stderr, r


@pytest.mark.parametrize("what, hits", [("bare", 1000), ("own", 1000), ("moved", 200000), ("zeros", 200000), ("edge", 200000), ("clone3", 1)])
def test_foreign_thread_pointers(built, tmp_path, what, hits):
    c = jab.count_command(["exe:work"], [built("oddthreads"), what])
    assert (c.status, c.stdout.split()[-1], c.hits("work")) == (0, str(hits if hits > 1 else 1), hits), c
    r = recorded(tmp_path / "t", ["exe:work"], [built("oddthreads"), what], ["--buffer-size", "16M"])
    assert (r.summary["probes"][0]["recorded"], r.summary["probes"][0]["lost"]) == (hits, 0), r
    b = recorded(tmp_path / "b", ["exe:work s=str(arg0)"], [built("oddthreads"), what])
    assert b.summary["probes"][0]["recorded"] + b.summary["probes"][0]["lost"] == hits, b


def attached(target, what, *options):
    """Starts it, attaches, lets it go on; its answer and the result."""
    t = target("oddthreads", what, "wait")
    with jab.Count(t.pid, "exe:work", options=options) as c:
        answer = t.ask("go")
        status = t.process.wait(60)
        r = c.wait()
    return status, answer, r


def test_a_child_on_the_same_block_is_there_already(target):
    status, answer, r = attached(target, "shared")
    assert status == 0 and r.hits("work") == int(answer), (answer, r)
    assert "can't be told apart now" in r.stderr, r


def test_a_thread_is_not_registered_yet(target):
    """As if jab came between clone() and the registration: the others stay fast, and it counts with them, exactly."""
    status, answer, r = attached(target, "fresh")
    if status == 77:
        pytest.skip("no restartable sequences")
    assert status == 0 and r.hits("work") == int(answer), (answer, r)
    assert "its threads can be told apart" in r.stderr, r


@pytest.mark.parametrize("probe", ["exe:work", "exe:work s=str(arg0)", "exe:work ustack"])
def test_a_child_writes_over_all_that_it_shares(built, tmp_path, probe):
    """Counts and events may be wrong then. The parent goes on, and its own memory is as it was."""
    for command in (["count"], ["record", "-o", tmp_path / "t"], ["trace", "-o", "/dev/null"]):
        if command[0] == "count" and " " in probe:
            continue
        p = subprocess.run([jab.JAB, *map(str, command), probe, "--", str(built("oddthreads")), "child"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, errors="replace", timeout=60)
        assert "\n0\n" in p.stdout or p.stdout.startswith("ready\n0\n"), (command, p)
