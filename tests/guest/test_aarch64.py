# SPDX-License-Identifier: MIT
"""jab for aarch64, in a guest: it counts in running programs, leaves them as they were, and recovers what a killed one has left.

JAB_AARCH64: the folder that tools/aarch64 has built.
"""
import os
import re
import subprocess

import pytest

from guest import Guest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("JAB_AARCH64", TOP + "/build-aarch64")
SYSROOT = BUILD + "/sysroot"

# With atomic instructions, landing marks and pointer authentication; and an older CPU without them.
CPUS = {"max": "max,pauth-impdef=on", "a53": "cortex-a53"}


def compiled(folder, name, *args):
    out = f"{folder}/{name}{''.join(args)}"
    subprocess.run(["aarch64-linux-gnu-gcc", f"--sysroot={SYSROOT}/root", "-O2", "-g", *args, f"{HERE}/{name}.c", "-o", out, "-lpthread"],
                   check=True)
    return out


@pytest.fixture(scope="session")
def binaries(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("aarch64"))
    return {
        "/bin/worker": compiled(folder, "worker"),
        "/bin/worker-old": compiled(folder, "worker", "-march=armv8-a", "-mno-outline-atomics"),
        "/bin/worker-marks": compiled(folder, "worker", "-mbranch-protection=standard"),
        "/bin/worker-sve": compiled(folder, "worker", "-march=armv8.2-a+sve", "-O3"),
        "/bin/textsum": compiled(folder, "textsum"),
        "/bin/sandbox": compiled(folder, "sandbox"),
        "/bin/jab": BUILD + "/jab",
    }


@pytest.fixture(scope="session", params=list(CPUS))
def guest(request, binaries):
    with Guest(SYSROOT, binaries, programs=["bin/bash", "usr/bin/sqlite3"], cpu=CPUS[request.param]) as g:
        yield g


def counts(text):
    """{function: hits} of the table that jab count prints."""
    return {name: int(hits) for hits, name in re.findall(r"^ *(\d+)  (\S+:\S+)$", text, re.M)}


def instructions(path, names):
    """[name+offset] of all instructions of functions."""
    found = []
    for name in names:
        out = subprocess.run(["aarch64-linux-gnu-objdump", "-d", f"--disassemble={name}", path], capture_output=True, text=True,
                             check=True).stdout
        at = [int(x, 16) for x in re.findall(r"^ +([0-9a-f]+):\t", out, re.M)]
        found += [f"exe:{name}+{x - at[0]}" for x in at]
    return found


FUNCTIONS = ["leaf", "tail", "floats", "branches", "atomic_step", "by_pointer", "round_of"]


def test_list_and_check(guest):
    assert "worker:branches" in guest.check("jab list /bin/worker")
    assert "100.000 % placed" in guest.check("jab check /bin/bash -s '*' '*%return'")
    assert "is a system call" in guest.check("jab check /lib/aarch64-linux-gnu/libc.so.6 'getpid+4' 'getpid+8'; true")


def test_refusals(guest):
    guest.check("worker 1 60 > /dev/null & echo $! > /tmp/pid")
    for command in ("-p $(cat /tmp/pid) -e 'leaf { @ = count(); }'", "trace -p $(cat /tmp/pid) 'leaf if arg0 > 3'",
                    "trace -p $(cat /tmp/pid) 'leaf text=arg0:string'", "trace -p $(cat /tmp/pid) -t backtrace leaf"):
        status, text = guest.run("jab " + command)
        assert status and "jab for aarch64" in text, text


@pytest.mark.parametrize("program", ["worker", "worker-old", "worker-marks"])
def test_exact_counts(guest, program):
    """A program that jab starts: each call is counted, and the results are the right ones."""
    text = guest.check(f"jab count exe:round_of exe:branches exe:branches%return exe:leaf exe:leaf%return -- {program} 3 1")
    hits, rounds = counts(text), int(re.search(r"rounds (\d+)", text)[1])
    assert "right" in text
    assert hits[f"{program}:round_of"] == 2 * rounds
    assert hits[f"{program}:branches"] == 2 * rounds * 20
    assert hits[f"{program}:branches%return"] == 2 * rounds * 20
    assert hits[f"{program}:leaf"] == hits[f"{program}:leaf%return"] > rounds


@pytest.mark.parametrize("program", ["worker", "worker-old", "worker-marks"])
def test_every_instruction(guest, binaries, program):
    """Attached to a running program, with a probe on each instruction; the text is the same afterwards."""
    probes = instructions(binaries["/bin/" + program], FUNCTIONS)
    text = guest.check(f"""{program} 3 600 > /tmp/out & pid=$!; sleep 1
        textsum $pid > /tmp/before; jab count -p $pid -d 1 {' '.join(probes)} > /tmp/counts 2> /tmp/said; echo "status $?"
        textsum $pid > /tmp/after; kill -USR1 $pid; kill -USR2 $pid; cmp /tmp/before /tmp/after && echo same; cat /tmp/counts /tmp/said; wait $pid; cat /tmp/out""")
    assert "status 0" in text and "same" in text and "right" in text, text
    hits = counts(text)
    assert len(hits) >= len(probes) * 0.9, text
    assert all(n > 0 for name, n in hits.items() if name.endswith(":round_of")), text


def test_bash_and_libc(guest):
    """Every function of bash and of libc, entries and returns, while a script runs."""
    text = guest.check("""cat > /tmp/s.sh <<'END'
i=0; sum=0
until [ -e /tmp/stop ]; do i=$((i + 1)); x=${i//1/2}; sum=$(( (sum * 31 + ${#x}) % 1000003 )); case $x in *5*) y=$(printf %05d $i);; esac; done
a=0; for ((k = 1; k <= i; k++)); do x=${k//1/2}; a=$(( (a * 31 + ${#x}) % 1000003 )); done
[ $a = $sum ] && echo equal $((i > 0))
END
        rm -f /tmp/stop; bash /tmp/s.sh > /tmp/out & pid=$!; sleep 1; textsum $pid > /tmp/before
        jab count -p $pid -d 3 'exe:*' 'exe:*%return' 'libc:*' 'libc:*%return' > /tmp/counts 2>/tmp/said; echo "status $?"; tail -3 /tmp/said
        textsum $pid > /tmp/after; cmp /tmp/before /tmp/after && echo same; touch /tmp/stop; wait $pid; cat /tmp/out; wc -l < /tmp/counts""", 240)
    assert "status 0" in text and "same" in text and "equal 1" in text, text
    assert int(text.split()[-1]) > 50, text


def test_sqlite(guest):
    query = ("with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) "
             "select sum(i), count(distinct i % 97), max(length(hex(i))) from n;")
    text = guest.check(f"""sqlite3 :memory: "{query}" > /tmp/alone
        jab count 'libsqlite3.so.0:*' 'libc:*' -- sqlite3 :memory: "{query}" > /tmp/with 2>/tmp/said; echo "status $?"
        head -1 /tmp/alone; grep -c . /tmp/with; grep -x "$(cat /tmp/alone)" /tmp/with && echo found""", 240)
    assert "status 0" in text and "found" in text, text


def test_kill_and_recover(guest):
    """jab is killed at random moments; recover leaves the text as it was, and the program is right."""
    text = guest.check("""worker 3 600 > /tmp/out & pid=$!; sleep 1; textsum $pid > /tmp/before; i=0; bad=0
        while [ $i -lt 12 ]; do
            jab count -p $pid -d 5 'exe:*' 'exe:*%return' 'libc:*' > /dev/null 2>&1 & j=$!
            usleep $((RANDOM * 40)); kill -9 $j; wait $j 2>/dev/null
            jab recover $pid > /tmp/said 2>&1 || { cat /tmp/said; bad=$((bad + 1)); }
            textsum $pid > /tmp/after; cmp -s /tmp/before /tmp/after || { echo differs; cat /tmp/before /tmp/after /tmp/said; bad=$((bad + 1)); }
            i=$((i + 1))
        done; echo "bad $bad"; kill -USR2 $pid; wait $pid; cat /tmp/out""", 240)
    assert "bad 0" in text and "right" in text, text


def test_trace_arguments(guest):
    text = guest.check("""worker 2 600 > /tmp/out & pid=$!; sleep 1; textsum $pid > /tmp/before
        jab trace -p $pid -d 1 'branches a=arg0' 'branches%return r=retval' 'leaf a=arg0 b=arg1 s=sp f=x29' > /tmp/events 2> /tmp/said
        textsum $pid > /tmp/after; kill -USR2 $pid; cmp /tmp/before /tmp/after && echo same; tail -2 /tmp/said; head -2000 /tmp/events; wait $pid; cat /tmp/out""")
    assert "same" in text and "right" in text, text
    pending = {}
    checked = 0
    for thread, name, values in re.findall(r"^\S+ \S+ \S+ (\d+/\d+) worker:(\S+) (.*)$", text, re.M):
        v = {k: int(x, 0) for k, x in re.findall(r"(\w+)=(0x[0-9a-f]+|\d+)\b", values)}
        if name == "branches":
            pending[thread] = v["a"]
        elif name == "branches%return" and thread in pending and "r" in v:
            a, m = pending.pop(thread), (1 << 64) - 1
            simple = {0: a + 1, 1: a ^ 77, 2: a * 31 + 2, 3: a * 3, 6: ~a & m, 7: a << 3, 8: a >> 2}
            if a % 9 in simple:
                assert v["r"] == simple[a % 9] & m, (a, v)
                checked += 1
        elif name == "leaf":
            assert v["s"] % 16 == 0 and v["f"] > v["s"] - 16, v
    assert checked > 100, text


def test_record_accounts_for_all(guest):
    """Of a program that jab starts, each hit is recorded or counted as lost; it and its result are not changed."""
    text = guest.check("rm -rf /tmp/t; jab record -o /tmp/t exe:round_of exe:tail%return -- worker 3 1 2>&1; jab view /tmp/t | wc -l", 240)
    events = sum(int(x) for x in re.findall(r"^ *\d+ +(\d+) +\d+  exe:", text, re.M))
    assert int(text.split()[-1]) == events > 100, text
    rounds = int(re.search(r"rounds (\d+)", text)[1])
    hits, recorded, lost = (int(x) for x in re.search(r"^ *(\d+) +(\d+) +(\d+)  exe:round_of$", text, re.M).groups())
    assert "right" in text and hits == recorded + lost == 2 * rounds, text


@pytest.mark.parametrize("way", ["prctl", "syscall"])
def test_sandbox(guest, way):
    """A program that forbids itself system calls while it is traced lives on."""
    text = guest.check(f"""rm -f /tmp/go; : > /tmp/events; sandbox {way} /tmp/go > /tmp/out & pid=$!
        jab trace -p $pid 'step n=arg0' > /tmp/events 2> /tmp/said & j=$!
        until [ -s /tmp/events ]; do usleep 100000; done; touch /tmp/go; wait $pid; echo "ended $?"; wait $j; cat /tmp/out; tail -2 /tmp/said; wc -l < /tmp/events""", 240)
    assert "ended 0" in text and "alive" in text, text
    assert int(text.split()[-1]) > 100, text


def test_vector_registers(guest):
    """Threads that compute with SVE are borrowed, and have their registers afterwards."""
    text = guest.check("""worker-sve 0 600 > /tmp/out & pid=$!; i=0; bad=0
        while [ $i -lt 10 ]; do jab count -p $pid -d 0.1 exe:round_of > /dev/null 2>/tmp/said || { cat /tmp/said; bad=$((bad + 1)); }; i=$((i + 1)); done
        echo "bad $bad"; kill -USR2 $pid; wait $pid; cat /tmp/out""", 240)
    assert "bad 0" in text and "right" in text, text
