# SPDX-License-Identifier: MIT
"""libjab as others use it: installed, found by pkg-config, linked both ways, nothing but jab_ visible."""
import os
import subprocess

import pytest

from targets import LIMIT, ROOT

PROGRAM = r"""
#include <jab/jab.h>
#include <stdio.h>
#include <string.h>

static int each(void *arg, const struct jab_count *c)
{
	if (!strcmp(c->function, "work"))
		*(unsigned long *)arg = c->hits;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long hits = 0;
	struct jab_report report;
	struct jab *j;
	int status;

	jab_new(&j);
	if (jab_spawn(j, argv + 1) || jab_add_probe(j, "exe:work") || jab_resolve(j) || jab_plan(j) || jab_insert(j)) {
		fprintf(stderr, "%s\n", jab_error());
		return 1;
	}
	while (jab_child_ended(j, &status) == 0)
		;
	jab_remove(j, &report);
	jab_each_count(j, each, &hits);
	printf("hits %lu\n", hits);
	jab_free(j);
	return 0;
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    d = tmp_path_factory.mktemp("install")
    subprocess.run(["meson", "install", "-C", ROOT / "build", "--no-rebuild", "--destdir", d], check=True,
                   capture_output=True, timeout=LIMIT)
    return d


def pkg_config(installed, *what):
    path = next(installed.rglob("jab.pc")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(path), "PKG_CONFIG_SYSROOT_DIR": str(installed)}
    return subprocess.run(["pkg-config", *what, "jab"], check=True, capture_output=True, text=True, env=env,
                          timeout=LIMIT).stdout.split()


@pytest.mark.parametrize("how", ["shared", "static"])
def test_a_program_that_uses_it(installed, built, tmp_path, how):
    (tmp_path / "use.c").write_text(PROGRAM)
    libs = pkg_config(installed, "--libs", *(["--static"] if how == "static" else []))
    if how == "static":
        archive = next(installed.rglob("libjab.a"))
        libs = [str(archive) if x == "-ljab" else x for x in libs]
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", tmp_path / "use", tmp_path / "use.c",
                    *pkg_config(installed, "--cflags"), *libs], check=True, timeout=LIMIT)
    lib = next(installed.rglob("libjab.so")).parent
    p = subprocess.run([tmp_path / "use", built("calls"), "1000", "2"], capture_output=True, text=True, timeout=LIMIT,
                       env={**os.environ, "LD_LIBRARY_PATH": str(lib)})
    assert p.returncode == 0, p.stderr
    assert "hits 1000" in p.stdout


def test_only_its_own_names_are_visible(installed):
    lib = next(installed.rglob("libjab.so"))
    out = subprocess.run(["nm", "-D", "--defined-only", lib], check=True, capture_output=True, text=True).stdout
    names = [x.split()[-1].split("@")[0] for x in out.splitlines()]
    assert names and all(n.startswith(("jab_", "JAB_")) for n in names), names
