# SPDX-License-Identifier: MIT
"""A hostile target writes into its rings: what is believed of that, and what is done with it."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jab
import scripts
import traces
from targets import LIMIT

SMALL = ["--buffer-size", "64k"]        # quickly searched


def sleeps(pid):
    """How often a process has gone to sleep."""
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def let_read(tracer, rounds=2):
    """Until the tracer has read its rings: on a busy machine that takes a while. It sleeps after each time."""
    end, start = time.monotonic() + LIMIT, sleeps(tracer)
    time.sleep(0.06)
    while sleeps(tracer) < start + rounds:
        assert time.monotonic() < end
        time.sleep(0.01)


def forge(t, tracer, command, times=12):
    """The same command again and again: some events may be read before they are changed. No two of them are read together, since
    the reader gives up what is behind one that is damaged."""
    answers = [(t.ask(command), let_read(tracer))[0] for _ in range(times)]
    assert answers.count("forged") > times // 2, answers


def test_records_of_other_clauses(target, tmp_path):
    """What an interval clause says is not taken from a ring, whatever number the target gives its event."""
    t, done = target("forge"), tmp_path / "done"
    script = '''uprobe:exe:work { printf("called with %s\\n", str(arg0)); }
                interval:s:3600 { system("touch DONE; true %s", str($1)); exit(); }
                END { cat("%s", str($1)); }'''.replace("DONE", str(done))
    with scripts.Script(script, t.pid, options=["--unsafe", *SMALL, "/etc/hostname"]) as s:
        for n in range(8):
            forge(t, s.process.pid, f"id {n}", 4)
        assert s.process.poll() is None
        r = s.stop()
    assert not done.exists(), r
    assert "called with call-" in r.output and r.status == 0, r
    assert "jab: a buffer held invalid data" in r.stderr, r


@pytest.mark.parametrize("how", ["trace", "record"])
def test_events_of_other_targets(target, tmp_path, how):
    """Probe 0 has no site in the process that writes its id."""
    t, other = target("forge"), target("calls", "serve", 1)
    out = tmp_path / "out"
    p = subprocess.Popen([jab.JAB, how, "-v", *SMALL, "-o", str(out), "-p", str(t.pid), "-p", str(other.pid),
                          "theirs=calls:work arg0:string", "mine=forge:work arg0:string"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = iter(p.stderr.readline, "")
    next(x for x in lines if "active:" in x)
    forge(t, p.pid, "id 0")
    other.run(3)
    forge(t, p.pid, "plain")
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=LIMIT)
    text = out.read_text() if how == "trace" else jab.run("view", out).output
    assert p.returncode == 0 and "jab: a buffer held invalid data" in err, err
    assert text.count(" theirs ") == 3 and text.count(" mine ") >= 6, text
    assert f" {other.pid}/" in text and all(f" {other.pid}/" in x for x in text.splitlines() if " theirs " in x), text


ACT = 'uprobe:exe:work { system("echo %%s %%d %%d %%s >> %s", str(arg0), pid, tid, comm); }'


def act(t, path, *commands):
    with scripts.Script(ACT % path, t.pid, options=["--unsafe", *SMALL]) as s:
        for command in commands:
            forge(t, s.process.pid, command, 6)
        r = s.stop()
    return [x.split() for x in path.read_text().splitlines()] if path.exists() else [], r


def test_actions_have_numbers_of_the_kernel(target, tmp_path):
    """pid, tid and comm of system() are the process's own, also if the event's values say something else."""
    t = target("forge")
    done, r = act(t, tmp_path / "done", "plain", f"value {os.getpid()}")
    assert len(done) == 12 and r.status == 0, r
    assert {tuple(x[1:]) for x in done} == {(str(t.pid), str(t.pid), "forge")}, done


def test_actions_not_for_others(target, tmp_path):
    """An event that names a process without our probes: nothing is done with that number."""
    t = target("forge")
    done, r = act(t, tmp_path / "done", f"pid {os.getpid()}", "pid 0", "pid 4294967295")
    assert not [x for x in done if x[1] != str(t.pid) or x[2] != str(t.pid)], done
    assert f"jab: system(): left out: process {os.getpid()} does not have our probes" in r.stderr, r


def test_actions_of_children(target, tmp_path):
    """A fork has the probes, too: its number is good; so is that of one that has ended."""
    t = target("forge")
    done, r = act(t, tmp_path / "done", "child")
    assert len(done) == 6 and "left out" not in r.stderr, (done, r)
    children = {x[0].split("-")[1] for x in done}
    assert len(children) == 6 and str(t.pid) not in children
    assert all(x[1] == x[2] == x[0].split("-")[1] and x[3] == "forge" for x in done), done


def test_actions_of_children_that_end_meanwhile(target, tmp_path):
    """They have no mappings any more, and their memory takes some time before they are zombies."""
    t = target("forge")
    done, r = act(t, tmp_path / "done", "dying 800")
    assert len(done) == 6 and "left out" not in r.stderr and all(x[1] == x[2] != str(t.pid) for x in done), (done, r)


MAIN_ENDS = ("import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); print('ready', flush=True); "
             "ctypes.CDLL(None).syscall(60, 0)")


def test_actions_not_for_others_whose_main_thread_has_ended(target, tmp_path):
    """Such a process looks like a zombie, but runs."""
    t = target("forge")
    with subprocess.Popen([sys.executable, "-c", MAIN_ENDS], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "ready\n"
            end = time.monotonic() + LIMIT
            while ") Z" not in Path(f"/proc/{other.pid}/stat").read_text() and time.monotonic() < end:
                time.sleep(.01)
            done, r = act(t, tmp_path / "done", f"pid {other.pid}")
        finally:
            other.kill()
    assert str(other.pid) not in {y for x in done for y in x[1:3]}, done
    assert f"jab: system(): left out: process {other.pid} does not have our probes" in r.stderr, r


@pytest.mark.parametrize("length", [7, 0, 4294967288])
def test_what_is_no_event_is_counted(target, tmp_path, length):
    """Each time at least one event is gone: in the summary, in the trace, with the number of bytes."""
    t, out = target("forge"), tmp_path / "out"
    p = subprocess.Popen([jab.JAB, "record", "-v", "--json", *SMALL, "-o", str(out), "-p", str(t.pid), "exe:work arg0:string"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    next(x for x in iter(p.stderr.readline, "") if "active:" in x)
    forge(t, p.pid, f"length {length}")
    forge(t, p.pid, "plain")
    p.send_signal(signal.SIGINT)
    text, err = p.communicate(timeout=LIMIT)
    summary = json.loads(text.splitlines()[-1])["summary"]
    times = summary["unreadable"]["times"]
    assert times > 6 and summary["unreadable"]["bytes"] >= 24 * times, summary
    assert f"jab: a buffer held invalid data, {times} times: {summary['unreadable']['bytes']} bytes" in err, err
    seen = jab.run("view", "--json", out).objects[-1]["summary"]
    assert seen["lost"] == times and seen["events"] + times == 24, (seen, summary)


def test_lost_is_not_believed(target, tmp_path):
    """Numbers of lost events that no program can lose in the time."""
    t, out = target("forge"), tmp_path / "out"
    p = subprocess.Popen([jab.JAB, "record", "-v", "--json", *SMALL, "-o", str(out), "-p", str(t.pid), "exe:work arg0:string"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    next(x for x in iter(p.stderr.readline, "") if "active:" in x)
    assert t.ask(f"lost {p.pid}") == "forged"
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    text, err = p.communicate(timeout=LIMIT)
    probe = json.loads(text.splitlines()[-1])["summary"]["probes"][0]
    assert f"jab: process {t.pid}: how many events it has lost is not known: it has written there itself\n" in err, err
    assert probe["lost"] < 1 << 40 and probe["hits"] < 1 << 40, probe
    assert jab.run("view", "--json", out).objects[-1]["summary"]["lost"] < 1 << 40


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_times_before_the_session(target, tmp_path, options):
    """An event with a time near the counter's zero is none: readers would sort its packet after all others, or refuse the trace."""
    if not traces.have_babeltrace():
        pytest.skip("no babeltrace2")
    t = target("forge")
    p = subprocess.Popen([jab.JAB, "record", "-v", *SMALL, *options, "-o", str(tmp_path / "t"), "-p", str(t.pid),
                          "exe:work arg0:string"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    next(x for x in iter(p.stderr.readline, "") if "active:" in x)
    forge(t, p.pid, "time 1")
    forge(t, p.pid, "plain", 2)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=LIMIT)
    assert p.returncode == 0 and "jab: a buffer held invalid data" in err, err
    events, _ = traces.babeltrace(tmp_path / "t")
    assert options or len(events) >= 2, events
