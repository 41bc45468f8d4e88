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


def test_contexts_are_not_lost_silently():
    r = jab.run("trace", "-t", "reg:rax", "exe:take n if n > 3", "--", targets.build("script"), "tell", "3")
    assert r.status == 1 and "-t does not go together with conditions" in r.stderr, r
