"""Scope DATA_ON_GOLDEN: a start restores the memory of the golden snapshot onto the actor's own volumes. Real runsc, built daemon."""

import os
import unittest

import ate
import crash
import scenario

TEMPLATE = """  snapshots: {golden: true, onSuspend: DATA_ON_GOLDEN}
  volumes: [{name: data, durableDir: {}}]
  terminationGrace: 5s
"""
MOUNT = "    volumeMounts: [{name: data, mountPath: /data}]\n"


class OnGolden(scenario.Case):
    replicas = 3
    keep = ""

    def file(self, template=TEMPLATE):
        text = scenario.objects(replicas=self.replicas, template=template, container=MOUNT)
        if self.keep:
            text = text.replace('value: "8080"}]', f'value: "8080"}}, {{name: KEEP, value: "{self.keep}"}}]')
        return text

    def golden(self):
        return self.daemon.get("/v1/templates/counter").json["status"]["golden"]

    def wait_golden(self, state="Ready"):
        ate.wait_until(lambda: self.golden()["state"] == state, 60, "golden " + state)
        return self.golden()

    def live(self, name, path):
        uid = self.daemon.actor(name)["metadata"]["uid"]
        return os.path.join(self.daemon.state_dir, "actors", uid, "volumes", "data", path)

    def put(self, text, name="c1", path="/data/x"):
        self.proxy(name, f"/write?path={path}&data={text}")

    def read(self, name="c1", path="/data/x"):
        return self.proxy(name, "/read?path=" + path).decode()

    def resume(self, name="c1"):
        return self.verb(name, "resume")["status"]["restoredFrom"]

    def kept(self, what, name="c1"):
        return self.proxy(name, "/kept?do=" + what).decode()


class Open(OnGolden):
    """The golden guest has a file open and mapped on the volume."""
    keep = "/data/kept"

    def begun(self):
        self.wait_golden()
        self.create()
        self.assertEqual(self.resume(), "golden")
        self.assertEqual((self.kept("read"), self.kept("map")), ("golden\n", "golden\n"))

    def again(self):
        self.verb("c1", "suspend")
        self.assertEqual(self.resume(), "data-on-golden")

    def test_what_was_written_since_is_what_it_finds(self):
        self.begun()
        for text in ("much-longer-than-it-was", "abc", ""):
            with self.subTest(text):
                self.put(text, path="/data/kept")
                self.assertEqual(self.count(), 1)
                self.again()
                self.assertEqual(self.kept("read"), text)
                if text:  # of an empty file there is nothing to map
                    self.assertEqual(self.kept("map").rstrip("\0"), text[:7])
                self.assertEqual(self.kept("append"), "4\n")  # where the golden guest stood: behind its 7 bytes
                self.assertEqual(self.read(path="/data/kept").encode(), text.encode()[:7].ljust(7, b"\0") + b"more" + text.encode()[11:])
        path = self.live("c1", "kept")
        os.unlink(path)
        with open(path, "w", encoding="ascii") as file:
            file.write("of another inode")
        self.again()
        self.assertEqual(self.kept("read"), "of another inode")

    def test_what_is_not_there_is_told_and_leaves_a_way_on(self):
        self.begun()
        golden = self.golden()["snapshot"]
        self.put("mine")
        for how, status, problem in ((None, 409, "snapshot-incompatible"), (os.mkdir, 500, "runtime-failed"),
                                     (os.mkfifo, 500, "runtime-failed"), (lambda path: os.symlink("x", path), 500, "runtime-failed")):
            with self.subTest(problem, how=how):
                path = self.live("c1", "kept")
                os.unlink(path)
                if how:
                    how(path)
                self.verb("c1", "suspend")
                reply = self.daemon.verb("c1", "resume")
                self.assertEqual((reply.status, reply.problem), (status, problem), reply)
                self.assertIn("onto the actor's own volumes", reply.json["detail"])
                self.assertEqual(reply.json.get("file"), None if how else "/data/kept")
                self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
                if how:
                    os.rmdir(path) if how == os.mkdir else os.unlink(path)
                self.assertEqual(self.verb("c1", "resume", {"boot": True})["status"]["restoredFrom"], "boot")
                self.assertEqual((self.read(), self.kept("read")), ("mine", "golden\n"))
                self.again()  # it made the file at its start: all is well again
        self.assertEqual((self.golden()["state"], self.golden()["snapshot"]), ("Ready", golden))
        self.assertEqual(self.sandboxes(), 1)

    def sandboxes(self):
        return len(os.listdir(os.path.join(self.daemon.run_dir, "actors")))


class Life(OnGolden):

    def saved(self):
        self.wait_golden()
        self.create()
        self.assertEqual(self.resume(), "golden")
        self.assertEqual((self.count(), self.count()), (1, 2))
        self.put("own")
        self.verb("c1", "suspend")

    def test_a_connection_wakes_it_a_fork_and_a_new_daemon_do_too(self):
        self.saved()
        self.assertEqual(self.count(), 1)
        self.assertEqual(self.read(), "own")
        self.put("newer")
        snapshot = self.verb("c1", "suspend")["status"]["snapshot"]
        row = self.daemon.get("/v1/snapshots/" + snapshot).json
        self.assertEqual((row["scope"], row["template"]["generation"]), ("DATA_ON_GOLDEN", 1))
        self.assertLess(row["bytes"], 1 << 20)
        self.assertEqual(self.daemon.request("POST", f"/v1/snapshots/{snapshot}/verify").status, 200)
        reply = self.daemon.request("POST", "/v1/actors", {"metadata": {"name": "f1"}, "spec": {"fromSnapshot": snapshot}})
        self.assertEqual(reply.status, 201, reply)
        self.daemon.stop()
        self.daemon.start()
        self.daemon.wait_ready()
        for name in ("c1", "f1"):
            self.assertEqual(self.resume(name), "data-on-golden")
            self.assertEqual((self.count(name), self.read(name)), (1, "newer"))
        self.put("of-the-fork", "f1")
        self.assertEqual(self.read("c1"), "newer")

    def test_without_a_golden_snapshot_it_is_told_and_starts_cold_when_asked(self):
        self.saved()
        golden = self.golden()["snapshot"]
        self.daemon.stop()
        os.truncate(os.path.join(self.daemon.state_dir, "snapshots", golden, "pages.img"), 4096)
        self.daemon.start()
        self.ready()
        reply = self.daemon.verb("c1", "resume")
        self.assertEqual((reply.status, reply.problem), (409, "snapshot-corrupt"), reply)
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        # It is given up and another one built; this start waits for that.
        self.assertEqual(self.resume(), "data-on-golden")
        self.assertNotEqual(self.golden()["snapshot"], golden)
        self.assertEqual((self.count(), self.read()), (1, "own"))

    def test_refusals(self):
        for template, field in ((TEMPLATE.replace("golden: true, ", ""), "spec.snapshots.onSuspend"),
                                ("  snapshots: {golden: true, onPause: DATA_ON_GOLDEN}\n", "spec.snapshots.onPause")):
            text = scenario.template_text(name="bad", template=template)
            reply = self.daemon.request("POST", "/v1/validate", text, {"Content-Type": "application/yaml"})
            self.assertEqual(reply.status, 422, reply)
            self.assertIn(field, [problem["field"] for problem in reply.json["problems"]])


class Crash(unittest.TestCase):
    """kill -9 at every step of a save and of a start: the actor has its files, and the golden memory again."""

    POINTS = ("suspend-before-intent", "suspend-after-intent", "suspend-after-checkpoint", "suspend-after-seal", "suspend-after-commit",
              "resume-before-intent", "resume-after-intent", "resume-after-launch", "resume-after-ready", "resume-after-commit")

    @classmethod
    def tearDownClass(cls):
        crash.Prepared.remove()

    def test_killed_at_every_step(self):
        rig = crash.Rig()
        self.addCleanup(rig.close)
        rig.daemon.write("objects.yaml", scenario.objects(replicas=4, template=TEMPLATE, container=MOUNT))
        rig.template = "counter"
        rig.start()
        ate.wait_until(lambda: rig.daemon.get("/v1/templates/counter").json["status"].get("golden", {}).get("state") == "Ready", 60, "a golden snapshot")
        self.assertEqual(rig.call("POST", "/v1/actors", {"metadata": {"name": "c1"}, "spec": {"template": {"name": "counter"}}}).status, 201)
        for number, point in enumerate(self.POINTS):
            with self.subTest(point):
                text = f"text-{number}"
                reply = rig.call("GET", f"/v1/actors/c1/proxy/8080/write?path=/data/x&data={text}")
                self.assertEqual(reply.status, 200, reply)
                if point.startswith("resume"):
                    self.assertEqual(rig.daemon.verb("c1", "suspend").status, 200)
                rig.arm(point + "=kill")
                with self.assertRaises(crash.Died):
                    rig.call("POST", "/v1/actors/c1/" + point.partition("-")[0])
                rig.daemon.wait_exit(30)
                self.assertTrue(rig.fired())
                rig.start()
                status = rig.settled_actor()["status"]
                self.assertIn(status["state"], ("SUSPENDED", "CRASHED"))
                body = {"boot": True} if status["state"] == "CRASHED" else None
                started = rig.daemon.verb("c1", "resume", body)
                self.assertEqual(started.status, 200, started)
                self.assertEqual(started.json["status"]["restoredFrom"], "boot" if body else "data-on-golden")
                self.assertEqual(rig.call("GET", "/v1/actors/c1/proxy/8080/read?path=/data/x").body.decode(), text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
