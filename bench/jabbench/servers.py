# SPDX-License-Identifier: MIT
"""Throughput of servers while their hottest functions are probed, beside untraced: PostgreSQL, MariaDB, redis and nginx of Debian's packages,
each with its own data folder, on a socket in it or on loopback, and with its own load generator.

The hottest functions are found by counting all that have a name. Each way is measured between two rounds without a tracer, and the figure
is what is left of their mean. bpftrace counts the hottest function in the same run."""

import glob
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time

from .common import Jab, Skip, Wrong, end_of, median, table, wait_for
from .tracefs import bpftrace

ROUNDS = 3
SECONDS = 1         # of load in a round, about
SLOWER = 20         # times that a server is, about, under bpftrace
COUNTED = (1, 10, 100, 1000, 5000)


def find(*names):
    """The first that is installed; Debian keeps servers out of the path of ordinary users."""
    for name in names:
        for path in sorted(glob.glob(name), reverse=True) if "/" in name else [shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin")]:
            if path:
                return path
    raise Skip("%s is not installed" % os.path.basename(names[0]))


def number_after(pattern, text):
    found = re.search(pattern, text)
    if not found:
        raise Wrong("no figure from the load: " + text[-300:])
    return float(found.group(1))


def run(argv, **more):
    try:
        done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)
    except subprocess.TimeoutExpired:
        raise Wrong("%s did not end within 120 s" % argv[0])
    if done.returncode:
        raise Wrong("%s: %s" % (os.path.basename(argv[0]), done.stdout[-500:]))
    return done.stdout


class Server:
    """A server in a folder of its own. `exe`: the file whose functions are probed; `hot`: what it is asked by a user."""
    count = 0           # of requests in a round; ready() finds out how many are SECONDS
    user = None         # whom it runs as, if we are root

    def __init__(self, folder):
        self.folder = folder
        self.as_user = {}
        if self.user and os.geteuid() == 0:
            who = pwd.getpwnam(self.user)
            os.chown(folder, who.pw_uid, who.pw_gid)
            self.as_user = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
        self.process = None
        argv = self.prepare()
        with open(os.path.join(folder, "log"), "w") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, **self.as_user)
        self.pid = self.process.pid
        end = time.monotonic() + 30
        while not self.answers():
            if time.monotonic() > end or self.process.poll() is not None:
                with open(os.path.join(folder, "log")) as log:
                    text = log.read()[-500:]
                self.end()
                raise Wrong("%s does not start: %s" % (self.name, text))
            time.sleep(.1)

    def answers(self):
        return os.path.exists(self.socket)

    def end(self):
        self.process.terminate()
        wait_for(self.process)


class Postgres(Server):
    name, user = "PostgreSQL", "postgres"
    handler, text = "PortalRun", "uprobe:P:pg_parse_query { @[str(arg0)] = count(); }"

    def prepare(self):
        self.exe = find("/usr/lib/postgresql/*/bin/postgres")
        self.tools = os.path.dirname(self.exe)
        self.data = os.path.join(self.folder, "data")
        self.socket = os.path.join(self.folder, ".s.PGSQL.5432")
        run([self.tools + "/initdb", "-D", self.data, "-A", "trust", "-U", "bench", "--no-sync"], cwd=self.folder, **self.as_user)
        return [self.exe, "-D", self.data, "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=64MB"]

    def pgbench(self, *more):
        return run([find(self.tools + "/pgbench"), "-h", self.folder, "-U", "bench", *more, "postgres"], cwd=self.folder)

    def ready(self):
        self.pgbench("-i", "-q", "-s", "1")

    def load(self):
        return number_after(r"tps = ([0-9.]+)", self.pgbench("-S", "-n", "-c", "2", "-T", SECONDS))


class MariaDB(Server):
    name, user = "MariaDB", "mysql"
    handler, text = "*dispatch_command*", "uprobe:P:*dispatch_command* { @[str(arg2, arg3)] = count(); }"

    def prepare(self):
        self.exe = find("mariadbd")
        self.socket = os.path.join(self.folder, "sock")
        options = ["--no-defaults", "--datadir=" + os.path.join(self.folder, "data")]
        run([find("mariadb-install-db"), *options, "--auth-root-authentication-method=normal"], cwd=self.folder, **self.as_user)
        return [self.exe, *options, "--socket=" + self.socket, "--skip-networking", "--pid-file=" + os.path.join(self.folder, "pid")]

    def ready(self):
        run([find("mariadb"), "--no-defaults", "-u", "root", "-S", self.socket, "-e",
             "create table test.t (id int primary key, v int); insert into test.t select seq, seq from test.t right join (select 1 seq) s on 0"])
        self.count = 2000
        taken = self.slap()
        self.count = max(2000, int(self.count * SECONDS / taken))

    def slap(self):
        out = run([find("mariadb-slap"), "--no-defaults", "-u", "root", "-S", self.socket, "--create-schema=test", "--no-drop", "--concurrency=2",
                   "--number-of-queries=%d" % self.count, "--query=select v from t where id = 1"])
        return max(.001, number_after(r"Average number of seconds to run all queries: ([0-9.]+)", out))

    def load(self):
        return self.count / self.slap()


class Redis(Server):
    name = "redis"
    # The name of the command: the first of the objects that it is given, behind 8 bytes.
    handler, text = "processCommand", "uprobe:P:lookupCommand { @[str(*(uint64 *)(*(uint64 *)arg0 + 8))] = count(); }"

    def prepare(self):
        self.exe = find("redis-server")
        self.socket = os.path.join(self.folder, "sock")
        return [self.exe, "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.folder]

    def ready(self):
        self.count = 50000
        self.count = int(self.load() * SECONDS)

    def load(self):
        out = run([find("redis-benchmark"), "-s", self.socket, "-P", "16", "-c", "20", "-n", str(self.count), "-t", "get", "--csv"])
        return number_after(r'"GET","([0-9.]+)"', out)


class Nginx(Server):
    name = "nginx"
    # The name of a file that is served: a length and the bytes.
    handler, text = "ngx_http_process_request", "uprobe:P:ngx_open_cached_file { @[str(*(uint64 *)(arg1 + 8), *(uint64 *)arg1)] = count(); }"
    conf = """daemon off; master_process off; pid %(folder)s/pid; error_log %(folder)s/error;
events { worker_connections 64; }
http { access_log off; keepalive_requests 1000000; server { listen 127.0.0.1:%(port)d; root %(folder)s; }
client_body_temp_path %(folder)s/a; proxy_temp_path %(folder)s/b; fastcgi_temp_path %(folder)s/c; uwsgi_temp_path %(folder)s/d;
scgi_temp_path %(folder)s/e; }
"""

    def prepare(self):
        self.exe = find("nginx")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(self.folder + "/conf", "w") as f:
            f.write(self.conf % {"folder": self.folder, "port": self.port})
        with open(self.folder + "/page.html", "w") as f:
            f.write("x" * 512)
        return [self.exe, "-c", self.folder + "/conf", "-p", self.folder]

    def answers(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def ready(self):
        self.count = 2000
        self.count = int(self.load() * SECONDS)

    def load(self):
        out = run([find("ab"), "-q", "-k", "-c", "8", "-n", str(self.count), "http://127.0.0.1:%d/page.html" % self.port])
        return number_after(r"Requests per second:\s+([0-9.]+)", out)


# ---- what is measured ----

def hottest(jab, server):
    """The names of its functions, the most called one first."""
    with Jab(jab, server.pid, ("exe:*",), command=["count", "--all", "--full-names"]) as all_of_them:
        server.load()
        out, _ = all_of_them.end()
    rows = [json.loads(line) for line in out.decode().splitlines() if '"function"' in line]
    hits = {}
    for row in rows:
        if not row["function"].startswith("func_0x"):
            hits.setdefault(row["function"], row.get("hits") or 0)
    return sorted(hits, key=lambda name: -hits[name])


def ways(server, names):
    """name -> jab's command and probes"""
    probes = ["exe:" + name.replace(" ", "?") for name in names]       # a space ends a probe's function
    out = {"%d counted" % n: (["count"], probes[:n]) for n in COUNTED if n <= len(probes)}
    out["one recorded"] = (["record", "-o", "FOLDER"], [probes[0] + " arg0 arg1"])
    out["ten recorded"] = (["record", "-o", "FOLDER"], [p + " arg0 arg1" for p in probes[:10]])
    out["counted by text"] = (["-e", server.text.replace("P:", server.exe + ":")], [])
    out["handler's latency"] = (["-e", "call:%s:%s { @ = hist(duration); }" % (server.exe, server.handler)], [])
    return out


def with_jab(jab, server, command, probes):
    with tempfile.TemporaryDirectory(prefix="jab-bench-") as d:
        command = [word.replace("FOLDER", d + "/t") for word in command]
        with Jab(jab, server.pid, probes, command=command) as run_of_jab:
            value = server.load()
            run_of_jab.stop()
    return value


def with_bpftrace(tool, server, name):
    script = 'BEGIN { printf("ready\\n"); } uprobe:%s:"%s" { @ = count(); }' % (server.exe, name)
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([tool, "-e", script], stdout=out, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 20
            while time.monotonic() < end and process.poll() is None and not os.fstat(out.fileno()).st_size:
                time.sleep(.05)
            time.sleep(.3)
            if process.poll() is not None or not os.fstat(out.fileno()).st_size:
                return None
            many, server.count = server.count, max(100, server.count // SLOWER)     # else a round takes minutes
            try:
                return server.load()
            finally:
                server.count = many
        finally:
            end_of(process)


def measure(jab, server):
    """way -> share of the untraced throughput; and that itself."""
    server.ready()
    names = hottest(jab, server)
    if not names:
        raise Wrong("%s: no function with a name was called" % server.name)
    tool, shares, plain = bpftrace(), {}, [server.load()]
    todo = dict(ways(server, names))
    if tool:
        todo["bpftrace, 1 counted"] = None
    for _ in range(ROUNDS):
        for way, what in todo.items():
            value = with_jab(jab, server, *what) if what else with_bpftrace(tool, server, names[0])
            plain.append(server.load())
            if value:
                shares.setdefault(way, []).append(2 * value / (plain[-2] + plain[-1]))
    return {way: median(v) for way, v in shares.items()}, median(plain), names[0]


def one(jab, kind):
    with tempfile.TemporaryDirectory(prefix="jab-bench-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        server = kind(folder)
        try:
            return measure(jab, server)
        finally:
            server.end()


def show(got):
    for name, (shares, plain, hot) in got.items():
        print("  %s: %.0f a second untraced; its hottest function is %s" % (name, plain, hot))
    every = list(dict.fromkeys(way for shares, _, _ in got.values() for way in shares))
    table(["% of untraced", *got], [[way] + ["%.0f" % (100 * s[way]) if way in s else "-" for s, _, _ in got.values()] for way in every])


def run_all(jab, builder, result):
    got = {}
    for kind in (Postgres, MariaDB, Redis, Nginx):
        try:
            got[kind.name] = one(jab, kind)
        except Skip as e:
            print("  %s: not measured: %s" % (kind.name, e))
        except Wrong as e:
            result.problem("%s: %s" % (kind.name, e))
    if not got:
        raise Skip("no server")
    show(got)
    result.data["servers"] = {name: [shares, plain] for name, (shares, plain, _) in got.items()}
    for name, (shares, _, _) in got.items():
        result.target("%s, hottest function counted" % name, 95, "%", 100 * shares["1 counted"], at_least=True)
        result.target("%s, one function recorded" % name, 85, "%", 100 * shares["one recorded"], at_least=True)
