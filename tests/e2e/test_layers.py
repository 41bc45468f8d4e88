# SPDX-License-Identifier: MIT
"""tools/layers.sh: what it must refuse in src."""
import pathlib
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
    "	case R_X86_64_RELATIVE:",
    "	struct user_regs_struct regs;",
    "	len = arch_aarch64.emit_event(out, at, &spec);",
])
@pytest.mark.parametrize("folder", ["base", "sym", "proc", "ring", "blob", "lang", "gen", "pad", "trace", "session", "api", "cmd"])
def test_cpu_outside_arch(tree, folder, line):
    (tree / "src" / folder / "more.c").write_text(line + "\n")
    r = layers(tree)
    assert r.returncode == 1
    assert f"src/{folder}/more.c:1:" in r.stdout


@pytest.mark.parametrize("folder", ["arch", "arch/x86", "blob/x86"])
def test_cpu_in_its_folder(tree, folder):
    (tree / "src" / folder / "more.h").write_text("/* rax */\n")
    assert layers(tree).returncode == 0


def test_no_exceptions(tree):
    """No folder has a number of lines that it may have."""
    assert "known=" not in (tree / "tools" / "layers.sh").read_text()


def test_include_that_points_down(tree):
    (tree / "src" / "gen" / "more.c").write_text('#include "session/session.h"\n')
    r = layers(tree)
    assert r.returncode == 1 and "session/session.h" in r.stdout
