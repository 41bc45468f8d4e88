# SPDX-License-Identifier: MIT
"""How long until the probes are in, and out again; and what they take in memory."""

from .common import Jab, Program, Skip, Wrong, median, number, table
from .tracefs import Tracefs

# functions of the program, probes, spec, rounds
CASES = [
    (5000, 1, "exe:f10000", 7),
    (5000, 100, "exe:f100??", 5),
    (5000, 1000, "exe:f10???", 5),
    (5000, 5000, "exe:f?????", 5),
    (50000, 1, "exe:f10000", 3),
    (50000, 5000, "exe:/^f1[0-4]...$/", 3),
    (50000, 50000, "exe:f?????", 3),
]
PHASES = ("symbols_ns", "plan_ns", "write_ns", "pause_ns")


def one(jab, program, spec, probes, expected):
    """Attach, let every function run once, detach; what came out must be right."""
    with Jab(jab, program.pid, [spec]) as run:
        answer = program.ask("call 1")
        summary = run.stop()
    if answer != expected:
        raise Wrong("the program computes something else with %d probes" % probes)
    if summary["placed"] == probes and summary["hits"] != probes:
        raise Wrong("%d hits instead of %d" % (summary["hits"], probes))
    return summary


def net(run):
    """The three steps without the time in which other programs had the CPU; never less than we worked."""
    steps = sum(run["attach"][p] for p in PHASES[:3]) / 1e6
    return min(steps, max(steps - run["waited_ms"], run["ran_ms"]))


def middle(runs):
    mid = {p: median(r["attach"][p] for r in runs) / 1e6 for p in PHASES}
    for key in ("active_ms", "removal_ms", "peak_kb", "placed", "ran_ms", "waited_ms"):
        mid[key] = median(r[key] for r in runs)
    for key in ("pads", "pad_bytes", "data_bytes"):
        mid[key] = runs[0]["attach"][key]
    mid["steps"] = median(sum(r["attach"][p] for p in PHASES[:3]) for r in runs) / 1e6
    mid["net"] = median(net(r) for r in runs)
    return mid


def measure(jab, program, cases, result, out):
    expected = program.ask("call 1")
    for functions, probes, spec, rounds in cases:
        try:
            runs = [one(jab, program, spec, probes, expected) for _ in range(rounds)]
        except Wrong as e:
            result.problem("%d of %d functions: %s" % (probes, functions, e))
            continue
        out[functions, probes] = middle(runs)


def judge(result, what, limit, mid, value, note):
    """The time as seen; where that is too long, the net one, and the table says so."""
    lost = mid["steps"] - mid["net"]
    if value > limit and lost > 0:
        note = "net; as seen %s ms; %s" % (number(value), note)
        value -= lost
    result.target(what, limit, "ms", value, note)


def first_probe(jab, builder, result):
    """One probe in a small program."""
    with Program(builder.program("hit", ["hit.c", "hit.S"])) as program:
        runs = []
        for _ in range(7):
            with Jab(jab, program.pid, ["exe:work_push"]) as run:
                runs.append(run.stop())
    mid = middle(runs)
    result.data["first_probe"] = mid
    judge(result, "first probe, small program", 3, mid, mid["steps"],
          "from the start of the command: %s ms" % number(mid["active_ms"]))
    return mid


def show(small, out):
    def row(name, m):
        return [name] + ["%.2f" % x for x in [m[p] for p in PHASES] + [
            m["steps"], m["net"], m["active_ms"], m["ran_ms"], m["waited_ms"], m["removal_ms"]]]

    table(["ms", "symbols", "plan", "write", "pause", "sum", "net", "active", "ran", "waited", "removal"],
          [row("1 in a small program", small)] +
          [row("%d of %d functions" % (p, n), m) for (n, p), m in out.items()])
    print("  sum: symbols, plan, write; net: without the time that jab waited for a CPU.\n"
          "  active: from the start of the command, in which jab ran and waited so long. removal: from Ctrl-C to its end.")


def show_memory(out):
    rows = []
    for (n, p), m in out.items():
        pads = max(m["pads"], 1)
        rows.append(["%d of %d functions" % (p, n), m["pads"], m["pad_bytes"] / pads, m["pad_bytes"] / 1024,
                     m["data_bytes"] / 1024, m["peak_kb"] / 1024])
    table(["memory", "pads", "bytes a pad", "pads kB", "data kB", "jab's peak MB"], rows)


def uprobes(builder):
    """The kernel's own way for the same functions; its removal takes a grace period for each."""
    rows = []
    with Program(builder.program("many5000", ["many.c", "many.S"], "-DN=5000")) as program, Tracefs() as tracefs:
        for n, rounds in ((1, 3), (100, 1)):
            offsets = [program.file_offset(int(program.ask("where %d" % i), 16)) for i in range(n)]
            pairs = [(tracefs.insert(program.path, offsets), tracefs.remove()) for _ in range(rounds)]
            rows.append(["%d uprobes" % n, median(a for a, _ in pairs), median(b for _, b in pairs)])
    table(["ms", "active", "removal"], rows)
    return rows


def targets(out, result):
    if (5000, 5000) in out:
        m = out[5000, 5000]
        judge(result, "5,000 probes, without symbols", 50, m, m["plan_ns"] + m["write_ns"],
              "symbols %s ms" % number(m["symbols_ns"]))
        result.target("a pad", 512, "bytes", m["pad_bytes"] / max(m["pads"], 1),
                      "5,000 probes: pads %s kB, data %s kB, jab itself %s MB" %
                      (number(m["pad_bytes"] / 1024), number(m["data_bytes"] / 1024), number(m["peak_kb"] / 1024)))
    if (50000, 50000) in out:
        m = out[50000, 50000]
        judge(result, "50,000 probes, with symbols", 500, m, m["steps"],
              "from the start of the command: %s ms" % number(m["active_ms"]))
        result.target("symbols of 50,000 functions", 100, "ms", m["symbols_ns"])


def run(jab, builder, result):
    small = first_probe(jab, builder, result)
    out = {}
    for functions in (5000, 50000):
        path = builder.program("many%d" % functions, ["many.c", "many.S"], "-DN=%d" % functions)
        with Program(path, "1") as program:
            measure(jab, program, [c for c in CASES if c[0] == functions], result, out)
    show(small, out)
    try:
        result.data["attach_uprobes"] = uprobes(builder)
    except Skip as e:
        print("  (uprobes: not measured: %s)" % e)
    show_memory(out)
    result.data["attach"] = {"%d/%d" % (p, n): m for (n, p), m in out.items()}
    targets(out, result)
