# SPDX-License-Identifier: MIT
"""Installing and removing: what goes where, that it works there, and that all of it goes away again; and a tree that was copied."""
import os
import shutil
import subprocess

from targets import LIMIT, ROOT

COPIED = ["Makefile", "meson.build", "meson_options.txt", "tools"]


def make(folder, *args):
    return subprocess.run(["make", *args], cwd=folder, capture_output=True, text=True, timeout=LIMIT)


def files(folder):
    return {os.path.relpath(os.path.join(d, x), folder) for d, _, names in os.walk(folder) for x in names}


def test_install_and_uninstall(tmp_path):
    subprocess.run(["meson", "install", "-C", str(ROOT / "build"), "--no-rebuild", "--destdir", str(tmp_path)], check=True, capture_output=True,
                   timeout=LIMIT)
    there = {os.path.basename(x) for x in files(tmp_path)}
    assert {"jab", "jab.h", "leaks.bt", "jab-tools.1", "_jab", "jab.fish", "libjab.so", "libjab.a"} <= there
    program = next(x for x in files(tmp_path) if x.endswith("bin/jab"))
    r = subprocess.run([tmp_path / program, "opens", "--help"], capture_output=True, text=True, timeout=LIMIT)
    assert r.returncode == 0 and f"The script: {tmp_path}" in r.stdout, r
    before = files(tmp_path)
    (tmp_path / os.path.dirname(next(x for x in before if x.endswith("leaks.bt"))) / "mine.bt").write_text("")
    subprocess.run([ROOT / "tools" / "uninstall", str(ROOT / "build"), str(tmp_path)], check=True, capture_output=True, timeout=LIMIT)
    assert [os.path.basename(x) for x in files(tmp_path)] == ["mine.bt"]        # of somebody else


def test_install_installs_no_packages():
    said = make(ROOT, "-n", "install").stdout
    assert "meson install" in said and "packages" not in said, said
    assert "tools/packages" in open(ROOT / "Makefile").read()


def test_copied_tree(tmp_path):
    """With its build folder: that of another tree is no use, and is made anew; so are stamps of another machine."""
    for name in COPIED:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    (tmp_path / "build/meson-info").mkdir(parents=True)
    (tmp_path / "build/build.ninja").write_text("")
    info = tmp_path / "build/meson-info/meson-info.json"
    info.write_text('{"directories": {\n "source": "%s" } }' % tmp_path)
    (tmp_path / "tools/.packages").write_text("another machine\n")
    said = make(tmp_path, "-n").stdout
    assert "meson setup" not in said and info.exists() and not (tmp_path / "tools/.packages").exists()
    info.write_text('{"directories": {\n "source": "/another/tree" } }')
    said = make(tmp_path, "-n").stdout
    assert "meson setup" in said and "tools/packages build" in said and not (tmp_path / "build").exists()
