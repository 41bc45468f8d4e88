# SPDX-License-Identifier: MIT
"""Everywhere: every sort of binary, and processes in other places than ours."""
import ctypes
import os
import re
import shutil
import subprocess

import pytest

import jab
import scripts
import targets
import traces

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else or to unshare")
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


@pytest.mark.parametrize("program", ["calls", "calls_nonpie", "calls_static", "calls_static_pie", "calls_musl",
                                     "calls_musl_static", "calls_clang", "hello_go"])
def test_start_a_program(built, program):
    probe = "exe:main.work" if program == "hello_go" else "exe:work"
    r = jab.count_command([probe], [built(program), 200000, 4])
    assert r.status == 0, r
    assert r.stdout == "200000\n"
    assert r.probe(probe)["hits"] == 200000, r


@pytest.mark.parametrize("program", ["calls", "calls_nonpie", "calls_static", "calls_static_pie", "calls_musl",
                                     "calls_musl_static", "calls_clang", "hello_go", "hello_rs"])
@pytest.mark.parametrize("probes", ["one", "all"])
def test_attach(target, program, probes):
    """One function, and then every function of every module, under a program that runs."""
    name = {"hello_go": "main.work", "hello_rs": "hello::shop::work"}.get(program, "work")
    t = target(program, "serve", 4)
    t.run(100)
    with jab.Count(t.pid, f"exe:{name}", *(["*:*"] if probes == "all" else [])) as c:
        t.run(100000)
        r = c.stop()
    assert r.status == 0, r
    assert r.probe(f"exe:{name}")["hits"] == 100000, r
    assert r.summary["clean"] is True, r
    assert not jab.leftovers(t.pid)
    t.run(100)
    t.stop()


@pytest.mark.parametrize("program,twin", [("calls_stripped", "calls"), ("calls_static_stripped", "calls_static")])
def test_stripped(target, built, program, twin):
    """Without symbols functions still have beginnings: they are named by their address."""
    at = jab.symbols(built(twin))["work"]
    t = target(program, "serve", 4)
    with jab.Count(t.pid, "exe:*") as c:
        t.run(54321)
        r = c.stop()
    assert r.status == 0, r
    rows = [x for x in r.rows if x["function"] == f"func_{at:#x}"]
    assert [x["hits"] for x in rows] == [54321], r
    t.stop()


def test_stripped_by_address(target, built):
    at = jab.symbols(built("calls"))["work"]
    t = target("calls_stripped", "serve", 2)
    live = at + jab.base_address(t.pid, built("calls_stripped"))
    with jab.Count(t.pid, f"{live:#x}") as c:
        t.run(777)
        r = c.stop()
    assert r.status == 0, r
    assert r.probe(f"{live:#x}")["hits"] == 777, r
    t.stop()


def test_rust_names_and_panics(built):
    r = jab.count_command(["exe:hello::shop::work", "exe:hello::shop::fail", "exe:hello::shop::fail%return"],
                          [built("hello_rs"), 1000, 3])
    assert r.status == 0, r
    assert r.stdout == "1000 34\n"
    assert [p["hits"] for p in r.summary["probes"]] == [1000, 100, 66], r


def test_go_returns_and_every_function(built):
    r = jab.count_command(["exe:main.work", "exe:main.work%return", "exe:main.*"], [built("hello_go"), 100000, 8])
    assert r.status == 0, r
    assert r.stdout == "100000\n"
    assert r.probe("exe:main.work")["hits"] == 100000, r
    assert r.probe("exe:main.work%return")["hits"] == 100000, r


def test_go_preempts_nowhere_but_at_instructions(built):
    """Go looks up each PC where it interrupts a goroutine, and gives up where it knows none: in filler."""
    r = jab.run("check", "--json", built("hello_go"), "*", "insn:main.*")
    assert r.rows and not [x for x in r.rows if x["tactic"].startswith("hop")], r
    r = jab.count_command(["insn:exe:main.*"], [built("hello_go"), 2000000, 8])
    assert r.status == 0, r
    assert r.stdout == "2000000\n"


@pytest.mark.slow
def test_go_every_function_of_the_runtime(built):
    """Garbage collection, stack growth and preemption go on under a probe on everything."""
    r = jab.count_command(["exe:*"], [built("hello_go"), 100000, 8])
    assert r.status == 0, r
    assert r.stdout == "100000\n"
    assert r.hits("main.work") == 100000, r


# Ten rounds of four goroutines: at least one of them has done all of its round.
GO_ROUNDS = "call:exe:main.garbage { @rounds++; if (@rounds >= 10) { exit(); } }"


def test_go_arguments_of_scripts(built):
    r = scripts.run("u:exe:main.work { @n = count(); @sum = sum(arg0); }"
                    "call:exe:main.work /retval == 3 * arg0 + 1/ { @right = count(); @max = max(arg0); }",
                    built("hello_go"), 8000, 8)
    assert r.status == 0 and r.stdout == "8000\n", r
    numbers = [scripts.scalar(r.output, x) for x in ("n", "sum", "right", "max")]
    assert numbers == ["8000", str(8 * 999 * 1000 // 2), "8000", "999"], r


def test_go_text_and_stacks_as_keys(target):
    """They fit on a goroutine's stack, where a function has checked that there is some."""
    t = target("hello_go", "serve", 4)
    with scripts.Script("call:exe:main.garbage { @made[arg0, retval, ustack(2)] = count(); @text[comm, func] = count(); }"
                        "u:exe:main.deep /arg0 > 1990/ { @deep[ustack(5)] = count(); }" + GO_ROUNDS, t.pid, wait=False) as s:
        r = s.wait()
    t.run(100)
    t.stop()
    assert r.status == 0, r
    assert "@made[200, 200, \n    main.garbage+" in r.output and "\n    main.background+" in r.output, r
    assert "@text[hello_go, main.garbage]: " in r.output, r
    assert "@deep[\n    main.deep+0\n    main.deep+" in r.output, r


def test_go_functions_with_too_little_stack_are_left_out(target, built):
    """One that does not check its stack has less of it; the others have what the largest clause takes."""
    clause = "{ @[ustack(9), ustack(1), comm, arg1, arg2, arg3, arg4, arg5, pid, tid, uid, gid, cpu, arg0] = stats(arg1); }"
    t = target("hello_go", "serve", 4)
    with scripts.Script("u:exe:main.* " + clause + GO_ROUNDS, t.pid, wait=False) as s:
        r = s.wait()
    t.run(100)
    t.stop()
    assert r.status == 0 and "sites can't be placed" in r.stderr and "main.deep+0" in r.output, r
    r = scripts.run("u:exe:main.work " + clause, built("hello_go"), 1000, 2)
    assert r.status == 1 and "needs more stack" in r.stderr, r
    r = scripts.run("u:exe:main.work { @[ustack(1)] = count(); }", built("hello_go"), 1000, 2)
    assert r.status == 0 and "main.work+0\n]: 1000\n" in r.output, r


def test_go_hardly_any_stack_left(built, tmp_path):
    """Where functions without a check are nested, it is looked how much is left, and nothing is written below it."""
    command, calls = [built("tight"), 400, 300], 400 * 300 + 50 * 28
    alone = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=jab.LIMIT).stdout
    r = jab.count_command(["exe:main.inner", "exe:main.inner%return"], command)
    assert [p["hits"] for p in r.summary["probes"]] == [calls, calls] and r.stdout == alone, r
    r = scripts.run("u:exe:main.inner { @n = count(); @[arg0 % 10] = count(); }", *command)
    lost = int(re.search(r"(\d+) hits were left out, because the stack had too little room", r.stderr)[1])
    assert r.stdout == alone and lost > 0 and int(scripts.scalar(r.output, "n")) == calls - lost, r
    assert "--buffer-size" not in r.stderr, r
    r = scripts.run("insn:exe:main.split { @n = count(); @[arg0, arg1, arg2] = count(); @s[ustack(2), comm] = count(); }", *command)
    assert r.stdout == alone and "hits were left out, because the stack had too little room" in r.stderr, r
    for name, probe in ("plain", ["exe:main.inner arg0"]), ("bulk", ["-t", "backtrace", "exe:main.inner"]):
        r = traces.record(tmp_path / name, probe, command, ["--buffer-size", "16M"])
        told, = r.summary["probes"]
        assert r.stdout == alone.strip() and told["recorded"] + told["lost"] == told["hits"] == calls, r
        assert (told["lost"] > 0) == ("no_stack" in told) == (name == "bulk") and told["lost"] >= told.get("no_stack", 0), r


def test_go_calls_on_stacks_that_move(built):
    """Each call is found again, wherever its stack and its thread are by then, and none is taken for one that never returned."""
    for condition, first in ("", 0), ("/arg0 % 5 == 2/", 2):
        r = scripts.run("call:exe:main.down %s { @n = count(); @sum = sum(retval); @bad = sum(retval != arg0 * 100 + arg1); }" % condition,
                        built("grow"), 300)
        calls, total = map(int, r.stdout.split()[first:first + 2])
        n = int(scripts.scalar(r.output, "n"))
        # Rarely: too many wanted the same place, or two at the very same time. 7,500 keys have 16,384 places here.
        given_up = sum(map(int, re.findall(r"(\d+) calls were given up", r.stderr))) + 5
        left_out = sum(map(int, re.findall(r"(\d+) returns", r.stderr)))
        assert r.status == 0 and calls > 500 and scripts.scalar(r.output, "bad") == "0" and given_up < 5 + calls / 50, r
        assert n <= calls <= n + given_up and (condition or n + left_out == calls) and left_out <= given_up, r
        assert n < calls or scripts.scalar(r.output, "sum") == str(total), r


def test_library_that_was_opened_later(target, built):
    t = target("dlopen", built("libplug.so"))
    assert t.ask("open") == "open"
    before = jab.snapshot(t.pid)
    with jab.Count(t.pid, "libplug:plug_work", "libplug:plug_work%return") as c:
        t.run(4321)
        r = c.stop()
    assert r.status == 0, r
    assert [p["hits"] for p in r.summary["probes"]] == [4321, 4321], r
    jab.assert_same(before, t.pid)
    t.stop()


def test_library_that_is_closed_while_probed(target, built):
    """Its text goes away with our jumps in it; whatever comes to its place must not be touched."""
    t = target("dlopen", built("libplug.so"))
    assert t.ask("open") == "open"
    with jab.Count(t.pid, "libplug:*") as c:
        t.run(100)
        assert t.ask("close") == "close"
        assert t.ask("open") == "open"
        t.run(50)
        r = c.stop()
    assert r.status in (0, 1), r
    assert t.alive()
    t.run(10)
    t.stop()


@needs_root
def test_own_mount_and_pid_namespace(built, tmp_path):
    """A container: other root, other library, other pid. Files are read through its own root."""
    root = tmp_path / "root"
    program = built("calls")
    for lib in ldd(program):
        to = root / lib.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(lib, to)
    shutil.copy(program, root / "program-of-the-container")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", str(root), "/program-of-the-container",
               "serve", "4"]
    probe = subprocess.run(command[:4] + ["true"], capture_output=True)
    if probe.returncode:
        pytest.skip("this machine does not let root make namespaces: " + probe.stderr.decode())
    with targets.Target("calls", command=command) as t:
        inner = child_of(t.pid)
        with jab.Count(inner, "exe:work", "libc:*") as c:
            t.run(34567)
            r = c.stop()
        assert r.status == 0, r
        assert r.probe("exe:work")["hits"] == 34567, r
        assert r.probe("libc:*")["sites"] > 1000, r
        assert not jab.leftovers(inner)
        t.stop()


@needs_root
def test_file_of_a_container_by_its_root(built, tmp_path):
    """/proc/PID/root/FILE is the file that the process has, whatever name it has for it and we have for its root."""
    root = tmp_path / "root"
    root.mkdir()
    program = built("calls_static")
    inner = (f"mount -t tmpfs none {root} && cp {program} {root}/program-there && exec chroot {root} /program-there serve 1")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inner]
    probe = subprocess.run(command[:5] + ["true"], capture_output=True)
    if probe.returncode:
        pytest.skip("this machine does not let root make namespaces: " + probe.stderr.decode())
    with targets.Target("calls_static", command=command) as t:
        pid = child_of(t.pid)
        path = f"/proc/{pid}/root/program-there"
        with jab.Count(pid, f"{path}:work") as c:
            t.run(50)
            assert c.stop().probe(f"{path}:work")["hits"] == 50
        with scripts.Script(f"uprobe:{path}:work {{ @n = count() }}") as s:
            t.run(50)
            assert "@n: 50" in s.stop().output
        t.stop()


def ldd(program):
    text = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return [w for line in text.splitlines() for w in line.split() if w.startswith("/")]


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return int(f.read().split()[0])


def can_suspend_seccomp():
    """Whether this kernel lets us borrow a thread that is under seccomp: asked of the kernel itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = subprocess.Popen(["sleep", "1000"])
    try:
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        return libc.ptrace(0x4206, child.pid, None, 0x00200000) == 0    # SEIZE with O_SUSPEND_SECCOMP
    finally:
        child.kill()
        child.wait()


def test_target_under_seccomp(target):
    t = target("sandbox")
    if not can_suspend_seccomp():
        r = jab.run("count", "-p", t.pid, "exe:work")
        assert r.status == 1 and "seccomp" in r.stderr, r
    else:
        before = jab.snapshot(t.pid)
        with jab.Count(t.pid, "exe:work") as c:
            t.run(2345)
            r = c.stop()
        assert r.status == 0, r
        assert r.hits("work") == 2345, r
        jab.assert_same(before, t.pid)
    t.run(10)
    t.stop()


@pytest.fixture
def public_jab(tmp_path_factory):
    """The binary, a target and a directory that everybody may read: the tree may be private."""
    d = tmp_path_factory.mktemp("public")
    for p in [d, *d.parents]:
        if p.owner() == "root" and p != p.parent and p.stat().st_uid == os.geteuid():
            os.chmod(p, os.stat(p).st_mode | 0o755)
    os.chmod(d, 0o777)
    for f in (jab.JAB, targets.build("calls")):
        shutil.copy(f, d)
    return d


@needs_root
def test_own_process_without_root(public_jab):
    """Our own uid without any privilege: works."""
    program = public_jab / "calls"
    with targets.Target("calls", command=[*AS_NOBODY, str(program), "serve", "4"]) as t:
        p = subprocess.Popen([*AS_NOBODY, str(public_jab / "jab"), "count", "-v", "--json", "-p", str(t.pid),
                              "exe:work", "libc:*"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        seen = []
        for line in p.stderr:
            seen.append(line)
            if line.startswith("jab: active:"):
                break
        assert seen and seen[-1].startswith("jab: active:"), seen
        t.run(65432)
        p.send_signal(2)
        out, err = p.communicate(timeout=jab.LIMIT)
        r = jab.Result(p.returncode, out, err)
        assert r.status == 0, r
        assert r.probe("exe:work")["hits"] == 65432, r
        assert not jab.leftovers(t.pid)
        t.stop()


@needs_root
def test_start_a_program_without_root(public_jab):
    p = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "count", "--json", "exe:work", "-o",
                        str(public_jab / "out"), "--", str(public_jab / "calls"), "5000", "4"], capture_output=True,
                       text=True, timeout=jab.LIMIT)
    out = public_jab / "out"
    r = jab.Result(p.returncode, out.read_text() if out.exists() else "", p.stderr)
    assert r.status == 0 and p.stdout == "5000\n", r
    assert r.hits("work") == 5000, r


@needs_root
def test_recover_does_not_guess_what_it_may_not_see(public_jab, target):
    t = target("calls", "serve", 1)
    p = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "recover", str(t.pid)], capture_output=True, text=True,
                       timeout=jab.LIMIT)
    assert p.returncode == 1 and p.stdout == "" and "can't be examined" in p.stderr, p
    t.stop()


def set_user_id(public_jab, body):
    """A program that runs as root whoever starts it; skips where the file system does not allow that."""
    source, program = public_jab / "suid.c", public_jab / "suid"
    source.write_text("#include <unistd.h>\nint main(void) { %s }\n" % body)
    subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
    os.chmod(program, 0o4755)
    if subprocess.run([*AS_NOBODY, str(program)]).returncode:
        pytest.skip("set-user-id programs don't work here")
    return program


@needs_root
def test_set_user_id_program_is_not_started_without_root(public_jab):
    """Under a tracer without privilege it would run without its own, and fail in odd ways."""
    program = set_user_id(public_jab, "return geteuid() != 0;")
    p = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "count", "exe:*", "-c", str(program)],
                       capture_output=True, text=True, timeout=jab.LIMIT)
    assert p.returncode == 1 and "set-user-id" in p.stderr, p


@needs_root
def test_set_user_id_programs_started_by_a_target_keep_their_privilege(public_jab):
    program = set_user_id(public_jab, "return geteuid() != 0;")
    source, parent = public_jab / "parent.c", public_jab / "parent"
    source.write_text("#include <spawn.h>\n#include <stdio.h>\n#include <sys/wait.h>\n"
                      "#include <poll.h>\n#include <unistd.h>\n"
                      "int work(void) { int s; pid_t p; char *a[] = { \"suid\", 0 };\n"
                      "posix_spawn(&p, \"%s\", 0, 0, a, 0); waitpid(p, &s, 0); return s != 0; }\n"
                      "int main(void) { struct pollfd in = { 0, POLLIN, 0 }; int bad = 0, all = 0;\n"
                      "puts(\"ready\"); fflush(stdout); do { bad += work(); all++; } while (poll(&in, 1, 0) == 0);\n"
                      "printf(\"%%d %%d\\n\", bad, all > 10); return 0; }\n" % program)
    subprocess.run(["gcc", "-O2", "-o", str(parent), str(source)], check=True)
    with subprocess.Popen([*AS_NOBODY, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as t:
        assert t.stdout.readline() == "ready\n"
        for _ in range(20):
            r = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "count", "-p", str(t.pid), "exe:work", "libc:waitpid",
                                "-d", "0.01"], capture_output=True, text=True, timeout=jab.LIMIT)
            assert t.poll() is None, r
        t.stdin.close()
        assert t.stdout.readline() == "0 1\n"


@needs_root
def test_program_that_makes_itself_private(public_jab):
    """prctl(PR_SET_DUMPABLE, 0): /proc/PID closes before our eyes, and the program has not ended."""
    source, program, out = public_jab / "private.c", public_jab / "private", public_jab / "private.out"
    source.write_text("#include <sys/prctl.h>\n#include <unistd.h>\n"
                      "__attribute__((noinline)) int work(int x) { __asm__ volatile(\"\"); return x * 3 + 1; }\n"
                      "int main(void) { prctl(PR_SET_DUMPABLE, 0);\n"
                      "for (int i = 0; i < 300; i++) { work(i); usleep(1000); } return 7; }\n")
    subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
    p = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "count", "--json", "exe:work", "-o", str(out), "--",
                        str(program)], capture_output=True, text=True, timeout=jab.LIMIT)
    r = jab.Result(p.returncode, out.read_text() if out.exists() else "", p.stderr)
    assert r.status == 7 and r.hits("work") == 300, r


@needs_root
def test_another_users_process_is_refused(public_jab, target):
    t = target("calls", "serve", 1)
    before = jab.snapshot(t.pid)
    p = subprocess.run([*AS_NOBODY, str(public_jab / "jab"), "count", "-p", str(t.pid), "exe:work"],
                       capture_output=True, text=True, timeout=jab.LIMIT)
    assert p.returncode == 1, p
    said = p.stderr.lower()
    assert "uid" in said or "user" in said or "capab" in said or "cap_sys_ptrace" in said, p.stderr
    assert str(t.pid) in p.stderr
    jab.assert_same(before, t.pid)
    t.stop()


def test_process_by_name(built, tmp_path):
    """-p NAME: a name that only this test's process has."""
    name = f"jabt{os.getpid() % 100000}"
    shutil.copy(built("calls"), tmp_path / name)
    with targets.Target("calls", command=[str(tmp_path / name), "serve", "2"]) as t:
        with jab.Count(name, "exe:work") as c:
            t.run(99)
            r = c.stop()
        assert r.status == 0, r
        assert r.hits("work") == 99, r
        t.stop()


def test_main_thread_that_has_ended(built, tmp_path):
    """/proc/PID/maps is empty then; any other thread serves."""
    source = tmp_path / "gone.c"
    source.write_text("""
#include "phases.h"
static void *rest(void *arg)
{
	usleep(200000);
	serve(work_times, NULL);
	exit(verdict());
}
int main(void)
{
	pthread_t id;
	pthread_create(&id, NULL, rest, NULL);
	pthread_exit(NULL);
}
""")
    program = tmp_path / "gone"
    subprocess.run(["gcc", *targets.CFLAGS, f"-I{targets.SRC}", "-o", str(program), str(source)], check=True)
    with targets.Target("gone", command=[str(program)]) as t:
        with jab.Count(t.pid, "exe:work") as c:
            t.run(4000)
            r = c.stop()
        assert r.status == 0, r
        assert r.hits("work") == 4000, r
        t.stop()
