# SPDX-License-Identifier: MIT
"""The commands of docs/first-hour.md run as they stand there, on servers of our own, and show what the document says."""
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

import jab
from targets import LIMIT, ROOT

# A part of each command, and what its output must have.
SHOWS = [
    ("list -p $R", r":lrangeCommand\n"),
    ("check -s", r"^\d+ sites, .* placed"),
    ("count -d 2", r" [1-9]\d*  \S+:lrangeCommand\n"),
    ("hist(duration)", r"@ns:\n(\[.*\n)+"),
    ("--slower", r"(\S+:\S+:\S+ \[.*:lrangeCommand duration=\d+\n){3}"),
    ("allocs", r"main\+\d+(\n.*)+total = [1-9]"),
    ("leaks", r"setrangeCommand\+(.*\n)+\d+ bytes in \d+ blocks were not freed"),
    ("opens", r"html/missing: No such file"),
    ("errors", r"@errors\[open, -1, No such file"),
    ("retval:int'", r'(.*nginx .*:recv request="GET /.*retval=\d+\n){2}'),
    ("count();", r"\A(?=[\s\S]*@\[GET / HTTP/1\]: [1-9])(?=[\s\S]*@\[GET /missing\]: [1-9])"),
    ("hist((nsecs", r"@us:\n(\[.*\n)+"),
    ("record", None),
    ("view -n 4", r'(?:.*nginx .*\n){4}'),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def talk(port, text):
    """Says something on a connection of its own and reads some of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as s:
        s.sendall(text.encode())
        return s.recv(65536)


def wait_for(port, text):
    end = time.monotonic() + LIMIT
    while True:
        try:
            return talk(port, text)
        except OSError:
            assert time.monotonic() < end
            time.sleep(.05)


@pytest.fixture
def servers(tmp_path):
    """(redis's pid, that of nginx's worker), both kept busy."""
    redis, http, over = free_port(), free_port(), threading.Event()
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("hello\n")
    temporary = " ".join(f"{x}_temp_path .;" for x in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "n.conf").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''} daemon off; master_process off; pid n.pid; error_log error.log;\nevents {{ }}\n"
        f"http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{http}; root html; }} }}\n")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen(["redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)], **quiet)]

    def load():
        i = 0
        while not over.wait(.01):
            i += 1
            talk(redis, f"set k {i}\r\nget k\r\nsetrange key{i} 100000 x\r\nlrange list 0 -1\r\n")
            for path in "", "missing":
                talk(http, f"GET /{path} HTTP/1.0\r\n\r\n")

    worker = threading.Thread(target=load)
    try:
        started.append(subprocess.Popen(["nginx", "-p", str(tmp_path), "-e", "error.log", "-c", "n.conf"], **quiet))
        wait_for(redis, "rpush list " + " ".join(map(str, range(5000))) + "\r\n")
        wait_for(http, "GET / HTTP/1.0\r\n\r\n")
        worker.start()
        yield tuple(p.pid for p in started)
    finally:
        over.set()
        if worker.ident:
            worker.join()
        for p in started:
            p.kill()
            p.wait()


def commands():
    text = (ROOT / "docs" / "first-hour.md").read_text()
    found = [re.sub(r"\s*\n\s+", " ", x) for x in re.findall(r"^    \$ (jab .*(?:\n {20,}\S.*')?)$", text, re.M)]
    return [x for x in found if "&" not in x and "recover" not in x]


def test_commands_of_the_first_hour(servers, tmp_path):
    env = {**os.environ, "PATH": f"{Path(jab.JAB).resolve().parent}:{os.environ['PATH']}", "R": str(servers[0]), "N": str(servers[1])}
    todo = commands()
    assert len(todo) == len(SHOWS), todo
    for command, (part, shows) in zip(todo, SHOWS):
        assert part in command, (part, command)
        command = command.replace("--slower 100us", "--slower 1us")     # whatever the machine's speed
        p = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT)
        assert p.returncode == 0 and (shows is None or re.search(shows, p.stdout, re.M)), (command, p)
