# SPDX-License-Identifier: MIT
"""The target programs: how each one is built, and how a test talks to one that runs.

Built into build/prog, again only when a source is newer. A tool that this machine lacks (a
compiler for another language) makes build() raise Missing, which a test turns into a skip.
"""
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "tests" / "prog"
OUT = Path(os.environ.get("JAB_PROG", ROOT / "build" / "prog"))

# How long a step may take before it counts as hung. Generous: machines are shared.
LIMIT = float(os.environ.get("JAB_LIMIT", "120"))

CFLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-unused-parameter -pthread".split()
BLOCKING = ["blocking.c", "blocking_fds.c", "blocking_waits.c", "blocking_short.c"]


class Missing(Exception):
    """A tool that this target needs is not installed."""


def c(sources, *flags, cc="gcc"):
    return {"sources": sources.split() if isinstance(sources, str) else sources,
            "command": [cc, *CFLAGS, *flags]}


TARGETS = {
    "calls": c("calls.c"),
    "calls_O0": c("calls.c", "-O0"),
    "calls_cet": c("calls.c", "-fcf-protection=branch"),
    "warm": c("warm.c"),
    "many50000": c(["../../bench/prog/many.c", "../../bench/prog/many.S"], "-DN=50000"),
    "crash": c("crash.c"),
    "hoard": c("hoard.c", "-fno-optimize-sibling-calls"),
    "daily": {"sources": ["daily.cc"], "command": ["g++", "-O1", "-g", "-Wall", "-Wextra", "-pthread"]},
    "libclockstep.so": c("clockstep.c", "-shared", "-fPIC"),
    "heap": c("heap.c"),
    "heap_raw": c("heap.c", "-DRAW"),
    "heap_static": c("heap.c", "-static"),
    "heap_musl": c("heap.c", cc="musl-gcc"),
    "calls_nonpie": c("calls.c", "-no-pie", "-fno-pie"),
    "calls_static": c("calls.c", "-static"),
    "calls_static_pie": c("calls.c", "-static-pie", "-fPIE"),
    "calls_musl": c("calls.c", cc="musl-gcc"),
    "calls_musl_static": c("calls.c", "-static", cc="musl-gcc"),
    "calls_clang": c("calls.c", cc="clang"),
    "calls_stripped": {**c("calls.c"), "strip": True},
    "calls_static_stripped": {**c("calls.c", "-static"), "strip": True},
    "told": c("told.c"),
    "urgent": c("urgent.c"),
    "jail": c("jail.c"),
    "jail_changed": c("jail.c", "-falign-functions=512"),
    "late": c("late.c", "-ldl"),
    "late_musl": c("late.c", cc="musl-gcc"),
    "liblate.so": c("late_lib.c", "-shared", "-fPIC"),
    "liblate_musl.so": c("late_lib.c", "-shared", "-fPIC", cc="musl-gcc"),
    "late_linked": c("late.c", f"-L{OUT}", "-Wl,--no-as-needed,-llate,-rpath,$ORIGIN", "-ldl"),
    "late_linked_musl": c("late.c", f"-L{OUT}", "-Wl,--no-as-needed,-llate_musl,-rpath,$ORIGIN", cc="musl-gcc"),
    "told_static": c("told.c", "-static"),
    "told_musl": c("told.c", cc="musl-gcc"),
    "told_musl_static": c("told.c", "-static", cc="musl-gcc"),
    "returns": c("returns.c"),
    "returns_O0": c("returns.c", "-O0"),
    "returns_clang": c("returns.c", cc="clang"),
    "returns_clang_O0": c("returns.c", "-O0", cc="clang"),
    "returns_thunk": c("returns.c", "-mindirect-branch=thunk"),
    "returns_thunk_inline": c("returns.c", "-mindirect-branch=thunk-inline"),
    "returns_clang_thunk": c("returns.c", "-mretpoline", cc="clang"),
    "tails": {"sources": ["tails.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-pthread", "-Wl,-z,now"]},
    "tails_lazy": {"sources": ["tails.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-pthread", "-Wl,-z,lazy"]},
    "naps": {"sources": ["naps.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra"]},
    "throw": {"sources": ["throw.cc"], "command": ["g++", "-O2", "-g", "-Wall"]},
    "left": {"sources": ["left.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-pthread"]},
    "left_static": {"sources": ["left.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-pthread", "-static"]},
    "left_static_gcc": {"sources": ["left.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-pthread", "-static-libgcc"]},
    "left_clang": {"sources": ["left.cc"], "command": ["clang++", "-O2", "-g", "-Wall", "-pthread"]},
    "left_rs": {"sources": ["left.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "left"]},
    "libleft.so": {"sources": ["left_plug.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-shared", "-fPIC"]},
    "left_host": c("left_host.c", "-ldl"),
    "leaps": c("leaps.c"),
    "leaps_static": c("leaps.c", "-static"),
    "leaps_musl": c("leaps.c", "-DPLAIN", cc="musl-gcc"),
    "leaps_fortified": c("leaps.c", "-DPLAIN", "-D_FORTIFY_SOURCE=2"),
    "fault": {"sources": ["fault.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-fnon-call-exceptions"]},
    "contexts": c("contexts.c"),
    "preempt": c("preempt.c"),
    "midway": c("midway.c"),
    "frames": c("frames.c"),
    "rseqown": c("rseqown.c"),
    "sharedtext": c("sharedtext.c"),
    "libsharedtext.so": c("sharedtext_lib.c", "-shared", "-fPIC"),
    "pauses": c("pauses.c"),
    "async": c("async.c"),
    "cancel": {"sources": ["cancel.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-pthread"]},
    "short": c("short.S short_main.c"),
    "cross": c("cross.S cross_main.c"),
    "regs": c("regs.S regs_run.S regs.c", "-no-pie", "-fno-pie"),
    "regs_pie": c("regs.S regs_run.S regs.c"),
    "blocking": c(BLOCKING),
    "spin": c("spin.c"),
    "storm": c("storm.c"),
    "churn": c("churn.c"),
    "openers": c("openers.c"),
    "mapper": c("mapper.c"),
    "forks": c("forks.c"),
    "vfork": c("vfork.c"),
    "dlopen": c("dlopen.c", "-ldl"),
    "libplug.so": c("plug.c", "-shared", "-fPIC"),
    "libplug_changed.so": c("plug.c", "-shared", "-fPIC", "-DCHANGED", "-Wl,-soname,libplug.so"),
    "ifunc": c("ifunc.c"),
    "sandbox": c("sandbox.c"),
    "forger": c("forger.c", "-no-pie", "-fno-pie"),
    "forbids": c("forbids.c", "-ldl"),
    "deep": {"sources": ["deep.go"], "command": ["go", "build"]},
    "stacktop": c("stacktop.c"),
    "backwards": c("backwards.c"),
    "dispatch": c("dispatch.c"),
    "timeless": c("timeless.c"),
    "values": c("values.c"),
    "wild": c("wild.c"),
    "places": c("places.c"),
    "typed_O0": c("typed.c", "-O0"),
    "typed_O2": c("typed.c"),
    "typed_cc_O0": {"sources": ["typed.cc"], "command": ["g++", "-O0", "-g", "-Wall", "-std=c++17"]},
    "typed_cc_O2": {"sources": ["typed.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-std=c++17"]},
    "tracepoints": c("tracepoints.c operands.S"),
    "tracepoints_static": c("tracepoints.c operands.S", "-static"),
    "tracepoints_clang": c("tracepoints.c operands.S", cc="clang"),
    "tracepoints_O0": c("tracepoints.c operands.S", "-O0"),
    "expressions": {"sources": ["places.S"], "command": ["gcc"]},
    "small": c("small.c"),
    "packed": c("packed.c"),
    "entry": c("entry.c"),
    "entry_clang": c("entry.c", cc="clang"),
    "typed_rs_0": {"sources": ["typed.rs"], "command": ["rustc", "-g", "--edition", "2021", "--crate-name", "typed"]},
    "typed_rs_2": {"sources": ["typed.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "typed"]},
    "typed_go_0": {"sources": ["typed.go"], "command": ["go", "build", "-gcflags=-N -l"]},
    "tight": {"sources": ["tight.go"], "command": ["go", "build"]},
    "grow": {"sources": ["grow.go"], "command": ["go", "build"]},
    "typed_go_2": {"sources": ["typed.go"], "command": ["go", "build"]},
    "errno": c("errno.c"),
    "errno_static": c("errno.c", "-static"),
    "errno_musl": c("errno.c", cc="musl-gcc"),
    "errno_musl_static": c("errno.c", "-static", cc="musl-gcc"),
    "local_rs_0": {"sources": ["local.rs"], "command": ["rustc", "-g", "--edition", "2021", "--crate-name", "local"]},
    "local_rs_2": {"sources": ["local.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "local"]},
    "results_rs_0": {"sources": ["results.rs"], "command": ["rustc", "-g", "--edition", "2021", "--crate-name", "results"]},
    "results_rs_2": {"sources": ["results.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "results"]},
    "variants_0": {"sources": ["variants.rs"], "command": ["rustc", "-g", "--edition", "2021", "--crate-name", "variants"]},
    "dropped_0": {"sources": ["dropped.rs"], "command": ["rustc", "-g", "--edition", "2021", "--crate-name", "dropped"]},
    "dropped_2": {"sources": ["dropped.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "dropped"]},
    "pieces": c("pieces.c", cc="clang"),
    "results_O0": c("results.c", "-O0"),
    "results_O2": c("results.c"),
    "results_clang": c("results.c", cc="clang"),
    "results_g1": c("results.c", "-g1"),
    "results_cc": {"sources": ["results.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-std=c++17"]},
    "ledger_cc_O0": {"sources": ["ledger.cc"], "command": ["g++", "-O0", "-g", "-Wall", "-Wextra", "-std=c++17", "-pthread"]},
    "ledger_cc_O2": {"sources": ["ledger.cc"], "command": ["g++", "-O2", "-g", "-Wall", "-Wextra", "-std=c++17", "-pthread"]},
    "ledger_rs_0": {"sources": ["ledger.rs"], "command": ["rustc", "-g", "--edition", "2021", "--crate-name", "ledger"]},
    "ledger_rs_2": {"sources": ["ledger.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "ledger"]},
    "variants_2": {"sources": ["variants.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021", "--crate-name", "variants"]},
    "forge": c("forge.c"),
    "liar": c("liar.c", "-ldl"),
    "odd": c("odd.c"),
    "script": c("script.c"),
    "longname": c("longname.c"),
    "harsh": c("harsh.c"),
    "libchain.so": c("chain_lib.c", "-shared", "-fPIC", "-DLIB=chain_linked"),
    "libchain_late.so": c("chain_lib.c", "-shared", "-fPIC", "-DLIB=chain_late"),
    "liblinked.so": c("local_lib.c", "-shared", "-fPIC", "-DNAME(x)=linked_##x"),
    "libearly.so": c("local_lib.c", "-shared", "-fPIC", "-DNAME(x)=early_##x", "-ftls-model=initial-exec"),
    "liblocal_late.so": c("local_lib.c", "-shared", "-fPIC", "-DNAME(x)=late_##x"),
    "local": c("local.c", f"-L{OUT}", "-Wl,--no-as-needed,-llinked,-learly,-rpath,$ORIGIN", "-ldl"),
    "chain": c("chain.c", f"-L{OUT}", "-Wl,--no-as-needed,-lchain,-rpath,$ORIGIN", "-ldl"),
    "everyday": c("everyday.c"),
    "oddthreads": c("oddthreads.c"),
    "oddthreads_static": c("oddthreads.c", "-static"),
    "vandal": c("vandal.c"),
    "hostile": c("hostile.c", f"-I{ROOT / 'src'}", "-ldl"),
    "many": c("many.c"),
    "numbers": c("numbers.c"),
    "filler": c("filler.c"),
    "guarded": c("guarded.c"),
    "recluse": c("recluse.c"),
    "leaver": c("leaver.c"),
    "mill": c("mill.c"),
    "moved": c("moved.c"),
    "twice": c("twice.c", "-no-pie", "-fno-pie"),
    "full": c("full.c", "-no-pie", "-fno-pie"),
    "bits32": {"sources": ["bits32.S"], "command": ["gcc", "-m32", "-nostdlib", "-static", "-no-pie"]},
    "hello_go": {"sources": ["hello.go"], "command": ["go", "build"]},
    "serve_go": {"sources": ["serve.go"], "command": ["go", "build"]},
    "hello_rs": {"sources": ["hello.rs"], "command": ["rustc", "-O", "-g", "--edition", "2021",
                                                      "--crate-name", "hello"]},
}


def build(name):
    """The path of a target, built if need be."""
    spec = TARGETS[name]
    if not shutil.which(spec["command"][0]):
        raise Missing(f"{spec['command'][0]} is not installed")
    sources = [SRC / s for s in spec["sources"]]
    out = OUT / name
    newest = max(p.stat().st_mtime for p in [*sources, *SRC.glob("*.h"), Path(__file__)])
    if out.exists() and out.stat().st_mtime > newest:
        return out
    OUT.mkdir(parents=True, exist_ok=True)
    fresh = OUT / f".{name}.{os.getpid()}"
    compile_to(spec, sources, fresh)
    os.replace(fresh, out)      # a running copy keeps its own file
    return out


def compile_to(spec, sources, out):
    command = spec["command"]
    flags = [f for f in command if f.startswith("-l")]
    command = [f for f in command if not f.startswith("-l")]
    env = dict(os.environ, GOCACHE=str(OUT / "go-cache"), GOFLAGS="-buildvcs=false")
    subprocess.run([*command, "-o", str(out), *map(str, sources), *flags], check=True, env=env, timeout=LIMIT * 3)
    if spec.get("strip"):
        subprocess.run(["strip", "--strip-all", str(out)], check=True)


class Target:
    """A running target that serves commands (tests/prog/prog.h)."""

    def __init__(self, name, *args, command=None, **popen):
        argv = command or [str(build(name)), *map(str, args)]
        self.name = name
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        **popen)
        self.pid = self.process.pid
        line = self.line()
        assert line == "ready", f"{name} said {line!r} instead of ready"

    def line(self, limit=None):
        """Its next line, or an error if none comes in time."""
        got = []
        reader = threading.Thread(target=lambda: got.append(self.process.stdout.readline()), daemon=True)
        reader.start()
        reader.join(limit or LIMIT)
        if not got:
            raise TimeoutError(f"{self.name} (pid {self.pid}) does not answer")
        return got[0].rstrip("\n")

    def ask(self, command, limit=None):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.line(limit)

    def run(self, n):
        answer = self.ask(f"run {n}")
        assert answer == f"done {n}", f"{self.name} answered {answer!r} (status {self.process.poll()})"

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        """Let it check itself and end; an error if it found anything wrong."""
        answer = self.ask("stop")
        status = self.process.wait(LIMIT)
        assert (answer, status) == ("ok", 0), f"{self.name}: {answer!r}, status {status}"

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for f in (self.process.stdin, self.process.stdout):
            try:
                f.close()
            except BrokenPipeError:
                pass
