# SPDX-License-Identifier: MIT
"""Kernel uprobes by perf_event_open(), without any tool."""
import ctypes
import os
import struct
from pathlib import Path

import pytest

TYPE = Path("/sys/bus/event_source/devices/uprobe/type")
PERF_EVENT_OPEN = 298
libc = ctypes.CDLL(None, use_errno=True)


class Uprobe:
    """On the instruction at an offset in a file, in every process that maps it, or in one; until close()."""

    def __init__(self, path, offset, pid=-1):
        if not TYPE.exists():
            pytest.skip("this kernel has no uprobes")
        name = ctypes.create_string_buffer(os.fsencode(path))
        # type, size, config, period, sample_type, read_format, flags, wakeup, bp_type, config1, config2
        attr = struct.pack("<IIQQQQQIIQQ", int(TYPE.read_text()), 112, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(name),
                           offset).ljust(112, b"\0")
        self.fds = [libc.syscall(PERF_EVENT_OPEN, attr, pid, cpu, -1, 8) for cpu in ([-1] if pid > 0 else range(os.cpu_count()))]
        if max(self.fds) < 0:
            pytest.skip(f"no uprobe can be set here: {os.strerror(ctypes.get_errno())}")

    def hits(self):
        return sum(struct.unpack("<Q", os.read(fd, 8))[0] for fd in self.fds if fd >= 0)

    def close(self):
        for fd in self.fds:
            if fd >= 0:
                os.close(fd)
        self.fds = []

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()
