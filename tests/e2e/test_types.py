# SPDX-License-Identifier: MIT
"""Types, variables and lines from debug info, against three judges: what the program prints of
itself (sizeof, offsetof, the bytes of its own parameters), what gdb finds in the registers and in
memory at the place that we name, and gdb's own answers."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import targets

ASK = Path(os.environ.get("TYPEASK", targets.ROOT / "build" / "tests" / "typeask"))
LIMIT = targets.LIMIT
SRC = Path(__file__).resolve().parent.parent / "prog"

pytestmark = pytest.mark.skipif(not ASK.exists(), reason="typeask is not built")


def ask(path, *questions, status=0):
    r = subprocess.run([str(ASK), str(path), *questions], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == status, r.stdout + r.stderr
    return r.stdout


def compile_(out, source, *command):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    subprocess.run([*command, "-o", str(out), str(source)], check=True, timeout=LIMIT * 3,
                   env=dict(os.environ, GOCACHE=str(targets.OUT / "go-cache"), GOFLAGS="-buildvcs=false"))
    return out


def gdb(*commands, path):
    args = [a for c in commands for a in ("-ex", c)]
    r = subprocess.run(["gdb", "-nx", "-batch", *args, str(path)], capture_output=True, text=True, timeout=LIMIT,
                       stdin=subprocess.DEVNULL, env=dict(os.environ, DEBUGINFOD_URLS=""))
    return r.stdout


C_BUILDS = {
    "gcc-O0": ["gcc", "-g", "-O0"],
    "gcc-O2": ["gcc", "-g", "-O2"],
    "gcc-O2-dwarf4": ["gcc", "-gdwarf-4", "-O2"],
    "gcc-types": ["gcc", "-gdwarf-4", "-fdebug-types-section", "-O1"],
    "gcc-gz": ["gcc", "-g", "-gz", "-O2"],
    "gcc-lto": ["gcc", "-g", "-O2", "-flto", "-fno-ipa-icf"],
    "clang-O0": ["clang", "-g", "-O0"],
    "clang-O2": ["clang", "-g", "-O2"],
    "clang-O2-dwarf4": ["clang", "-gdwarf-4", "-O2"],
}


# Where things are in memory ---------------------------------------------------------------------

@pytest.fixture(scope="module", params=C_BUILDS)
def layout(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("types") / "layout"
    return compile_(out, SRC / "types_layout.c", *C_BUILDS[request.param], "-std=gnu11")


def declared(text):
    """The name that a C declaration declares."""
    m = re.search(r"\(\*+(?:const )?(\w+)", text) or re.search(r"(\w+)(?:\[\d*\])*(?: : \d+)?$", text)
    return m[1]


def members(text):
    """name -> (byte offset, bit or None, size or width), of what type_layout() prints"""
    found = {}
    for line in text.splitlines():
        m = re.match(r"\s*(.*);  /\* (\d+)(?::(\d+))?(?:, (\d+) bytes)? \*/", line)
        if m:
            width = re.search(r" : (\d+)$", m[1])
            found[declared(m[1])] = (int(m[2]), int(m[3]) if width else None, int(width[1] if width else m[4]))
    return found


def test_layout(layout):
    """The program prints `type member offset size`, or `type member bit width` for bit-fields."""
    said = subprocess.run([str(layout)], capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    wanted = {}
    for line in said.splitlines():
        kind, name, *rest = line.split("|")
        wanted.setdefault(name, []).append((kind, rest))
    assert len(wanted) >= 10
    for name, rows in wanted.items():
        text = ask(layout, "type", name)
        has = members(text)
        for kind, rest in rows:
            if kind == "size":
                assert f"/* {rest[0]} bytes */" in text.splitlines()[-1], text
            elif kind == "member":
                assert has[rest[0]] == (int(rest[1]), None, int(rest[2])), (name, rest, text)
            elif kind == "bits":
                assert has[rest[0]][0] * 8 + has[rest[0]][1] == int(rest[1]), (name, rest, text)
                assert has[rest[0]][2] == int(rest[2]), (name, rest, text)
            elif kind == "value":
                assert f"    {rest[0]} = {rest[1]}," in text


def test_enumerators(layout):
    assert ask(layout, "enum", "GREEN").split() == ["enum", "colour", "7"]
    assert ask(layout, "enum", "NEGATIVE").split()[-1] == "-5"
    assert "no enum" in ask(layout, "enum", "MAUVE", status=1)


def test_spelling(layout):
    for name, wanted in {
        "unsigned long": "unsigned long;  /* 8 bytes */",
        "long unsigned int": "unsigned long;  /* 8 bytes */",
        "const char *": "char *;  /* 8 bytes */",
        "struct holder *[3]": "struct holder *[3];  /* 24 bytes */",
        "int [2][5]": "int [2][5];  /* 40 bytes */",
        "void *": "void *;  /* 8 bytes */",
        "long double": "long double;  /* 16 bytes */",
    }.items():
        assert ask(layout, "type", name).strip() == wanted
    assert "no type struct nowhere" in ask(layout, "type", "struct nowhere", status=1)


def test_declarations(layout):
    text = ask(layout, "type", "struct holder")
    for line in ["int (*compare)(const void *, const void *);", "int (*table[4])(int, ...);", "char names[3][8];",
                 "const char *const fixed;", "struct holder *next;", "double (*matrix)[4];"]:
        assert line in text, text


def test_ptype_agrees(layout):
    """Offsets and sizes as gdb counts them."""
    for name in ["struct holder", "struct packed", "struct fields"]:
        told = gdb(f"ptype/o {name}", path=layout)
        has = members(ask(layout, "type", name))
        rows = re.findall(r"^/\* +(\d+)(?:: *(\d+))? +\| +(\d+) +\*/ {4}(\w.*);$", told, re.M)
        assert len(rows) >= 4, told
        for off, bit, size, text in rows:
            width = re.search(r" : (\d+)$", text)
            member = declared(text)
            assert member in has, (told, has)
            assert has[member][0] * 8 + (has[member][1] or 0) == int(off) * 8 + int(bit or 0), (member, told)
            assert has[member][2] == int(width[1] if width else size), (member, told)


def test_globals(layout):
    """Addresses as the symbol table has them, statics of functions too."""
    nm = {}
    for line in subprocess.run(["nm", str(layout)], capture_output=True, text=True, check=True).stdout.splitlines():
        parts = line.split()
        if len(parts) == 3:
            for name in parts[2].split("."):      # inner_static.0, main.inner_static
                nm.setdefault(name, int(parts[0], 16))
    for name in ["global_holder", "static_number"]:
        m = re.search(r"@ \[(0x[0-9a-f]+)\]", ask(layout, "global", name))
        assert (int(m[1], 16) if m else None) == nm.get(name)     # LTO drops the one that is never set
    assert f"tls:{nm['per_thread']:#x}/" in ask(layout, "global", "per_thread").replace("tls:0/", "tls:0x0/")
    assert re.search(rf"\[{nm['inner_static']:#x}\]", ask(layout, "var", "main:inner_static"))
    assert "no global or static variable" in ask(layout, "global", "nothing_of_that_name", status=1)


# Parameters at entry, and return values ------------------------------------------------------------

READER = r'''
import gdb, re
REGS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()

def number(text):
    """An address as typeask prints it: [rsp+8], [load8((rsp + 8))]"""
    text = re.sub(r"load8\((.*)\)", lambda m: "(*(unsigned long *)(%s))" % m.group(1), text)
    text = re.sub(r"\b(%s)\b" % "|".join(REGS), r"$\1", text)
    return int(gdb.parse_and_eval("(unsigned long)(%s)" % text))

def piece(text):
    what, size = text.rsplit("/", 1)
    size = int(size)
    if what in REGS:
        v = int(gdb.parse_and_eval("(unsigned long)$" + what)) & (2 ** 64 - 1)
        return v.to_bytes(8, "little")[:size]
    if what.startswith("xmm"):
        reg, n = ("$ymm%s.v4_int64[%d]", 4) if size > 16 else ("$xmm%s.v2_int64[%d]", 2)
        words = [int(gdb.parse_and_eval(reg % (what[3:], i))) & (2 ** 64 - 1) for i in range(n)]
        return b"".join(w.to_bytes(8, "little") for w in words)[:size]
    if what.startswith("st"):
        raw = gdb.execute("info registers " + what, to_string=True)
        return int(re.search(r"raw (0x[0-9a-f]+)", raw).group(1), 16).to_bytes(10, "little")
    if what.startswith("="):
        return int(what[1:]).to_bytes(8, "little", signed=True)[:size] if "(" not in what else b""
    if what.startswith("bytes:"):
        return bytes.fromhex(what[6:])
    if what.startswith("["):
        return bytes(gdb.selected_inferior().read_memory(number(what[1:-1]), size))
    return b""

def place(text):
    return b"".join(piece(p) for p in text).hex()

gdb.execute("set pagination off")
gdb.execute("set language c")
gdb.execute("set confirm off")
gdb.execute("set print inferior-events off")
gdb.execute("set debuginfod enabled off")
gdb.execute("starti > " + OUTPUT, to_string=True)
# where it lies: the first mapping of the file is its lowest segment
maps = open("/proc/%d/maps" % gdb.selected_inferior().pid).read().splitlines()
bias = [int(l.split("-")[0], 16) for l in maps if l.endswith(PROGRAM)][0] - LOWEST
names = {}
for name, (entry, params, ret) in PLACES.items():
    names[entry + bias] = name
    gdb.execute("break *%d" % (entry + bias), to_string=True)
gdb.execute("continue", to_string=True)
while gdb.selected_inferior().pid:
    pc = int(gdb.parse_and_eval("(unsigned long)$pc"))
    name = names.get(pc)
    if name:
        entry, params, ret = PLACES[name]
        for i, p in enumerate(params):
            if p is None:
                print("GOT %s %d -" % (name, i))
                continue
            print("GOT %s %d %s" % (name, i, place(p)))
        if ret:
            back = int(gdb.parse_and_eval("*(unsigned long *)$rsp"))
            sp = int(gdb.parse_and_eval("(unsigned long)$rsp"))
            gdb.Breakpoint("*%d" % back, temporary=True, internal=True)
            gdb.execute("continue", to_string=True)
            # as at the ret instruction, where the return address is still on the stack
            gdb.execute("set $rsp = $rsp - 8")
            print("GOT %s return %s" % (name, place(ret)))
            gdb.execute("set $rsp = $rsp + 8")
    try:
        gdb.execute("continue", to_string=True)
    except gdb.error:
        break
'''


def places(path, name):
    """What types_func() says of a function: entry, [pieces of each parameter], [pieces of the result]"""
    params, ret = [], []
    first, *lines = ask(path, "func", name).splitlines()
    for line in lines:
        m = re.match(r"(param|return) .*? @(.*?)(?: abi)?(?: disputed)?( unsure)?(?: artificial)?( because .*)?$", line)
        if m:
            pieces = re.findall(r"\[[^\]]*\]/\d+|[^ ]+/\d+", m[2])
            if m[3] or m[4]:
                pieces = None       # not known, and said so
            if m[1] == "param":
                params.append(pieces)
            else:
                ret = pieces
    return int(first.split()[0], 16), params, ret


def said(text):
    """The program prints `function|parameter|bytes` from inside: name -> {index or "return": hex}"""
    wanted = {}
    for line in text.splitlines():
        if line.count("|") == 2:
            name, which, value = line.split("|")
            wanted.setdefault(name, {})[which] = value
    assert len(wanted) > 5
    return wanted


def lowest(path):
    out = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
    return min(int(m, 16) & ~0xfff for m in re.findall(r"^ +LOAD +\S+ +(0x\S+)", out, re.M))


def compare(path, tmp_path, at_least=20):
    """Runs the program under gdb and reads what our places hold; the program says what it got."""
    table = {name: places(path, name) for name in said(subprocess.run([str(path)], capture_output=True, text=True,
                                                                      check=True, timeout=LIMIT).stdout)}
    script, output = tmp_path / "read.py", tmp_path / "output"
    script.write_text(f"PLACES = {table!r}\nOUTPUT = {str(output)!r}\n"
                      f"PROGRAM = {str(path)!r}\nLOWEST = {lowest(path):#x}\n" + READER)
    r = subprocess.run(["gdb", "-nx", "-batch", "-x", str(script), str(path)], capture_output=True, text=True,
                       timeout=LIMIT, stdin=subprocess.DEVNULL)
    got = {}
    for line in r.stdout.splitlines():
        m = re.match(r"GOT (.*) (\d+|return) ([0-9a-f]*|-)$", line)
        if m:
            got.setdefault(m[1], {})[m[2]] = m[3]
    bad, known = [], 0
    for name, values in said(output.read_text()).items():
        for which, value in values.items():
            has = got.get(name, {}).get(which)
            if has == "-" or (which == "return" and table[name][2] is None):
                continue
            known += 1
            if has is None or has[:len(value)] != value:
                bad.append((name, which, value, has, table[name]))
    assert not bad, "\n".join(map(str, bad)) + r.stderr[-2000:]
    assert known >= at_least


ABI_BUILDS = {k: v for k, v in C_BUILDS.items() if k in ("gcc-O0", "gcc-O2", "clang-O0", "clang-O2")}


@pytest.mark.parametrize("build", ABI_BUILDS)
def test_entry_c(build, tmp_path):
    path = compile_(tmp_path / "abi", SRC / "types_abi.c", *ABI_BUILDS[build], "-std=gnu11", "-mavx")
    compare(path, tmp_path)


@pytest.mark.parametrize("build", ["g++ -O0", "g++ -O2", "clang++ -O0", "clang++ -O2"])
def test_entry_cxx(build, tmp_path):
    path = compile_(tmp_path / "abi", SRC / "types_abi.cc", *build.split(), "-g", "-std=c++17")
    compare(path, tmp_path)


@pytest.mark.parametrize("rustc", sorted({shutil.which("rustc") or "rustc", "/usr/bin/rustc"}))
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("level", [0, 2])
def test_entry_rust(rustc, direct, level, tmp_path):
    """direct: the compiler sees all calls and may leave out parameters; what is then said must be
    right or be called unknown."""
    path = compile_(tmp_path / "types_abi", SRC / "types_abi.rs", rustc, "-g", "--edition", "2021", "-C", f"opt-level={level}",
                    *(["--cfg", "direct"] if direct else []))
    compare(path, tmp_path, at_least=5 if level else 20)


@pytest.mark.parametrize("flags", [["-gcflags=-N -l"], []])
def test_entry_go(flags, tmp_path):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    path = tmp_path / "abi"
    subprocess.run(["go", "build", *flags, "-o", str(path), str(SRC / "types_abi.go")], check=True, timeout=LIMIT * 3,
                   env=dict(os.environ, GOCACHE=str(targets.OUT / "go-cache"), GOFLAGS="-buildvcs=false"))
    compare(path, tmp_path)


# Variables inside of functions ----------------------------------------------------------------------

WATCHER = r'''
gdb.execute("starti > /dev/null", to_string=True)
maps = open("/proc/%d/maps" % gdb.selected_inferior().pid).read().splitlines()
bias = [int(l.split("-")[0], 16) for l in maps if l.endswith(PROGRAM)][0] - LOWEST
for pc in PLACES:
    gdb.execute("break *%d" % (pc + bias), to_string=True)
gdb.execute("continue", to_string=True)
seen = {}
while gdb.selected_inferior().pid:
    pc = int(gdb.parse_and_eval("(unsigned long)$pc")) - bias
    seen[pc] = seen.get(pc, 0) + 1
    for name, pieces in PLACES.get(pc, {}).items() if seen[pc] < 4 else ():
        try:
            symbol = gdb.lookup_symbol(name)[0]
            v = symbol.value(gdb.selected_frame()) if symbol.needs_frame else symbol.value()
            if v.is_optimized_out:
                text = "gone"
            else:
                n = v.type.sizeof
                if v.type.strip_typedefs().code == gdb.TYPE_CODE_FLT:
                    import struct
                    text = struct.pack("<f" if n == 4 else "<d", float(v)).hex()
                else:
                    text = (int(v) & (2 ** (8 * n) - 1)).to_bytes(n, "little").hex()
        except gdb.error as e:
            text = "gone"
        try:
            ours = place(pieces) if pieces else "gone"
        except gdb.MemoryError:
            ours = "fault"
        print("SAW %x %s %s %s" % (pc, name, ours, text))
    try:
        gdb.execute("continue", to_string=True)
    except gdb.error:
        break
'''


def vars_at(path, pc):
    """The innermost variable of each name, as pieces; None where it is gone."""
    found = {}
    for line in ask(path, "vars", hex(pc)).splitlines():
        m = re.match(r"\d+ (param|local|static) (.*?) @ (.*?)(?: abi)?(?: disputed)?(?: unsure)?(?: artificial)?( because .*)?$", line)
        name = declared(m[2])
        if name not in found and "struct item " not in m[2].replace("struct item *", ""):
            found[name] = None if m[4] else re.findall(r"\[.*?\]/\d+|=.*?/\d+|[^ ]+/\d+", m[3])
    return found


@pytest.mark.parametrize("build", ["gcc-O0", "gcc-O2", "gcc-O2-dwarf4", "clang-O0", "clang-O2"])
def test_locals(build, tmp_path):
    """At the first instruction of every line of two functions: the values that gdb has."""
    path = compile_(tmp_path / "vars", SRC / "types_vars.c", *C_BUILDS[build], "-std=gnu11")
    pcs = set()
    for line in range(12, 62):
        for row in ask(path, "line", f"types_vars.c:{line}").splitlines():
            pcs.add(int(row.split()[0], 16))
    table = {pc: vars_at(path, pc) for pc in sorted(pcs)}
    script = tmp_path / "watch.py"
    reader = READER[:READER.index('gdb.execute("starti')]
    script.write_text(f"PLACES = {table!r}\nPROGRAM = {str(path)!r}\nLOWEST = {lowest(path):#x}\n" + reader + WATCHER)
    r = subprocess.run(["gdb", "-nx", "-batch", "-x", str(script), str(path)], capture_output=True, text=True,
                       timeout=LIMIT, stdin=subprocess.DEVNULL)
    rows = re.findall(r"^SAW (\S+) (\S+) (\S+) (\S+)$", r.stdout, re.M)
    known = [row for row in rows if row[2] != "gone" and row[3] != "gone"]
    # what only gdb knows comes from the caller's debug info, or is not there before the prologue
    wrong = [row for row in known if row[2] != row[3]]
    assert len(known) > 30, r.stdout[-2000:] + r.stderr[-2000:]
    if build.endswith("O0"):
        # before the prologue gdb believes the debug info, and is wrong
        entries = {int(ask(path, "func", f).split()[0], 16) for f in ("work", "push")}
        wrong = [row for row in wrong if int(row[0], 16) not in entries]
    assert not wrong, [(row, table[int(row[0], 16)][row[1]]) for row in wrong][:10]


@pytest.mark.parametrize("build", ["gcc-O2", "gcc-lto", "clang-O2"])
def test_inlined(build, tmp_path):
    """As many copies as gdb finds, inside of the right function, with their parameters."""
    path = compile_(tmp_path / "vars", SRC / "types_vars.c", *C_BUILDS[build], "-std=gnu11")
    first, *sites = ask(path, "inlined", "scaled").splitlines()
    told = gdb("break scaled", "info breakpoints", path=path)
    lines = {line for line in re.findall(r"types_vars.c:(\d+)", told)}
    assert lines and int(first.split()[0]) == len(sites) >= 2
    for site in sites:
        entry, name, _, caller, _, where = site.split()
        assert name == "scaled" and re.search(r"types_vars.c:(55|59)$", where)
        assert ask(path, "at", caller).split()[-1] in ("work", "main")
        names = [declared(row.split(" @ ")[0]) for row in ask(path, "vars", entry).splitlines()]
        assert names.index("base") < names.index("count") if "count" in names else "base" in names
        frames = ask(path, "frames", entry).splitlines()
        assert frames[0].split()[-1] == "scaled" and frames[-1].split()[-1] in ("work", "main"), frames


THIS = """python
for i in gdb.selected_inferior().architecture().disassemble(int(gdb.parse_and_eval("(long)&main")), gdb.block_for_pc(int(gdb.parse_and_eval("(long)&main"))).end - 1):
    block = gdb.block_for_pc(i["addr"])
    while block and not block.is_static:
        this = [s for s in block if s.name == "this"]
        if this:
            print("at", hex(i["addr"]), this[0].type)
            break
        block = block.superblock
"""


def test_copies_begin(tmp_path):
    """Where a copied function begins before its first own instruction, a name means what it means in the function around it."""
    path = compile_(tmp_path / "typed", SRC / "typed.cc", "g++", "-g", "-O2", "-std=gnu++17")
    (tmp_path / "ask.gdb").write_text(THIS + "end\n")
    told = dict(re.findall(r"^at (0x[0-9a-f]+) (?:const )?([\w:]+)", gdb(f"source {tmp_path / 'ask.gdb'}", path=path), re.M))
    assert len(told) > 50 and len(set(told.values())) > 2
    ours = ask(path, *[w for a in told for w in ("var", a + ":this")]).splitlines()
    wrong = [(a, kind, row) for (a, kind), row in zip(told.items(), ours) if not re.match(rf"(const )?{kind}\b", row)]
    assert len(ours) == len(told) and not wrong, (len(wrong), wrong[:5])


def test_lines_agree(layout):
    """Each address that gdb gives a line of main has that line here."""
    told = gdb("maint info line-table types_layout.c", path=layout)
    rows = [m for m in re.findall(r"^\d+ +(\d+|END) +(0x[0-9a-f]+)(?: +0x[0-9a-f]+)? +(Y?)", told, re.M)]
    checked = 0
    last = {}
    for number, addr, stmt in rows:
        last[int(addr, 16)] = number
    for addr, number in last.items():
        if number not in ("END", "0"):
            has = re.search(r":(\d+)", ask(layout, "at", hex(addr)))
            assert has and has[1] == number, (hex(addr), number)
            checked += 1
        if checked > 25:
            break
    assert checked > 10


# Where debug info is kept -----------------------------------------------------------------------------

def test_separate_files(tmp_path):
    plain = compile_(tmp_path / "plain", SRC / "types_layout.c", "gcc", "-g", "-O1")
    whole = ask(plain, "type", "struct holder")
    linked = tmp_path / "linked"
    for command in (["objcopy", "--only-keep-debug", "plain", "plain.debug"],
                    ["objcopy", "--strip-debug", "--add-gnu-debuglink=plain.debug", "plain", "linked"]):
        subprocess.run(command, check=True, cwd=tmp_path)
    assert ask(linked, "type", "struct holder") == whole      # although it has names of its own
    assert ask(linked, "func", "main") == ask(plain, "func", "main")
    (tmp_path / "plain.debug").unlink()
    assert "has no debug info; compile it with -g" in ask(linked, "type", "struct holder", status=1)


def test_common_parts(tmp_path):
    """What dwz moved to another file is found there, and by its build id only."""
    if not shutil.which("dwz"):
        pytest.skip("dwz is not installed")
    for name, level in (("one", "-O1"), ("two", "-O0")):
        compile_(tmp_path / name, SRC / "types_layout.c", "gcc", "-g", level)
    whole = ask(tmp_path / "one", "type", "struct holder", "func", "main")
    subprocess.run(["dwz", "-m", "common", "one", "two"], check=True, cwd=tmp_path)
    assert ask(tmp_path / "one", "type", "struct holder", "func", "main") == whole
    (tmp_path / "common").write_bytes((tmp_path / "two").read_bytes())
    assert "no type struct holder" in ask(tmp_path / "one", "type", "struct holder", status=1)


def test_split(tmp_path):
    for flags in (["-g", "-gsplit-dwarf"], ["-gdwarf-4", "-gsplit-dwarf"]):
        path = compile_(tmp_path / "split", SRC / "types_layout.c", "gcc", *flags)
        assert "in .dwo files, which jab does not read" in ask(path, "type", "struct holder", status=1)


def test_libc():
    """Debian's libc6-dbg, against gdb."""
    libc = Path("/lib/x86_64-linux-gnu/libc.so.6")
    text = subprocess.run([str(ASK), str(libc), "type", "struct malloc_state"], capture_output=True, text=True,
                          timeout=LIMIT).stdout
    if "has no debug info" in text:
        pytest.skip("libc6-dbg is not installed")
    has = members(text)
    rows = re.findall(r"^/\* +(\d+) +\| +(\d+) +\*/ {4}(\w.*);$", gdb("ptype/o struct malloc_state", path=libc), re.M)
    assert len(rows) > 8
    for off, size, decl in rows:
        assert has[declared(decl)] == (int(off), None, int(size))
    assert "param size_t bytes @ rdi/8 abi" in ask(libc, "func", "malloc")
    assert re.search(r"static struct malloc_state main_arena @ \[0x[0-9a-f]+\]/2200", ask(libc, "global", "main_arena"))


def test_every_parameter():
    """In optimised code most parameters have a location list for the first instruction: the calling
    convention must say the same of every function that strangers can call."""
    for path in ("/lib/x86_64-linux-gnu/libc.so.6", targets.ROOT / "build" / "jab"):
        r = subprocess.run([str(ASK), str(path), "all", "4000"], capture_output=True, text=True, timeout=LIMIT,
                           env=dict(os.environ, TYPEASK_VERBOSE="1"))
        if "has no debug info" not in r.stdout:
            rows = [line for line in r.stdout.splitlines() if " disputed" in line and " @ " in line]
            assert not rows
            assert re.search(r"(\d+) known", r.stdout) and int(re.search(r"(\d+) known", r.stdout)[1]) > 500


# Strings that know their length -----------------------------------------------------------------------

def test_strings_cxx(tmp_path):
    for cxx in ("g++", "clang++"):
        path = compile_(tmp_path / "abi", SRC / "types_abi.cc", cxx, "-g", "-std=c++17")
        text = ask(path, "func", "strings")
        kinds = re.findall(r"^param (?:const )?(.*?) &?\w+ @", text, re.M)
        assert ask(path, "string", kinds[0]) == "string ptr 0 len 8/8\n", kinds
        assert ask(path, "string", kinds[1]) == "string ptr 8 len 0/8\n", kinds
        assert ask(path, "string", "geo::Point") == "no string\n"
        assert ask(path, "string", "Shape") == "no string\n"


def test_strings_rust(tmp_path):
    path = compile_(tmp_path / "types_abi", SRC / "types_abi.rs", "rustc", "-g", "--edition", "2021")
    assert ask(path, "string", "&str") == "string ptr 0 len 8/8\n"
    ptr, length = re.match(r"string ptr (\d+) len (\d+)/8$", ask(path, "string", "alloc::string::String")).groups()
    assert ptr != length and int(ptr) < 24 and int(length) < 24
    assert ask(path, "string", "types_abi::Pair") == "no string\n"


def test_strings_go(tmp_path):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    path = tmp_path / "abi"
    subprocess.run(["go", "build", "-o", str(path), str(SRC / "types_abi.go")], check=True, timeout=LIMIT * 3,
                   env=dict(os.environ, GOCACHE=str(targets.OUT / "go-cache"), GOFLAGS="-buildvcs=false"))
    assert ask(path, "string", "string") == "string ptr 0 len 8/8\n"
    assert members(ask(path, "type", "main.mixed")) == {"f": (0, None, 8), "n": (8, None, 1), "p": (16, None, 8)}
