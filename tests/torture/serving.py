# SPDX-License-Identifier: MIT
"""The servers of servers.py: how each is started on loopback, asked and ended.

load() is a fixed amount of work whose answers can be compared; ping() a small piece of it that is
repeated without end while jab comes and goes.
"""
import hashlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from targets import LIMIT, build

CLIENTS = 4


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def on_clients(work, n=CLIENTS):
    """work(i) on n threads; the answers in order."""
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, range(n)))


class Case:
    name = ""
    program = ""
    statuses = (0,)
    sets = None
    process_name = None             # attach by name: processes come and go

    def available(self):
        return shutil.which(self.program)

    def command(self, d, port):
        raise NotImplementedError

    def start(self, d):
        port = free_port()
        self.dir = d
        log = open(d / "log", "w")
        with log:
            p = subprocess.Popen([str(x) for x in self.command(d, port)], cwd=d, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log, start_new_session=True)
        return p, port

    def wait_ready(self, server, port):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            assert server.poll() is None, f"ended with {server.poll()}: {(self.dir / 'log').read_text()[-2000:]}"
            try:
                return self.ping(port)
            except (OSError, http.client.HTTPException, AssertionError):
                time.sleep(.05)
        raise TimeoutError(f"{self.name} does not answer")

    def stop(self, server):
        server.terminate()
        return server.wait(LIMIT)


class Http(Case):
    """Paths are fetched by some clients, several times each, over connections that are kept."""
    paths = ["/"]
    rounds = 10

    def fetch(self, connection, path):
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"} if "gz" in path else {})
        r = connection.getresponse()
        return r.status, digest(r.read())

    def client(self, port, n, rounds):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        try:
            return [self.fetch(c, p) for _ in range(rounds) for p in self.paths[n % 2:] + self.paths[:n % 2]]
        finally:
            c.close()

    def load(self, port):
        return {f"client {i}": x for i, x in enumerate(on_clients(lambda n: self.client(port, n, self.rounds)))}

    def ping(self, port):
        return self.client(port, 0, 1)


NGINX = """
daemon off; master_process on; worker_processes 2; pid nginx.pid; error_log error.log warn;
events {{ worker_connections 256; }}
http {{
	access_log access.log; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
	scgi_temp_path t5; gzip on; gzip_types text/plain application/octet-stream; gzip_min_length 100; sendfile on;
	server {{
		listen 127.0.0.1:{port}; root .;
		location /again/ {{ proxy_pass http://127.0.0.1:{port}/; }}
		location ~ ^/re/(\\w+)/(.*)$ {{ rewrite ^/re/(\\w+)/(.*)$ /$2 last; }}
		location /say {{ return 200 "$request_method $uri $args $host\\n"; }}
	}}
}}
"""


class Nginx(Http):
    name, program = "nginx", "nginx"
    paths = ["/small", "/large", "/gz.txt", "/again/small", "/again/large", "/re/x/small", "/say?a=b", "/missing"]

    def command(self, d, port):
        block = b"nginx"
        for name, n in (("small", 3), ("large", 20000), ("gz.txt", 3000)):
            with open(d / name, "wb") as f:
                for _ in range(n):
                    block = hashlib.sha256(block).digest()
                    f.write(block.hex().encode())
        (d / "nginx.conf").write_text(NGINX.format(port=port))
        for p in d.iterdir():
            p.chmod(0o644)
        return ["nginx", "-p", d, "-c", d / "nginx.conf", "-e", d / "error.log"]


class PythonHttp(Http):
    """A thread for each connection: stacks are mapped all the time."""
    name, program = "python-http", "/usr/bin/python3"
    statuses = (-signal.SIGTERM,)
    paths = ["/small", "/large", "/missing"]

    def command(self, d, port):
        (d / "small").write_text("small\n" * 10)
        (d / "large").write_text("large\n" * 20000)
        return ["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", d, port]


class GoHttp(Http):
    name, program = "go-http", "go"
    statuses = (-signal.SIGTERM,)
    paths = ["/hash?n=20", "/json", "/panic", "/nil", "/framed", "/sort?n=2000", "/deep?n=2000"]

    def command(self, d, port):
        return [build("serve_go"), f"127.0.0.1:{port}"]


NODE = r"""
const http = require('http'), crypto = require('crypto'), zlib = require('zlib');
function work(n) {
	let o = {}, s = 0;
	for (let i = 0; i < n; i++) { o['k' + i % 97] = (o['k' + i % 97] || 0) + i * 1.5; s = (s * 31 + i) % 1000003; }
	try { null.x; } catch (e) { s += e.constructor.name.length; }
	return JSON.stringify(o) + s;
}
http.createServer((q, r) => {
	if (q.url == '/hash') r.end(crypto.createHash('sha256').update(work(3000)).digest('hex'));
	else if (q.url == '/zip') zlib.deflate(Buffer.from(work(20000)), (e, b) => r.end(b));
	else if (q.url == '/re') r.end(work(500).replace(/(\d)(\d)/g, '$2$1'));
	else { r.statusCode = 404; r.end('no ' + q.url); }
}).listen(+process.argv[2], '127.0.0.1');
"""


class Node(Http):
    name, program = "node", "node"
    statuses = (-signal.SIGTERM,)
    paths = ["/hash", "/zip", "/re", "/missing"]

    def command(self, d, port):
        (d / "server.js").write_text(NODE)
        return ["node", d / "server.js", port]


JAVA = r"""
import com.sun.net.httpserver.*;
import java.net.*; import java.util.*; import java.util.concurrent.*; import java.security.*; import java.util.zip.*;
public class Server {
	static String work(int n) {
		TreeMap<String, Double> m = new TreeMap<>(); long s = 0;
		for (int i = 0; i < n; i++) { m.merge("k" + i % 97, i * 1.5, Double::sum); s = (s * 31 + i) % 1000003; }
		int[] nulls = new int[1];
		for (int i = 0; i < 50; i++) try { s += touch(i % 3 == 0 ? null : nulls); } catch (NullPointerException e) { s += 7; }
		return m.toString() + s;
	}
	static int touch(int[] a) { return a[0] + a.length; }
	static byte[] answer(String p) throws Exception {
		if (p.equals("/hash")) return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(work(3000).getBytes())).getBytes();
		if (p.equals("/zip")) { Deflater d = new Deflater(); d.setInput(work(20000).getBytes()); d.finish(); byte[] b = new byte[65536]; return Arrays.copyOf(b, d.deflate(b)); }
		if (p.equals("/gc")) { byte[][] b = new byte[2000][]; for (int i = 0; i < 20000; i++) b[i % 2000] = new byte[i % 4000]; System.gc(); return ("" + b[1999].length).getBytes(); }
		return ("no " + p).getBytes();
	}
	public static void main(String[] a) throws Exception {
		HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])), 64);
		s.createContext("/", x -> { byte[] b; try { b = answer(x.getRequestURI().getPath()); } catch (Exception e) { b = e.toString().getBytes(); }
			x.sendResponseHeaders(200, b.length); x.getResponseBody().write(b); x.close(); });
		s.setExecutor(Executors.newFixedThreadPool(8)); s.start();
	}
}
"""


class Java(Http):
    name, program = "java", "java"
    statuses = (143,)
    paths = ["/hash", "/zip", "/gc", "/missing"]
    rounds = 4
    jvm = "java"

    def command(self, d, port):
        (d / "Server.java").write_text(JAVA)
        return [self.jvm, "-Xmx256m", d / "Server.java", port]


class Memcached(Case):
    name, program = "memcached", "memcached"
    statuses = (0, -signal.SIGTERM)

    def command(self, d, port):
        return ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", port, "-t", 4, "-m", 64]

    def session(self, port, n, rounds):
        """Keys of its own, so that the answers don't depend on the other clients."""
        out = hashlib.sha256()
        with socket.create_connection(("127.0.0.1", port), LIMIT) as s, s.makefile("rwb") as f:
            for i in range(rounds):
                k, v = f"c{n}_{i % 50}", f"{i * 7919}" * (i % 60 + 1)
                for text, end in ((f"set {k} 0 0 {len(v)}\r\n{v}", b"STORED"), (f"append {k} 0 0 2\r\nxy", b"STORED"),
                                  (f"get {k} c{n}_{(i + 1) % 50}", b"END"), (f"set n{n} 0 0 1\r\n5", b"STORED"),
                                  (f"incr n{n} {i}", b""), (f"delete {k}", b"DELETED"), (f"gets {k}", b"END")):
                    f.write(text.encode() + b"\r\n")
                    f.flush()
                    line = b""
                    while not line.startswith(end) or not line:
                        line = f.readline()
                        assert line, "the connection was closed"
                        out.update(line)
        return out.hexdigest()[:16]

    def load(self, port):
        return {f"client {i}": x for i, x in enumerate(on_clients(lambda n: self.session(port, n, 400)))}

    def ping(self, port):
        return self.session(port, 99, 20)


class Redis(Case):
    name, program = "redis", "redis-server"
    sizes = 1500

    def command(self, d, port):
        return ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", d, "--save", "", "--appendonly", "no",
                "--daemonize", "no", "--enable-debug-command", "yes"]

    def commands(self, n, rounds):
        yield f"DEL k{n} l{n} h{n} z{n} s{n}"
        for i in range(rounds):
            yield f"SET k{n} value{i * 7919 % 1000}"
            yield f"RPUSH l{n} e{i}"
            yield f"HSET h{n} f{i % 37} {i}"
            yield f"ZADD z{n} {i * 31 % 1009} m{i % 211}"
            yield f"SADD s{n} {i % 333}"
            yield f"LRANGE l{n} -5 -1"
            yield f"ZRANGE z{n} 0 3"
        yield f"SORT l{n} ALPHA LIMIT 0 20"

    def session(self, port, n, rounds):
        text = "\n".join(self.commands(n, rounds)) + "\n"
        p = subprocess.run(["redis-cli", "-h", "127.0.0.1", "-p", str(port)], input=text.encode(), capture_output=True,
                           timeout=LIMIT * 3)
        assert p.returncode == 0 and b"ould not connect" not in p.stdout + p.stderr, p.stderr
        return digest(p.stdout)

    def load(self, port):
        """Then a child writes its data, which are read back and compared by redis itself."""
        got = {f"client {i}": x for i, x in enumerate(on_clients(lambda n: self.session(port, n, 400)))}
        ask = lambda *a: subprocess.run(["redis-cli", "-p", str(port), *a], capture_output=True, timeout=LIMIT).stdout
        got["save"] = ask("debug", "reload")
        got["sort"] = ask("eval", "local s = 0 for i = 1, 20000 do s = (s * 31 + i) % 1000003 end return s", "0")
        return got

    def ping(self, port):
        return self.session(port, 99, 20)


PG_SUM = """select count(*), sum(abalance) from pgbench_accounts; select sum(tbalance) from pgbench_tellers;
select sum(bbalance) from pgbench_branches; select sum(delta), count(*) from pgbench_history;
select md5(string_agg(g::text || sqrt(g)::text, ',' order by g % 97, g)) from generate_series(1, 20000) g;"""


class Postgres(Case):
    """pgbench's own sums agree with each other; a second, read-only set of queries has fixed answers."""
    name = "postgres"
    # More than a million sites are too many for one run.
    sets = [["*:*"], ["exe:*", "exe:/./%return"], ["libc:*", "libc:/./%return"]]
    bin = "/usr/lib/postgresql/15/bin"

    def available(self):
        return os.access(f"{self.bin}/postgres", os.X_OK) and shutil.which("setpriv")

    def run(self, port, *command, **more):
        env = dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(port), PGUSER="jab", PGDATABASE="postgres")
        p = subprocess.run([f"{self.bin}/{command[0]}", *map(str, command[1:])], capture_output=True, text=True, env=env,
                           timeout=LIMIT * 3, **more)
        if p.returncode:
            raise OSError(p.stderr)
        return p.stdout

    def command(self, d, port):
        drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        subprocess.run([*drop, f"{self.bin}/initdb", "-D", d / "data", "-U", "jab", "-A", "trust", "-N"], check=True,
                       capture_output=True, timeout=LIMIT)
        self.ready, self.process_name = False, f"jabpg{port}"
        (d / self.process_name).symlink_to(f"{self.bin}/postgres")
        return [*drop, d / self.process_name, "-D", d / "data", "-p", port, "-h", "127.0.0.1", "-k", d,
                "-c", "fsync=off", "-c", "max_connections=40", "-c", "shared_buffers=16MB"]

    def load(self, port):
        self.run(port, "pgbench", "-c", 4, "-j", 2, "-t", 100, "-n")
        sums = self.run(port, "psql", "-At", "-c", PG_SUM).split("\n")
        accounts, delta = sums[0].split("|"), sums[3].split("|")
        same = len({int(accounts[1]), int(sums[1]), int(sums[2]), int(delta[0])}) == 1
        return {"accounts": accounts[0], "sums agree": same, "fixed": sums[4],
                "transactions": int(delta[1]) % 400}

    def ping(self, port):
        if not self.ready:
            self.run(port, "pgbench", "-i", "-s", 1, "-q")
            self.ready = True
        return self.run(port, "psql", "-At", "-c", "select sum(g * 3) from generate_series(1, 1000) g")

    def stop(self, server):
        server.send_signal(signal.SIGINT)
        return server.wait(LIMIT)


class PostgresBackend(Postgres):
    """One connection that lives through the visits; only its own backend is probed."""
    name = "postgres-backend"
    sets = [["*:*"], ["*:*", "*:/./%return"]]
    work = """create table if not exists t(k int primary key, v text); truncate t;
insert into t select g, md5(g::text) from generate_series(1, 3000) g; update t set v = v || k where k % 3 = 0;
delete from t where k % 7 = 0; do $$ begin perform 1 / 0; exception when others then insert into t values (0, 'caught'); end $$;
select count(*), md5(string_agg(v, ',' order by k)) from t;
select sum(a.k * b.k) from t a join t b on a.v < b.v and a.k % 50 = b.k % 50;
select avg(k)::numeric(12,4), stddev(k)::numeric(12,4), max(reverse(v)) from t;
"""

    def ask(self, port, text):
        """psql, asked and answered line by line."""
        if not self.psql:
            env = dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(port), PGUSER="jab", PGDATABASE="postgres")
            self.psql = subprocess.Popen([f"{self.bin}/psql", "-Atq"], env=env, stdin=subprocess.PIPE, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.psql.stdin.write(text + "\\echo end\n")
        self.psql.stdin.flush()
        out = []
        while not out or out[-1] != "end\n":
            out.append(self.psql.stdout.readline())
            assert out[-1], "psql ended"
        return out

    def command(self, d, port):
        self.psql = None
        return super().command(d, port)

    def wait_ready(self, server, port):
        super().wait_ready(server, port)
        self.process_name = self.ask(port, "select pg_backend_pid();\n")[0].strip()

    def load(self, port):
        return {"answers": self.ask(port, self.work)}

    def stop(self, server):
        self.psql.stdin.close()
        self.psql.wait(LIMIT)
        return super().stop(server)


CASES = [Nginx(), Memcached(), Redis(), PythonHttp(), GoHttp(), Postgres(), PostgresBackend(), Node(), Java()]
