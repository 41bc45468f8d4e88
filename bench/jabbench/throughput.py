# SPDX-License-Identifier: MIT
"""How much the consumer takes in, without loss, and how fast `jab view` prints, beside babeltrace2.

Nobody produces while the consumer's speed is taken: on a machine with as many producers as CPUs it has only what
they leave. Whether it keeps up with them nevertheless is the other figure."""

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from .common import Wrong, table

PROBE = "exe:step arg0 arg1"
EVENT = 40              # bytes: header, two numbers
RATE, SECONDS = 2000000, 5
FILLED = 256 << 20     # of each buffer, for the consumer alone
VIEWED = 1500000        # events, for the viewers


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def summary_of(text):
    for line in text.splitlines():
        if line.startswith('{"summary"'):
            return json.loads(line)["summary"]["probes"][0]
    raise Wrong("no summary: " + text[-500:])


def record(jab, output, size, pace):
    done = subprocess.run([jab, "record", "--json", "--buffer-size", size, "-o", output, PROBE, "--", *map(str, pace)],
                          capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Wrong("jab record: " + done.stderr[-500:])
    return summary_of(done.stdout)


def keeps_up(jab, pace, folder, threads):
    """The best of three: losses on a machine that does other things as well are not ours."""
    best = None
    for n in range(3):
        p = record(jab, "%s/t%d" % (folder, n), "16M", [pace, threads, RATE, SECONDS])
        shutil.rmtree("%s/t%d" % (folder, n))
        if best is None or p["lost"] < best["lost"]:
            best = p
        if not p["lost"]:
            break
    return best


def drain_rate(jab, pace, threads):
    """
    What "drains so many bytes a second" means: the rings are full, nobody produces, and the clock runs until they are
    empty. The consumer is stopped while they are filled, then the program is. Output is /dev/null; how far it is stands
    in /proc. Returns bytes and seconds, the best of three.
    """
    best = None
    for _ in range(3):
        found = drain_once(jab, pace, threads)
        if found and (best is None or found[0] / found[1] > best[0] / best[1]):
            best = found
    return best


def drain_once(jab, pace, threads):
    full = threads * FILLED
    program = subprocess.Popen([pace, str(threads), "0", "600"], stdout=subprocess.DEVNULL)
    with open(os.devnull, "wb") as null:
        run = subprocess.Popen([jab, "record", "-v", "--json", "--buffer-size", str(FILLED), "-o", "fd:%d" % null.fileno(), "-p",
                                str(program.pid), PROBE], pass_fds=[null.fileno()], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        if not any(line.startswith("jab: active:") for line in run.stderr):
            raise Wrong("jab record was never active")
        run.send_signal(signal.SIGSTOP)
        time.sleep(full / EVENT * 100e-9 * threads + 1)     # as long as that many events take, generously
        program.send_signal(signal.SIGSTOP)
        before = written(run.pid)
        start = time.monotonic()
        run.send_signal(signal.SIGCONT)
        while written(run.pid) - before < full * .95 and time.monotonic() - start < 20:
            time.sleep(.0005)
        took, size = time.monotonic() - start, written(run.pid) - before
    finally:
        program.kill()
        program.wait()
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    return (size, took) if size >= full * .95 else None


def written(pid):
    with open("/proc/%d/io" % pid) as f:
        return int(next(line for line in f if line.startswith("wchar")).split()[1])


def view_time(argv):
    before = used()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode:
        raise Wrong(argv[0] + ": " + done.stderr[-500:])
    return used() - before


def viewers(jab, pace, folder):
    p = record(jab, folder + "/v", "64M", [pace, 2, VIEWED / 2, 1])
    ours = view_time([jab, "view", folder + "/v"])
    theirs = view_time(["babeltrace2", folder + "/v"]) if shutil.which("babeltrace2") else None
    shutil.rmtree(folder + "/v")
    return p["recorded"], ours, theirs


def run(jab, builder, result):
    pace = builder.program("pace", ["pace.c"])
    threads = min(2, os.cpu_count())
    with tempfile.TemporaryDirectory(prefix="jab-bench-", dir=builder.out) as disk:
        kept = keeps_up(jab, pace, disk, threads)
        drained = drain_rate(jab, pace, threads)
        events, ours, theirs = viewers(jab, pace, disk)
    rate = drained[0] / drained[1] if drained else None
    table(["", "events", "lost"], [["%d threads x %d M/s, 16 MiB, disk" % (threads, RATE / 1e6), kept["hits"], kept["lost"]]])
    print("  full buffers to /dev/null: " + ("%d MB in %.3f s, %.2f GB/s" % (drained[0] / 1e6, drained[1], rate / 1e9) if rate else
                                          "never filled"))
    print("  jab view %.2f M events/s%s" % (events / ours / 1e6, ", babeltrace2 %.2f" % (events / theirs / 1e6)
                                          if theirs else " (no babeltrace2)"))
    result.data["throughput"] = {"kept": kept, "drained": drained, "view": [events, ours, theirs]}
    result.target("lost, %d threads x 2 M/s" % threads, 0, "", kept["lost"])
    result.target("consumer, full buffers to /dev/null", 1, "GB/s", rate / 1e9 if rate else None, at_least=True)
    result.target("jab view beside babeltrace2", 5, "times", theirs / ours if theirs else None, at_least=True)
