# SPDX-License-Identifier: MIT
"""Reads notes of tracepoints from an ELF file (docs/tracepoint-notes.md), by other code than jab's."""
import re
import struct
from pathlib import Path

KINDS = [None, "int", "bool", "float", "pointer", "string", "chars", "enum", "struct", "length"]


class Elf:
    def __init__(self, path):
        self.data = Path(path).read_bytes()
        offset, = struct.unpack_from("<Q", self.data, 0x28)
        size, count, names = struct.unpack_from("<HHH", self.data, 0x3a)
        heads = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.sections = [(self.text(heads[names][4] + h[0]), h) for h in heads]

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def contents(self, name):
        return [self.data[h[4]:h[4] + h[5]] for n, h in self.sections if n == name and h[1] != 8]

    def at(self, address, size):
        """Bytes of memory as the file has them."""
        for _, h in self.sections:
            if h[2] & 2 and h[1] != 8 and h[3] <= address < h[3] + h[5]:
                return self.data[h[4] + address - h[3]:][:size]
        raise KeyError(hex(address))

    def notes(self, section, owner, kind):
        for data in self.contents(section):
            at = 0
            while at < len(data):
                name_size, size, number = struct.unpack_from("<III", data, at)
                name = data[at + 12:at + 12 + name_size].rstrip(b"\0").decode()
                begin = at + 12 + (name_size + 3 & ~3)
                if name == owner and number == kind:
                    yield data[begin:begin + size]
                at = begin + (size + 3 & ~3)
            assert at == len(data)


def strings(data, at, n):
    parts = data[at:].split(b"\0")[:n]
    return [p.decode() for p in parts], at + sum(len(p) + 1 for p in parts)


def stapsdt(path):
    """[(provider, name, address, semaphore, arguments)]"""
    found = []
    for d in Elf(path).notes(".note.stapsdt", "stapsdt", 3):
        address, _, semaphore = struct.unpack_from("<QQQ", d)
        (provider, name, args), end = strings(d, 24, 3)
        assert end == len(d)
        found.append((provider, name, address, semaphore, re.findall(r"-?\d+@(?:\[[^]]*\]|\S+)", args)))
    return found


def field(code, name, of):
    """A row that reads well: int of 4 bytes, signed, with a name: ("x", "int", 4, "signed")."""
    shape = ["signed"] if code >> 31 & 1 else []
    shape += [None, "fixed", "counted"][code >> 24 & 3:][:1] if code >> 24 & 3 else []
    count = code >> 32
    return (name, KINDS[code >> 8 & 255], code >> 16 & 255, *shape, *([of] if of else [count] if count else []))


def jab(path):
    """[(provider, name, address, fields)]"""
    found = []
    for d in Elf(path).notes(".note.jab", "jab", 1):
        address, count = struct.unpack_from("<QI", d)
        (provider, name), at = strings(d, 12, 2)
        fields = []
        for _ in range(count):
            code, = struct.unpack_from("<Q", d, at)
            (of, type_name), at = strings(d, at + 8, 2)
            fields.append(field(code, of, type_name))
        assert at == len(d)
        found.append((provider, name, address, fields))
    return found


def types(path):
    """{name: rows}, an enum's (name, value) and a struct's fields with their offsets."""
    found = {}
    for data in Elf(path).contents("jab_types"):
        at = 0
        while at + 24 <= len(data):
            magic, size, kind, number, count, length = struct.unpack_from("<4sIIIII", data, at)
            if magic != b"jabt":
                assert data[at:at + 8] == bytes(8)
                at += 8
                continue
            if kind == 7:
                values = struct.unpack_from(f"<{count}q", data, at + 24)
                (name, names), _ = strings(data, at + 24 + 8 * count, 2)
                rows = list(zip([n.strip() for n in names.split(",")], values))
            else:
                members = [struct.unpack_from("<QQ", data, at + 24 + 16 * i) for i in range(count)]
                (name, *names), _ = strings(data, at + 24 + 16 * count, 1 + 2 * count)
                rows = [(offset, *field(code, *names[2 * i:2 * i + 2])) for i, (code, offset) in enumerate(members)]
            found[name] = rows
            at += size + 7 & ~7
    return found
