# SPDX-License-Identifier: MIT
"""Bad input: one clear message, exit status 1, and the target untouched."""
import ctypes
import os
import random
import shutil
import struct
import subprocess
import time

import pytest

import jab
import targets


def refused(r, *words, status=1):
    """One message that holds all the words (a tuple: one of them), no output of ours, no crash."""
    assert r.status == status, r
    said = r.stderr.lower()
    for w in words:
        alternatives = w if isinstance(w, tuple) else (w,)
        assert any(a.lower() in said for a in alternatives), f"none of {alternatives} in: {r.stderr}"
    lines = [x for x in r.stderr.splitlines() if x.strip()]
    assert 1 <= len(lines) <= 4, r.stderr
    assert lines[0].startswith("jab"), r.stderr
    return r


@pytest.fixture
def idle(target):
    """A target and what it looks like; it must look the same and work after the test."""
    t = target("calls", "serve", 1)
    before = jab.snapshot(t.pid)
    yield t
    jab.assert_same(before, t.pid)
    t.run(10)
    t.stop()


# --- processes ---

def test_no_such_process():
    p = subprocess.Popen(["true"])
    p.wait()
    refused(jab.run("count", "-p", p.pid, "exe:main"), ("no such process", "no process"), str(p.pid))


def test_no_process_of_that_name():
    refused(jab.run("count", "-p", "no-such-name-here", "exe:main"), "no-such-name-here")


def test_zombie():
    p = subprocess.Popen(["true"])
    end = time.monotonic() + jab.LIMIT
    while open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z" and time.monotonic() < end:
        time.sleep(.01)
    try:
        refused(jab.run("count", "-p", p.pid, "exe:main"), "zombie", str(p.pid))
    finally:
        p.wait()


def test_kernel_thread():
    try:
        kernel = open("/proc/2/status").read()
    except OSError:
        pytest.skip("no kernel thread can be seen here")
    if "kthreadd" not in kernel:
        pytest.skip("pid 2 is no kernel thread in this pid namespace")
    refused(jab.run("count", "-p", 2, "exe:main"), "kernel thread", "2")


def test_32_bit_process(built):
    program = built("bits32")
    try:
        t = targets.Target("bits32")
    except OSError:
        pytest.skip("this kernel does not run 32-bit programs")
    with t:
        before = jab.snapshot(t.pid)
        refused(jab.run("count", "-p", t.pid, "exe:work"), ("32-bit", "32 bit"))
        jab.assert_same(before, t.pid)
        refused(jab.run("check", program, "work"), ("32-bit", "32 bit"))


def test_32_bit_command(built):
    r = jab.run("count", "exe:work", "--", built("bits32"), limit=jab.LIMIT)
    if r.status == 126:
        pytest.skip("this kernel does not run 32-bit programs")
    refused(r, ("32-bit", "32 bit"))


def test_ourselves(idle):
    """A tracer can't stop itself; said before anything is tried."""
    r = subprocess.run(["/bin/sh", "-c", f"exec {jab.JAB} count -p $$ exe:main"], capture_output=True, text=True,
                       timeout=jab.LIMIT)
    refused(jab.Result(r.returncode, r.stdout, r.stderr))


def test_traced_already(idle):
    """Names the other tracer."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    ready, go = os.pipe(), os.pipe()
    tracer = os.fork()
    if not tracer:
        ok = libc.ptrace(0x4206, idle.pid, None, None) == 0      # PTRACE_SEIZE
        os.write(ready[1], b"y" if ok else b"n")
        os.read(go[0], 1)
        os._exit(0)         # the kernel lets go of the target
    try:
        assert os.read(ready[0], 1) == b"y"
        refused(jab.run("count", "-p", idle.pid, "exe:work"), "traced", str(tracer))
    finally:
        os.write(go[1], b"x")
        os.waitpid(tracer, 0)
        for fd in ready + go:
            os.close(fd)


def test_second_jab_on_one_process(target):
    """The first one keeps its counts, whatever the second one is told."""
    t = target("calls", "serve", 1)
    with jab.Count(t.pid, "exe:work") as first:
        t.run(10)
        r = jab.run("count", "-d", "1", "-p", t.pid, "exe:work")
        assert r.status in (0, 1), r
        t.run(10)
        got = first.stop()
    assert got.status == 0 and got.hits("work") == 20, got
    assert not jab.leftovers(t.pid)
    t.run(1)
    t.stop()


# --- places ---

def test_symbol_not_found_suggests_the_nearest(idle):
    refused(jab.run("count", "-p", idle.pid, "exe:wrok"), "wrok", "work")


def test_symbol_not_found_in_a_library(idle):
    refused(jab.run("count", "-p", idle.pid, "libc:mallok"), "mallok", "malloc")


def test_object_not_found(idle):
    refused(jab.run("count", "--no-follow", "-p", idle.pid, "libnothing:malloc"), "libnothing")


def test_object_that_may_come_later(idle):
    r = jab.run("count", "-d", ".1", "-p", idle.pid, "libnothing:malloc")
    assert r.status == 0 and "the probe waits until one is loaded" in r.stderr, r


def test_glob_that_matches_nothing(idle):
    refused(jab.run("count", "-p", idle.pid, "exe:no_such_*"), "no_such_*")


def test_one_bad_probe_among_good_ones_places_nothing(idle):
    refused(jab.run("count", "-p", idle.pid, "exe:work", "exe:wrok"), "wrok")


def test_address_not_mapped(idle):
    refused(jab.run("count", "-p", idle.pid, "0x10"), "0x10", ("not mapped", "no mapping", "unmapped"))


def test_address_not_executable(idle):
    data = next(int(x.split("-")[0], 16) for x in jab.maps(idle.pid) if x.split()[1].startswith("rw"))
    refused(jab.run("count", "-p", idle.pid, f"{data:#x}"), f"{data:#x}", ("not executable", "no code"))


def instruction_starts(path, name):
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", str(path)],
                          capture_output=True, text=True, check=True).stdout
    starts = [int(x.split(":")[0], 16) for x in text.splitlines() if x.startswith("  ") and ":" in x]
    return [s - starts[0] for s in starts]


def test_inside_an_instruction_names_the_neighbours(idle, built):
    starts = instruction_starts(built("calls"), "run")
    inside = next(o for o in range(1, starts[-1]) if o not in starts)
    lo = max(s for s in starts if s < inside)
    hi = min(s for s in starts if s > inside)

    def spelled(n):
        return (f"+{n}", f"+{n:#x}")
    refused(jab.run("count", "-p", idle.pid, f"exe:run+{inside}"), "inside", spelled(lo), spelled(hi))


def test_offset_beyond_the_function(idle):
    refused(jab.run("count", "-p", idle.pid, "exe:work+1000000"), "work")


@pytest.mark.parametrize("probe", ["exe:/(/", "exe:/abc", "", ":", "exe:", "exe:work+", "exe:work+0xzz", "%return",
                                   "exe:work%nothing"])
def test_spec_that_can_not_be_read(idle, probe):
    r = jab.run("count", "-p", idle.pid, probe)
    assert r.status in (1, 2) and r.stderr.startswith("jab"), r


def test_recover_of_nobody():
    p = subprocess.Popen(["true"])
    p.wait()
    r = jab.run("recover", p.pid)
    assert r.status == 1 and f"there is no process {p.pid}" in r.stderr, r


def test_offset_behind_the_function(idle):
    refused(jab.run("count", "-p", idle.pid, "libc:malloc+100000"), "is not in that function, which has 0x")


@pytest.mark.parametrize("probe", ["kprobe:do_sys_open", "t:sched:sched_switch"])
def test_kind_that_does_not_exist_yet(idle, probe):
    refused(jab.run("count", "-p", idle.pid, probe), ("not yet", "not supported", "not there yet", "unsupported"))


@pytest.mark.parametrize("words,what", [
    (["arg0:int"], "field"), (["y=arg0+1"], "field"), (["retval"], "field"), (["$regs"], "field"), (["x:int"], "field"),
    (["x"], "field"),           # a parameter of that function
    (["rax"], "field"), (["backtrace"], "field"), (["if", "x == 1"], "condition"), (["if x == 1"], "condition"),
])
def test_fields_outside_of_the_quotes(built, words, what):
    """The shell makes words of their own of them; none is a probe that is waited for."""
    r = jab.run("trace", "exe:op_a", *words, "--", built("many"))
    refused(r, f"'{words[0]}' is a {what}, not a probe", f"in one quoted argument: 'exe:op_a {words[0]}'")
    assert not r.output, r
    refused(jab.run("count", "exe:op_a", *words, "--", built("many")), f"'{words[0]}' is a {what}, not a probe")


def test_functions_that_look_like_fields_are_probes(built):
    r = jab.run("trace", "--dry-run", "backtrace", "libc:backtrace", "--", built("many"))
    assert r.status == 0 and not r.stderr, r


@pytest.mark.parametrize("words", [["trace", "exe:op_a%return x"], ["-e", "uretprobe:exe:op_a { print(x) }"]])
def test_a_parameter_at_a_return(built, words):
    r = jab.run(*words, "-c", built("many"))
    assert r.status == 1 and "'x' is not known at a return; a call: probe keeps it from the entry" in r.stderr, r


@pytest.mark.parametrize("probe,call", [("syscall:openat", "openat"), ("syscall:openat fd=arg0", "openat"),
                                        ("tracepoint:syscalls:sys_enter_read", "read")])
def test_probes_in_the_kernel(idle, probe, call):
    refused(jab.run("trace", "-p", idle.pid, probe), "kernel", f"not supported yet; functions of libc call the kernel, "
            f"and can be probed: 'libc:{call}'")


def test_out_of_pad_room(target):
    t = target("full")
    before = jab.snapshot(t.pid)
    refused(jab.run("count", "-p", t.pid, "exe:work"), "room")
    jab.assert_same(before, t.pid)
    t.run(10)
    t.stop()


# --- files ---

def test_file_of_another_architecture(built, tmp_path):
    f = tmp_path / "arm"
    data = bytearray(built("calls").read_bytes())
    data[18:20] = struct.pack("<H", 183)     # EM_AARCH64
    f.write_bytes(data)
    for args in (("check", f, "work"), ("list", f)):
        refused(jab.run(*args), ("architecture", "aarch64", "machine", "cpu"))


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\nexit 0\n", b"\0" * 4096, b"\x7fELF\2\1\1" + b"\xff" * 5000])
def test_file_that_is_no_program(tmp_path, content):
    f = tmp_path / "odd"
    f.write_bytes(content)
    refused(jab.run("check", f, "main"), str(f))
    refused(jab.run("list", f), str(f))


def test_file_that_does_not_exist():
    refused(jab.run("check", "/no/such/file", "main"), "/no/such/file")


def test_truncated_files(built, tmp_path):
    """Cut at any length: a message or an answer, never a crash."""
    data = built("calls").read_bytes()
    f = tmp_path / "cut"
    dice = random.Random(1)
    for n in [10, 63, 64, 65, 200, *(dice.randrange(len(data)) for _ in range(15))]:
        f.write_bytes(data[:n])
        r = jab.run("check", f, "work")
        assert r.status in (0, 1), f"cut at {n}: {r}"
        assert r.status == 0 or r.stderr.startswith("jab"), f"cut at {n}: {r}"


def fuzz(data, dice):
    data = bytearray(data)
    for _ in range(dice.choice([1, 4, 32, 256])):
        at = dice.choice([dice.randrange(64), dice.randrange(len(data)), dice.randrange(min(len(data), 2048)),
                          len(data) - 1 - dice.randrange(min(len(data), 3000))])
        data[at] = dice.choice([0, 0xff, 0x7f, 0x80, dice.randrange(256)])
    return bytes(data)


@pytest.mark.parametrize("name", ["calls", "calls_stripped", "throw", "hello_rs"])
def test_damaged_files(built, tmp_path, name):
    """Random bytes in headers, tables and debug data: a message or an answer, never a crash or a hang."""
    original = built(name).read_bytes()
    f = tmp_path / "damaged"
    dice = random.Random(name)
    for i in range(40):
        f.write_bytes(fuzz(original, dice))
        r = jab.run(*dice.choice([("check", f, "*"), ("list", f), ("check", f, "/./%return")]))
        if r.status not in (0, 1):
            kept = shutil.copy(f, f"/tmp/jab-damaged-{name}-{i}")
            raise AssertionError(f"file kept as {kept}: {r}")


def test_library_replaced_on_disk(target, built, tmp_path):
    """The file at that path is another one now. Either the mapped one is still read (exact), or it is refused."""
    lib = tmp_path / "libplug.so"
    shutil.copy(built("libplug.so"), lib)
    t = target("dlopen", lib)
    assert t.ask("open") == "open"
    fresh = tmp_path / "fresh"
    shutil.copy(built("libplug_changed.so"), fresh)
    os.replace(fresh, lib)
    before = jab.snapshot(t.pid)
    r = jab.run("count", "-d", "0", "-p", t.pid, "libplug:plug_work")
    if r.status == 0:
        with jab.Count(t.pid, "libplug:plug_work") as c:
            t.run(100)
            r = c.stop()
        assert r.status == 0 and r.hits("plug_work") == 100, r
    else:
        refused(r, ("changed", "build id", "replaced", "deleted"), "libplug")
    jab.assert_same(before, t.pid)
    t.run(10)
    t.stop()


# --- usage ---

@pytest.mark.parametrize("args", [[], ["nonsense"], ["count"], ["count", "--nonsense"], ["count", "exe:main"],
                                  ["count", "-p"], ["check"], ["count", "-p", "ours"],
                                  ["count", "-d", "soon", "-p", "ours", "exe:main"], ["count", "exe:main", "--"]])
def test_wrong_usage_is_status_2(args):
    r = jab.run(*(os.getpid() if x == "ours" else x for x in args))
    assert r.status == 2, r
    assert r.stderr, r


@pytest.mark.parametrize("args", [["--help"], ["count", "--help"], ["list", "--help"], ["check", "--help"],
                                  ["recover", "--help"], ["--version"]])
def test_help(args):
    r = jab.run(*args)
    assert r.status == 0 and r.output.strip(), r
    assert not r.stderr, r


def test_command_that_can_not_be_started():
    r = jab.run("count", "exe:main", "--", "/no/such/program")
    assert r.status in (1, 127), r
    assert "/no/such/program" in r.stderr, r


def test_output_that_can_not_be_written(idle):
    r = jab.run("count", "-o", "/no/such/dir/file", "-p", idle.pid, "exe:work")
    assert r.status == 1 and "/no/such/dir/file" in r.stderr, r


@pytest.mark.parametrize("args", [["list", "/bin/bash"], ["list", "--json", "/bin/bash"], ["check", "/bin/bash", "*"],
                                  ["count", "libc:malloc", "--", "/bin/true"],
                                  ["count", "-o", "/dev/full", "libc:malloc", "--", "/bin/true"], ["--help"]])
def test_full_disk(args):
    with open("/dev/full", "w") as full:
        p = subprocess.run([jab.JAB, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=jab.LIMIT)
    assert p.returncode == 1 and "can't be written: No space left" in p.stderr, p.stderr


def test_closed_output_goes_nowhere_else():
    """The descriptors of the target's memory must not become 1 and 2."""
    shell = f"exec {jab.JAB} count -i 0 libc:malloc -- /bin/true"
    for closed, status in (("<&-", 0), (">&-", 1), ("2>&- <&-", 0), ("<&- >&- 2>&-", 1)):
        p = subprocess.run(["sh", "-c", f"{shell} {closed}"], capture_output=True, timeout=jab.LIMIT)
        assert p.returncode == status, (closed, p)


def test_code_that_left_its_file(target):
    t = target("moved")
    assert not [x for x in jab.maps(t.pid) if " r-xp " in x and x.endswith("/moved")]
    r = jab.run("count", "-p", t.pid, "-d", "0.1", "exe:main")
    assert r.status == 1 and "not mapped from its file" in r.stderr, r
    assert t.alive()
