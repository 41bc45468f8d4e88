# SPDX-License-Identifier: MIT
"""A static tracepoint with an int, a long and a string of 16 bytes: <jab/tracepoint.h> with `jab record`, the same event of LTTng-UST
with its daemons, and a kernel uprobe at the nop, which only counts. All take turns, round by round, and each is the difference to
the loop without a tracepoint. The text that a char * points to is on the stack, which is read by asking the kernel."""

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
import time

from .build import ROOT
from .common import Skip, Wrong, end_of, median, table

ROUNDS = 5
MS = 200
PAUSE = 1000    # us
TYPE = "/sys/bus/event_source/devices/uprobe/type"
PERF_EVENT_OPEN = 298
UPROBE = "uprobe at the nop, counting"


def figure(argv):
    done = subprocess.run([*argv, str(MS), str(PAUSE)], capture_output=True, text=True, timeout=60)
    words = [w for w in done.stderr.split() if w.replace(".", "", 1).isdigit() and "." in w]
    if not words:
        raise Wrong("no figure: " + done.stderr[-300:])
    return float(words[0])


def recorded(jab, program):
    with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
        return figure([jab, "record", "-o", d + "/t", "usdt:jabbench:text", "--", program])


def nop_offset(program):
    """Where in the file: the address of a position-dependent program, which is where its segment says."""
    said = subprocess.run(["readelf", "-nW", program], capture_output=True, text=True).stdout
    address = int(said.split("Location: ")[1].split(",")[0], 16)
    for line in subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, at, size = int(words[1], 16), int(words[2], 16), int(words[4], 16)
            if at <= address < at + size:
                return address - at + offset
    raise Wrong("the note points outside of the file")


def with_uprobe(program):
    if not os.path.exists(TYPE):
        raise Skip("this kernel has no uprobes")
    libc = ctypes.CDLL(None, use_errno=True)
    name = ctypes.create_string_buffer(os.fsencode(program))
    with open(TYPE) as f:
        kind = int(f.read())
    attr = struct.pack("<IIQQQQQIIQQ", kind, 112, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(name), nop_offset(program)).ljust(112, b"\0")
    fds = [libc.syscall(PERF_EVENT_OPEN, attr, -1, cpu, -1, 8) for cpu in range(os.cpu_count())]
    try:
        if min(fds) < 0:
            raise Skip("no uprobe can be set: " + os.strerror(ctypes.get_errno()))
        value = figure([program])
        if not sum(struct.unpack("<Q", os.read(fd, 8))[0] for fd in fds):
            raise Wrong("the uprobe counted nothing")
        return value
    finally:
        for fd in fds:
            if fd >= 0:
                os.close(fd)


class Lttng:
    """Its daemon is started and ended; entered, a session records our event."""

    def __init__(self, builder):
        if not shutil.which("lttng-sessiond"):
            raise Skip("lttng-tools is not installed")
        try:
            self.program = builder.program("tracepoint_lttng", ["tracepoint.c"], "-DWITH_LTTNG", "-I" + builder.sources(),
                                           "-Wl,--no-as-needed,-llttng-ust,-ldl")
        except Wrong:
            raise Skip("liblttng-ust-dev is not installed")
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)

    @staticmethod
    def word(*words):
        done = subprocess.run(["lttng", *words], capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise Skip((done.stderr or done.stdout).strip()[-200:])

    def measure(self):
        with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
            self.word("create", "jabtext", "--output=" + d)
            try:
                self.word("enable-event", "-u", "jabbench:text")
                self.word("start")
                value = figure([self.program])
                self.word("stop")
                traced = sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(d) for f in files)
                if traced < 100000:
                    raise Wrong("LTTng-UST recorded %d bytes only" % traced)
                return value
            finally:
                subprocess.run(["lttng", "destroy", "jabtext"], capture_output=True, timeout=30)

    def close(self):
        end_of(self.daemon)


def one_round(jab, programs, lttng, added):
    plain = figure([programs["plain"]])
    ways = {"off": lambda: figure([programs["jab"]]), "jab record": lambda: recorded(jab, programs["jab"]),
            "jab record, the text in an array of 16": lambda: recorded(jab, programs["chars"]),
            "jab record, the 16 bytes as two longs": lambda: recorded(jab, programs["words"]),
            UPROBE: lambda: with_uprobe(programs["low"])}
    if lttng:
        ways["LTTng-UST"] = lttng.measure
    for name, what in ways.items():
        try:
            added.setdefault(name, []).append(what() - plain)
        except Skip as e:
            print("  (%s: not measured: %s)" % (name, e))


def run(jab, builder, result):
    include = "-I" + os.path.join(ROOT, "include")
    programs = {"plain": builder.program("tracepoint", ["tracepoint.c"]),
                "jab": builder.program("tracepoint_jab", ["tracepoint.c"], "-DWITH_JAB", include),
                "words": builder.program("tracepoint_words", ["tracepoint.c"], "-DWITH_JAB", "-DWORDS", include),
                "chars": builder.program("tracepoint_chars", ["tracepoint.c"], "-DWITH_JAB", "-DCHARS", include),
                "low": builder.program("tracepoint_low", ["tracepoint.c"], "-DWITH_JAB", include, "-no-pie", "-fno-pie")}
    lttng, added = None, {}
    try:
        lttng = Lttng(builder)
    except Skip as e:
        print("  (LTTng-UST: not measured: %s)" % e)
    try:
        for _ in range(ROUNDS):
            one_round(jab, programs, lttng, added)
    finally:
        if lttng:
            lttng.close()
    table(["added to a call: an int, a long, 16 bytes of text", "ns", "low", "high"],
          [[name, "%.2f" % median(v), "%.2f" % min(v), "%.2f" % max(v)] for name, v in added.items()])
    result.data["tracepoint"] = added
    for what, limit, of, name in (("tracepoint with 16 bytes of text, of LTTng-UST", .25, "jab record, the text in an array of 16", "LTTng-UST"),
                                  ("tracepoint with 16 bytes of text, of a uprobe", .05, "jab record, the text in an array of 16", UPROBE),
                                  ("tracepoint with a char *, of LTTng-UST", .25, "jab record", "LTTng-UST"),
                                  ("tracepoint with a char *, of a uprobe", .05, "jab record", UPROBE)):
        mine, peer = added.get(of), added.get(name)
        result.target(what, limit, "of it", median(mine) / median(peer) if mine and peer else None,
                      "%.1f ns of %.1f" % (median(mine), median(peer)) if mine and peer else "")
