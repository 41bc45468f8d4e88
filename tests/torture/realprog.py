# SPDX-License-Identifier: MIT
"""Places, variables and members of real programs by chance, and how jab's and gdb's values of them are compared: for
samestate.py. gdb chooses, from the debug info alone; jab says where the places are and which expressions it takes."""
import json
import re
import subprocess
from pathlib import Path

import gdb as gdbs
import jab

HERE = Path(__file__).resolve().parent
KINDS = ["entry", "entry", "offset", "offset", "offset", "address", "line", "line", "inlined", "inlined", "exit"]
LIMIT = 600
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "DEBUGINFOD_URLS": ""}


def words(steps, mode):
    """A list of steps, as it is written in C."""
    first = steps[0]
    said = "retval" if first[0] == "ret" else f"sizeof({first[1]})" if first[0] == "sizeof" else first[1]
    for step in steps[1:]:
        if step[0] == "field":
            said += step[2] + step[1]
        elif step[0] == "index":
            said += f"[{step[1]}]"
        else:
            said = f"(*{said})"
    return said + (":string" if mode == "string" else "")


class Asker:
    def __init__(self, program, report, scratch):
        self.program, self.report, self.scratch = program, report, Path(scratch)
        self.lowest = gdbs.lowest(program.path)

    def gdb(self, what, **todo):
        env = dict(ENV, REALPROG=str(self.scratch / "todo"))
        todo.update(what=what, output=str(self.scratch / "said"), program=str(self.program.path), lowest=self.lowest,
                    args=self.program.args)
        (self.scratch / "todo").write_text(json.dumps(todo))
        r = subprocess.run(["gdb", "-nx", "-batch", "-x", str(HERE / "realprog_gdb.py"), str(self.program.path)], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, errors="replace", timeout=LIMIT, cwd=self.program.run, env=env)
        if "Traceback" in r.stderr or r.returncode:
            raise RuntimeError("gdb: " + r.stderr[-3000:])
        return (self.scratch / "said").read_text()

    def command(self):
        return [str(self.program.path), *self.program.args]

    def jab(self, *args):
        self.program.drive()
        return subprocess.run(["setarch", "-R", jab.JAB, *map(str, args), "--", *self.command()], stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT,
                              cwd=self.program.run, env=ENV)

    def functions(self):
        """{name: (entry, size)} of those that run, of names that are there once and that have debug info or not."""
        out = self.scratch / "counts"
        r = self.jab("count", "--json", "-o", out, "exe:*")
        if not out.exists():
            raise RuntimeError(r.stderr)
        rows = [json.loads(x) for x in out.read_text().splitlines()]
        hit = {jab.plain(o["function"]): o["hits"] for o in rows if o.get("hits")}
        names, self.entries = {}, set()
        for line in subprocess.run(["nm", "-CS", str(self.symbols())], capture_output=True, text=True).stdout.splitlines():
            m = re.match(r"([0-9a-f]+) ([0-9a-f]+) [tTW] (.*)$", line)
            if m:
                self.entries.add(int(m[1], 16))
            if m and re.match(r"[A-Za-z_][\w:]*$", jab.plain(m[3])):
                names.setdefault(jab.plain(m[3]), []).append((int(m[1], 16), int(m[2], 16)))
        return {n: a[0] for n, a in names.items() if len(a) == 1 and 0 < hit.get(n, 0) < 20000}

    def symbols(self):
        notes = subprocess.run(["readelf", "-n", str(self.program.path)], capture_output=True, text=True).stdout
        number = re.search(r"Build ID: (\w\w)(\w+)", notes)
        other = Path(f"/usr/lib/debug/.build-id/{number[1]}/{number[2]}.debug") if number else None
        return other if other and other.exists() else self.program.path

    def places(self, functions, n, dice):
        names = sorted(functions)
        wanted = [(f, *functions[f], dice.choice(KINDS), dice.randrange(1 << 30)) for f in (dice.choice(names) for _ in range(n))]
        said = json.loads(self.gdb("choose", wanted=wanted))
        said = json.loads(self.gdb("questions", places=[p for p in said if self.locate(p)], each=6))
        return [p for p in said if self.try_it(p)]

    def locate(self, p):
        """Where jab puts it."""
        r = jab.run("check", "--json", self.program.path, p["probe"])
        kind = "exit" if p["kind"] == "exit" else None
        p["addresses"] = sorted({int(o["address"], 16) for o in r.rows if "address" in o and kind in (None, o["kind"])})
        if r.status or not p["addresses"] or any(o.get("tactic") == "refused" for o in r.rows):
            self.report.count("place refused")
            return False
        return len(p["addresses"]) <= 40

    def try_it(self, p):
        """Which of the expressions jab takes."""
        p["refused"], p["address"] = {}, None
        while len(p["refused"]) < len(p["asked"]):
            r = self.jab_dry(p)
            if r.status == 0:
                break
            if len(p["addresses"]) > 1 and p["kind"] != "exit":     # other copies may have less: this one for itself
                p["probe"], p["addresses"] = f"exe:{p['addresses'][0]:#x}", p["addresses"][:1]
                continue
            said = re.search(r"^.*: ERROR: .*\n(.*)\n( *)~", r.stderr, re.M)
            number = re.findall(r"\bx(\d+)=", said[1][:len(said[2]) + 1]) if said else []
            if not number:
                self.report.fail(p["probe"], "can't tell which field is meant: " + r.stderr)
                return False
            p["refused"][int(number[-1])] = said[0].splitlines()[0]
        return True

    def text(self, i, p):
        return f"p{i}={p['probe']} " + " ".join(f"x{k}={words(*q)}" for k, q in enumerate(p["asked"]) if k not in p["refused"])

    def jab_dry(self, p):
        return jab.run("trace", "--strict", "--dry-run", self.text(0, p), "--", *self.command(), cwd=self.program.run)


def is_told(other):
    """gdb has an answer."""
    return not (isinstance(other, dict) and set(other) & {"gone", "error", "odd", "whole"})


def shown(text):
    """How many marks stand for bytes that are no text is a matter of taste."""
    return re.sub("\ufffd+", "\ufffd", text)


def is_same(mine, other):
    """A value of jab's and one of gdb's."""
    if isinstance(other, dict) and "text" in other:
        if isinstance(mine, dict):
            mine = mine.get("cut")                  # an array without an end, or more than is wanted
        return mine is not None and shown(mine)[:60] == shown(other["text"].encode("latin1").decode("utf-8", "replace"))[:60]
    if isinstance(other, dict) and "fault" in other:
        return isinstance(mine, dict) and "fault" in mine
    if isinstance(other, float) and other != other:
        return mine != mine or mine in (None, "nan", "-nan")
    if isinstance(other, float) and isinstance(mine, str):
        return float(mine) == other                 # JSON has no infinity
    return mine == other


def pairs(k, mode, fields, other):
    """(member, jab's value, gdb's value) of an answer."""
    if mode != "whole":
        return [("", fields.get(f"x{k}", {"missing": sorted(fields)}), other)]
    mine = {n[len(f"x{k}"):]: v for n, v in fields.items() if n == f"x{k}" or n.startswith(f"x{k}_")}
    if "fault" in other:
        return [(n, v, other) for n, v in mine.items()]
    if not mine or "whole" not in other:
        return [("", list(mine.values()) or {"missing": sorted(fields)}, other)]
    theirs = {re.sub(r"___(\d)", r"_\1", n): v for n, v in other["whole"].items()}
    # members of other variants than the one that is there are nothing for gdb
    return [(n, v, theirs.get(re.sub(r"___(\d)", r"_\1", n), v if v in (0, "", "0x0") else {"error": "not a member"})) for n, v in mine.items()]


def explain(p, k, mine, other, code, is_entry, is_optimised):
    """Why the two may differ; None if they may not. is_entry: a function begins there."""
    if mine == {"unknown": "optimized out"} and isinstance(other, dict) and "gone" in other:
        return "gone for both"
    if mine == "0x0" and other == 0 and isinstance(other, int):
        return "nullptr, whose type is int for gdb"
    if isinstance(mine, dict) and mine.get("unknown") == "tail call" and code[:2] in ("e9", "eb", "ff", "41"):
        return "tail call"
    refused = mine.get("refused", "") if isinstance(mine, dict) else ""
    name = (p["asked"][k][0][0] + [""])[1]
    if "the pointer itself is optimised away" in refused:
        return "a pointer that is nowhere, though its target is"
    if "described in a way that is not supported" in refused:
        return "a loop in the debug info"
    if "unknown name" in refused and p["asked"][k][0][0][2:] == ["static"]:
        return "a static variable of a block that has no code here"
    if "its debug info is damaged" in refused:
        return "damaged debug info, for gdb too"
    if refused and other == {"whole": {}}:
        return "an empty object"
    if "is a float in an integer register" in refused:
        return "refused: a float in an integer register"
    if isinstance(other, dict) and "odd type of return value" in other.get("error", ""):
        return "not compared"
    if mine == {"unknown": "optimized out"} and name in p["caller"]:
        return "entry value, which gdb finds at a caller's caller"
    if "not kept up to this address" in refused or "optimised away at this address" in refused and name in p["caller"]:
        return "entry value, which gdb finds at the caller"
    if refused and isinstance(other, dict) and set(other) & {"error", "odd"}:
        return "refused by both"
    if isinstance(other, dict) and "is not a structure" in other.get("error", ""):
        return "a variant of Rust's that is not there now"
    if name in p["begins"]:
        return "of the copy that begins there, and of its caller"
    if isinstance(other, dict) and other.get("error", "").startswith("no ") and p["kind"] in ("inlined", "line", "exit"):
        return "only jab knows the name"
    if is_entry and isinstance(other, dict) and "gone" in other and (not isinstance(mine, dict) or "fault" in mine):
        return "only jab knows (entry, by the calling convention)"
    if isinstance(other, dict) and "gone" in other and not refused and name in p["empty"]:
        return "only jab knows (location views)"
    if isinstance(other, dict) and "gone" in other and not refused and name in p["caller"]:
        return "entry value, which only jab finds"
    if is_entry and not is_optimised and not refused:
        return "gdb looks where the arguments are going to be stored"
    if isinstance(other, dict) and "odd" in other:
        return "not compared"
    return None
