# SPDX-License-Identifier: MIT
"""Tools of Debian's bpftrace package for user space, unchanged, on real programs.

They attach to every process of the machine that uses a library, so this is no part of `make check`.
"""
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

import jab
from targets import LIMIT

TOOLS = Path("/usr/sbin")

pytestmark = pytest.mark.skipif(not shutil.which("openssl") or not (TOOLS / "sslsnoop.bt").exists(), reason="needs openssl and bpftrace's tools")


def until(what):
    end = time.monotonic() + LIMIT
    while not what():
        assert time.monotonic() < end
        time.sleep(.02)


@pytest.fixture
def server(tmp_path):
    """Sends each line back reversed."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
                    "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen(["openssl", "s_server", "-rev", "-accept", f"127.0.0.1:{port}", "-key", tmp_path / "key", "-cert", tmp_path / "cert"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens():
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0
    until(listens)
    yield port
    p.kill()
    p.wait()


def traced(tool, command, tmp_path, text=""):
    """What the tool prints while the command runs."""
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        p = subprocess.Popen([jab.JAB, TOOLS / tool], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            until(lambda: "Attached" in (tmp_path / "err").read_text() or p.poll() is not None)
            client = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT, start_new_session=True)
        finally:
            p.send_signal(signal.SIGINT)
            status = p.wait(LIMIT)
    assert status == 0 and client.returncode == 0, (client, (tmp_path / "err").read_text())
    return (tmp_path / "out").read_text()


def client(port):
    return ["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}"]


def test_sslsnoop(server, tmp_path):
    lines = traced("sslsnoop.bt", client(server), tmp_path, "hello\nCLOSE\n").splitlines()
    assert lines[1].split() == ["TIME(us)", "TID", "COMM", "LAT(us)", "RET", "FUNC"], lines
    rows = [x.split() for x in lines[2:] if " openssl " in x]
    assert all(len(x) in (6, 7) for x in rows) and rows, lines               # "<tail call>" are two words
    assert {"SSL_do_handshake", "SSL_read", "SSL_write"} <= {x[-1] for x in rows}, lines
    assert {"6", "12"} & {x[4] for x in rows if x[-1] == "SSL_write"}, lines      # hello, CLOSE and their newlines, in one or two


def test_ssllatency(server, tmp_path):
    out = traced("ssllatency.bt", client(server), tmp_path, "hello\nCLOSE\n")
    assert out.startswith("Tracing SSL/TLS handshake... Hit Ctrl-C to end.\n\nLatency distribution in microsecond:\n\n@"), out
    assert re.search(r"^@hist\[SSL_write\]:\n[\[(].*\|$", out, re.M), out
    assert re.search(r"^@statF?\[SSL_do_handshake\]: \{ \.count = \d+, \.average = \d+, \.total = \d+ \}$", out, re.M), out


def test_gethostlatency(tmp_path):
    out = traced("gethostlatency.bt", [sys.executable, "-c", "import socket; socket.getaddrinfo('localhost', 1)"], tmp_path)
    assert re.search(r"^\d\d:\d\d:\d\d  \d+ +python3\S* +\d+ localhost$", out, re.M), out


def test_threadsnoop(tmp_path):
    out = traced("threadsnoop.bt", [sys.executable, "-c", "import threading; t = threading.Thread(target=print); t.start(); t.join()"], tmp_path)
    assert re.search(r"^\d+ +\d+ +python3\S* +\S+$", out, re.M), out


def test_bashreadline(tmp_path):
    out = traced("bashreadline.bt", ["/bin/bash", "--norc", "-i"], tmp_path, "echo one\n: two three\nexit\n")
    assert re.findall(r"^\d\d:\d\d:\d\d  \d+ +(.*)$", out, re.M) == ["echo one", ": two three", "exit"], out
