# SPDX-License-Identifier: MIT
"""Scripts as a command: files, #!, -o, no target, errors with line and caret on stderr and status 1."""
import stat
import subprocess

import pytest

import jab
import scripts
from scripts import scalar
from targets import LIMIT


def test_file(built, tmp_path):
    f = tmp_path / "one.bt"
    f.write_text("// a comment\nu:exe:tail /arg0 < $1/ { @ = count(); }\n")
    r = jab.run(f, "-o", tmp_path / "out", 7, "--", built("script"), "tail", 10)
    assert r.status == 0 and (tmp_path / "out").read_text() == "\n\n@: 7\n", r


def test_executable_script(built, tmp_path):
    f = tmp_path / "tool.bt"
    f.write_text(f"#!{jab.JAB}\nBEGIN {{ printf(\"%s %d\\n\", str($1), $2); exit() }}\n")
    f.chmod(f.stat().st_mode | stat.S_IXUSR)
    p = subprocess.run([f, "hello", "42"], capture_output=True, text=True, timeout=LIMIT)
    assert (p.returncode, p.stdout, p.stderr) == (0, "hello 42\n\n\n", "Attached 1 probe\n"), p


def test_from_stdin():
    p = subprocess.run([jab.JAB, "-"], input='BEGIN { printf("in\\n"); exit() }', capture_output=True, text=True, timeout=LIMIT)
    assert (p.returncode, p.stdout) == (0, "in\n\n\n"), p


def test_no_target_is_needed():
    r = jab.run("-e", 'BEGIN { printf("a\\n"); @x = 3 } interval:ms:10 { @x++; if (@x == 6) { exit(5) } } END { printf("z\\n") }')
    assert r.status == 5 and r.output.split() == ["a", "z", "@x:", "6"], r
    r = jab.run("-e", "BEGIN { @n = 1 }", "-d", "0.2")
    assert r.status == 0 and scalar(r.output, "n") == "1", r


def test_closed_pipe(built):
    """As head does it: the end, and one word about it."""
    p = subprocess.run(f"""'{jab.JAB}' -e 'u:exe:take {{ printf("%d\\n", n) }}' -- {built("script")} threads 2 500000 | head -2""",
                       shell=True, capture_output=True, text=True, timeout=LIMIT)
    assert len(p.stdout.splitlines()) == 2, p
    assert "unknown" not in p.stderr, p


def test_a_command_that_prints_is_not_mixed_in(built, tmp_path):
    r = jab.run("-e", 'u:exe:tail { printf("%d\\n", arg0) }', "-o", tmp_path / "o", "-c", f"{built('script')} tail 3")
    assert r.status == 0 and r.output == "calls 3\nsum 30\n", r
    assert (tmp_path / "o").read_text() == "0\n1\n2\n\n\n"


@pytest.mark.parametrize("text, words", [
    ("u:exe:tail { @x = }", ["1:19", "~"]),
    ("u:exe:tail { $a = 1 + \"x\" }", ["~"]),
    ("u:exe:tail { nothing(1) }", ["nothing", "~"]),
    ("u:exe:tail { @x = count(); @x = 5 }", ["@x", "~"]),
    ("u:exe:tail { @x[1] = 1; @x[\"a\"] = 1 }", ["~"]),
    ("u:exe:take { @ = it->nosuch }", ["nosuch", "~"]),
    ("u:exe:take { kstack() }", ["kstack", "~"]),
    ("kprobe:vfs_read { @ = count() }", ["kprobe"]),
    ("u:exe:tail { printf(\"%d %d\\n\", 1) }", ["~"]),
    ("u:exe:tail { @ = $x }", ["$x", "~"]),
    ("", []),
])
def test_errors(built, text, words):
    r = scripts.run(text, built("script"), "tail", 3)
    assert r.status == 1 and r.output == "" and r.stderr, r
    for word in words:
        assert word in r.stderr, r.stderr
    assert "calls" not in r.stdout, r


@pytest.mark.parametrize("probe", ["u:exe:nosuch", "u:nolib:x", "u:exe:*nosuch*", "u:/no/such/file:x", "call:exe:nosuch"])
def test_unknown_probes(built, probe):
    r = scripts.run(f"{probe} {{ @ = count() }}", built("script"), "tail", 3, options=["--no-follow"])
    assert r.status == 1 and probe.split(":")[2] in r.stderr, r


def test_functions_of_stripped_programs(built):
    r = scripts.run("u:exe:no_such_thing { @ = count() }", built("calls_stripped"), 10, 1)
    assert r.status == 1 and "calls_stripped is stripped: " in r.stderr and "of its functions have no name" in r.stderr, r
    r = scripts.run("u:exe:no_such_thing { @ = count() }", built("calls"), 10, 1)
    assert r.status == 1 and "stripped" not in r.stderr, r


def test_wrong_usage(tmp_path):
    assert jab.run("-e").status == 2
    assert jab.run("-e", "u:exe:x { @ = count() }").status == 2
    r = jab.run(tmp_path / "no.bt")
    assert r.status in (1, 2) and "no.bt" in r.stderr
    r = jab.run("-e", "BEGIN { exit() }", "-o", "/no/such/place")
    assert r.status == 1 and "/no/such/place" in r.stderr


def test_long_names_of_functions(built):
    r = scripts.run("u:exe:long_name_* { @[usym(reg(\"ip\"))] = count(); printf(\"%s\\n\", ustack(1)); print(func); }",
                    built("longname"))
    name = r.output.splitlines()[-2]
    assert r.status == 0 and name.startswith("long_name_") and len(name) > 300, r
    assert f"{name}+0\n" in r.output and f"@[{name}]: 1\n" in r.output, r


@pytest.mark.parametrize("text, words", [
    ("begin { $x = 1 / (ncpus - ncpus); exit() }", "1 divisions by zero"),
    ("begin { while (1) { @n = count() } exit() }", "1 loops were ended"),
    ("begin { for ($i : 0..4100) { @[$i] = 1 } exit() } end { clear(@) }", "4 values were left out because a map was full"),
])
def test_what_goes_wrong_in_the_tracer_is_told(text, words):
    r = scripts.run(text)
    assert r.status == 0 and f"jab: begin, end or interval: {words}" in r.stderr, r


def test_very_many_keys(built):
    """Aggregations and values of each process, and what processes that are gone have left: none is searched key by key."""
    script = ("let @a = hash(300000); let @v = hash(300000); let @own = hash(300000);"
              "u:exe:work { @a[arg0] = count(); @v[arg0] = arg0; }"
              "end { printf(\"%d %d\\n\", len(@a), len(@v)); $sum = 0; for ($kv : @v) { @own[$kv.0] = $kv.1; $sum += $kv.1; }"
              "printf(\"%ld %d %d\\n\", $sum, len(@own), @own[99999]); clear(@a); clear(@v); clear(@own);"
              "printf(\"%d %d %d\\n\", len(@a), len(@v), len(@own)); }")
    r = scripts.run(script, built("calls"), 100000, 1)
    assert r.status == 0 and r.output == f"100000 100000\n{99999 * 50000} 100000 99999\n0 0 0\n", r


def test_lines_with_conditions(built, tmp_path):
    """The same programs behind a probe of jab trace."""
    r = jab.run("trace", "-o", tmp_path / "o", "exe:take n s:string w=it->weight id=it->next->id if n > 100 && it->flag",
                "--", built("script"), "tell", 200)
    assert r.status == 0, r
    lines = (tmp_path / "o").read_text().splitlines()
    assert lines and all(int(x.split(" n=")[1].split()[0]) > 100 for x in lines), lines[:3]
    r2 = scripts.run("u:exe:take /n > 100 && it->flag/ { @ = count() }", built("script"), "tell", 200)
    assert scalar(r2.output, "") == str(len(lines))


def test_options_of_bpftrace(built):
    """Those that have nothing to do here are taken."""
    r = jab.run("-q", "-B", "line", "-I", "/usr/include", "--include", "stdio.h", "--unsafe", "-e", "u:exe:tail { @ = count() }", "-c",
                f"{built('script')} tail 3")
    assert r.status == 0 and "@: 3" in r.output, r


def test_cpp_in_front_of_a_name(built):
    r = scripts.run(f'uprobe:{built("script")}:cpp:"tail" {{ @ = count() }}', built("script"), "tail", 3)
    assert r.status == 0 and scalar(r.output, "") == "3", r


def test_addresses_of_symbols(built):
    """By the symbol table; where there is debug info, a name does the same."""
    r = scripts.run("""u:exe:take { @same = min(*uaddr("rounds") == rounds); @fun = min(uaddr("take") == reg("ip")); @n = max(*uaddr("rounds"));
        @real = max(rounds); @size = max(sizeof(*uaddr("rounds"))) }""", built("script"), "tell", 20)
    assert r.status == 0 and [scalar(r.output, x) for x in ("same", "fun", "size")] == ["1", "1", "4"], r
    assert scalar(r.output, "n") == scalar(r.output, "real"), r
    r = scripts.run('u:exe:tail { print(uaddr("no_such_symbol")) }', built("script"), "tail", 1)
    assert r.status == 1 and "no symbol 'no_such_symbol'" in r.stderr, r
    r = scripts.run('BEGIN { print(uaddr("rounds")) }')
    assert r.status == 1 and "there is none in begin" in r.stderr, r


def test_packed_bit_fields(built):
    """Nothing behind them is read, wherever they are: in memory that ends there, in a copy. They may begin in one byte and end in the ninth."""
    fields = "->a, {0}->b, {0}->c".format
    r = scripts.run(f"""u:exe:look {{ printf("%ld %ld %ld\\n", t{fields("t")}); printf("%ld %ld %ld\\n", f{fields("f")}); printf("%ld %lu %ld\\n", n{fields("n")});
        @t = *t; @f = *f; @n = *n; printf("%ld %ld %ld\\n", @t.a, @t.b, @t.c); printf("%ld %ld %ld\\n", @f.a, @f.b, @f.c);
        printf("%ld %lu %ld\\n", @n.a, @n.b, @n.c); }}""", built("packed"))
    told = r.stdout.splitlines()
    assert r.status == 0 and not r.stderr and r.output.splitlines()[:6] == told + told, r
    maps = [f"@{name}: {{ .a = {a}, .b = {b}, .c = {c} }}" for name, (a, b, c) in zip("tfn", (x.split() for x in told))]
    assert sorted(x for x in r.output.splitlines()[6:] if x) == sorted(maps), r
