# SPDX-License-Identifier: MIT
"""The same text for bpftrace and for jab, on the same program: what both print must agree.

Names in <> are filled in: <script> and the like are programs of tests/prog, <libc> is the C library. What can't be the
same twice (numbers of processes, times) is taken out of both outputs first.
"""
import atexit
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import jab
import targets

LIMIT = 120


class Case:
    def __init__(self, name, command, text, params=(), mask=(), totals=False, stdin=None, unordered=False):
        self.name, self.command, self.text, self.params = name, command, text, params
        self.mask = mask            # regular expressions whose finds are the same for us
        self.totals = totals        # only how often, not which bucket
        self.unordered = unordered  # lines of several threads
        self.stdin = stdin


PREAMBLE = """struct item { int id; short small; unsigned flag : 3; unsigned wide : 20; int left : 5; char name[16];
    struct item *next; double weight; float ratio; long a; long b; int v[4]; int mood; unsigned int word; };
"""

def usdt_registers(*names):
    """All that bpftrace asks of some registers (6 arguments), by the notes of tests/prog/operands.S."""
    return "\n".join(f'usdt:<tracepoints>:forms:{n} {{ printf("{n} %lu %ld %lu %ld %lu %ld\\n", arg0, arg1, arg2, arg3, arg4, arg5); }}'
                     for n in names)


CASES = [
    # Static tracepoints; bpftrace 0.17 reads an operand that is a symbol (counter(%rip)) from a wrong address.
    Case("usdt_legacy", "<tracepoints> work 2", usdt_registers("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp")),
    Case("usdt_new", "<tracepoints> work 2", usdt_registers("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15")),
    Case("usdt_constants", "<tracepoints> work 2", r'usdt:<tracepoints>:forms:constants { printf("%ld %ld %lx %ld %ld %ld\n", arg0, arg1, arg2, arg3, '
         r'arg4, arg5); }'),
    Case("usdt_memory", "<tracepoints> work 2", r'usdt:<tracepoints>:forms:memory { printf("%lx %ld %ld %ld %ld\n", arg0, arg1, arg2, arg3, arg4); } '
         r'usdt:<tracepoints>:forms:stack { printf("%lx %ld %ld\n", arg0, arg1, arg2); }'),
    Case("usdt_nops", "<tracepoints> work 5", "\n".join(f"usdt:<tracepoints>:forms:{n} {{ @[arg0] = count(); }}" for n in ("pair", "nop5"))),
    Case("usdt_places", "<tracepoints> work 20", "usdt:<tracepoints>:app:both { @[arg0, arg1] = count(); }"),
    Case("usdt_text", "<tracepoints> work 20", r'usdt:<tracepoints>:app:guarded { printf("%ld %s\n", arg0, str(arg1)); }'
         "\nusdt:<tracepoints>:app:plain { @[arg0] = count(); }"),
    # one-liners
    Case("count", "<script> tell 50", "uprobe:<script>:take { @ = count(); }"),
    Case("sum", "<script> tell 50", "uprobe:<script>:take { @ = sum((int32)arg0); }"),
    Case("extremes", "<script> tell 50", "uprobe:<script>:take { @lo = min((int32)arg0 + 100); @hi = max((int32)arg0 + 100); }"),
    Case("average", "<script> tell 50", "uprobe:<script>:take { @a = avg((int32)arg0 + 100); @s = stats((int32)arg0 + 100); }"),
    Case("hist", "<script> tell 200", "uprobe:<script>:take { @h = hist((int32)arg0); }"),
    Case("hist_wide", "<script> format", "uprobe:<script>:show { @h = hist(arg3); @s = hist((int8)arg0); }"),
    Case("lhist", "<script> tell 200", "uprobe:<script>:take { @h = lhist((int32)arg0, 0, 100, 10); }"),
    Case("hist_by_text", "<script> tell 100", "uprobe:<script>:take { @[str(arg1)] = hist((int32)arg0); }"),
    Case("by_text", "<script> tell 100", "uprobe:<script>:take { @[str(arg1)] = count(); }"),
    Case("by_number", "<script> tail 20", "uprobe:<script>:tail { @[arg0 % 4] = sum(arg0); }"),
    Case("two_keys", "<script> tell 100", "uprobe:<script>:take { @[((int32)arg0 + 100) / 50, str(arg1)] = count(); }"),
    Case("comm", "<script> tail 20", "uprobe:<script>:tail { @[comm, arg0 / 7] = count(); }"),
    Case("probe", "<script> tail 20", "uprobe:<script>:tail,uprobe:<script>:tail_end { @[probe] = count(); }"),
    Case("wildcard", "<script> tail 20", "uprobe:<script>:tail* { @[probe] = count(); }"),
    Case("pid_is_tid", "<script> tail 20", "uprobe:<script>:tail /pid == tid/ { @ = count(); }"),
    Case("return", "<script> tell 50", "uretprobe:<script>:take { @s = sum(retval); @n = count(); }"),
    # statements
    Case("predicate", "<script> tell 100", "uprobe:<script>:take /(int32)arg0 > 100/ { @a = count(); }\n"
         "uprobe:<script>:take /str(arg1) == \"beta\"/ { @b = count(); }"),
    Case("printf", "<script> format", r'uprobe:<script>:show { printf("%d %u %x %lld %llx %s [%10s] [%-10s]\n", (int32)arg2, '
         r'(uint32)arg3, (uint32)arg3, arg4, arg4, str(arg5), str(arg5), str(arg5)); }'),
    Case("printf_narrow", "<script> format", r'uprobe:<script>:show { printf("%d %d %d %c|%5d|%-5d|%05d\n", (int8)arg0, '
         r'(uint16)arg1, (int32)arg2, 65 + (arg1 & 7), (int8)arg0, (int8)arg0, (uint16)arg1); }'),
    Case("if_else", "<script> tail 30", "uprobe:<script>:tail { if (arg0 < 10) { @[\"low\"] = count(); } else { if (arg0 % 2) "
         "{ @[\"odd\"] = count(); } else { @[\"even\"] = count(); } } }"),
    Case("ternary", "<script> tail 30", 'uprobe:<script>:tail { @ = sum(arg0 > 10 ? 100 : 1); }'),
    Case("unroll", "<script> tail 5", "uprobe:<script>:tail { $i = 1; unroll(5) { @[$i] = count(); $i = $i * 2; } }"),
    Case("while", "<script> tail 8", "uprobe:<script>:tail { $i = 0; while ($i < 5) { @n++; $i++; if ($i == arg0) { break; } } }"),
    Case("variables", "<script> tail 10", r'uprobe:<script>:tail { $a = arg0 * 3; $b = $a << 2; $c = ($b ^ 0xff) & ~3; $d = $c | 1; '
         r'printf("%d %d %d %d %d %d\n", $a, $b, $c, $d, -$a, !$a); }'),
    Case("compare", "<script> tail 10", r'uprobe:<script>:tail { printf("%d%d%d%d%d%d %d %d\n", arg0 < 5, arg0 <= 5, arg0 > 5, '
         r'arg0 >= 5, arg0 == 5, arg0 != 5, arg0 && 4, 0 || arg0); }'),
    Case("maps", "<script> tail 20", "uprobe:<script>:tail { @last = arg0; @n++; @sum += arg0; @by[arg0 % 5] = arg0; }"),
    Case("adds_to_itself", "<script> tail 20", "uprobe:<script>:tail { @a = @a + 1; @b[arg0 % 2] = @b[arg0 % 2] + arg0; }"),
    Case("delete", "<script> tail 20", "uprobe:<script>:tail { @x[arg0] = arg0; if (arg0 > 5) { delete(@x[arg0 - 5]); } }"),
    Case("clear_at_end", "<script> tail 20", "uprobe:<script>:tail { @x[arg0] = count(); @y = count(); } END { clear(@x); }"),
    Case("zero_at_end", "<script> tail 5", "uprobe:<script>:tail { @x[arg0] = arg0; } END { zero(@x); }"),
    Case("begin_end", "<script> tail 5", r'BEGIN { printf("hello %s\n", "you"); @t = 7; } uprobe:<script>:tail /arg0 == 3/ '
         r'{ printf("t %d\n", @t); } END { printf("bye\n"); }'),
    Case("strncmp", "<script> tell 100", 'uprobe:<script>:take /strncmp("alp", str(arg1), 3) == 0/ { @ = count(); }'),
    Case("str_length", "<script> format", r'uprobe:<script>:show { printf("[%s] [%s]\n", str(arg5, 4), str(arg5, arg1 & 7)); }'),
    Case("buffers", "<script> format", r'uprobe:<script>:show { printf("%r\n", buf(arg5, 4)); }'),
    Case("tuples", "<script> tail 5", r'uprobe:<script>:tail { $t = (arg0, "x", (int32)5); @[$t.0, $t.1] = $t.2; print((arg0, 2)); }'),
    Case("print_top", "<script> tail 50", "uprobe:<script>:tail { @[arg0 % 10] = sum(arg0); } END { print(@, 3); print(@, 2, 10); clear(@); }"),
    Case("members", "<script> tell 60", PREAMBLE + "uprobe:<script>:take { $i = (struct item *)arg2; @id = sum($i->id + 100); "
         "@chain = sum($i->next->next->id + 100); @name[$i->name] = count(); @v = sum($i->v[1] + $i->v[3] + 100); @f[$i->flag] = count(); "
         "@small = sum($i->small + 100000); }"),
    Case("pointers", "<script> tell 60", "uprobe:<script>:take { @ = sum(*(int32 *)arg2 + 100); @c[*(uint8 *)arg1] = count(); }"),
    Case("parameters", "<script> tail 20", "uprobe:<script>:tail /arg0 < $1/ { @[str($2)] = count(); @n = $#; }", params=("7", "word")),
    Case("exit", "<script> tail 2000000", r'uprobe:<script>:tail /arg0 == 3/ { printf("out\n"); exit(); }'),
    Case("recursion", "<script> deep 5 10", "uprobe:<script>:sink_in { @[arg0] = count(); } uretprobe:<script>:sink_in { @r[retval] = count(); }"),
    Case("threads", "<script> threads 4 2000", "uprobe:<script>:take { @[str(arg1)] = count(); @s = sum(arg0); }"),
    # functions that end with a jump to another one
    Case("tail_calls", "<tails> 20 calm", " ".join(f"uprobe:<tails>:{n} {{ @e[\"{n}\"] = count(); }} uretprobe:<tails>:{n} {{ @n[\"{n}\"] = count(); "
         f"@s[\"{n}\"] = sum((int64)retval); }}" for n in ("leaf", "direct", "twice", "maybe", "both", "even", "odd", "round_one", "round_two"))),
    Case("tail_latency", "<tails> 20 calm", " ".join(f"uprobe:<tails>:{n} {{ @start[tid] = nsecs; }} uretprobe:<tails>:{n} /@start[tid]/ "
         f"{{ @[\"{n}\"] = lhist(nsecs - @start[tid], 0, 600000, 300000); delete(@start[tid]); }}" for n in ("direct", "round_one")), totals=True),
    # tools
    Case("latency", "<everyday> sleep 20", "uprobe:<everyday>:pause_for { @start[tid] = nsecs; } uretprobe:<everyday>:pause_for /@start[tid]/ "
         "{ @us = hist((nsecs - @start[tid]) / 1000); delete(@start[tid]); }", totals=True),
    Case("malloc_sizes", "<everyday> alloc 500", "uprobe:<libc>:malloc /pid == cpid/ { @bytes = hist(arg0); @total = sum(arg0); @by[comm] = count(); }"),
    Case("lock_latency", "<everyday> lock 4 50", "uprobe:<libc>:pthread_mutex_lock /pid == cpid/ { @start[tid] = nsecs; @lock[tid] = arg0; } "
         "uretprobe:<libc>:pthread_mutex_lock /@start[tid]/ { @ns = hist(nsecs - @start[tid]); @n = count(); delete(@start[tid]); "
         "delete(@lock[tid]); }", totals=True),
    Case("getaddrinfo", "<everyday> name", r'uprobe:<libc>:getaddrinfo /pid == cpid/ { @start[tid] = nsecs; @name[tid] = arg0; } '
         r'uretprobe:<libc>:getaddrinfo /@start[tid]/ { $us = (nsecs - @start[tid]) / 1000; printf("%-6d %-16s %6d %s\n", pid, comm, $us, '
         r'str(@name[tid])); delete(@start[tid]); delete(@name[tid]); }', mask=[r"^\d+ +", r"  +\d+ (?=localhost)"]),
    Case("readline", "<bash> --norc -i", r'uretprobe:<bash>:readline /pid == cpid/ { printf("%-6d %s\n", pid, str(retval)); }', mask=[r"^\d+ +"],
         stdin="echo one\n: two three\nexit\n"),
    Case("shell_commands", "<bash> --norc -i", "uprobe:<bash>:execute_command /pid == cpid/ { @[comm] = count(); } "
         "uretprobe:<bash>:readline /pid == cpid && str(retval) == \": two three\"/ { @two = count(); }",
         stdin="echo one\n: two three\nexit\n"),
    Case("timers", None, r'BEGIN { @n = 10; } interval:ms:20 { @n++; printf("%d\n", @n); if (@n == 14) { exit(); } } END { printf("end\n"); }'),
    Case("ssl", "<openssl>", r'uprobe:<libssl>:SSL_write /pid == cpid/ { printf("> %d %s\n", arg2, str(arg1, arg2)); } '
         r'uprobe:<libssl>:SSL_read /pid == cpid/ { @to[tid] = arg1; } '
         r'uretprobe:<libssl>:SSL_read /@to[tid]/ { if ((int32)retval > 0) { printf("< %d %s\n", retval, str(@to[tid], retval)); } '
         r'delete(@to[tid]); }', stdin="hello world\nCLOSE\n"),
]

# What `make check` asks: one of each kind. Nothing of libc: its uprobes would be seen in every process of the machine,
# and so by other tests that compare text.
QUICK = ["usdt_legacy", "usdt_memory", "usdt_text", "hist_by_text", "printf", "members", "latency", "readline", "tail_calls", "tail_latency"]


def fill(text):
    def one(m):
        if m[1] == "openssl":
            return f"{shutil.which('openssl')} s_client -quiet -ign_eof -connect 127.0.0.1:{tls_server()}"
        if m[1] == "bash":
            return own_copy("/bin/bash")
        return library(m[1]) if m[1].startswith("lib") else own_copy(str(targets.build(m[1])))
    return re.sub(r"<(libc|libssl|script|tails|naps|everyday|tracepoints|openssl|bash)>", one, text)


copies = {}


def own_copy(path):
    """A file that nobody else has: the kernel puts bpftrace's breakpoints into every process that uses a file, also over jumps that
    are there already. Two comparisons at a time would take each other's hits, and end each other's programs."""
    if path not in copies:
        d = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, d)
        copies[path] = shutil.copy(path, d)
    return copies[path]


def library(name):
    """A copy of a library, under the name that the loader looks for: run_tool() says where."""
    found = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    paths = re.findall(rf"^\s{name}\.so\.\d+ \(libc6,x86-64\S*.*=> (\S+)$", found, re.M)
    if not paths:
        raise targets.Missing(f"{name} is not installed")
    return own_copy(paths[0])


server = None


def tls_server():
    """The port of a server that sends each line back reversed, and ends with us."""
    global server
    if server:
        return server[1]
    if not shutil.which("openssl"):
        raise targets.Missing("openssl is not installed")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    d = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, d)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                    "/CN=localhost", "-keyout", f"{d}/key", "-out", f"{d}/cert"], check=True, capture_output=True)
    p = subprocess.Popen(["openssl", "s_server", "-rev", "-accept", f"127.0.0.1:{port}", "-key", f"{d}/key", "-cert", f"{d}/cert"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(p.kill)
    server = (p, port)
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(.05)
    raise TimeoutError("openssl s_server does not answer")


def missing():
    """Why bpftrace can't be asked here; None if it can."""
    if not shutil.which("bpftrace"):
        return "bpftrace is not installed"
    if os.geteuid() != 0:
        return "bpftrace needs root"
    prog = own_copy(str(targets.build("script")))
    got, said = run_bpftrace(Case("", f"{prog} tail 3", f"uprobe:{prog}:tail {{ @ = count(); }}"))
    return None if "@: 3" in got else "uprobes don't work here: " + said[-200:]


def run_tool(args, case):
    p = subprocess.run(args, input=case.stdin or "", capture_output=True, text=True, errors="replace", timeout=LIMIT,
                       start_new_session=True,      # an interactive shell would wait for its terminal
                       env={**os.environ, "TERM": "dumb", "HISTFILE": "/dev/null",
                            "LD_LIBRARY_PATH": ":".join(os.path.dirname(x) for x in copies.values() if ".so." in x)})
    return p.stdout, p.stderr


def command(case):
    return ["-c", fill(case.command)] if case.command else []


def run_bpftrace(case):
    with tempfile.TemporaryDirectory() as d:
        out = Path(d) / "out"
        _, err = run_tool(["bpftrace", "-q", "-o", str(out), *command(case), "-e", fill(case.text), *case.params], case)
        return out.read_text(errors="replace") if out.exists() else "", err


def run_jab(case):
    with tempfile.TemporaryDirectory() as d:
        out = Path(d) / "out"
        _, err = run_tool([jab.JAB, "-o", str(out), *command(case), "-e", fill(case.text), *case.params], case)
        return out.read_text(errors="replace") if out.exists() else "", err


BUCKET = re.compile(r"^[\[(].*[\])]\s+(\d+) \|.*\|$")


def blocks(text):
    """Lines; a histogram is one with its head. Bars and spaces don't count."""
    found = []
    for line in text.splitlines():
        line = line.rstrip()
        if not line or re.match(r"Attach(ing|ed) \d+ probe", line):
            continue
        if BUCKET.match(line) and found:
            found[-1] += "\n" + " ".join(line.split("|")[0].split())
        else:
            found.append(line)
    return found


def total(block):
    head, *buckets = block.split("\n")
    return f"{head} {sum(int(b.split()[-1]) for b in buckets)} in all" if buckets else head


def normal(case, text):
    found = blocks(text)
    if case.totals:
        found = [total(b) for b in found]
    # releases after 0.17 print stats() as a record
    found = [re.sub(r"count (\d+), average (-?\d+), total (-?\d+)$", r"{ .count = \1, .average = \2, .total = \3 }", b) for b in found]
    for pattern in case.mask:
        found = [re.sub(pattern, "~", b) for b in found]
    maps = sorted(b for b in found if b.startswith("@"))
    rest = [b for b in found if not b.startswith("@")]
    return (sorted(rest) if case.unordered else rest) + maps


def compare(case):
    """(bpftrace's, ours, what was said on stderr)"""
    theirs, err = run_bpftrace(case)
    ours, said = run_jab(case)
    return normal(case, theirs), normal(case, ours), err + said
