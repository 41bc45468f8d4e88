# SPDX-License-Identifier: MIT
"""Scripts on a target that computes in C what they must find out: aggregations, keys, conditions, printf,
members, floats."""
import re

import pytest

import scripts
import targets
from scripts import histogram, keyed, scalar, told

N = 400


@pytest.fixture(scope="module")
def tell():
    """tell(script) -> (what jab printed, what the program says)"""
    prog = targets.build("script")

    def run(text, n=N, **more):
        r = scripts.run(text, prog, "tell", n, **more)
        assert r.status == 0 and not r.stderr, r
        return r.output, told(r.stdout)
    return run


def test_one_number_in_every_way(tell):
    got, c = tell("""uprobe:exe:take {
        @count = count(); @sum = sum((int32)arg0); @avg = avg((int32)arg0); @min = min(args.n); @max = max(n);
        @stats = stats((int32)arg0); @hist = hist(n); @lhist = lhist((int32)arg0, 0, 100, 10);
        @plus += n; @times++; @less-- }""")
    for name in ("count", "sum", "avg", "min", "max"):
        assert scalar(got, name) == c[name], (name, got)
    assert scalar(got, "stats") == f"{{ .count = {c['count']}, .average = {c['avg']}, .total = {c['sum']} }}"
    assert (scalar(got, "plus"), scalar(got, "times"), scalar(got, "less")) == (c["sum"], c["count"], "-" + c["count"])
    assert {-1 if k is None else k: v for k, v in histogram(got, "hist").items()} == c["hist"]
    assert {-10 if k is None else k: v for k, v in histogram(got, "lhist").items()} == c["lhist"]


def test_keys(tell):
    got, c = tell("""u:exe:take {
        @word[str(arg1)] = count(); @word_sum[str(s)] = sum(n); @item[it->id] = count(); @item_sum[args.it->id] += n;
        @pair[it->id, str(s)] = count(); @name[str(it->name)] = count(); @array[it->name] = count();
        @tuple[(it->id, str(s))] = sum(n); @who[pid, tid, comm] = count(); @f[func] = count(); @p[probe] = count() }""")
    assert keyed(got, "word") == {k: str(v[0]) for k, v in c["word"].items()}
    assert keyed(got, "word_sum") == {k: str(v[1]) for k, v in c["word"].items()}
    assert keyed(got, "item") == {k: str(v[0]) for k, v in c["item"].items()}
    assert keyed(got, "item_sum") == {k: str(v[1]) for k, v in c["item"].items()}
    assert keyed(got, "pair") == {k.replace(",", ", ", 1): str(v[0]) for k, v in c["pair"].items()}
    assert keyed(got, "tuple") == {k.replace(",", ", ", 1): str(v[1]) for k, v in c["pair"].items()}
    names = {f"item-{(int(k) + 20) // 11}": str(v[0]) for k, v in c["item"].items()}
    assert keyed(got, "name") == names and keyed(got, "array") == names
    (who, n), = keyed(got, "who").items()
    assert n == c["count"] and re.fullmatch(r"(\d+), \1, script", who), who
    assert keyed(got, "f") == {"take": c["count"]}
    assert keyed(got, "p") == {"uprobe:exe:take": c["count"]}


def test_aggregations_by_key(tell):
    got, c = tell("""u:exe:take { @a[str(s)] = avg(n); @s[str(s)] = stats(n); @lo[it->id] = min(n); @hi[it->id] = max(n);
        @h[it->id] = hist(n); @l[it->id] = lhist(n, 0, 1000, 1000) }""")
    for word, (n, total) in c["word"].items():
        assert keyed(got, "s")[word] == f"{{ .count = {n}, .average = {int(total / n)}, .total = {total} }}"
        assert keyed(got, "a")[word] == str(int(total / n))
    assert set(keyed(got, "lo")) == set(keyed(got, "hi")) == set(c["item"])
    for item, (n, _) in c["item"].items():
        assert sum(histogram(got, f"h[{item}]").values()) == n
        assert sum(histogram(got, f"l[{item}]").values()) == n


def test_predicates_and_branches(tell):
    got, c = tell("""u:exe:take /n > 100/ { @pos = count() }
        u:exe:take /str(s) == "beta"/ { @beta = count() }
        u:exe:take /strncmp(str(s), "a", 1) == 0/ { @starts_a = count() }
        u:exe:take /it->mood == BUSY/ { @busy = count() }
        u:exe:take /n > 100 && str(s) != "beta" || !it->flag/ { @mixed++ }
        u:exe:take { if (n < 0) { @sign["neg"]++ } else if (n == 0) { @sign["zero"]++ } else { @sign["pos"]++ }
            @ternary = sum(n > 100 ? 1 : 0); $k = 3; while ($k > 0) { @loop++; $k-- } unroll(4) { @un++ } }
        uretprobe:exe:take { @ret_sum = sum(retval); @ret_max = max(retval) }""")
    for name in ("pos", "starts_a", "busy", "ret_sum", "ret_max"):
        assert scalar(got, name) == c[name], name
    assert scalar(got, "beta") == str(c["word"]["beta"][0])
    assert scalar(got, "ternary") == c["pos"]
    sign = {k: int(v) for k, v in keyed(got, "sign").items()}
    assert sign["neg"] == c["hist"][-1] and sum(sign.values()) == N
    assert scalar(got, "loop") == str(3 * N) and scalar(got, "un") == str(4 * N)


def test_members(tell):
    got, c = tell("""u:exe:take {
        @chain = sum(it->next->next->next->id); @members = sum(it->small + it->in.a % 1000 + it->in.b % 7);
        @bits = sum((int64)it->flag * 2 + it->left); @wide = sum(it->wide);
        @array = sum(it->v[0] * 3 + it->v[3] - it->next->v[2]); @unions = sum(it->both.bytes[2]);
        @cast = sum(((struct item *)arg2)->v[0] * 0 + (*(struct item *)arg2).next->next->next->id);
        @size = max(sizeof(struct item)); @rounds = rounds }""")
    for name in ("chain", "members", "bits", "wide", "array", "unions", "rounds"):
        assert scalar(got, name) == c[name], name
    assert scalar(got, "cast") == c["chain"]


def test_floats(tell):
    got, c = tell("""u:exe:take { @d += d; @weights += it->weight; @ratios += it->ratio }
        u:exe:take { @sum = sum(d); @n = count() } u:exe:take /d > 12.5/ { @pos = count() }""")
    for name in ("d", "weights", "ratios"):
        assert scalar(got, name) == f"{float(c[name]):g}", name
    assert scalar(got, "sum") == f"{float(c['d']):g}"
    assert scalar(got, "pos") == c["pos"]


FORMATS = r"""u:exe:show {
    printf("%hhd|%hhu|%hd|%hu|%d|%i|%u|%x|%X|%o|%ld|%lu|%lx|%lld|%llu|%llx|%p|[%8d]|[%-8d]|[%08d]|[%+d]|[% d]|[%#x]|",
           c, (uint8)c, (int16)h, h, i, i, u, u, u, u, l, l, l, l, l, l, s, i, i, i, i, i, u);
    printf("%s|[%12s]|[%-12s]|[%.3s]|%c|%%\n", str(s, 40), str(s, 40), str(s, 40), str(s, 40), 97 + @n); @n++ }
    END { clear(@n) }"""


def test_printf_of_every_conversion(built):
    r = scripts.run(FORMATS, built("script"), "format")
    assert r.status == 0 and not r.stderr, r
    assert r.output.splitlines() == r.stdout.splitlines()


def test_strings_and_bytes(built):
    r = scripts.run(r"""u:exe:show { printf("%s|%s|%s|%r|%d\n", str(s), str(s, 4), str(arg5, 100), buf(s, 3), strlen(str(s))) }
        """, built("script"), "format")
    assert r.status == 0 and not r.stderr, r
    for line, said in zip(r.output.splitlines(), r.stdout.splitlines()):
        word = said.split("|")[23]
        full, cut, more, raw, n = line.split("|")
        assert full == more == word and cut == word[:4] and n == str(len(word)), line
        if len(word) >= 3:
            assert raw == word[:3], line
    assert len(r.output.splitlines()) == 8


def test_print_while_it_runs(built):
    """print, clear and zero are orders to the tracer, which is a moment behind."""
    r = scripts.run("""u:exe:tail { @a[arg0] = count(); @b = sum(arg0); @v[arg0] = arg0; @n++;
        if (@n == 5) { print(@b); print((1, "two", arg0)); print(@v[3]); delete(@v[4]) }
        if (@n == 8) { printf("len %d\\n", len(@v)) }
        if (@n == 10) { clear(@a); zero(@b) } }""", built("script"), "tail", 10)
    assert r.status == 0 and not r.stderr, r
    lines = r.output.splitlines()
    assert re.match(r"@b: \d+$", lines[0]) and lines[1:4] == ["(1, two, 4)", "3", "len 7"], r
    assert "@a" not in r.output and scalar(r.output.split("len")[1], "b") == "0"
    assert keyed(r.output, "v") == {str(i): str(i) for i in range(10) if i != 4}


def test_time_goes_on_in_a_clause_of_the_tracer():
    r = scripts.run("""BEGIN { $ns = nsecs; $el = elapsed; $r = rand; for ($i : 0..1000) { $n = $i; }
        printf("%d %d %d\\n", nsecs > $ns, elapsed > $el, rand != $r || rand != $r); exit(); }""")
    assert r.status == 0 and r.output == "1 1 1\n", r


def test_begin_end_exit(built):
    r = scripts.run("""BEGIN { printf("first\\n"); @from = 5 } u:exe:tail /arg0 >= @from/ { @seen = count() }
        END { printf("last\\n"); @at_end = 1 }""", built("script"), "tail", 20)
    assert r.status == 0, r
    assert r.output.startswith("first\nlast\n")
    assert (scalar(r.output, "seen"), scalar(r.output, "from"), scalar(r.output, "at_end")) == ("15", "5", "1")


def test_exit_status(built):
    r = scripts.run('u:exe:tail /arg0 == 3/ { printf("now\\n"); exit(7) } END { printf("end\\n") }', built("script"),
                    "tail", 2000000)
    assert (r.status, r.output) == (7, "now\nend\n"), r
    r = scripts.run('u:exe:tail /arg0 == 3/ { exit() }', built("script"), "tail", 2000000)
    assert r.status == 0, r
    r = scripts.run("BEGIN { exit(3) } u:exe:tail { @++ }", built("script"), "tail", 10)
    assert r.status == 3, r


def test_status_of_the_command(built):
    r = scripts.run("u:exe:main { @ = count() }", built("script"), "nonsense")
    assert r.status == 2 and "@: 1" in r.output, r


def test_parameters(built):
    r = scripts.run('u:exe:tail /arg0 < $1/ { @[str($2)] = count(); @n = $#; @none = $9 }', built("script"), "tail", 10,
                    params=[4, "some text"])
    assert r.status == 0 and keyed(r.output, "") == {"some text": "4"}, r
    assert (scalar(r.output, "n"), scalar(r.output, "none")) == ("2", "0")


def line_of(text):
    """The number of the line in script.c that has this text."""
    lines = (targets.SRC / "script.c").read_text().splitlines()
    found, = [i + 1 for i, x in enumerate(lines) if text in x]
    return found


def test_source_lines(tell, built):
    got, c = tell(f"""@script.c:{line_of("return (long)n * 3 - it->id")} {{ @n = count(); @sum = sum(n); @w[str(s)] = count();
        @id[it->id] = count() }}""")
    assert (scalar(got, "n"), scalar(got, "sum")) == (c["count"], c["sum"])
    assert keyed(got, "w") == {k: str(v[0]) for k, v in c["word"].items()}
    assert keyed(got, "id") == {k: str(v[0]) for k, v in c["item"].items()}
    r = scripts.run(f"@script.c:{line_of('sum += tail(i);')} {{ @i = sum(i); @last = sum }}", built("script"), "tail", 10)
    assert r.status == 0 and scalar(r.output, "i") == "45" and scalar(r.output, "last") == str(sum(5 * i for i in range(1, 10))), r


def test_stacks(built):
    r = scripts.run("u:exe:sink_in { @[ustack(3)] = count(); @all[ustack] = count() }", built("script"), "deep", 5, 4)
    assert r.status == 0, r
    tops = re.findall(r"^@\[\n((?:    \S+\n)+)\]: (\d+)$", r.output, re.M)
    names = {tuple(re.sub(r"\+\d+$", "", x.strip()) for x in s.splitlines()): n for s, n in tops}
    assert names == {("sink_in", "deep", "command"): "5", ("sink_in", "sink_in", "deep"): "5", ("sink_in",) * 3: "10"}, r
    assert len(re.findall(r"^@all\[", r.output, re.M)) == 4, r
