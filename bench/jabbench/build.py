# SPDX-License-Identifier: MIT
"""Compile what is to be measured into BUILD/bench. Only what is older than its source."""

import os
import shlex
import subprocess

from .common import Skip, Wrong

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(HERE)
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g0"]
LIBS = ["-lZydis", "-ldw", "-lelf", "-llzma", "-liberty", "-lpthread"]


class Builder:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.out = os.path.join(self.build, "bench")
        os.makedirs(self.out, exist_ok=True)

    def fresh(self, name, sources):
        path = os.path.join(self.out, name)
        return os.path.exists(path) and all(
            os.path.getmtime(s) <= os.path.getmtime(path) for s in sources)

    def run(self, name, sources, argv, **more):
        path = os.path.join(self.out, name)
        if not self.fresh(name, sources):
            done = subprocess.run(argv + ["-o", path + ".new"] + sources, capture_output=True, text=True,
                                  timeout=120, **more)
            if done.returncode:
                raise Wrong("%s does not compile: %s" % (name, done.stderr[-2000:]))
            os.rename(path + ".new", path)
        return path

    @staticmethod
    def sources():
        return os.path.join(HERE, "prog")

    def program(self, name, sources, *flags, cc=None):
        """A target of bench/prog. The libraries stand behind the sources."""
        paths = [os.path.join(HERE, "prog", s) for s in sources]
        cc = [cc] if cc else shlex.split(os.environ.get("CC", "cc"))
        return self.run(name, paths, cc + FLAGS + list(flags) + ["-pthread"])

    def go(self, name, sources):
        paths = [os.path.join(HERE, "prog", s) for s in sources]
        env = dict(os.environ, GOCACHE=os.path.join(self.out, "go-cache"), GOFLAGS="-buildvcs=false")
        return self.run(name, paths, ["go", "build"], env=env)

    def inside(self, name):
        """A bench that uses the engine's own parts: bench/NAME.c with everything that jab is made of."""
        for ready in (os.path.join(self.build, name), os.path.join(self.build, "bench", name + ".meson")):
            if os.path.exists(ready):
                return ready
        source = os.path.join(HERE, name + ".c")
        core = os.path.join(self.build, "libjabcore.a")
        for needed in (source, core):
            if not os.path.exists(needed):
                raise Skip("no " + os.path.relpath(needed, ROOT))
        path = os.path.join(self.out, name)
        if not self.fresh(name, [source, core]):
            cc = shlex.split(os.environ.get("CC", "cc"))
            argv = cc + FLAGS + ["-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(ROOT, "include"),
                                 "-o", path, source, core] + LIBS
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise Wrong("%s.c does not compile: %s" % (name, done.stderr[-2000:]))
        return path
