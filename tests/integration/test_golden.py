"""Golden snapshots: new actors of a template that asks for one start from a warmed guest. Real runsc, built daemon."""

import os
import signal
import unittest

import ate
import crash
import scenario

GOLDEN = "  snapshots: {golden: true}\n"
INFO = "  volumes: [{name: info, systemInfo: {}}]\n"
MOUNT = "    volumeMounts: [{name: info, mountPath: /run/ate, readOnly: true}]\n"


class Golden(scenario.Case):
    replicas = 3
    template = GOLDEN + INFO

    def file(self):
        return scenario.objects(replicas=self.replicas, template=self.template, container=MOUNT)

    def golden(self):
        return self.daemon.get("/v1/templates/counter").json["status"]["golden"]

    def wait_golden(self, state="Ready"):
        last = []

        def reached():
            last[:] = [self.golden()]
            return last[0]["state"] == state and last
        try:
            return ate.wait_until(reached, 60, "golden " + state)[0]
        except TimeoutError:
            self.fail(f"{last} {self.daemon.log()[-4000:]}")

    def on_disk(self):
        return sorted(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")))

    def builds(self):
        return [item for item in self.daemon.get("/v1/operations?limit=1000").json["items"] if item["verb"] == "golden"]

    def resume(self, name):
        return self.verb(name, "resume")["status"]["restoredFrom"]

    def test_new_actors_start_from_it_each_as_itself(self):
        golden = self.wait_golden()
        self.assertNotIn("error", golden)
        self.assertEqual(len(golden["key"]), 64)
        self.assertEqual(self.on_disk(), [golden["snapshot"]])
        self.assertEqual(self.daemon.get("/v1/actors").json["items"], [])
        self.assertEqual({worker["state"] for worker in self.daemon.get("/v1/workers").json["items"]}, {"FREE"})
        self.assertEqual(os.listdir(os.path.join(self.daemon.state_dir, "actors")), [])
        [build] = self.builds()
        self.assertEqual((build["state"], build["snapshot"]), ("DONE", golden["snapshot"]))
        before = self.daemon.seen()
        for name in ("c1", "c2"):
            self.create(name)
            self.assertEqual(self.resume(name), "golden")
        # The golden guest answered one readiness probe; nobody has counted in it.
        self.assertEqual([self.count(name) for name in ("c1", "c1", "c2")], [1, 2, 1])
        for name in ("c1", "c2"):
            self.assertEqual(self.proxy(name, "/read?path=/run/ate/uid").decode(), self.daemon.actor(name)["metadata"]["uid"])
        self.assertNotEqual(self.proxy("c1", "/random"), self.proxy("c2", "/random"))
        self.assertEqual(self.proxy("c1", "/rand"), self.proxy("c2", "/rand"))
        self.verb("c1", "revert")  # no commit of its own: as new
        self.assertEqual(self.count("c1"), 1)
        self.verb("c1", "suspend")
        self.assertEqual(self.resume("c1"), "snapshot")
        self.assertEqual(self.count("c1"), 2)
        self.verb("c2", "suspend")
        self.assertEqual(self.verb("c2", "resume", {"boot": True})["status"]["restoredFrom"], "boot")
        refused = self.daemon.request("DELETE", "/v1/snapshots/" + golden["snapshot"])
        self.assertEqual((refused.status, refused.problem), (409, "in-use"))
        self.assertEqual(refused.json["usedBy"], ["ActorTemplate default/counter generation 1"])
        for name in ("c1", "c2"):
            self.delete(name)
        self.settled(before, timeout=5, ignore=("files",))
        self.daemon.stop()
        self.daemon.start()
        self.ready()
        self.assertEqual(self.wait_golden()["snapshot"], golden["snapshot"])
        self.assertEqual(len(self.builds()), 1)  # not built again
        self.create()
        self.assertEqual(self.resume("c1"), "golden")
        self.delete()

    def test_it_goes_with_its_generation_and_follows_the_template(self):
        first = self.wait_golden()
        self.create("old")
        self.daemon.write("objects.yaml", scenario.objects(replicas=3, template=self.template + "  idle: {after: 1h, action: suspend}\n", container=MOUNT))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").json["metadata"]["generation"] == 2, 30, "generation 2")
        second = self.wait_golden()
        self.assertNotEqual((first["key"], first["snapshot"]), (second["key"], second["snapshot"]))
        self.assertEqual(self.on_disk(), sorted([first["snapshot"], second["snapshot"]]))  # an actor has the first generation
        self.assertEqual(self.resume("old"), "golden")
        self.delete("old")
        self.daemon.write("objects.yaml", scenario.objects(replicas=3, template=INFO, container=MOUNT))
        ate.wait_until(lambda: "golden" not in self.daemon.get("/v1/templates/counter").json["status"], 30, "a template without one")
        ate.wait_until(lambda: self.on_disk() == [], 90, "the end of both")
        self.create()
        self.assertEqual(self.resume("c1"), "boot")

    def test_a_damaged_one_is_told_once_and_replaced(self):
        golden = self.wait_golden()
        self.daemon.stop()
        os.truncate(os.path.join(self.daemon.state_dir, "snapshots", golden["snapshot"], "pages.img"), 4096)
        self.daemon.start()
        self.ready()
        self.create()
        reply = self.daemon.verb("c1", "resume")
        self.assertEqual((reply.status, reply.problem), (409, "snapshot-corrupt"), reply)
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        again = self.wait_golden()
        self.assertNotEqual(again["snapshot"], golden["snapshot"])
        self.assertEqual(self.resume("c1"), "golden")
        self.assertEqual(self.on_disk(), [again["snapshot"]])


class LastWorker(scenario.Case):
    replicas = 1

    def file(self):
        return scenario.objects(replicas=1, template=GOLDEN)

    def test_never_on_the_last_free_worker(self):
        def told():
            golden = self.daemon.get("/v1/templates/counter").json["status"]["golden"]
            return golden["state"] == "Pending" and "1 of 1 are free" in golden.get("error", "")
        ate.wait_until(told, 30, "the reason")
        self.create()
        self.assertEqual(self.verb("c1", "resume")["status"]["restoredFrom"], "boot")
        self.daemon.write("objects.yaml", scenario.objects(replicas=4, template=GOLDEN))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").json["status"]["golden"]["state"] == "Ready", 60, "a golden snapshot")


class Failing(scenario.Case):
    def file(self):
        return scenario.objects(replicas=3, template=GOLDEN + "  warmupSeconds: 0\n", container="    args: [--no-such-thing]\n    command: [/bin/nothing]\n")

    def test_a_build_that_fails_is_told_and_tried_again_later(self):
        def told():
            golden = self.daemon.get("/v1/templates/counter").json["status"]["golden"]
            return golden["state"] == "Failed" and golden.get("error")
        ate.wait_until(told, 60, "a failure")
        self.assertEqual(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")), [])
        ate.wait_until(lambda: os.listdir(os.path.join(self.daemon.state_dir, "actors")) == [], 5, "an end of its files")
        operations = [item for item in self.daemon.get("/v1/operations").json["items"] if item["verb"] == "golden"]
        self.assertEqual([item["state"] for item in operations], ["FAILED"])  # the next try is 10 s away
        self.assertIsNotNone(operations[0]["error"])


class Crash(unittest.TestCase):
    """kill -9, or an error, at every step of a build: nothing stays, the next one works."""

    POINTS = ("golden-after-intent", "golden-before-intent", "golden-after-checkpoint", "golden-after-seal",
              "golden-before-trial", "golden-after-trial", "golden-after-commit")

    @classmethod
    def tearDownClass(cls):
        crash.Prepared.remove()

    def rig(self):
        rig = crash.Rig()
        self.addCleanup(rig.close)
        rig.daemon.write("objects.yaml", scenario.objects(replicas=4, template=GOLDEN))
        rig.template = "counter"
        return rig

    def golden(self, rig):
        """Empty while the generation in force is still one that asks for none."""
        return rig.daemon.get("/v1/templates/counter").json["status"].get("golden", {"state": ""})

    def ready(self, rig):
        ate.wait_until(lambda: self.golden(rig)["state"] == "Ready", 60, "a golden snapshot")
        return [self.golden(rig)["snapshot"]]

    def check(self, rig):
        self.nothing_left(rig, self.ready(rig))

    def nothing_left(self, rig, snapshot):
        stored = os.path.join(rig.daemon.state_dir, "snapshots")
        ate.wait_until(lambda: os.listdir(stored) == snapshot, 10, f"{snapshot} alone on disk")
        self.assertEqual([item["id"] for item in rig.daemon.get("/v1/snapshots").json["items"]], snapshot)
        ate.wait_until(lambda: os.listdir(os.path.join(rig.daemon.state_dir, "actors")) == [], 5, "an end of hidden actors")
        ate.wait_until(lambda: os.listdir(os.path.join(rig.daemon.run_dir, "actors")) == [], 5, "an end of sandboxes")
        self.assertEqual({worker["state"] for worker in rig.daemon.get("/v1/workers").json["items"]}, {"FREE"})
        hanging = [item for item in rig.daemon.get("/v1/operations").json["items"] if item["state"] == "RUNNING"]
        self.assertEqual(hanging, [])

    def test_killed_at_every_step(self):
        rig = self.rig()
        for index, name in enumerate(self.POINTS):
            with self.subTest(name):
                # Another generation each time, or there would be nothing to build.
                rig.daemon.write("objects.yaml", scenario.objects(replicas=4, template=GOLDEN + f"  terminationGrace: {index + 1}s\n"))
                rig.arm(name + "=kill")
                rig.daemon.spawn()
                self.assertEqual(rig.daemon.wait_exit(60), -signal.SIGKILL)
                self.assertTrue(rig.fired())
                rig.start()
                self.check(rig)
                rig.daemon.stop()

    def test_an_error_at_every_step(self):
        rig = self.rig()
        rig.start()
        self.ready(rig)
        for index, name in enumerate(self.POINTS[:-1]):  # the last one can only end the daemon
            with self.subTest(name):
                rig.arm(name + "=error")
                rig.daemon.write("objects.yaml", scenario.objects(replicas=4, template=GOLDEN + f"  terminationGrace: {index + 1}s\n"))
                ate.wait_until(lambda: name in self.golden(rig).get("error", ""), 60, "a failed build at " + name)
                self.assertEqual(self.golden(rig)["state"], "Failed")
                self.assertTrue(rig.fired())
                self.nothing_left(rig, [])
        rig.daemon.write("objects.yaml", scenario.objects(replicas=4, template=GOLDEN + "  terminationGrace: 1m\n"))
        self.check(rig)


if __name__ == "__main__":
    unittest.main(verbosity=2)
