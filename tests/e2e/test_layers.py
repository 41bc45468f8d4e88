# SPDX-License-Identifier: MIT
"""tools/layers.sh: what it must refuse in src."""
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def layers(tree):
    return subprocess.run([tree / "tools" / "layers.sh"], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "layers.sh", tmp_path / "tools")
    return tmp_path


def test_tree_as_it_is(tree):
    r = layers(tree)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.parametrize("line", [
    "/* the result is in rax */",
    "	g_load(g, RAX, r);",
    "	static const uint8_t call[] = { 0x0f, 0x05 };",
    "	len = arch_x86_64.emit_event(out, at, &spec);",
    '#include "arch/x86/x86.h"',
    "/* movsd %xmm0,8(%rsp) */",
])
@pytest.mark.parametrize("folder", ["gen", "base"])
def test_cpu_outside_arch(tree, folder, line):
    (tree / "src" / folder / "more.c").write_text(line + "\n")
    r = layers(tree)
    assert r.returncode == 1
    assert f"src/{folder}/more.c:1:" in r.stdout


def test_folder_that_still_knows_the_cpu_may_not_know_more(tree):
    (tree / "src" / "pad" / "more.c").write_text("/* rax */\n")
    r = layers(tree)
    assert r.returncode == 1 and "src/pad/more.c:1:" in r.stdout


def test_fewer_lines_are_told(tree):
    script = tree / "tools" / "layers.sh"
    text = script.read_text()
    script.write_text(re.sub(r"pad:(\d+)", lambda m: f"pad:{int(m[1]) + 1}", text))
    r = layers(tree)
    assert r.returncode == 0 and "src/pad" in r.stdout


def test_include_that_points_down(tree):
    (tree / "src" / "gen" / "more.c").write_text('#include "session/session.h"\n')
    r = layers(tree)
    assert r.returncode == 1 and "session/session.h" in r.stdout
