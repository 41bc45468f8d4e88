# SPDX-License-Identifier: MIT
"""How much stack the entries of the blob take at most, whatever compiler has made it.

Each function is followed from its first instruction along all branches, with the depth of the stack at each; a call adds the depth
of what is called. Nothing is guessed: an instruction that changes rsp in another way, a call of an address whose caller is not in
CALLED, a function whose address is taken and which is not in there, or a recursion ends the build.
"""
import re
import subprocess
import sys

ENTRIES = ("blob_record", "blob_read", "blob_park", "blob_program", "blob_leave")
# Functions of blob_program for kinds of work, by enum blob_work; all others are the first kind, and part of each.
WORK = (r"(?!)", r"ids\b", r"(map|agg)_", r"stack_walk\b")
# Calls of addresses: who makes them, and what is called.
CALLED = {
    "fetch": ["read_stack"],
    "blob_leave": [],                   # code that asks for its own stack
}
MOST = 4096
ENDS = ("ret", "retq", "ud2", "hlt", "int3")


class Function:
    def __init__(self, name, at):
        self.name, self.at, self.ins, self.deepest = name, at, {}, None


def functions(objdump, blob):
    """{address: Function} of the code; each has {address: (mnemonic, operands, next address)}."""
    text = subprocess.run([objdump, "-t", "-d", "-w", "--no-show-raw-insn", blob], capture_output=True, text=True, check=True).stdout
    code = {int(x, 16) for x in re.findall(r"^([0-9a-f]+) .{6}F ", text, re.M)}     # constants are shown as instructions, too
    found, f, before = {}, None, None
    for line in text.splitlines():
        if m := re.match(r"([0-9a-f]+) <(\S+)>:$", line):
            f, before = found.setdefault(int(m[1], 16), Function(m[2], int(m[1], 16))), None
        elif m := re.match(r"\s*([0-9a-f]+):\s+((?:(?:lock|rep\w*|bnd|notrack|data16|cs) )*)(\S+)\s*([^#<]*)", line):
            at = int(m[1], 16)
            if before is not None:
                f.ins[before][2] = at
            f.ins[at] = [m[3], m[4].strip(), None]
            before = at
    return {at: f for at, f in found.items() if at in code}


def moved(f, op, args, depth, fp):
    """The depth after an instruction that is no branch, and what of it rbp stands for."""
    if op.startswith("push"):
        return depth + 8, fp
    if op.startswith("pop"):
        return depth - 8, None if args == "%rbp" else fp
    if op.startswith("leave"):
        return fp - 8, None
    if args == "%rsp,%rbp" and op.startswith("mov"):
        return depth, depth
    if not args.endswith(",%rsp") or op.startswith(("cmp", "test")):
        return depth, fp
    if m := re.match(r"\$(-?0x[0-9a-f]+),", args):
        n = int(m[1], 16)
        n -= 1 << 64 if n >> 63 else 0
        if op.startswith(("sub", "add")):
            return depth + (n if op.startswith("sub") else -n), fp
        if op.startswith("and"):
            return depth - n - 1, fp    # the most that it can be
    if m := re.match(r"(-?0x[0-9a-f]+)?\((%rsp|%rbp)\),", args) if op.startswith("lea") else None:
        return (depth if m[2] == "%rsp" else fp) - int(m[1] or "0", 16), fp
    if op.startswith("mov") and args == "%rbp,%rsp" and fp is not None:
        return fp, fp
    sys.exit(f"depth: {f.name}: {op} {args} is not understood")


class Depths:
    def __init__(self, all_functions):
        self.of = all_functions
        self.names = {f.name: f for f in all_functions.values()}
        self.look_at_addresses()

    def look_at_addresses(self):
        """A function whose address is taken is called by somebody."""
        known = {self.names[x].at for called in CALLED.values() for x in called if x in self.names}
        for f in self.of.values():
            for op, args, after in f.ins.values():
                m = re.match(r"(-?0x[0-9a-f]+)\(%rip\)", args) if op.startswith("lea") and after else None
                at = after + int(m[1], 16) if m else None
                if at in self.of and at not in known:
                    sys.exit(f"depth: {f.name}: who calls {self.of[at].name}, whose address it takes?")

    def whose(self, at):
        return self.of[max(x for x in self.of if x <= at)]

    def called(self, f, args):
        if not args.startswith("*"):
            return [self.whose(int(args, 16))]
        if f.name.split(".")[0] not in CALLED:
            sys.exit(f"depth: {f.name}: what does call {args} call?")
        return [self.names[x] for x in CALLED[f.name.split(".")[0]]]

    def deepest(self, f):
        if f.deepest is None:
            f.deepest = sys.maxsize     # while it is looked at
            f.deepest = self.follow(f)
        if f.deepest == sys.maxsize:
            sys.exit(f"depth: {f.name} calls itself")
        return f.deepest

    def follow(self, f, left_out=()):
        """Functions that are jumped to are followed as a part of this one: the frame may be there still, or not."""
        most, seen, todo = 0, {}, [(f.at, 0, None)]
        while todo:
            at, depth, fp = todo.pop()
            if at is None or seen.get(at, -1) >= depth:
                continue
            seen[at], most = depth, max(most, depth)
            if depth > MOST:
                sys.exit(f"depth: {f.name}: no end is seen")
            here = self.whose(at)
            if here.name in left_out:
                continue
            op, args, after = here.ins[at]
            if op.startswith("call"):
                called = [g for g in self.called(here, args) if g.name not in left_out]
                most = max([most, depth + 8, *(depth + 8 + self.deepest(g) for g in called)])
            elif op.startswith("j"):
                if args.startswith("*"):
                    sys.exit(f"depth: {here.name}: jumps to {args}")
                todo.append((int(args, 16), depth, fp))
                if op.startswith("jmp"):
                    continue
            elif op not in ENDS:
                depth, fp = moved(here, op, args, depth, fp)
            if op not in ENDS:
                todo.append((after, depth, fp))
        return most


def depths(objdump, blob):
    """Bytes below the stack pointer at each entry, in the order of ENTRIES, and for each kind of work of blob_program; the return
    address is above it."""
    d = Depths(functions(objdump, blob))
    of_work = [{x for x in d.names if re.match(pattern, x)} for pattern in WORK]
    if not all(of_work[1:]):
        sys.exit("depth: a kind of work has no function")
    works = [d.follow(d.names["blob_program"], set().union(*of_work) - mine) for mine in of_work]
    return [d.deepest(d.names[x]) for x in ENTRIES], works


if __name__ == "__main__":
    d = Depths(functions(*sys.argv[1:]))
    for f in sorted(d.of.values(), key=d.deepest, reverse=True):
        print(f"{d.deepest(f):5} {f.name}")
