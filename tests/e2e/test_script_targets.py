# SPDX-License-Identifier: MIT
"""Scripts and who they watch: several targets, everybody who uses a file, children, other programs, libraries
opened later, threads, targets and tracers that are killed."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import jab
import scripts
import targets
from scripts import Script, keyed, scalar, told
from targets import LIMIT


def ask_all(t, command):
    """All lines of an answer."""
    lines = [t.ask(command)]
    while lines[-1] != "told":
        lines.append(t.line())
    return lines[:-1]


def test_attached(target):
    t = target("script", "serve")
    before = jab.snapshot(t.pid)
    with Script("u:exe:take { @n = count(); @sum = sum(n) } END { printf(\"bye\\n\") }", t.pid) as s:
        c = told("\n".join(ask_all(t, "tell 500")))
        r = s.stop()
    assert r.status == 0 and r.output.startswith("bye\n"), r
    assert (scalar(r.output, "n"), scalar(r.output, "sum")) == ("500", c["sum"])
    jab.assert_same(before, t.pid)
    t.stop()


def test_several_targets_are_one(target):
    all = [target("script", "serve") for _ in range(3)]
    with Script("u:exe:take { @n = count(); @k[pid] = count(); @w[str(s)] = count(); @h = hist(n); @top = max(n) }",
                *(t.pid for t in all)) as s:
        for i, t in enumerate(all):
            t.run(300 * (i + 1))
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "1800", r
    assert keyed(r.output, "k") == {str(t.pid): str(300 * (i + 1)) for i, t in enumerate(all)}
    assert keyed(r.output, "w") == {x: "600" for x in ("alpha", "beta", "gamma")}
    assert scalar(r.output, "top") == "899"
    for t in all:
        t.stop()


def test_numbers_of_several_targets(target):
    """What is only counted up is the sum of all, also of those that are gone; what the tracer sets is everywhere."""
    a, b, c = (target("script", "serve") for _ in range(3))
    with Script("""u:exe:take { @n++; @sum += n; @by[n % 3]++; @seen = @now } BEGIN { @now = 5 } interval:ms:10 { @ticks++ }
        END { @now = 7; @ticks = 1 }""", a.pid, b.pid, c.pid) as s:
        a.run(30)
        b.run(60)
        a.process.kill()
        a.process.wait()
        time.sleep(.1)
        c.run(90)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "180", r
    assert keyed(r.output, "by") == {str(i): "60" for i in range(3)}
    assert scalar(r.output, "sum") == str(sum(sum(range(n)) for n in (30, 60, 90)))
    assert (scalar(r.output, "now"), scalar(r.output, "ticks"), scalar(r.output, "seen")) == ("7", "1", "5")


def test_many_keys_of_several_targets(target):
    all = [target("script", "serve") for _ in range(3)]
    with Script("config = { max_map_keys = 50000 } u:exe:take { @v[pid, n] = n; @k[n, pid % 2, 1] = count() } END { clear(@v) }",
                *(t.pid for t in all)) as s:
        for t in all:
            t.run(10000)
        r = s.stop()
    assert r.status == 0 and sum(int(v) for v in keyed(r.output, "k").values()) == 30000, r.stderr
    assert "@v" not in r.output


def test_everybody_who_has_the_file(target, built, tmp_path):
    """Without -p and -c, the path in the probe says who is meant. A copy of our own: nobody else runs it."""
    prog = tmp_path / "mine"
    shutil.copy(built("script"), prog)
    all = [target("script", command=[str(prog), "serve"]) for _ in range(2)]
    with Script(f"uprobe:{prog}:take {{ @[pid] = count() }}") as s:
        for t in all:
            t.run(50)
        r = s.stop()
    assert r.status == 0 and keyed(r.output, "") == {str(t.pid): "50" for t in all}, r
    for t in all:
        t.stop()
    r = jab.run("-e", f"uprobe:{prog}:take {{ @ = count() }}", "--no-follow")
    assert r.status == 1 and "no running process" in r.stderr, r


def test_children_count(built):
    r = scripts.run("u:exe:take { @n = count(); @by[pid] = count(); @sum = sum(n) }", built("script"), "fork", 4, 1000)
    assert r.status == 0 and scalar(r.output, "n") == "4000", r
    assert keyed(r.output, "by") == {x.split()[1]: "1000" for x in r.stdout.splitlines()}


def test_another_program(built):
    """A shell that executes the target: what counts is the probe's file, whoever runs it."""
    prog = built("script")
    r = scripts.run(f"uprobe:{prog}:take {{ @n = count(); @c[comm] = count() }}", "/bin/sh", "-c",
                    f"{prog} tell 100 >/dev/null; exec {prog} tell 50")
    assert r.status == 0 and scalar(r.output, "n") == "150", r
    assert keyed(r.output, "c") == {"script": "150"}


def test_programs_one_after_the_other(built):
    """What those that are gone have left: aggregations, sums, values, by key, and what is done with them at the end."""
    prog = built("script")
    r = scripts.run(f"""u:{prog}:tail {{ @n = count(); @x++; @h[arg0] = hist(arg0); @by[pid] = count(); @q[arg0] = count(); @l = arg0;
        @z = sum(arg0); @v[arg0] = arg0 }} END {{ delete(@q[1]); zero(@z); clear(@v); @l = 77 }}""",
                    "/bin/sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do {prog} tail 3 >/dev/null; done")
    assert r.status == 0 and scalar(r.output, "n") == scalar(r.output, "x") == "24", r
    assert set(keyed(r.output, "by").values()) == {"3"} and len(keyed(r.output, "by")) == 8
    assert keyed(r.output, "q") == {"0": "8", "2": "8"} and scalar(r.output, "z") == "0" and scalar(r.output, "l") == "77"
    assert [sum(scripts.histogram(r.output, f"h[{i}]").values()) for i in range(3)] == [8, 8, 8] and "@v" not in r.output


def test_library_opened_later(target, built):
    lib = built("libplug.so")
    t = target("dlopen", lib)
    with Script(f"u:{lib}:plug_work {{ @n = count(); @sum = sum(arg0) }}", t.pid) as s:
        assert t.ask("open") == "open"
        t.run(700)
        assert t.ask("close") == "close"
        assert t.ask("open") == "open"
        t.run(70)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "770", r
    assert scalar(r.output, "sum") == str(11 * sum(range(70)))
    t.stop()


def by_item(r):
    return {x.split()[2]: x.split()[1] for x in r.stdout.splitlines() if x.startswith("item")}


def test_threads_lose_nothing(built):
    """Eight threads, a million calls each. Nothing is read: that takes its time."""
    r = scripts.run("u:exe:take { @n = count(); @sum = sum(n); @k[n % 8] = count(); @x++; @y += 2; @m = max(n); @p[n % 8]++ }",
                    built("script"), "threads", 8, 1000000)
    assert r.status == 0, r
    assert scalar(r.output, "n") == "8000000" and f"sum {scalar(r.output, 'sum')}" in r.stdout.splitlines()
    assert keyed(r.output, "k") == keyed(r.output, "p") == {str(i): "1000000" for i in range(8)}
    assert (scalar(r.output, "x"), scalar(r.output, "y"), scalar(r.output, "m")) == ("8000000", "16000000", "999")


def test_two_hundred_threads_set_and_delete(built):
    """Each has a key of its own, which comes and goes; and all of them add to the same few keys, one of which goes now and then."""
    r = scripts.run("""u:exe:take { @n = count(); @p[n % 8]++; @start[tid] = n; if (@start[tid] != n) { @wrong++ } delete(@start[tid]);
                                    if (has_key(@start, tid)) { @wrong++ } @sum[n % 5] += n; @shared[n % 3]++; if (n % 100 == 0) { delete(@shared[n % 3]) } }""",
                    built("script"), "threads", 200, 10000)
    assert r.status == 0 and scalar(r.output, "n") == "2000000", r
    assert keyed(r.output, "p") == {str(i): "250000" for i in range(8)}
    assert sum(int(v) for v in keyed(r.output, "sum").values()) == int(next(x for x in r.stdout.splitlines() if x.startswith("sum")).split()[1])
    assert not keyed(r.output, "start") and "@wrong" not in r.output, r


def test_threads_that_read(built):
    r = scripts.run("u:exe:take { @n = count(); @k[it->id] = count(); @w[str(s)] = count(); @p[it->id]++; @last[str(s)] = n }",
                    built("script"), "threads", 8, 5000)
    assert r.status == 0 and scalar(r.output, "n") == "40000", r
    assert keyed(r.output, "k") == keyed(r.output, "p") == by_item(r)
    assert keyed(r.output, "w") == {x.split()[2]: x.split()[1] for x in r.stdout.splitlines() if x.startswith("word")}
    assert set(keyed(r.output, "last")) == {"alpha", "beta", "gamma"}


def test_threads_that_keep_tuples(built):
    """Values that take more than a word are changed as a whole; who can't wait for that is counted, and nothing else is lost."""
    r = scripts.run("u:exe:take { @n = count(); @t[n % 3] = (n, n) }", built("script"), "threads", 8, 20000)
    assert r.status == 0 and scalar(r.output, "n") == "160000" and "lost" not in r.stderr, r
    for k, v in keyed(r.output, "t").items():
        a, b = v.strip("()").split(", ")
        assert a == b and int(a) % 3 == int(k), r


def test_target_killed(target):
    t, other = target("script", "serve"), target("script", "serve")
    with Script("u:exe:take { @n = count(); @[pid] = count() }", t.pid, other.pid) as s:
        t.run(100)
        t.process.kill()
        t.process.wait()
        other.run(30)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "130", r
    assert keyed(r.output, "") == {str(t.pid): "100", str(other.pid): "30"}
    other.stop()


def test_the_end_of_the_target_is_the_end(target):
    t = target("script", "serve")
    with Script("u:exe:take { @n = count() }", t.pid) as s:
        t.run(5)
        t.stop()
        r = s.wait()
    assert r.status == 0 and scalar(r.output, "n") == "5", r


def test_tracer_killed(target):
    t = target("script", "serve")
    before = jab.snapshot(t.pid)
    with Script("u:exe:take { @n = count(); @w[str(s)] = sum(n) } call:exe:sink_in { @d = hist(duration) }", t.pid) as s:
        t.run(100)
        s.kill()
    t.run(100)
    assert jab.run("recover", t.pid).status == 0
    jab.assert_same(before, t.pid)
    t.run(100)
    t.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_properly(target, number):
    t = target("script", "serve")
    with Script("u:exe:take { @n = count() } END { printf(\"the end\\n\") }", t.pid) as s:
        t.run(10)
        s.signal(number)
        r = s.wait()
    assert r.output == "the end\n\n@n: 10\n" or r.output == "the end\n@n: 10\n", r
    assert r.status == 0, r
    t.stop()


def test_duration(target):
    t = target("script", "serve")
    with Script('u:exe:take { @n = count() } END { printf("over\\n") }', t.pid, options=["-d", "0.2"]) as s:
        r = s.wait()
    assert r.status == 0 and r.output.startswith("over\n"), r
    t.stop()


def test_interval_prints(target):
    t = target("script", "serve")
    with Script("u:exe:take { @n = count() } interval:ms:20 { print(@n); @ticks++ }", t.pid) as s:
        t.run(10)
        end = time.monotonic() + LIMIT
        while "@n: 10\n" not in os.pread(s.out.fileno(), 1 << 20, 0).decode() and time.monotonic() < end:
            time.sleep(.02)
        t.run(1)
        r = s.stop()
    assert r.status == 0 and "@n: 10\n" in r.output, r
    assert re.findall(r"^@n: (\d+)", r.output, re.M)[-1] == "11" and int(scalar(r.output, "ticks")) >= 1
    t.stop()


def test_interval_exit(target):
    t = target("script", "serve")
    t.run(1)
    with Script('interval:ms:20 { if (@n >= 40) { printf("enough\\n"); exit(4) } } u:exe:take { @n++ }', t.pid) as s:
        t.run(39)
        time.sleep(.1)
        assert s.process.poll() is None
        t.run(1)
        r = s.wait()
    assert r.status == 4 and r.output.startswith("enough\n"), r
    t.stop()


def test_stacks_are_those_of_the_process_that_was_hit(target):
    """Each process has its own numbers for them."""
    a, b = (target("script", "serve") for _ in range(2))
    with Script('u:exe:sink_in /arg0 == 1/ { printf("%s", ustack(9)); }', a.pid, b.pid) as s:
        ask_all(a, "deep 1 1")
        ask_all(b, "deep 1 4")
        ask_all(a, "deep 1 2")
        r = s.stop()
    for t in (a, b):
        t.stop()
    shown = [x.count("sink_in") for x in r.output.strip().split("\n\n")]
    assert sorted(shown) == [1, 2, 4], r


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="no own pid namespace")
def test_programs_in_a_namespace_of_their_own(built):
    """There one calls itself 1, and what it starts in another one does so again: none of them is our process 1."""
    calls = built("calls")
    probe = subprocess.run(["unshare", "--pid", "--fork", "unshare", "--pid", "--fork", "true"], capture_output=True)
    if probe.returncode:
        pytest.skip("no pid namespaces can be made here: " + probe.stderr.decode(errors="replace"))
    inner = f"{calls} 20 1; {calls} 300 2; exec unshare --pid --fork {calls} 4000 1"
    r = scripts.run(f"u:{calls}:work {{ @n = count(); @p[pid] = count() }}", "unshare", "--pid", "--fork", "sh", "-c", inner)
    assert r.status == 0 and r.stdout == "20\n300\n4000\n", r
    assert scalar(r.output, "n") == "4320", r
    counts = keyed(r.output, "p")
    assert sorted(map(int, counts.values())) == [20, 300, 4000] and all(int(pid) > 20 for pid in counts), r


IN_A_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child"]
NUMBERS = "@[pid, tid, pid(target_ns), tid(target_ns)] = count()"


def namespace():
    if not shutil.which("unshare") or os.geteuid() != 0:
        pytest.skip("no own pid namespace")
    probe = subprocess.run([*IN_A_NAMESPACE, "true"], capture_output=True)
    if probe.returncode:
        pytest.skip("no pid namespaces can be made here: " + probe.stderr.decode(errors="replace"))


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return int(f.read().split()[0])


def rows(output):
    return {tuple(map(int, key.split(", "))): int(n) for key, n in re.findall(r"^@\[([\d, ]+)\]: (\d+)$", output, re.M)}


def test_numbers_of_a_container(built):
    """pid and tid are ours, as the user knows them and jab trace has them; what the process calls itself is asked for by name."""
    namespace()
    with targets.Target("calls", command=[*IN_A_NAMESPACE, str(built("calls")), "serve", "4"]) as t:
        pid = child_of(t.pid)
        with scripts.Script(f"u:exe:work {{ {NUMBERS} }} u:exe:work /pid == {pid} && tid != pid/ {{ @mine = count() }}", pid) as s:
            t.run(1000)
            r = s.stop()
        found = rows(r.output)
        assert sum(found.values()) == 1000 and {(k[0], k[2]) for k in found} == {(pid, 1)}, r
        assert all((b == pid) == (d == 1) and b >= pid and d < 100 for _, b, _, d in found), r
        others = sum(n for k, n in found.items() if k[0] != k[1])
        assert others and scalar(r.output, "mine") == str(others), r
        t.stop()


def test_numbers_of_threads_and_children_that_come_later(built):
    """Each asks once. They are gone when it ends, so what they were is told by what they say and by what must be so."""
    namespace()
    with targets.Target("numbers", command=[*IN_A_NAMESPACE, str(built("numbers")), "40"]) as t:
        pid = child_of(t.pid)
        with scripts.Script(f"u:exe:work {{ {NUMBERS} }}", pid) as s:
            said = [t.ask("go")]
            while said[-1] != "over":
                said.append(t.line())
            r = s.stop()
    said = [tuple(map(int, line.split())) for line in said[:-1]]
    found = rows(r.output)
    assert sorted((k[2], k[3]) for k in found) == sorted(set(said)) and set(found.values()) == {5}, r
    assert "was not known" not in r.stderr, r
    assert len({k[0] for k in found}) == len({k[2] for k in found}) == 4 and len({k[1] for k in found}) == len(found), r
    assert all((a == b) == (c == d) and a > c and b > d for a, b, c, d in found), r
    assert {k[0] for k in found if k[2] == 1} == {pid} and (pid, pid, 1, 1) in found, r


def test_numbers_here(built):
    """Without a namespace of its own both are the same."""
    r = scripts.run(f"u:exe:work {{ {NUMBERS} }}", built("calls"), 50, 2)
    found = rows(r.output)
    assert sum(found.values()) == 50 and all(k[:2] == k[2:] for k in found), r
