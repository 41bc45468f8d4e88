# SPDX-License-Identifier: MIT
"""A machine of another CPU, emulated: boots Debian's kernel with an initramfs that we make, and runs commands in it.

    with Guest(sysroot, {"/jab": "build-aarch64/jab"}, programs=["bin/bash"]) as g:
        status, text = g.run("jab list /bin/bash")

Commands go over the serial line, one at a time, and run by busybox's shell with standard input closed; what they write to both outputs
comes back as text. The machine has no disk and no network.
"""
import base64
import os
import re
import selectors
import shutil
import subprocess
import tempfile
import time

# Every command line is a word of base64; the answer stands between two marks.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
stty -echo raw < /dev/console
export PATH=/bin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8
echo 3 > /proc/sys/kernel/printk
echo "@ready"
while read -r number command; do
	echo "@begin $number"
	sh -c "$(echo "$command" | base64 -d)" < /dev/null 2>&1
	echo "@end $number $?"
done
"""


class GuestError(Exception):
    pass


def libraries(sysroot, path):
    """Files that the dynamic loader needs for a program, by their names in it."""
    todo, found = [path], {}
    folders = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib")
    while todo:
        out = subprocess.run(["aarch64-linux-gnu-readelf", "-dl", todo.pop()], capture_output=True, text=True, check=True).stdout
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", out) + [os.path.basename(x) for x in re.findall(r"interpreter: (.*)\]", out)]
        for name in names:
            at = next((f"{sysroot}/{d}/{name}" for d in folders if os.path.exists(f"{sysroot}/{d}/{name}")), None)
            if at and name not in found:
                found[name] = at
                todo.append(at)
    return found


class Guest:
    def __init__(self, sysroot, files, programs=(), cpu="max,pauth-impdef=on", memory=768):
        """sysroot: made by tools/sysroot. files: {path in the guest: file here}. programs: paths in the sysroot. Libraries
        of all come by themselves."""
        self.sysroot, self.files, self.programs, self.cpu, self.memory = sysroot, dict(files), programs, cpu, memory
        self.number, self.buffer, self.log = 0, b"", b""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="jab-guest-")
        try:
            self.make_root()
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if getattr(self, "qemu", None):
            self.qemu.kill()
            self.qemu.wait()
            self.qemu.stdin.close()
            self.qemu.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, source, path):
        to = self.folder + "/root" + path
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(os.path.realpath(source), to)

    def make_root(self):
        root, tree = self.folder + "/root", self.sysroot + "/root"
        for d in ("bin", "proc", "sys", "dev", "tmp", "etc", "lib"):
            os.makedirs(f"{root}/{d}")
        self.put(tree + "/bin/busybox", "/bin/busybox")
        for p in self.programs:
            self.files["/bin/" + os.path.basename(p)] = f"{tree}/{p}"
        for path, source in self.files.items():
            self.put(source, path)
            with open(source, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    for name, at in libraries(tree, source).items():
                        self.put(at, ("/lib/" if name.startswith("ld-") else "/lib/aarch64-linux-gnu/") + name)
        with open(root + "/init", "w") as f:
            f.write(INIT)
        os.chmod(root + "/init", 0o755)
        with open(self.folder + "/initrd", "wb") as out:
            names = subprocess.run(["find", ".", "-print0"], cwd=root, capture_output=True, check=True).stdout
            subprocess.run(["cpio", "--quiet", "-0", "-o", "-H", "newc", "-R", "0:0"], cwd=root, input=names, stdout=out, check=True)

    def boot(self):
        self.qemu = subprocess.Popen(
            ["qemu-system-aarch64", "-M", "virt", "-cpu", self.cpu, "-smp", "2", "-m", str(self.memory), "-nographic", "-no-reboot",
             "-nic", "none", "-monitor", "none", "-serial", "stdio", "-kernel", self.sysroot + "/vmlinuz",
             "-initrd", self.folder + "/initrd", "-append", "console=ttyAMA0 quiet panic=-1 nokaslr"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self.qemu.stdout.fileno(), False)
        self.wait(rb"@ready\r?\n", 180)

    def wait(self, pattern, limit):
        """Reads up to a pattern. Returns the match; what was before it is in its pre-text."""
        end = time.time() + limit
        with selectors.DefaultSelector() as s:
            s.register(self.qemu.stdout, selectors.EVENT_READ)
            while not (m := re.search(pattern, self.buffer)):
                if time.time() > end:
                    raise GuestError(f"the guest does not answer within {limit} s:\n" + self.log[-4000:].decode(errors="replace"))
                s.select(1)
                data = self.qemu.stdout.read() or b""
                self.buffer += data
                self.log += data
                if not data and self.qemu.poll() is not None:
                    raise GuestError("the guest has ended:\n" + self.log[-4000:].decode(errors="replace"))
        self.buffer = self.buffer[m.end():]
        return m

    def run(self, command, limit=120):
        """(exit status, text of both outputs)"""
        self.number += 1
        line = f"{self.number} {base64.b64encode(command.encode()).decode()}\n"
        self.qemu.stdin.write(line.encode())
        self.qemu.stdin.flush()
        self.wait(rb"@begin %d\r?\n" % self.number, 30)
        m = self.wait(rb"(?s)(.*?)@end %d (\d+)\r?\n" % self.number, limit)
        return int(m[2]), m[1].decode(errors="replace").replace("\r\n", "\n")

    def check(self, command, limit=120):
        """The text of a command that succeeds."""
        status, text = self.run(command, limit)
        if status:
            raise GuestError(f"{command}\nexit status {status}\n{text}")
        return text
