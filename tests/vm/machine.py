"""The host's side of tests/vm: makes the disks and boots the emulated machine. Python standard library only."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

import ate
import scenario

TOP = pathlib.Path(ate.TOP)
HERE = TOP / "tests" / "vm"
CACHE = TOP / "build" / "vm"
BOOT_LIMIT = 1500.0  # seconds for all cases of a boot; a normal run takes a fifth of that


def require_tools():
    """Skips, with the reason, where a machine can't be made."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root")
    if os.uname().machine != "x86_64":
        raise unittest.SkipTest("the emulated machine is an x86_64 one")
    missing = [name for name in ("qemu-system-x86_64", "mmdebstrap", "mke2fs", "meson") if not shutil.which(name)]
    if missing:
        raise unittest.SkipTest("not installed: %s (.ci/install-deps test)" % ", ".join(missing))


def root_image():
    """Directory with root.img, vmlinuz and initrd; made once per change of tests/vm/make-root."""
    script = HERE / "make-root"
    key = hashlib.sha256(script.read_bytes() + os.environ.get("ATE_VM_SUITE", "").encode()).hexdigest()[:12]
    directory = CACHE / key
    if not (directory / "root.img").exists():
        run = subprocess.run([script, directory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", check=False)
        if run.returncode != 0:
            raise unittest.SkipTest("no root file system could be made: " + " | ".join(run.stdout.splitlines()[-5:]))
    return directory


def install_tree(target):
    """What `meson install` of the build under test puts on a machine."""
    build = os.path.dirname(ate.find_binary())
    if not os.path.isdir(os.path.join(build, "meson-info")):
        raise unittest.SkipTest(build + " is no Meson build directory: nothing to install from")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", target], check=True, stdout=subprocess.DEVNULL,
                   stdin=subprocess.DEVNULL)


def data_disk(path, scratch):
    """The second disk: the daemon as installed, runsc, the test image, the cases."""
    tree = pathlib.Path(scratch) / "data"
    for name in ("tests/integration", "vm", "install"):
        (tree / name).mkdir(parents=True)
    install_tree(tree / "install")
    shutil.copy(scenario.runsc(), tree / "runsc")
    (tree / "runsc").chmod(0o755)
    shutil.copy(scenario.image(), tree / "workload.tar")
    shutil.copy(HERE / "guest.py", tree / "vm")
    for name in ("ate.py", "scenario.py"):
        shutil.copy(TOP / "tests" / "integration" / name, tree / "tests" / "integration")
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, path, "512M"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


class Machine:
    """Two boots of one disk. `cases` maps "Class.test" to its line of tests/vm/guest.py."""

    def __init__(self):
        self.scratch = tempfile.mkdtemp(prefix="ate-vm-")
        self.cases = {}
        self.started = []
        self.facts = {}
        self.trouble = ""
        self.images = root_image()
        self.disk = os.path.join(self.scratch, "root.img")
        self.data = os.path.join(self.scratch, "data.img")
        subprocess.run(["cp", "--sparse=always", "--reflink=auto", self.images / "root.img", self.disk], check=True)
        data_disk(self.data, self.scratch)

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def command(self, boot, console):
        # Always emulated: what a nested KVM can do differs from one machine to the next.
        return ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "EPYC", "-smp", "2", "-m", "3072", "-display", "none",
                "-no-reboot", "-nic", "none", "-monitor", "none",
                "-kernel", self.images / "vmlinuz", "-initrd", self.images / "initrd",
                "-append", "root=/dev/vda rw rootflags=prjquota console=ttyS0 quiet panic=-1 ate.boot=%d" % boot,
                "-drive", "file=%s,format=raw,if=virtio" % self.disk,
                "-drive", "file=%s,format=raw,if=virtio,readonly=on" % self.data,
                "-serial", "file:" + console, "-serial", "stdio"]

    def boot(self, number):
        """Runs until the cases of that boot have ended, then cuts the power."""
        console = os.path.join(self.scratch, "console-%d" % number)
        errors = os.path.join(self.scratch, "qemu-%d" % number)
        with open(errors, "wb") as log:
            qemu = subprocess.Popen(self.command(number, console), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        timer = threading.Timer(BOOT_LIMIT, qemu.kill)
        timer.start()
        ended = False
        try:
            for raw in qemu.stdout:
                ended = self.take(raw)
                if ended:
                    break
        finally:
            qemu.kill()
            qemu.wait()
            qemu.stdout.close()
            timer.cancel()
        if not ended:
            self.trouble = "boot %d did not come to its end; last case started: %s\n%s\n---- console ----\n%s" % (
                number, self.started[-1:], tail(errors), tail(console))
        return ended

    def take(self, raw):
        """One line of the guest; true for its last one."""
        try:
            line = json.loads(raw)
        except ValueError:
            return False
        if "case" in line:
            self.cases[line["case"]] = line
            print("    %s: %s, %.1f s" % (line["case"], "passed" if line["passed"] else "FAILED", line["seconds"]), flush=True)
            if not line["passed"]:
                print("      " + line["detail"].replace("\n", "\n      "), flush=True)
        elif "started" in line:
            self.started.append(line["started"])
        elif "kernel" in line:
            self.facts = line
            print("    up after %.0f s: Linux %s, systemd %s" % (line["seconds"], line["kernel"], line["systemd"]), flush=True)
        return "end" in line


def tail(path, size=4000):
    try:
        with open(path, "rb") as file:
            return file.read()[-size:].decode(errors="replace")
    except FileNotFoundError:
        return ""
