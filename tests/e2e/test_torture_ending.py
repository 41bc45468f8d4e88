# SPDX-License-Identifier: MIT
"""The long runs tell a process that hangs from one that gets no CPU."""
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torture"))

from ending import Ending       # noqa: E402

COMPUTES = "import time\nn = 0\nwhile time.process_time() < %s: n += 1"


def python(text, **popen):
    return subprocess.Popen([sys.executable, "-c", text], **popen)


def test_who_sleeps_hangs():
    p = python("import time; time.sleep(1.5)")
    e = Ending(p)
    assert e.wait(60) and e.is_hang, e


def test_who_is_stopped_hangs():
    p = python("pass")
    os.kill(p.pid, signal.SIGSTOP)
    e = Ending(p)
    threading.Timer(1.5, os.kill, (p.pid, signal.SIGCONT)).start()
    assert e.wait(60) and e.is_hang, e


def test_who_computes_hangs():
    p = python(COMPUTES % 1.5)
    e = Ending(p)
    assert e.wait(60) and e.is_hang and e.cpu > 1, e


def test_who_gets_no_cpu_does_not_hang():
    """Others of the same CPU, and of more weight, have nearly all of it."""
    cpu = max(os.sched_getaffinity(0))
    busy = [python("while True: pass") for _ in range(3)]
    try:
        for b in busy:
            os.sched_setaffinity(b.pid, {cpu})
        p = python(COMPUTES % .3, preexec_fn=lambda: (os.sched_setaffinity(0, {cpu}), os.nice(10)))
        e = Ending(p)
        assert e.wait(60) and e.wall > 1.2 and not e.is_hang, e
    finally:
        for b in busy:
            b.kill()
            b.wait()


def test_who_does_not_end():
    p = python("import time; time.sleep(60)")
    begin = time.monotonic()
    assert not Ending(p).wait(.2) and time.monotonic() - begin < 10
    p.kill()
    p.wait()
