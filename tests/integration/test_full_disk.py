"""A state directory on a small file system that fills up: before a suspend, in the middle of one, for the store, at the start.
Nothing that was answered is lost, the actor goes on, and everything works again as soon as there is room. Real runsc."""

import contextlib
import errno
import os
import shutil
import subprocess
import threading
import unittest

import ate
import scenario

MIB = 1 << 20


class SmallDisk:
    """ext4 in a sparse file, or a tmpfs where no loop device is to be had; `mounted` says what."""

    def __init__(self, image, path, size):
        self.path = path
        os.mkdir(path, 0o700)
        with open(image, "wb") as file:
            os.truncate(file.fileno(), size)
        made = shutil.which("mkfs.ext4") and subprocess.run(
            ["mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard,lazy_itable_init=1", image], stderr=subprocess.DEVNULL).returncode == 0
        if not made or subprocess.run(["mount", "-o", "loop", image, path], stderr=subprocess.DEVNULL).returncode != 0:
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True, text=True)
            if done.returncode != 0:
                raise unittest.SkipTest("no small file system can be mounted here: " + done.stderr.strip())
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(path, "lost+found"))
        os.chmod(path, 0o710)
        self.ballast = os.path.join(path, ".ballast")

    def free(self):
        info = os.statvfs(self.path)
        return info.f_bavail * info.f_frsize

    def fill(self, leave=0):
        """Takes what is free but `leave` bytes (to a block), in real blocks."""
        descriptor = os.open(self.ballast, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for step in (16 * MIB, MIB, 65536, 4096):
                while self.free() >= leave + step:
                    at = os.fstat(descriptor).st_size
                    try:
                        os.posix_fallocate(descriptor, at, step)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break
        finally:
            os.close(descriptor)

    def empty(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.ballast)


class FullDisk(scenario.Case):
    reserve = "32Mi"
    replicas = 1

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.daemon = ate.Daemon(spec={"diskReserve": self.reserve})
        self.addCleanup(self.daemon.close)
        self.disk = SmallDisk(os.path.join(self.daemon.root, "disk"), self.daemon.state_dir, 512 * MIB)
        self.daemon.write("objects.yaml", self.file())
        self.daemon.start()
        self.ready()

    def running(self, mib=0):
        self.create()
        self.assertEqual(self.count(), 1)
        if mib:
            self.proxy("c1", f"/alloc?mib={mib}")

    def snapshots(self):
        return sorted(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")))

    def refused(self, reply):
        self.assertEqual((reply.status, reply.problem), (507, "disk-full"), (reply, self.daemon.log()[-1500:]))
        return reply.json


class BelowTheReserve(FullDisk):
    def test_a_suspend_is_refused_before_the_actor_stands_still(self):
        self.running()
        self.disk.fill(leave=16 * MIB)
        for verb in ("suspend", "pause"):
            problem = self.refused(self.daemon.verb("c1", verb))
            self.assertLessEqual(problem["freeBytes"], 16 * MIB)
            self.assertGreater(problem["neededBytes"], 32 * MIB)
        self.assertEqual(self.daemon.state("c1"), "RUNNING")
        self.assertEqual(self.count(), 2)
        self.assertEqual(self.snapshots(), [])
        self.assertNotIn("SUSPENDING", [event.get("to") for event in self.daemon.events()])
        self.disk.empty()
        self.verb("c1", "suspend")
        self.assertEqual(self.count(), 3)
        self.delete()


class InTheMiddle(FullDisk):
    reserve = "0"

    def fill_when_it_writes(self, leave):
        """Takes the space as soon as a snapshot directory appears; returns the thread."""
        known = set(self.snapshots())
        gone = threading.Event()

        def watch():
            with contextlib.suppress(TimeoutError):
                ate.wait_until(lambda: gone.is_set() or set(self.snapshots()) - known, 20)
                self.disk.fill(leave)

        thread = threading.Thread(target=watch)
        thread.start()
        self.addCleanup(gone.set)
        return thread

    # case T15
    def test_no_space_in_the_middle_of_a_checkpoint(self):
        self.running(mib=96)
        expected, last, failures = 1, None, 0
        for leave in (0, MIB, 8 * MIB, 40 * MIB, 90 * MIB, 97 * MIB):
            with self.subTest(leave=leave):
                filler = self.fill_when_it_writes(leave)
                reply = self.daemon.verb("c1", "suspend")
                filler.join()
                if reply.status == 200:  # it was quicker, or what was left was enough
                    self.disk.empty()
                    last = reply.json["status"]["snapshot"]
                else:
                    failures += 1
                    problem = self.refused(reply)
                    self.assertIn("no", problem["detail"].lower())
                    self.assertEqual(self.daemon.state("c1"), "RUNNING")
                    expected += 1
                    self.assertEqual(self.count(), expected)  # it runs while the disk is full
                    self.disk.empty()
                    self.assertEqual(self.daemon.actor("c1")["status"]["snapshot"], last)
                    ate.wait_until(lambda: self.snapshots() == ([last] if last else []), 5, "no stray bytes")
                    last = self.verb("c1", "suspend")["status"]["snapshot"]
                expected += 1
                self.assertEqual(self.count(), expected)
        self.assertGreater(failures, 1)
        self.delete()
        ate.wait_until(lambda: not self.snapshots(), 5, "removal of its snapshots")


class Store(FullDisk):
    POOL = {"spec": {"sandboxClass": "gvisor", "replicas": 1, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}}

    def test_the_store_refuses_and_recovers(self):
        self.running()
        self.disk.fill()
        replies = []
        made = []
        for index in range(400):  # the log of the store has room of its own for a while
            reply = self.daemon.request("PUT", f"/v1/pools/p{index}", {**self.POOL, "metadata": {"annotations": {"a": "x" * 4000}}})
            replies.append(reply.status)
            if reply.status != 201:
                self.refused(reply)
                break
            made.append(f"p{index}")
        self.assertEqual(replies[-1], 507)
        for _ in range(3):
            self.refused(self.daemon.request("POST", "/v1/actors", {"metadata": {"name": "late", "annotations": {"a": "x" * 4000}},
                                                                     "spec": {"template": {"name": "counter"}}}))
        self.assertEqual(self.daemon.get("/v1/actors/late").status, 404)  # nothing of it happened
        self.assertEqual(self.daemon.get("/healthz").status, 200)
        self.assertEqual(self.count(), 2)
        self.disk.empty()
        self.create("late")
        self.verb("c1", "suspend")
        self.daemon.stop()
        self.daemon.start()
        self.ready()
        for name in made:
            self.assertEqual(self.daemon.get("/v1/pools/" + name).status, 200, name)
        self.assertEqual(self.count(), 3)

    def test_the_end_of_an_actor_is_not_lost_on_a_full_disk(self):
        self.running()
        self.disk.fill()
        for index in range(400):
            if self.daemon.request("PUT", f"/v1/pools/p{index}", {**self.POOL, "metadata": {"annotations": {"a": "x" * 4000}}}).status != 201:
                break
        self.daemon.get("/v1/actors/c1/proxy/8080/exit?code=7")
        ate.wait_until(lambda: not self.sandbox_processes(), 10, "the end of the sandbox")
        self.disk.empty()
        self.daemon.wait_state("c1", "EXITED", 20)
        self.assertEqual(self.daemon.actor("c1")["status"]["exitCode"], 7)
        self.verb("c1", "revert")
        self.delete()

    def test_a_full_disk_can_be_emptied_through_the_api(self):
        self.running(mib=32)
        self.verb("c1", "suspend")
        self.disk.fill()
        reply = self.daemon.request("DELETE", "/v1/actors/c1")
        self.assertIn(reply.status, (200, 204), reply)
        ate.wait_until(lambda: self.disk.free() > 16 * MIB, 10, "free space")

    def test_a_start_on_a_full_disk_says_so(self):
        self.running()
        self.verb("c1", "suspend")
        self.daemon.stop()
        self.disk.fill()
        self.daemon.spawn()
        self.assertEqual(self.daemon.wait_exit(), 3)
        self.assertIn("refusing to start: state database: no space left", self.daemon.log())
        self.assertIn("may be removed by hand", self.daemon.log())
        self.disk.empty()
        self.daemon.start()
        self.ready()
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        self.assertEqual(self.count(), 2)

    def test_a_start_clears_what_a_cut_off_suspend_or_restore_filled_the_disk_with(self):
        self.running()
        uid = self.daemon.actor("c1")["metadata"]["uid"]
        for count, unfinished in enumerate(("snapshots/01hzzzzzzzzzzzzzzzzzzzzzzz.partial", f"actors/{uid}/volumes.new"), 2):
            with self.subTest(unfinished=unfinished):
                self.verb("c1", "suspend")
                self.daemon.stop()
                partial = os.path.join(self.daemon.state_dir, unfinished)
                os.mkdir(partial, 0o700)
                self.disk.fill()
                os.rename(self.disk.ballast, os.path.join(partial, "big"))
                self.disk.fill()
                self.daemon.start()
                self.ready()
                self.assertFalse(os.path.exists(partial))
                self.assertEqual(self.count(), count)


if __name__ == "__main__":
    unittest.main()
