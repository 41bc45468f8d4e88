# SPDX-License-Identifier: MIT
"""What bpftrace's releases after 0.17 have brought, in programs: what the interpreter has computed, pads compute too."""
import os
import time
from pathlib import Path

import jab
import scripts
from jab import lines_of


def shown(built, text, *command, n=1):
    r = scripts.run(text, built("script"), *(command or ("tail", n)))
    assert r.status == 0 and ("/" in text or not r.stderr), r     # divisions by zero are reported
    return lines_of(r.output)


def test_records_and_values_of_if(built):
    text = """u:exe:tail {
        $r = (n=arg0, in=(half=arg0 / 2, text="x")); print(("r", $r)); print($r.in.half);
        $r = (in=(text=if (arg0 > 1) { "more" } else { "less" }, half=7), n=1); print(("in", $r.in));
        @m[(a=arg0, b="k")] = (c=arg0, d=$r.in.text); print((arg0 ?: 9, arg0 / (arg0 - arg0), arg0 % (arg0 - arg0)));
    }"""
    got = shown(built, text, n=3)
    assert got[:12] == [x for i in range(3) for x in (
        f"(r, {{ .n = {i}, .in = {{ .half = {i // 2}, .text = x }} }})", str(i // 2),
        f"(in, {{ .half = 7, .text = {'more' if i > 1 else 'less'} }})", f"({i or 9}, 1, 1)")]
    assert sorted(got[12:]) == [f"@m[{{ .a = {i}, .b = k }}]: {{ .c = {i}, .d = {'more' if i > 1 else 'less'} }}" for i in range(3)]


def test_bytes(built):
    """memcmp() of what an argument points to, buffers beside each other."""
    text = """u:exe:show { $p = (uint8 *)arg5; print((memcmp($p, "alpha", 5), memcmp("alpha", $p, 5), memcmp($p, str(arg5), 4)));
        print((buf(arg5, 4) == buf("alph", 4), buf(arg5, 4) != buf("beta", 4))); exit(); }"""
    assert shown(built, text, "format") == ["(0, 0, 0)", "(true, true)"]


def test_processes(target):
    """Numbers and names of the process's parent, its first thread and its control group, as /proc has them while it runs."""
    own = Path("/proc/self/cgroup").read_text().splitlines()
    group = next((x[3:] for x in own if x.startswith("0::")), None)
    text = """u:exe:take { printf("%s|%d|%s|%s|%d\\n", leader_comm, leader_tid == pid, comm(pid), pcomm, ppid); print(cgroup); print(cgroup_path(cgroup));
        printf("%d %d\\n", jiffies > 0, jiffies * 10 <= nsecs / 1000000); }"""
    t = target("script", "serve")
    with scripts.Script(text, t.pid) as s:
        t.run(1)
        while not os.fstat(s.out.fileno()).st_size:     # it is looked up when it is printed
            time.sleep(.01)
        r = s.stop()
    t.stop()
    got = lines_of(r.output)
    assert got[0].split("|") == ["script", "1", "script", Path("/proc/self/comm").read_text().strip(), str(os.getpid())], got
    path = Path("/sys/fs/cgroup") / (group or "/x")[1:]
    assert int(got[1]) == (os.stat(path).st_ino if group and path.is_dir() else 0), got
    assert got[2] == (f"unified:{group}" if group else "unified:N/A") and got[3] == "1 1", got


def test_options_of_the_script():
    """--name after -- that no getopt() asks for is a mistake; numbers may need all 64 bits."""
    text = 'begin { print((getopt("n", 1), getopt("flag"))); }'
    r = jab.run("-e", text, "--", "--bb")
    assert r.status == 1 and "no option --bb; it has --n, --flag" in r.stderr, r
    r = jab.run("-e", text, "--", "--n=0xffffffffffffffff", "--flag=True")
    assert r.status == 0 and lines_of(r.output) == ["(18446744073709551615, true)"], r
    r = jab.run("-e", 'begin { printf("%lu", $1) }', "18446744073709551615")
    assert r.status == 0 and r.output.strip() == "18446744073709551615", r


def test_probe_filter(built):
    """begin and end stay; what is left out is as if it were not there. A filter that matches nothing is a mistake."""
    text = 'begin { print("b") } u:exe:no_such { } u:exe:tail, u:exe:nor_this { @ = count() } interval:ms:1 { exit() } end { print("e") }'
    r = scripts.run(text, built("script"), "tail", 3, options=["--probe-filter", ":tail$"])
    assert r.status == 0 and lines_of(r.output) == ["b", "e", "@: 3"], r
    for bad, words in (("nothing", "no probe of the script matches"), ("(", "is no regular expression")):
        r = jab.run("--probe-filter", bad, "-e", text)
        assert r.status == 1 and words in r.stderr, r
