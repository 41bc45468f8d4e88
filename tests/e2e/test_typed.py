# SPDX-License-Identifier: MIT
"""Typed values of C, C++, Rust and Go programs, of python3 and of libc: jab and gdb run the same
deterministic program and must show the same at the same hit of the same place."""
import os
import re
import subprocess
from pathlib import Path

import pytest

import gdb
import jab
import scripts
import targets


def fields(path, probe, *args):
    """[{field: value}] of each hit."""
    r = jab.run("trace", "--json", probe, "--", path, *args)
    assert r.status == 0, r
    return [o["fields"] for o in r.objects if "fields" in o]


# Return values ---------------------------------------------------------------------------------------

PROBES = ("exe:{}%return", "exe:{}%return retval:long", "exe:{}%return retval if 1", "call:exe:{} n retval")


def test_tail_call(built):
    """A call that goes on in another function ends there, and has its value, whoever asks for it."""
    path = built("typed_O2")
    for probe in PROBES:
        assert [f["retval"] for f in fields(path, probe.format("tail_call"))] == [100, 10, 102, 20], probe
    assert [f["x"] for f in fields(path, "exe:tail_call%return x=retval*2")] == [200, 20, 204, 40]
    assert len(fields(path, "exe:tail_call%return retval if retval > 10")) == 3
    r = jab.run("-e", 'ur:exe:tail_call { printf("%d\\n", retval); @[retval] = count(); @sum = sum(retval) }', "-c", path)
    assert "100\n10\n102\n20\n" in r.output and "@sum: 232" in r.output, r


def test_tail_call_to_an_unknown_function(built):
    """Where it is not known before which function that is, the value is not there the first time. It may be learned then."""
    path = built("typed_O2")
    lost = {"unknown": "tail call"}
    for probe in PROBES:
        got = [f["retval"] for f in fields(path, probe.format("tail_away"))]
        assert got[:3] == [100, lost, 102] and len(got) == 4 and got[3] in (lost, 20), probe
    got = [f["x"] for f in fields(path, "exe:tail_away%return x=retval*2")]
    assert got[:3] == [200, lost, 204], got
    assert [f["retval"] for f in fields(path, "exe:tail_away%return retval:string")][1] == lost
    assert len(fields(path, "exe:tail_away%return retval if retval > 0")) in (2, 3)
    assert len([f["retval"] for f in fields(path, "exe:tail_end%return")]) == 4
    r = jab.run("-e", 'ur:exe:tail_away { printf("%d\\n", retval); @[retval] = count(); @sum = sum(retval) }', "-c", path)
    assert "100\n<tail call>\n102\n" in r.output, r
    assert "@[100]: 1" in r.output and "times a condition, key or value could not be read" in r.stderr, r


def test_result(built):
    """Of the type that the function returns, whether more is asked for or not; other variables of that name don't matter."""
    path = built("typed_O2")
    wanted = {"char": [-120, -119, -118, -117], "bool": [0, 1, 0, 1], "float": [.25, 1.25, 2.25, 3.25], "mood": [-3, 5, -3, 5]}
    for what, values in wanted.items():
        for more in ("", " retval", " $retval", " retval n=sizeof(int)", " retval if 1", " retval=retval+0"):
            assert [jab.number(f["retval"]) for f in fields(path, f"exe:give_{what}%return{more}")] == values, (what, more)
        assert [jab.number(f["retval"]) for f in fields(path, f"call:exe:give_{what} retval duration")] == values, what
    assert all(f["d"] >= 0 for f in fields(path, "call:exe:give_char d=duration"))
    assert all(re.match("0x[0-9a-f]+$", f["retval"]) for f in fields(path, "exe:give_text%return retval"))
    assert [f["x"] for f in fields(path, "exe:give_char x=retval")] == [-77] * 4


def test_odd_numbers(built):
    """What no register holds has an address and a size; its value is refused instead of being made up."""
    path = built("typed_O2")
    assert fields(path, "exe:step n=sizeof(it->wider) d=(long)(&it->wider + 1)-(long)&it->wider")[0] == {"n": 16, "d": 16}
    for asked in ("it->wider", "it->wider+1", "(long)it->wider", "it->wider ? 1 : 2", "(&it->wider)[1]", "*&it->wider", "*(__int128 *)it"):
        r = jab.run("trace", "--dry-run", f"exe:step x={asked}", "--", path)
        assert r.status and "a value of type __int128 can't be read" in r.stderr, (asked, r)
    for script in ("print(it->wider)", "@ = hist(it->wider)", "@[it->wider] = count()", 'printf("%d", it->wider)', "if (it->wider) { print(1) }"):
        r = jab.run("-e", f"uprobe:{path}:step {{ {script} }}", "-c", path)
        assert r.status and "a value of type __int128 can't be read" in r.stderr, (script, r)


def test_error_behind_warnings(built):
    """However many warnings there are, what is wrong is told."""
    many = " ".join(f"x{i}=s" for i in range(12))
    r = jab.run("trace", "--dry-run", f"exe:typed::look {many} y=nowhere", "--", built("typed_rs_2"))
    assert r.status and r.stderr.count(": WARNING: the compiler may have changed") == 12, r
    assert re.search(r": ERROR: unknown name 'nowhere'.*\nexe:typed::look .*\n +~{7}\n", r.stderr), r


def test_copy_at_the_entry(built):
    """The function's own names, where its first instruction is already one of a function that was inlined."""
    path = built("ledger_cc_O2")
    assert {f["x"] for f in fields(path, "exe:ledger::Loan::worth x=this->parts._M_impl._M_start[0]")} == {6, 15, 24}
    assert {f["x"] for f in fields(path, "exe:ledger::Loan::worth x=this->serial")} == {2, 5, 8}


def test_slice_of_another_unit(tmp_path):
    """A type whose name has a path inside, as Rust names slices, is found in the unit that defines it."""
    spelt = b"Pconst_Aa__b__TZ", b"*const [a::b::T]"
    tag = spelt[0].decode()
    (tmp_path / "one.c").write_text(f"__attribute__((noinline)) int look(struct {tag} *p) {{ __asm__ volatile(\"\" : : \"r\"(p)); return !p; }}\n")
    (tmp_path / "two.c").write_text(f"struct {tag} {{ void *data_ptr; long length; }} it = {{ 0, 41 }};\n"
                                    f"int look(struct {tag} *p); int main(void) {{ return look(&it); }}\n")
    path = tmp_path / "units"
    subprocess.run(["gcc", "-O1", "-g", "-w", "-o", path, tmp_path / "one.c", tmp_path / "two.c"], check=True)
    path.write_bytes(path.read_bytes().replace(*spelt))
    assert fields(path, "exe:look n=p->length") == [{"n": 41}]


def test_half_of_a_struct(built):
    """What the debug info says nothing about is not behind what it tells of."""
    path = built("pieces")
    half, whole = (f"exe:@pieces.c:{gdb.line_of(targets.SRC / 'pieces.c', words)}" for words in ("half", "whole"))
    assert [f["x"] for f in fields(path, half + " x=t.a")] == [300, 600, 900]
    assert [list(f.values()) for f in fields(path, whole + " x=t")] == [[300, 1100], [600, 1200], [900, 1300]]
    for asked in ("t.b", "t"):
        r = jab.run("trace", f"{half} x={asked}", "--", path)
        assert r.status and "this part of it can't be read here" in r.stderr, (asked, r)


def test_bases_are_no_level(built):
    """A std::vector is shown, whose members are those of the base of a member of its base."""
    path = built("ledger_cc_O2")
    hits = fields(path, "exe:ledger::Book::total x=this->entries")
    names = ["x_items__M_impl__M_start", "x_items__M_impl__M_finish", "x_items__M_impl__M_end_of_storage", "x_most"]
    assert [list(h) for h in hits] == [names] * 12
    sizes = [(int(h[names[1]], 16) - int(h[names[0]], 16)) // 8 for h in hits]
    assert sizes == [h["x_most"] for h in hits] == [1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11]


def test_named_args(built):
    """A parameter with the name of a word of the language."""
    path = built("typed_O2")
    assert [f["x"] for f in fields(path, "exe:give_bool x=args->b")] == [0, 11, 22, 33]
    assert [f["x"] for f in fields(path, "call:exe:give_bool x=args->b retval")] == [0, 11, 22, 33]
    r = jab.run("-e", 'u:exe:give_bool { printf("%d\\n", args.args->b); }', "-c", path)
    assert "0\n11\n22\n33\n" in r.output, r


def test_flexible_text(built):
    path = built("typed_O2")
    assert [f["x"] for f in fields(path, "exe:step x=spoken->text:string")] == ["hello"] * 4
    r = jab.run("-e", 'u:exe:step { printf("%s %s %d\\n", spoken->text, str(spoken->text), spoken->text[1]); exit() }', "-c", path)
    assert "hello hello 101\n" in r.output, r


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
        gdb.Place("exe:step", "step", ["title:string", "label:string", "s:string"]),       # nothing but names and types
        gdb.Place("exe:step", "step", [f"it->{m}" for m in ITEM] + ["it->next->next->id"][:0]),
        gdb.Place("exe:step", "step", ["sizeof(struct item)", "((struct item *)it)->id", "*(unsigned char *)&it->id",
                                       "(signed char)it->uc", "it->in[n & 1].a", "(&it->in[1])->u.word", "n * 3 + it->s",
                                       "it->mood == BUSY", "ANGRY", "sizeof(*it)", "(long)it->f", "&it->in[2]", "*it->name",
                                       "(enum mood)5", "it->grid[0][2] / 3", "it->u64 >> 3", "it->i64 >> 3", "it->sc < it->uc"]),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "walk"), inside),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "inner"), ["n", "it->id"]),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "scaled"), ["result", "it->id", "base"]),
        gdb.Place.line(path, "typed.c", gdb.line_of(source, "end"), ["count", "hidden"]),
        gdb.Place.at(path, "exe:scaled", ["base", "it->id", "total"]),       # in every copy of it
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
        gdb.Place.at(path, "exe:mixed", ["base", "who->id"]),
    ]
    # of the two inlined places gdb knows no variables at -O2: the program's own rule is the judge
    gdb.compare([path], places, tmp_path, most_unknown=16 if level == "O2" else 0)
    assert gdb.ask_jab([path], places[-1]) == [[n, -n] for n in range(4)]
    assert gdb.ask_jab([path], places[-2]) == [[n * 3, -n] for n in range(4)]


def test_unsure(built):
    """Where the compiler may have changed how a function is called, that is said; not if the debug info knows it."""
    for probe in "exe:typed::look x0=n", "exe:typed::look x0=n if 1", "exe:typed::look":
        r = jab.run("trace", "--json", probe, "--", built("typed_rs_2"))
        assert [o["fields"]["x0" if "x0" in probe else "n"] for o in r.objects if "fields" in o] == [0, 1, 2], r
        assert ("may have changed" in r.stderr) == (probe == "exe:typed::look"), r      # of the texts, which are shown, too
    r = jab.run("trace", "call:exe:typed::look n retval", "--", built("typed_rs_2"))
    assert r.stderr.count("the compiler may have changed how this static function is called") == 1, r
    for more in "", " retval":
        r = jab.run("trace", f"exe:typed::look%return{more}", "--", built("typed_rs_2"))
        assert r.stderr.count("the compiler may have changed how this static function is called") == 1, r


def test_gone_at_the_exit(built):
    """A slice is handed over in two registers, and a call keeps one value for each argument: it is said who has it."""
    r = jab.run("trace", "call:exe:typed::look s retval", "--", built("typed_rs_2"))
    assert r.status == 1 and "'s' is handed over in registers, and is gone at the exit; a probe on the entry has it" in r.stderr, r
    assert all(isinstance(f["s"], str) for f in fields(built("typed_rs_2"), "exe:typed::look s"))


@pytest.mark.parametrize("level", [0, 2])
def test_dropped_parameters(built, level):
    """Where the compiler has left out a parameter, the debug info knows where the others are."""
    for probe in "exe:dropped::Shop::three", "exe:dropped::Shop::three n", "call:exe:dropped::Shop::three", "call:exe:dropped::Shop::three n retval":
        got = fields(built(f"dropped_{level}"), probe)
        assert [f["n"] for f in got] == [0, 10, 20, 30], (probe, got)
        assert level == 0 or "self" not in got[0], (probe, got)


@pytest.mark.parametrize("level", [0, 2])
def test_rust(built, tmp_path, level):
    members = "id big real small yes letter name text inner.a inner.b[2] mood pair.__0 pair.__1 numbers.len".split()
    places = [
        gdb.Place("exe:step", "step", ["n", "x", "d"]),
        gdb.Place("exe:typed::look", "typed::look", ["n", "s", ("*owned", "*owned"), "byte"] + [(f"item->{m}", f"item.{m}") for m in members]),
    ]
    gdb.compare([built(f"typed_rs_{level}")], places, tmp_path, most_unknown=6)


@pytest.mark.parametrize("level", [0, 2])
def test_go(built, tmp_path, level):
    members = "Id Small Real Name In.A In.B[2] Next.Name Yes".split()
    # All at once would take more of a goroutine's stack than a probe may.
    places = [gdb.Place("exe:main.step", "main.step", ["n", "small", "s", "d", ("main.Counter", "'main.Counter'"), ("main.Title", "'main.Title'")]),
              gdb.Place("exe:main.step", "main.step", [("it->" + m.replace("Next.", "Next->"), "it." + m) for m in members])]
    path, frame = built(f"typed_go_{level}"), ["sum", "n"] + ([("it->Id", "it.Id"), ("it->Name", "it.Name"), ("last->Id", "last.Id")] if level == 0 else [])
    for place in places:
        gdb.compare([path], [place], tmp_path, restarts=True)
    in_frame = gdb.Place.line(path, "typed.go", gdb.line_of(targets.SRC / "typed.go", "sum"), frame)
    assert gdb.compare([path], [in_frame], tmp_path, restarts=True) >= 6


def test_results_of_go_are_no_parameters(built):
    path = built("typed_go_2")
    r = jab.run("-lv", f"u:{path}:main.step")
    assert [x.split()[-1] for x in r.output.splitlines()[1:]] == ["n", "small", "s", "it", "d", "retval"], r
    assert fields(path, "exe:main.step")[0].keys() == {"n", "small", "s", "it", "d"}
    assert fields(path, "exe:main.step $params")[0].keys() == {"n", "small", "s", "it", "d"}


def test_enum_names(built):
    """In the words of the program, where text is printed."""
    r = jab.run("-e", 'u:exe:step { printf("%s %d\\n", it->mood, it->mood); print(it->mood); @[it->mood] = count() }', "-c", built("typed_O2"))
    assert "ANGRY -3\nANGRY\nBUSY 5\nBUSY\n" in r.output and "@[ANGRY]: 2" in r.output, r


def test_enums_are_recorded(built, tmp_path):
    """Names and values in events, with a program and without: as text, in JSON, in a trace and for babeltrace2."""
    path, t, probes = built("typed_O2"), tmp_path / "t", ["exe:step it->mood it->big", "give=call:exe:give_mood", "exe:give_mood%return"]
    text = jab.run("trace", *probes, "--", path).output
    assert re.findall(r"it__mood=(\S+)", text)[:2] == ["ANGRY", "BUSY"], text
    assert set(re.findall(r"give_mood%return retval=(\S+)", text)) == set(re.findall(r"give \S+ retval=(\S+)", text)) == {"ANGRY", "BUSY"}, text
    named = {"ANGRY": {"value": -3, "name": "ANGRY"}, "BUSY": {"value": 5, "name": "BUSY"}}
    assert [f["it__mood"] for f in fields(path, "exe:step it->mood")][:2] == list(named.values())
    assert all(f["retval"] in named.values() for f in fields(path, "exe:give_mood%return"))
    assert jab.run("record", "-o", t, *probes, "--", path).status == 0
    view = jab.run("view", t).output
    assert re.findall(r"(?:mood|big|retval)=\S+", view) == re.findall(r"(?:mood|big|retval)=\S+", text), view
    p = subprocess.run(["babeltrace2", str(t)], capture_output=True, text=True, timeout=targets.LIMIT)
    assert p.returncode == 0 and not p.stderr, p
    assert re.findall(r'it__mood = \( "(\w+)" : container = (-?\d+) \)', p.stdout)[:2] == [("ANGRY", "-3"), ("BUSY", "5")], p.stdout


def test_values_of_enums_without_a_name(built):
    """They are numbers, and unsigned ones are found also above the sign bit."""
    r = jab.run("trace", "exe:step x=(enum mood)77 y=(enum mood)5", "--", built("typed_O2"))
    assert re.findall(r"step x=(\S+) y=(\S+)", r.output)[0] == ("77", "BUSY"), r
    r = jab.run("trace", "--json", "exe:step x=(enum mood)77", "--", built("typed_O2"))
    assert r.objects[0]["fields"] == {"x": {"value": 77}}, r


def test_enums_of_any_width(built, tmp_path):
    """Of a byte and of 64 bits without a sign: the same names when the trace is read."""
    path, t = built("typed_cc_O2"), tmp_path / "t"
    probe = "exe:step c d.colour d.mask x=(enum shop::Mask)0x8000000000000000 y=(enum shop::Colour)200"
    text = jab.run("trace", probe, "--", path).output
    assert re.findall(r"x=(\S+) y=(\S+)", text)[0] == ("BIT63", "Blue"), text
    assert set(re.findall(r" d_colour=(\S+)", text)) == {"Green", "Blue"}, text
    assert jab.run("record", "-o", t, probe, "--", path).status == 0
    view = jab.run("view", t).output
    assert re.findall(r" c=.*", view) == re.findall(r" c=.*", text), view
    p = subprocess.run(["babeltrace2", str(t)], capture_output=True, text=True, timeout=targets.LIMIT)
    assert p.returncode == 0 and '"BIT63" : container = 9223372036854775808' in p.stdout and '"Blue" : container = 200' in p.stdout, p


def test_arrays_behind_pointers(built):
    """A variable that is a pointer may be shown as an array, as an argument can."""
    path = built("values")
    want = [f["arg2"] for f in fields(path, "exe:take arg2:int[2]")]
    for probe in "exe:take v:int[2]", "exe:take x=v:int[2]", "call:exe:take v:int[2]":
        got = [f["x" if "x=" in probe else "v"] for f in fields(path, probe)]
        assert ["fault" in g or g for g in got] == ["fault" in w or w for w in want], (probe, got, want)
    r = jab.run("trace", "exe:take n:int[2]", "--", path)
    assert r.status and "int32 has 4 bytes, but int32[2] has 8" in r.stderr, r


def test_names_of_fields_in_conditions(built):
    """They mean the fields, and not a variable of that name."""
    path = built("values")
    n = [f["n"] for f in fields(path, "exe:take n")]
    assert 4 in n and 400 not in n
    for probe in "exe:take k=n if k == 4", "exe:take k=arg0:int if k == 4", "exe:take k=n*100 if k == 400", "exe:take n=n*100 if n == 400", \
                 "call:exe:take k=n if k == 4":
        got = [f for f in fields(path, probe)]
        assert len(got) == n.count(4) and set(got[0].values()) & {4, 400}, (probe, got)
    assert not fields(path, "exe:take n=arg1 if n == 4")
    r = jab.run("trace", "exe:take k=n if j == 4", "--", path)
    assert r.status and "unknown name 'j'" in r.stderr, r


# Real programs ---------------------------------------------------------------------------------------

def debug_info(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    number = re.search(r"Build ID: (\w+)", notes)
    return number and Path(f"/usr/lib/debug/.build-id/{number[1][:2]}/{number[1][2:]}.debug").exists()


def test_libc(built, tmp_path):
    """Debian's libc6-dbg."""
    if not debug_info("/lib/x86_64-linux-gnu/libc.so.6"):
        pytest.skip("libc6-dbg is not installed")
    places = [
        gdb.Place("libc:freeaddrinfo", "freeaddrinfo", ["ai->ai_family", "ai->ai_flags", "ai->ai_socktype", "ai->ai_next->ai_socktype",
                                                        "ai->ai_next->ai_next->ai_protocol", "((struct sockaddr_in *)ai->ai_addr)->sin_port",
                                                        "sizeof(struct addrinfo)", "ai->ai_addr->sa_data[0]"]),
        gdb.Place("libc:qsort", "qsort", ["n", "s", "*(int *)b", "((int *)b)[2]"]),
        gdb.Place("libc:fclose", "_IO_new_fclose", ["fp->_fileno", "fp->_flags", "fp->_flags2", "fp->_mode", "fp->_shortbuf[0]",
                                                    "fp->_IO_write_ptr - fp->_IO_write_base", "fp->_chain->_fileno"]),
    ]
    gdb.compare([built("typed_O2"), "libc"], places, tmp_path)


def test_python(tmp_path):
    """Debian's python3.11, with the debug info of python3.11-dbg."""
    python = "/usr/bin/python3.11"
    if not os.path.exists(python) or not debug_info(python):
        pytest.skip("python3.11-dbg is not installed")
    script = tmp_path / "script.py"
    script.write_text("class Thing: pass\nx = [Thing() for i in range(5)]\nfor y in (x, 'text' * 3, {1: 2}, (1, 2, 3)): len(y)\n"
                      "import time, gc, sys\n")
    places = [
        # not its copies in other functions: jab probes the function itself
        gdb.Place("exe:PyImport_ImportModuleLevelObject", "*PyImport_ImportModuleLevelObject", [
            "level", "name->ob_type->tp_name:string", "((PyASCIIObject *)name)->length", "((PyASCIIObject *)name)->state.kind",
            "((PyASCIIObject *)name)->state.ascii", "globals->ob_type->tp_basicsize", "((PyVarObject *)name->ob_type)->ob_size",
            "((struct _typeobject *)name->ob_type)->tp_flags", "sizeof(PyListObject)", "PyList_Type.tp_name:string",
            "PyList_Type.tp_as_sequence->sq_length"]),
    ]
    assert gdb.compare([python, "-S", str(script)], places, tmp_path, env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}) > 30


@pytest.mark.parametrize("level", [0, 2])
def test_rust_enums_with_data(built, level):
    """The variant that is there, as Rust itself prints it."""
    def plain(text):
        return re.sub(r"[\w:]*(<[^()]*?>)?::(?=\w)", "", text).replace(" {", "{").replace("{ ", "{").replace(" }", "}")

    r = scripts.run('u:exe:variants::show { print(h->n); print(h->shape); print(h->maybe); print(h->some); print(h->place) }', built(f"variants_{level}"))
    said = [line.split("|") for line in r.stdout.splitlines()[:-1]]
    shown = r.output.splitlines()
    assert len(said) == 4 and len(shown) == 20, r
    for i, (n, shape, maybe, some, place) in enumerate(said):
        ours = [plain(x) for x in shown[5 * i:5 * i + 5]]
        assert ours[:4] == [n, plain(shape), plain(maybe), plain(some)], r
        assert ours[4].startswith("Some(0x") if place == "true" else ours[4] == "None", r
        assert "variants::Shape::" in shown[5 * i + 1] and "Option<u16>::" in shown[5 * i + 2]
    j = scripts.run('u:exe:variants::show { print(h->shape) }', built(f"variants_{level}"), options=["-f", "json"])
    assert [f'"data": "{x}"' in y for x, y in zip(shown[1::5], j.output.splitlines()[1:5])] == [True] * 4, j


VARIANTS = [    # as the program makes them: the variant that is there, and its members
    ["Nothing", {}, "None", "0", "Ok -7 0", "None "],
    ["Circle", {"Circle.0": "-5"}, "Some", "501", "Ok -7 0", "None "],
    ["Pair", {"Pair.0": "200", "Pair.1": str(-1 << 40)}, "None", "0", "Ok -7 0", "Some two"],
    ["Sized", {"Sized.w": "-3", "Sized.h": "4000000000"}, "Some", "503", "Err 0 9", "None "],
]


@pytest.mark.parametrize("level", [0, 2])
def test_rust_enums_are_recorded(built, tmp_path, level):
    """The name of the variant that is there, and the members of all: nothing or 0 in the others."""
    r = scripts.run("u:exe:variants::show { record(s=h->shape, m=h->maybe, r=h->some, t=h->name) }", built(f"variants_{level}"))
    lines = [dict(re.findall(r"(\S+?)=(\S*)", x)) for x in r.output.splitlines()]
    assert r.status == 0 and len(lines) == 4, r
    for got, (shape, members, maybe, number, some, name) in zip(lines, VARIANTS):
        assert got["s"] == shape and got["m"] == maybe and got["m.Some.0"] == number, got
        assert {k: got["s." + k] for k in ("Circle.0", "Pair.0", "Pair.1", "Sized.w", "Sized.h")} == \
            {**dict.fromkeys(("Circle.0", "Pair.0", "Pair.1", "Sized.w", "Sized.h"), "0"), **members}, got
        assert f"{got['r']} {got['r.Ok.0']} {got['r.Err.0']}" == some and f"{got['t']} {got['t.Some.0']}" == name, got
    whole = scripts.run("u:exe:variants::show { record(*h) }", built(f"variants_{level}"))
    assert re.findall(r"h\.shape=(\S+)", whole.output) == [v[0] for v in VARIANTS], whole
    bad = scripts.run("u:exe:variants::show { record(x=*(variants::Shape *)8) }", built(f"variants_{level}"))
    assert bad.status == 0 and len(re.findall(r"^x=<fault", bad.output, re.M)) == 4, bad
    traced = jab.run("trace", "exe:variants::show h->shape h->name", "--", built(f"variants_{level}"))
    assert re.findall(r'h__shape="(\w+)"', traced.output) == [v[0] for v in VARIANTS], traced
