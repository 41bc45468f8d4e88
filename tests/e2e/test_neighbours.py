# SPDX-License-Identifier: MIT
"""Functions that others jump into the middle of: glibc's mempcpy enters memcpy behind its first instruction.

One probe at a time, so that nothing but the probe itself makes anybody look at the whole text.
"""
import subprocess

import pytest

import jab
from targets import LIMIT

PROGRAM = "import hashlib; b = bytearray(range(256)) * 99; print(hashlib.sha256(b[::3] + b[7:]).hexdigest(), b.find(b'\\7'))"


@pytest.mark.parametrize("name", ["memcpy", "mempcpy", "memmove", "memset", "memchr", "memcmp", "strlen", "strcpy",
                                  "stpcpy", "strncpy", "wcslen", "__memcpy_chk"])
def test_one_string_function(name):
    python = ["/usr/bin/python3", "-c", PROGRAM]
    r = jab.count_command([f"libc:{name}"], python)
    assert r.status == 0, r
    assert r.stdout == subprocess.run(python, capture_output=True, text=True, timeout=LIMIT).stdout, r
