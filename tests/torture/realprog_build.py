# SPDX-License-Identifier: MIT
"""Programs with debug info, from the sources of Debian's packages: fetched and built once into a folder, and what each of
them is to do, the same in every run."""
import contextlib
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import targets

FLAGS = "-g -O2"
BASH = """x=1; arr=(a b c); declare -A m=([k]=v [z]=w)
f() { local y=$1; echo "${y//a/b} ${arr[@]:1:2} $((x+3*4))"; }
for i in 1 2 3; do f "banana$i" > /dev/null; done
case "$x" in 1) printf '%d %s\\n' 5 "${m[k]}" ;; esac
[[ abc =~ a(.)c ]] && echo "${BASH_REMATCH[1]}"
while (( x < 4 )); do ((x++)); done
read -r a b <<< "one two"; echo "$a-$b" {1..3} ~ *.sh ${a^^} ${b:0:2} ${a%e} $'x\\ty'
unset 'arr[1]'; trap 'echo bye' EXIT; shopt -s extglob; set -- q w e; shift; echo "$@" ${#arr[@]}
select_one() { case $1 in [a-c]*) return 3 ;; *) return 4 ;; esac; }; select_one bcd; echo $?
for ((i = 0; i < 3; i++)); do a+=([i]=$i); done; mapfile -t lines < "$0"; echo "${#lines[@]}"; alias q=w; type -t f; umask
declare -p a m; let 'x = 5 ** 2 % 7'; test -f "$0" -a 1 -lt 2; history -c; complete -W 'a b' f; compgen -A builtin -- re
"""
REDIS = """SET k v|SET n 5|INCRBY n 7|APPEND k tail|GET k|EXPIRE k 1000|TTL k|LPUSH l a b c|LRANGE l 0 -1|RPOPLPUSH l l2|SADD s 1 2 3|SADD s x
SINTER s s|ZADD z 1.5 a 2.5 b 3 c|ZRANGEBYSCORE z 1 2.6|ZINCRBY z 2 a|HSET h f1 v1 f2 v2|HGETALL h|HINCRBYFLOAT h f3 2.25|TYPE h|OBJECT ENCODING s
SETBIT bits 7 1|BITCOUNT bits|PFADD p a b c|PFCOUNT p|XADD st 1-1 f v|XRANGE st - +|GEOADD g 13.36 38.11 P|GEODIST g P P|MULTI|SET a 1|GET a|EXEC
SUBSCRIBE ch|UNSUBSCRIBE ch|SCAN 0|KEYS *|SORT l ALPHA|EVAL "return redis.call('GET','k')" 0|DEL k|RENAME n n2|DBSIZE|CONFIG GET maxmemory|INFO
ACL WHOAMI|CLIENT LIST|DUMP h|RANDOMKEY|GETRANGE n2 0 1|LINSERT l2 BEFORE a q|HSCAN h 0|COMMAND COUNT|NOSUCH 1|GET h|FLUSHALL"""
CC1 = """struct s { int a : 3; unsigned b : 5; double d; struct s *next; union { int i; float f; } u; char name[8]; };
enum e { ONE, TWO = 7, THREE }; typedef int (*fn)(struct s *, enum e);
static int inner(struct s *p, int n) { int r = 0; for (int i = 0; i < n; i++) r += p->a * i + p->u.i; return r; }
int table[16] = { 1, 2, 3 }; const char *names[] = { "x", "yy" };
int f(struct s *p, enum e k) { switch (k) { case ONE: return inner(p, 4); case TWO: return p->next ? f(p->next, ONE) : 0; default: return p->b; } }
double g(double x, float y, long n) { double t = 0; while (n-- > 0) t += x * y - n / 3.0; return t; }
fn pick(int i) { return i ? f : (fn)0; }
unsigned long hash(const char *s) { unsigned long h = 5381; for (; *s; s++) h = h * 33 ^ (unsigned char)*s; return h; }
int sort(int *v, int n) { for (int i = 1; i < n; i++) { int x = v[i], j = i; while (j > 0 && v[j - 1] > x) { v[j] = v[j - 1]; j--; } v[j] = x; } return v[0]; }
"""


RULES = """(define_predicates integer_zerop integer_onep CONSTANT_CLASS_P)
(define_operator_list tcc_comparison lt le eq ne ge gt)
(simplify (plus @0 integer_zerop) @0)
(simplify (minus (plus @0 @1) @1) (if (INTEGRAL_TYPE_P (type)) @0))
(for op (plus mult) (simplify (op:c (negate @0) (negate @1)) (negate (op @0 @1))))
(match (truth_valued_p @0) (lt @0 integer_onep))
(simplify (cond (eq @0 integer_zerop) @1 @1) (with { int n = 3; } (if (n) @1)))
"""


def sources(work, package):
    """The source of a Debian package, by a list of sources of our own."""
    apt = work / "apt"
    for d in ("lists/partial", "cache/archives/partial"):
        (apt / d).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text("deb-src http://deb.debian.org/debian bookworm main\n")
    (apt / "conf").write_text(f'Dir::Etc::sourcelist "{apt}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
                              f'Dir::State::lists "{apt}/lists";\nDir::Cache "{apt}/cache";\n')
    env = dict(os.environ, APT_CONFIG=str(apt / "conf"))
    src = work / "src"
    src.mkdir(exist_ok=True)
    if not list(src.glob(f"{package}_*.orig.tar.*")):
        subprocess.run(["apt-get", "update", "-qq"], env=env, check=True, timeout=300)
        subprocess.run(["apt-get", "source", "-qq", "--download-only", package], cwd=src, env=env, check=True, timeout=300)
    found = [d for d in src.glob(f"{package}-*") if d.is_dir()]
    if not found:
        subprocess.run(["tar", "xf", str(next(src.glob(f"{package}_*.orig.tar.*")))], cwd=src, check=True)
        found = [d for d in src.glob(f"{package}-*") if d.is_dir()]
    return found[0]


def make(where, *commands, limit=3600):
    with open(where / "realprog.log", "w") as log:
        for c in commands:
            subprocess.run(["nice", "-n", "15", "sh", "-c", c], cwd=where, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=True, timeout=limit)


class Program:
    """path and args once built; drive() makes a server serve and end."""
    args = []
    exact = True        # the same number of hits in every run
    is_optimised = True

    def __init__(self, work):
        self.work = work
        self.run = work / "run" / type(self).__name__
        self.run.mkdir(parents=True, exist_ok=True)

    def is_slow(self):
        """Takes long to build, and is not there yet."""
        return False

    def drive(self):
        pass


class Bash(Program):
    def prepare(self):
        src = sources(self.work, "bash")
        self.path = src / "bash"
        if not self.path.exists():
            make(src, "touch y.tab.c y.tab.h", f'CFLAGS="{FLAGS}" ./configure --without-bash-malloc --disable-nls', "make -j2 bash")
        (self.run / "w.sh").write_text(BASH)
        self.args = ["w.sh"]


class Redis(Program):
    exact = False       # it has a clock

    def prepare(self):
        src = sources(self.work, "redis")
        self.path = src / "src" / "redis-server"
        if not self.path.exists():
            make(src, "make -C deps hiredis linenoise lua hdr_histogram", "make -j2 -C src MALLOC=libc OPTIMIZATION=-O2 BUILD_TLS=no USE_SYSTEMD=no redis-server")
        self.args = ["--port", "0", "--unixsocket", "s", "--hz", "1", "--dynamic-hz", "no", "--hash-max-listpack-entries", "2", "--loglevel", "warning"]

    def drive(self):
        (self.run / "s").unlink(missing_ok=True)
        threading.Thread(target=self.talk, daemon=True).start()

    def connect(self):
        end = time.monotonic() + 100
        while True:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(60)
            try:
                s.connect(str(self.run / "s"))
                return s
            except (FileNotFoundError, ConnectionError):
                s.close()
                if time.monotonic() > end:
                    raise
                time.sleep(.05)

    def talk(self):
        """One command after the other, each when the answer to the last one is there."""
        with contextlib.suppress(OSError), self.connect() as s:
            for c in REDIS.replace("\n", "|").split("|"):
                s.sendall(c.encode() + b"\r\n")
                s.recv(1 << 20)
        with contextlib.suppress(OSError), self.connect() as s:
            s.sendall(b"SHUTDOWN NOSAVE\r\n")
            s.recv(100)


class Gcc(Program):
    """Parts of gcc, which are C++; libgmp-dev, libmpfr-dev and libmpc-dev must be there."""
    CONFIGURE = ("--enable-languages=c --disable-bootstrap --disable-multilib --disable-nls --disable-lto --disable-plugin --without-isl "
                 "--without-zstd --enable-checking=release")

    def is_slow(self):
        return not self.path.exists()

    def make(self, *targets):
        src = self.work / "gccsrc"
        src.mkdir(exist_ok=True)
        if not list(src.glob("gcc-12*")):
            subprocess.run(["apt-get", "download", "gcc-12-source"], cwd=src, check=True, timeout=600)
            subprocess.run(["dpkg", "-x", str(next(src.glob("*.deb"))), "deb"], cwd=src, check=True)
            subprocess.run(["tar", "xf", str(next(src.glob("deb/usr/src/gcc-12/gcc-*.tar.xz")))], cwd=src, check=True)
        where = self.work / "gccbuild"
        where.mkdir(exist_ok=True)
        top = next(d for d in src.glob("gcc-12*") if d.is_dir())
        if not (where / "Makefile").exists():
            make(where, f'CFLAGS="{FLAGS}" CXXFLAGS="{FLAGS}" {top}/configure {self.CONFIGURE} MAKEINFO=true')
        make(where, "make -j2 configure-gcc all-libiberty all-libcpp all-libdecnumber all-libbacktrace all-libcody all-build-libiberty "
             "all-build-libcpp MAKEINFO=true", f"make -j2 -C gcc {' '.join(targets)} MAKEINFO=true", limit=6 * 3600)


class Cc1(Gcc):
    """The compiler of C. Its build takes long."""

    def __init__(self, work):
        super().__init__(work)
        self.path = work / "gccbuild" / "gcc" / "cc1"

    def prepare(self):
        if not self.path.exists():
            self.make("cc1")
        (self.run / "w.i").write_text(CC1)
        self.args = ["-quiet", "-fpreprocessed", "-O1", "-g", "w.i", "-o", "w.s"]


class Genmatch(Gcc):
    """What reads the rules of gcc's simplifier, on a few rules."""

    def __init__(self, work):
        super().__init__(work)
        self.path = work / "gccbuild" / "gcc" / "build" / "genmatch"

    def prepare(self):
        if not self.path.exists():
            self.make("build/genmatch")
        (self.run / "w.pd").write_text(RULES)
        self.args = ["--gimple", "w.pd"]


class Python(Program):
    """Debian's own, with python3.11-dbg."""

    def prepare(self):
        self.path = Path("/usr/bin/python3.11")
        (self.run / "w.py").write_text("import json, re\nclass A:\n  def __init__(self): self.x = [1, 2.5, 'q']\n  def __len__(self): return 3\n"
                                       "a = A(); s = {k: str(k) * 3 for k in range(9)}; t = sorted(s.values(), reverse=True)\n"
                                       "print(json.dumps([len(a), s, t]), re.sub('a+', 'b', 'caab'), 1 << 90, 3 / 7, f'{5:>4}')\n"
                                       "def g():\n  yield from (i * i for i in range(4))\nprint(sum(g()), {1, 2} & {2, 3}, b'x' + b'y')\n"
                                       "try:\n  {}['q']\nexcept KeyError as e: print(repr(e))\n")
        self.args = ["-S", "-E", "w.py"]


class Ledger(Program):
    """Built here from tests/prog."""

    def prepare(self):
        self.path = targets.build(self.target).resolve()


class Cxx(Ledger):
    target = "ledger_cc_O2"


class Cxx0(Ledger):
    target, is_optimised = "ledger_cc_O0", False


class Rust(Ledger):
    target = "ledger_rs_2"


class Rust0(Ledger):
    target, is_optimised = "ledger_rs_0", False


PROGRAMS = {"cxx": Cxx, "cxx0": Cxx0, "rust": Rust, "rust0": Rust0, "bash": Bash, "redis": Redis, "python": Python, "genmatch": Genmatch, "cc1": Cc1}
