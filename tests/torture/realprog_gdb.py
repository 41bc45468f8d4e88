# SPDX-License-Identifier: MIT
"""Runs inside of gdb, for realprog.py: `choose` picks places and `questions` expressions by chance from the debug info
alone, `watch` says what they are in a process that jab has probed. $REALPROG names a file with what to do.

An expression is a list of steps, which gdb walks by itself, so that none of the two debuggers reads the other's words:
["var", name] ["global", name] ["ret"] ["sizeof", type] ["const", name, enum], then ["field", name, "." or "->"], ["index", n], ["deref"].
Its mode says what becomes of the value: "" a number, "string" the text that it points to, "object" the text that a string of
C++ or Rust holds, "whole" all the members of a struct, each with a name.
"""
import json
import os
import random

import gdb

TRAIL, OURS = [], []        # addresses of what is asked for; jab's mappings
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


def holds_text(t):
    """std::string and its view, Rust's &str and String."""
    names = [f.name for f in t.fields()]
    if str(t.name or "").startswith(("std::__cxx11::basic_string<char,", "std::basic_string_view<char,")):
        return "_M_str" in names or "_M_dataplus" in names
    return t.name in ("&str", "alloc::string::String")


# Choosing --------------------------------------------------------------------------------------------

class Chooser:
    def __init__(self, seed):
        self.dice = random.Random(seed)

    def grow(self, steps, t, depth=0, sign="."):
        """A random walk from a value of type t to a number, pointer or text: (steps, mode), or None."""
        t = behind(t)
        if t.code in SCALARS:
            return steps, ""
        if t.code in OBJECTS and sign == "." and steps[0][0] != "ret":
            if holds_text(t) and self.dice.random() < .7:
                return steps, "object"
            if self.dice.random() < .15:
                return steps, "whole"
        if t.code in OBJECTS:
            inside = [m for m in members(t) if m[0].isidentifier()]
            if not inside or depth > 5:
                return None
            name, kind = self.dice.choice(inside)
            return self.grow(steps + [["field", name, sign]], kind, depth + 1)
        if t.code == gdb.TYPE_CODE_ARRAY:
            if "vector_size" in str(t):
                return None
            if is_char(t.target()) and self.dice.random() < .6 and 0 < t.range()[1] < 4000:      # the bound of [] is 0 or -1
                return steps, "string"
            high = t.range()[1]
            n = self.dice.randint(0, min(high, 300)) if high >= 0 else self.dice.randint(0, 2)
            return self.grow(steps + [["index", n]], t.target(), depth + 1)
        if t.code != gdb.TYPE_CODE_PTR:
            return None
        to = bare(t.target())
        if depth > 4 or self.dice.random() < .2 or to.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD):
            return steps, ""
        if is_char(to):
            return (steps, "string") if self.dice.random() < .8 else self.grow(steps + [["index", self.dice.randint(0, 3)]], to, depth + 1)
        if to.code in OBJECTS:
            grown = self.grow(steps, to, depth + 1, "->") if members(to) else None
            return grown or (steps, "")
        step = ["deref"] if self.dice.random() < .3 else ["index", self.dice.randint(0, 1)]
        return self.grow(steps + [step], to, depth + 1) or (steps, "")

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
                found.append([[["sizeof", ("union " if t.code == gdb.TYPE_CODE_UNION else "struct ") + t.tag, t.sizeof]], ""])
            if t.code == gdb.TYPE_CODE_ENUM and t.fields():
                f = self.dice.choice(t.fields())
                if f.name.isidentifier():
                    found.append([[["const", f.name, f.enumval]], ""])
        return found[:2]


def blocks(pc):
    """From inside to outside; but where the function itself begins, all in it only begin, and its own names come first."""
    block, found = gdb.block_for_pc(pc), []
    while block:
        found.append(block)
        block = block.superblock
    own = next((b for b in reversed(found) if b.function), None)
    if own and int(own.function.value().address) == pc:
        found.remove(own)
        found.insert(0, own)
    return found


def scopes(pc, entry=None):
    """The variables at an address, [(step, type)], innermost of a name only; then those of the unit. At a function's entry
    nobody has set its locals."""
    local, seen, inlined = [], set(), []
    for block in blocks(pc):
        if block.is_global or block.is_static:
            break
        for s in block:
            if (s.is_variable or s.is_argument) and s.name not in seen and s.name.isidentifier():
                seen.add(s.name)
                if s.is_argument or pc != entry:
                    local.append((["var", s.name] + ["static"] * (s.addr_class == gdb.SYMBOL_LOC_STATIC), s.type))
        if block.function:
            inlined.append(block.function.name)
    outer = []
    if block:
        for s in list(block.static_block) + (list(block.global_block)):
            if s.is_variable and s.name not in seen and s.name.isidentifier():
                seen.add(s.name)
                outer.append((["global", s.name], s.type))
    return local, outer, inlined


def code_of(pc, size):
    """The addresses of a function's instructions."""
    if not 0 < size < 20000:
        return []
    arch = gdb.selected_inferior().architecture() if hasattr(gdb.selected_inferior(), "architecture") else None
    return [i["addr"] for i in arch.disassemble(pc, pc + size - 1)]


def spec(name, entry, size, kind, dice):
    """What to write for a place of that kind in this function; None where it has none."""
    code = code_of(entry, size) if kind not in ("entry", "exit") else [entry]
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
    for name, entry, size, kind, seed in ORDER["wanted"]:
        block = gdb.block_for_pc(entry)
        probe = spec(name, entry, size, kind, random.Random(seed)) if block and block.function else None
        if probe:
            places.append({"kind": kind, "function": name, "entry": entry, "probe": probe, "seed": seed})
    return places


def code_bytes(pc):
    """As the file has them."""
    return gdb.selected_inferior().read_memory(pc, 2).tobytes().hex()


def scope_at(pc):
    """What gdb tells of each variable that it knows there."""
    try:
        return gdb.execute("info scope *%d" % pc, to_string=True).split("\nSymbol ")[1:]
    except gdb.error:
        return []


def outermost(pc):
    """Where the function begins that all these were put into."""
    own = next((b.function for b in reversed(blocks(pc)) if b.function), None)
    return int(own.value().address) if own else None


def odd_places(pc):
    """Variables that are described, at some address at least, by what the caller has handed over or would have; and those of
    which only an empty range tells."""
    told = scope_at(pc)
    # an empty range means the moment before the instruction, for who knows of such (gcc's location views)
    empty = "Range %#x-%#x:" % (pc, pc)
    # in an inlined function gdb tells of that one only
    around = scope_at(outermost(pc)) if outermost(pc) else []
    return [t.split()[0] for t in told + around if "entry_value" in t or "parameter_ref" in t], [t.split()[0] for t in told if empty in t]


def begins(pc, probe):
    """The names of an inlined function whose copy begins there, if gdb is not in it yet: it then takes them for its caller's."""
    name, found = probe[len("exe:"):], set()
    if name in scopes(pc)[2]:
        return []
    for addr in code_of(pc, 400):       # it begins soon
        around = blocks(addr)
        last = next((i for i, b in enumerate(around) if b.function and b.function.name == name), -1)
        found |= {s.name for b in around[:last + 1] for s in b}
    return sorted(found)


def questions():
    """What to ask for at the first address of each place."""
    for p in ORDER["places"]:
        c = Chooser(p["seed"])
        local, outer, _ = scopes(p["addresses"][0], p["entry"])
        if p["kind"] == "exit":
            t = gdb.block_for_pc(p["entry"]).function.type.target()
            local = [(["ret"], t)] * 6 if t and t.code != gdb.TYPE_CODE_VOID else []
        p["caller"], p["empty"] = odd_places(p["addresses"][0])
        p["begins"] = begins(p["addresses"][0], p["probe"]) if p["kind"] == "inlined" else []
        p["code"] = {a: code_bytes(a) for a in p["addresses"]}
        asked = c.some(local, ORDER["each"]) + c.some(outer, 2) + c.constants(local + outer[:5])
        whole_ones = [q for q in asked if q[1] == "whole"]          # which may take all the room that an event has
        p["asked"] = [q for q in asked if q[1] != "whole"] + whole_ones[:1]
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


def held_text(v):
    names = [f.name for f in bare(v.type).fields()]
    if "_M_str" in names:
        at, n = v["_M_str"], v["_M_len"]
    elif "_M_dataplus" in names:
        at, n = v["_M_dataplus"]["_M_p"], v["_M_string_length"]
    elif "data_ptr" in names:
        at, n = v["data_ptr"], v["length"]
    else:
        at, n = v["vec"]["buf"], v["vec"]["len"]
        while bare(at.type).code in OBJECTS:
            at = at[next(f for f in at.type.fields() if f.name in ("inner", "ptr", "pointer", "__0"))]
    n = min(int(n), 200)
    raw = gdb.selected_inferior().read_memory(int(at), n).tobytes() if n > 0 else b""
    return {"text": raw.split(b"\0")[0].decode("latin1")}      # an event's strings end there


def whole(v, name, found, depth=0):
    """Each member with its name and value, as deep as jab goes; characters both as text and one by one."""
    t = bare(v.type)
    inner = []
    if t.code in REFS or depth > 3:
        return
    if t.code in OBJECTS and holds_text(t):
        found[name] = answered(v, "object")
    elif t.code in OBJECTS:
        fields = [f for f in v.type.strip_typedefs().fields() if hasattr(f, "bitpos")]
        if any(f.artificial and not f.name for f in fields):        # Rust's: the variant that is there
            fields = [f for f in fields if not f.artificial]
            found[name] = {"text": fields[0].name if fields else ""}
        inner = [(name + "_" + f.name if f.name and not f.is_base_class else name, f) for f in fields]
    elif t.code == gdb.TYPE_CODE_ARRAY and "vector_size" not in str(t):
        if is_char(t.target()):
            found[name] = answered(v, "string")
        inner = [("%s_%d_" % (name, i), i) for i in range(min(t.range()[1] + 1, 16))]
    else:
        found[name] = answered(v, "")
    for member_name, f in inner:
        whole(v[f], member_name, found, depth + (isinstance(f, int) or not f.is_base_class))


def plain(v, mode):
    t = bare(v.type)
    if t.code in REFS:
        v = v.referenced_value()
        t = bare(v.type)
    if v.is_optimized_out:
        return {"gone": 1}
    if mode == "whole":
        found = {}
        whole(v, "", found)
        return {"whole": found}
    if mode:
        return text(v) if mode == "string" else held_text(v)
    if t.code in SCALARS and t.sizeof not in (1, 2, 4, 8):
        return {"odd": str(t)}
    if t.code == gdb.TYPE_CODE_FLT:
        return float(v)
    if t.code == gdb.TYPE_CODE_PTR:
        return "0x%x" % (int(v) & (1 << 64) - 1)
    if t.code == gdb.TYPE_CODE_BOOL:
        return int(int(v) != 0)             # one that nobody has set may have any bits
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
    if step[0] == "ret":
        return returned(gdb.block_for_pc(frame.pc()))
    for block in blocks(frame.pc()):
        for s in block:
            if s.name == step[1] and (s.is_variable or s.is_argument):
                return s.value(frame)
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


def not_its_own(address, frame):
    """Memory where tracers work: behind the end of the stack, and jab's own, to which the rest of a pad's stack may point."""
    rsp = int(frame.read_register("rsp"))
    return rsp - (1 << 16) < address < rsp - 128 or any(lo <= address < hi for lo, hi in OURS)


def note(v):
    if v.address is not None:
        TRAIL.append(int(v.address))


def walk(steps, frame):
    v = root(steps[0], frame)
    for step in steps[1:]:
        if bare(v.type).code in REFS:
            v = v.referenced_value()
        note(v)
        if step[0] == "deref":
            v = v.dereference()
        elif step[0] == "index":
            v = v[step[1]]
        else:
            if bare(v.type).code == gdb.TYPE_CODE_PTR:
                v = v.dereference()
            v = member(v, step[1])
    note(v)
    return v


def tried(what):
    try:
        return what()
    except (gdb.error, RuntimeError, ValueError, OverflowError, TypeError) as e:
        words = str(e)
        if "optimized out" in words or "not available" in words or "entry value" in words:
            return {"gone": words}
        return {"fault": words} if "access memory" in words else {"error": words}


def answered(v, mode):
    return tried(lambda: plain(v, mode))


def answer(steps, mode, frame):
    return tried(lambda: plain(walk(steps, frame), mode))


def frame_here():
    """That of the function itself: of an inlined one gdb would look for its caller's values at the wrong place."""
    frame = gdb.newest_frame()
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame


class Watched(gdb.Breakpoint):
    """All the first hits of an address are counted, some of them looked at."""

    def __init__(self, number, address, asked, wanted, counts):
        super().__init__("*%d" % address, internal=True)
        self.place, self.asked, self.wanted, self.counts = number, asked, wanted, counts

    def stop(self):
        tid = gdb.selected_thread().ptid[1]
        n = self.counts.get(tid, 0)
        self.counts[tid] = n + 1
        if n in self.wanted:
            frame = frame_here()
            said = {"place": self.place, "tid": tid, "n": n, "pc": frame.pc() - BASE, "values": [], "trails": [], "odd": []}
            for q in self.asked:
                TRAIL.clear()
                said["values"].append(answer(*q, frame))
                said["trails"].append(list(TRAIL))
                said["odd"].append(any(not_its_own(a, frame) for a in TRAIL))
            OUT.write(json.dumps(said) + "\n")
        return n >= max(self.wanted)


def maps_of(pid):
    return open("/proc/%d/maps" % pid).read().splitlines()


def base_of(pid):
    maps = maps_of(pid)
    return [int(l.split("-")[0], 16) for l in maps if l.endswith(ORDER["program"])][0] - ORDER["lowest"]


def watch():
    """Breaks on top of jab's jumps in a process that waits at a gate, and opens it."""
    global BASE, OUT
    OUT = open(ORDER["output"], "w")
    dice = random.Random(ORDER["seed"])
    gdb.execute("attach %d" % ORDER["pid"], to_string=True)
    BASE = base_of(ORDER["pid"])
    OURS.extend([int(x, 16) for x in l.split()[0].split("-")] for l in maps_of(ORDER["pid"]) if "memfd:jab" in l)
    placed, counts = [], []
    for i, p in enumerate(ORDER["places"]):
        wanted = set(range(ORDER["hits"] // 2)) | {dice.randrange(200) for _ in range(ORDER["hits"] - ORDER["hits"] // 2)}
        counts.append({})
        placed += [Watched(i, BASE + a, p["asked"], wanted, counts[i]) for a in p["addresses"]]
    with open(ORDER["gate"], "w") as f:
        f.write("x")
    ended = set()
    while gdb.selected_inferior().pid and placed:
        gdb.execute("continue", to_string=True)
        if not gdb.selected_inferior().pid:
            break
        ended |= {b.place for b in placed if max(b.counts.values(), default=0) > max(b.wanted)}
        for b in [b for b in placed if b.place in ended]:
            b.delete()
            placed.remove(b)
    if gdb.selected_inferior().pid:
        gdb.execute("detach", to_string=True)
    totals = [[i, tid, n, i not in ended] for i, c in enumerate(counts) for tid, n in c.items()]
    OUT.write(json.dumps({"totals": totals, "all": [i not in ended for i in range(len(counts))]}) + "\n")
    OUT.close()


for command in ("set pagination off", "set confirm off", "set print inferior-events off", "set debuginfod enabled off",
                "set auto-load off", "maintenance set target-non-stop off", "set displaced-stepping off", "handle SIGPIPE nostop noprint", "handle SIGCHLD nostop noprint",
                "handle SIGALRM nostop noprint", "handle SIGUSR1 nostop noprint"):
    gdb.execute(command, to_string=True)
if ORDER["what"] == "watch":
    watch()
else:
    with open(ORDER["output"], "w") as f:
        json.dump(choose() if ORDER["what"] == "choose" else questions(), f)
