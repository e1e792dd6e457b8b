#!/usr/bin/env python3
"""examples/make-oci: what it packs is what the store unpacks.

usage: make_oci_test.py IMAGE-HELPER MAKE-OCI [unittest arguments]"""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest

HELPER, MAKE_OCI = sys.argv[1:3]
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")  # cap_net_raw=ep


def describe(root):
    """Everything that must survive, by name."""
    found = {}
    links = {}
    for directory, names, files in os.walk(os.fsencode(root)):
        for name in names + files:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            inside = os.path.relpath(path, os.fsencode(root))
            entry = [stat.filemode(info.st_mode), info.st_uid, info.st_gid, int(info.st_mtime)]
            if stat.S_ISREG(info.st_mode):
                with open(path, "rb") as data:
                    entry.append(data.read())
                links.setdefault(info.st_ino, []).append(inside)
            if stat.S_ISLNK(info.st_mode):
                entry.append(os.readlink(path))
            elif stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
                entry.append(info.st_rdev)
            else:
                entry.append({key: os.getxattr(path, key) for key in os.listxattr(path, follow_symlinks=False)})
            found[inside] = entry
    return found, sorted(sorted(group) for group in links.values() if len(group) > 1)


def make_tree(root):
    os.makedirs(os.path.join(root, "bin"))
    os.makedirs(os.path.join(root, "empty"))
    os.makedirs(os.path.join(root, "deep", *["d" * 40] * 6))

    def write(name, data, mode=0o644):
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        with open(path, "wb") as out:
            out.write(data)
        os.chmod(path, mode)
        return path

    tool = write("bin/tool", b"#!", 0o4755)
    os.link(tool, os.path.join(root, "bin", "again"))
    os.symlink("tool", os.path.join(root, "bin", "s"))
    os.symlink("x" * 180, os.path.join(root, "long-target"))
    write(b"bytes-\xff\xc3\xa4 \n", b"odd name")
    write("n" * 240, b"long name")
    write("u-\u00e4\u65e5", b"utf-8")
    write("zeros", b"\0" * 300_000)
    write("data", os.urandom(100_000))
    os.mkfifo(os.path.join(root, "fifo"), 0o600)
    os.chmod(os.path.join(root, "empty"), 0o1777)
    if os.geteuid() == 0:
        os.mknod(os.path.join(root, "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.chown(os.path.join(root, "data"), 1234, 2_000_000_000)
        os.setxattr(tool, "security.capability", CAPABILITY)
    try:
        os.setxattr(os.path.join(root, "empty"), "user.note", b"\xffhi")
    except OSError:
        pass  # no user attributes on this file system
    for directory, names, files in os.walk(os.fsencode(root), topdown=False):
        for name in names + files:
            os.utime(os.path.join(directory, name), (1_600_000_000, 1_600_000_000), follow_symlinks=False)


class MakeOci(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ate-make-oci-")
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        self.root = self.file("root")
        self.archive = self.file("image.tar")

    def file(self, name):
        return os.path.join(self.dir, name)

    def make(self, *arguments):
        return subprocess.run([MAKE_OCI, *arguments], capture_output=True, text=True, check=False)

    def unpack(self, reference, store="store"):
        done = subprocess.run([HELPER, "ensure", self.file(store), reference], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_directory_comes_out_as_it_went_in(self):
        make_tree(self.root)
        for compression in ("gzip", "none"):
            with self.subTest(compression):
                done = self.make(self.root, self.archive, "--compression", compression, "--tag", "v1", "--entrypoint", '["/bin/tool"]')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.splitlines()[1], f"oci-archive:{self.archive}:v1")
                rootfs = self.unpack(done.stdout.splitlines()[1], compression)
                self.assertEqual(describe(rootfs), describe(self.root))

    def test_a_tar_comes_out_as_it_went_in(self):
        make_tree(self.root)
        packed = self.file("root.tar.xz")
        with tarfile.open(packed, "w:xz", format=tarfile.GNU_FORMAT) as tar:
            tar.add(self.root, arcname=".")
        done = self.make(packed, self.archive)
        self.assertEqual(done.returncode, 0, done.stderr)
        unpacked, links = describe(self.unpack("oci-archive:" + self.archive))
        wanted, wanted_links = describe(self.root)
        for entry in wanted.values():
            entry[4:] = [{} if isinstance(part, dict) else part for part in entry[4:]]  # GNU tar has no attributes
        self.assertEqual((unpacked, links), (wanted, wanted_links))

    def test_the_same_input_gives_the_same_bytes(self):
        make_tree(self.root)
        for name in ("a.tar", "b.tar"):
            self.assertEqual(self.make(self.root, self.file(name)).returncode, 0)
        with open(self.file("a.tar"), "rb") as first, open(self.file("b.tar"), "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_skopeo_reads_it_the_same_way(self):
        if shutil.which("skopeo") is None:
            self.skipTest("skopeo is not installed")
        make_tree(self.root)
        done = self.make(self.root, self.archive, "--tag", "v1", "--env", "A=b", "--workdir", "/bin", "--user", "1:2", "--stop-signal", "SIGINT")
        self.assertEqual(done.returncode, 0, done.stderr)
        copied = subprocess.run(["skopeo", "copy", "--insecure-policy", "-q", f"oci-archive:{self.archive}:v1", f"oci:{self.file('layout')}:v2"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(copied.returncode, 0, copied.stderr)
        own = self.unpack(f"oci-archive:{self.archive}:v1", "own")
        other = self.unpack(f"oci:{self.file('layout')}:v2", "other")
        self.assertEqual(os.path.relpath(own, self.file("own")), os.path.relpath(other, self.file("other")))
        self.assertEqual(describe(own), describe(other))

    def test_a_socket_is_left_out_and_said(self):
        os.mkdir(self.root)
        open(os.path.join(self.root, "f"), "wb").close()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(self.root, "s"))
            done = self.make(self.root, self.archive)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("'s' is a socket: left out", done.stderr)
        self.assertEqual(os.listdir(self.unpack("oci-archive:" + self.archive)), ["f"])

    def test_nonsense_is_refused_and_writes_nothing(self):
        os.makedirs(self.root + "/sub")
        os.makedirs(self.file("empty"))
        os.makedirs(self.file("whiteout"))
        open(self.file("whiteout/.wh.x"), "wb").close()
        with open(self.file("text"), "w", encoding="utf-8") as out:
            out.write("no tar")
        with tarfile.open(self.file("nothing.tar"), "w"):
            pass
        self.assertEqual(self.make(self.root, self.file("image.tar.good")).returncode, 0)
        for says, arguments in (
                ("does not exist", (self.file("none"), self.archive)),
                ("is empty", (self.file("empty"), self.archive)),
                ("holds no files", (self.file("nothing.tar"), self.archive)),
                (".wh.", (self.file("whiteout"), self.archive)),
                ("neither a directory nor a readable tar", (self.file("text"), self.archive)),
                ("is an image already", (self.file("image.tar.good"), self.archive)),
                ("into the tree", (self.root, self.root + "/sub/x.tar")),
                ("is a directory", (self.root, self.dir)),
                ("does not exist", (self.root, self.file("no/x.tar"))),
                ("not a JSON list", (self.root, self.archive, "--entrypoint", "[sh")),
                ("list of strings", (self.root, self.archive, "--cmd", "[1]")),
                ("NAME=VALUE", (self.root, self.archive, "--env", "X")),
                ("absolute", (self.root, self.archive, "--workdir", "app")),
                ("--tag", (self.root, self.archive, "--tag", "a b")),
                ("--user", (self.root, self.archive, "--user", "a:b:c")),
                ("--stop-signal", (self.root, self.archive, "--stop-signal", "term it"))):
            with self.subTest(says):
                done = self.make(*arguments)
                self.assertEqual(done.returncode, 1, done)
                self.assertIn(says, done.stderr)
                self.assertFalse(os.path.exists(self.archive))
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith(".make-oci")], [])

    def test_help_shows_an_example(self):
        done = self.make("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("make-oci ./root", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
