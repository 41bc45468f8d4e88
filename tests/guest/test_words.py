# SPDX-License-Identifier: MIT
"""Words of aarch64 that stand in tables and in generators, with the instruction as a comment: the assembler gives the same words."""
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CODE = TOP + "/src/arch/aarch64"


def read(path):
    with open(path) as f:
        return f.read()


def assemble(tmp_path, lines):
    """The words of lines of assembler text."""
    source, binary = tmp_path / "a.s", tmp_path / "a.o"
    source.write_text(".arch armv8.5-a\n.text\n" + "\n".join(lines) + "\n")
    subprocess.run(["aarch64-linux-gnu-as", "-o", binary, source], check=True)
    out = subprocess.run(["aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", binary, "/dev/stdout"], capture_output=True, check=True).stdout
    return [int.from_bytes(out[i:i + 4], "little") for i in range(0, len(out), 4)]


def test_table(tmp_path):
    pairs = re.findall(r'^WORD\("([^"]*)", (0x[0-9a-f]{8})', read(TOP + "/tests/unit/aarch64_words.h"), re.M)
    assert len(pairs) > 40
    got = assemble(tmp_path, [text for text, _ in pairs])
    assert [(t, hex(w)) for (t, _), w in zip(pairs, got)] == [(t, hex(int(w, 16))) for t, w in pairs]


def test_generators(tmp_path):
    pairs = []
    for name in sorted(os.listdir(CODE)):
        if name.endswith(".c"):
            pairs += re.findall(r"a64_put\(&?p, (0x[0-9a-f]{8})u?\);\s*/\* ([^:*]*)", read(f"{CODE}/{name}"))
    assert len(pairs) > 12
    got = assemble(tmp_path, [text for _, text in pairs])
    assert [(t, hex(w)) for (_, t), w in zip(pairs, got)] == [(t, hex(int(w, 16))) for w, t in pairs]


def test_batch(tmp_path):
    found = re.findall(r"((?:0x[0-9a-f]{2}, ){3}0x[0-9a-f]{2}),\t+/\* ([^*]*?)(?:: after.*)? \*/", read(CODE + "/batch.c"))
    words = [int.from_bytes(bytes(int(x, 16) for x in b.split(", ")), "little") for b, _ in found]
    assert len(words) == 24
    assert assemble(tmp_path, [text for _, text in found]) == words
