#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Random scripts by bpftrace and by jab on the same program; what both print must agree. Needs root.

Only what means the same in both: bpftrace divides, shifts right and compares without signs in places, so such operands are
kept positive; it has no floats. `random_scripts.py --seconds N [--seed N] [--count N]`; ends with status 1 if one differs."""
import os
import random
import re
import sys

import common

import beside       # noqa: E402  (common has told Python where)

PROBES = {      # function: command, arguments that are numbers, arguments that are text
    "show": ("<script> format", ["(int8)arg0", "(uint16)arg1", "(int32)arg2", "(int64)arg4", "(uint32)arg3"], "str(arg5)"),
    "take": ("<script> tell 30", ["(int32)arg0", "*(int32 *)arg2", "(0 + *(int16 *)(arg2 + 4))"], "str(arg1)"),
    "tail": ("<script> tail 12", ["arg0", "(int16)arg0", "(int64)arg0 - 5"], '"word"'),
}


class Maker:
    def __init__(self, r, func):
        self.r, self.func = r, func
        self.command, self.numbers, self.text = PROBES[func]
        self.vars, self.loops = [], 0

    def leaf(self):
        r = self.r
        if self.vars and r.random() < .3:
            return r.choice(self.vars)
        if r.random() < .4:
            return str(r.choice([0, 1, 2, 3, 7, 10, 63, 100, 255, 4096, 65535, 2147483647, 4294967295, r.randrange(1 << 40)]))
        return r.choice(self.numbers)

    def positive(self, depth):
        return f"({self.number(depth)} & {self.r.choice([7, 15, 255, 65535, 0x7fffffff])})"

    def number(self, depth=3):
        r = self.r
        if depth <= 0:
            return self.leaf()
        how = r.randrange(12)
        a = self.number(depth - 1) if how < 4 else self.positive(depth - 1)
        if how < 3:
            return f"({a} {r.choice(['+', '-', '*', '&', '|', '^'])} {self.number(depth - 1)})"
        if how == 3:
            return f"({r.choice(['-', '~'])}(0 + {a}))"     # of narrow ones bpftrace 0.17 loses the sign, or invents one
        if how == 4:
            return f"({a} {r.choice(['/', '%'])} {r.choice([1, 2, 3, 7, 10, 1000])})"
        if how == 5:
            return f"({a} {r.choice(['<<', '>>'])} {r.randrange(20)})"
        if how == 6:
            return f"({self.truth(depth - 1)} ? {a} : (0 + {self.number(depth - 1)}))"
        if how == 7:
            return f"({r.choice(['int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64'])})(0 + {self.number(depth - 1)})"
        if how == 8:
            return self.truth(depth - 1)
        return self.leaf()

    def truth(self, depth):
        r = self.r
        how = r.randrange(6)
        if how == 0:
            return f"({self.truth(depth - 1) if depth > 0 else self.positive(0)} {r.choice(['&&', '||'])} {self.positive(0)})"
        if how == 1:
            return f"(!{self.positive(depth - 1)})"
        return f"({self.positive(depth - 1)} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {self.positive(depth - 1)})"

    def condition(self):
        if self.r.random() < .2:
            return f"{self.text} {self.r.choice(['==', '!='])} \"{self.r.choice(['beta', 'word', 'gamma', ''])}\""
        return self.truth(2)

    def key(self):
        return self.positive(1) if self.r.random() < .6 else self.text

    def body(self, depth):
        return " ".join(self.statement(depth) for _ in range(self.r.randint(1, 3)))

    def statement(self, depth=0):
        r = self.r
        how = r.randrange(14 if depth < 2 else 11)
        if how < 3:
            n = r.randint(1, 4)
            return 'printf("%s\\n", %s);' % (" ".join(["%lld"] * n), ", ".join(self.number() for _ in range(n)))
        if how == 3:
            return f'printf("%lld %s|%x\\n", {self.number(2)}, {self.text}, {self.positive(1)});'
        if how == 4:
            return r.choice([f"@last = (int64)(0 + {self.number(2)});", "@steps++;", f"@total += {self.positive(2)};"])
        if how == 5:
            return f"@by[{self.positive(1)}] = (int64)(0 + {self.number(2)});"
        if how == 6:
            return f"@named[{self.text}, {self.positive(1)}] = count();"
        if how == 7:
            agg = r.choice(["sum", "avg", "min", "max", "hist"])
            return f"@{agg}[{self.positive(0)}] = {agg}({self.positive(2)});"
        if how == 8:
            return r.choice([f"@lin = lhist({self.positive(2)}, 0, 100, 10);", f"@stats = stats({self.positive(2)});"])
        if how == 9:
            return f"print(({self.positive(2)}, {self.text}, {self.positive(1)}));"
        if how == 10:
            name = f"$x{len(self.vars)}" if depth == 0 and len(self.vars) < 4 else None
            if name:
                text = f"{name} = (int64)(0 + {self.number(2)});"
                self.vars.append(name)
                return text
            return f"{r.choice(self.vars)} += {self.number(1)};" if self.vars else "@steps++;"
        if how == 11:
            return f"unroll({r.randint(1, 4)}) {{ {self.body(2)} }}"
        if how == 12:
            self.loops += 1
            i = f"$i{self.loops}"
            return f"{i} = 0; while ({i} < {r.randint(1, 4)}) {{ {self.body(2)} {i}++; }}"
        other = f" else {{ {self.body(depth + 1)} }}" if r.random() < .5 else ""
        return f"if ({self.condition()}) {{ {self.body(depth + 1)} }}{other}"

    def format(self):
        """One conversion and its argument."""
        r = self.r
        how = r.randrange(8)
        flags = r.choice(["", "", "-", "0", "+", " ", "#"])
        width = r.choice(["", "", "1", "5", "12"])
        if how < 2:
            return f"%{flags.replace('#', '')}{width}{r.choice(['ld', 'lli', 'lld'])}", f"(int64)(0 + {self.number(1)})"
        if how == 2:
            return f"%{flags.replace('+', '').replace(' ', '')}{width}{r.choice(['lx', 'llX', 'lo'])}", f"(int64)(0 + {self.number(1)})"
        if how == 3:
            return f"%{flags.replace('#', '')}{width}d", f"(int32)({self.positive(1)})"
        if how == 4:
            return f"%{width}u", self.positive(1)
        if how == 5:
            return f"%{r.choice(['', '-'])}{width}{r.choice(['', '.3', '.1'])}s", self.string()
        if how == 6:
            return "%c", f"(65 + ({self.number(1)} & 15))"
        return "%p", self.positive(1)

    def string(self):
        r = self.r
        how = r.randrange(6)
        if how == 0:
            return '"%s"' % r.choice(["", "x", "some text", "beta"])
        if how == 1 and "arg" in self.text:
            return f"{self.text[:-1]}, {r.randint(1, 9)})"
        if how == 2:
            return f"({self.truth(1)} ? \"yes\" : \"no\")"
        if how == 3:
            return "comm"       # func is an address for bpftrace if the program has ended meanwhile
        return self.text

    def more(self, depth):
        """What the language has beside numbers."""
        r = self.r
        how = r.randrange(12)
        if how < 3:
            parts = [self.format() for _ in range(r.randint(1, 4))]
            return 'printf("%s\\n", %s);' % ("|".join(x for x, _ in parts), ", ".join(x for _, x in parts))
        if how == 3:
            return f"@text[{self.positive(1)}] = {self.text};"
        if how == 4:
            return f"@text2[{self.text}] = {self.positive(2)}; if ({self.truth(1)}) {{ delete(@text2[{self.text}]); }}"
        if how == 5 and "arg" in self.text:
            return f"if (strncmp({self.text}, \"{r.choice(['beta', 'al', 'gamma rays', 'a'])}\", {r.randint(1, 6)}) == 0) {{ {self.statement(2)} }}"
        if how == 6:
            return f"@pair[{self.positive(1)}] = ({self.positive(1)}, {self.positive(1)});"
        if how == 7:
            return f"$t{depth} = ({self.positive(1)}, {self.text}, {self.positive(1)}); print($t{depth}.{r.choice([0, 2])});"
        if how == 8:
            return f"print({r.choice([self.positive(2), self.string()])});"
        if how == 9 and "arg" in self.text:
            return f'printf("%r\\n", buf({self.text[4:-1]}, {r.randint(1, 6)}));'
        if how == 10:
            return r.choice([f"@lo[{self.text}] = min({self.positive(1)});", f"@hi[{self.positive(0)}, {self.text}] = max({self.positive(1)});",
                             f"@hist2[{self.text}] = hist({self.positive(2)});", f"@lin2[{self.text}] = lhist({self.positive(1)}, 10, 210, 20);",
                             f"@st[{self.text}] = stats({self.positive(1)});", f"@av[{self.text}] = avg({self.positive(1)});"])
        return r.choice(["@steps--;", "@n = @n + 1;", "++@steps;", f"@last2 = {self.positive(1)}; @last2 <<= 2;", f"@bits |= {self.positive(1)};",
                         f"@x ^= {self.positive(1)};", f"if (@last2 > {r.randint(0, 300)}) {{ return; }}"])

    def end(self, text):
        """What is done with maps when all is over: only with those that the script has."""
        r = self.r
        names = sorted(n for n in set(re.findall(r"@(?:sum|avg|by|text2|named|total|steps)\b", text)))
        if not names or r.random() < .5:
            return ""
        name = r.choice(names)
        what = [f"clear({name});", f"print({name});"]
        if re.search(rf"{name}\[", text):
            # of those with the same value either has its own first, so all are asked for
            what += [f"print({name}, 100);", f"print({name}, 100, {r.randint(1, 9)});", f"zero({name});"] if name != "@avg" else []
        return f"END {{ {r.choice(what)} }}\n"

    def script(self):
        text = ""
        for _ in range(self.r.randint(1, 2)):
            self.vars = []
            predicate = f"/{self.condition()}/ " if self.r.random() < .3 else ""
            body = [self.more(i) if self.r.random() < .4 else self.statement() for i in range(self.r.randint(2, 6))]
            text += f"uprobe:<script>:{self.func} {predicate}{{ {' '.join(body)} }}\n"
        return text + self.end(text)


def one(report, r):
    m = Maker(r, r.choice(sorted(PROBES)))
    case = beside.Case("random", m.command, m.script())
    theirs, ours, said = beside.compare(case)
    if not theirs:      # it has limits that we don't have
        report.count("refused by bpftrace")
        return
    report.count("scripts")
    report.count("lines", len(theirs))
    if theirs != ours:
        only = [f"- {x}" for x in theirs if x not in ours][:8] + [f"+ {x}" for x in ours if x not in theirs][:8]
        errors = [x for x in said.splitlines() if "rror:" in x and "detach" not in x]
        report.fail(case.text, "\n".join(only + errors))


def main():
    a = common.arguments(__doc__)
    report = common.Report(a.seconds, seed=a.seed)
    why = beside.missing()
    if why:
        report.line(skipped=why)
        return 0
    # bpftrace reads each CPU's events one after the other: their order is known only if the program stays on one
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    r = random.Random(a.seed)
    while report.time_left() > 0 and len(report.failures) < 5:
        one(report, r)
    return report.end()


sys.exit(main())
