#!/usr/bin/env -S /usr/bin/python3 -u
# SPDX-License-Identifier: MIT
"""Harmless: real programs give the same output and status with everything probed as without.

    harmless.py [--seconds N] [--only bash,python,...]

Every case runs once untraced, for the reference, and then under `jab count` with each set of
probes: every function of every module; every function and every return; every instruction of
chosen functions. A set that the time does not allow is left out, the first one never.
"""
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import Report, arguments
import jab
from targets import LIMIT

EVERYTHING = ["*:*"]
WITH_RETURNS = ["*:*", "*:/./%return"]


# Where the count under way puts its figures: a run that probed nothing would prove nothing.
FIGURES = Path(tempfile.gettempdir()) / f"jab-harmless-{os.getpid()}"


def traced(command, probes):
    if not probes:
        return command
    FIGURES.unlink(missing_ok=True)
    return [jab.JAB, "count", "--json", "-o", str(FIGURES), *probes, "--", *command]


def figures():
    """Sites, refused and hits of the last count; None if it did not get to its end."""
    try:
        probes = jab.Result(0, FIGURES.read_text(), "").summary["probes"]
    except (OSError, TypeError):
        return None
    return {k: sum(p[k] for p in probes) for k in ("sites", "refused", "hits")}


def run_plain(command, probes, cwd, limit, **more):
    """Status, stdout and stderr of a command, traced or not, in its own process group."""
    p = subprocess.Popen(traced(command, probes), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, start_new_session=True, **more)
    try:
        out, err = p.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        raise TimeoutError(f"no end after {limit:.0f} s: {command}")
    return p.returncode, out, err


class Case:
    """A command, its files, and what of its results must agree."""
    name = ""
    insns = []              # functions of which every instruction is probed
    files = []              # written by the command, compared byte by byte

    def available(self):
        return True

    def prepare(self, d):
        pass

    def command(self):
        raise NotImplementedError

    def clean(self, err):
        """stderr without what is never the same."""
        return err

    def results(self, d, probes, limit):
        for f in self.files:
            (d / f).unlink(missing_ok=True)
        status, out, err = run_plain(self.command(), probes, d, limit)
        got = {"status": status, "stdout": out, "stderr": self.clean(without_ours(err))}
        for f in self.files:
            got[f] = (d / f).read_bytes() if (d / f).exists() else None
        return got


def without_ours(err):
    return b"".join(x for x in err.splitlines(True) if not x.startswith(b"jab: "))


BASH = r"""
shopt -s extglob
s=""; for ((i = 0; i < 400; i++)); do s+="word$i,"; done
IFS=, read -ra list <<< "$s"
for w in "${list[@]}"; do u=${w^^}; r=""; for ((k = ${#u} - 1; k >= 0; k--)); do r+=${u:k:1}; done; echo "${r/O/0}"; done
declare -A seen; for w in "${list[@]}"; do [[ $w =~ ^word([0-9])([0-9]*)$ ]] && seen[${BASH_REMATCH[1]}]+=${BASH_REMATCH[2]}; done
for k in $(printf '%s\n' "${!seen[@]}" | sort); do echo "$k ${#seen[$k]} ${seen[$k]:0:40}"; done
fib() { local n=$1; ((n < 2)) && { echo "$n"; return; }; echo $(( $(fib $((n - 1))) + $(fib $((n - 2))) )); }
fib 8
printf '%05d %x %o %s %q\n' 42 255 8 "a b" 'quote '"'"' me'
trap 'echo trapped' USR1; kill -USR1 $$; wait
cat <<END | sed 's/a/b/g' | tr b-z c-za | awk '{ n += length($0) } END { print n, $0 }'
$(seq 1 300 | while read -r x; do echo "line $((x * x % 97)) ${s:x:10}"; done)
END
case $s in *word399*) echo found;; *) echo lost;; esac
(exit 3) || echo "status $?"
x=$( { echo out; echo err >&2; } 2>&1 ); echo "${x//$'\n'/+}"
exec 5< <(seq 5); while read -ru 5 n; do echo -n "$n "; done; echo
exit 21
"""


class Bash(Case):
    name = "bash"
    insns = ["insn:exe:expand_*", "insn:libc:malloc", "insn:libc:str*"]

    def prepare(self, d):
        (d / "script").write_text(BASH)

    def command(self):
        return ["/bin/bash", "script"]


# Without the one that fails where others have the CPU for a tenth of a second.
PYTHON_TESTS = """
import test.test_re, unittest
if hasattr(test.test_re.ReTests, "test_search_anchor_at_beginning"):
    del test.test_re.ReTests.test_search_anchor_at_beginning
unittest.main(module=None)
"""


class Python(Case):
    """A part of its own test suite; the time that the tests took is taken out."""
    name = "python"
    tests = ["test_struct", "test_re", "test_json", "test_math", "test_dict", "test_generators", "test_exceptions"]
    insns = ["insn:exe:_PyEval_EvalFrameDefault", "insn:exe:PyObject_Malloc", "insn:exe:PyDict_*"]

    def available(self):
        return self.usable_tests() != []

    def usable_tests(self):
        code = "import importlib.util as u, sys; print(*[t for t in sys.argv[1:] if u.find_spec('test.' + t)])"
        p = subprocess.run(["/usr/bin/python3", "-c", code, *self.tests], capture_output=True, text=True)
        return p.stdout.split()

    def command(self):
        return ["/usr/bin/python3", "-W", "ignore", "-c", PYTHON_TESTS, *(f"test.{t}" for t in self.usable_tests())]

    def clean(self, err):
        return re.sub(rb"in [0-9.]+s", b"in TIME", err)


PYTHON_WORK = r"""
import hashlib, json, random, re, struct, zlib, decimal, collections, itertools, sys
rnd = random.Random(5)
h = hashlib.sha256()
for i in range(60):
    data = {str(k): [rnd.random(), rnd.randrange(10**30), 'x' * rnd.randrange(50)] for k in range(200)}
    text = json.dumps(data, sort_keys=True)
    assert json.loads(text) == data
    h.update(text.encode()); h.update(zlib.compress(text.encode(), 9))
    h.update(repr(collections.Counter(re.findall(r'\d{3}', text)).most_common(5)).encode())
    h.update(struct.pack('<dq', *(sum(v[0] for v in data.values()), i)))
decimal.getcontext().prec = 400
h.update(str(decimal.Decimal(2).sqrt()).encode())
h.update(str(pow(3, 20000)).encode() if not hasattr(sys, 'set_int_max_str_digits') else hex(pow(3, 20000)).encode())
def f(n):
    try:
        if n % 3 == 0: raise ValueError(n)
        return f(n - 1) + 1
    except ValueError as e:
        return e.args[0]
h.update(repr([f(n) for n in range(200)]).encode())
print(h.hexdigest())
sys.exit(9)
"""


class PythonWork(Python):
    name = "python-work"

    def available(self):
        return os.path.exists("/usr/bin/python3")

    def prepare(self, d):
        (d / "work.py").write_text(PYTHON_WORK)

    def command(self):
        return ["/usr/bin/python3", "work.py"]


def large_c(functions):
    """C with loops, switches, floats and structs; the same text every time."""
    parts = ["struct s { long a; double d; char t[12]; };\nextern int use(struct s *, long);\n"]
    for i in range(functions):
        cases = "".join(f"\tcase {k * (i % 5 + 1)}: x += {k * i % 91}; y *= {k}.5; break;\n" for k in range(12))
        parts.append(f"""
static long f{i}(struct s *p, long n)
{{
	long x = n * {i % 37 + 1}; double y = p->d + {i}.25;
	for (int k = 0; k < (n & {i % 31 + 1}); k++) {{
		switch ((x + k) % {i % 13 + 7}) {{
{cases}		default: p->t[k % 12] ^= (char)(x >> {i % 7}); if (use(p, x)) return x - k;
		}}
		x ^= (long)(y * {i % 11 + 1}) + p->a{f" + f{i - 1}(p, n - 1)" if i else ""};
	}}
	p->d = y; p->a += x;
	return x;
}}
long g{i}(struct s *p) {{ return f{i}(p, p->a) + f{i}(p, {i}); }}
""")
    return "".join(parts)


class Cc1(Case):
    name = "cc1"
    files = ["large.s"]
    insns = ["insn:libc:malloc", "insn:libc:_int_*", "insn:libc:qsort*"]

    def path(self):
        p = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
        return p if os.path.isabs(p) else ""

    def available(self):
        return shutil.which("gcc") and self.path()

    def prepare(self, d):
        (d / "large.c").write_text(large_c(250))

    def command(self):
        return [self.path(), "-quiet", "-O2", "-g", "large.c", "-o", "large.s"]


class OpensslEnc(Case):
    name = "openssl-enc"
    files = ["out"]
    insns = ["insn:libcrypto:EVP_*", "insn:libc:mem*"]

    def available(self):
        return shutil.which("openssl")

    def prepare(self, d):
        block = hashlib.sha512(b"seed").digest()
        with open(d / "in", "wb") as f:
            for i in range(60000):
                block = hashlib.sha512(block + bytes([i & 255])).digest()
                f.write(block)

    def command(self):
        return ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-iter", "20000", "-S", "0011223344556677", "-k", "word",
                "-in", "in", "-out", "out"]


class OpensslDigest(OpensslEnc):
    name = "openssl-digest"
    files = []

    def command(self):
        return ["openssl", "dgst", "-sha3-256", "-hmac", "key", "in"]


class OpensslSpeed(OpensslEnc):
    """Its figures differ; that it ends well, and with as many lines, does not."""
    name = "openssl-speed"
    files = []

    def command(self):
        return ["openssl", "speed", "-seconds", "1", "-bytes", "1024", "sha256", "aes-128-cbc"]

    def clean(self, err):
        return re.sub(rb"[0-9.]+", b"N", err)

    def results(self, d, probes, limit):
        got = super().results(d, probes, limit)
        got["stdout"] = len(got["stdout"].splitlines())
        got["stderr"] = len(got["stderr"].splitlines())
        return got


def redis_commands():
    """A workload whose result does not depend on time or order of arrival."""
    out = []
    for i in range(4000):
        out += [f"SET k{i % 700} value{i * 7919 % 1000}", f"INCRBY n{i % 50} {i}", f"RPUSH l{i % 40} e{i}",
                f"HSET h{i % 60} f{i % 37} {i}", f"ZADD z{i % 30} {i * 31 % 1009} m{i % 211}", f"SADD s{i % 20} {i % 333}",
                f"APPEND a{i % 9} {'x' * (i % 17)}", f"PFADD p{i % 5} v{i}"]
        if i % 11 == 0:
            out += [f"LPOP l{i % 40}", f"DEL k{i % 350}", f"SINTERSTORE s99 s{i % 20} s{(i + 1) % 20}",
                    f"SETRANGE a{i % 9} 3 zz", f"ZREMRANGEBYRANK z{i % 30} 0 1"]
    out.append("EVAL \"local s = 0 for i = 1, 20000 do s = (s * 31 + i) % 1000003 end redis.call('set', 'lua', s)\" 0")
    return "\n".join(out) + "\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Redis(Case):
    """redis-server with a fixed set of commands and redis-benchmark, its data compared."""
    name = "redis"
    insns = ["insn:exe:processCommand", "insn:exe:dict*", "insn:exe:sds*"]
    benchmark = ["-n", "5000", "-c", "20", "-q", "-t", "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,mset"]

    def available(self):
        return all(shutil.which(x) for x in ("redis-server", "redis-cli", "redis-benchmark"))

    def cli(self, port, *args, **more):
        p = subprocess.run(["redis-cli", "-h", "127.0.0.1", "-p", str(port), *args], capture_output=True, timeout=LIMIT * 3,
                           **more)
        return p.stdout

    def results(self, d, probes, limit):
        port = free_port()
        (d / "dump.rdb").unlink(missing_ok=True)
        server = subprocess.Popen(
            traced(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(d), "--save", "",
                    "--appendonly", "no", "--daemonize", "no", "--enable-debug-command", "yes"], probes),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            return self.drive(server, port, d, limit)
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()

    def drive(self, server, port, d, limit):
        end = time.monotonic() + limit
        while b"PONG" not in self.cli(port, "ping"):
            if server.poll() is not None or time.monotonic() > end:
                return {"status": server.poll(), "started": False}
            time.sleep(.05)
        got = {"replies": hashlib.sha256(self.cli(port, input=redis_commands().encode())).hexdigest()}
        bench = subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), *self.benchmark],
                               capture_output=True, timeout=limit)
        got["benchmark"] = bench.returncode
        got["digest"] = self.cli(port, "debug", "digest")
        got["size"] = self.cli(port, "dbsize")
        self.cli(port, "save")
        got["reload"] = self.cli(port, "debug", "reload") and self.cli(port, "debug", "digest")
        self.cli(port, "shutdown", "nosave")
        got["status"] = server.wait(limit)
        return got


CASES = [Bash(), PythonWork(), Python(), Cc1(), OpensslEnc(), OpensslDigest(), OpensslSpeed(), Redis()]


def explain(want, got):
    """The first difference of each part that differs."""
    out = []
    for k in want:
        if want[k] == got.get(k):
            continue
        w, g = want[k], got.get(k)
        if isinstance(w, bytes) and isinstance(g, bytes):
            at = next((i for i, (x, y) in enumerate(zip(w, g)) if x != y), min(len(w), len(g)))
            w, g = w[max(0, at - 100):at + 300], g[max(0, at - 100):at + 300]
        out.append(f"{k}: {g!r} instead of {w!r}")
    return "; ".join(out) or f"{got}"


def run_case(case, d, report):
    case.prepare(d)
    begin = time.monotonic()
    want = case.results(d, None, LIMIT * 5)
    once = time.monotonic() - begin
    if want != case.results(d, None, LIMIT * 5):
        report.fail(case.name, "two untraced runs differ: " + str(want)[:500])
        return
    limit = LIMIT * 3 + 60 * once       # everything probed costs some time
    for i, probes in enumerate([EVERYTHING, WITH_RETURNS, *([x] for x in case.insns)]):
        if i and report.time_left() <= 0:
            report.count("left out")
            continue
        begin = time.monotonic()
        try:
            got = case.results(d, probes, limit)
        except (TimeoutError, subprocess.TimeoutExpired) as e:
            report.fail(f"{case.name} {probes}", e)
            continue
        report.count("runs")
        numbers = figures()
        report.line(case=case.name, probes=probes, same=got == want, untraced_s=round(once, 2),
                    traced_s=round(time.monotonic() - begin, 2), count=numbers)
        if got == want and not (numbers and numbers["hits"] and numbers["sites"] > numbers["refused"] * 20):
            report.fail(f"{case.name} {probes}", f"same, but hardly anything was probed: {numbers}")
        elif got != want:
            report.fail(f"{case.name} {probes}", explain(want, got))


def main():
    a = arguments(__doc__.splitlines()[0])
    report = Report(a.seconds, seed=a.seed, cases=[c.name for c in CASES], jab=jab.JAB)
    cases = [c for c in CASES if not a.only or c.name in a.only]
    for case in report.in_time(cases, random.Random(a.seed), a.all):
        if not case.available():
            report.line(case=case.name, skipped="not installed here")
            continue
        with tempfile.TemporaryDirectory(prefix="jab-harmless-") as d:
            run_case(case, Path(d), report)
    FIGURES.unlink(missing_ok=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
