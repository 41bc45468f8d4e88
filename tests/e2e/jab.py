# SPDX-License-Identifier: MIT
"""Runs the real binary, reads what it says, and looks at a process from outside.

The binary is build/jab, or $JAB. A run that takes longer than LIMIT counts as hung.
"""
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from targets import LIMIT, ROOT

# Started in the background or by nohup, we would hand ignored signals on to what we end with them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["LC_ALL"] = "C.UTF-8"        # we read what tools say

JAB = os.environ.get("JAB", str(ROOT / "build" / "jab"))


def lines_of(text):
    """Lines end with \\n and nothing else: str.splitlines() cuts at \\x0b, \\x1c, \\x85 and more, which a text may hold."""
    return text.removesuffix("\n").split("\n") if text else []


def number(value):
    """Of a field in JSON: an enum has a name beside its number."""
    return value["value"] if isinstance(value, dict) and "value" in value else value


def without_gap(text):
    """Without the two empty lines that separate a script's maps from what was printed before."""
    return re.sub(r"\n\n(?=@|\Z)", "", text, count=1)


class Result:
    """What one run left: status, its own output (of a script: without_gap()), stderr (without how many probes there are), and the
    parsed JSON lines."""

    def __init__(self, status, output, stderr, stdout=""):
        output = without_gap(output)
        stderr = re.sub(r"^Attached \d+ probes?\n", "", stderr, flags=re.M)
        self.status, self.output, self.stderr, self.stdout = status, output, stderr, stdout
        self.objects = [json.loads(x) for x in lines_of(output) if x.startswith("{")]
        self.summary = self.objects[-1].get("summary") if self.objects else None
        self.rows = [o for o in self.objects if "summary" not in o]

    def hits(self, function, probe=None):
        """Hits of a function by its plain name; parameters of C++ names don't matter."""
        rows = [r for r in self.rows if plain(r["function"]) == function and probe in (None, r["probe"])]
        return sum(r["hits"] for r in rows)

    def probe(self, text):
        return next(p for p in self.summary["probes"] if p["probe"] == text)

    def __repr__(self):
        return f"status {self.status}\n--- output\n{self.output[-3000:]}\n--- stderr\n{self.stderr[-3000:]}"


def plain(name):
    """shop::work(int)::h0123 -> shop::work"""
    name = re.sub(r"\(.*\)( const)?$", "", name)
    return re.sub(r"::h[0-9a-f]{16}$", "", name)


def run(*args, limit=None, wrap=(), **popen):
    """Any jab command, its output as it is."""
    p = subprocess.run([*wrap, JAB, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       errors="replace", timeout=limit or LIMIT, **popen)
    return Result(p.returncode, p.stdout, p.stderr)


def count_command(probes, command, options=(), limit=None, wrap=(), **popen):
    """jab count ... -- COMMAND, to its end. Result.stdout is the command's own output."""
    with tempfile.TemporaryDirectory() as d:
        out = Path(d) / "out"
        if wrap:
            os.chmod(d, 0o777)
        p = subprocess.run([*wrap, JAB, "count", "--json", "-o", str(out), *options, *probes, "--", *map(str, command)],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                           timeout=limit or LIMIT, **popen)
        text = out.read_text() if out.exists() else ""
    return Result(p.returncode, text, p.stderr, p.stdout)


class Count:
    """jab count -p PID that runs until stop(). Entered, its probes are active."""

    def __init__(self, pid, *probes, options=(), wrap=(), wait=True):
        self.out = tempfile.TemporaryFile("w+")
        self.stderr, self.active, self.ended = [], threading.Event(), threading.Event()
        self.process = subprocess.Popen([*wrap, JAB, "count", "-v", "--json", "-p", str(pid), *options, *probes],
                                        stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.PIPE, text=True,
                                        errors="replace")
        self.reader = threading.Thread(target=self.read_stderr, daemon=True)
        self.reader.start()
        if wait:
            self.wait_active()

    def read_stderr(self):
        for line in self.process.stderr:
            self.stderr.append(line)
            if line.startswith("jab: active:"):
                self.active.set()
        self.ended.set()
        self.active.set()

    def wait_active(self):
        assert self.active.wait(LIMIT), "jab does not become active:\n" + "".join(self.stderr)
        if not any(line.startswith("jab: active:") for line in self.stderr):    # it may have ended since then, as it was told to
            raise AssertionError("jab ended before it was active: " + str(self.result(self.process.wait(LIMIT))))

    def result(self, status):
        self.reader.join(LIMIT)
        self.out.seek(0)
        return Result(status, self.out.read(), "".join(self.stderr))

    def wait(self):
        return self.result(self.process.wait(LIMIT))

    def stop(self):
        """Ctrl-C, then its final table."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.process.poll() is None:
            self.kill()
        self.out.close()


# --- a process, from outside ---

def maps(pid):
    """Lines of /proc/PID/maps, without the numbers that need not agree."""
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def text_hash(pid):
    """The bytes of every executable mapping."""
    sums = {}
    with open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps(pid):
            where, perms = line.split()[:2]
            if "x" not in perms or "[vsyscall]" in line:
                continue
            lo, hi = (int(x, 16) for x in where.split("-"))
            mem.seek(lo)
            sums[line] = hashlib.sha256(mem.read(hi - lo)).hexdigest()
    return sums


def changed_text(pid, most=8):
    """Where text is not what its file says, so many places (None: all): a failed comparison should show it, whoever wrote that."""
    found = []
    with open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps(pid):
            where, perms, offset, _, inode, *path = line.split(None, 5)
            if "x" not in perms or inode == "0" or not os.path.exists(path[0]):
                continue
            lo, hi = (int(x, 16) for x in where.split("-"))
            mem.seek(lo)
            now, was = mem.read(hi - lo), Path(path[0]).read_bytes()[int(offset, 16):][:hi - lo]
            at = [i for i, (a, b) in enumerate(zip(now, was)) if a != b] if now[:len(was)] != was else []
            found += [f"{path[0]}+{int(offset, 16) + i:#x}: {now[i]:02x} instead of {was[i]:02x}" for i in at]
    return found[:most]


def descriptors(pid):
    got = {}
    for p in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):        # closed meanwhile
            got[p.name] = os.readlink(p)
    return got


STATUS_FIELDS = ("TracerPid", "SigQ", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Seccomp", "Threads")


def thread_status(pid):
    got = {}
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        fields = dict(x.split(":\t", 1) for x in (task / "status").read_text().splitlines() if ":\t" in x)
        got[task.name] = {k: fields[k] for k in STATUS_FIELDS if k in fields and k != "SigQ"}
    return got


def wait_idle(pid):
    """Until nobody runs: a thread that was waited for is still seen for a moment, on its way out."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        states = set()
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states.add((task / "stat").read_text().rpartition(")")[2].split()[0])
        if states <= {"S", "T", "t", "D"}:
            return
        time.sleep(.002)


def snapshot(pid):
    """All that must be the same after a detach. For a target that is idle."""
    wait_idle(pid)
    return {"maps": maps(pid), "text": text_hash(pid), "fds": descriptors(pid), "threads": thread_status(pid)}


def differences(before, after):
    """What a failed comparison should show: only what differs."""
    out = []
    for part in before:
        if before[part] == after[part]:
            continue
        b, a = before[part], after[part]
        if isinstance(b, dict):
            b, a = ([f"{k}: {v}" for k, v in sorted(x.items())] for x in (b, a))
        out += [f"{part} - {x}" for x in b if x not in a] + [f"{part} + {x}" for x in a if x not in b]
    return "\n".join(out)


def assert_same(before, pid):
    now = snapshot(pid)
    assert before == now, "the target was changed:\n" + differences(before, now)


def leftovers(pid):
    """Mappings and descriptors of ours that are still there."""
    found = [x for x in maps(pid) if "memfd:jab" in x]
    return found + [v for v in descriptors(pid).values() if "memfd:jab" in v]


def may_raise_limits():
    """CAP_SYS_RESOURCE: beyond hard limits. In a container root does not have it."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"CapEff:\s*(\S+)", status)[1], 16) >> 24 & 1 == 1


def settle_threads(pid, n):
    """Wait until a target has n threads: those of a finished phase take a moment to go."""
    end = time.monotonic() + LIMIT
    while len(os.listdir(f"/proc/{pid}/task")) != n and time.monotonic() < end:
        time.sleep(0.01)


def base_address(pid, path):
    """Where a file's first mapping is."""
    name = str(path)
    return next(int(x.split("-")[0], 16) for x in maps(pid) if x.endswith(" " + name))


def symbols(path):
    """name -> link address, from nm."""
    text = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
    return {f[2]: int(f[0], 16) for f in (x.split() for x in text.splitlines()) if len(f) == 3}
