# SPDX-License-Identifier: MIT
"""libjab as others use it: installed, found by pkg-config, linked both ways, nothing but jab_ visible; used well and badly."""
import errno
import json
import os
import random
import re
import resource
import subprocess
import time

import pytest

import jab
from targets import LIMIT, ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    d = tmp_path_factory.mktemp("install")
    subprocess.run(["ninja", "-C", ROOT / "build", "libjab.so.0.2.0", "libjab.a"], check=True, capture_output=True, timeout=5 * LIMIT)
    subprocess.run(["meson", "install", "-C", ROOT / "build", "--no-rebuild", "--destdir", d], check=True,
                   capture_output=True, timeout=LIMIT)
    return d


def pkg_config(installed, *what):
    path = next(installed.rglob("jab.pc")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(path), "PKG_CONFIG_SYSROOT_DIR": str(installed)}
    return subprocess.run(["pkg-config", *what, "jab"], check=True, capture_output=True, text=True, env=env,
                          timeout=LIMIT).stdout.split()


def compile_with(installed, source, out, how="shared"):
    libs = pkg_config(installed, "--libs", *(["--static"] if how == "static" else []))
    if how == "static":
        archive = next(installed.rglob("libjab.a"))
        libs = [str(archive) if x == "-ljab" else x for x in libs]
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", out, source, *pkg_config(installed, "--cflags"), *libs],
                   check=True, timeout=LIMIT)
    return out


def environment(installed):
    return {**os.environ, "LD_LIBRARY_PATH": str(next(installed.rglob("libjab.so")).parent)}


def test_tracepoint_header_is_installed(installed, tmp_path):
    source = tmp_path / "t.c"
    source.write_text("#include <jab/tracepoint.h>\nint main(void) { JAB_TRACEPOINT(t, t); return 0; }\n")
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", tmp_path / "t", source, *pkg_config(installed, "--cflags")], check=True, timeout=LIMIT)


@pytest.mark.parametrize("how", ["shared", "static"])
def test_example_that_prints_events(installed, built, tmp_path, how):
    prog = compile_with(installed, EXAMPLES / "events.c", tmp_path / "events", how)
    p = subprocess.run([prog, "exe:work x if x >= 990", built("calls"), "1000", "1"], capture_output=True, text=True, timeout=LIMIT,
                       env=environment(installed))
    assert p.returncode == 0, p.stderr
    assert re.findall(r"^\d+ calls calls:work: x=(\d+)$", p.stdout, re.M) == [str(n) for n in range(990, 1000)], p.stdout
    assert p.stdout.endswith("10 events, 0 lost\n")


@pytest.mark.parametrize("how", ["shared", "static"])
def test_example_that_counts(installed, target, tmp_path, how):
    prog = compile_with(installed, EXAMPLES / "count.c", tmp_path / "count", how)
    t = target("calls", "serve", "2")
    t.run(2)
    before = jab.snapshot(t.pid)
    p = subprocess.Popen([prog, str(t.pid), "2", "exe:work", "exe:worker"], stdout=subprocess.PIPE, text=True, env=environment(installed))
    while p.poll() is None:
        t.run(1000)
        time.sleep(0.01)
    counts = {name: int(n) for n, name in re.findall(r"(\d+)  calls:(\w+)", p.communicate()[0])}
    assert p.returncode == 0
    assert counts["worker"] > 10 and counts["work"] % 500 == 0
    assert 0 < counts["work"] < counts["worker"] * 500       # disabled halfway
    jab.assert_same(before, t.pid)
    t.stop()


def test_example_says_what_is_wrong(installed, tmp_path):
    prog = compile_with(installed, EXAMPLES / "count.c", tmp_path / "count")
    p = subprocess.run([prog, "999999999", "1", "exe:main"], capture_output=True, text=True, timeout=LIMIT, env=environment(installed))
    assert (p.returncode, p.stderr) == (1, "count: there is no process 999999999\n")


def names(*command):
    out = subprocess.run([*command], check=True, capture_output=True, text=True).stdout
    return {x.split()[-1].split("@")[0] for x in out.splitlines() if x and not x.endswith(":")}


def declared():
    return {n for h in (ROOT / "include" / "jab").glob("*.h") for n in re.findall(r"^JAB_API[^;]*?\b(jab_\w+)\(", h.read_text(), re.M)}


def test_only_its_own_names_are_visible(installed):
    """The shared and the static library export the functions of the public headers, and no other name."""
    shared = names("nm", "-D", "--defined-only", next(installed.rglob("libjab.so")))
    static = names("nm", "-g", "--defined-only", next(installed.rglob("libjab.a")))
    assert shared - {"LIBJAB_0.2"} == declared()
    assert static == declared()


def test_headers_stand_alone(installed, tmp_path):
    """Each public header compiles by itself, as C99 and as C++; tracepoints need newer ones."""
    for header in sorted((ROOT / "include" / "jab").glob("*.h")):
        newer = header.name == "tracepoint.h"
        for lang, std in ("c", "c11" if newer else "gnu99"), ("c++", "c++17" if newer else "c++14"):
            subprocess.run(["gcc", "-x", lang, f"-std={std}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-include", header,
                            *pkg_config(installed, "--cflags"), "/dev/null"], check=True, timeout=LIMIT)


def test_the_command_uses_the_public_headers_only():
    subprocess.run([ROOT / "tools" / "layers.sh"], check=True)


def test_the_command_with_the_shared_library(installed, built, tmp_path):
    """The command needs nothing but libjab.so: no other object, no library that libjab needs for itself."""
    prog = tmp_path / "jab"
    objects = sorted((ROOT / "build" / "jab.p").glob("*.o"))
    assert len(objects) > 10
    subprocess.run(["gcc", "-o", prog, *objects, ROOT / "build" / "libcmdbase.a", *pkg_config(installed, "--libs")], check=True, timeout=LIMIT)
    dynamic = subprocess.run(["readelf", "-d", prog], check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) <= {"libjab.so.0", "libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    p = subprocess.run([prog, "count", "--json", "exe:work", "--", built("calls"), "1000", "2"], capture_output=True, text=True, timeout=LIMIT,
                       env=environment(installed))
    assert p.returncode == 0 and '"hits":1000' in p.stdout, p.stderr
    p = subprocess.run([prog, "count", "-p", "999999999", "exe:work"], capture_output=True, text=True, env=environment(installed))
    assert (p.returncode, p.stderr) == (1, "jab: there is no process 999999999\n")


class Pipe:
    """library.c at work."""

    def __init__(self, prog, env):
        self.p = subprocess.Popen([prog], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def __call__(self, *words):
        self.p.stdin.write(" ".join(map(str, words)) + "\n")
        self.p.stdin.flush()
        r, text = self.p.stdout.readline().rstrip("\n").split(" ", 1)
        self.text = text
        return int(r)

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(LIMIT) == 0


@pytest.fixture(scope="module")
def library(installed, tmp_path_factory):
    return compile_with(installed, ROOT / "tests" / "e2e" / "library.c", tmp_path_factory.mktemp("library") / "library")


@pytest.fixture
def lib(library, installed):
    p = Pipe(library, environment(installed))
    yield p
    p.end()


def begin(lib, pid, *probes, session=()):
    assert lib(*session, "new", "count") == 0
    assert lib(*session, "attach", pid) == 0
    for p in probes:
        assert lib(*session, "add", p) == 0, lib.text


def test_probes_are_switched_one_by_one(lib, target):
    t = target("calls", "serve", "2")
    t.run(2)
    before = jab.snapshot(t.pid)
    begin(lib, t.pid, "exe:work", "exe:worker")
    assert lib("insert") == 0, lib.text
    t.run(1000)
    assert (lib("hits", 0), lib("hits", 1)) == (1000, 2)
    assert lib("disable", 0) == 0
    t.run(1000)
    assert (lib("hits", 0), lib("hits", 1)) == (1000, 4)
    assert lib("enable", 0) == 0
    t.run(10)
    assert (lib("hits", 0), lib("hits", 1)) == (1010, 6)
    assert lib("counts") == 0 and lib.text == "work=1010 worker=6 "
    assert lib("inner") == -errno.EBUSY
    assert lib("remove", 1) == 0
    assert lib("counts") == 0 and lib.text == "work=1010 "
    assert lib("take-out") == 0 and lib("clean") == 1
    assert lib("free") == 0
    jab.assert_same(before, t.pid)
    t.stop()


def test_probes_are_added_and_removed_while_others_are_in(lib, target):
    t = target("calls", "serve", "2")
    t.run(2)
    before = jab.snapshot(t.pid)
    begin(lib, t.pid, "exe:work")
    assert lib("insert") == 0, lib.text
    t.run(100)
    during = jab.snapshot(t.pid)
    assert lib("add", "exe:worker") == 0, lib.text
    t.run(100)
    assert (lib("hits", 0), lib("hits", 1)) == (200, 2)
    assert lib("remove", 1) == 0
    jab.assert_same(during, t.pid)                 # its jump and its memory are gone
    t.run(100)
    assert lib("add", "exe:worker") == 0, lib.text
    t.run(100)
    assert (lib("hits", 0), lib("hits", 2)) == (400, 2)
    assert lib("add", "exe:no_such_function") == -errno.ENOENT and "no_such_function" in lib.text
    assert lib("add", "exe:work") == -errno.ENOSPC, lib.text   # there is a jump already
    t.run(100)
    assert (lib("hits", 0), lib("hits", 2)) == (500, 4)
    assert lib("take-out") == 0 and lib("clean") == 1
    assert lib("free") == 0
    jab.assert_same(before, t.pid)
    t.stop()


def test_returns_are_added_later(lib, target):
    t = target("calls", "serve", "2")
    t.run(2)
    before = jab.snapshot(t.pid)
    begin(lib, t.pid, "exe:worker")
    assert lib("insert") == 0, lib.text
    assert lib("add", "exe:work%return") == 0, lib.text
    t.run(100)
    assert lib("hits", 1) == 100
    assert lib("remove", 1) == 0
    t.run(100)
    assert lib("take-out") == 0 and lib("clean") == 1 and lib("free") == 0
    jab.assert_same(before, t.pid)
    t.stop()


def test_messages_go_to_the_session(lib, target):
    """What the command shows with -v: to the callback, with its level; nothing to stderr."""
    t = target("calls", "serve", "1")
    begin(lib, t.pid, "exe:work")
    assert lib("insert") == 0
    assert re.match(r"1 process \d+", lib.text), lib.text
    assert lib("free") == 0
    t.stop()


def test_events_are_switched(lib, target):
    t = target("calls", "serve", "1")
    assert lib("new", "events") == 0
    assert lib("attach", t.pid) == 0 and lib("events") == 0
    assert lib("add", "exe:work x if x < 50") == 0 and lib("add", "exe:worker") == 0
    assert lib("insert") == 0, lib.text
    assert lib("fd") == 1

    def events(n):
        t.run(n)
        time.sleep(0.02)
        return lib("dispatch")
    assert events(100) == 51
    assert "calls:work pid" in lib.text or "calls:worker" in lib.text
    assert lib("inner") == -errno.EBUSY
    assert lib("disable", 0) == 0
    assert events(100) == 1
    assert lib("disable", 1) == 0 and lib("enable", 0) == 0
    assert events(100) == 50
    assert lib("disable", 0) == 0
    before = jab.snapshot(t.pid)
    assert lib("add", "exe:run n=arg0") == 0, lib.text
    assert events(100) == 1 and "calls:run" in lib.text
    assert lib("disable", 2) == 0 and events(100) == 0
    assert lib("enable", 2) == 0 and events(100) == 1
    assert lib("hits", 2) == 2
    for refused in "exe:run%return", "call:exe:run":
        assert lib("add", refused) == -errno.ENOTSUP, (refused, lib.text)
    assert events(100) == 1
    assert lib("remove", 2) == 0
    jab.assert_same(before, t.pid)
    assert events(100) == 0
    assert lib("take-out") == 0 and lib("clean") == 1
    assert lib("free") == 0
    t.stop()


ADDED = [       # line, its field of x = 0 ... 99 of work(x), for which of them
    ("exe:work x=arg0:int", lambda x: x, lambda x: True), ("exe:work x=arg0*3+1", lambda x: 3 * x + 1, lambda x: True),
    ("exe:work x if x < 50", lambda x: x, lambda x: x < 50), ("exe:work+0 x=arg0:long if arg0 % 10 == 3", lambda x: x, lambda x: x % 10 == 3),
    ("exe:work x=*(unsigned long *)(rsp-rsp+0)", None, lambda x: True), ("exe:work x=threads*x if every(10)", lambda x: x, None),
    ("exe:work x v=&threads:int[1] s=$stack if x == 7", lambda x: x, lambda x: x == 7)]


@pytest.mark.parametrize("limited", [False, True])
def test_probes_with_conditions_and_expressions_are_added_while_others_are_in(lib, target, limited):
    """With all that contexts can be, and with a limit of the overhead; in memory that was set aside, since nothing of it was known
    when the others came in."""
    t = target("calls", "serve", "1")
    t.run(2)
    before = jab.snapshot(t.pid)
    contexts = "int:threads:threads bytes[2]:b:threads backtrace:2 stack:8 reg:rdi"
    assert lib("new", "limited" if limited else "events", contexts) == 0, lib.text
    assert lib("attach", t.pid) == 0 and lib("events") == 0 and lib("add", "exe:worker") == 0 and lib("insert") == 0, lib.text
    during = jab.snapshot(t.pid)

    def events():
        t.run(100)
        n = 0
        for _ in range(3):
            time.sleep(0.02)
            n += lib("dispatch")
        return n - 1                            # one is worker's
    for number, (line, value, when) in enumerate(ADDED, 1):
        assert lib("add", line) == 0, (line, lib.text)
        wanted = [x for x in range(100) if when(x)] if when else None
        assert events() == (len(wanted) if wanted is not None else 10), line
        assert lib("disable", number) == 0 and events() == 0 and lib("enable", number) == 0
        events()
        assert lib("hits", number) == 2 * (len(wanted) if wanted is not None else 10), line
        assert lib("event") == 0
        last = json.loads(lib.text)
        if last["probe"].startswith("calls:work") and "+" not in last["probe"]:
            f = last["fields"]
            assert f["threads"] == 1 and f["b"] == "0100" and f["rdi"] in range(100) and len(f["stack"]) == 16 and len(f["backtrace"]) == 2, f
            if value and wanted:
                assert f["x"] == value(wanted[-1]), (line, f)
            elif not value:
                assert f["x"] == {"fault": "0x0"}, f
        assert lib("remove", number) == 0
        jab.assert_same(during, t.pid)
    for bad, says in ("exe:work x if", "expected"), ("exe:work x if nothing == 3", "nothing"), ("exe:work x if ustack", "number"), \
            ("exe:work s=(x ? ustack : ustack)", "no room for what more clauses keep"):
        assert lib("add", bad) < 0 and says in lib.text, lib.text
    assert lib("take-out") == 0 and lib("clean") == 1 and lib("free") == 0
    jab.assert_same(before, t.pid)
    t.stop()


def test_there_is_room_for_so_many(lib, target):
    """What can be added is limited by what was set aside, and said."""
    t = target("calls", "serve", "1")
    assert lib("new", "events") == 0 and lib("attach", t.pid) == 0 and lib("events") == 0 and lib("add", "exe:worker") == 0 and lib("insert") == 0
    for i in range(400):
        if lib("add", f"exe:work x if x == {i} && every(1) && limit(1000)"):
            break
        assert lib("remove", 1) == 0 and lib("forget") == 0
    assert i == 100 and "no room" in lib.text, (i, lib.text)
    t.run(100)
    assert lib("take-out") == 0 and lib("clean") == 1 and lib("free") == 0
    t.stop()


def test_calls_in_the_wrong_order(lib, target, built):
    t = target("calls", "serve", "1")
    t.run(2)
    before = jab.snapshot(t.pid)
    begin(lib, t.pid, "exe:work")
    assert lib("plan", 64) == -errno.EINVAL
    assert lib("plan", 1) == 0                          # to be looked at
    assert lib("insert") == -errno.EINVAL and lib.text == "jab_insert() can't be called after jab_plan()"
    assert lib("resolve") == -errno.EINVAL
    assert lib("attach", t.pid) == -errno.EINVAL
    assert lib("thread") == -errno.EPERM
    assert lib("take-out") == 0
    assert lib("insert") == -errno.EINVAL and "after jab_remove()" in lib.text
    assert lib("add", "exe:work") == -errno.EINVAL
    assert lib("events") == -errno.EINVAL
    assert lib("free") == 0
    assert lib("new", "later") == -errno.E2BIG
    assert lib("new", "count") == 0 and lib("spawn", built("calls")) == 0 and lib("free") == 0      # never ran
    jab.assert_same(before, t.pid)
    t.run(10)
    t.stop()


def test_two_sessions(lib, target):
    """Two processes, two sessions; the second one can't have the first one's process."""
    a, b = target("calls", "serve", "1"), target("calls", "serve", "1")
    begin(lib, a.pid, "exe:work")
    begin(lib, b.pid, "exe:work", session="2")
    assert lib("insert") == 0 and lib("2", "insert") == 0
    a.run(10)
    b.run(20)
    assert (lib("hits", 0), lib("2", "hits", 0)) == (10, 20)
    assert lib("2", "take-out") == 0 and lib("2", "free") == 0
    assert lib("2", "new", "count") == 0
    assert lib("2", "attach", a.pid) < 0, "two at a time"
    assert lib.text
    a.run(10)
    assert lib("hits", 0) == 20
    assert lib("2", "free") == 0
    assert lib("take-out") == 0 and lib("clean") == 1 and lib("free") == 0
    a.stop()
    b.stop()


def test_freed_with_probes_in(lib, target):
    t = target("calls", "serve", "1")
    t.run(2)
    before = jab.snapshot(t.pid)
    begin(lib, t.pid, "exe:work")
    assert lib("insert") == 0 and lib("free") == 0
    jab.assert_same(before, t.pid)
    t.run(10)
    t.stop()


# ---- lack of memory ----

COUNTING = ["new count", "attach {pid}", "add exe:work", "insert", "dispatch", "add exe:worker", "counts", "take-out", "clean", "free"]
EVENTS = ["new events", "attach {pid}", "events", "add exe:work x if x < 5", "insert", "fd", "dispatch", "take-out", "dispatch", "free"]
LISTING = ["new count", "attach {pid}", "list exe:*", "list libc:ma*", "free"]


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    out = tmp_path_factory.mktemp("failing") / "failalloc.so"
    subprocess.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", out, ROOT / "tests" / "e2e" / "failalloc.c"], check=True, timeout=LIMIT)
    return out


def without_memory(library, script, t, env, **popen):
    """What each call returned; none may end the program, and the target is as before."""
    p = subprocess.run([library], input="".join(x.format(pid=t.pid) + "\n" for x in script), capture_output=True, text=True, env=env,
                       timeout=LIMIT, **popen)
    assert p.returncode == 0, (p.returncode, p.stdout, p.stderr)
    replies = re.findall(r"^(-?\d+) (.*)$", p.stdout, re.M)     # a message may go on in further lines
    assert len(replies) == len(script) and all(int(r) >= 0 or text for r, text in replies), p.stdout
    return [int(r) for r, _ in replies]


@pytest.mark.parametrize("script", [COUNTING, EVENTS, LISTING], ids=["count", "events", "list"])
def test_an_allocation_fails(library, installed, failing, target, tmp_path, script):
    """Each allocation in turn; of the thousands that reading symbols takes, a random part."""
    t = target("calls", "serve", "1")
    t.run(2)
    before = jab.snapshot(t.pid)
    env = {**environment(installed), "LD_PRELOAD": str(failing), "FAIL_COUNT": str(tmp_path / "count")}
    assert all(r >= 0 for r in without_memory(library, script, t, env))
    n = int((tmp_path / "count").read_text())
    assert n > 100
    failed = 0
    for at in sorted({*range(1, 40), *random.sample(range(1, n + 1), 40), *range(n - 40, n + 1)}):
        replies = without_memory(library, script, t, {**env, "FAIL_AT": str(at)})
        failed += any(r < 0 for r in replies)
        jab.assert_same(before, t.pid)
    assert failed
    t.run(10)
    t.stop()


@pytest.mark.parametrize("script", [COUNTING, EVENTS], ids=["count", "events"])
def test_there_is_no_more_memory(library, installed, target, script):
    t = target("calls", "serve", "1")
    t.run(2)
    before = jab.snapshot(t.pid)
    results = set()
    for kb in [*range(5000, 12000, 250), 20000, 50000, 100000, 400000]:
        limit = kb << 10
        try:
            replies = without_memory(library, script, t, environment(installed),
                                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))  # noqa: B023
        except AssertionError as e:
            # the loader's own sentences; libdw (0.188) ends the program itself if a table of it gets no memory, before anything is inserted
            if not re.search("loading shared libraries|cannot allocate TLS data structures|dynamicsizehash_concurrent.c", str(e)):
                raise
            jab.assert_same(before, t.pid)
            continue
        results.add(all(r >= 0 for r in replies))
        jab.assert_same(before, t.pid)
    assert results == {True, False}
    t.stop()


def test_events_are_added_without_room_for_more(lib, target):
    """What follow gives room for: no scratch memory was made ready, so only what needs none."""
    t = target("calls", "serve", "1")
    t.run(2)
    assert lib("new", "followed") == 0 and lib("attach", t.pid) == 0 and lib("events") == 0 and lib("add", "exe:worker") == 0
    assert lib("insert") == 0, lib.text
    for line in "exe:work x=arg0:int", "exe:work x if x < 50":
        assert lib("add", line) == 0, lib.text
        t.run(100)
        time.sleep(0.05)
        assert lib("dispatch") >= 50
        assert lib("remove", 1) == 0 and lib("forget") == 0
    assert lib("add", "exe:work s=arg0:string") == -errno.ENOTSUP and "more_sites" in lib.text, lib.text
    t.run(100)
    assert lib("take-out") == 0 and lib("clean") == 1 and lib("free") == 0
    t.stop()
