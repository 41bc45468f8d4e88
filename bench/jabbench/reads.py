# SPDX-License-Identifier: MIT
"""What it costs to record what a pointer points to, in each of the ways."""

import subprocess

from .common import Wrong


def run(_jab, builder, result):
    done = subprocess.run([builder.inside("read_cost")], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Wrong("read_cost: " + (done.stdout + done.stderr)[-500:])
    rows = {}
    for line in done.stdout.splitlines():
        print("  " + line)
        words = line.rsplit(None, 2)
        if words[-1][0].isdigit():
            rows[words[0]] = {"ns": float(words[1]), "rdtsc": float(words[2])}
    result.data["reads"] = rows
