#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Every fuzzer of tests/fuzz for its share of the time, with real files as seeds: programs and libraries of this machine, the
test programs with debug info, all scripts of tests/lang. Takes those that are built with sanitizers, if there are any.

`fuzz.py --seconds N [--seed N] [--only elf,lang]`; ends with status 1 if one of them was not content. What made it so is kept in
/tmp/jab-fuzz-NAME."""
import glob
import os
import subprocess
import sys
from pathlib import Path

import common

TOP = Path(__file__).resolve().parents[2]
FOLDERS = [os.environ.get("FUZZ_BUILD", ""), "build-asan", "build"]
LARGEST = 4 << 20       # a seed that is copied each time


def existing(*patterns):
    found = [x for p in patterns for x in sorted(glob.glob(p)) if os.path.isfile(x)]
    return [x for x in found if 0 < os.path.getsize(x) <= LARGEST]


def elf_files():
    return existing("/bin/true", "/bin/ls", "/bin/bash", "/usr/bin/gdb", "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6",
                    "/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/x86_64-linux-gnu/libz.so.1",
                    "/usr/lib/x86_64-linux-gnu/libelf.so.1", str(TOP / "build/prog/*"))


def debug_files():
    return existing(str(TOP / "build*/tests/libfuzzseed.so"), str(TOP / "build/prog/*"))


SEEDS = {
    "ctf": list, "gen": list, "script": list, "shared": list, "spec": list, "unwind": list,
    "elf": elf_files, "dwarf": debug_files,
    "lang": lambda: existing(str(TOP / "tests/lang/*/*.bt")),
}


def program(name):
    for d in FOLDERS:
        p = TOP / d / "tests" / f"fuzz_{name}"
        if d and os.access(p, os.X_OK):
            return p
    return None


def run(report, name, seconds, seed):
    exe, seeds = program(name), SEEDS[name]()
    if not exe:
        report.count("not built")
        return
    kept = f"/tmp/jab-fuzz-{name}"
    mutates = name not in ("gen", "script")
    cmd = [str(exe), *seeds, "-t", str(max(1, int(seconds))), "-s", str(seed), *(["-k", kept] if mutates else [])]
    try:
        p = subprocess.run(cmd, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds + 300,
                           env={**os.environ, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"})
        status, out = p.returncode, p.stdout + p.stderr
    except subprocess.TimeoutExpired as e:
        status, out = "an endless run", (e.stdout or b"").decode(errors="replace")
    report.line(fuzzer=name, folder=exe.parent.parent.name, seeds=len(seeds), last=out.strip().splitlines()[-1:] if not status else status)
    report.count("fuzzers")
    if status:
        report.fail(f"{name}, seed {seed}, see {kept}", out)
    elif mutates and os.path.exists(kept):
        os.remove(kept)


def main():
    a = common.arguments(__doc__)
    report = common.Report(a.seconds, seed=a.seed)
    chosen = a.only or sorted(SEEDS)
    for name in chosen:
        run(report, name, a.seconds / len(chosen), a.seed % (1 << 31))
    return report.end()


sys.exit(main())
