# SPDX-License-Identifier: MIT
"""Clauses that are switched on and off, also before there is anything to switch; parameters in probes; scripts without
probes beside a command."""
import jab
import scripts
import targets
from scripts import keyed, scalar, told


def test_switched_off_before_it_is_there():
    r = scripts.run("""BEGIN { disable("late"); }
        late=uprobe:exe:take { @late = count(); }
        uprobe:exe:take { @all++; if (@all == 100) { enable("late"); } }""", targets.build("script"), "tell", 300)
    n = int(told(r.stdout)["count"])
    assert r.status == 0 and scalar(r.output, "all") == str(n), r
    assert scalar(r.output, "late") in (str(n - 100), str(n - 99))      # which of the two comes first at a hit is open


def test_switched_off_for_good():
    r = scripts.run("""a=uprobe:exe:take { @a = count(); }
        uprobe:exe:take { @n++; if (@n == 50) { disable("a"); } }""", targets.build("script"), "tell", 300)
    assert r.status == 0 and scalar(r.output, "a") in ("49", "50"), r


def test_calls_that_are_open_while_their_clause_is_switched():
    """Switched off in the first round, deep inside, and on in the second: no exit of that one belongs to an entry of the first."""
    text = """a=call:exe:sink_in { @[arg0] = count(); }
        uprobe:exe:sink_in { @n++; if (@n == 4) { disable("a"); } if (@n == 8) { enable("a"); } }"""
    r = scripts.run(text, targets.build("script"), "deep", 3, 4)
    assert r.status == 0 and "returns of calls" not in r.stderr, r
    r = scripts.run(text, targets.build("script"), "deep", 3, 4, options=["-v"])
    assert r.status == 0 and scalar(r.output, "n") == "12", r
    assert keyed(r.output, "") in ({str(k): "1" for k in range(1, 5)}, {"1": "2", "2": "1", "3": "1", "4": "1"}), r
    assert "returns of calls that began before the probe was there" in r.stderr, r


def test_a_parameter_in_a_probe():
    prog = targets.build("script")
    r = scripts.run("uprobe:$1:take { @ = count(); }", prog, "tell", 30, params=(prog,))
    assert r.status == 0 and scalar(r.output, "") == told(r.stdout)["count"], r


def test_no_probes_and_a_command():
    r = scripts.run('BEGIN { printf("one\\n"); } END { printf("two\\n"); }', targets.build("script"), "tell", 30)
    assert r.status == 0 and r.output == "one\ntwo\n" and told(r.stdout)["count"], r


def test_a_condition_that_can_not_be_read_is_said():
    prog = targets.build("script")
    r = jab.run("trace", "exe:take n if *(int *)8 == 3", "--", prog, "tell", "30")
    assert r.status == 0 and "times a condition, key or value could not be read" in r.stderr, r


def test_contexts_beside_conditions():
    """Registers, whatever else a probe records; test_lines.py has the others."""
    prog = targets.build("script")
    def fields(*args):
        r = jab.run("trace", "-t", "reg:rdi", "-t", "reg:rsp", "--json", *args, "--", prog, "tell", "30")
        assert r.status == 0 and r.summary["probes"][0]["probe"] == args[0] and r.summary["probes"][0]["hits"] == len(r.rows) > 0, r
        return [x["fields"] for x in r.rows]

    assert all(x["n"] > 3 and x["rdi"] == x["n"] and list(x) == ["n", "rdi", "rsp"] for x in fields("exe:take n if n > 3"))
    assert all(x["rsi"] == int(x["s"], 16) for x in fields("exe:take rsi s:ptr if (rdi & 1) == (n & 1)"))
    assert all(list(x)[-4:] == ["retval", "duration", "rdi", "rsp"] and x["n"] > 3 for x in fields("call:exe:take if n > 3"))


def deep(rows, name, key):
    """The stacks of one probe's events where the innermost call is hit."""
    return [[a["name"] for a in x["fields"]["backtrace"]] for x in rows if x["probe"] == name and int(x["fields"][key]) == 1]


def test_backtraces_beside_conditions(tmp_path):
    """The same ones as those of a probe without a condition, which are walked in another way; live, in a trace, and in one of the newest."""
    prog = targets.build("script")
    probes = ["a=exe:sink_in depth=arg0:long", "b=exe:sink_in depth if depth == 1 && rounds == rounds", "c=exe:sink_in x=depth*1 w=\"word\""]
    for how in (["trace"], ["record", "-o", tmp_path / "t"], ["record", "--overwrite", "-o", tmp_path / "o"]):
        r = jab.run(*how, "-t", "backtrace", *(["--json"] if how == ["trace"] else []), *probes, "--", prog, "deep", "5", "4")
        rows = r.rows if how == ["trace"] else jab.run("view", "--json", how[-1]).rows
        assert r.status == 0 and len([x for x in rows if x["probe"] == "b"]) == 5, r
        plain = deep(rows, "a", "depth")
        assert len(plain) == 5 and all(len([f for f in s if "sink_in" in f]) == 4 and len(s) > 5 for s in plain), plain
        assert deep(rows, "b", "depth") == plain and deep(rows, "c", "x") == plain, rows
        assert {x["fields"]["w"] for x in rows if x["probe"] == "c"} == {"word"}, rows


def test_backtraces_of_calls_and_their_limit():
    r = jab.run("trace", "--json", "-t", "backtrace:2", "call:exe:sink_in if depth == 1", "--", targets.build("script"), "deep", "3", "4")
    assert r.status == 0 and len(r.rows) == 3, r
    assert all(["sink_in" in f["name"] for f in x["fields"]["backtrace"]] == [True, True] for x in r.rows), r


def test_a_script_records_stacks(tmp_path):
    r = jab.run("--trace", tmp_path / "t", "-e", 'u:exe:sink_in { record(depth, s=ustack, t="end") }', "--", targets.build("script"), "deep", "2", "3")
    rows = jab.run("view", "--json", tmp_path / "t").rows
    assert r.status == 0 and [int(x["fields"]["depth"]) for x in rows] == [3, 2, 1, 3, 2, 1], r
    assert [len([f for f in x["fields"]["s"] if "sink_in" in f["name"]]) for x in rows] == [1, 2, 3, 1, 2, 3], rows
    assert all(x["fields"]["t"] == "end" for x in rows), rows


def test_one_count_for_all_sites_of_a_place():
    r = scripts.run("""u:exe:tail, u:exe:tail_end { @n++; if (limit(5)) { @five++ } if (every(4)) { @fourth++ }
        unroll(3) { if (limit(7)) { @seven++ } } }
        u:exe:tail* /every(20)/ { @once++ }""", targets.build("script"), "tail", 10)
    assert r.status == 0, r
    assert [scalar(r.output, x) for x in ("n", "five", "fourth", "seven", "once")] == ["20", "5", "5", "7", "1"], r


def test_one_count_for_all_functions_of_a_pattern():
    r = jab.run("trace", "exe:tail* if every(5)", "--", targets.build("script"), "tail", "10")
    assert r.status == 0 and len([x for x in r.output.splitlines() if "tail" in x]) == 4, r
