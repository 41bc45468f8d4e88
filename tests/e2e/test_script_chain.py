# SPDX-License-Identifier: MIT
"""Chains of pointers through memory of every kind. The target finds out by itself what is at their end, or that nothing
is. What lies in memory that stays is read without a call of the kernel: with calls forbidden it still is, and only that."""
import signal
import subprocess

import pytest

import jab
import scripts
from scripts import Script

SCRIPT = 'u:%s:look { printf("%%d %%ld\\n", n, p->next->next->value) }'


@pytest.fixture
def chain(built, target):
    built("libchain.so")
    path = built("chain")
    return path, lambda: target("chain", "serve", built("libchain_late.so"))


def told(lines):
    """{number: (name, value, plain)}"""
    found = {}
    for line in lines:
        words = line.split(" ")
        found[int(words[0])] = (" ".join(words[1:-2]), words[-2], words[-1] == "plain")
    return found


def ask(t, command):
    lines = []
    line = t.ask(command)
    while line != "told":
        lines.append(line)
        line = t.line()
    return told(lines)


def printed(text):
    return dict(line.split(" ", 1) for line in text.splitlines())


def compare(expected, text, forbidden=False):
    got = printed(text)
    assert len(got) == len(expected) > 30, text
    for n, (name, value, plain) in expected.items():
        shown = got[str(n)]
        if forbidden and not plain:
            assert shown == "<unreadable>", (name, value, shown)
        elif value == "fault":
            assert shown.startswith("<fault"), (name, value, shown)
        else:
            assert shown == value, (name, value, shown)


def watch(path, t, *commands, forbidden=False):
    with Script(SCRIPT % path, t.pid) as s:
        for command in commands:
            expected = ask(t, command)
        r = s.stop()
    compare(expected, r.output, forbidden)
    assert t.alive()
    t.stop()
    return r


def test_from_the_start(chain):
    path, _ = chain
    alone = subprocess.run([path, "all"], capture_output=True, text=True, timeout=jab.LIMIT)
    r = scripts.run(SCRIPT % "exe", path, "all")
    assert r.status == 0 and r.stdout.splitlines()[-1] == "told", r
    expected = told(r.stdout.splitlines()[:-1])
    assert [x[0] for x in expected.values()] == [x[0] for x in told(alone.stdout.splitlines()[:-1]).values()]
    compare(expected, r.output)


def test_while_it_runs(chain):
    path, start = chain
    r = watch(path, start(), "all")
    assert "ranges of its data can be read plainly" in r.stderr


def test_in_another_thread(chain):
    path, start = chain
    watch(path, start(), "threads")


def test_what_needs_no_call(chain):
    path, start = chain
    t = start()
    assert t.ask("door") == "closed"
    watch(path, t, "all", forbidden=True)


def test_in_another_thread_without_calls(chain):
    """The stack of the first thread is not good for others."""
    path, start = chain
    t = start()
    assert t.ask("door") == "closed"
    watch(path, t, "threads", forbidden=True)


@pytest.mark.parametrize("door", (False, True))
def test_who_shuts_a_page_of_its_data(chain, door):
    """Before we come: nothing of this module is taken for granted, so without calls nothing of it is read."""
    path, start = chain
    t = start()
    assert t.ask("shut") == "shut"
    if door:
        assert t.ask("door") == "closed"
    with Script('u:%s:look { printf("%%d %%ld\\n", n, p->next->value) }' % path, t.pid) as s:
        t.run(3)
        r = s.stop()
    got = printed(r.output)
    assert len(got) == 3, r
    assert all(v.startswith(("<fault", "<unreadable>")) if door else v == "1004" for v in got.values()), r
    t.stop()


@pytest.mark.parametrize("shut", ("shut", "shut2"))
@pytest.mark.parametrize("door", (False, True))
def test_who_shuts_it_meanwhile(chain, door, shut):
    """While we are there: it is noticed before the page goes, and from then on the kernel is asked for everything."""
    path, start = chain
    t = start()
    if door:
        assert t.ask("door") == "closed"
    with Script(SCRIPT % path, t.pid) as s:
        before = ask(t, "all")
        assert t.ask(shut) == "shut"
        after = ask(t, "all")
        assert t.ask("open") == "open"
        r = s.stop()
    lines = r.output.splitlines(True)
    compare(before, "".join(lines[:len(before)]), door)
    names = {name: n for n, (name, value, plain) in before.items()}
    assert before[names["page border"]][1] != "fault" == after[names["page border"]][1]
    got = printed("".join(lines[len(before):]))
    for n, (name, value, plain) in after.items():
        if door or value == "fault":
            assert got[str(n)].startswith(("<fault", "<unreadable>")), (name, got[str(n)])
        else:
            assert got[str(n)] == value, name
    t.stop()


@pytest.mark.parametrize("before", (False, True))
def test_who_shuts_what_has_a_name(chain, before):
    path, start = chain
    t = start()
    if before:
        assert t.ask("shut") == "shut"
    with Script('u:%s:look { printf("%%d %%d %%d\\n", n, bulk[5000], bulk[1]) }' % path, t.pid) as s:
        t.run(1)
        assert t.ask("shut") == "shut"
        t.run(2)
        r = s.stop()
    got = r.output.splitlines()
    assert len(got) == 3 and all(line.endswith(" 7") for line in got), r
    assert [("<fault" in line or "<unreadable>" in line) for line in got] == [before, True, True], r
    t.stop()


def test_fields_of_what_is_shut(chain):
    """The same for fields of events without a script."""
    path, start = chain
    t = start()
    nm = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    at = next(int(line.split()[0], 16) for line in nm.splitlines() if line.endswith(" bulk")) + 5000
    p = subprocess.Popen([jab.JAB, "trace", "-v", "-p", str(t.pid), "-t", f"int:b:{at:#x}", "exe:look"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    while "active:" not in p.stderr.readline():
        assert p.poll() is None
    t.run(1)
    assert t.ask("shut") == "shut"
    t.run(1)
    p.send_signal(signal.SIGINT)
    out = p.communicate(timeout=jab.LIMIT)[0]
    assert t.alive() and "b=117901063" in out and "b=<fault" in out, out
    t.stop()


def test_conditions(chain):
    path, start = chain
    t = start()
    with Script('u:%s:look /p->next->next->value == 2002/ { @[n] = count() } u:%s:look /p->next->next->value > 0/ { @all = count() }'
                % (path, path), t.pid) as s:
        expected = ask(t, "all")
        r = s.stop()
    values = {n: int(v) for n, (_, v, _) in expected.items() if v != "fault"}
    assert scripts.keyed(r.output, "") == {str(n): "1" for n, v in values.items() if v == 2002}
    assert scripts.scalar(r.output, "all") == str(sum(v > 0 for v in values.values()))
    t.stop()
