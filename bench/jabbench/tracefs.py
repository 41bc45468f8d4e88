# SPDX-License-Identifier: MIT
"""Kernel uprobes through tracefs, the peer that needs nothing installed.

Everything is taken back: events, the trace instance, and the mount if it was ours."""

import os
import shutil
import subprocess
import tempfile
import time

from .common import Skip


class Tracefs:
    """An own instance, so that another user's trace buffer and switches stay as they are."""

    def __init__(self):
        self.group = "jabbench%d" % os.getpid()
        self.mounted = None
        self.root = self.find() or self.mount()
        self.instance = os.path.join(self.root, "instances", self.group)
        self.events = []
        try:
            os.mkdir(self.instance)
        except OSError as e:
            self.unmount()
            raise Skip("no trace instance: %s" % e.strerror)

    @staticmethod
    def find():
        with open("/proc/mounts") as mounts:
            for line in mounts:
                words = line.split()
                if words[2] == "tracefs" and os.access(words[1] + "/uprobe_events", os.W_OK):
                    return words[1]
        return None

    def mount(self):
        if os.geteuid():
            raise Skip("tracefs needs root")
        where = tempfile.mkdtemp(prefix="jab-bench-tracefs-")
        done = subprocess.run(["mount", "-t", "tracefs", "none", where], capture_output=True, text=True)
        if done.returncode:
            os.rmdir(where)
            raise Skip("tracefs can't be mounted: " + done.stderr.strip())
        self.mounted = where
        if not os.path.exists(where + "/uprobe_events"):
            self.unmount()
            raise Skip("this kernel has no uprobes")
        return where

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", self.mounted], capture_output=True)
            if not os.path.ismount(self.mounted):
                os.rmdir(self.mounted)
            self.mounted = None

    def command(self, text):
        """Append a line. Python's own "a" seeks to the end, which this file refuses."""
        try:
            fd = os.open(self.root + "/uprobe_events", os.O_WRONLY | os.O_APPEND)
            try:
                os.write(fd, text.encode() + b"\n")
            finally:
                os.close(fd)
        except OSError as e:
            raise Skip("uprobe '%s': %s" % (text, e.strerror))

    def switch(self, on):
        try:
            with open("%s/events/%s/enable" % (self.instance, self.group), "w") as f:
                f.write("1" if on else "0")
        except OSError as e:
            raise Skip("uprobes can't be switched: %s" % e.strerror)

    def insert(self, path, offsets, kind="p", fields=""):
        """Define and enable; returns the milliseconds that it took."""
        start = time.monotonic()
        for n, offset in enumerate(offsets):
            self.command("%s:%s/u%d %s:%#x %s" % (kind, self.group, n, path, offset, fields))
            self.events.append("u%d" % n)
        self.switch(True)
        return (time.monotonic() - start) * 1e3

    def remove(self):
        start = time.monotonic()
        if self.events:
            self.switch(False)
        while self.events:
            self.command("-:%s/%s" % (self.group, self.events.pop()))
        return (time.monotonic() - start) * 1e3

    def close(self):
        try:
            self.remove()
        except Skip as e:
            print("  tracefs: left behind: %s" % e)
        os.rmdir(self.instance)
        self.unmount()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def bpftrace():
    return shutil.which("bpftrace")
