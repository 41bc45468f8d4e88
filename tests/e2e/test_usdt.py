# SPDX-License-Identifier: MIT
"""Static tracepoints (USDT): what is listed, the values of arguments, semaphores, and what is refused by name."""
import json
import re
import shutil
import struct
import subprocess

import pytest

import jab
import scripts
import traces

NAMES = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
TABLE = bytes((0x81 + 7 * i) & 0xff for i in range(64))         # tests/prog/operands.S


def unsigned(value, size):
    return value & ((1 << 8 * size) - 1)


def signed(value, size):
    value = unsigned(value, size)
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value


def both(value, *sizes):
    return [f(value, n) for n in sizes for f in (unsigned, signed)]


def at(offset, code):
    return struct.unpack_from("<" + code, TABLE, offset)[0]


def register(number):
    return 0xf1e2d3c4b5a69780 + number


def forms():
    """What each tracepoint of operands.S hands over."""
    all_of = {r: both(register(i), 8, 4, 2, 1) + (both(register(i) >> 8, 1) if i < 4 else [])
              for i, r in enumerate(NAMES) if r != "rsp"}
    v = register(0)
    stack = struct.pack("<Q", 0x8899aabbccddeeff)
    return {
        **all_of,
        "widths": [v, unsigned(v, 4), signed(v, 2), unsigned(v, 1), signed(v, 4), signed(v, 8)],
        "constants": [-5, 5, 0x1234567890abcdef, 255, -1, 65535, -9223372036854775808, 8, 0],
        "vectors": [-2.5, 1e100, 0.25, -8.0, -2.5],
        "memory": [at(0, "Q"), at(4, "i"), at(16, "H"), at(1, "B"), at(8, "q"), at(4, "I"), at(4, "B"), at(0, "Q")],
        "symbols": [at(0, "Q"), at(8, "i"), at(14, "H"), at(1, "B"), -2.5, -8.0],
        "thread_local": [-77, 78],
        "stack": [0x8899aabbccddeeff, struct.unpack_from("<i", stack, 4)[0], struct.unpack_from("<H", stack, 6)[0]],
        "nothing": [], "pair": [1], "nop5": [2], "nop10": [3],
        "unread": [unsigned(0xccddeeff, 4), 2],
    }


BUILDS = ["tracepoints", "tracepoints_static", "tracepoints_clang", "tracepoints_O0"]


@pytest.mark.parametrize("name", BUILDS)
def test_operands(built, name):
    r = jab.run("trace", "--json", "usdt:forms:*", "--", built(name), "work", 2)
    want = forms()
    assert r.status == 0 and r.summary["probes"][0]["refused"] == 0, r
    assert "arg1 of forms:unread ('8@%st') is left out" in r.stderr, r
    for name, values in want.items():
        seen = [list(x["fields"].values()) for x in r.rows if x["probe"] == f"forms:{name}"]
        assert seen == [values, values], name
    assert len(r.rows) == 2 * len(want), r
    assert list(next(x for x in r.rows if x["probe"] == "forms:unread")["fields"]) == ["arg0", "arg13"]


def test_fields_and_scripts(built):
    """Fields by number, also with names, types and conditions; the same in a script."""
    path = built("tracepoints")
    r = jab.run("trace", "--json", "usdt:forms:memory n=arg1 arg5:s16 arg2:int if arg1 < 0", "--", path, "work", 1)
    assert [x["fields"] for x in r.rows] == [{"n": at(4, "i"), "arg5": signed(at(4, "I"), 2), "arg2": at(16, "H")}], r
    r = scripts.run('usdt:forms:r* { @[probe] = sum(arg7) } U:*:forms:v* { printf("%.2f %s\\n", arg2, probetype); print(args.arg3) }'
                    ' usdt:$1:pair { printf("pair %d %s\\n", arg0, func) }', path, "work", 2, params=[path])
    assert r.status == 0, r
    assert r.output.count("0.25 usdt\n-8\n") == 2 and r.output.count("pair 1 operands\n") == 2, r
    for i, n in enumerate(NAMES):
        if n.startswith("r") and n not in ("rsp",):
            assert f"@[usdt:{path}:forms:{n}]: {2 * signed(register(i), 1)}\n" in r.output, (n, r)


def test_what_has_no_argument(built):
    path = built("tracepoints")
    for text, says in [("usdt:forms:pair arg1", "forms:pair has 1 argument"), ("usdt:forms:nothing arg0", "forms:nothing has no arguments"),
                       ("usdt:forms:unread arg4", "arg4 of forms:unread ('4@missing(%rip)') can't be read: its symbol 'missing'"),
                       ("usdt:forms:pair retval", "retval is known at returns only")]:
        r = jab.run("trace", text, "--", path, "work", 1)
        assert r.status != 0 and says in r.stderr, (text, r)


def test_list(built):
    path = built("tracepoints")
    r = jab.run("list", path, "usdt:*")
    assert "usdt:tracepoints:app:plain\n" in r.output and "usdt:tracepoints:forms:pair\n" in r.output, r
    assert len(r.output.splitlines()) == len(forms()) + 3, r
    r = jab.run("list", "-v", path, "usdt:forms:memory")
    assert "        s64 arg4  -8@-8(%rbp,%rcx,8)\n" in r.output and "operands+0x" in r.output, r
    r = jab.run("list", "--json", path, "usdt:app:both")
    (row,) = r.rows
    assert row["provider"] == "app" and row["name"] == "both" and len(row["sites"]) == 2, r
    assert [s["args"][0]["type"] for s in row["sites"]] == ["s32", "s64"] and row["sites"][0]["semaphore"], r
    r = jab.run("-l", f"usdt:{path}:app:*")
    assert sorted(r.output.splitlines()) == [f"usdt:{path}:app:{n}" for n in ("both", "guarded", "plain")], r
    r = jab.run("list", path, "usdt:app:plian")
    assert r.status != 0 and "no static tracepoint matches 'usdt:app:plian'" in r.stderr, r
    r = jab.run("list", "/bin/true", "usdt:*")
    assert r.status != 0 and "none of the files has notes" in r.stderr, r
    assert json.loads(jab.run("check", "--json", path, "usdt:forms:pair").output.splitlines()[0])["function"] == "forms:pair"


# ---- semaphores: tests/prog/tracepoints.c says them in the order guarded, both ----

def events(r, name):
    return [tuple(x["fields"].values()) for x in r.rows if x.get("probe") == f"app:{name}"]


def expected(n, name):
    if name == "both":
        return [v for i in range(n) for v in ((1, i), (2, i + 1))]
    return [i for i in range(n)]


def test_semaphores_before_during_after(target):
    with target("tracepoints") as t:
        before = jab.snapshot(t.pid)
        assert t.ask("semaphore") == "0 0"
        with jab.Count(t.pid, "usdt:app:*") as c:
            assert t.ask("semaphore") == "1 1"
            t.run(10)
            r = c.stop()
        assert t.ask("semaphore") == "0 0"
        assert {x["function"]: x["hits"] for x in r.rows} == {"app:plain": 10, "app:guarded": 10, "app:both": 20}, r
        jab.assert_same(before, t.pid)
        t.run(10)
        t.stop()


def test_only_those_that_are_probed(target):
    with target("tracepoints") as t, jab.Count(t.pid, "usdt:app:both") as c:
        assert t.ask("semaphore") == "0 1"
        t.run(5)
        r = c.stop()
        assert r.summary["probes"][0]["hits"] == 10 and len(r.rows) == 1, r
        t.stop()


def test_semaphores_of_others_stay(target):
    """What another tracer has counted stays as it is, and 65535 is as far as they go."""
    with target("tracepoints") as t:
        assert t.ask("set 3 65535") == "set"
        with jab.Count(t.pid, "usdt:app:*") as c:
            assert t.ask("semaphore") == "4 65535"
            assert c.stop().status == 0
        assert t.ask("semaphore") == "3 65535"
        with jab.Count(t.pid, "usdt:app:*") as c:
            t.ask("set 0 2")            # somebody has set it back: there is nothing of ours to take away
            assert c.stop().status == 0
        assert t.ask("semaphore") == "0 2"      # the second one was not raised
        t.stop()


def test_arguments_behind_a_semaphore(built):
    r = jab.run("trace", "--json", "usdt:app:*", "--", built("tracepoints"), "work", 20)
    assert r.status == 7, r             # it found all semaphores raised
    assert events(r, "both") == expected(20, "both"), r
    assert [e[0] for e in events(r, "guarded")] == expected(20, "guarded"), r
    assert [e[:4] for e in events(r, "plain")] == [(i, -3, 60000, 1.5) for i in range(20)], r
    s = scripts.run('usdt:app:guarded { printf("%d %s\\n", arg0, str(arg1)) } usdt:app:both { @ = sum(arg1) }', built("tracepoints"),
                    "work", 3)
    assert s.output.startswith("0 item-0\n1 item-1\n2 item-2\n") and "@: 9\n" in s.output, s
    r = jab.run("trace", "--json", "usdt:app:guarded arg1:string", "--", built("tracepoints"), "work", 2)
    assert events(r, "guarded") == [("item-0",), ("item-1",)], r


def test_many_semaphores_at_one_jump(tmp_path):
    """Tracepoints that are a byte apart: there are more semaphores than places that are changed, and recover lowers each."""
    names = [f"t{i}" for i in range(300)]
    (tmp_path / "near.c").write_text(
        "#define _SDT_HAS_SEMAPHORES 1\n#include <sys/sdt.h>\n#include <unistd.h>\n" +
        "".join(f'__extension__ unsigned short near_{x}_semaphore __attribute__((used, section(".probes"), visibility("hidden")));\n' for x in names) +
        "__attribute__((noipa)) void work(void) { " + "".join(f"STAP_PROBE(near, {x}); " for x in names) + "}\n" +
        "int main(void) { work(); while (pause()) ; return 0; }\n")
    path = tmp_path / "near"
    subprocess.run(["gcc", "-O2", "-o", path, tmp_path / "near.c"], check=True)
    p = subprocess.Popen([path])

    def raised():
        with open(f"/proc/{p.pid}/mem", "rb") as f:
            at = min(v for k, v in jab.symbols(path).items() if k.startswith("near_t"))
            f.seek(jab.base_address(p.pid, str(path)) + at)
            return sum(struct.unpack("300H", f.read(600)))
    try:
        jab.wait_idle(p.pid)
        with jab.Count(p.pid, "usdt:near:*") as c:
            assert raised() == 300
            c.kill()
        assert raised() == 300
        r = jab.run("recover", p.pid)
        assert r.status == 0 and raised() == 0, r
    finally:
        p.kill()
        p.wait()


@pytest.mark.parametrize("name", ["tracepoints", "tracepoints_static"])
def test_forks_and_execs(target, name):
    with target(name) as t:
        with jab.Count(t.pid, "usdt:app:guarded", "usdt:app:both") as c:
            assert t.ask("keep").startswith("kept ")
            assert t.ask("kept") == "1 1"
            assert t.ask("fork 10") == "child 7"
            assert t.ask("exec 10") == "child 7"
            r = c.stop()
        assert t.ask("semaphore") == "0 0" and t.ask("kept") == "0 0"
        assert t.ask("fork 10") == "child 0" and t.ask("exec 10") == "child 0"
        assert r.probe("usdt:app:guarded")["hits"] == 13 and r.probe("usdt:app:both")["hits"] == 26, r    # exec: 3 rounds
        t.stop()


def test_after_a_kill(target):
    """Killed, jab leaves them raised, in the program and in its fork; recover lowers each once."""
    with target("tracepoints") as t:
        t.ask("set 5 0")
        with jab.Count(t.pid, "usdt:app:*") as c:
            t.ask("keep")
            c.process.kill()
            c.process.wait()
        assert t.ask("semaphore") == "6 1" and t.ask("kept") == "6 1"
        t.run(3)
        r = jab.run("recover", t.pid)
        assert r.status == 0, r
        assert t.ask("semaphore") == "5 0" and t.ask("kept") == "5 0"
        assert "nothing was left behind" in jab.run("recover", t.pid).output
        assert t.ask("semaphore") == "5 0"
        t.run(3)
        t.stop()


# ---- notes that lie ----

BAD = r"""
	.macro note pc, semaphore, provider, name, args
	.pushsection .note.stapsdt, "", "note"
	.balign 4
	.4byte 8, 994f - 993f, 3
	.asciz "stapsdt"
993:	.8byte \pc, 0, \semaphore
	.asciz "\provider"
	.asciz "\name"
	.asciz "\args"
994:	.balign 4
	.popsection
	.endm
	.data
	.balign 4096
shut:	.skip 4096
open:	.skip 4096
	.text
	.globl main
	.type main, @function
main:	push %rbx
	mov $10, %edi		# shut the page of one semaphore
	lea shut(%rip), %rdi
	mov $4096, %esi
	mov $1, %edx
	call mprotect@PLT
	xor %edi, %edi
	call close@PLT
wait:	call pause@PLT
site:	nop
	nop
	nop
	nop
middle:	mov $1, %eax
	pop %rbx
	ret
	.size main, . - main
	.globl hot
	.type hot, @function
hot:	nop
	ret
	.size hot, . - hot
	note site, 0, bad, good, "4@%eax"
	note middle+2, 0, bad, inside, ""
	note site+0x7000000, 0, bad, outside, ""
	note open, 0, bad, data, ""
	note site+1, main, bad, text_semaphore, ""
	note site+2, shut, bad, shut_semaphore, ""
	note site+3, 0x66660000, bad, no_semaphore, ""
	note main, open, bad, raised, "4@%ebx 8@absurd((((% 8@$$$ 8@"
	.section .note.GNU-stack, "", @progbits
"""


@pytest.fixture
def liar(tmp_path):
    (tmp_path / "liar.S").write_text(BAD)
    subprocess.run(["gcc", "-o", tmp_path / "liar", tmp_path / "liar.S"], check=True)
    return tmp_path / "liar"


def test_bad_notes(liar):
    r = jab.run("check", "--json", liar, "usdt:*")
    reasons = {x["function"]: x["reason"] for x in r.rows if "function" in x}
    assert reasons["bad:good"] == "" and reasons["bad:raised"] == "", reasons
    for name, why in [("inside", "points into the middle of an instruction"), ("outside", "points outside of the code"),
                      ("data", "points outside of the code"), ("text_semaphore", "semaphore of its note is not in memory"),
                      ("no_semaphore", "semaphore of its note is not in memory")]:
        assert why in reasons[f"bad:{name}"], reasons
    r = jab.run("trace", "usdt:bad:inside", "--", liar, limit=20)
    assert r.status != 0 and "bad:inside" in r.stderr and str(liar) in r.stderr and "middle of an instruction" in r.stderr, r
    r = jab.run("list", "-v", liar, "usdt:bad:raised")
    assert "absurd((((%: " in r.output and "8@$$$: " in r.output, r


def test_semaphore_out_of_reach(liar):
    """A page that the program has shut is not written."""
    p = subprocess.Popen([liar], stdin=subprocess.PIPE)
    try:
        jab.wait_idle(p.pid)
        with jab.Count(p.pid, "usdt:bad:*", options=["-a"]) as c:
            r = c.stop()
        assert r.status == 0, r
        (info,) = r.summary["probes"]
        assert info["sites"] == 8 and info["refused"] == 6, r
        r = jab.run("count", "-p", p.pid, "usdt:bad:shut_semaphore")
        assert r.status != 0 and f"bad:shut_semaphore of {liar}: the semaphore of its note is not in memory that the process" in r.stderr, r
        with open(f"/proc/{p.pid}/mem", "rb") as f:
            f.seek(jab.base_address(p.pid, str(liar)) + jab.symbols(liar)["shut"])
            assert f.read(2) == bytes(2)
    finally:
        p.kill()
        p.wait()


def test_two_libraries_with_one_provider(tmp_path):
    """Each is a tracepoint of its own file; the object chooses."""
    text = ('#include <sys/sdt.h>\n__attribute__((noinline)) void NAME(int n) { for (int i = 0; i < n; i++) STAP_PROBE1(same, hit, i); }\n')
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(text.replace("NAME", name))
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", tmp_path / f"lib{name}.so", tmp_path / f"{name}.c"], check=True)
    (tmp_path / "main.c").write_text("void one(int), two(int);\nint main(void) { one(3); two(5); return 0; }\n")
    subprocess.run(["gcc", "-o", tmp_path / "main", tmp_path / "main.c", f"-L{tmp_path}", "-lone", "-ltwo", f"-Wl,-rpath,{tmp_path}"], check=True)
    r = jab.count_command(["usdt:same:hit"], [tmp_path / "main"])
    assert {x["module"]: x["hits"] for x in r.rows} == {"libone.so": 3, "libtwo.so": 5}, r
    r = jab.count_command(["usdt:libtwo:same:hit"], [tmp_path / "main"])
    assert {x["module"]: x["hits"] for x in r.rows} == {"libtwo.so": 5}, r
    r = jab.count_command([f"usdt:{tmp_path}/libone.so:hit"], [tmp_path / "main"])
    assert {x["module"]: x["hits"] for x in r.rows} == {"libone.so": 3}, r


def test_processes_that_start_later(built, tmp_path):
    """A script without a process: those that begin to use the file find their semaphores raised before they run."""
    path = shutil.copy(built("tracepoints"), tmp_path)
    with scripts.Script(f"usdt:{path}:app:both {{ @[pid] = count(); }} usdt:{path}:app:guarded {{ @g = count(); }}") as s:
        # 7: it has found each of them raised, whenever it looked
        assert [subprocess.run([path, "work", "5"]).returncode for _ in range(3)] == [7, 7, 7]
        r = s.stop()
    assert len(re.findall(r"^@\[\d+\]: 10$", r.output, re.M)) == 3 and "@g: 15\n" in r.output, r


def test_recorded(built, tmp_path):
    """A place of another type is a class of its own, of the same name."""
    r = traces.record(tmp_path / "t", ["usdt:app:*", "x=usdt:forms:pair"], [built("tracepoints"), "work", 3])
    assert r.status == 7, r
    events, lost = traces.babeltrace(tmp_path / "t")
    seen = [(e.name, e.fields.get("arg0"), e.fields.get("arg1")) for e in events if e.name in ("app:both", "x")]
    assert lost == 0 and sorted(seen) == sorted([("app:both", str(k), str(i + k - 1)) for i in range(3) for k in (1, 2)] + [("x", "1", None)] * 3), seen
