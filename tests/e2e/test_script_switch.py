# SPDX-License-Identifier: MIT
"""Clauses that are switched on and off, also before there is anything to switch; parameters in probes; scripts without
probes beside a command."""
import jab
import scripts
import targets
from scripts import scalar, told


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
    """Registers are, whatever else a probe records; of the others it is said that they are not."""
    prog = targets.build("script")
    def fields(*args):
        r = jab.run("trace", "-t", "reg:rdi", "-t", "reg:rsp", "--json", *args, "--", prog, "tell", "30")
        assert r.status == 0 and r.summary["probes"][0]["probe"] == args[0] and r.summary["probes"][0]["hits"] == len(r.rows) > 0, r
        return [x["fields"] for x in r.rows]

    assert all(x["n"] > 3 and int(x["rdi"], 16) == x["n"] and list(x) == ["n", "rdi", "rsp"] for x in fields("exe:take n if n > 3"))
    assert all(int(x["rsi"], 16) == int(x["s"], 16) for x in fields("exe:take rsi s:ptr if (rdi & 1) == (n & 1)"))
    assert all(list(x)[-4:] == ["retval", "duration", "rdi", "rsp"] and x["n"] > 3 for x in fields("call:exe:take if n > 3"))
    r = jab.run("trace", "-t", "backtrace", "exe:take n if n > 3", "--", prog, "tell", "3")
    assert r.status == 1 and "of -t only regs and reg:NAME go together with conditions" in r.stderr, r
    for field in ("backtrace", "ustack(3)", "$stack"):
        r = jab.run("trace", f"exe:take {field} if n > 3", "--", prog, "tell", "3")
        assert r.status == 1 and "a stack can't be recorded beside conditions" in r.stderr, r


def test_one_count_for_all_sites_of_a_place():
    r = scripts.run("""u:exe:tail, u:exe:tail_end { @n++; if (limit(5)) { @five++ } if (every(4)) { @fourth++ }
        unroll(3) { if (limit(7)) { @seven++ } } }
        u:exe:tail* /every(20)/ { @once++ }""", targets.build("script"), "tail", 10)
    assert r.status == 0, r
    assert [scalar(r.output, x) for x in ("n", "five", "fourth", "seven", "once")] == ["20", "5", "5", "7", "1"], r


def test_one_count_for_all_functions_of_a_pattern():
    r = jab.run("trace", "exe:tail* if every(5)", "--", targets.build("script"), "tail", "10")
    assert r.status == 0 and len([x for x in r.output.splitlines() if "tail" in x]) == 4, r
