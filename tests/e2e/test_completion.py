# SPDX-License-Identifier: MIT
"""What zsh, fish and bash complete, asked in these shells themselves: commands, tools, options, values, pids and functions."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

import jab
from targets import LIMIT, ROOT

HERE = ROOT / "docs" / "completion"


def fish(line, env):
    script = f"source {HERE}/jab.fish; complete -C {line!r}"
    p = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, timeout=LIMIT, env=env)
    assert p.returncode == 0, p
    return [x.split("\t")[0] for x in p.stdout.splitlines()]


def zsh(line, env):
    """A real line editor on a terminal: Tab, and what the line then is; a list of several comes before it."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], dict(env, TERM="dumb", PS1="", COLUMNS="200"))
    said = ""

    def read_until(what, seconds=LIMIT):
        nonlocal said
        end = time.monotonic() + seconds
        while not re.search(what, said) and time.monotonic() < end:
            if select.select([fd], [], [], .1)[0]:
                said += os.read(fd, 65536).decode(errors="replace")
        return said

    try:
        setup = (f"stty -echo; fpath=({HERE} $fpath); autoload -U compinit; compinit -u -D; unsetopt zle_bracketed_paste prompt_sp; "
                 "LISTMAX=10000; zstyle ':completion:*' list-prompt ''; unsetopt menu_complete auto_menu; setopt list_ambiguous; "
                 "bindkey '^X' expand-or-complete; bindkey -s '^Y' 'END-OF-IT'; echo rea''dy\n")
        os.write(fd, setup.encode())
        read_until("ready")
        said = ""
        os.write(fd, line.encode() + b"\x18\x19")
        read_until("END-OF-IT")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x07\x0f\r]", "", said)
    finally:
        os.kill(pid, 9)
        os.close(fd)
        os.waitpid(pid, 0)


def bash(line, env):
    script = r"""
        . "$1"; compopt() { :; }
        COMP_LINE=$2; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
        mapfile -t COMP_WORDS < <(printf '%s\n' "$COMP_LINE" | sed -E 's/([:=])/ \1 /g' | tr -s ' ' '\n')
        case $COMP_LINE in *:) COMP_WORDS[${#COMP_WORDS[@]}-1]="" ;; *' ') COMP_WORDS+=("") ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _jab; printf '%s\n' "${COMPREPLY[@]}"
    """
    p = subprocess.run(["bash", "-c", script, "bash", str(HERE / "jab.bash"), line], capture_output=True, text=True, timeout=LIMIT, env=env)
    return p.stdout.split()


@pytest.fixture
def env(tmp_path):
    """`jab` is the one under test."""
    (tmp_path / "bin").mkdir()
    os.symlink(jab.JAB, tmp_path / "bin" / "jab")
    return dict(os.environ, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", HOME=str(tmp_path))


def test_fish(env, target):
    t = target("spin", 1)
    assert {"trace", "leaks", "view"} <= set(fish("jab ", env))
    assert fish("jab leak", env) == ["leaks"]
    assert fish("jab trace --slow", env) == ["--slower"] and fish("jab leaks --old", env) == ["--older"]
    assert set(fish("jab trace --time ", env)) == {"boot", "wall", "relative", "delta"}
    assert str(t.pid) in fish("jab count -p ", env)
    found = fish(f"jab count -p {t.pid} libc:pthread_mutex_lo", env)
    assert found == ["libc:pthread_mutex_lock"], found
    assert "call:exe:main" in fish(f"jab trace -p {t.pid} call:exe:mai", env)
    assert "main" in " ".join(fish(f"jab check {built_path(t)} exe:mai", env))


def built_path(t):
    return os.readlink(f"/proc/{t.pid}/exe")


def test_zsh(env, target):
    t = target("spin", 1)
    assert "jab leaks END" in zsh("jab leak", env)
    assert "jab trace --slower END" in zsh("jab trace --slow", env)
    got = zsh("jab trace --time ", env)
    assert all(x in got for x in ("boot", "wall", "relative", "delta")), got
    assert f"{t.pid} END" in zsh(f"jab count -p {t.pid}", env)
    assert "libc:pthread_mutex_lockEND" in zsh(f"jab count -p {t.pid} libc:pthread_mutex_loc", env)
    assert "call:exe:mainEND" in zsh(f"jab trace -p {t.pid} call:exe:mai", env)
    assert "exe:mainEND" in zsh(f"jab check {built_path(t)} exe:mai", env)


def test_bash(env, target):
    t = target("spin", 1)
    assert "leaks" in bash("jab lea", env) and "trace" in bash("jab tr", env)
    assert bash("jab leaks --old", env) == ["--older"]
    assert "pthread_mutex_lock" in bash(f"jab count -p {t.pid} libc:pthread_mutex_lo", env)
    assert bash(f"jab trace -p {t.pid} call:exe:mai", env) == ["main"]


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_every_option_of_every_command(env, shell):
    for command in "trace", "count", "view", "record", "leaks":
        options = set(re.findall(r"(--[\w-]+)", "\n".join(re.findall(r"^ +(?:-\w, )?--[\w-]+", jab.run("help", command).output, re.M))))
        if shell == "fish":
            assert options <= set(fish(f"jab {command} --", env)), command
        else:
            got = zsh(f"jab {command} --", env)
            assert all(x in got for x in options), (command, got, options)


def test_shells_are_there():
    assert all(shutil.which(x) for x in ("bash", "fish", "zsh"))
