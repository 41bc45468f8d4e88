# SPDX-License-Identifier: MIT
"""The ready tools (jab leaks and so on), on real programs; what they say is compared with another source: valgrind, strace, the
program's own count, the server's log."""
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

import jab
from targets import LIMIT, ROOT

TOOLS = ["allocs", "errors", "leaks", "locks", "opens", "slow", "threads", "tls"]


def tool(name, *words, **more):
    r = jab.run(name, *words, **more)
    assert r.status == 0, r
    return r


def valgrind(command):
    """(bytes, blocks) in use at exit; (bytes, blocks) allocated."""
    p = subprocess.run(["valgrind", "--run-libc-freeres=no", "--run-cxx-freeres=no", *map(str, command)], capture_output=True, text=True,
                       timeout=LIMIT)
    n = [int(x.replace(",", "")) for x in
         re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks.*?usage: ([\d,]+) allocs, .*?, ([\d,]+) bytes", p.stderr, re.S).groups()]
    return (n[0], n[1]), (n[3], n[2])


@pytest.mark.parametrize("name,args", [("hoard", [10]), ("daily", [20]), ("typed_rs_2", [])])
def test_memory_is_what_valgrind_says(built, name, args):
    """C, C++ and Rust."""
    left, all_ = valgrind([built(name), *args])
    r = tool("leaks", "--", built(name), *args)
    assert f"{left[0]} bytes in {left[1]} blocks were not freed" in r.output, (left, r)
    r = tool("allocs", "--json", "--", built(name), *args)
    found = next(o["data"]["@all"] for o in r.objects if "@all" in o.get("data", {}))
    assert (found["total"], found["count"]) == all_, r


def test_leaks_by_stack(built):
    """Each function of the program loses what it says; --folded and --json say the same."""
    r = tool("leaks", "--folded", "--", built("hoard"), 10)
    by = {x.split(";")[x.split(";").index("main") + 1].split()[0]: int(x.split()[-1]) for x in r.output.splitlines() if ";main;" in x}
    assert by["lose"] == 1000 and by["lose_zeroed"] == 1000 and by["strdup"] == 120, r
    assert "tidy" not in r.output
    r = tool("leaks", "--json", "--top", 100, "--", built("hoard"), 10)
    stats = next(o["data"]["@not_freed"] for o in r.objects if o.get("type") == "stats")
    assert sum(x["total"] for x in stats.values()) == 45120 and sum(x["count"] for x in stats.values()) == 50
    assert "45120 bytes" not in tool("leaks", "--older", 5, "--", built("hoard"), 10).output


def strace_opens(command, **more):
    p = subprocess.run(["strace", "-f", "-e", "trace=open,openat,creat", "-o", "/dev/stderr", *map(str, command)], capture_output=True,
                       text=True, timeout=LIMIT, **more)
    return re.findall(r'(?:open|openat|creat)\((?:[^",]*, )?"([^"]*)".* = (-?\d+)', p.stderr)


def jab_opens(r):
    return [(m[2], m[1]) for m in re.finditer(r"^.{16} +\d+ +(-?\d+|\.) (.*?)(?:: [A-Z][^:\n]*)?$", r.output, re.M)]


@pytest.mark.parametrize("command", [["ls", "-l", "/etc/hostname", "/nonexistent"], ["nginx", "-t"], ["tar", "cf", "/dev/null", "/etc/apt"]])
def test_opens_are_those_of_strace(command, tmp_path):
    """After the loader's own: those of its first files come before the probes are in."""
    if command[0] == "nginx":
        (tmp_path / "n.conf").write_text(f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}")
        command = ["nginx", "-t", "-c", str(tmp_path / "n.conf")]
    theirs = strace_opens(command)
    p = subprocess.run([jab.JAB, "opens", "-o", str(tmp_path / "out"), "--", *command], capture_output=True, text=True, timeout=LIMIT)
    ours = jab_opens(jab.Result(p.returncode, (tmp_path / "out").read_text(), p.stderr))
    late = [x for x in theirs if not re.search(r"ld\.so\.cache|\.so(\.\d+)*$", x[0])]
    assert [x for x in ours if not re.search(r"\.so(\.\d+)*$", x[0])] == late and len(late) >= 5, (ours, late)


def test_failed_opens(tmp_path):
    subprocess.run([jab.JAB, "opens", "--failed", "-o", str(tmp_path / "out"), "--", "cat", "/nonexistent/x", "/etc/hostname"],
                   capture_output=True, timeout=LIMIT)
    out = (tmp_path / "out").read_text()
    assert re.search(r"^cat +\d+ +-1 /nonexistent/x: No such file or directory$", out, re.M) and "/etc/hostname" not in out


def test_errors_are_those_of_strace(tmp_path):
    command = ["ls", "/nonexistent/a", "/nonexistent/b"]
    subprocess.run([jab.JAB, "errors", "--json", "-o", str(tmp_path / "out"), "--", *command], capture_output=True, timeout=LIMIT)
    text = (tmp_path / "out").read_text()
    r = jab.Result(0, text, "")
    found = next(o["data"]["@errors"] for o in r.objects if o.get("type") == "map")
    assert not [k for k in found if ",-1,Success" in k] and all(",-1," in k for k in found), found


def test_errors_of_the_program(built):
    r = tool("errors", "exe:fails*", "--", built("hoard"), 10)
    assert len(re.findall(r"^@errors\[fails_by_number, -2, No such file or directory", r.output, re.M)) == 1, r
    assert r.output.count("]: 10\n") == 2 and "fails_by_errno, -1, Permission denied" in r.output and "fails_never" not in r.output, r
    r = tool("errors", "--null", "exe:fails_by_null", "--", built("hoard"), 10)
    assert "]: 10\n" in r.output, r


def test_locks(built):
    r = tool("locks", "--json", "--top", 100, "--", built("everyday"), "lock", 3, 5000)
    stats = {k: v for o in r.objects if o.get("type") == "stats" for k, v in o["data"].items()}
    for which in "@wait", "@hold":
        got = sum(v["count"] for k, v in stats[which].items() if "locker+" in k)
        assert got == 15000, (which, r)
    assert "locker" in tool("locks", "--folded", "--", built("everyday"), "lock", 2, 100).output


def test_threads(built):
    r = tool("threads", "--", built("everyday"), "lock", 3, 10)
    assert len(re.findall(r"^everyday +\d+/\d+ +locker\(0x0?\w*\)$|^everyday .* locker\(", r.output, re.M)) == 3 and "@started[locker]: 3" in r.output, r
    r = jab.run("threads", "--brief", "--", built("hello_go"))
    assert "@goroutines[runtime.main]: 1" in r.output, r


@pytest.fixture
def redis(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    p = subprocess.Popen(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path), "--enable-debug-command", "yes", "--slowlog-log-slower-than",
                          "30000"], stdout=subprocess.DEVNULL)
    ask = lambda *words: subprocess.run(["redis-cli", "-p", port, *map(str, words)], capture_output=True, text=True, timeout=LIMIT).stdout
    end = time.monotonic() + LIMIT
    while "PONG" not in ask("ping") and time.monotonic() < end:
        time.sleep(.05)
    yield p.pid, ask
    p.kill()
    p.wait()


class Running:
    """A tool that watches a process until it is told to stop."""

    def __init__(self, *words):
        self.p = subprocess.Popen([jab.JAB, *map(str, words), "-v"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line, said = "-", ""
        while line and "active:" not in line:
            line = self.p.stderr.readline()
            said += line
        assert line, said

    def stop(self):
        self.p.send_signal(2)
        out, err = self.p.communicate(timeout=LIMIT)
        assert self.p.returncode == 0, err
        return out


def test_slow_calls_are_those_of_the_servers_log(redis):
    pid, ask = redis
    t = Running("slow", "--than", 30000, "-p", pid, "exe:debugCommand")
    for ms in 60, 5, 90, 1:
        ask("debug", "sleep", ms / 1000)
    out = t.stop()
    log = [int(x) for x in re.findall(r"^(\d{5,6})$", ask("slowlog", "get", 10), re.M)]
    ours = [float(x) * 1000 for x in re.findall(r"([\d.]+) ms  debugCommand\(0x", out)]
    log = sorted(x for x in log if 30000 <= x < 10**6)
    assert len(ours) == 2 and len(log) == 2 and all(abs(a - b) < 20000 for a, b in zip(sorted(ours), log)), (out, log)
    assert not all(x.endswith(".000") for x in re.findall(r"([\d.]+) ms  debugCommand", out)), out     # microseconds, too


def test_allocations_of_a_server_with_jemalloc(redis):
    """A string of a known size is a block of that size."""
    pid, ask = redis
    t = Running("leaks", "--folded", "-p", pid)
    for i in range(5):
        ask("setrange", f"key{i}", 300000, "x")
    out = t.stop()
    kept = [int(x.split()[-1]) for x in out.splitlines() if "setrangeCommand" in x]
    assert 5 * 300001 <= sum(kept) < 5 * 700000, out


TLS = """
import ssl, socket, threading, subprocess, sys
c = sys.argv[1]
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(c + "/cert", c + "/key")
s = socket.create_server(("127.0.0.1", 0))
def serve():
    one = server.wrap_socket(s.accept()[0], server_side=True)
    one.sendall(one.recv(100)[::-1])
    one.close()
t = threading.Thread(target=serve); t.start()
client = ssl._create_unverified_context()
k = client.wrap_socket(socket.create_connection(s.getsockname()))
k.sendall(b"the secret\\n")
print(k.recv(100))
t.join()
"""


def test_plaintext_of_openssl(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-out", tmp_path / "cert", "-subj",
                    "/CN=x"], check=True, capture_output=True)
    (tmp_path / "t.py").write_text(TLS)
    p = subprocess.run([jab.JAB, "tls", "-o", str(tmp_path / "out"), "--", "/usr/bin/python3", str(tmp_path / "t.py"), str(tmp_path)],
                       capture_output=True, text=True, timeout=LIMIT)
    out = (tmp_path / "out").read_text()
    assert p.returncode == 0, p
    found = re.findall(r" ([<>]) +(\d+) (.*)$", out, re.M)         # in the order of their returns
    assert sorted(found) == sorted((way, "11", text) for way in "<>" for text in (r"the secret\x0a", r"\x0aterces eht")), out


def test_help_and_mistakes():
    r = jab.run("--help")
    for name in TOOLS:
        assert re.search(rf"^  jab {name} +\w", r.output, re.M), r
        assert jab.run(name, "--help").output == jab.run("help", name).output != ""
        assert f"usage: jab {name} " in jab.run("help", name).output
    for words, says in ((["leaks"], "jab leaks: no target given"), (["slow", "-p", "1"], "jab slow: a probe is missing"),
                        (["leaks", "x", "-p", "1"], "jab leaks: no words are expected"),
                        (["leaks", "-p", "1", "--top"], "jab leaks: a value is missing after --top"),
                        (["opens", "--failed=1", "-p", "1"], "no value belongs to --failed=1"),
                        (["leaks", "-p", "1", "--nothing"], "no such option '--nothing'"), (["../leaks"], "../leaks can't be opened")):
        r = jab.run(*words)
        assert r.status in (1, 2) and says in r.stderr, (words, r)


def test_the_manual_has_every_option():
    with open(os.path.join(ROOT, "docs", "man", "jab-tools.1")) as f:
        page = f.read()
    for name in TOOLS:
        line = re.search(rf"^\.It Nm {name}\b(.*)$", page, re.M)[1]
        options = set(re.findall(r"^      (--\w+)", jab.run("help", name).output, re.M)) - {"--folded"}
        assert options == {"-" + x for x in re.findall(r"Fl (-\w+)", line)}, name


def test_tools_are_found_beside_the_program(tmp_path):
    """Installed below any folder, which may be moved."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "share/jab/tools").mkdir(parents=True)
    shutil.copy(jab.JAB, tmp_path / "bin/jab")
    for x in ("leaks", "opens"):
        shutil.copy(os.path.join(ROOT, "scripts", x + ".bt"), tmp_path / "share/jab/tools")
    p = subprocess.run([tmp_path / "bin/jab", "help", "opens"], capture_output=True, text=True)
    assert p.returncode == 0 and str(tmp_path) in p.stdout
    assert "jab locks" not in subprocess.run([tmp_path / "bin/jab", "help"], capture_output=True, text=True).stdout
