#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Values of random types, returned by functions and handed over to them: what jab shows of each against what the program
was made of.

    handover.py [--seconds N] [--seed S] [--only gcc,clang,g++,clang++,rustc]

Each round is a program of its own, built by one compiler in one way. A type is a number, a struct with bit-fields, arrays, structs
and members that lie otherwise than they would by themselves, or a Rust tuple, array, struct, Option or Result. Nothing may be
shown that is not so; what can't be shown is counted. Warnings that the compiler may have changed a call make no difference here:
all calls go through pointers that it can't see through, or it is told to leave them alone.
"""
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Report, arguments
import jab

LIMIT = 300
FUNCTIONS = 30
BUILDS = {
    "gcc": [["gcc", "-O0"], ["gcc", "-O2"], ["gcc", "-Os", "-gdwarf-4"]],
    "clang": [["clang", "-O0"], ["clang", "-O2"], ["clang", "-O1", "-gdwarf-4"]],
    "g++": [["g++", "-O0"], ["g++", "-O2"], ["g++", "-O2", "-gdwarf-4"]],
    "clang++": [["clang++", "-O0"], ["clang++", "-O2"]],
    "rustc": [["rustc", "-C", "opt-level=0"], ["/usr/bin/rustc", "-C", "opt-level=0"]],
}


class Maker:
    """Random types and values of them: (text, [parts in their order])."""

    def __init__(self, dice):
        self.dice, self.structs, self.made = dice, [], 0

    def number(self, bits, is_signed):
        """One that is hardly found by accident."""
        self.made += 1
        v = self.made * 2654435761 % (1 << bits) or 1
        return v - (1 << bits) if is_signed and v >> bits - 1 else v

    def real(self):
        self.made += 1
        return self.made % 4000 + .5


class C(Maker):
    NUMBERS = {"signed char": (8, True), "unsigned char": (8, False), "short": (16, True), "unsigned short": (16, False), "int": (32, True),
               "unsigned": (32, False), "long": (64, True), "unsigned long": (64, False), "float": None, "double": None, "void *": None}
    suffix, prefix = ".c", ""

    def scalar(self, but=()):
        return ("scalar", self.dice.choice([n for n in self.NUMBERS if n not in but]))

    def member(self, depth):
        """(type, what is written behind its name)"""
        r = self.dice.random()
        if r < .62 or r < .84 and depth:
            return self.scalar(), ""
        if r < .74:                     # characters would be text
            n = self.dice.randint(1, 4)
            return ("array", self.scalar(["signed char"]), n), f"[{n}]"
        if r < .84:
            return self.struct(depth + 1), ""
        if r < .94 and not depth:       # compilers differ in packed structs that have such inside
            kind = self.dice.choice(["int", "unsigned", "long", "unsigned char"])
            width = self.dice.randint(2, self.NUMBERS[kind][0] - 1)
            return ("bits", kind, width), f":{width}"
        return self.scalar(), f" __attribute__((aligned({self.dice.choice([8, 16, 32])})))"

    def struct(self, depth=0):
        members = [self.member(depth) for _ in range(self.dice.randint(1, 4))]
        packed = " __attribute__((packed))" if self.dice.random() < .08 else ""
        self.structs.append("{ " + " ".join(f"{self.name(t)} m{i}{behind};" for i, (t, behind) in enumerate(members)) + " }" + packed)
        return ("struct", len(self.structs) - 1, [t for t, _ in members])

    def type(self):
        return self.struct() if self.dice.random() < .7 else self.scalar()

    def name(self, t):
        return f"struct s{t[1]}" if t[0] == "struct" else t[1][1] if t[0] == "array" else t[1]

    def value(self, t):
        if t[0] == "scalar":
            if t[1] in ("float", "double"):
                v = self.real()
                return f"{v}{'f' * (t[1] == 'float')}", [v]
            if t[1] == "void *":
                v = self.number(40, False)
                return f"(void *){v}", [v]
            v = self.number(*self.NUMBERS[t[1]])
            return f"({t[1]}){v & (1 << 64) - 1:#x}ul", [v]
        if t[0] == "bits":
            v = self.number(t[2], t[1] in ("int", "long"))
            return f"({t[1]}){v & (1 << 64) - 1:#x}ul", [v]
        inside = [self.value(x) for x in (t[2] if t[0] == "struct" else [t[1]] * t[2])]
        return "{ " + ", ".join(a for a, _ in inside) + " }", [x for _, b in inside for x in b]

    def source(self):
        """The program, and what is to be seen in each function: {name: [parts]}."""
        body, calls, wanted = [], [], {}
        for i in range(FUNCTIONS):
            t = self.type()
            text, wanted[f"give{i}"] = self.value(t)
            body.append(f"static {self.name(t)} given{i} = {text};\n{self.prefix}noinline {self.name(t)} give{i}(void) {{ {self.name(t)} *p = &given{i}; keep(p); return *p; }}")
            calls.append(f"give{i}();")
            types = [self.type() for _ in range(self.dice.randint(1, 9))]
            values = [self.value(x) for x in types]
            wanted[f"take{i}"] = [x for _, b in values for x in b]
            fields = " ".join(f"{self.name(x)} a{k};" for k, x in enumerate(types))
            result = self.dice.choice(["int", "struct large"])
            body.append(f"static struct {{ {fields} }} taken{i} = {{ {', '.join(a for a, _ in values)} }};\n{self.prefix}noinline {result} take{i}("
                        + ", ".join(f"{self.name(x)} a{k}" for k, x in enumerate(types)) + ") { "
                        + " ".join(f"{{ void *p = &a{k}; keep(p); }}" for k in range(len(types))) + f" static {result} none; return none; }}")
            calls.append(f"{{ void *p = &taken{i}; keep(p); }} take{i}({', '.join(f'taken{i}.a{k}' for k in range(len(types)))});")
        lines = ["#define noinline __attribute__((noinline))", '#define keep(p) __asm__ volatile("nop; nop; nop; nop; nop; nop" : "+r"(p) : : "memory")',
                 "struct large { long v[3]; };", *(f"struct s{i} {s};" for i, s in enumerate(self.structs)), *body, "int main(void) {", *calls, "return 0; }"]
        return "\n".join(lines) + "\n", wanted

    @staticmethod
    def command(build, out, source):
        return [*build, "-g", "-w", "-o", out, source]

    place = "exe:{}"


class Cxx(C):
    suffix, prefix = ".cc", 'extern "C" '


class Rust(Maker):
    NUMBERS = {"u8": (8, False), "i8": (8, True), "u16": (16, False), "i16": (16, True), "u32": (32, False), "i32": (32, True),
               "u64": (64, False), "i64": (64, True), "usize": (64, False), "f32": None, "f64": None}
    suffix, place = ".rs", "exe:types::{}"

    def type(self, depth=0):
        r = self.dice.random()
        if depth > 1 or r < .35:
            return ("scalar", self.dice.choice(list(self.NUMBERS)))
        if r < .45:
            return ("tuple", [self.type(depth + 1) for _ in range(self.dice.randint(1, 3))])
        if r < .55:
            return ("array", ("scalar", self.dice.choice([n for n in self.NUMBERS if n != "i8"])), self.dice.randint(1, 4))
        if r < .7:
            members = [self.type(depth + 1) for _ in range(self.dice.randint(1, 3))]
            self.structs.append(members)
            return ("struct", len(self.structs) - 1)
        if r < .82:
            return ("Option", self.type(depth + 1))
        return ("Result", *(("unit",) if self.dice.random() < .25 else self.type(depth + 1) for _ in range(2)))

    def name(self, t):
        inside = [self.name(x) for x in t[1:] if isinstance(x, tuple)]
        return {"unit": lambda: "()", "scalar": lambda: t[1], "tuple": lambda: "(" + "".join(self.name(x) + "," for x in t[1]) + ")",
                "array": lambda: f"[{inside[0]}; {t[2]}]", "struct": lambda: f"S{t[1]}"}.get(t[0], lambda: f"{t[0]}<{', '.join(inside)}>")()

    def value(self, t):
        if t[0] == "unit":
            return "()", []
        if t[0] == "scalar":
            v = self.number(*self.NUMBERS[t[1]]) if self.NUMBERS[t[1]] else self.real()
            return f"({v}{t[1]})", [v]
        if t[0] in ("Option", "Result"):
            which = self.dice.choice(["Some", "None"] if t[0] == "Option" else ["Ok", "Err"])
            text, parts = ("", []) if which == "None" else self.value(t[2] if which == "Err" else t[1])
            return which + (f"({text})" if text else ""), [which, *parts]
        inside = [self.value(x) for x in (self.structs[t[1]] if t[0] == "struct" else t[1] if t[0] == "tuple" else [t[1]] * t[2])]
        parts = [x for _, b in inside for x in b]
        if t[0] == "struct":
            return f"S{t[1]} {{ " + ", ".join(f"m{i}: {a}" for i, (a, _) in enumerate(inside)) + " }", parts
        return ("(" + "".join(a + "," for a, _ in inside) + ")" if t[0] == "tuple" else "[" + ", ".join(a for a, _ in inside) + "]"), parts

    def source(self):
        body, calls, wanted = [], [], {}
        for i in range(FUNCTIONS):
            t = self.type()
            n = self.name(t)
            text, wanted[f"give{i}"] = self.value(t)
            # the number makes it another function than all others, which the linker would take for one
            body.append(f"#[inline(never)] pub fn give{i}(p: &{n}) -> {n} {{ keep(&{i}); unsafe {{ std::ptr::read_volatile(p) }} }}")
            calls.append(f"{{ let v: {n} = {text}; keep(&call(give{i} as fn(&{n}) -> {n})(&v)); }}")
            types = [self.type() for _ in range(self.dice.randint(1, 5))]
            values = [self.value(x) for x in types]
            wanted[f"take{i}"] = [x for _, b in values for x in b]
            result, text = self.dice.choice([("u32", "7"), ("[u64; 4]", "[1, 2, 3, 4]"), ("()", "()")])
            body.append(f"#[inline(never)] pub fn take{i}({', '.join(f'a{k}: {self.name(x)}' for k, x in enumerate(types))}) -> {result} {{ keep(&{i}); "
                        + " ".join(f"keep(&a{k});" for k in range(len(types))) + f" {text} }}")
            calls.append(f"keep(&call(take{i} as fn({', '.join(self.name(x) for x in types)}) -> {result})({', '.join(a for a, _ in values)}));")
        lines = ["#![allow(warnings)]", "#[inline(never)] fn keep<T>(p: &T) { let mut q = p as *const T; unsafe { std::ptr::read_volatile(&mut q); } }",
                 "fn call<F: Copy>(f: F) -> F { unsafe { std::ptr::read_volatile(&f) } }",
                 *(f"#[derive(Clone, Copy)] pub struct S{i} {{ {', '.join(f'm{k}: {self.name(x)}' for k, x in enumerate(s))} }}" for i, s in enumerate(self.structs)),
                 *body, "fn main() {", *calls, "}"]
        return "\n".join(lines) + "\n", wanted

    @staticmethod
    def command(build, out, source):
        return [*build, "-g", "--edition", "2021", "--crate-name", "types", "-o", out, source]


MAKERS = {"gcc": C, "clang": C, "g++": Cxx, "clang++": Cxx, "rustc": Rust}


def shown(path, place, name, out):
    """[values] of the first hit, or why there are none."""
    out.unlink(missing_ok=True)
    probe = place.format(name) + ("%return retval" if name.startswith("give") else " $params")
    r = jab.run("trace", "--json", "-o", out, probe, "--", path)
    rows = [json.loads(x)["fields"] for x in jab.lines_of(out.read_text()) if '"fields"' in x] if out.exists() else []
    if r.status or not rows:
        return None, r.stderr
    return [int(v, 16) if isinstance(v, str) and v.startswith("0x") else v for v in rows[0].values()], r.stderr


def is_so(mine, wanted, maker):
    """Events have no more than 32 fields of structs, and of Rust's go four levels deep."""
    if maker is not Rust:
        return mine[:32] == wanted[:32]
    rest = list(map(str, wanted))           # members of variants that are not there are empty or 0
    for v in (str(v) for v in mine if v not in ("", 0)):
        if v not in rest:
            return False
        rest.remove(v)
    return True


def round_of(kind, seed, scratch, report):
    dice = random.Random(seed)
    maker = MAKERS[kind](dice)
    build = dice.choice([b for b in BUILDS[kind] if shutil.which(b[0])])
    text, wanted = maker.source()
    source, path = scratch / ("types" + maker.suffix), scratch / "types"
    source.write_text(text)
    r = subprocess.run(list(map(str, maker.command(build, path, source))), capture_output=True, text=True, timeout=LIMIT)
    if r.returncode:
        report.fail(f"{' '.join(build)}, seed {seed}", "does not compile: " + r.stderr[-1000:])
        return
    for name, parts in wanted.items():
        mine, said = shown(path, maker.place, name, scratch / "out")
        if mine is None:
            report.count("refused" if "error" in said else "not shown")
        elif is_so(mine, parts, MAKERS[kind]):
            report.count(f"same, {kind}")
        else:
            declared = next(x for x in text.split("\n") if f" {name}(" in x)
            report.fail(f"{' '.join(build)}, seed {seed}, {name}", f"jab {mine!r}, the program {parts!r}: {declared[:300]}")


def main():
    a = arguments(__doc__.splitlines()[0])
    report = Report(a.seconds, seed=a.seed)
    dice = random.Random(a.seed)
    kinds = [k for k in (a.only or BUILDS) if any(shutil.which(b[0]) for b in BUILDS[k])]
    with tempfile.TemporaryDirectory() as scratch:
        while report.time_left() > 0:
            for kind in kinds:
                if report.time_left() > 0:
                    round_of(kind, dice.randrange(1 << 30), Path(scratch), report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
