#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Hundred: every program that jab once harmed, many times each, in the way in which it was harmed.

    hundred.py [--each N] [--seconds N] [--seed N] [--only NAME,...]

A program that runs once is started by jab: its status and its output must be those of a run without jab. One that serves
commands is visited again and again, by jabs that go or are killed at any moment; its own check must hold. Where the number of
calls is known, what jab counts must be that number. A line for each at the end: runs, visits, kills, failures, exact counts.

They take turns, N each (default 100), in a random order; --seconds ends it earlier.
"""
import contextlib
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
import jab
import scripts
import traces
import uprobe
from targets import LIMIT, Missing, Target, build
from test_everywhere import AS_NOBODY
from test_newcomers import doormen

# What can't be prevented, and is said in the manual (jab(1), NOTES).
NOT_RUN = {
    "N15 pivot": "hand-written code that uses rsp as a pointer to data: words below it are overwritten by a pad, as by a signal",
    "N16 evict": "a program that writes over its own text where a jump of jab's is",
    "P0 uprobe over a jump, hit at once": "the kernel goes on in the middle of the jump, before jab can notice",
}
TEXT = "u:exe:%s { @n = count(); @s[str(arg0)] = count(); @d[tid] = hist(arg0); }"
SUID = "#include <unistd.h>\nint main(void) { return geteuid() != 0; }\n"


class Trouble(Exception):
    pass


class Tally:
    def __init__(self):
        self.of = dict.fromkeys(("runs", "visits", "kills", "failures", "exact"), 0)

    def add(self, what, n=1):
        self.of[what] += n


def same(got, want, what):
    if got != want:
        raise Trouble(f"{what}: {got!r} instead of {want!r}")


def exact(case, got, want, r):
    if got != want:
        raise Trouble(f"{got} counted of {want}: {r}")
    case.tally.add("exact")


class Case:
    """dice: chance; dir: a folder of its own, another one in each run."""

    def __init__(self, name):
        self.name, self.tally = name, Tally()

    def run(self, dice, d):
        raise NotImplementedError


# ---- programs that run once ----

ALONE = {}


def alone(command):
    """(status, output) without jab. Once is enough: what varies is told by keep()."""
    key = tuple(command)
    if key not in ALONE:
        p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
        ALONE[key] = (p.returncode, p.stdout)
    return ALONE[key]


class Once(Case):
    """how: count, record, trace or script; want: probe -> calls, or a script's text -> calls in @n."""

    def __init__(self, name, how, want, program, *args):
        super().__init__(name)
        self.how, self.want, self.program, self.args = how, want, program, args

    def run(self, dice, d):
        command = [str(build(self.program)), *map(str, self.args)]
        status, output = alone(command)
        r, got = getattr(self, self.how)(command, d)
        same((r.status, r.stdout.strip()), (status, output.strip()), f"status and output {r}")
        self.tally.add("visits")
        exact(self, got, list(self.want.values()), r)

    def count(self, command, d):
        r = jab.count_command([*self.want], command)
        return r, [p["hits"] for p in r.summary["probes"]] if r.summary else r

    def insn(self, command, d):
        """The first instruction is run as often as the function."""
        r = jab.count_command([f"insn:{p}" for p in self.want], command)
        return r, [r.rows[0]["hits"]] if r.rows else []

    def record(self, command, d):
        """Every event is in the trace or counted as lost, and the trace can be read."""
        r = traces.record(d / "trace", [*self.want], command)
        view = jab.run("view", "--json", d / "trace").objects[-1]["summary"]
        probes = r.summary["probes"]
        same((view["events"], view["lost"], view["damaged"]), (sum(p["recorded"] for p in probes), sum(p["lost"] for p in probes), 0), "trace")
        return r, [p["recorded"] + p["lost"] for p in probes]

    def script(self, command, d):
        text, = self.want
        r = scripts.run(text, *command)
        return r, [int(scripts.scalar(r.output, "n"))]


# ---- programs that wait for a word ----

class Waits(Case):
    """They say `ready`, wait for a line, and then how often work() was called: that many must have been counted."""

    def __init__(self, name, how, said, program, *args):
        super().__init__(name)
        self.how, self.said, self.program, self.args = how, said, program, args

    def begin(self, pid):
        if self.how == "count":
            return jab.Count(pid, "exe:work")
        return scripts.Script(TEXT % "work", pid)

    def counted(self, r):
        return r.hits("work") if self.how == "count" else int(scripts.scalar(r.output, "n"))

    def run(self, dice, d):
        command = [str(build(self.program)), *(str(build(a)) if a.endswith(".so") else a for a in self.args)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            try:
                same(p.stdout.readline(), "ready\n", "first word")
                with self.begin(p.pid) as tracer:
                    out, _ = p.communicate("go\n", timeout=LIMIT)
                    r = tracer.wait()
            finally:
                p.kill()
        same((p.returncode, r.status), (0, 0), f"status of the program and of jab: {r}")
        self.tally.add("visits")
        exact(self, self.counted(r), int(out) if self.said is None else 1000, r)
        if self.said:
            same(out, self.said, "output")


# ---- programs that serve commands ----

class Served(Case):
    """modes: what jab is asked for. exact: run N is N calls of work(), no more."""

    def __init__(self, name, program, *args, modes=("count", "insn", "record", "script"), exact=True, rounds=2):
        super().__init__(name)
        self.program, self.args, self.modes, self.exact, self.rounds = program, args, modes, exact, rounds

    def words(self, mode, d):
        if mode == "count":
            return ["count", "exe:work"]
        if mode == "insn":
            return ["count", "insn:exe:work"]
        if mode == "all":
            return ["count", "exe:*"]
        if mode == "record":
            return ["record", "-o", str(d / f"trace{self.tally.of['visits']}.{time.monotonic_ns()}"), "exe:work n=arg0"]
        return ["-e", TEXT % "work"]

    def start(self, t, mode, d):
        first, *rest = self.words(mode, d)
        words = [first, "-p", str(t.pid), *rest] if not first.startswith("-") else ["-p", str(t.pid), first, *rest]
        self.err = tempfile.TemporaryFile("w+")
        return subprocess.Popen([jab.JAB, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.err)

    def work(self, t, dice):
        t.run(dice.choice([1, 100, 2000]))

    def at_any_moment(self, t, dice, d):
        """It goes, or is killed, wherever it is. What is left of a killed one is taken out, or by the next that comes."""
        p = self.start(t, dice.choice(self.modes), d)
        time.sleep(dice.random() ** 2 * .3)
        self.work(t, dice)
        is_killed = dice.random() < .4
        p.send_signal(signal.SIGKILL if is_killed else signal.SIGINT)
        if is_killed and dice.random() < .7:
            with contextlib.suppress(ChildProcessError):        # it had ended before
                os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
            self.recover(t)                 # it is a zombie so far
        status = p.wait(LIMIT)
        self.err.seek(0)
        if status < 0 and status not in (-signal.SIGINT, -signal.SIGKILL):
            raise Trouble(f"jab ended with {status}: {self.err.read()[-1000:]}")
        self.tally.add("kills" if is_killed else "visits")

    def recover(self, t):
        r = jab.run("recover", t.pid)
        if r.status and "has no probes or memory of jab" not in r.stderr and "may still be inside a pad" not in r.output:
            raise Trouble(f"recover: {r}")

    def counted(self, t, dice):
        """Probes that are active for all of N calls."""
        if "count" in self.modes:
            with jab.Count(t.pid, "exe:work") as c:
                t.run(2000)
                r = c.stop()
            got = r.hits("work")
        else:
            with scripts.Script("u:exe:work { @n = count(); }", t.pid) as s:
                t.run(2000)
                r = s.stop()
            got = int(scripts.scalar(r.output, "n"))
        self.tally.add("visits")
        same(r.status, 0, f"status of jab: {r}")
        exact(self, got, 2000, r)

    def run(self, dice, d):
        with Target(self.program, *self.args) as t:
            for _ in range(self.rounds):
                self.at_any_moment(t, dice, d)
                self.work(t, dice)
            if self.exact:
                self.counted(t, dice)
            t.stop()


class Frames(Served):
    """A handler holds the second thread where the signal found it, while jab goes."""

    def work(self, t, dice):
        if dice.random() < .7:
            same(t.ask("hold"), "held", "answer")
            time.sleep(dice.random() * .01)
            same(t.ask("go"), "gone", "answer")

    def counted(self, t, dice):
        with jab.Count(t.pid, "exe:work") as c:
            t.run(2000)
            same(t.ask("hold"), "held", "answer")
            r = c.stop()
        same(t.ask("go"), "gone", "answer")
        self.tally.add("visits")
        if r.status or r.hits("work") < 2000:
            raise Trouble(f"more than 2000 calls: {r}")


class Switching(Served):
    """Goes on switching while jab comes and goes."""

    def work(self, t, dice):
        t.run(dice.choice([100, 100000, 3000000]))


class OwnSequence(Served):
    """Nothing is placed in the function that has the sequence; what is placed beside it counts."""

    def words(self, mode, d):
        return ["count", {"insn": "insn:exe:bump", "count": "exe:bump", "all": "exe:*"}[mode]]

    def counted(self, t, dice):
        with jab.Count(t.pid, "exe:loop") as c:
            t.run(4000)
            r = c.stop()
        self.tally.add("visits")
        exact(self, r.hits("loop"), 4, r)


class SharedText(Served):
    """The library's file is never written to, not by a jab that is killed either."""

    def words(self, mode, d):
        return ["count", {"count": "libsharedtext.so:*", "all": "*:*"}[mode], "exe:work"]

    def run(self, dice, d):
        lib = d / "libsharedtext.so"
        shutil.copy(build("libsharedtext.so"), lib)
        before = lib.read_bytes()
        self.args = (lib, dice.choice("wr"))
        super().run(dice, d)
        same(lib.read_bytes() == before, True, "the file is as it was")


class Guarded(Served):
    """Another process of the same user that may not trace it."""

    def run(self, dice, d):
        with Target("guarded") as t:
            with jab.Count(t.pid, "exe:work") as c:
                t.run(100)
                p = subprocess.run([str(build("guarded")), "attack", str(t.pid), str(c.process.pid)], capture_output=True, text=True,
                                   timeout=LIMIT)
                t.run(2000)
                r = c.stop()
            same((p.returncode, p.stdout), (0, "0\n"), "what the attacker got")
            self.tally.add("visits")
            exact(self, r.hits("work"), 2100, r)
            t.stop()


class Jailed(Served):
    def run(self, dice, d):
        (d / "empty").mkdir()
        self.args = ("chroot", d / "empty")
        super().run(dice, d)


# ---- what is about jab rather than about a program ----

class Freezer:
    """One thread in an uninterruptible sleep."""

    def __init__(self, tid):
        self.dir = Path(f"/sys/fs/cgroup/freezer/jab-hundred-{os.getpid()}-{tid}")
        try:
            self.dir.mkdir()
        except OSError as e:
            raise Missing(f"no freezer: {e}") from e
        (self.dir / "tasks").write_text(str(tid))

    def set(self, state):
        (self.dir / "freezer.state").write_text(state)
        while (self.dir / "freezer.state").read_text().strip() != state:
            time.sleep(.001)

    def __enter__(self):
        self.set("FROZEN")
        return self

    def __exit__(self, *what):
        self.set("THAWED")
        for tid in (self.dir / "tasks").read_text().split():
            (self.dir.parent / "tasks").write_text(tid)
        self.dir.rmdir()


def run_delay(tid):
    """Milliseconds that a thread has waited for a CPU."""
    return int(Path(f"/proc/{tid}/schedstat").read_text().split()[1]) / 1e6


class Asleep(Case):
    """The longest pause of the others, beyond what they waited for a CPU: it was 2000 ms."""
    MOST_MS = 500

    def pause_ms(self, t, action):
        waited = run_delay(f"{t.pid}/task/{self.busy}")
        t.ask("longest")
        action()
        got = int(t.ask("longest")) / 1000 - (run_delay(f"{t.pid}/task/{self.busy}") - waited)
        if got > self.MOST_MS:
            raise Trouble(f"a pause of {got:.0f} ms")
        self.longest = max(getattr(self, "longest", 0), got)

    def refused(self, t):
        r = jab.run("count", "-p", t.pid, "-d", "0.1", "exe:work")
        if not r.status or "uninterruptible sleep" not in r.stderr:
            raise Trouble(f"not refused: {r}")

    def run(self, dice, d):
        with Target("pauses") as t:
            sleeper = int(t.ask("tid"))
            self.busy = max(int(x) for x in os.listdir(f"/proc/{t.pid}/task"))
            with Freezer(sleeper):
                self.pause_ms(t, lambda: self.refused(t))
            with jab.Count(t.pid, "exe:work") as c:
                t.run(1000)
                with Freezer(sleeper):
                    self.pause_ms(t, lambda: (c.process.send_signal(signal.SIGINT), time.sleep(.1), t.run(1000)))
                r = c.wait()
            same((r.status, r.summary["clean"]), (0, True), f"status of jab, text as it was: {r}")
            self.tally.add("visits", 2)
            t.run(1000)
            t.stop()


class Doorman(Case):
    """It is stopped while a program that it is asked about begins: that goes on within a second or two."""

    def run(self, dice, d):
        prog = d / "script"
        shutil.copy(build("script"), prog)
        with scripts.Script(f"u:{prog}:tail {{ @n = count(); }}") as s:
            doorman, = doormen(s.process.pid)
            os.kill(doorman, signal.SIGSTOP)
            p = subprocess.Popen([str(prog), "tail", "3"], stdout=subprocess.DEVNULL)
            try:
                same(p.wait(30), 0, "status of the newcomer")
            except subprocess.TimeoutExpired as e:
                os.kill(doorman, signal.SIGCONT)
                p.kill()
                raise Trouble("the newcomer is held") from e
            r = s.stop()
        same(r.status, 0, f"status of jab: {r}")
        self.tally.add("visits")
        if "waited for too long" not in r.stderr:       # the machine is too busy: then it was let go, and jab says so
            exact(self, int(scripts.scalar(r.output, "n")), 3, r)


class SetUserId(Case):
    """`trace` without privilege follows what a target executes, but not what would lose its privilege then."""

    def run(self, dice, d):
        os.chmod(d, 0o777)
        (d / "suid.c").write_text(SUID)
        subprocess.run(["gcc", "-O2", "-o", str(d / "suid"), str(d / "suid.c")], check=True)
        os.chmod(d / "suid", 0o4755)
        shutil.copy(jab.JAB, d / "jab")
        p = subprocess.run([*AS_NOBODY, str(d / "jab"), "trace", "-o", "/dev/null", "main", "--", "sh", "-c",
                            f"bad=0; for i in 1 2 3 4 5; do {d}/suid || bad=$((bad + 1)); done; echo bad $bad"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=LIMIT)
        same((p.returncode, p.stdout), (0, "bad 0\n"), f"status and output {p}")
        self.tally.add("visits")


class Uprobes(Case):
    """A uprobe on the probed function, before jab or after it; then the function is not called until jab has noticed."""

    def run(self, dice, d):
        path = d / "calls"
        shutil.copy(build("calls_O0"), path)
        with Target("calls", command=[str(path), "serve", "1"]) as t:
            offset = jab.symbols(path)["work"]
            with uprobe.Uprobe(path, offset):
                with jab.Count(t.pid, "exe:work", "exe:run") as c:
                    t.run(1000)
                    c.stop()
            with jab.Count(t.pid, "exe:work", "exe:run") as c:
                t.run(1000)
                with uprobe.Uprobe(path, offset + dice.randint(0, 1)) as u:
                    end = time.monotonic() + LIMIT
                    while not any("jab has taken it out" in x for x in c.stderr) and time.monotonic() < end:
                        time.sleep(.01)
                    t.run(1000)
                    r = c.stop()
                    got = u.hits()
                    t.run(1000)
                    exact(self, u.hits() - got, 1000, r)
            self.tally.add("visits", 2)
            same([x for x in jab.changed_text(t.pid) if str(path) in x], [], "text")
            t.stop()


class Two(Case):
    """Two jabs at a time: one of them is refused, or they come one after the other."""

    def run(self, dice, d):
        with Target("calls", "serve", "2") as t:
            both = []
            for _ in range(2):
                both.append(subprocess.Popen([jab.JAB, "count", "-p", str(t.pid), "-d", "0.1", "exe:work"], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                time.sleep(dice.random() ** 2 * .1)
            t.run(5000)
            status = sorted(p.wait(LIMIT) for p in both)
            if status not in ([0, 0], [0, 1]):
                raise Trouble(f"they ended with {status}")
            self.tally.add("visits", 2)
            t.run(100)
            t.stop()


class Backwards(Once):
    def script(self, command, d):
        r, got = super().script(command, d)
        same(scripts.keyed(r.output, "s"), {"hello, world": str(got[0])}, "the text")
        return r, got


def threads(what, hits):
    """In all modes."""
    number = {"bare": "N3", "own": "N3", "clone3": "N13"}.get(what, "N4")
    for how in ("count", "insn", "record"):
        yield Once(f"{number} {what} {how}", how, {"exe:work": hits}, "oddthreads", what)
    yield Once(f"{number} {what} script", "script", {TEXT % "work": hits}, "oddthreads", what)


def all_cases():
    yield Once("N1 new threads record", "record", {"libc:start_thread": 2004, "exe:nothing": 2000}, "oddthreads", "new", 2000)
    yield Once("N1 new threads count", "count", {"libc:start_thread": 2004, "exe:nothing": 2000}, "oddthreads", "new", 2000)
    yield Once("N1 new threads static", "record", {"exe:start_thread": 2004, "exe:nothing": 2000}, "oddthreads_static", "new", 2000)
    yield Guarded("N2 guarded", "guarded")
    for what, hits in (("bare", 1000), ("own", 1000), ("moved", 200000), ("zeros", 200000), ("edge", 200000), ("clone3", 1)):
        yield from threads(what, hits)
    yield Switching("N5 preempt", "preempt", 8, modes=("count", "insn", "script"), exact=False)
    yield Frames("N6 restorer", "frames", "restorer")
    yield Once("N7 stacktop record", "record", {"exe:work x=arg6": 2000}, "stacktop", 2000)
    yield Once("N7 stacktop script", "script", {"u:exe:work { @n = count(); @x = sum(sarg0); @y = sum(sarg1); }": 2000}, "stacktop", 2000)
    yield Doorman("N8 doorman")
    yield OwnSequence("N9 rseqown", "rseqown", modes=("insn", "count", "all"))
    yield Served("N10 dispatch early", "dispatch", "early", modes=("script", "record"))
    yield Once("N10 dispatch late", "script", {TEXT % "work": 1000}, "dispatch", "late", 500)
    yield SharedText("N11 sharedtext", "sharedtext", modes=("count", "all"))
    yield Asleep("N12 asleep")
    yield Served("N14 timeless early", "timeless")
    yield Once("N14 timeless late", "record", {"exe:work": 1000}, "timeless", 500)
    yield Once("N14 timeless late count", "count", {"exe:work": 1000}, "timeless", 500)
    yield Waits("2 strangerthere", "count", None, "oddthreads", "shared", "wait")
    yield Waits("2 unregistered", "count", None, "oddthreads", "fresh", "wait")
    yield Frames("2 nestalt", "frames", "nested")
    yield Frames("2 copied frames", "frames", "copied")
    for how in ("count", "script"):
        yield Waits(f"2 secdl {how}", how, "loaded\n", "forbids", "liblate.so")
        yield Waits(f"2 secdl late {how}", how, "loaded\n", "forbids", "liblate.so", "late")
    yield Once("2 gogrow", "count", {"exe:main.descend": 40200}, "deep", 200)
    yield Backwards("2 df", "script", {'u:exe:backwards+1 { @n = count(); @s[str(reg("di"))] = count(); }': 1000}, "backwards", 1000)
    yield SetUserId("2 set-user-id")
    yield Uprobes("P0 uprobes")
    yield Jailed("P1 chroot", "jail")
    yield Served("P2 zombie", "calls", "serve", "2")
    yield Two("P3 two at a time")


def one_run(case, dice, report):
    with tempfile.TemporaryDirectory() as d:
        try:
            case.run(dice, Path(d))
        except Missing as e:
            case.missing = str(e)
        except (Trouble, AssertionError, ValueError, KeyError, TimeoutError, OSError, subprocess.SubprocessError) as e:
            case.tally.add("failures")
            report.fail(case.name, f"{type(e).__name__}: {e}")
        case.tally.add("runs")


def more(p):
    p.add_argument("--each", type=int, default=100, help="how many times (default 100)")
    p.set_defaults(seconds=math.inf)


def main():
    a = arguments(__doc__.splitlines()[0], more)
    dice = random.Random(a.seed)
    report = Report(a.seconds, seed=a.seed, jab=jab.JAB, each=a.each)
    cases = [c for c in all_cases() if not a.only or any(c.name.startswith(x) for x in a.only)]
    with contextlib.suppress(KeyboardInterrupt):    # then what there is so far is shown
        for _ in range(a.each):
            cases_left = [c for c in cases if not hasattr(c, "missing")]
            for case in dice.sample(cases_left, len(cases_left)):
                if report.time_left() > 0:
                    one_run(case, dice, report)
    for case in cases:
        report.line(reproducer=case.name, **({"left out": case.missing} if hasattr(case, "missing") else case.tally.of),
                    **({"longest pause ms": round(case.longest)} if hasattr(case, "longest") else {}))
    for name, why in NOT_RUN.items():
        report.line(reproducer=name, not_run=why)
    report.count("runs", sum(c.tally.of["runs"] for c in cases))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
