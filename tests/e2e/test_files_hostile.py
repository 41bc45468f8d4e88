# SPDX-License-Identifier: MIT
"""Files that are gone, change while they are read, or were made to cost much: the target's owner may have written them."""
import ctypes
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

import jab
import pytest
import targets

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to have files of another user")
NOBODY = 65534
IN_OPEN = 0x20


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for chroot()")
@pytest.mark.parametrize("how", ["chroot", "pivot"])
def test_a_process_that_changed_its_root_is_traced(target, tmp_path, how):
    t = target("jail", how, tmp_path)
    assert os.listdir(f"/proc/{t.pid}/root") == []
    before = jab.text_hash(t.pid)
    with jab.Count(t.pid, "exe:work", "libc:fgets") as c:
        t.run(1000)
        r = c.stop()
    assert r.hits("work") == 1000, r
    assert jab.text_hash(t.pid) == before
    t.stop()


@needs_root
@pytest.mark.parametrize("how", ["chroot", "pivot"])
def test_another_build_of_that_name_below_the_new_root(target, built, tmp_path, how):
    """The name leads to a file there, which is not the one that is mapped: its functions are at other addresses."""
    other = tmp_path / str(built("jail")).lstrip("/")
    other.parent.mkdir(parents=True)
    shutil.copy(built("jail_changed"), other)
    t = target("jail", how, tmp_path)
    before = jab.text_hash(t.pid)
    with jab.Count(t.pid, "exe:work") as c:
        t.run(1000)
        r = c.stop()
    assert r.status == 0 and r.hits("work") == 1000, r
    assert jab.text_hash(t.pid) == before
    t.stop()


AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


@needs_root
def test_an_unprivileged_jab_finds_the_files_of_a_changed_root(target, built):
    """The kernel's links to mapped files are root's: they are found by /proc/PID/exe and by name in our own root."""
    empty = tempfile.TemporaryDirectory()
    os.chmod(empty.name, 0o755)
    user = subprocess.run([*AS_NOBODY, "unshare", "--user", "--map-root-user", "true"], capture_output=True)
    if user.returncode or not jab.run("--version", wrap=AS_NOBODY).output:
        pytest.skip("no user namespace for another user, or jab is out of its reach")
    t = target("jail", command=[*AS_NOBODY, "unshare", "--user", "--map-root-user", str(built("jail")), "chroot", empty.name])
    with jab.Count(t.pid, "exe:work", "libc:fgets", wrap=AS_NOBODY) as c:
        t.run(1000)
        r = c.stop()
    assert r.hits("work") == 1000 and r.summary["clean"], r
    r = jab.run("check", "-p", t.pid, "--json", "exe:work", "libc:fgets", wrap=AS_NOBODY)
    assert {"work", "fgets"} <= {row["function"] for row in r.rows if "function" in row}, r
    t.stop()


def opened(path):
    """A descriptor that becomes readable when the file is opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init()
    assert fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), IN_OPEN) >= 0
    return fd


def run_measured(*args):
    """jab with its greatest memory in MB, in a process of its own that has no other children."""
    code = ("import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL); "
            "print('MEMORY', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10); sys.exit(abs(p.returncode))")
    p = subprocess.run([sys.executable, "-c", code, jab.JAB, *map(str, args)], capture_output=True, text=True,
                       timeout=targets.LIMIT)
    return p, int(p.stdout.rpartition("MEMORY")[2])


@needs_root
@pytest.mark.parametrize("turn", range(5))
def test_a_library_truncated_while_it_is_read(target, built, tmp_path, turn):
    """The target maps a library of its own and cuts it as soon as jab opens it: jab refuses it or has its copy."""
    library = tmp_path / "liblate.so"
    shutil.copy(built("liblate.so"), library)
    os.chown(library, NOBODY, NOBODY)
    t = target("calls", "serve", 1, env={**os.environ, "LD_PRELOAD": str(library)})
    fd = opened(library)

    def cut():
        os.read(fd, 4096)
        os.truncate(library, 0)

    thread = threading.Thread(target=cut)
    thread.start()
    r = jab.run("count", "-p", t.pid, "-d", "0.1", "liblate:*", "exe:work")
    thread.join(targets.LIMIT)
    os.close(fd)
    assert r.status in (0, 1), r
    assert t.alive()


def sections(image):
    """name -> offset of its header"""
    shoff, = struct.unpack_from("<Q", image, 40)
    _, n, names = struct.unpack_from("<HHH", image, 58)
    strings, = struct.unpack_from("<Q", image, shoff + 64 * names + 24)
    found = {}
    for at in range(shoff, shoff + 64 * n, 64):
        start = strings + struct.unpack_from("<I", image, at)[0]
        found[bytes(image[start:image.index(0, start)]).decode()] = at
    return found


def append_section(image, name, data, compressed):
    """The section gets new content at the file's end."""
    at = sections(image)[name]
    flags, = struct.unpack_from("<Q", image, at + 8)
    struct.pack_into("<Q", image, at + 8, flags | (0x800 if compressed else 0))
    struct.pack_into("<QQ", image, at + 24, (len(image) + 15) & -16, len(data))
    struct.pack_into("<Q", image, at + 48, 1)
    image += bytes(-len(image) % 16) + data


def bomb(path, megabytes, kind):
    image = bytearray(path.read_bytes())
    size = megabytes << 20
    if kind == "zlib":
        z = zlib.compressobj(9)
        packed = b"".join(z.compress(bytes(1 << 20)) for _ in range(megabytes)) + z.flush()
        data = struct.pack("<IIQQ", 1, 0, size, 1) + packed
    else:                                       # zstd, frames of repeated bytes
        out = [struct.pack("<I", 0xFD2FB528), bytes([0xe0, 0]), struct.pack("<Q", size)[1:]]
        blocks = size // (128 << 10)
        for i in range(blocks):
            out.append(struct.pack("<I", (128 << 10) << 3 | 1 << 1 | (i == blocks - 1))[:3] + b"\0")
        data = struct.pack("<IIQQ", 2, 0, size, 1) + b"".join(out)
    append_section(image, ".debug_str", data, True)
    path.write_bytes(image)


@pytest.mark.parametrize("kind", ["zlib", "zstd"])
def test_a_compressed_bomb_is_not_unpacked(built, tmp_path, kind):
    path = tmp_path / "bomb"
    shutil.copy(built("calls"), path)
    bomb(path, 512, kind)
    assert path.stat().st_size < 2 << 20
    p, memory = run_measured("trace", "-n", "1", "-o", "/dev/null", "exe:work x", "--", path, "1", "1")
    assert "its debug info is not unpacked: 512 MB" in p.stderr, p
    assert memory < 400, p


def test_debug_info_that_is_compressed_is_read(built, tmp_path):
    path = tmp_path / "packed"
    subprocess.run(["objcopy", "--compress-debug-sections=zlib", str(built("calls")), str(path)], check=True)
    r = jab.run("trace", "-n", "1", "exe:work x", "--", path, "1", "1")
    assert r.status == 0 and "x=0" in r.output.replace(" ", ""), r


def test_a_sparse_symbol_table_is_not_read(built, tmp_path):
    path = tmp_path / "sparse"
    shutil.copy(built("calls"), path)
    image = bytearray(path.read_bytes())
    start = (len(image) + 4095) & -4096
    struct.pack_into("<QQ", image, sections(image)[".symtab"] + 24, start, 4 << 30)
    path.write_bytes(image)
    os.truncate(path, start + (4 << 30))
    p, memory = run_measured("check", path, "exe:*")
    assert p.returncode == 1 and "are on the disk" in p.stderr, p
    assert memory < 400, p


def with_altlink(program, path, name):
    note = path.parent / "altlink"
    note.write_bytes(os.fsencode(name) + b"\0" + bytes(range(20)))
    subprocess.run(["objcopy", "--add-section", f".gnu_debugaltlink={note}", str(program), str(path)], check=True)


@needs_root
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_special_files_are_not_opened(built, tmp_path, kind):
    """The name of a debug file leads to a FIFO or device: jab does not open it."""
    special = tmp_path / "special"
    if kind == "fifo":
        os.mkfifo(special)
    else:
        os.mknod(special, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    fd = opened(special)
    os.set_blocking(fd, False)
    path = tmp_path / "alt"
    with_altlink(built("calls"), path, "special")
    r = jab.run("trace", "-n", "1", "-o", "/dev/null", "exe:work x", "--", path, "1", "1")
    assert r.status == 0, r
    r = jab.run("check", special, "exe:*")
    assert r.status != 0 and "not a regular file" in r.stderr, r
    with pytest.raises(BlockingIOError):
        os.read(fd, 4096)
    os.close(fd)


@needs_root
def test_root_opens_named_debug_files_only_where_they_are(built, tmp_path):
    other = tmp_path / "other"
    shutil.copy(built("calls"), other)
    fd = opened(other)
    os.set_blocking(fd, False)
    path = tmp_path / "alt"
    with_altlink(built("calls"), path, str(other))
    r = jab.run("trace", "-n", "1", "-o", "/dev/null", "exe:work x", "--", path, "1", "1")
    assert r.status == 0, r
    with pytest.raises(BlockingIOError):
        os.read(fd, 4096)
    with_altlink(built("calls"), path, "other")
    r = jab.run("trace", "-n", "1", "-o", "/dev/null", "exe:work x", "--", path, "1", "1")
    assert r.status == 0, r
    assert os.read(fd, 4096)
    os.close(fd)
