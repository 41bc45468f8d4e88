# SPDX-License-Identifier: MIT
"""What jab prints and writes: names that would speak to a terminal, files for their owner only, limits on size."""
import json
import os
import pty
import select
import signal
import stat
import subprocess

import pytest

import jab
import scripts
from targets import LIMIT

ODD_NAME = 'e\033[31ms\n"c'
SHOWN = r'e\x1b[31ms\x0a"c'
# Escapes of the same length as EEEE: an escape sequence, C1 as UTF-8 and as a byte, and a line.
TERMINAL = [b"\x1b[1m", b"\xc2\x9b1m", b"\x9b31m", b"\nja:"]


def odd_file(built, tmp_path, escape=b"\x1b[1m", name=ODD_NAME):
    """The program with names that hold the escape, called as nobody calls a file."""
    path = tmp_path / name
    path.write_bytes(built("odd").read_bytes().replace(b"EEEE", escape))
    path.chmod(0o755)
    return path


def run(*args, **more):
    """The bytes of both outputs."""
    p = subprocess.run([jab.JAB, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, **more)
    return p.returncode, p.stdout, p.stderr


def assert_harmless(*texts):
    for text in texts:
        for c in text.decode():         # fails if that is no UTF-8
            assert c == "\n" or (c >= " " and not "\x7f" <= c < "\xa0"), text


def own(out, err):
    """Without what the program prints."""
    return b"".join(x for x in out.splitlines(True) if not x.strip().isdigit()), err


@pytest.mark.parametrize("escape", TERMINAL, ids=["esc", "c1-utf8", "c1", "newline"])
def test_names_are_harmless(built, tmp_path, escape):
    """Every table, list and message, with a file and with symbols and types of such names. JSON has them as they are."""
    path = odd_file(built, tmp_path, escape)
    shown = "".join(f"\\x{b:02x}" if b < 32 or b > 126 else chr(b) for b in escape)
    trace, all_functions = tmp_path / "t", "exe:w*"
    runs = {
        "count": ["count", all_functions, "--", path, 3],
        "trace": ["trace", all_functions, "--", path, 3],
        "record": ["record", "-o", trace, "exe:w* kind", "--", path, 3],
        "view": ["view", trace],
        "stats": ["view", "--stats", "--fields", trace],
        "list": ["list", path],
        "types": ["list", "-v", path, "*:w*"],
        "check": ["check", path, "*:w*"],
        "near": ["check", path, "w" + "_[1m" + "ork2"],
        "member": ["-e", "uprobe:exe:w* { print(args.nothing); }", "--", path, 1],
        "field": ["trace", "exe:w* nothing", "--", path, 1],
        "missing": ["count", "exe:nothing_like_it", "--", path, 3],
        "nofile": ["list", str(path) + "2"],
    }
    seen = {}
    for name, args in runs.items():
        status, out, err = run(*args)
        assert status == (1 if name in ("near", "member", "field", "missing", "nofile") else 0), (name, out, err)
        assert_harmless(*own(out, err))
        seen[name] = (out + err).decode()
        for quoted, plain in (("\\\\x", "\\x"), ("\\[", "["), ('\\"', '"'), ("\\n", "\\x0a"), ("\\:", ":")):
            seen[name] = seen[name].replace(quoted, plain)      # lists quote what a spec has to; events are quoted as in C
    for name in ("count", "view", "stats", "list", "types", "check"):
        assert f"w{shown}ork" in seen[name], (name, seen[name])
    for name in ("count", "stats", "list", "check"):
        assert SHOWN in seen[name], (name, seen[name])
    assert f"struct t{shown}ag" in seen["types"] and f"enum e{shown}num" in seen["types"], seen["types"]
    assert len([x for x in seen["count"].splitlines() if "ork" in x]) == 1, seen["count"]
    for args in (["count", "--json", all_functions, "--", path, 3], ["list", "--json", path], ["check", "--json", path, "*:w*"],
                 ["view", "--json", trace], ["view", "--json", "--stats", trace]):
        out = own(*run(*args)[1:])[0]
        assert all(isinstance(json.loads(x), dict) for x in out.decode().split("\n") if x), args
    spec = next(x for x in run("list", path)[1].decode().split("\n") if x.endswith("ork"))
    counted = json.loads(own(*run("count", "--json", spec, "--", path, 3)[1:])[0].decode().split("\n")[0])
    assert counted["hits"] == 3, counted        # what a list shows can be probed
    functions = {json.loads(x)["function"] for x in run("list", "--json", path)[1].decode().split("\n") if x}
    if escape != b"\x9b31m":            # JSON has no bytes that are no UTF-8
        assert f"w{escape.decode()}ork" in functions


def on_terminal(*args):
    """What a terminal gets."""
    pid, fd = pty.fork()
    if not pid:
        os.execv(jab.JAB, [jab.JAB, *map(str, args)])
    got = b""
    while select.select([fd], [], [], LIMIT)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        got += part
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, got
    return got.replace(b"\r\n", b"\n")


TEXT = "a\033[2J\tb\n\302\233c".encode("latin-1")
SCRIPT = r'''uprobe:./odd:wEEEEork {
	printf("\033[1mown\033[0m %s|%c|%-20s|\n", str(arg2), 27, str(arg2));
	print(str(arg2)); print((1, str(arg2)));
	@[str(arg2)] = count();
	cat("FILE");
	exit();
}'''


def test_values_on_a_terminal(built, tmp_path):
    """A script's own escapes are the user's; those in values are not. Into a pipe, all is as it is."""
    path = tmp_path / "file"
    path.write_bytes(b"l1\033[1m\nl2\n")
    script = SCRIPT.replace("FILE", str(path)).replace("./odd", str(built("odd")))
    command = ["-q", "-e", script, "--", built("odd"), "1", TEXT.decode("latin-1").encode("latin-1")]
    args = [x if isinstance(x, bytes) else str(x) for x in command]
    got = on_terminal_bytes(args)
    shown = rb"a\x1b[2J\x09b\x0a\xc2\x9bc"
    assert b"\033[1mown\033[0m " + shown + b"|\\x1b|" + shown + b"|\n" in got, got
    assert shown + b"\n(1, " + shown + b")\n" in got and b"@[" + shown + b"]: 1\n" in got, got
    assert b"l1\\x1b[1m\nl2\n" in got, got
    p = subprocess.run([jab.JAB, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert p.stdout.count(TEXT) == 5 and b"l1\033[1m\n" in p.stdout, p


def on_terminal_bytes(args):
    return on_terminal(*[os.fsdecode(x) for x in args])


def test_cat_reads_files_only(tmp_path):
    """A FIFO would block the tracer, a device may act: both are refused. Files of /proc are files."""
    fifo, plain = tmp_path / "fifo", tmp_path / "plain"
    os.mkfifo(fifo)
    plain.write_text("plain\n")
    paths = [fifo, plain, "/dev/zero", "/proc/self/comm", tmp_path]
    r = scripts.run("BEGIN { %s exit(); }" % " ".join(f'cat("{p}");' for p in paths))
    assert r.status == 0 and r.output == "plain\njab\n", r
    assert [x for x in r.stderr.splitlines() if "cat" in x] == [
        f"jab: cat: {fifo} is a FIFO and is not read", "jab: cat: /dev/zero is a device and is not read",
        f"jab: cat: {tmp_path} is a directory and is not read"], r


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_output_is_private(built, tmp_path):
    """Recorded strings and memory are their owner's, whatever the umask says."""
    env = {"umask": 0}
    calls = built("calls")
    t = tmp_path / "t"
    assert jab.run("record", "-o", t, "exe:work arg0", "--", calls, 100, 1, **env).status == 0
    assert mode(t) == 0o700 and len(list(t.iterdir())) >= 2
    assert {mode(x) for x in t.iterdir()} == {0o600}, list(t.iterdir())
    for name, args in {"trace": ["trace", "exe:work", "--", calls, 3, 1], "count": ["count", "exe:work", "--", calls, 3, 1],
                       "view": ["view", t], "script": ["-e", "BEGIN { printf(\"x\"); exit(); }"]}.items():
        at = args.index("--") if "--" in args else len(args)
        assert jab.run(*args[:at], "-o", tmp_path / name, *args[at:], **env).status == 0
        assert mode(tmp_path / name) == 0o600 and (tmp_path / name).stat().st_size, name
    (tmp_path / "there").write_text("x")
    os.chmod(tmp_path / "there", 0o640)
    assert jab.run("view", "-o", tmp_path / "there", t).status == 0
    assert mode(tmp_path / "there") == 0o640        # the user's own file stays as the user has made it
    tar = subprocess.run([jab.JAB, "record", "-o", "-", "exe:work", "--", str(calls), "3", "1"], stdin=subprocess.DEVNULL,
                         capture_output=True, timeout=LIMIT).stdout
    listed = subprocess.run(["tar", "tv"], input=tar, capture_output=True).stdout.decode().splitlines()
    assert listed and all(x.startswith("-rw-------") for x in listed), listed


def test_snapshot_takes_a_free_name(target, tmp_path):
    """A name that exists already costs no snapshot."""
    t = target("spin", 1)
    (tmp_path / "t.2").mkdir()
    (tmp_path / "t.3").write_text("")
    p = subprocess.Popen([jab.JAB, "record", "-v", "--overwrite", "-o", str(tmp_path / "t"), "-p", str(t.pid), "exe:work"],
                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = iter(p.stderr.readline, "")
    try:
        next(x for x in lines if "active:" in x)
        for name in ("t", "t.4", "t.5"):
            p.send_signal(signal.SIGUSR1)
            line = next(x for x in lines if "snapshot" in x)
            assert line.endswith(f" in {tmp_path / name}\n"), line
            assert (tmp_path / name / "metadata").exists()
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=LIMIT)


def size_of(path):
    return sum(x.stat().st_size for x in path.iterdir())


@pytest.mark.parametrize("kib", [64, 1000])
def test_max_size(built, tmp_path, kib):
    """Recording ends when the trace is as large as it may be; what came behind that is counted, in the trace, too."""
    n, t = 3000000, tmp_path / "t"
    r = jab.run("record", "--json", "--max-size", f"{kib}k", "-o", t, "exe:work arg0", "--", built("calls"), n, 2)
    assert r.status == 0 and "jab: ended by --max-size; " in r.stderr, r
    p = next(x for x in r.objects if "summary" in x)["summary"]["probes"][0]
    assert 0 < p["recorded"] < n and p["hits"] == p["recorded"] + p["lost"] <= n, p
    summary = jab.run("view", "--json", t).objects[-1]["summary"]
    assert summary == {"events": p["recorded"], "lost": p["lost"], "damaged": 0}
    # how much was lost is told beyond it: two pages for each stream
    assert kib * 512 < size_of(t) < kib * 1024 + 2 * 4096 * len(list(t.iterdir())), size_of(t)


@pytest.mark.parametrize("n", (1, 3, 1000))
def test_count_of_events(built, tmp_path, n):
    """A recording with -n has the first n events; what came behind them is counted, in the trace, too."""
    t = tmp_path / "t"
    r = jab.run("record", "--json", "-n", n, "-o", t, "exe:work arg0", "--", built("calls"), 300000, 2)
    assert r.status == 0, r
    p = next(x for x in r.objects if "summary" in x)["summary"]["probes"][0]
    assert p["recorded"] == n and p["hits"] == n + p["lost"], p
    assert p["lost"] == 0 or f"jab: ended by -n; {p['lost']} more events happened" in r.stderr, r
    events = jab.run("view", "--json", t).objects
    assert events.pop()["summary"] == {"events": n, "lost": p["lost"], "damaged": 0}
    for tid in {e["tid"] for e in events}:
        mine = [e["fields"]["arg0"] for e in events if e["tid"] == tid]
        assert mine == list(range(len(mine))), mine
    assert len(events) == n
    p = jab.run("record", "--overwrite", "-n", 1, "exe:work", "--", built("calls"), 1, 1)
    assert p.status == 2 and "-n does not go with --overwrite" in p.stderr, p


def test_count_of_events_is_not_reached(built, tmp_path):
    r = jab.run("record", "-n", 5000, "-o", tmp_path / "t", "exe:work arg0", "--", built("calls"), 1000, 2)
    assert r.status == 0 and "ended by" not in r.stderr, r
    assert jab.run("view", "--json", tmp_path / "t").objects[-1]["summary"] == {"events": 1000, "lost": 0, "damaged": 0}


def test_max_size_is_not_reached(built, tmp_path):
    r = jab.run("record", "--max-size", "10M", "-o", tmp_path / "t", "exe:work arg0", "--", built("calls"), 1000, 2)
    assert r.status == 0 and "max-size" not in r.stderr, r
    assert jab.run("view", "--json", tmp_path / "t").objects[-1]["summary"] == {"events": 1000, "lost": 0, "damaged": 0}


def test_max_size_of_text(built, tmp_path):
    r = jab.run("trace", "--max-size", 10000, "-o", tmp_path / "out", "exe:work arg0", "--", built("calls"), 100000, 2)
    assert r.status == 0 and "jab: ended by --max-size" in r.stderr, r
    assert 10000 <= (tmp_path / "out").stat().st_size < 10200
    p = jab.run("record", "--overwrite", "--max-size", "1M", "exe:work", "--", built("calls"), 1, 1)
    assert p.status == 2 and "--max-size does not go with --overwrite" in p.stderr, p
