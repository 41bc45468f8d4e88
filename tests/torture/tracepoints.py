#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Static tracepoints of the programs that are installed: all notes of all files are listed as readelf has them, and each takes a jump; all
of a program's tracepoints are probed at once while it works, and its results are those that it has alone. Python, Java, PostgreSQL,
PHP and Ruby, as far as they are there. `tracepoints.py --seconds N [--seed N]`."""
import glob
import os
import pwd
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Report, arguments

import jab          # noqa: E402
import scripts      # noqa: E402
from targets import LIMIT       # noqa: E402

PLACES = ["/usr/bin/*", "/usr/sbin/*", "/usr/local/bin/*", "/usr/lib/x86_64-linux-gnu/*.so*", "/usr/lib/jvm/*/lib/server/*.so", "/usr/lib/jvm/*/lib/*.so",
          "/usr/lib/postgresql/*/bin/*"]

JAVA = """
public class Work {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static synchronized long step(long x) { return x * 31 + 7; }
    public static void main(String[] a) throws Exception {
        long sum = 0;
        java.util.List<byte[]> keep = new java.util.ArrayList<>();
        for (int i = 0; i < 100; i++) {
            sum = step(sum) + fib(10);
            keep.add(new byte[1 << 16]);
            if (keep.size() > 50) keep.clear();
        }
        Thread[] t = new Thread[4];
        for (int i = 0; i < 4; i++) { t[i] = new Thread(() -> { for (int k = 0; k < 500; k++) step(k); }, "worker-" + i); t[i].start(); }
        for (Thread x : t) x.join();
        System.gc();
        System.out.println("sum " + sum);
    }
}
"""
CALLS = {("fib", "(I)I"): 100 * 177, ("step", "(J)J"): 100 + 4 * 500, ("main", "([Ljava/lang/String;)V"): 1}

PYTHON = "import gc, json\ndef f(n): return n and 1 + f(n - 1)\nprint(json.dumps([f(30) for i in range(40)]), gc.collect())\n"
PHP = "<?php function f($n) { return $n ? 1 + f($n - 1) : 0; } $s = 0; for ($i = 0; $i < 200; $i++) $s += f(20); echo $s, \"\\n\";"
RUBY = "def f(n) n == 0 ? 0 : 1 + f(n - 1) end\nputs (1..200).map { f(20) }.sum, Array.new(20000) { |i| i.to_s }.uniq.size\nGC.start\n"
SQL = """create table t(a int, b text);
insert into t select g, md5(g::text) from generate_series(1,5000) g;
select count(*), sum(a), min(b) from t;
create index i on t(b);
select a from t where b = md5('777');
drop table t;
"""


def has_notes(path):
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF" and b".note.stapsdt" in f.read()
    except OSError:
        return False


def noted_files():
    paths = {os.path.realpath(p) for place in PLACES for p in glob.glob(place) if os.path.isfile(p)}
    return sorted(p for p in paths if has_notes(p))


def readelf(path):
    text = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True).stdout
    found = re.findall(r"Provider: (.*)\n\s+Name: (.*)\n\s+Location: (0x\w+), .*\n\s+Arguments: ?(.*)", text)
    return {(p, n, int(at, 16)): args.split() for p, n, at, args in found}


def one_file(path):
    """What is wrong, or None. Another CPU's file is refused."""
    r = jab.run("list", "--json", path, "usdt:*")
    if r.status and ("not an ELF file for" in r.stderr or "none of the files has notes" in r.stderr):
        return None if "for" in r.stderr or not readelf(path) else f"{path}: {r}"
    ours = {(x["provider"], x["name"], int(s["address"], 16)): [a["operand"] for a in s["args"]] for x in r.rows for s in x["sites"]}
    if ours != readelf(path):
        return f"{path}: not the same notes as readelf has: {set(ours) ^ set(readelf(path))}"
    unread = [a for x in r.rows for s in x["sites"] for a in s["args"] if "reason" in a]
    c = jab.run("check", "--json", path, "usdt:*")
    return None if not unread and c.summary["refused"] == 0 and c.summary["sites"] == len(ours) else f"{path}: {unread} {c}"


def alone(command, **popen):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **popen)


def same_results(command, **popen):
    """All tracepoints at once. (what is wrong or None, hits by name)"""
    want = alone(command, **popen)
    with tempfile.NamedTemporaryFile("r") as out:
        os.chmod(out.name, 0o666)
        p = alone([jab.JAB, "count", "--json", "-o", out.name, "usdt:*", "--", *command], **popen)
        r = jab.Result(p.returncode, out.read(), p.stderr, p.stdout)
    hits = {x["function"]: x["hits"] for x in r.rows}
    good = (want.returncode, want.stdout) == (r.status, r.stdout) and r.summary and r.summary["clean"] and sum(hits.values())
    return None if good else f"{command}: {want.stdout[-500:]} {want.stderr[-500:]}\n{r}", hits


def python(d):
    wrong, hits = same_results(["/usr/bin/python3", "-I", "-c", PYTHON])
    return wrong or (None if hits["python:function__entry"] == hits["python:function__return"] > 1000 else f"{hits}")


def java(d):
    """Calls of methods, counted by names and signatures that are no C strings; GC and libc beside them, in order."""
    (d / "Work.java").write_text(JAVA)
    subprocess.run(["javac", "-d", d, d / "Work.java"], check=True)
    command = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:+ExtendedDTraceProbes", "-cp", str(d), "Work"]
    wrong, _ = same_results(command)
    if wrong:
        return wrong
    s = scripts.run('usdt:hotspot:method__entry /str(arg1, arg2) == "Work"/ { @[str(arg3, arg4), str(arg5, arg6)] = count(); }', *command)
    for (name, signature), n in CALLS.items():
        if f"@[{name}, {signature}]: {n}\n" not in s.output:
            return f"{name}{signature}: {s}"
    r = jab.run("record", "-o", d / "trace", "usdt:hotspot:class__loaded name=str(arg0, arg1)", "usdt:hotspot:mem__pool__gc__* pool=str(arg2, arg3)",
                "libc:mmap", "--", *command)
    p = alone(["babeltrace2", "--no-delta", d / "trace"])
    times = [x.split("]")[0] for x in p.stdout.splitlines()]
    good = (r.status == 0 and p.returncode == 0 and times == sorted(times) and 'hotspot:class__loaded: ' in p.stdout and 'name = "Work"' in p.stdout and
            'pool = "Eden Space"' in p.stdout and "libc.so.6:mmap" in p.stdout)
    shutil.rmtree(d / "trace")
    return None if good else f"{r} {p.stdout[:1000]} {p.stderr[-500:]}"


def postgres(d):
    """A session of one process, its 71 tracepoints behind semaphores."""
    program = shutil.which("postgres") or next(iter(glob.glob("/usr/lib/postgresql/*/bin/postgres")), None)
    nobody = pwd.getpwnam("nobody")
    data = d / "data"
    data.mkdir()
    os.chmod(d, 0o755)
    os.chown(data, nobody.pw_uid, nobody.pw_gid)
    unprivileged = ["setpriv", "--reuid=nobody", "--clear-groups", "env", "HOME=/tmp"]
    subprocess.run([*unprivileged, Path(program).resolve().parent / "initdb", "-D", data, "-A", "trust", "-N"], check=True, capture_output=True, cwd=data)
    command = [*unprivileged, program, "--single", "-D", str(data), "postgres"]
    wrong, hits = same_results(command, input=SQL, cwd=data)
    shutil.rmtree(data)
    return wrong or (None if hits["postgresql:lwlock__acquire"] and hits["postgresql:query__start"] >= 5 else f"{hits}")


def php(d):
    wrong, hits = same_results(["php", "-n", "-r", PHP[6:]], env={**os.environ, "USE_ZEND_DTRACE": "1"})
    return wrong or (None if hits["php:function__entry"] == 200 * 21 == hits["php:function__return"] else f"{hits}")


def ruby(d):
    wrong, hits = same_results(["ruby", "-e", RUBY])
    return wrong or (None if hits["ruby:string__create"] > 20000 else f"{hits}")


PROGRAMS = {"python": (python, "/usr/bin/python3"), "java": (java, "javac"), "postgres": (postgres, "postgres"), "php": (php, "php"), "ruby": (ruby, "ruby")}


def is_there(name, word):
    return bool(shutil.which(word) or (name == "postgres" and glob.glob("/usr/lib/postgresql/*/bin/postgres")))


def main():
    a = arguments(__doc__)
    r, report = random.Random(a.seed), Report(a.seconds, seed=a.seed, jab=jab.JAB)
    there = [n for n, (_, word) in PROGRAMS.items() if is_there(n, word)]
    report.line(programs=there, absent=[n for n in PROGRAMS if n not in there])
    files = noted_files()
    report.line(files=len(files))
    for case in report.in_time([*there, *files], r, a.all):
        with tempfile.TemporaryDirectory() as d:
            wrong = PROGRAMS[case][0](Path(d)) if case in PROGRAMS else one_file(case)
        report.count("programs" if case in PROGRAMS else "files")
        if wrong:
            report.fail(case, wrong)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
