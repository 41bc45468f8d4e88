# SPDX-License-Identifier: MIT
"""Typed values of C, C++, Rust and Go programs, of python3 and of libc: jab and gdb run the same
deterministic program and must show the same at the same hit of the same place."""
import pytest

import gdb
import jab
import targets


def fields(path, probe, *args):
    """[{field: value}] of each hit."""
    r = jab.run("trace", "--json", probe, "--", path, *args)
    assert r.status == 0, r
    return [o["fields"] for o in r.objects if "fields" in o]


# Return values ---------------------------------------------------------------------------------------

def test_tail_call(built):
    """At a jump to another function the return value is not there yet, whoever asks for it."""
    path = built("typed_O2")
    lost = {"unknown": "tail call"}
    wanted = [100, lost, 102, lost]
    for probe in ("exe:tail_call%return", "exe:tail_call%return retval:long", "exe:tail_call%return retval if 1",
                  "call:exe:tail_call n retval"):
        assert [f["retval"] for f in fields(path, probe)] == wanted, probe
    assert [f["x"] for f in fields(path, "exe:tail_call%return x=retval*2")] == [200, lost, 204, lost]
    assert [f["retval"] for f in fields(path, "exe:tail_call%return retval:string")][1] == lost
    assert len(fields(path, "exe:tail_call%return retval if retval > 0")) == 2
    assert [f["retval"] for f in fields(path, "exe:tail_end%return")] == [10, 20]
    r = jab.run("-e", 'ur:exe:tail_call { printf("%d\\n", retval); @[retval] = count(); @sum = sum(retval) }', "-c", path)
    assert "100\n<tail call>\n102\n<tail call>\n" in r.output and "@sum: 202" in r.output, r
    assert "@[100]: 1" in r.output and r.output.count("@[") == 2
    assert "4 times a condition, key or value could not be read" in r.stderr


# Against gdb -----------------------------------------------------------------------------------------

ITEM = """id flag wide left yes far name text:string next in[1].a in[2].u.word in[2].u.bytes[1] in[0].u.real grid[1][2] x y mood big
          d f on sc uc s us cv call any u64 i64""".split()


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_c(built, tmp_path, level):
    path, source = built(f"typed_{level}"), targets.SRC / "typed.c"
    inside = ["n", "it->id", "walk->id", "count", "here"] if level == "O0" else ["count", "walk->id"]
    places = [
        gdb.Place("exe:step", "step", ["n", "p.a", "p.b", "t.n", "t.d", "l.v[0]", "l.v[4]", "c", "u", "m", "f", "d", "s:string",
                                       "seventh", "eighth", "exported", "hidden", "names[1]:string", "items[0].id"]),
        gdb.Place("exe:step", "step", [f"it->{m}" for m in ITEM] + ["it->next->next->id"][:0]),
        gdb.Place("exe:step", "step", ["sizeof(struct item)", "((struct item *)it)->id", "*(unsigned char *)&it->id",
                                       "(signed char)it->uc", "it->in[n & 1].a", "(&it->in[1])->u.word", "n * 3 + it->s",
                                       "it->mood == BUSY", "ANGRY", "sizeof(*it)", "(long)it->f", "&it->in[2]", "*it->name",
                                       "(enum mood)5", "it->grid[0][2] / 3", "it->u64 >> 3", "it->i64 >> 3", "it->sc < it->uc"]),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "walk"), inside),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "inner"), ["n", "it->id"]),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "scaled"), ["result", "it->id", "base"]),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "end"), ["count", "hidden"]),
    ]
    gdb.compare([path], places, tmp_path)


CLASS = """id weight label:string colour plain bits.a bits.b bits.c bits.d bits.e both.word both.bytes[2] both.real grid[1][2] name
           view next->id cv f d yes letter octet wide rune point.x point.y callback mask""".split()


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_cxx(built, tmp_path, level):
    path, source = built(f"typed_cc_{level}"), targets.SRC / "typed.cc"
    places = [
        gdb.Place("exe:step", "step", ["n", "p->id", "box.value", "box.next", "s", "v", "c", "plain", "f", "g", "shop::Base::made",
                                       "shop::counter", "table[3]", "words[1]:string", "sizeof(shop::Derived)"]),
        gdb.Place("exe:step", "step", [f"d.{m}" for m in CLASS]),
        gdb.Place("exe:step", "step", ["((shop::Base *)p)->id", "((shop::Other *)p)->weight", "((shop::Other *)d.next)->weight",
                                       "d.colour == shop::Colour::Green", ("(enum shop::Plain)5", "(shop::Plain)5"), "shop::Base::limit",
                                       "((char)n) + 1", "sizeof(shop::Bits)", "d.numbers._M_impl._M_start[0]",
                                       "d.numbers._M_impl._M_finish - d.numbers._M_impl._M_start"]),
        gdb.Place("exe:shop::Derived::method", "shop::Derived::method", ["k", "this->id", "peer.id", "this->name"]),
        gdb.Place("exe:shop::Derived::fixed", "shop::Derived::fixed", ["k", "o->weight", "o->label:string"]),
        gdb.Place.line(path, "typed.cc", gdb.line_of(source, "walk"), ["size", "walk->id"]),
        gdb.Place.line(path, "typed.cc", gdb.line_of(source, "mixed"), ["local", "who->id"]),
    ]
    # at the first instruction of an inlined function gdb shows its caller
    gdb.compare([path], places, tmp_path, most_unknown=8)
