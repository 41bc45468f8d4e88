#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Every script of tests/e2e/beside.py by bpftrace and by jab, or those that are named. Needs root; takes a second or two
for each. Ends with status 1 if one differs."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

import beside       # noqa: E402
import targets      # noqa: E402


def one(case):
    """True: they agree."""
    try:
        theirs, ours, said = beside.compare(case)
    except targets.Missing as e:
        print(f"skip {case.name}: {e}")
        return True
    good = bool(theirs) and ours == theirs
    print("ok  " if good else "BAD ", case.name, flush=True)
    if not good:
        print("  bpftrace:", *theirs, "  jab:", *ours, "  said:", said, sep="\n    ")
    return good


def main():
    why = beside.missing()
    if why:
        print(f"skipped: {why}")
        return 0
    chosen = [c for c in beside.CASES if c.name in sys.argv[1:] or not sys.argv[1:]]
    bad = [c.name for c in chosen if not one(c)]
    print(f"{len(chosen) - len(bad)} of {len(chosen)} agree")
    return bool(bad)


sys.exit(main())
