"""What takes the space, what may go, what never does (case T55); keep-last, tags; history by count."""

import os
import shutil
import threading
import time
import unittest

import ate
import crash
import scenario


def age(path):
    """As if it had been made two minutes ago: what is new may be on its way to being named."""
    then = time.time() - 120
    os.utime(path, (then, then))


class Retention(scenario.Case):
    spec = {"retention": {"unreferencedFor": "1h"}}

    def second_image(self, name="other"):
        """Another image, by adding a file to the first one's tree; its template is called `name`."""
        source = scenario.image()
        target = os.path.join(self.daemon.root, name + ".tar")
        rootfs = os.path.join(self.daemon.root, name)
        images = os.path.join(self.daemon.state_dir, "images", "sha256")
        shutil.copytree(os.path.join(images, os.listdir(images)[0], "rootfs"), rootfs, symlinks=True)
        with open(os.path.join(rootfs, "mark"), "w", encoding="ascii") as file:
            file.write(name)
        scenario.subprocess.run([scenario.TOP / "examples" / "make-oci", rootfs, target, "--entrypoint", '["/bin/workload"]'], check=True,
                                stdout=scenario.subprocess.DEVNULL)
        self.assertNotEqual(str(source), target)
        return target

    def images(self):
        directory = os.path.join(self.daemon.state_dir, "images", "sha256")
        return {"sha256:" + name for name in os.listdir(directory)}

    def image_directory(self, digest):
        return os.path.join(self.daemon.state_dir, "images", "sha256", digest.removeprefix("sha256:"))

    def storage(self):
        reply = self.daemon.get("/v1/storage")
        self.assertEqual(reply.status, 200, reply)
        return reply.json

    def collect(self, **body):
        reply = self.daemon.request("POST", "/v1/storage/collect", body)
        self.assertEqual(reply.status, 200, reply)
        return reply.json

    def pinned(self, template):
        return self.daemon.get("/v1/templates/" + template).json["status"]["images"][0]["digest"]

    def wait_image(self, template):
        ate.wait_until(lambda: self.daemon.get("/v1/templates/" + template).status == 200 and self.daemon.get(
            "/v1/templates/" + template).json["status"]["images"][0]["state"] == "Ready", 30, "image of " + template)
        return self.pinned(template)

    def put_template(self, name, image):
        body = {"spec": {"sandboxClass": "gvisor", "containers": [
            {"name": "app", "image": f"oci-archive:{image}", "env": [{"name": "PORT", "value": "8080"}],
             "readyz": {"http": {"port": 8080, "path": "/readyz"}}}]}}
        self.assertIn(self.daemon.request("PUT", "/v1/templates/" + name, body).status, (200, 201))
        return self.wait_image(name)

    def test_storage_tells_what_is_there(self):
        self.create()
        self.verb("c1", "resume")
        self.verb("c1", "suspend")
        self.proxy("c1", "/count")
        told = self.storage()
        parts = {part["name"]: part for part in told["parts"]}
        self.assertEqual(set(parts), {"images", "snapshots", "assets", "actors", "logs", "store"})
        self.assertEqual({name: parts[name]["count"] for name in ("images", "snapshots", "actors")},
                         {"images": 1, "snapshots": 1, "actors": 1})
        for name in ("images", "snapshots", "assets", "store"):
            self.assertGreater(parts[name]["allocatedBytes"], 0, name)
        seen = sum(os.lstat(os.path.join(top, each)).st_size for top, _, names in os.walk(os.path.join(self.daemon.state_dir, "snapshots"))
                   for each in names)
        self.assertEqual(parts["snapshots"]["logicalBytes"], seen)
        free = os.statvfs(self.daemon.state_dir)
        self.assertAlmostEqual(told["freeBytes"], free.f_bavail * free.f_frsize, delta=1 << 30)
        self.assertEqual((told["reserveBytes"], told["budgetBytes"], told["overBudget"], told["collectable"]), (1 << 30, 0, False, []))

    def test_what_something_names_stays_and_the_rest_goes(self):
        first = self.wait_image("counter")
        other = self.put_template("other", self.second_image())
        self.assertEqual(self.images(), {first, other})
        self.create("c2", "other")
        self.verb("c2", "resume")
        self.verb("c2", "suspend")
        self.assertEqual(self.daemon.request("DELETE", "/v1/templates/other").status, 204)
        for digest in self.images():
            age(self.image_directory(digest))
        # The actor and its snapshot still name it, whatever is asked.
        self.assertEqual(self.collect()["items"], [])
        self.assertEqual(self.images(), {first, other})
        self.verb("c2", "resume")
        self.verb("c2", "suspend")
        self.delete("c2")
        # The generation itself is let go a minute after it was deleted; until then it names its image.
        self.assertEqual(self.collect()["items"], [])
        self.create()
        self.verb("c1", "resume")

    def test_a_missing_derived_artefact_is_rebuilt(self):
        digest = self.wait_image("counter")
        shutil.rmtree(self.image_directory(digest))
        self.create()
        self.verb("c1", "resume")
        self.assertEqual(self.images(), {digest})

    def test_new_ones_are_left_alone(self):
        stray = "sha256:" + "ab" * 32
        os.makedirs(self.image_directory(stray) + "/rootfs")
        asset = os.path.join(self.daemon.state_dir, "assets", "sha256", "cd" * 32)
        with open(asset, "w", encoding="ascii") as file:
            file.write("x")
        self.assertEqual(self.collect(dryRun=True)["items"], [])
        age(self.image_directory(stray))
        age(asset)
        self.assertEqual({(item["kind"], item["id"]) for item in self.collect()["items"]},
                         {("image", stray), ("asset", "sha256:" + "cd" * 32)})
        self.assertFalse(os.path.exists(asset))
        self.assertNotIn(stray, self.images())

    def snapshot(self, *tags):
        reply = self.daemon.request("POST", "/v1/actors/c1/snapshots", {"metadata": {"tags": list(tags)}})
        self.assertEqual(reply.status, 201, reply)
        return reply.json["id"]

    def test_keep_last_and_tags(self):
        self.create()
        self.verb("c1", "resume")
        made = [self.snapshot(), self.snapshot("release"), self.snapshot(), self.snapshot()]
        self.verb("c1", "suspend")
        committed = self.daemon.actor("c1")["status"]["snapshot"]
        tagged = self.daemon.get("/v1/snapshots?tag=release").json["items"]
        self.assertEqual([item["id"] for item in tagged], [made[1]])
        self.assertEqual(self.daemon.get("/v1/snapshots?tag=release&tag=none").json["items"], [])
        self.assertEqual(self.collect()["items"], [], "nothing goes by itself unless the template says so")
        self.daemon.write("objects.yaml", scenario.objects(template="  snapshots: {keepLast: 1}\n"))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").json["metadata"]["generation"] == 2, 30, "the new generation")
        # A tag that comes before the collector keeps, one that is taken away lets go.
        patched = self.daemon.request("PATCH", "/v1/snapshots/" + made[0], {"metadata": {"tags": ["first"]}})
        self.assertEqual((patched.status, patched.json["metadata"]["tags"]), (200, ["first"]), patched)
        doomed = [item["id"] for item in self.collect(dryRun=True)["items"]]
        self.assertEqual(doomed, [made[2]])
        refused = self.daemon.request("PATCH", "/v1/snapshots/" + committed, {"metadata": {"tags": ["x"]}})
        self.assertEqual(refused.status, 409, refused)
        refused = self.daemon.request("PATCH", "/v1/snapshots/" + made[0], {"metadata": {"tags": ["not a tag"]}})
        self.assertEqual(refused.status, 422, refused)
        refused = self.daemon.request("PATCH", "/v1/snapshots/" + made[0], {"kind": "suspend"})
        self.assertGreaterEqual(refused.status, 400, refused)
        self.assertEqual([item["id"] for item in self.collect()["items"]], [made[2]])
        left = {item["id"] for item in self.daemon.get("/v1/snapshots").json["items"]}
        self.assertEqual(left, {made[0], made[1], made[3], committed})
        self.daemon.request("PATCH", "/v1/snapshots/" + made[0], {"metadata": {"tags": []}})
        self.assertEqual([item["id"] for item in self.collect()["items"]], [made[0]])
        self.verb("c1", "resume")

    def test_damaged_snapshot_blocks_what_it_may_name(self):
        self.create()
        self.verb("c1", "resume")
        self.verb("c1", "suspend")
        identifier = self.daemon.actor("c1")["status"]["snapshot"]
        self.daemon.stop()
        with open(os.path.join(self.daemon.state_dir, "snapshots", identifier, "manifest.json"), "a", encoding="ascii") as file:
            file.write(" ")
        self.daemon.start()
        self.ready()
        stray = "sha256:" + "ab" * 32
        os.makedirs(self.image_directory(stray) + "/rootfs")
        age(self.image_directory(stray))
        answer = self.collect()
        self.assertEqual(answer["items"], [])
        self.assertIn(identifier, answer["blocked"])


    def other_runsc(self):
        """A copy with another digest: the loader does not look at what stands behind an ELF file."""
        path = os.path.join(self.daemon.root, "runsc-2")
        shutil.copy(scenario.runsc(), path)
        with open(path, "ab") as file:
            file.write(b"\n2\n")
        return path

    def age_all(self):
        for kind in ("images", "assets"):
            directory = os.path.join(self.daemon.state_dir, kind, "sha256")
            for name in os.listdir(directory):
                try:
                    age(os.path.join(directory, name))
                except FileNotFoundError:
                    pass

    def assets(self):
        return set(os.listdir(os.path.join(self.daemon.state_dir, "assets", "sha256")))

    def test_binaries_stay_while_a_guest_runs_on_them_or_a_snapshot_needs_them(self):
        self.create()
        self.verb("c1", "resume")
        old = self.assets()
        self.daemon.write("objects.yaml", self.file().replace(str(scenario.runsc()), self.other_runsc()))
        ate.wait_until(lambda: len(self.assets()) == 2, 60, "the second runsc")
        self.ready()
        self.age_all()
        self.assertEqual(self.collect()["items"], [], "its guest runs on the old one")
        self.verb("c1", "suspend")
        self.assertEqual(self.collect()["items"], [], "its snapshot needs the old one")
        self.verb("c1", "resume")
        self.verb("c1", "revert")
        self.assertEqual(self.collect()["items"], [])
        self.delete("c1")
        # What the guest held is let go at the end of its last task, not with the answer.
        gone = []
        ate.wait_until(lambda: gone.extend(item["id"] for item in self.collect()["items"]) or gone, 30, "an end of the old runsc")
        self.assertEqual(set(gone), {"sha256:" + each for each in old})
        self.create("c2")
        self.verb("c2", "resume")

    def test_collecting_beside_everything_takes_nothing_that_is_used(self):
        other = self.second_image()
        self.put_template("other", other)
        stop = threading.Event()
        answers = []

        def collect_all_the_time():
            client = ate.Client(self.daemon.path)
            while not stop.is_set():
                self.age_all()
                answers.append(client.request("POST", "/v1/storage/collect", {}))

        collector = threading.Thread(target=collect_all_the_time)
        collector.start()
        try:
            for turn in range(3):
                self.create("a")
                self.create("b", "other")
                self.verb("a", "resume")
                self.verb("b", "resume")
                made = self.daemon.request("POST", "/v1/actors/b/snapshots", {})
                self.assertEqual(made.status, 201, made)
                self.verb("b", "suspend")
                fork = self.daemon.request("POST", "/v1/actors", {
                    "metadata": {"name": "f"}, "spec": {"fromSnapshot": made.json["id"]}})
                self.assertEqual(fork.status, 201, fork)
                self.verb("a", "suspend")
                self.assertEqual(self.daemon.request("DELETE", "/v1/templates/other").status, 204)
                self.verb("f", "resume")
                self.verb("f", "suspend")
                self.verb("a", "resume")
                for name in ("a", "b", "f"):
                    self.delete(name)
                self.assertEqual(self.daemon.request("DELETE", "/v1/snapshots/" + made.json["id"]).status, 204)
                self.put_template("other", other)
        finally:
            stop.set()
            collector.join()
        self.assertGreater(len(answers), 3)
        self.assertEqual({answer.status for answer in answers}, {200})
        # (A template's generation is let go a minute after it was deleted, and then so is its image.)
        gone = [item for answer in answers for item in answer.json["items"] if item["kind"] != "image"]
        self.assertEqual(gone, [])


class Background(Retention):
    spec = {"retention": {"unreferencedFor": "2s", "operations": 100}, "storageBudget": "1Mi"}

    def test_over_budget_stays_over_budget_with_a_warning(self):
        digest = self.wait_image("counter")
        stray = "sha256:" + "ab" * 32
        os.makedirs(self.image_directory(stray) + "/rootfs")
        for each in self.images():
            age(self.image_directory(each))
        ate.wait_until(lambda: stray not in self.images(), 30, "an end of what nothing names")
        ate.wait_until(lambda: "storageBudget" in self.daemon.log(), 30, "a warning")
        self.assertEqual(self.images(), {digest})
        self.assertTrue(self.storage()["overBudget"])
        self.create()
        self.verb("c1", "resume")
        self.verb("c1", "suspend")
        self.verb("c1", "resume")


for inherited in [name for name in dir(Retention) if name.startswith("test_")]:
    setattr(Background, inherited, None)  # they are Retention's


class Killed(unittest.TestCase):
    def test_killed_while_an_image_is_taken_away(self):
        crash.binary()
        scenario.runsc()
        rig = crash.Rig()
        self.addCleanup(rig.close)
        self.addCleanup(crash.Prepared.remove)
        rig.start()
        store = os.path.join(rig.daemon.state_dir, "images")
        stray = os.path.join(store, "sha256", "ab" * 32)
        for action in ("error", "kill"):
            os.makedirs(stray + "/rootfs/some")
            age(stray)
            rig.arm("image-remove-after-rename=" + action)
            try:
                rig.call("POST", "/v1/storage/collect", {})
                self.assertEqual(action, "error")
            except crash.Died:
                self.assertEqual(rig.daemon.wait_exit(), -9)
                rig.start()
            self.assertFalse(os.path.exists(stray))
        self.assertEqual([name for name in os.listdir(store) if name.startswith(".tmp-")], [])
        self.assertEqual(len(os.listdir(os.path.join(store, "sha256"))), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
