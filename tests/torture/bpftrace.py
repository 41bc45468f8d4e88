#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Scripts of tests/e2e/beside.py by bpftrace and by jab.

    bpftrace.py [--seconds N] [--seed N] [--only NAME,...] [--all]

In random order for so long, or all. Needs root; takes a second or two for each. Ends with status 1 if one differs."""
import random
import sys

from common import Report, arguments
import beside
import targets


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
    a = arguments(__doc__.splitlines()[0])
    why = beside.missing()
    report = Report(a.seconds, seed=a.seed)
    if why:
        report.line(skipped=why)
        return report.end()
    cases = [c for c in beside.CASES if not a.only or c.name in a.only]
    for case in report.in_time(cases, random.Random(a.seed), a.all):
        report.count("compared")
        if not one(case):
            report.fail(case.name, "they differ")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
