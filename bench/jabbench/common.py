# SPDX-License-Identifier: MIT
"""Running things: programs that obey lines, jab beside them, and what a figure looks like."""

import json
import os
import select
import signal
import statistics
import subprocess
import time

median = statistics.median


class Skip(Exception):
    """Something can't be measured here; the text says why. No failure."""


class Wrong(Exception):
    """Something that must work did not: a failure, unlike any time."""


class Lines:
    """Lines of a pipe, with a deadline for each."""

    def __init__(self, fd):
        self.fd = fd
        self.rest = b""

    def next(self, seconds):
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise Wrong("no answer within %g s" % seconds)
            more = os.read(self.fd, 65536)
            if not more:
                return None
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace")


class Program:
    """One of bench/prog: it reads a line and answers with a line."""

    def __init__(self, *argv, **popen):
        self.path = argv[0]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **popen)
        self.lines = Lines(self.process.stdout.fileno())
        self.pid = self.process.pid

    def ask(self, text, seconds=60):
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.lines.next(seconds)
        if answer is None:
            raise Wrong("the target died (status %s)" % self.process.wait())
        if answer == "what?":
            raise Wrong("the target does not know '%s'" % text)
        return answer

    def numbers(self, text, seconds=60):
        return [float(word) for word in self.ask(text, seconds).split()]

    def file_offset(self, address):
        """Where in the file an address of the running program comes from."""
        with open("/proc/%d/maps" % self.pid) as maps:
            for line in maps:
                words = line.split()
                start, end = (int(x, 16) for x in words[0].split("-"))
                if start <= address < end:
                    return address - start + int(words[2], 16)
        raise Wrong("address %#x is not mapped" % address)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        wait_for(self.process)
        self.process.stdout.close()


def wait_for(process):
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_of(process):
    """bpftrace misses a signal that comes early, one time in some hundred."""
    process.terminate()
    wait_for(process)


def status_kb(pid, field):
    with open("/proc/%d/status" % pid) as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


def ran_and_waited_ms(pid):
    """How long a process had a CPU, and how long it was ready and had none."""
    try:
        with open("/proc/%d/schedstat" % pid) as f:
            return [int(word) / 1e6 for word in f.read().split()[:2]]
    except OSError:
        return [0, 0]


class Jab:
    """`jab count` (or another command) on a process, from its start to the line that says that the probes are in."""

    def __init__(self, jab, pid, probes, seconds=60, command=("count",)):
        argv = [jab, *command, "-p", str(pid), "-v", "--json"] + list(probes)
        self.start = time.monotonic()
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = []
        self.ended = False
        lines = Lines(self.process.stderr.fileno())
        try:
            self.wait_active(lines, seconds)
        except Wrong:
            self.end()
            raise

    def wait_active(self, lines, seconds):
        while True:
            line = lines.next(seconds)
            if line is None:
                raise Wrong("jab: " + ("; ".join(self.said) or "ended without a word"))
            self.said.append(line)
            if line.startswith("jab: active:"):
                break
        self.active_ms = (time.monotonic() - self.start) * 1e3
        self.ran_ms, self.waited_ms = ran_and_waited_ms(self.process.pid)
        self.peak_kb = status_kb(self.process.pid, "VmHWM")

    def end(self):
        self.ended = True
        self.process.send_signal(signal.SIGINT)
        try:
            out, err = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Wrong("jab did not end within 30 s of Ctrl-C")
        return out, err

    def stop(self):
        """Ctrl-C. Returns the summary object of the run, with our own times added."""
        start = time.monotonic()
        out, err = self.end()
        gone = (time.monotonic() - start) * 1e3
        if self.process.returncode:
            raise Wrong("jab: status %d: %s" % (self.process.returncode, err.decode(errors="replace")))
        summary = json.loads(out.decode().splitlines()[-1])["summary"]
        if not summary["clean"]:
            raise Wrong("jab did not leave the target clean: " + err.decode(errors="replace"))
        summary.update(active_ms=self.active_ms, removal_ms=gone, peak_kb=self.peak_kb, ran_ms=self.ran_ms, waited_ms=self.waited_ms,
                       hits=sum(p["hits"] or 0 for p in summary["probes"]),
                       placed=sum(p["sites"] - p["refused"] for p in summary["probes"]))
        return summary

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if not self.ended:
            self.end()


class Result:
    """Rows for the table at the end, and everything measured for the machine-readable file."""

    def __init__(self):
        self.rows = []
        self.data = {}
        self.problems = []

    def target(self, what, limit, unit, value, note="", at_least=False):
        good = None if value is None else value >= limit if at_least else value <= limit
        self.rows.append((what, limit, unit, value, good, note, at_least))

    def problem(self, text):
        self.problems.append(text)
        print("  FAILED: " + text)


def number(value):
    if value is None:
        return "-"
    if value == 0:
        return "0"
    return "%.0f" % value if abs(value) >= 1000 else "%.4g" % value


def table(head, rows):
    """Columns as wide as needed, the first to the left, the others to the right."""
    cells = [head] + [[c if isinstance(c, str) else number(c) for c in row] for row in rows]
    width = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w)
                               for i, (c, w) in enumerate(zip(row, width))).rstrip())
