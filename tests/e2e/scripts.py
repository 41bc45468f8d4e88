# SPDX-License-Identifier: MIT
"""Scripts of the language, run by the real binary; what they print, taken apart."""
import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import jab
from targets import LIMIT


def run(text, *command, options=(), params=(), limit=None, **popen):
    """jab -e TEXT -- COMMAND. Result.output is ours, Result.stdout the command's."""
    with tempfile.TemporaryDirectory() as d:
        out = Path(d) / "out"
        args = [jab.JAB, "-e", text, "-o", str(out), *map(str, options), *map(str, params)]
        if command:
            args += ["--", *map(str, command)]
        p = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                           timeout=limit or LIMIT, **popen)
        ours = out.read_text(errors="replace") if out.exists() else ""
    return jab.Result(p.returncode, ours, p.stderr, p.stdout)


class Script(jab.Count):
    """jab -e TEXT with running targets, until stop(). Entered, its probes are active."""

    def __init__(self, text, *pids, options=(), wait=True):
        self.out = tempfile.TemporaryFile("w+")
        self.stderr, self.active, self.ended = [], threading.Event(), threading.Event()
        who = [x for p in pids for x in ("-p", str(p))]
        self.process = subprocess.Popen([jab.JAB, "-v", "-e", text, *who, *map(str, options)], stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=subprocess.PIPE, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read_stderr, daemon=True)
        self.reader.start()
        if wait:
            self.wait_active()

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        self.signal(signal.SIGINT)
        return self.wait()


def told(text):
    """What tests/prog/script.c says: {"sum": "5", "word": {"alpha": (2, 3)}, "hist": {4: 1}, ...}"""
    found = {"word": {}, "item": {}, "pair": {}, "hist": {}, "lhist": {}}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name in ("hist", "lhist"):
            low, n = rest.split()
            found[name][int(low)] = int(n)
        elif name in ("word", "item", "pair"):
            n, total, key = rest.split(" ", 2)
            found[name][key] = (int(n), int(total))
        else:
            found[name] = rest
    return found


def scalar(text, name):
    """The value of @name, as it is printed."""
    found = re.findall(rf"^@{name}: (.*)$", text, re.M)
    assert len(found) == 1, text
    return found[0]


def keyed(text, name):
    """{key: value} of @name[...], both as they are printed."""
    found = re.findall(rf"^@{name}\[(.*?)\]: (.*)$", text, re.M)
    assert len(dict(found)) == len(found), text
    return dict(found)


def size(text):
    """4K -> 4096"""
    units = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


def low_end(text):
    """[4, 8) -> 4; [7] -> 7; (..., 0) -> None; [100, ...) -> 100"""
    first = re.split(r"[,\])]", text[1:])[0]
    return None if first == "..." else size(first)


def histogram(text, name):
    """{low end: n} of the lines below @name:, empty ones left out."""
    lines = [x.rstrip() for x in text.splitlines()]
    at = lines.index(f"@{name}:")
    found = {}
    for line in lines[at + 1:]:
        m = re.match(r"([(\[].*?[\])])\s+(\d+) \|", line)
        if not m:
            break
        if int(m[2]):
            found[low_end(m[1])] = int(m[2])
    return found
