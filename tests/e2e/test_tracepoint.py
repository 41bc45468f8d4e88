# SPDX-License-Identifier: MIT
"""<jab/tracepoint.h>: what it costs while nobody traces, what the notes say, what the compiler refuses."""
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import notes
import pytest
from targets import LIMIT, ROOT, SRC

INCLUDE = f"-I{ROOT / 'include'}"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
C = {"gcc": ["gcc", "-std=c11"], "clang": ["clang", "-std=c11"],
     "g++": ["g++", "-std=c++17", "-xc++"], "clang++": ["clang++", "-std=c++17", "-xc++"]}
ARM = {"gcc": ["aarch64-linux-gnu-gcc", "-std=c11"], "clang": ["clang", "--target=aarch64-linux-gnu", "-std=c11"]}
NOP = bytes.fromhex("0f1f440000")

INTEGERS = [("s8", "int", 1, "signed"), ("u8", "int", 1), ("s16", "int", 2, "signed"), ("u16", "int", 2), ("s32", "int", 4, "signed"),
            ("u32", "int", 4), ("s64", "int", 8, "signed"), ("u64", "int", 8), ("yes", "bool", 1), ("constant", "int", 4, "signed"),
            ("large", "int", 8, "signed"), ("own", "int", 4, "signed")]
OTHERS = [("f", "float", 4), ("d", "float", 8), ("text", "string", 8), ("pointer", "pointer", 8), ("chars", "chars", 1, "fixed", 16),
          ("numbers", "int", 4, "signed", "fixed", 4), ("some", "int", 4, "signed", "counted"), ("", "length", 4, "signed"),
          ("color", "enum", 4, "signed", "color"), ("line", "struct", 8, "line"), ("from", "int", 2, "signed")]
TYPES = {
    "color": [("RED", 0), ("GREEN", 5), ("BLUE", -1)],
    "point": [(0, "x", "int", 2, "signed"), (8, "y", "float", 8), (16, "label", "string", 8), (24, "color", "enum", 4, "signed", "color")],
    "line": [(0, "from", "struct", 8, "point"), (32, "to", "struct", 8, "point"), (64, "name", "chars", 1, "fixed", 8),
             (72, "widths", "int", 4, "fixed", 3)],
}


def compile_(command, *flags, output, sources=("tracepoint.c", "tracepoint_second.c"), strict=STRICT):
    command = [*command, *strict, "-D_GNU_SOURCE", INCLUDE, *flags, *(str(SRC / s) for s in sources), "-o", str(output)]
    r = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 0, " ".join(command) + "\n" + r.stderr[-3000:]
    return output




def check_notes(path, nop=NOP, linked=True):
    sites, ours = notes.stapsdt(path), notes.jab(path)
    assert [(p, n, a) for p, n, a, *_ in sites] == [(p, n, a) for p, n, a, _ in ours]
    fields = {n: f for _, n, _, f in ours}
    assert {p for p, *_ in ours} == {"every"}
    assert fields["integers"] == INTEGERS and fields["others"] == OTHERS
    assert fields["nothing"] == [] and fields["inlined"] == [("x", "int", 4, "signed")]
    elf = notes.Elf(path)
    for (_, name, address, semaphore, args), (*_, f) in zip(sites, ours):
        assert [a[:a.index("@")] for a in args] == [("-" if "signed" in x[3:4] and not set(x) & {"fixed", "counted"} and x[1] != "struct" else "")
                                                   + str(8 if set(x) & {"fixed", "counted"} else x[2]) for x in f], (name, args, f)
        assert not any("(%rip)" in a or "xmm" in a for a in args)
        if linked:
            assert elf.at(address, len(nop)) == nop
            assert bool(semaphore) == (name == "guarded")
    said = notes.types(path)
    assert {n: said[n] for n in TYPES} == TYPES
    return sites, ours


# Each is one way to build the same program; all ways of all compilers together are in tests/torture.
WAYS = [
    ("gcc", "-O0"), ("gcc", "-O1 -fPIC -pie"), ("gcc", "-O2 -static"), ("gcc", "-O3 -flto"),
    ("gcc", "-O2 -no-pie -fno-pie -fno-asynchronous-unwind-tables -ffunction-sections -Wl,--gc-sections"),
    ("clang", "-O0 -fPIC -pie"), ("clang", "-O2"), ("clang", "-O3 -flto"),
    ("g++", "-O0"), ("g++", "-O2 -flto"), ("clang++", "-O2 -ffunction-sections -Wl,--gc-sections"), ("clang++", "-O0"),
]


@pytest.mark.parametrize("compiler,flags", WAYS, ids=[f"{c} {f}" for c, f in WAYS])
def test_every_way_to_build(compiler, flags, tmp_path):
    program = compile_(C[compiler], *flags.split(), output=tmp_path / "program")
    sites, ours = check_notes(program)
    names = [n for _, n, *_ in ours]
    assert names.count("nothing") >= 2 and names.count("integers") >= 1         # what is inlined is there more often
    if "++" in compiler:
        opened = [f for _, n, _, f in ours if n == "opened"][0]
        assert opened == [("value", "int", 4, "signed"), ("other", "int", 4, "signed"), ("mood", "enum", 1, "Mood")]
        assert notes.types(program)["Mood"] == [("Mood::Calm", 0), ("Mood::Cross", 1)]
    r = subprocess.run([str(program)], capture_output=True, text=True, timeout=LIMIT)
    assert r.stdout == ("sum 171\n" if "++" in compiler else "sum 165\n")
    subprocess.run(["strip", str(program)], check=True)
    check_notes(program)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_shared_library(compiler, tmp_path):
    check_notes(compile_(C[compiler], "-O2", "-fPIC", "-shared", output=tmp_path / "library.so"))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O2 -fPIC"])
def test_aarch64_objects(compiler, flags, tmp_path):
    """Linked to nothing: the addresses are relocations."""
    path = compile_(ARM[compiler], *flags.split(), "-c", "-DFREESTANDING", "-ffreestanding", sources=["tracepoint.c"], output=tmp_path / "object.o")
    elf = notes.Elf(path)
    assert struct_machine(elf) == 183
    ours = {n: f for _, n, _, f in notes.jab(path)}
    assert ours["integers"] == INTEGERS and ours["others"] == OTHERS
    sites = {n: (a, args) for _, n, a, _, args in notes.stapsdt(path)}
    assert len(sites["integers"][1]) == 12 and len(sites["others"][1]) == 11
    said = subprocess.run(["aarch64-linux-gnu-readelf", "-nrW", str(path)], capture_output=True, text=True, timeout=LIMIT).stdout
    assert "Name: guarded" in said and "jab.enabled.every.guarded" in said


def struct_machine(elf):
    return int.from_bytes(elf.data[18:20], "little")


LOOP = r"""
#include <jab/tracepoint.h>
#include <stdlib.h>
#ifdef __cplusplus
extern "C"
#endif
__attribute__((noinline)) long loop(int n, const char *name)
{
	long sum = 0;
	for (int i = 0; i < n; i++) {
		sum += i ^ sum >> 3;
		__asm__ __volatile__("" : "+r"(sum), "+r"(i), "+r"(name));
#ifdef WITH
		JAB_TRACEPOINT(costs, event, ("i", i), ("sum", sum), ("name", name));
#endif
	}
	return sum;
}
int main(void) { return (int)loop(20000, "sixteen letters!") & 1; }
"""


def instructions(program, tmp_path):
    r = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=loop*", f"--callgrind-out-file={tmp_path / 'out'}", str(program)],
                       capture_output=True, text=True, timeout=LIMIT)
    return int(re.search(r"Collected : (\d+)", r.stderr)[1])


@pytest.mark.parametrize("compiler,level", [("gcc", "-O2"), ("clang", "-O2"), ("g++", "-O3"), ("gcc", "-O0")])
def test_off_costs_one_nop(compiler, level, tmp_path):
    """Counted by callgrind: 20,000 rounds take exactly 20,000 instructions more."""
    source = tmp_path / "loop.c"
    source.write_text(LOOP)
    def count(way):
        program = tmp_path / f"loop{way}"
        subprocess.run([*C[compiler], level, INCLUDE, *way.split(), str(source), "-o", str(program)], check=True, timeout=LIMIT)
        return instructions(program, tmp_path)
    with ThreadPoolExecutor(2) as pool:
        without, with_ = pool.map(count, ["", "-DWITH"])
    assert with_ - without == 20000


def test_memory_is_stored_before(tmp_path):
    """What a field points to has its value at the nop, even if the compiler could do the stores later or leave them out."""
    source = tmp_path / "store.c"
    source.write_text("""
#include <jab/tracepoint.h>
int main(void)
{
	char text[16] = "first";
	int numbers[2] = { 1, 2 };
	__asm__ __volatile__("" : : "r"(text), "r"(numbers) : "memory");
	text[0] = 'w'; numbers[1] = 77;
	JAB_TRACEPOINT(store, event, ("text", text), ("numbers", numbers));
	text[0] = 'x'; numbers[1] = 78;
	__asm__ __volatile__("" : : "r"(text), "r"(numbers) : "memory");
	return 0;
}
""")
    for compiler in C:
        program = tmp_path / compiler
        subprocess.run([*C[compiler], "-O2", INCLUDE, str(source), "-o", str(program)], check=True, timeout=LIMIT)
        r = subprocess.run(["gdb", "-nx", "-batch", "-ex", "break -probe-stap store:event", "-ex", "run", "-ex", "p (char*)$_probe_arg0",
                            "-ex", "p ((int*)$_probe_arg1)[1]", str(program)], capture_output=True, text=True, timeout=LIMIT)
        assert '"wirst"' in r.stdout and "= 77\n" in r.stdout, compiler + r.stdout + r.stderr


def test_semaphore(tmp_path):
    """Not 0: somebody traces."""
    program = compile_(C["gcc"], "-O2", "-no-pie", "-fno-pie", output=tmp_path / "program")
    semaphores = {s for _, n, _, s, _ in notes.stapsdt(program) if n == "guarded"}
    assert len(semaphores) == 1
    r = subprocess.run([str(program), "2"], capture_output=True, text=True, timeout=LIMIT)
    assert r.stdout == "sum 104\n"
    gdb = subprocess.run(["gdb", "-nx", "-batch", "-ex", "break main", "-ex", "run 2", "-ex", f"set *(short*){semaphores.pop():#x} = 1", "-ex", "continue",
                          str(program)], capture_output=True, text=True, timeout=LIMIT)
    assert "sum 2000106\n" in gdb.stdout        # the second file adds one in each round, too


def test_gdb_sees_arguments(tmp_path):
    program = compile_(C["gcc"], "-O2", output=tmp_path / "program")
    shown = [f"p $_probe_arg{i}" for i in range(12)]
    r = subprocess.run(["gdb", "-nx", "-batch", "-ex", "info probes stap every", "-ex", "break -probe-stap every:integers", "-ex", "run",
                        *(x for s in shown for x in ("-ex", s)), str(program)], capture_output=True, text=True, timeout=LIMIT)
    values = [int(v.split()[0]) for v in re.findall(r"^\$\d+ = (-?\d+.*)$", r.stdout, re.M)]
    assert values == [-1, 200, -1000, 60000, 0, 4000000000, -5000000000000, 2**64 - 16, 0, -5, 0x123456789abc, 7], r.stdout + r.stderr
    assert "every    guarded" in r.stdout


BAD = [
    ('("x", f())', "calls, changes something|side effects"),
    ('("x", x++)', "calls, changes something|side effects"),
    ('("x", x += 2)', "calls, changes something|side effects"),
    ('("x", *v)', "calls, changes something|side effects"),
    ('("x", s, f())', "calls, changes something|side effects"),
    ('("x", x ? f() : 1)', "calls, changes something|side effects"),
    ('("x", *p)', "the type of field .*x.* is not supported"),
    ('("x", ld)', "the type of field .*x.* is not supported"),
    ('("x", pp, x)', "must point to numbers, chars or bools"),
    ('("x", s, ld)', "the count of field .*x.* must be an integer"),
    ('("x", x), ("x", x)', "two fields are named 'x'"),
    ('("x", x)); JAB_TRACEPOINT(shop, sold, ("y", x)', "'shop.sold' has other fields at another place"),
    ('("x", x)); JAB_TRACEPOINT(shop, sold, ("x", s)', "'shop.sold' has other fields at another place"),
    ('("x", *t, JAB_STRUCT(s))', "field .*x.* is not of the struct declared as s"),
    ('("x", x, JAB_ENUM(color))', "jab_tp_enum_id_color"),
    (", ".join(f'("f{i}", x)' for i in range(13)), "at most 12 fields"),
    (", ".join(f'("f{i}", x)' for i in range(11)) + ', ("s", s, x)', "at most 12 fields"),
    ('("x")', "a field is "),
    ("x", "FIELD_IN_PARENTHESES"),
]
GOOD = ['("x", x + 3)', '("x", t->x * 2)', '("x", p->next->a)', '("x", x ? *pp[1] : 0)', '("x", (short)x)', '("x", s[x & 3])', '("x", (void *)s)',
        '("x", x)); JAB_TRACEPOINT(shop, sold, ("x", x)', '("x", "literal")', '("x", &p->a)', '("x", *p, JAB_STRUCT(s))', '("x", 1.5)',
        ", ".join(f'("f{i}", x)' for i in range(12))]
USE = """
#include <jab/tracepoint.h>
struct s { int a; struct s *next; };
struct t { int x; };
JAB_TRACEPOINT_STRUCT(s, struct s, ("a", a));
int f(void);
int g(int x, struct s *p, volatile int *v, struct t *t, long double ld, int **pp, char *s);
int g(int x, struct s *p, volatile int *v, struct t *t, long double ld, int **pp, char *s)
{
	JAB_TRACEPOINT(shop, sold, %s);
	return x + !p + !v + !t + (ld > 1) + !pp + !s;
}
"""


@pytest.mark.parametrize("compiler", C)
def test_what_is_refused(compiler, tmp_path):
    def verdict(i, text, level):
        source = tmp_path / f"{i}.c"
        source.write_text(USE % text)
        r = subprocess.run([*C[compiler], *STRICT, level, INCLUDE, "-c", str(source), "-o", str(tmp_path / f"{i}.o")],
                           capture_output=True, text=True, timeout=LIMIT)
        return r.returncode, r.stderr
    rows = [(t, w) for t, w in BAD] + [(t, None) for t in GOOD]
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda x: verdict(x[0], x[1][0], "-O2" if x[0] & 1 else "-O0"), enumerate(rows)))
    for (text, wanted), (status, stderr) in zip(rows, said):
        if wanted:
            assert status and re.search(wanted, stderr), text + "\n" + stderr
        else:
            assert status == 0, text + "\n" + stderr


def test_left_out(tmp_path):
    """JAB_TRACEPOINT_NONE leaves nothing, not even what is asked under the guard."""
    program = compile_(C["gcc"], "-O2", "-DJAB_TRACEPOINT_NONE", output=tmp_path / "program", strict=[])
    assert notes.jab(program) == [] and notes.stapsdt(program) == [] and notes.types(program) == {}


def test_collected_sections(tmp_path):
    """GNU ld keeps what a note points to; a linker that drops it leaves the address 0, which no reader may take for a site."""
    source = tmp_path / "gc.c"
    source.write_text('#include <jab/tracepoint.h>\nvoid unused(int x) { JAB_TRACEPOINT(gc, unused, ("x", x)); }\n'
                      'int main(void) { JAB_TRACEPOINT(gc, used); return 0; }\n')
    program = tmp_path / "gc"
    subprocess.run(["gcc", "-O2", "-ffunction-sections", "-Wl,--gc-sections", INCLUDE, str(source), "-o", str(program)], check=True, timeout=LIMIT)
    elf = notes.Elf(program)
    assert {n: elf.at(a, 5) for _, n, a, _ in notes.jab(program) if a}["used"] == NOP
