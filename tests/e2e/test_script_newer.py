# SPDX-License-Identifier: MIT
"""What bpftrace's releases after 0.17 have brought, in programs: what the interpreter has computed, pads compute too."""
import os
from pathlib import Path

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


def test_processes(built):
    """Numbers and names of the process's parent, its first thread and its control group, as /proc has them."""
    own = Path("/proc/self/cgroup").read_text().splitlines()
    group = next((x[3:] for x in own if x.startswith("0::")), None)
    text = """u:exe:tail { printf("%s|%d|%s|%s|%d\\n", leader_comm, leader_tid == pid, comm(pid), pcomm, ppid); print(cgroup); print(cgroup_path(cgroup));
        printf("%d %d\\n", jiffies > 0, jiffies * 10 <= nsecs / 1000000); exit(); }"""
    got = shown(built, text)
    first = got[0].split("|")
    assert first[:4] == ["script", "1", "script", "jab"] and int(first[4]) > 1, got
    path = Path("/sys/fs/cgroup") / (group or "/x")[1:]
    assert int(got[1]) == (os.stat(path).st_ino if group and path.is_dir() else 0), got
    assert got[2] == (f"unified:{group}" if group else "unified:N/A") and got[3] == "1 1", got
