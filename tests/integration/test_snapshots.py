"""Snapshots that somebody damaged or that do not fit this host: told before the actor runs, the state stays, and the explicit ways
out (another snapshot, revert, boot) work. Real runsc, built daemon."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import unittest

import ate
import scenario


def flip(path, where):
    """One byte, with the times as they were."""
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[where if where >= 0 else len(data) + where] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def edit(directory, **members):
    """The manifest with other members; what the store knows of it is left alone."""
    path = directory / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest.update(members)
    path.write_text(json.dumps(manifest))


def replaced_by_symlink(directory, name):
    shutil.move(directory / name, directory.parent.parent / "moved")
    (directory / name).symlink_to(directory.parent.parent / "moved")


def replaced_by_fifo(directory, name):
    (directory / name).unlink()
    os.mkfifo(directory / name, 0o600)


# case T32
DAMAGES = {
    "payload truncated": lambda d: os.truncate(d / "pages.img", 4096),
    "payload longer": lambda d: os.truncate(d / "pages.img", (d / "pages.img").stat().st_size + 1),
    "payload empty": lambda d: os.truncate(d / "checkpoint.img", 0),
    "first byte of the pages": lambda d: flip(d / "pages.img", 0),
    "last byte of the pages": lambda d: flip(d / "pages.img", -1),
    "a byte of the checkpoint": lambda d: flip(d / "checkpoint.img", 5000),
    "a byte of the page index": lambda d: flip(d / "pages_meta.img", 100),
    "pages missing": lambda d: (d / "pages.img").unlink(),
    "a file too many": lambda d: (d / "more.img").write_text("x"),
    "payload behind a symbolic link": lambda d: replaced_by_symlink(d, "pages.img"),
    "payload is a pipe": lambda d: replaced_by_fifo(d, "pages.img"),
    "manifest missing": lambda d: (d / "manifest.json").unlink(),
    "manifest empty": lambda d: os.truncate(d / "manifest.json", 0),
    "manifest huge": lambda d: os.truncate(d / "manifest.json", 1 << 30),
    "manifest is a pipe": lambda d: replaced_by_fifo(d, "manifest.json"),
    "manifest of something else": lambda d: (d / "manifest.json").write_text("{}"),
    "manifest no JSON": lambda d: (d / "manifest.json").write_bytes(b"\xff" * 100),
    "a byte of the manifest": lambda d: flip(d / "manifest.json", 30),
    "manifest edited": lambda d: edit(d, memoryBytes=1),
    "manifest of another snapshot": lambda d: edit(d, id="01aaaaaaaaaaaaaaaaaaaaaaaa"),
    "directory missing": shutil.rmtree,
    "directory others can enter": lambda d: os.chmod(d, 0o755),
    "directory of another owner": lambda d: os.chown(d, 1234, 1234),
    "directory is a file": lambda d: (shutil.rmtree(d), d.write_text("x")),
}

# case T31; slug, edit, field, what the problem names. With the manifest, what the store holds of it is changed too: as if this host were another one.
MISFITS = {
    "a CPU feature this host has not": ("incompatible", {"cpuFeatures": ["fpu", "warp_drive"]}, "cpuFeatures", "warp_drive"),
    "another runsc": ("incompatible", {"assets": {"runsc": "sha256:" + "0" * 64}}, "assets.runsc", "0" * 64),
    "no runsc": ("corrupt", {"assets": {}}, "assets.runsc", "runsc"),
    "more memory than any worker": ("incompatible", {"memoryBytes": 1 << 50}, None, str(1 << 50)),
    "another platform": ("incompatible", {"runtime": {"network": "sandbox", "overlay": "root:dir", "platform": "warp"}}, "runtime.platform", "warp"),
    "another network": ("incompatible", {"runtime": {"network": "host", "overlay": "root:dir", "platform": "systrap"}}, "runtime.network", "host"),
    "another sandbox class": ("incompatible", {"sandboxClass": "microvm"}, "sandboxClass", "microvm"),
    "a version of the future": ("incompatible", {"version": 1000}, None, "1000"),
    "a configuration that is none": ("corrupt", {"ociSpec": "{"}, None, ""),
}


class Tampering(scenario.Case):
    def setUp(self):
        super().setUp()
        self.before = self.daemon.seen()
        self.create()
        self.assertEqual(self.count(), 1)
        self.snapshot = self.verb("c1", "suspend")["status"]["snapshot"]
        self.directory = pathlib.Path(self.daemon.state_dir, "snapshots", self.snapshot)
        self.kept = pathlib.Path(self.daemon.root, "kept")
        shutil.copytree(self.directory, self.kept)
        self.expected = 1

    def put_back(self):
        """The snapshot as it was made, with the right owner and modes."""
        if self.directory.is_dir():
            shutil.rmtree(self.directory)
        elif self.directory.exists():
            self.directory.unlink()
        shutil.copytree(self.kept, self.directory)

    def refused(self, slug, reply):
        self.assertEqual((reply.status, reply.problem), (409, slug), reply)
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        self.assertEqual(self.daemon.actor("c1")["status"]["snapshot"], self.snapshot)
        ate.wait_until(lambda: not self.sandbox_processes(), 5, "an end of the sandbox")
        return reply.json

    def test_damage_is_found_before_the_actor_runs_and_nothing_is_lost(self):
        for name, damage in DAMAGES.items():
            with self.subTest(name):
                damage(self.directory)
                self.refused("snapshot-corrupt", self.daemon.verb("c1", "resume"))
                self.refused("snapshot-corrupt", self.daemon.get("/v1/actors/c1/proxy/8080/count"))
                self.refused("snapshot-corrupt", self.daemon.request("POST", f"/v1/snapshots/{self.snapshot}/verify"))
                self.assertEqual(self.daemon.get(f"/v1/snapshots/{self.snapshot}").status, 200)
            self.put_back()
        self.assertEqual(self.count(), 2)  # none of it harmed what was saved
        self.delete()
        self.settled(self.before, ignore=("files",))

    def test_the_ways_out_of_a_damaged_snapshot(self):
        (self.directory / "pages.img").unlink()
        self.refused("snapshot-corrupt", self.daemon.verb("c1", "resume"))
        self.verb("c1", "resume", {"boot": True})
        self.assertEqual(self.count(), 1)
        self.verb("c1", "suspend")  # a good one again
        self.assertEqual(self.count(), 2)
        self.verb("c1", "pause")
        pause = self.daemon.actor("c1")["status"]["pauseSnapshot"]
        flip(pathlib.Path(self.daemon.state_dir, "snapshots", pause, "pages.img"), 0)
        reply = self.daemon.verb("c1", "resume")
        self.assertEqual((reply.status, reply.problem), (409, "snapshot-corrupt"), reply)
        self.assertEqual(self.daemon.state("c1"), "PAUSED")  # never silently the older one
        self.verb("c1", "revert")
        self.assertEqual(self.count(), 2)
        self.delete()

    def test_damage_while_the_daemon_was_away_is_found(self):
        self.daemon.stop()
        flip(self.directory / "checkpoint.img", -1)
        self.daemon.start()
        self.ready()
        self.refused("snapshot-corrupt", self.daemon.verb("c1", "resume"))
        self.daemon.stop()
        shutil.rmtree(self.directory)
        self.daemon.start()
        self.ready()
        self.refused("snapshot-corrupt", self.daemon.verb("c1", "resume"))
        self.delete()
        self.assertEqual(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")), [])

    def test_an_actor_with_a_damaged_snapshot_can_be_deleted(self):
        for name in ("manifest missing", "directory is a file", "payload is a pipe"):
            with self.subTest(name):
                DAMAGES[name](self.directory)
                self.delete()
                ate.wait_until(lambda: not os.path.lexists(self.directory), 5, "the removal of its files")
            self.create()
            self.assertEqual(self.count(), 1)
            self.snapshot = self.verb("c1", "suspend")["status"]["snapshot"]
            self.directory = pathlib.Path(self.daemon.state_dir, "snapshots", self.snapshot)

    def test_what_does_not_fit_this_host_is_refused_before_anything_is_started(self):
        for name, (slug, members, field, text) in MISFITS.items():
            with self.subTest(name):
                self.restarted(lambda changes=members: edit(self.directory, **changes))
                problem = self.refused("snapshot-" + slug, self.daemon.verb("c1", "resume"))
                if field:
                    self.assertEqual(problem["field"], field)
                self.assertIn(text, json.dumps(problem))
            self.restarted(self.put_back)
        self.assertEqual(self.count(), 2)

    def restarted(self, change):
        """The daemon with a manifest that its store believes."""
        self.daemon.stop()
        change()
        self.adopt_manifest()
        self.daemon.start()
        self.ready()

    def adopt_manifest(self):
        """The digest of the manifest as it is now, into the store of a stopped daemon."""
        digest = hashlib.sha256((self.directory / "manifest.json").read_bytes()).hexdigest()
        base = sqlite3.connect(os.path.join(self.daemon.state_dir, "state.db"))
        try:
            [(record,)] = base.execute("SELECT record FROM snapshots WHERE id = ?", (self.snapshot,))
            base.execute("UPDATE snapshots SET record = ? WHERE id = ?", (re.sub(rb"B@[0-9a-f]{64}", b"B@" + digest.encode(), record), self.snapshot))
            base.commit()
        finally:
            base.close()


if __name__ == "__main__":
    unittest.main()
