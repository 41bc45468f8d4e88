#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Go programs as all linkers make them, with names and without, under clauses of any size: they end as they do alone, every
hit is accounted for, and no call is paired with another. `golang.py --seconds N [--seed N]`."""
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Report, arguments

import jab          # noqa: E402
import scripts      # noqa: E402
import targets      # noqa: E402

WAYS = {"plain": [], "pie": ["-buildmode=pie"], "external": ["-ldflags=-linkmode=external"],
        "external_pie": ["-buildmode=pie", "-ldflags=-linkmode=external"]}
REFUSED = ("needs more stack than a Go function has", "it can't be seen")
KEYS = ["arg0", "arg1", "arg2", "arg0 % 10", "tid", "comm", "ustack(3)", "ustack(1)", "func", "nsecs % 7"]
PROBES = ["u:exe:main.inner", "u:exe:main.outer", "call:exe:main.middle", "call:exe:main.near", "insn:exe:main.split",
          "insn:exe:main.near", "call:exe:main.inner", "call:exe:main.descend", "u:exe:main.*", "insn:exe:main.middle"]
PAIRED = "call:exe:main.down { @n = count(); @sum = sum(retval); @bad = sum(retval != arg0 * 100 + arg1); }"


def build(name, way, d):
    out = d / f"{name}_{way}"
    targets.compile_to({"command": ["go", "build", *(f.replace("-ldflags", "--ldflags") for f in WAYS[way])]},
                       [targets.SRC / f"{name}.go"], out)
    return out


def library(d):
    """Go in a library of a C program, which is its own main()."""
    text = (targets.SRC / "tight.go").read_text().replace("package main", 'package main\n\nimport "C"', 1)
    (d / "tight.go").write_text(text.replace("func main() {", "func main() {}\n\n//export begin\nfunc begin() {"))
    (d / "main.c").write_text("void begin(void);\nint main(void)\n{\n\tbegin();\n\treturn 0;\n}\n")
    targets.compile_to({"command": ["go", "build", "-buildmode=c-shared"]}, [d / "tight.go"], d / "libtight.so")
    out = d / "tight_library"
    subprocess.run(["gcc", d / "main.c", "-o", out, f"-L{d}", "-ltight", "-Wl,-rpath,$ORIGIN"], check=True)
    return out


def clause(r):
    keys = ", ".join(r.sample(KEYS, r.randint(1, 4)))
    more = r.choice(["", "@s = stats(arg0); ", "@q[%s] = hist(arg1); " % r.choice(KEYS)])
    return "%s { @n = count(); %s@k[%s] = count(); }" % (r.choice(PROBES), more, keys)


def tight(r, path, alone):
    """What is wrong, or None."""
    text = "\n".join(clause(r).replace("@", f"@c{i}_") for i in range(r.randint(1, 3)))
    if path.name == "tight_library":
        text = text.replace("exe:", "libtight:")
    got = scripts.run(text, path, 100, 300)
    refused = got.status == 1 and not got.stdout and any(x in got.stderr for x in REFUSED)
    good = refused or (got.stdout == alone and got.status == 0 and "--buffer-size" not in got.stderr)
    return None if good else f"{path.name} {text}\n{got}"


def grow(path, n):
    got = scripts.run(PAIRED, path, n)
    if got.status or not got.stdout:
        return f"{path.name}: {got}"
    calls, total = got.stdout.split()[:2]
    # rarely two want the same place at the very same time
    given_up = sum(map(int, re.findall(r"(\d+) calls were given up", got.stderr))) + 5
    left_out = sum(map(int, re.findall(r"(\d+) returns", got.stderr)))
    paired = int(scripts.scalar(got.output, "n"))
    good = (got.status == 0 and scripts.scalar(got.output, "bad") == "0" and paired + left_out == int(calls) and
            left_out <= given_up and (left_out or scripts.scalar(got.output, "sum") == total))
    return None if good else f"{path.name}: {got}"


def main():
    a = arguments(__doc__)
    r, report = random.Random(a.seed), Report(a.seconds, seed=a.seed, jab=jab.JAB)
    if not shutil.which("go"):
        report.line(skipped="go is not installed")
        return report.end()
    with tempfile.TemporaryDirectory(prefix="jab-golang-") as d:
        made = {(name, way): build(name, way, Path(d)) for name in ("tight", "grow") for way in WAYS}
        made["tight", "library"] = library(Path(d))
        alone = subprocess.run([made["tight", "plain"], "100", "300"], capture_output=True, text=True).stdout
        rounds = 0
        while report.time_left() > 0 or not rounds or a.all and rounds < len(WAYS):
            way = list(WAYS)[rounds % len(WAYS)]
            rounds += 1
            if rounds == 2 * len(WAYS):     # from now on without names, but for Go's own
                for path in made.values():
                    subprocess.run(["strip", "--strip-all", path], check=True)
            for wrong in (tight(r, made["tight", way], alone), tight(r, made["tight", "library"], alone),
                          grow(made["grow", way], r.randint(50, 500))):
                report.count("runs")
                if wrong:
                    report.fail(way, wrong)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
