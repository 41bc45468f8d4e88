# SPDX-License-Identifier: MIT
"""What a recorded event costs (time stamp, pid and tid, two arguments), in units of a bare rdtsc of the same
round, with a consumer that writes everything to a trace. Peers that are installed stand beside it.

The program calls in chunks with pauses in between, so that nothing is lost and no figure is that of a full
buffer: what is lost anyway is told. It has gone once round the rings before: the first event in each page of
them takes a page fault of the program, once, which is a row of its own. Where nothing is written there are no pauses:
after each of them the CPU begins cold, which is more than what is to be measured there."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

from .common import Jab, Program, Skip, Wrong, end_of, median, table
from .tracefs import Tracefs, bpftrace

ROUNDS = 5
MS = 60
PAUSE = 1000    # us
WARM_MS = 250   # more than once round a ring of the default size
ENTRY, RETURN = "exe:work_push arg0 arg1", "exe:work_push%return retval"

# name, program, threads, command, probes. "bare": rdtsc in place of a probe.
VARIANTS = [
    ("rdtsc", "glibc", 1, "bare", ()),
    ("not probed, others are", "glibc", 1, "record", ("exe:work_other arg0 arg1",)),
    ("entry", "glibc", 1, "record", (ENTRY,)),
    ("entry, switched off by its condition", "glibc", 1, "record", (ENTRY + " if arg0 == 0x123456789abcdef",)),
    ("entry, rings never used before", "glibc", 1, "cold", (ENTRY,)),
    ("entry, flight recorder", "glibc", 1, "overwrite", (ENTRY,)),
    ("entry and return", "glibc", 1, "record", (ENTRY, RETURN)),
    ("entry, 2 threads", "glibc", 2, "record", (ENTRY,)),
    ("entry, no rseq", "no rseq", 1, "record", (ENTRY,)),
    ("entry, no rseq, 2 threads", "no rseq", 2, "record", (ENTRY,)),
    ("entry, musl", "musl", 1, "record", (ENTRY,)),
    ("entry, Go", "Go", 1, "record", (ENTRY.replace("work_", "main.work_"),)),
]


def measure(program, function, threads, ms=MS, pause=PAUSE):
    return program.numbers("measure %s %d %d %d" % (function, threads, ms, pause))[0]


def writes(probes):
    return not any(" if " in p or "work_other" in p for p in probes)


def with_jab(jab, program, threads, command, probes, lost):
    pause = PAUSE if writes(probes) else 0
    with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
        words = ["record", "-o", d + "/t"] + (["--overwrite"] if command == "overwrite" else [])
        with Jab(jab, program.pid, probes, command=words) as run:
            if command != "cold":
                measure(program, "work_push", threads, WARM_MS, pause)
            value = measure(program, "work_push", threads, pause=pause)
            summary = run.stop()
    if command != "overwrite":
        lost[0] += sum(p["lost"] for p in summary["probes"])
        lost[1] += summary["hits"]
    return value


def one(jab, programs, variant, lost):
    _, which, threads, command, probes = variant
    if which not in programs:
        raise Skip("no " + which)
    program = programs[which]
    base = measure(program, "work_push", threads, pause=PAUSE if writes(probes) else 0)
    if command == "bare":
        return measure(program, "ref_rdtsc", threads) - base
    return with_jab(jab, program, threads, command, probes, lost) - base


def with_uprobe(program):
    with Tracefs() as tracefs:
        base = measure(program, "work_push", 1)
        offset = program.file_offset(int(program.ask("where work_push"), 16))
        tracefs.insert(program.path, [offset], "p", "a=%di b=%si")
        return measure(program, "work_push", 1) - base


def with_bpftrace(program):
    tool = bpftrace()
    if not tool:
        raise Skip("not installed")
    base = measure(program, "work_push", 1)
    script = "BEGIN { printf(\"ready\\n\"); } uprobe:%s:work_push { printf(\"%%lu %%lu\\n\", arg0, arg1); }" % program.path
    with tempfile.TemporaryFile() as out:
        run = subprocess.Popen([tool, "-e", script], stdout=out, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 20
            while time.monotonic() < end and run.poll() is None and not os.fstat(out.fileno()).st_size:
                time.sleep(.05)
            time.sleep(.2)      # "ready" may be in its buffer only when probes are in; be sure
            if run.poll() is not None or not os.fstat(out.fileno()).st_size:
                raise Skip("bpftrace does not work here")
            return measure(program, "work_push", 1) - base
        finally:
            end_of(run)


def peer(argv):
    done = subprocess.run(argv + [str(MS), str(PAUSE)], capture_output=True, text=True, timeout=60)
    try:
        return float(done.stderr.split()[-1])
    except (IndexError, ValueError):
        raise Skip(done.stderr[-200:].strip() or "no figure")


def with_uftrace(builder):
    """Entry and return, both with values."""
    if not shutil.which("uftrace"):
        raise Skip("not installed")
    plain = builder.program("peer", ["peer.c"])
    traced = builder.program("peer_pg", ["peer.c"], "-pg", "-mfentry")
    with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
        record = ["uftrace", "record", "-d", d + "/data", "-A", "work@arg1,arg2", traced]
        return peer(record) - peer([plain])


def lttng(*words):
    done = subprocess.run(["lttng", *words], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise Skip((done.stderr or done.stdout).strip()[-200:])


def lttng_session(program, d):
    lttng("create", "jabbench", "--output=" + d)
    try:
        lttng("enable-event", "-u", "jabbench:*")
        lttng("start")
        return peer([program])
    finally:
        subprocess.run(["lttng", "destroy", "jabbench"], capture_output=True, timeout=30)


def with_lttng(builder):
    """A static event, compiled in. Its daemon is started and ended, unless one is there."""
    if not shutil.which("lttng-sessiond"):
        raise Skip("not installed")
    try:
        # Its names are for the linker, behind the sources: -Wl keeps them where they are given.
        program = builder.program("peer_lttng", ["peer.c"], "-DWITH_LTTNG", "-I" + builder.sources(),
                                  "-Wl,--no-as-needed,-llttng-ust,-ldl")
    except Wrong:
        raise Skip("no development files")
    plain = peer([builder.program("peer", ["peer.c"])])
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
            time.sleep(2)
            return lttng_session(program, d) - plain
    finally:
        end_of(daemon)


GDB_SCRIPT = """set confirm off
set pagination off
set circular-trace-buffer on
target remote localhost:%d
break main
continue
ftrace *work
actions
collect $rdi, $rsi
end
tstart
continue
"""


def gdb_agent():
    for folder in ("/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"):
        if os.path.exists(folder + "/libinproctrace.so"):
            return folder + "/libinproctrace.so"
    raise Skip("libinproctrace.so is not installed")


def with_gdb(builder):
    """A fast tracepoint: GDB's own jump, its agent in the program. It wants five bytes and a program at low addresses."""
    if not shutil.which("gdbserver") or not shutil.which("gdb"):
        raise Skip("not installed")
    agent = gdb_agent()
    program = builder.program("peer_room", ["peer.c"], "-DWITH_ROOM", "-no-pie", "-fno-pie")
    with socket.socket() as s:
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write(GDB_SCRIPT % port)
        script.flush()
        server = subprocess.Popen(["gdbserver", "--once", "--wrapper", "env", "LD_PRELOAD=" + agent, "--", "localhost:%d" % port,
                                   program, str(MS), str(PAUSE)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            time.sleep(1)       # until it listens
            subprocess.run(["gdb", "-nx", "-batch", "-x", script.name, program], capture_output=True, timeout=60)
            text = server.communicate(timeout=10)[1]
        finally:
            server.kill()
            server.wait()
    figures = [line for line in text.splitlines() if re.fullmatch(r"\d+\.\d{4}", line)]
    if not figures:
        raise Skip(text.strip()[-200:] or "no figure")
    return float(figures[0]) - peer([program])


def peers(builder, program):
    rows = {}
    for name, what in (("uprobe, tracefs", lambda: with_uprobe(program)), ("uprobe, bpftrace printf", lambda: with_bpftrace(program)),
                       ("LTTng-UST static event", lambda: with_lttng(builder)),
                       ("GDB fast tracepoint", lambda: with_gdb(builder)),
                       ("uftrace -pg, entry and return", lambda: with_uftrace(builder))):
        try:
            rows[name] = [what()]
        except (Skip, subprocess.TimeoutExpired) as e:
            print("  (%s: not measured: %s)" % (name, e))
    return rows


def start(builder):
    path = builder.program("hit", ["hit.c", "hit.S"])
    env = dict(os.environ, GLIBC_TUNABLES="glibc.pthread.rseq=0")
    programs = {"glibc": Program(path), "no rseq": Program(path, env=env)}
    if shutil.which("musl-gcc"):
        programs["musl"] = Program(builder.program("hit_musl", ["hit.c", "hit.S"], cc="musl-gcc"))
    if shutil.which("go"):
        programs["Go"] = Program(builder.go("hit_go", ["hit.go"]))
    return programs


def rounds(jab, programs, lost):
    """Dict: name -> added ns, one a round; and in units of that round's rdtsc."""
    added, ratio = {}, {}
    for _ in range(ROUNDS):
        bare = None
        for variant in VARIANTS:
            try:
                value = one(jab, programs, variant, lost)
            except Skip:
                continue
            bare = value if bare is None else bare
            added.setdefault(variant[0], []).append(value)
            ratio.setdefault(variant[0], []).append(value / bare)
    return added, ratio


def show(added, bare):
    table(["added to a call", "ns", "low", "high", "of rdtsc"],
          [[name, "%.2f" % median(v), "%.2f" % min(v), "%.2f" % max(v), "%.2f" % (median(v) / bare)]
           for name, v in added.items()])


def run(jab, builder, result):
    programs = start(builder)
    lost = [0, 0]
    try:
        added, ratio = rounds(jab, programs, lost)
        added.update(peers(builder, programs["glibc"]))
    finally:
        for program in programs.values():
            program.__exit__()
    show(added, median(added["rdtsc"]))
    print("  %d of %d events were lost meanwhile" % tuple(lost))
    result.data["events"] = added
    mid = {name: median(v) for name, v in ratio.items()}
    for what, limit, name in (("event, glibc", 2, "entry"), ("event, no rseq", 4, "entry, no rseq"),
                              ("event, musl", 4, "entry, musl"), ("event, Go", 4, "entry, Go"), ("entry and return events", 4, "entry and return")):
        result.target(what, limit, "rdtsc", mid.get(name))
    result.target("function without a probe, others have one", 1, "ns", median(added["not probed, others are"]))
    result.target("probe that is switched off by its condition", 1, "ns", median(added["entry, switched off by its condition"]))
    result.target("event, 2 threads", 1.25, "of 1", median(added["entry, 2 threads"]) / median(added["entry"]))
