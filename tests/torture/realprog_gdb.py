# SPDX-License-Identifier: MIT
"""Runs inside of gdb, for realprog.py: `choose` picks places and expressions by chance from the debug info alone,
`ask` runs the program and says what they are there. $REALPROG names a file with what to do.

An expression is a list of steps, which gdb walks by itself, so that none of the two debuggers reads the other's words:
["var", name] ["global", name] ["ret"] ["sizeof", type] ["const", name, enum], then ["field", name, "." or "->"], ["index", n], ["deref"].
"""
import contextlib
import json
import os
import random

import gdb

ORDER = json.load(open(os.environ["REALPROG"]))
SCALARS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_FLT)
OBJECTS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
REFS = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)


def bare(t):
    return t.strip_typedefs().unqualified().strip_typedefs()


def behind(t):
    t = bare(t)
    return bare(t.target()) if t.code in REFS else t


def is_char(t):
    t = bare(t)
    return t.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR) and t.sizeof == 1


def members(t):
    """[(name, type)], through anonymous ones and bases, each name once: the outermost wins."""
    found = {}
    for f in t.fields():
        if not hasattr(f, "bitpos") or f.artificial:
            continue
        if not f.name or f.is_base_class:
            for name, kind in members(bare(f.type)):
                found.setdefault(name, kind)
        else:
            found[f.name] = f.type
    return sorted(found.items(), key=lambda x: x[0])


# Choosing --------------------------------------------------------------------------------------------

class Chooser:
    def __init__(self, seed):
        self.dice = random.Random(seed)

    def grow(self, steps, t, depth=0, sign="."):
        """A random walk from a value of type t to a number, pointer or text: (steps, as text), or None."""
        t = behind(t)
        if t.code in SCALARS:
            return steps, False
        if t.code in OBJECTS:
            inside = [m for m in members(t) if m[0].isidentifier()]
            if not inside or depth > 5:
                return None
            name, kind = self.dice.choice(inside)
            return self.grow(steps + [["field", name, sign]], kind, depth + 1)
        if t.code == gdb.TYPE_CODE_ARRAY:
            if "vector_size" in str(t):
                return None
            if is_char(t.target()) and self.dice.random() < .6 and t.range()[1] >= 0:
                return steps, True
            high = t.range()[1]
            n = self.dice.randint(0, min(high, 300)) if high >= 0 else self.dice.randint(0, 2)
            return self.grow(steps + [["index", n]], t.target(), depth + 1)
        if t.code != gdb.TYPE_CODE_PTR:
            return None
        to = bare(t.target())
        if depth > 4 or self.dice.random() < .2 or to.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD):
            return steps, False
        if is_char(to):
            return (steps, True) if self.dice.random() < .8 else self.grow(steps + [["index", self.dice.randint(0, 3)]], to, depth + 1)
        if to.code in OBJECTS:
            grown = self.grow(steps, to, depth + 1, "->") if members(to) else None
            return grown or (steps, False)
        step = ["deref"] if self.dice.random() < .3 else ["index", self.dice.randint(0, 1)]
        return self.grow(steps + [step], to, depth + 1) or (steps, False)

    def some(self, roots, n):
        chosen = []
        for _ in range(n * 3):
            if not roots or len(chosen) >= n:
                break
            step, t = self.dice.choice(roots)
            grown = self.grow([step], t)
            if grown and list(grown) not in chosen:
                chosen.append(list(grown))
        return chosen

    def constants(self, roots):
        """The size of a named type, the value of an enumerator: of types that are in use here."""
        found = []
        for _, t in roots:
            t = bare(t)
            while t.code == gdb.TYPE_CODE_PTR:
                t = bare(t.target())
            if t.code in OBJECTS and t.tag and t.tag.isidentifier() and t.sizeof > 1:
                found.append([[["sizeof", ("union " if t.code == gdb.TYPE_CODE_UNION else "struct ") + t.tag, t.sizeof]], False])
            if t.code == gdb.TYPE_CODE_ENUM and t.fields():
                f = self.dice.choice(t.fields())
                if f.name.isidentifier():
                    found.append([[["const", f.name, f.enumval]], False])
        return found[:2]


def scopes(pc, entry=None):
    """The variables at an address, [(step, type)], innermost of a name only; then those of the unit. At a function's entry
    nobody has set its locals."""
    block = gdb.block_for_pc(pc)
    local, seen, inlined = [], set(), []
    while block and not block.is_global and not block.is_static:
        for s in block:
            if (s.is_variable or s.is_argument) and s.name not in seen and s.name.isidentifier():
                seen.add(s.name)
                if s.is_argument or pc != entry:
                    local.append((["var", s.name], s.type))
        if block.function:
            inlined.append(block.function.name)
        block = block.superblock
    outer = []
    if block:
        for s in list(block.static_block) + (list(block.global_block)):
            if s.is_variable and s.name not in seen and s.name.isidentifier():
                seen.add(s.name)
                outer.append((["global", s.name], s.type))
    return local, outer, inlined


def code_of(pc):
    """The addresses of a function's instructions."""
    block = gdb.block_for_pc(pc)
    while block and not (block.function and not block.superblock.function) and not block.superblock.is_static:
        block = block.superblock
    if not block or not block.function or block.end - block.start > 20000:
        return []
    arch = gdb.selected_inferior().architecture() if hasattr(gdb.selected_inferior(), "architecture") else None
    return [i["addr"] for i in arch.disassemble(pc, block.end - 1)]


def spec(name, entry, kind, dice):
    """What to write for a place of that kind in this function; None where it has none."""
    code = code_of(entry) if kind not in ("entry", "exit") else [entry]
    if not code:
        return None
    pc = dice.choice(code)
    if kind == "offset":
        return "exe:%s+%#x" % (name, pc - entry)
    if kind == "address":
        return "exe:%#x" % pc
    if kind == "line":
        sal = gdb.find_pc_line(pc)
        return "exe:@%s:%d" % ("/".join(sal.symtab.filename.split("/")[-2:]), sal.line) if sal.symtab and sal.line else None
    if kind == "inlined":
        names = next((n for n in (scopes(dice.choice(code))[2] for _ in range(30)) if len(n) > 1), [])
        return "exe:" + names[0] if len(names) > 1 and names[0].isidentifier() else None
    return "exe:" + name + ("%return" if kind == "exit" else "")


def choose():
    """For each function a place of the kind that is wanted."""
    places = []
    for name, entry, kind, seed in ORDER["wanted"]:
        block = gdb.block_for_pc(entry)
        probe = spec(name, entry, kind, random.Random(seed)) if block and block.function else None
        if probe:
            places.append({"kind": kind, "function": name, "entry": entry, "probe": probe, "seed": seed})
    return places


def questions():
    """What to ask for at the first address of each place."""
    for p in ORDER["places"]:
        c = Chooser(p["seed"])
        local, outer, _ = scopes(p["addresses"][0], p["entry"])
        if p["kind"] == "exit":
            t = gdb.block_for_pc(p["entry"]).function.type.target()
            local = [(["ret"], t)] * 6 if t and t.code != gdb.TYPE_CODE_VOID else []
        p["asked"] = c.some(local, ORDER["each"]) + c.some(outer, 2) + c.constants(local + outer[:5])
    return [p for p in ORDER["places"] if p["asked"]]


# Asking ----------------------------------------------------------------------------------------------

def text(v):
    t = behind(v.type)
    if t.code == gdb.TYPE_CODE_ARRAY:
        raw = bytes(int(v[i]) & 255 for i in range(min(t.range()[1] + 1, 200)))
    else:
        at = int(v)
        raw = b""
        while len(raw) < 200 and b"\0" not in raw:
            # up to the end of the page, beyond which there may be nothing
            raw += gdb.selected_inferior().read_memory(at + len(raw), min(200 - len(raw), 4096 - (at + len(raw)) % 4096)).tobytes()
    return {"text": raw.split(b"\0")[0].decode("latin1")}


def plain(v, as_text):
    t = bare(v.type)
    if t.code in REFS:
        v = v.referenced_value()
        t = bare(v.type)
    if v.is_optimized_out:
        return {"gone": 1}
    if as_text:
        return text(v)
    if t.code == gdb.TYPE_CODE_FLT:
        if t.sizeof > 8:
            return {"odd": "long double"}
        return float(v)
    if t.code == gdb.TYPE_CODE_PTR:
        return "0x%x" % (int(v) & (1 << 64) - 1)
    return int(v)


def returned(block):
    while not block.function or block.superblock.function:
        block = block.superblock
    t = bare(block.function.type.target())
    if t.code == gdb.TYPE_CODE_FLT and t.sizeof <= 8:
        return gdb.parse_and_eval("$xmm0.v2_double[0]" if t.sizeof == 8 else "$xmm0.v4_float[0]")
    if t.code in OBJECTS and t.sizeof > 16:
        return gdb.parse_and_eval("$rax").cast(t.pointer()).dereference()
    if t.code in SCALARS + (gdb.TYPE_CODE_PTR,) + REFS:
        rax = gdb.parse_and_eval("$rax")
        if t.code in REFS:
            return rax.cast(t.target().pointer()).dereference()
        return (rax & 1).cast(t) if t.code == gdb.TYPE_CODE_BOOL else rax.cast(t)
    raise RuntimeError("odd type of return value")


def root(step, frame):
    if step[0] in ("sizeof", "const"):
        return gdb.Value(step[2])
    block = gdb.block_for_pc(frame.pc())
    if step[0] == "ret":
        return returned(block)
    while block:
        for s in block:
            if s.name == step[1] and (s.is_variable or s.is_argument):
                return s.value(frame)
        block = block.superblock
    raise RuntimeError("no " + step[1])


def member(v, name):
    """Through anonymous members and bases, as members() has found it."""
    inner = []
    for f in v.type.strip_typedefs().fields():      # with its qualifiers: gdb compares them
        if not hasattr(f, "bitpos"):
            continue
        if f.name == name and not f.is_base_class:
            return v[f]
        if not f.name or f.is_base_class:
            inner.append(f)
    for f in inner:
        if name in dict(members(bare(f.type))):
            return member(v[f], name)
    raise RuntimeError("no member " + name)


def walk(steps, frame):
    v = root(steps[0], frame)
    for step in steps[1:]:
        if bare(v.type).code in REFS:
            v = v.referenced_value()
        if step[0] == "deref":
            v = v.dereference()
        elif step[0] == "index":
            v = v[step[1]]
        else:
            if bare(v.type).code == gdb.TYPE_CODE_PTR:
                v = v.dereference()
            v = member(v, step[1])
    return v


def answer(steps, as_text, frame):
    try:
        return plain(walk(steps, frame), as_text)
    except (gdb.error, RuntimeError, ValueError, OverflowError, TypeError) as e:
        words = str(e)
        if "optimized out" in words or "not available" in words or "entry value" in words:
            return {"gone": words}
        return {"fault": words} if "access memory" in words else {"error": words}


def soil(size):
    """Writes rubbish behind the stack's end, as a tracer or a signal may: what nobody has set yet is not worth comparing."""
    if ORDER["soil"]:
        sp = int(gdb.parse_and_eval("$rsp")) - 128 - size
        with contextlib.suppress(gdb.error):
            gdb.selected_inferior().write_memory(sp, bytes([ORDER["soil"]]) * size)


class Place(gdb.Breakpoint):

    def __init__(self, number, address, asked, count):
        super().__init__("*%d" % address, internal=True)
        self.place, self.asked, self.count = number, asked, count

    def stop(self):
        if self.count[0] > 0:
            self.count[0] -= 1
            frame = gdb.newest_frame()
            code = gdb.selected_inferior().read_memory(frame.pc(), 2).tobytes().hex()
            OUT.write(json.dumps([self.place, frame.pc() - BASE, code, [answer(*q, frame) for q in self.asked]]) + "\n")
        self.count[1] -= 1
        soil(3000)
        return self.count[1] <= 0


def ask():
    global BASE, OUT
    OUT = open(ORDER["output"], "w")
    gdb.execute("unset environment LINES")
    gdb.execute("unset environment COLUMNS")
    gdb.execute("set startup-with-shell off")
    gdb.execute("starti " + " ".join(ORDER["args"]), to_string=True)
    maps = open("/proc/%d/maps" % gdb.selected_inferior().pid).read().splitlines()
    BASE = [int(l.split("-")[0], 16) for l in maps if l.endswith(ORDER["program"])][0] - ORDER["lowest"]
    soil(60000)
    placed = []
    for i, p in enumerate(ORDER["places"]):
        count = [ORDER["hits"], ORDER["hits"] if not ORDER["soil"] else 300]
        placed += [Place(i, BASE + a, p["asked"], count) for a in p["addresses"]]
    while gdb.selected_inferior().pid:
        gdb.execute("continue", to_string=True)
        for b in [b for b in placed if b.count[1] <= 0]:
            b.delete()
            placed.remove(b)
    OUT.close()


for command in ("set pagination off", "set confirm off", "set print inferior-events off", "set debuginfod enabled off",
                "set auto-load off", "handle SIGPIPE nostop noprint", "handle SIGCHLD nostop noprint",
                "handle SIGALRM nostop noprint", "handle SIGUSR1 nostop noprint"):
    gdb.execute(command, to_string=True)
if ORDER["what"] == "ask":
    ask()
else:
    with open(ORDER["output"], "w") as f:
        json.dump(choose() if ORDER["what"] == "choose" else questions(), f)
