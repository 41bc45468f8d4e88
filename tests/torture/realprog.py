#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Typed values of real programs, jab's against gdb's: places, variables and members by chance.

    realprog.py [--seconds N] [--seed S] [--only bash,redis,python,genmatch,cc1] [--work DIR] [--places N]

A program runs without address randomization and with the same environment under gdb, under gdb again, and under jab. What the
first hits of a place show is compared value by value, where gdb agrees with itself: time and process numbers differ from
run to run. A difference is looked at again in another run of both before it counts. What one can tell and the other can't is
counted by reason. Rounds are repeated with other dice until the time is over. The sources come from Debian and are built
into DIR once, which takes minutes; the two of gcc (genmatch, which is C++, and cc1, which takes an hour) are left out
unless they are built already or asked for. Needs gdb, and for gcc libgmp-dev, libmpfr-dev and libmpc-dev.
"""
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
import gdb as gdbs
import jab
import realprog_build as build

HERE = Path(__file__).resolve().parent
KINDS = ["entry", "entry", "offset", "offset", "offset", "address", "line", "line", "inlined", "inlined", "exit"]
HITS = 3
LIMIT = 600
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "DEBUGINFOD_URLS": "",
       "MALLOC_PERTURB_": "000"}       # none; always of the same length, as the stack begins behind it


def words(steps, as_text):
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
    return said + (":string" if as_text else "")


class Asker:
    def __init__(self, program, report, scratch):
        self.program, self.report, self.scratch = program, report, Path(scratch)
        self.lowest = gdbs.lowest(program.path)

    def gdb(self, what, **todo):
        env = dict(ENV, REALPROG=str(self.scratch / "todo"))
        if todo.get("soil"):
            env["MALLOC_PERTURB_"] = "%03d" % todo["soil"]
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
        # The file's name in the environment has the same length and place as gdb's: so has the stack.
        self.program.drive()
        return subprocess.run(["setarch", "-R", jab.JAB, *map(str, args), "--", *self.command()], stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT,
                              cwd=self.program.run, env=dict(ENV, REALPROG=str(self.scratch / "todo")))

    def functions(self):
        """{name: entry} of those that run, of names that are there once and that have debug info or not."""
        out = self.scratch / "counts"
        r = self.jab("count", "--json", "-o", out, "exe:*")
        if not out.exists():
            raise RuntimeError(r.stderr)
        rows = [json.loads(x) for x in out.read_text().splitlines()]
        hit = {jab.plain(o["function"]): o["hits"] for o in rows if o.get("hits")}
        names = {}
        for line in subprocess.run(["nm", "-C", str(self.symbols())], capture_output=True, text=True).stdout.splitlines():
            m = re.match(r"([0-9a-f]+) [tTW] (.*)$", line)
            if m and re.match(r"[A-Za-z_][\w:]*$", jab.plain(m[2])):
                names.setdefault(jab.plain(m[2]), []).append(int(m[1], 16))
        return {n: a[0] for n, a in names.items() if len(a) == 1 and 0 < hit.get(n, 0) < 20000}

    def symbols(self):
        notes = subprocess.run(["readelf", "-n", str(self.program.path)], capture_output=True, text=True).stdout
        number = re.search(r"Build ID: (\w\w)(\w+)", notes)
        other = Path(f"/usr/lib/debug/.build-id/{number[1]}/{number[2]}.debug") if number else None
        return other if other and other.exists() else self.program.path

    def places(self, functions, n, dice):
        names = sorted(functions)
        wanted = [(f, functions[f], dice.choice(KINDS), dice.randrange(1 << 30)) for f in (dice.choice(names) for _ in range(n))]
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
        p["refused"] = {}
        while len(p["refused"]) < len(p["asked"]):
            r = self.jab_dry(p)
            if r.status == 0:
                break
            if len(p["addresses"]) > 1 and p["kind"] != "exit":     # other copies may have less: this one for itself
                p["probe"], p["addresses"] = f"exe:{p['addresses'][0]:#x}", p["addresses"][:1]
                continue
            at = re.search(r"^( *)\^", r.stderr, re.M)
            before = r.stderr[:at.start()].splitlines()[-1][:len(at[1]) + 1] if at else ""
            number = re.findall(r"\bx(\d+)=", before)
            if not number:
                self.report.fail(p["probe"], "can't tell which field is meant: " + r.stderr)
                return False
            p["refused"][int(number[-1])] = r.stderr.splitlines()[0]
        return True

    def text(self, i, p):
        return f"p{i}={p['probe']} " + " ".join(f"x{k}={words(*q)}" for k, q in enumerate(p["asked"]) if k not in p["refused"])

    def jab_dry(self, p):
        return jab.run("trace", "--dry-run", self.text(0, p), "--", *self.command(), cwd=self.program.run)

    def ask_gdb(self, places, soil=0):
        self.program.drive()
        said = {}
        for line in self.gdb("ask", places=places, hits=HITS, soil=soil).splitlines():
            i, pc, code, values = json.loads(line)
            said.setdefault(i, []).append((pc, code, values))
        return said

    def ask_jab(self, places):
        out = self.scratch / "events"
        r = self.jab("trace", "--json", "--no-follow", "--buffer-size", "32M", "-o", out, *[self.text(i, p) for i, p in enumerate(places)])
        said = {}
        main = None
        for line in out.read_text(errors="replace").splitlines():
            o = json.loads(line)
            if "fields" in o:
                main = main or o["pid"]
                if o["pid"] != main:                # gdb stays with the parent
                    continue
                said.setdefault(int(o["probe"].split(":")[0][1:]), []).append(o["fields"])
            elif "summary" in o and any(q["lost"] for q in o["summary"]["probes"]):
                self.report.count("runs with lost events")
                return None
        if not said:
            self.report.fail("jab shows nothing", r.stderr[:3000])
        return said


def is_same(mine, other):
    if isinstance(other, dict) and "text" in other:
        if isinstance(mine, dict):
            mine = mine.get("cut")                  # an array without an end, or more than is wanted
        return mine is not None and mine.encode("utf-8", "replace")[:60] == other["text"].encode("latin1").decode("utf-8", "replace").encode("utf-8", "replace")[:60]
    if isinstance(other, dict) and "fault" in other:
        return isinstance(mine, dict) and "fault" in mine
    if isinstance(other, float) and other != other:
        return mine != mine or mine in (None, "nan", "-nan")
    if isinstance(other, float) and isinstance(mine, str):
        return float(mine) == other                 # JSON has no infinity
    return mine == other


def judge(places, first, second, ours, report, exact=True):
    """Yields (place, hit, expression, jab's, gdb's) of differences."""
    for i, p in enumerate(places):
        a, b, mine = first.get(i, []), second.get(i, []), ours.get(i, [])
        report.count("places hit" if a else "places not hit")
        if len(a) != len(b):
            report.count("gdb differs from itself")
            continue
        if len(a) != min(len(mine), HITS) and (exact or not a or not mine):
            yield i, 0, "hits", len(mine), len(a)
            continue
        report.count(f"{p['kind']} compared", 1 if a else 0)
        for hit, (x, y, m) in enumerate(zip(a, b, mine)):
            for k, (q, u, v) in enumerate(zip(p["asked"], x[2], y[2])):
                name = words(*q)
                if u != v and u == u or x[0] != y[0]:
                    report.count("gdb differs from itself")
                elif k in p["refused"]:
                    if isinstance(u, dict) and "gone" in u:
                        report.count("gone for both")
                    else:
                        yield i, hit, name, {"refused": p["refused"][k]}, u
                elif f"x{k}" not in m:
                    yield i, hit, name, {"missing": sorted(m)}, u
                elif isinstance(u, dict) and ("gone" in u or "error" in u or "odd" in u):
                    yield i, hit, name, m[f"x{k}"], u
                elif is_same(m[f"x{k}"], u):
                    report.count("same")
                else:
                    yield i, hit, name, m[f"x{k}"], u


def explain(p, mine, other, code):
    """Why the two may differ; None if they may not."""
    if isinstance(mine, dict) and mine.get("unknown") == "tail call" and code[:2] in ("e9", "eb", "ff", "41"):
        return "tail call"
    refused = mine.get("refused", "") if isinstance(mine, dict) else ""
    if "the pointer itself is optimised away" in refused:
        return "a pointer that is nowhere, though its target is"
    if "described in a way that is not supported" in refused:
        return "a loop in the debug info"
    if isinstance(mine, dict) and "not kept up to this address" in mine.get("refused", "") and "gone" not in (other if isinstance(other, dict) else {}):
        return "entry value, which gdb finds at the caller"
    if isinstance(other, dict) and other.get("error", "").startswith("no ") and p["kind"] in ("inlined", "line", "exit"):
        return "only jab knows the name"
    if isinstance(other, dict) and "gone" in other and not isinstance(mine, dict):
        return "only jab knows" + (" (entry, by the calling convention)" if p["kind"] == "entry" else "")
    if isinstance(other, dict) and "odd" in other:
        return "not compared"
    return None


def round_of(asker, functions, n, dice, report):
    places = asker.places(functions, n, dice)
    first, second, ours = asker.ask_gdb(places), asker.ask_gdb(places, soil=0x5a), asker.ask_jab(places)
    if ours is None:
        return
    open_ = list(judge(places, first, second, ours, report, asker.program.exact))
    again = third = None
    shown = set()
    for i, hit, name, mine, other in open_:
        p = places[i]
        why = explain(p, mine, other, first[i][hit][1] if i in first else "")
        if why:
            report.count(why)
            continue
        if again is None:
            third, again = asker.ask_gdb(places), asker.ask_jab(places)
        still = again is not None and (i, hit, name, mine, other) in list(judge(places, third, second, again, Report.__new__(Quiet), asker.program.exact))
        if not still:
            report.count("not the same twice")
            continue
        if (i, name) not in shown:
            shown.add((i, name))
            report.fail(f"{p['probe']} hit {hit}: {name}", f"jab {mine!r}, gdb {other!r} in {asker.text(0, p)} at {first.get(i, [[None]])[hit][0]} of {p['addresses']}")


class Quiet(Report):
    def count(self, *_):
        pass


def options(p):
    p.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "jab-realprog", help="sources and programs, kept")
    p.add_argument("--places", type=int, default=60, help="of each round")


def main():
    a = arguments(__doc__.splitlines()[0], options)
    a.work.mkdir(parents=True, exist_ok=True)
    report = Report(a.seconds, seed=a.seed, work=str(a.work))
    dice = random.Random(a.seed)
    askers = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, kind in build.PROGRAMS.items():
            program = kind(a.work)
            if name not in a.only if a.only else program.is_slow():
                continue
            program.prepare()
            asker = Asker(program, report, scratch)
            askers.append((name, asker, asker.functions()))
            report.line(program=name, functions=len(askers[-1][2]))
        report.begin = time.monotonic()       # building does not count
        while report.time_left() > 0:
            for name, asker, functions in askers:
                if report.time_left() > 0:
                    seed = dice.randrange(1 << 30)
                    round_of(asker, functions, a.places, random.Random(seed), report)
                    report.line(round=name, seed=seed, tally=report.tally)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
