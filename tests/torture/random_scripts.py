#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Random scripts by bpftrace and by jab on the same program; what both print must agree. Needs root.

Only what means the same in both: bpftrace divides, shifts right and compares without signs in places, so such operands are
kept positive; it has no floats. `random_scripts.py --seconds N [--seed N] [--count N]`; ends with status 1 if one differs."""
import random
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

    def script(self):
        text = ""
        for _ in range(self.r.randint(1, 2)):
            self.vars = []
            predicate = f"/{self.condition()}/ " if self.r.random() < .3 else ""
            text += f"uprobe:<script>:{self.func} {predicate}{{ {' '.join(self.statement() for _ in range(self.r.randint(2, 6)))} }}\n"
        return text


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
    r = random.Random(a.seed)
    while report.time_left() > 0 and len(report.failures) < 5:
        one(report, r)
    return report.end()


sys.exit(main())
