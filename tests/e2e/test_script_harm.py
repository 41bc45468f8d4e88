# SPDX-License-Identifier: MIT
"""Scripts never hurt the target: bad addresses, divisions, endless strings, full maps, hardly any stack. What could
not be done is counted and said; what the program prints is what it prints alone."""
import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

import jab
import scripts
from scripts import Script, keyed, scalar
from test_everywhere import can_suspend_seccomp

N = 900


def run(prog, text, *args, options=(), **popen):
    alone = subprocess.run([prog, *map(str, args)], capture_output=True, text=True, timeout=jab.LIMIT, **popen)
    r = scripts.run(text, prog, *args, options=options, **popen)
    assert (r.stdout, r.status) == (alone.stdout, alone.returncode), r
    r.said = dict(x.split() for x in alone.stdout.splitlines())
    return r


def counted(r, words):
    """The number in the warning that has these words."""
    return sum(int(x) for x in re.findall(rf"(\d+) {words}", r.stderr))


def test_reads_in_conditions(built):
    r = run(built("harsh"), """u:exe:look /p->value == 3/ { @good = count() } u:exe:look /p->value != 3/ { @other = count() }
        u:exe:look /p->next->value == 4/ { @second = count() } u:exe:look { @all = count() }""", "reads", N)
    assert scalar(r.output, "good") == scalar(r.output, "second") == r.said["good"]
    assert scalar(r.output, "all") == r.said["calls"] and "@other" not in r.output
    assert counted(r, "times a condition") == 3 * (N - int(r.said["good"])), r.stderr


def test_reads_in_keys_and_values(built):
    r = run(built("harsh"), """u:exe:look { @k[p->value] = count(); @s[str(p->text)] = count(); @sum = sum(p->next->value);
        @v = p->value; @h = hist(p->value); @pair[p->value, n % 2] += p->next->value }""", "reads", N)
    assert keyed(r.output, "k") == {"3": r.said["good"]}
    assert keyed(r.output, "s") == {"good": r.said["good"]}
    assert scalar(r.output, "sum") == str(4 * int(r.said["good"]))
    assert scalar(r.output, "v") == "3"
    assert sum(int(v) for v in keyed(r.output, "pair").values()) == 4 * int(r.said["good"])
    assert counted(r, "times a condition") > 0, r.stderr


def test_reads_that_are_printed(built):
    r = run(built("harsh"), 'u:exe:look { printf("%d %d %s %r\\n", n, p->value, str(p->text), buf(p->text, 5)) }', "reads", 18)
    lines = r.output.splitlines()
    assert len(lines) == 18, r
    for i, line in enumerate(lines):
        assert line == (f"{i} <fault> <fault> <fault>" if i % 9 else f"{i} 3 good good\\x00"), line


def test_divisions(built):
    """By zero gives 1, as in bpftrace; the smallest number by -1 gives 0."""
    r = run(built("harsh"), "u:exe:part { @q = sum((int64)arg0 / (int64)arg1); @r = sum((int64)arg0 % (int64)arg1); @n = count(); "
            "@zeros = sum((int64)arg1 == 0) }", "divide")
    assert scalar(r.output, "n") == r.said["calls"]
    zeros = int(scalar(r.output, "zeros"))
    assert zeros and scalar(r.output, "q") == str(int(r.said["quotients"]) + zeros), r
    assert scalar(r.output, "r") == str(int(r.said["rests"]) + zeros), r
    assert counted(r, "divisions by zero") == 2 * int(r.said["bad"]), r.stderr


def test_divisions_in_conditions(built):
    r = run(built("harsh"), "u:exe:part /a % b == 0 && a / b > 1/ { @n = count() }", "divide")
    assert counted(r, "divisions by zero") > 0, r


def test_endless_strings(built):
    r = run(built("harsh"), """u:exe:look { @[str(p)] = count(); printf("%d %s %d\\n", n, str(p, 20), strlen(str(p))) }
        u:exe:look /str(p) == "xxx"/ { @three = count() }""", "endless", 5)
    (key, n), = keyed(r.output, "").items()
    assert set(key.rstrip(".")) == {"x"} and n == "5", r
    lines = [x for x in r.output.splitlines() if not x.startswith("@")]
    assert [x.split()[0] for x in lines if x] == list("01234") and "@three" not in r.output


@pytest.mark.parametrize("limit", [64, 1024, 60000])
def test_long_strings(built, limit):
    r = run(built("harsh"), f'config = {{ max_strlen = {limit} }} u:exe:look {{ printf("%s\\n", str(p)) }}', "endless", 3)
    lines = r.output.splitlines()
    assert len(lines) == 3 and all(x.startswith("x" * (limit - 1)) for x in lines), (len(lines), [len(x) for x in lines], r.stderr)


def test_full_maps(built):
    n = 20000
    r = run(built("harsh"), "config = { max_map_keys = 1000 } u:exe:look { @k[n] = count(); @n = count() }", "keys", n)
    kept = keyed(r.output, "k")
    assert 500 <= len(kept) <= 1000 and set(kept.values()) == {"1"}
    assert scalar(r.output, "n") == str(n)
    assert counted(r, "values were left out") == n - len(kept), r.stderr


def test_many_keys(built):
    """More than a map has by itself."""
    r = run(built("harsh"), "u:exe:look { @k[n] = count() }", "keys", 10000)
    assert len(keyed(r.output, "k")) + counted(r, "values were left out") == 10000, r.stderr


def test_large_values_have_fewer_keys(built):
    """A quantile has two thousand counters a key: by itself a map has room for fewer of them, and says for how many."""
    r = run(built("harsh"), "u:exe:look { @q[n] = quantile(n, .5); @k[n] = count() }", "keys", 3000)
    kept = keyed(r.output, "q")
    assert len(kept) == 512 and len(keyed(r.output, "k")) == 3000, r.stderr
    assert all(v == f"count 1, 50% {k}" for k, v in kept.items())
    assert counted(r, "values were left out") == 3000 - 512 and "(@q has room for 512 keys, @k for 4096;" in r.stderr, r.stderr


@pytest.mark.parametrize("wanted", ["config = { max_map_keys = 4096 }", "let @q = hash(4096);"])
def test_as_many_keys_as_are_asked_for(built, wanted):
    r = run(built("harsh"), wanted + " u:exe:look { @q[n] = quantile(n, .5) }", "keys", 3000)
    assert len(keyed(r.output, "q")) == 3000 and not r.stderr, r


def test_a_map_too_large(built):
    r = scripts.run("let @q = hash(100000); u:exe:look { @q[n] = quantile(n, .5) }", built("harsh"), "keys", 1)
    assert r.status == 1 and "map @q with room for 100000 keys would take" in r.stderr and "hash(n)" in r.stderr, r


def test_shared_values_beside_those_of_each_cpu(built):
    """Large ones stand behind the parts of the CPUs. All are cleared, and none is taken for another."""
    r = run(built("harsh"), """u:exe:look { @a[n % 7] = count(); @q[n % 5] = quantile(n % 5, .5); @s[n % 3] = stats(n % 3); @h = hist(n);
        @w[n % 2] = hist(n % 2, 5); if (n == 5999) { clear(@a); clear(@q); clear(@s); clear(@h); clear(@w) } }
        u:exe:look /n >= 6000/ { @n = count(); @left[n % 5] = quantile(n % 5, .5) }""", "keys", 6000)
    assert "@q" not in r.output and "@w" not in r.output and "@n" not in r.output and "@s" not in r.output, r.output
    r = run(built("harsh"), """u:exe:look { @a[n % 7] = count(); @q[n % 5] = quantile(n % 5, .5); @s[n % 3] = stats(n % 3);
        @w[n % 2] = hist(n % 2, 5) }""", "keys", 2100)
    assert keyed(r.output, "a") == {str(k): "300" for k in range(7)}
    assert keyed(r.output, "q") == {str(k): f"count 420, 50% {k}" for k in range(5)}
    assert keyed(r.output, "s") == {str(k): f"{{ .count = 700, .average = {k}, .total = {700 * k} }}" for k in range(3)}


def test_what_came_behind_exit_is_told_apart(built):
    """Hits go on until the probes are out; nobody has lost those."""
    r = scripts.run('u:exe:look { printf("%d\\n", n); exit() }', built("harsh"), "keys", 20000000, options=("--buffer-size", "4k"))
    assert r.status == 0 and r.output == "0\n", r
    assert all("events were lost, or came after exit()" in x for x in r.stderr.splitlines()), r


def test_memory_of_a_quantile(target):
    """It is the program's, too."""
    t = target("contexts", 3)
    with Script("call:exe:one_turn { @q[tid] = quantile(duration, .5, .99) }", t.pid) as s:
        status = Path(f"/proc/{t.pid}/status").read_text()
        s.stop()
    t.stop()
    shared = int(re.search(r"^RssShmem:\s+(\d+)", status, re.M)[1])
    assert shared < 64 << 10, status


HEAVY = """u:exe:look { @k[p->next->value, str(p->text)] = count(); @h = hist(n); @n++; printf("%d %s\\n", n, str(p->text)) }
    call:exe:look { @d = hist(duration); @r = sum(retval) }"""


@pytest.mark.parametrize("left", [4000, 2000, 1200])
def test_little_stack(built, left):
    r = run(built("harsh"), HEAVY, "stack", 500, left)
    assert scalar(r.output, "n") == "500" and scalar(r.output, "r") == r.said["result"], r
    assert keyed(r.output, "k") == {"4, good": "500"}


@pytest.mark.parametrize("where, left", [("stack", x) for x in (800, 560, 480, 400, 340, 300, 270, 256, 240, 220)] + [("first", 400), ("first", 220)])
def test_hardly_any_stack(built, where, left):
    """Also where a clause needs more than there is: that is counted, and the program goes on. The first thread's stack grows up
    to its limit, and what can still grow is there."""
    r = run(built("harsh"), HEAVY, where, 500, left, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 18, 1 << 18)))
    done, calls = (scalar(r.output, x) if f"@{x}:" in r.output else "0" for x in "nr")
    assert done in ("0", "500") and calls in ("0", r.said["result"]), r
    assert counted(r, "hits were left out") == (500 if done == "0" else 0) + (500 if calls == "0" else 0), r.stderr
    assert keyed(r.output, "k") == ({"4, good": "500"} if done == "500" else {})
    if left == 220:
        assert (done, calls) == ("0", "0")


def test_stack_overflow(built):
    """A program that lives on after its stack was at its end."""
    r = run(built("harsh"), HEAVY.replace("look", "sink_down"), "overflow", 20)
    assert r.said == {"signals": "20"} and int(scalar(r.output, "n")) > 20 * 500, r
    assert 20 <= counted(r, "hits were left out") < 20 * 40, r


def test_signal_stack(built):
    r = run(built("harsh"), HEAVY, "signal", 500)
    assert scalar(r.output, "n") == "500" and scalar(r.output, "r") == r.said["result"], r
    assert keyed(r.output, "k") == {"4, good": "500"}


STORM = """u:exe:look { @n = count(); @t[str(p->text)] = count(); @last[str(p->text)] = n; @x++; @q[str(p->text)]++ }
    call:exe:look { @k[n] = count(); @bad = sum(retval != (n ^ (n << 3)) ? 1 : 0) }"""


def test_in_the_middle_of_a_program(built):
    """A handler that comes at any instruction, of ours too, and runs into the same probe."""
    r = scripts.run(STORM, built("harsh"), "storm", 10000)
    said = dict(x.split() for x in r.stdout.splitlines())
    assert r.status == 0 and not r.stderr, r
    assert scalar(r.output, "n") == scalar(r.output, "x") == said["calls"] and scalar(r.output, "bad") == "0"
    assert keyed(r.output, "t") == keyed(r.output, "q") == {"good": said["good"], "second": said["second"]}
    assert sum(int(v) for v in keyed(r.output, "k").values()) == int(said["calls"])


@pytest.mark.parametrize("name", ["calls_musl", "calls_static", "calls_musl_static", "calls_nonpie"])
def test_other_libraries(built, name):
    r = scripts.run("""u:exe:work { @n = count(); @x++; @k[arg0 % 4] = count(); @s = sum(arg0); @y += arg0 }
        call:exe:work { @bad = sum(retval != arg0 * 3 + 1); @calls = count() }""", built(name), 40000, 4)
    assert (r.status, r.stdout, r.stderr) == (0, "40000\n", ""), r
    assert [scalar(r.output, x) for x in ("n", "x", "calls", "bad")] == ["40000", "40000", "40000", "0"]
    assert keyed(r.output, "k") == {str(i): "10000" for i in range(4)}
    assert scalar(r.output, "s") == scalar(r.output, "y") == str(4 * sum(range(10000)))


def test_children_on_the_thread_of_their_parent(built):
    """vfork: two threads at work, and children that run as one of them."""
    r = scripts.run("u:exe:hit { @n = count(); @x++; @k[arg0 % 2] = count() } call:exe:hit { @bad = sum(retval != arg0 + 1) }",
                    built("vfork"), 2)
    assert r.status == 0 and scalar(r.output, "n") == scalar(r.output, "x") == r.stdout.strip(), r
    assert sum(int(v) for v in keyed(r.output, "k").values()) == int(r.stdout) and scalar(r.output, "bad") == "0"


def test_more_events_than_can_be_shown(built):
    r = scripts.run('u:exe:take { printf("%d\\n", n); @n = count() }', built("script"), "threads", 4, 50000,
                    options=["--buffer-size", "64k"])
    lost = counted(r, "events were lost")
    assert r.status == 0 and scalar(r.output, "n") == "200000", r.stderr
    assert len(r.output.splitlines()) - 1 + lost == 200000, (lost, len(r.output.splitlines()))


def test_no_system_call_is_allowed(target):
    """A read that only the kernel could check is not made; all else works."""
    if not can_suspend_seccomp():
        pytest.skip("this kernel does not let seccomp be suspended")
    t = target("sandbox")
    before = jab.snapshot(t.pid)
    with Script('u:exe:work { @n = count(); @x++; @s[str(arg0)] = count(); printf("%d\\n", arg0) } call:exe:work { @d = count() }',
                t.pid) as s:
        t.run(20)
        r = s.stop()
    assert r.status == 0 and [scalar(r.output, x) for x in ("n", "x", "d")] == ["20", "20", "20"], r
    assert r.output.startswith("0\n1\n2\n") and "@s" not in r.output and counted(r, "times a condition") == 20, r
    jab.assert_same(before, t.pid)
    t.stop()


@pytest.mark.parametrize("how", ["prctl", "syscall"])
def test_who_forbids_calls_later(built, how):
    """Reads, stacks and names by asking the kernel end before the program forbids itself to ask."""
    alone = subprocess.run([built("recluse"), how, "100"], capture_output=True, text=True)
    if alone.returncode:
        pytest.skip("no seccomp here")
    r = scripts.run("""u:exe:look { @n = count(); @x++; @s[str(p->text)] = count(); @c[comm] = count(); @u[ustack] = count(); @v = sum(p->next->value) }
        u:exe:look /p->next->next->value == 7/ { printf("%d %s\\n", n, str(p->text)) } call:exe:look { @r = sum(retval) }""",
                    built("recluse"), how, 100)
    assert (r.stdout, r.status) == (alone.stdout, 0) and "has forbidden system calls" in r.stderr, r
    assert scalar(r.output, "n") == scalar(r.output, "x") == "200" and scalar(r.output, "r") == alone.stdout.strip(), r
    assert keyed(r.output, "s") == {"on the heap": "100"} and scalar(r.output, "v") == "700", r
    assert keyed(r.output, "c")["a name"] == "100", r
    assert [x for x in r.output.splitlines() if x.endswith(" on the heap")] == [f"{i} on the heap" for i in range(100)], r


@pytest.mark.parametrize("text", ["@[n] = count(); @n = count()", 'printf("%d\\n", n); @n = count()', "@x++; @n = count()"])
def test_stack_of_who_forbids_calls_later(built, text):
    """Nobody asks whether there is stack any more."""
    alone = subprocess.run([built("recluse"), "prctl", "100"], capture_output=True, text=True)
    if alone.returncode:
        pytest.skip("no seccomp here")
    r = scripts.run("u:exe:look { %s }" % text, built("recluse"), "prctl", 100)
    assert (r.stdout, r.status, r.stderr) == (alone.stdout, 0, "") and scalar(r.output, "n") == "200", r


def test_a_thread_that_is_shut_in(target):
    """Each thread has its own sandbox: it is not enough that the first one has none."""
    if not can_suspend_seccomp():
        pytest.skip("this kernel does not let seccomp be suspended")
    t = target("recluse", "thread")
    with Script('u:exe:look { @n = count(); @s[str(p->text)] = count(); @c[comm] = count(); printf("%d\\n", p->value) }', t.pid) as s:
        t.run(200)
        r = s.stop()
    assert r.status == 0 and scalar(r.output, "n") == "200" and "@s" not in r.output, r
    assert r.output.startswith("<unreadable>\n" * 200), r
    assert f"process {t.pid} has forbidden system calls (seccomp)" in r.stderr, r
    assert "could not be read: a process has forbidden system calls" in r.stderr, r
    t.stop()


def test_events_of_who_forbids_calls_later(built, tmp_path):
    alone = subprocess.run([built("recluse"), "syscall", "100"], capture_output=True, text=True)
    if alone.returncode:
        pytest.skip("no seccomp here")
    r = jab.run("trace", "-o", tmp_path / "out", "exe:look text=arg0:string", "--", built("recluse"), "syscall", 100)
    lines = [x for x in (tmp_path / "out").read_text(errors="replace").split("\n") if "recluse:look" in x]
    assert r.status == 0 and r.output == alone.stdout and "has forbidden system calls" in r.stderr, r
    assert [x.endswith("text=<unreadable>") for x in lines] == [False] * 100 + [True] * 100, r


@pytest.mark.parametrize("field", ["arg0:string", "p:string", "p->text:string", "p->value"])
@pytest.mark.parametrize("probe", ["exe:look", "call:exe:look"])
def test_the_word_for_what_must_not_be_read(built, tmp_path, probe, field):
    """Whichever code reads the field, and also if it was read at the entry of the call."""
    alone = subprocess.run([built("recluse"), "syscall", "10"], capture_output=True, text=True)
    if alone.returncode:
        pytest.skip("no seccomp here")
    r = jab.run("trace", "--json", "-o", tmp_path / "out", f"{probe} it={field}", "--", built("recluse"), "syscall", 10)
    assert r.status == 0 and r.output == alone.stdout, r
    events = [json.loads(x) for x in (tmp_path / "out").read_text(errors="replace").split("\n") if '"probe":"recluse:look' in x]
    assert [isinstance(e["fields"]["it"], dict) and list(e["fields"]["it"]) == ["unreadable"] for e in events] == [False] * 10 + [True] * 10, r


def test_who_fills_its_pages_itself(built, target):
    """The thread that fills a page (userfaultfd) comes by before it has: a read of that page would wait for that thread."""
    if subprocess.run([built("filler"), "ask"]).returncode:
        pytest.skip("no userfaultfd here")
    t = target("filler")
    with Script('u:exe:work { @s[str(arg0)] = count(); printf("%s\\n", str(arg0)); @n = count() }', t.pid) as s:
        t.run(20)
        r = s.stop()
    assert r.status == 0 and "userfaultfd" in r.stderr and scalar(r.output, "n") == "20", r
    assert r.output.startswith("<unreadable>\n" * 20) and "@s" not in r.output, r
    t.stop()


def test_a_stack_of_pages_that_the_program_fills(built, target):
    """Pages in the middle of a stack in use are not there, and the thread that would fill them is held: frames are looked for in the others."""
    if subprocess.run([built("filler"), "ask"]).returncode:
        pytest.skip("no userfaultfd here")
    t = target("filler", "stack")
    t.run(5)
    for _ in range(3):
        with Script("u:exe:work { @n = count() }", t.pid) as s:
            t.run(20)
            r = s.stop()
        assert r.status == 0 and scalar(r.output, "n") == "20", r
    t.stop()


def test_go(built):
    """Goroutines begin on very small stacks, and move to others."""
    prog = built("hello_go")
    r = scripts.run("u:exe:main.work { @n = count(); @sum = sum(x); @k[x % 7] = count() }",
                    prog, 20000, 4)
    assert (r.stdout, r.status) == ("20000\n", 0), r
    assert scalar(r.output, "n") == "20000" and scalar(r.output, "sum") == str(4 * sum(range(5000)))
    assert sum(int(v) for v in keyed(r.output, "k").values()) == 20000
