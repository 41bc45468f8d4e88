# SPDX-License-Identifier: MIT
"""The same question to jab and to gdb: both run the same program with the same arguments, without address
randomization, and say what some expressions are at each hit of a place. Whatever is deterministic
in the program must then be the same.

    Place("exe:step", "step", ["n", "it->mood", "s:string", ("jab's words", "gdb's words")])
    Place.line(path, "typed.c", 42, [...]), Place.at(path, "exe:inlined", [...])   the very instructions that jab chooses
"""
import json
import os
import re
import shlex
import subprocess

import jab
from targets import LIMIT

# Runs inside of gdb. A value becomes what jab's JSON has for it; None is what gdb can't tell.
ASKER = r'''
import gdb, json

CODE = "utf-8"

said = open(OUTPUT, "w")        # what gdb prints may go elsewhere

def text(v, limit=200):
    v = v.cast(v.type.strip_typedefs())
    t = v.type
    if t.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY):
        return v.string(CODE) if t.code == gdb.TYPE_CODE_PTR else bytes(int(v[i]) & 255 for i in range(t.range()[1] + 1)).split(b"\0")[0].decode(CODE)
    names = [f.name for f in t.fields()]
    for pointer, length in (("_M_str", "_M_len"), ("data_ptr", "length"), ("str", "len")):
        if pointer in names:
            return v[pointer].string(CODE, length=int(v[length]))
    if "_M_dataplus" in names:
        return v["_M_dataplus"]["_M_p"].string(CODE, length=int(v["_M_string_length"]))
    if "vec" in names:                      # alloc::string::String
        vec, n = v["vec"], int(v["vec"]["len"])
        p = vec["buf"]
        while p.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            p = p[[f for f in p.type.fields() if f.name in ("inner", "ptr", "pointer", "__0")][0]]
        return p.cast(gdb.lookup_type("u8").pointer()).string(CODE, length=n)
    return None

def plain(v, as_text):
    t = v.type.strip_typedefs()
    if t.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        v = v.referenced_value()
        t = v.type.strip_typedefs()
    if v.is_optimized_out:
        return None
    if t.code == gdb.TYPE_CODE_FLT:
        return float(v)
    if t.code == gdb.TYPE_CODE_PTR and not as_text:
        return "0x%x" % int(v)
    if t.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_PTR):
        return text(v)
    return int(v)

def inlined(expr):
    """At the first instruction of an inlined function gdb shows its caller: ask the block that is there."""
    name, _, member = expr.partition("->")
    frame = gdb.selected_frame()
    block = gdb.block_for_pc(frame.pc())
    while block:
        for symbol in block:
            if symbol.name == name:
                v = symbol.value(frame)
                return v[member] if member else v
        block = block.superblock
    raise RuntimeError("no " + name)

def ask(expr, as_text):
    try:
        return plain(gdb.parse_and_eval(expr), as_text)
    except (gdb.error, RuntimeError) as e:
        if "No symbol" not in str(e):
            return {"error": str(e)}
    try:
        return plain(inlined(expr), as_text)
    except (gdb.error, RuntimeError) as e:
        return {"error": str(e)}

class Place(gdb.Breakpoint):
    def __init__(self, number, where, expressions):
        super().__init__(where, internal=True)
        self.place, self.expressions = number, expressions

    def stop(self):
        said.write(json.dumps([self.place, [ask(*e) for e in self.expressions]]) + "\n")
        return False

for command in ("set pagination off", "set confirm off", "set print inferior-events off", "set debuginfod enabled off",
                "set breakpoint pending on", "set auto-load off", "handle SIGPIPE nostop", "handle SIGCHLD nostop noprint"):
    gdb.execute(command, to_string=True)
gdb.execute("starti " + ARGS + " > /dev/null < /dev/null", to_string=True)
maps = open("/proc/%d/maps" % gdb.selected_inferior().pid).read().splitlines()
if LATE:                            # its libraries are there then
    gdb.execute("tbreak main", to_string=True)
    gdb.execute("continue", to_string=True)
base = [int(l.split("-")[0], 16) for l in maps if l.endswith(PROGRAM)][0] - LOWEST
for i, (wheres, expressions) in enumerate(PLACES):
    for where in wheres:
        Place(i, "*%d" % (base + where) if isinstance(where, int) else where, expressions)
gdb.execute("continue", to_string=True)
said.close()
'''


class Place:
    def __init__(self, probe, where, expressions):
        self.probe, self.wheres, self.expressions = probe, [where] if isinstance(where, str) else where, expressions

    @classmethod
    def line(cls, path, name, number, expressions):
        return cls.at(path, f"exe:@{name}:{number}", expressions)

    @classmethod
    def at(cls, path, probe, expressions):
        """The addresses that jab takes."""
        r = jab.run("check", "--json", path, probe)
        assert r.status == 0, r
        return cls(probe, [int(o["address"], 16) for o in r.rows if "address" in o], expressions)

    def for_jab(self):
        return [e if isinstance(e, str) else e[0] for e in self.expressions]

    def for_gdb(self):
        asked = [e if isinstance(e, str) else e[1] for e in self.expressions]
        return [(e[:-7], True) if e.endswith(":string") else (e, False) for e in asked]


def line_of(source, words):
    """The number of the line that has these words behind "line:"."""
    for number, text in enumerate(source.read_text().splitlines(), 1):
        if re.search(rf"line: {words}\b", text):
            return number
    raise AssertionError(f"{source} has no line: {words}")


def lowest(path):
    out = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
    return min(int(m, 16) & ~0xfff for m in re.findall(r"^ +LOAD +\S+ +(0x\S+)", out, re.M))


def ask_gdb(command, places, tmp_path, env=None):
    """[[values of each hit] of each place]"""
    path = os.path.realpath(command[0])
    script, output = tmp_path / "ask.py", tmp_path / "said"
    late = any(p.probe.startswith("lib") for p in places)
    table = [(p.wheres, p.for_gdb()) for p in places]
    args = shlex.join(map(str, command[1:]))
    script.write_text(f"ARGS, OUTPUT, PROGRAM, LOWEST, LATE = {args!r}, {str(output)!r}, {path!r}, {lowest(path):#x}, {late}\nPLACES = {table!r}\n" + ASKER)
    r = subprocess.run(["gdb", "-nx", "-batch", "-x", str(script), path], capture_output=True,
                       text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, env=dict(env or os.environ, DEBUGINFOD_URLS=""))
    said = [[] for _ in places]
    for line in output.read_text().splitlines():
        number, values = json.loads(line)
        said[number].append(values)
    assert any(said), r.stdout[-3000:] + r.stderr[-3000:]
    return said


def ask_jab(command, place, env=None):
    probe = " ".join([place.probe] + [f"x{i}={e}" for i, e in enumerate(place.for_jab())])
    r = jab.run("trace", "--json", probe, "--", *command, wrap=["setarch", "-R"], env=env)
    assert r.status == 0, (probe, r)
    return [[jab.number(o["fields"][f"x{i}"]) for i in range(len(place.expressions))] for o in r.objects if "fields" in o]


def compare(command, places, tmp_path, env=None, most_unknown=0, restarts=False):
    """Everything that gdb can tell must be the same. Returns how many values were compared. restarts: a hit that is the same
    as the one before is the same call, which began again (Go does that after it has waited at a function's beginning)."""
    compared = unknown = 0
    wrong = []
    for place, theirs in zip(places, ask_gdb(command, places, tmp_path, env)):
        ours = ask_jab(command, place, env)
        if restarts:
            ours, theirs = ([h for i, h in enumerate(hits) if not i or h != hits[i - 1]] for hits in (ours, theirs))
        assert len(ours) == len(theirs) > 0, (place.probe, len(ours), len(theirs))
        for hit, (mine, other) in enumerate(zip(ours, theirs)):
            for expression, a, b in zip(place.for_jab(), mine, other):
                if isinstance(a, dict) and "fault" in a and isinstance(b, dict) and "Cannot access memory" in b["error"]:
                    compared += 1
                elif b is None or isinstance(b, dict):
                    unknown += 1
                    if unknown > most_unknown:
                        wrong.append(f"{place.probe} hit {hit}: {expression} is {a!r}, and gdb says {b!r}")
                else:
                    compared += 1
                    if a != b:
                        wrong.append(f"{place.probe} hit {hit}: {expression} is {a!r}, for gdb {b!r}")
    assert not wrong, "\n".join(wrong[:40])
    return compared
