# SPDX-License-Identifier: MIT
"""Thread-local variables: of the program, of libraries it was linked with, errno; in several threads, each with its own.
The target says what each of them holds right before the call."""
import pytest

import jab
import scripts
from scripts import Script


@pytest.fixture
def local(built, target):
    built("liblinked.so")
    built("libearly.so")
    path = built("local")

    def start(*more):
        t = target("local", "serve", built("liblocal_late.so"), *more)
        return t
    return path, start


def ask(t, *commands):
    lines = []
    for command in commands:
        line = t.ask(command)
        while line != "told":
            lines.append(line)
            line = t.line()
    return lines


def watch(t, script, *commands):
    with Script(script, t.pid) as s:
        said = ask(t, *commands)
        r = s.stop()
    t.stop()
    return said, r.output.splitlines()


def test_of_the_program(local):
    path, start = local
    said, shown = watch(start(), 'u:%s:look { printf("%%d %%d %%f %%d %%d %%p\\n", n, mine, wide, pair.b, errno, &mine) }' % path, "own")
    assert len(said) == 5 and shown == said
    assert len({line.split()[-1] for line in said}) > 1         # not all in one thread


@pytest.mark.parametrize("name", ("linked", "early"))
def test_of_a_library(local, name):
    """One by what the loader knows of it, the other by what it has written into a slot."""
    path, start = local
    script = 'u:lib%s:%s_probe { printf("%%d %%d %%d %%d %%p\\n", n, %s_mine, %s_open[3], %s_zeros[999], &%s_mine) }'
    said, shown = watch(start(), script % ((name,) * 6), name)
    assert len(said) == 5 and shown == said
    assert len({line.split()[-1] for line in said}) > 1


def test_in_conditions_and_keys(local):
    path, start = local
    said, shown = watch(start(), 'u:%s:look /mine == 14 || errno == 103/ { @[mine, errno] = count() }' % path, "own")
    assert sorted(shown) == ["@[14, 102]: 1", "@[21, 103]: 1"]


def test_errno_of_a_call_is_that_of_its_end(local):
    path, start = local
    said, shown = watch(start(), 'call:%s:own_call { printf("%%d %%d\\n", n, errno) }' % path, "own")
    assert shown == [f"{line.split()[0]} {line.split()[4]}" for line in said]


def test_errno_after_a_system_call():
    r = scripts.run('ur:libc:open* /(int64)retval == -1/ { @[errno] = count() }', "cat", "/no/such/file", "/no/such/other")
    assert int(scripts.keyed(r.output, "").get("2", "0")) >= 2, r


def test_what_is_loaded_later(local):
    path, start = local
    t = start()
    r = jab.run("-e", "u:liblocal_late:late_probe { @ = late_mine }", "-p", t.pid)
    assert r.status != 0 and "'late_mine' is thread-local, and" in r.stderr and "elsewhere in each thread" in r.stderr, r
    assert len(ask(t, "late")) == 5
    t.stop()


def test_without_a_thread_pointer(local):
    """Nothing is there to be read, and nobody dies of it."""
    path, start = local
    t = start("bare")
    said, shown = watch(t, 'u:%s:look { printf("%%d %%d %%d\\n", n, mine, errno) }' % path, "own", "bare", "own")
    assert len(said) == 11 and said[5] == "9"
    for line, ours in zip(said, shown):
        words = line.split()
        assert ours == f"{words[0]} {words[1]} {words[4]}" if len(words) > 1 else ours.startswith("9 <fault"), (line, ours)
    assert len(shown) == 11


def test_tracer_has_none():
    r = jab.run("-e", "begin { print(errno) }")
    assert r.status != 0 and "errno has no meaning in begin" in r.stderr, r


@pytest.mark.parametrize("level", (0, 2))
def test_of_rust(built, level):
    """By the name that thread_local! was given. What is around the number depends on the compiler."""
    r = scripts.run("u:exe:local::look { print((int64)arg0); print((1, COUNT)); print((2, local::LAZY)) }", built(f"local_rs_{level}"))
    said = [line.split() for line in r.stdout.splitlines()]
    shown = r.output.splitlines()
    assert len(said) == 4 and len(shown) == 12, r
    for i, (n, count, lazy) in enumerate(said):
        assert shown[3 * i] == n, r
        assert f"= {count} " in shown[3 * i + 1] and f"= {lazy} " in shown[3 * i + 2], r


@pytest.mark.parametrize("name", ("errno", "errno_static", "errno_musl", "errno_musl_static"))
def test_errno(built, name):
    """glibc has it as a thread-local variable, musl at a place that only its code knows."""
    r = scripts.run('u:exe:look { printf("%d %d\\n", n, errno) }', built(name))
    assert r.status == 0 and len(r.stdout.splitlines()) == 5 and r.output == r.stdout, r
