# SPDX-License-Identifier: MIT
"""The live table of jab count in a real terminal (tmux): any width, resized, with very many functions; its keys; and what is left of it."""
import contextlib
import re
import subprocess
import time

import pytest

import jab
from targets import LIMIT


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, folder, columns, rows=24):
        self.socket = str(folder / "tmux")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "env PS1=ready: TERM=screen /bin/sh")
        self.wait("ready:")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], check=True, capture_output=True, text=True, timeout=LIMIT).stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def key(self, name):
        self.tmux("send-keys", name)

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, what, without=None):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            text = self.screen()
            if re.search(what, text, re.M) and not (without and re.search(without, text, re.M)):
                return text
            time.sleep(.05)
        raise AssertionError(f"{what} does not come:\n{text}")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(*size):
        opened.append(Terminal(tmp_path, *size))
        return opened[-1]
    yield start
    for t in opened:
        with contextlib.suppress(subprocess.CalledProcessError):
            t.tmux("kill-server")


def hits(text):
    return [int(x) for x in re.findall(r"^ +(\d+) +\d+  \S+:", text, re.M)]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_width_and_size(terminal, target, columns):
    t, p = terminal(columns), target("spin", 2)
    t.type(f"{jab.JAB} count -i 0.2 -p {p.pid} 'exe:*'\r")
    text = t.wait(r"^ +HITS +PER SECOND")
    text = t.wait(r"spin:")
    assert all(len(x) <= columns for x in text.splitlines()) and hits(text) == sorted(hits(text), reverse=True), text
    t.resize(100, 12)
    t.wait(r"by hits.*h r n: sort")
    assert len(t.screen().rstrip("\n").splitlines()) <= 12
    t.key("q")
    text = t.wait("ready:$")
    assert "PER SECOND" not in text and "HITS" in text, text
    t.type("stty -a\r")
    assert " icanon" in t.wait(r"icanon") and " -echo" not in t.screen().replace(" -echoprt", "").replace(" -echonl", "")


def test_keys(terminal, target):
    t, p = terminal(120), target("spin", 2)
    t.type(f"stty -a > before; {jab.JAB} count -i 0.2 -p {p.pid} 'exe:*' 'libc:*lock*'\r")
    t.wait("by hits")
    t.key("n")
    text = t.wait("by name")
    t.key("r")
    t.wait("by rate")
    t.type("/zzz")
    t.wait(r"filter: zzz_", without="spin:")
    t.key("Enter")
    t.wait(r"filter: zzz ")
    t.key("Escape")
    t.wait("spin:", without="filter: ")
    t.key("h")
    t.key("p")
    text = t.wait("by hits, paused")
    time.sleep(.6)
    assert hits(t.screen()) == hits(text)
    t.key("Space")
    t.wait("by hits", without="paused")
    t.key("C-c")                    # the terminal is as it was
    t.wait("ready:$")
    t.type("stty -a > after; cmp before after && echo sa''me\r")
    t.wait("^same")
    t.type("echo vis''ible\r")
    t.wait("^visible")


def test_stopped_and_continued(terminal, target):
    """By Ctrl-Z; the shell has set the terminal to its own mode meanwhile."""
    t, p = terminal(120), target("spin", 2)
    t.type(f"{jab.JAB} count -i 0.2 -p {p.pid} 'exe:*'\r")
    t.wait("by hits")
    t.key("C-z")
    t.wait("ready:$")
    t.type("stty icanon echo; clear; echo clean\r")
    t.wait("^clean$", without="by hits")
    t.type("fg\r")
    t.wait("by hits.*h r n: sort")
    t.type("n")
    t.wait("by name")
    t.key("q")
    text = t.wait("ready:$")
    assert "h r n: sort" not in text


def test_very_many_functions(terminal, built):
    """50,000 functions that are all called: a redraw takes less than 20 ms. On a busy machine one may take longer, but not each time."""
    t = terminal(100)
    with subprocess.Popen([built("many50000"), "1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as p:
        p.stdin.write("call 100000000\n")
        p.stdin.flush()
        for _ in range(5):
            t.type(f"clear; {jab.JAB} count -v -i 0.1 -d 1.5 -p {p.pid} 'exe:f*'\r")
            text = t.wait("longest redraw of the table [0-9.]+ ms")
            assert "many50000:f" in text or "many50000:f" in t.screen(), text
            took = float(re.search(r"longest redraw of the table ([\d.]+) ms", text)[1])
            if took < 20:
                break
            t.wait("ready:$")
        p.kill()
    assert took < 20, text


def test_the_hottest_rows_stay_visible(terminal, target):
    """If there are more rows than lines."""
    t, p = terminal(100, 12), target("spin", 2)
    t.type(f"clear; {jab.JAB} count -a -d 0.5 -p {p.pid} 'exe:*' 'libc:*lock*'\r")
    t.wait("^ +HITS +FUNCTION$")
    text = t.wait("ready:$", without="PER SECOND")
    numbers = [int(x) for x in re.findall(r"^ +(\d+)  \S+:", text, re.M)]
    assert numbers and numbers == sorted(numbers) and numbers[-1] > 0, text
