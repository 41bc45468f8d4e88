# SPDX-License-Identifier: MIT
"""How long a process takes to end, and how much of that is the machine's fault.

On a busy machine a second is nothing unusual: the process waits for a CPU, or for another process that does so. The kernel
says how long each thread has been ready to run without running (/proc/PID/schedstat). What is left is the process's own: it
slept, waited for something that did not come, or computed.
"""
import contextlib
import os
import time
from pathlib import Path

HANG = 1.0              # seconds of its own, after which it counts as hung


def waited_for_cpu(pid):
    """Seconds, of each thread."""
    got = {}
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, IndexError):      # it has ended
                got[task] = int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[1]) / 1e9
    return got


def used_cpu(pid):
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0


def more(before, after):
    """The longest that a thread has waited meanwhile."""
    return max((after[t] - before.get(t, 0) for t in after), default=0)


def one_line(path):
    with contextlib.suppress(OSError):
        return Path(path).read_text().strip()
    return ""


def thread_state(pid, tid):
    """For example "S futex_do_wait call 202" or "R running"."""
    stat = one_line(f"/proc/{pid}/task/{tid}/stat").rpartition(")")[2].split()
    if not stat:
        return ""
    call = one_line(f"/proc/{pid}/task/{tid}/syscall").split() or ["?"]
    return " ".join((stat[0], one_line(f"/proc/{pid}/task/{tid}/wchan"), *(["call", call[0]] if call[0] != "running" else call)))


def traced_by(pid):
    """(pid, tid) of all threads that a process traces."""
    for p in (x for x in os.listdir("/proc") if x.isdigit()):
        with contextlib.suppress(OSError):
            for tid in os.listdir(f"/proc/{p}/task"):
                if f"\nTracerPid:\t{pid}\n" in one_line(f"/proc/{p}/task/{tid}/status"):
                    yield p, tid


class Samples:
    """What a process that ends slowly waits for: its state now and then, and those of the threads that it traces."""
    FIRST, EACH = .2, .02

    def __init__(self, pid):
        self.pid, self.due, self.seen = pid, time.monotonic() + self.FIRST, {}

    def poll(self):
        now = time.monotonic()
        if now < self.due:
            return
        held = sorted(f"{'main' if p == t else 'other'} thread of {one_line(f'/proc/{p}/comm')} {thread_state(p, t)}" for p, t in traced_by(self.pid))
        what = "; ".join([thread_state(self.pid, self.pid), *held])
        self.seen[what] = self.seen.get(what, 0) + 1
        self.due = time.monotonic() + self.EACH

    def __str__(self):
        most = sorted(self.seen.items(), key=lambda x: -x[1])[:8]
        return "".join(f"\n  {n} x {what}" for what, n in most)


class Ending:
    """From the moment at which a process is told to end. others: processes that it has to wait for, for example to stop them."""

    def __init__(self, process, *others):
        self.process, self.others = process, others
        self.begin = time.monotonic()
        self.cpu_before = used_cpu(process.pid)
        self.before = [waited_for_cpu(p) for p in (process.pid, *others)]
        self.wall = self.cpu = self.waited = 0
        self.samples = Samples(process.pid)

    def has_ended(self):
        """A process that nobody has waited for still has its numbers."""
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def wait(self, limit):
        """False if it does not end within so many seconds."""
        while not self.has_ended():
            if time.monotonic() - self.begin > limit:
                return False
            self.samples.poll()
            time.sleep(.002)
        self.wall = time.monotonic() - self.begin
        self.cpu = used_cpu(self.process.pid) - self.cpu_before
        self.waited = sum(more(b, waited_for_cpu(p)) for b, p in zip(self.before, (self.process.pid, *self.others)))
        self.process.wait()
        return True

    @property
    def own(self):
        return max(0, self.wall - self.waited)

    @property
    def is_hang(self):
        return self.own > HANG

    def __str__(self):
        return f"{self.wall:.2f} s: {self.waited:.2f} s of waiting for a CPU, {self.cpu:.2f} s on it, {self.own:.2f} s of its own{self.samples}"
