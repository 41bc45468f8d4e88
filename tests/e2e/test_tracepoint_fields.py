# SPDX-License-Identifier: MIT
"""Tracepoints of <jab/tracepoint.h> with jab: names and types of the fields, in lists, events, traces and scripts."""
import re
import subprocess

import jab
import pytest
import scripts
from targets import LIMIT, ROOT
from test_tracepoint import C, compile_

N = 3


def integers(i):
    return {"s8": -i - 1, "u8": 200 + i, "s16": -1000 - i, "u16": 60000 + i, "s32": i, "u32": 4000000000 + i, "s64": -5000000000000 - i,
            "u64": 2**64 - 16 + i, "yes": i & 1, "constant": -5, "large": 0x123456789abc, "own": 7}


def numbers(i):
    return {f"numbers_{k}_": v for k, v in enumerate([1, -2, 3, i])}


def some(i):
    return {"some_count": i & 3, **{f"some_{k}_": ([1, -2, 3, i][k] if k < (i & 3) else 0) for k in range(8)}}


LINE = {"line_from_x": 1, "line_from_y": 2.5, "line_from_label": "a", "line_from_color": {"value": 5, "name": "GREEN"},
        "line_to_x": -3, "line_to_y": 4.5, "line_to_label": "b", "line_to_color": {"value": 0, "name": "RED"}, "line_name": "line",
        "line_widths_0_": 7, "line_widths_1_": 8, "line_widths_2_": 9}


def others(i):
    return {"f": i + 0.5, "d": i * 1.25, "text": "outside", "chars": f"inside {i}", **numbers(i), **some(i),
            "color": {"value": 5, "name": "GREEN"} if i else {"value": -1, "name": "BLUE"}, **LINE, "from": 1}


def events(r, name):
    return [x["fields"] for x in r.rows if x["probe"] == f"every:{name}"]


WAYS = [("gcc", "-O2"), ("gcc", "-O0"), ("clang", "-O2 -static"), ("g++", "-O3 -flto"), ("clang++", "-O0")]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_(C["gcc"], "-O2", output=tmp_path_factory.mktemp("tracepoint") / "program")


@pytest.mark.parametrize("compiler,flags", WAYS, ids=[f"{c} {f}" for c, f in WAYS])
def test_values(compiler, flags, tmp_path):
    program = compile_(C[compiler], *flags.split(), output=tmp_path / "program")
    subprocess.run(["strip", str(program)], check=True)
    r = jab.run("trace", "--json", "usdt:every:*", "--", program, N)
    assert r.status == 0 and r.summary["probes"][0]["refused"] == 0, r
    assert events(r, "integers") == [integers(i) for i in range(N)], r
    seen = events(r, "others")
    assert all(re.fullmatch("0x[0-9a-f]+", x.pop("pointer")) for x in seen)
    assert seen == [others(i) for i in range(N)], r
    assert events(r, "guarded") == [{"costly": 3 * i} for i in range(N)], r
    assert events(r, "nothing") == [{}] * 2 * N and [x["x"] for x in events(r, "inlined")] == [x for i in range(N) for x in (i, i + 1)], r
    if "++" in compiler:
        assert events(r, "opened") == [{"value": i, "other": i + 1, "mood": {"value": 1, "name": "Mood::Cross"}} for i in range(N)], r


def test_list(program):
    r = jab.run("list", "-v", program, "usdt:every:others")
    for line in ["float f  4@", "char * text  8@", "void * pointer  8@", "char[16] chars  8@", "s32[4] numbers", "s32[] some", "s32 (count)  -4@",
                 "enum color color  -4@", "struct line line  8@", "s16 from  -2@"]:
        assert f"        {line}" in r.output, r
    r = jab.run("list", "--json", program, "usdt:every:integers")
    assert [a["name"] for a in r.rows[0]["sites"][0]["args"]] == list(integers(0)), r


def test_fields_of_a_line(program):
    """By name, also parts of them and in conditions, before variables of the program."""
    r = jab.run("trace", "--json", "usdt:every:others line.to.label numbers[1] f text if line.from.color == 5 && text == \"outside\" && numbers[3] > 0 && color == GREEN",
                "--", program, N)
    assert [x["fields"] for x in r.rows] == [{"line_to_label": "b", "numbers_1_": -2, "f": i + 0.5, "text": "outside"} for i in (1, 2)], r
    r = jab.run("trace", "usdt:every:guarded expensive", "--", program, N)
    assert r.status != 0 and "unknown name 'expensive'" in r.stderr, r


def test_scripts(program):
    r = scripts.run('usdt:every:others { printf("%s %d %s %s %s\\n", args.text, args.numbers[1], args.line.from.label, args.chars, args.line.name);'
                    ' print(args.line.to.color); if (args.color == BLUE) { printf("blue\\n"); } @[args.text, args.color] = sum(args.numbers[3]); print(args.some[0]) }'
                    '', program, N)
    assert "outside -2 a inside 1 line\nRED\n1\n" in r.output and r.output.count("blue\n") == 1 and "@[outside, GREEN]: 3" in r.output and "@[outside, BLUE]: 0" in r.output, r
    p = subprocess.run([jab.JAB, "-e", "usdt:every:inlined { print(args) }", "--", program, str(N)], capture_output=True, text=True, timeout=LIMIT)
    assert "{ .x = 2 }\n" in p.stdout, p
    r = scripts.run("usdt:every:others { print(args.price) }", program, N)
    assert r.status != 0 and "every:others has no argument 'price'; they are f, d, text, pointer, chars, numbers, some, color, line, from" in r.stderr, r


def test_trace_of_a_run(program, tmp_path):
    """babeltrace2 reads enums by name."""
    r = jab.run("record", "-o", tmp_path / "trace", "usdt:every:others", "--", program, N)
    assert r.status == 0, r
    said = subprocess.run(["babeltrace2", str(tmp_path / "trace")], capture_output=True, text=True, timeout=LIMIT).stdout.splitlines()
    said = [x for x in said if " every:others: " in x]
    assert len(said) == N and 'color = ( "BLUE" : container = -1 )' in said[0] and 'line_to_color = ( "RED" : container = 0 )' in said[1], said
    assert 'text = "outside"' in said[2] and "some_count = 2, some_0_ = 1, some_1_ = -2, some_2_ = 0" in said[2], said


def test_without_our_note(program, tmp_path):
    """The arguments are numbers then; without the tables values have no names and structs are addresses."""
    subprocess.run(["objcopy", "--remove-section", ".note.jab", str(program), str(tmp_path / "bare")], check=True)
    r = jab.run("trace", "--json", "usdt:every:guarded", "--", tmp_path / "bare", N)
    assert [x["fields"] for x in r.rows] == [{"arg0": 3 * i} for i in range(N)], r
    damaged = tmp_path / "damaged"
    damaged.write_bytes(program.read_bytes().replace(b"jabt", b"jabx"))
    damaged.chmod(0o755)
    r = jab.run("trace", "--json", "usdt:every:others color line from", "--", damaged, N)
    assert [(x["fields"]["color"], x["fields"]["from"]) for x in r.rows] == [(-1, 1), (5, 1), (5, 1)], r
    assert all(re.fullmatch("0x[0-9a-f]+", x["fields"]["line"]) for x in r.rows), r


WORDS = """
#include <jab/tracepoint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
struct s { char text[16]; };
__attribute__((noinline)) static void event(int i, struct s *p, long more)
{
	JAB_TRACEPOINT(words, event, ("i", i), ("text", p->text), ("more", more));
	__asm__ __volatile__("" : : "r"(p) : "memory");
}
int main(void)
{
	static struct s good[3] = { { "short" }, { "sixteen letters!" }, { "" } };
	char *page = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page + 4096, 4096);
	memcpy(page + 4088, "edgeedge", 8);
	for (int i = 0; i < 6; i++)
		event(i, i < 3 ? &good[i] : i == 3 ? 0 : i == 4 ? (struct s *)(page + 4088) : &good[0], 100 + i);
	return 0;
}
"""


def test_short_text(tmp_path):
    """A text array beside numbers is written as numbers are; what can't be read is marked as a whole, and nothing else is."""
    source, program = tmp_path / "words.c", tmp_path / "words"
    source.write_text(WORDS)
    subprocess.run([*C["gcc"], "-O2", "-Wno-array-bounds", "-D_GNU_SOURCE", f"-I{ROOT / 'include'}", str(source), "-o", str(program)], check=True, timeout=LIMIT)
    r = jab.run("trace", "--json", "usdt:words:event", "--", program)
    seen = [x["fields"] for x in r.rows if x["probe"] == "words:event"]
    assert [(x["i"], x["more"]) for x in seen] == [(i, 100 + i) for i in range(6)], r
    assert [x["text"] for x in seen[:3]] == ["short", "sixteen letters!", ""] and seen[5]["text"] == "short", r
    assert all("fault" in x["text"] for x in seen[3:5]), r
    r = jab.run("record", "-o", tmp_path / "trace", "usdt:words:event", "--", program)
    shown = jab.run("view", tmp_path / "trace").output
    assert 'text="sixteen letters!"' in shown and shown.count("text=<") == 2, shown
    said = subprocess.run(["babeltrace2", str(tmp_path / "trace")], capture_output=True, text=True, timeout=LIMIT).stdout
    assert 'text = { bytes = "sixteen letters!" }' in said and 'text = { bytes = "short" }' in said, said
