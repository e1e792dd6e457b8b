"""Actors made from the snapshot of another one: same memory, other identity, nothing shared. Real runsc, built daemon."""

import os
import unittest

import ate
import scenario

IDENTITY = ("name", "uid", "serial", "atespace", "template")


class Forks(scenario.Case):
    replicas = 4

    def file(self):
        return scenario.objects(replicas=self.replicas, container="    volumeMounts: [{name: info, mountPath: /run/ate, readOnly: true}]\n",
                                template="  volumes: [{name: info, systemInfo: {}}]\n")

    def snapshot(self, name="c1"):
        reply = self.daemon.request("POST", f"/v1/actors/{name}/snapshots")
        self.assertEqual(reply.status, 201, reply)
        return reply.json["id"]

    def fork(self, name, snapshot, expect=201, **spec):
        reply = self.daemon.request("POST", "/v1/actors", {"metadata": {"name": name}, "spec": {"fromSnapshot": snapshot, **spec}})
        self.assertEqual(reply.status, expect, reply)
        return reply.json

    def identity(self, name):
        return {field: self.proxy(name, f"/read?path=/run/ate/{field}").decode() for field in IDENTITY}

    def users(self, snapshot):
        return sorted(self.daemon.get("/v1/snapshots/" + snapshot).json["usedBy"])

    def on_disk(self):
        return sorted(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")))

    def test_two_forks_and_their_origin_run_at_once(self):
        before = self.daemon.seen()
        origin = self.create()
        for _ in range(3):
            self.count()
        self.proxy("c1", "/write?path=/tmp/note&data=hello")
        snapshot = self.snapshot()
        made = self.fork("f1", snapshot)
        self.assertEqual(made["spec"]["template"], origin["spec"]["template"])
        self.assertEqual((made["status"]["state"], made["status"]["reason"], made["status"]["snapshot"]), ("SUSPENDED", "new", None))
        self.fork("f2", snapshot, template={"name": "counter"})
        self.assertEqual(self.users(snapshot), ["default/f1", "default/f2"])
        self.assertEqual(self.verb("f1", "resume")["status"]["restoredFrom"], "fork")
        # Each goes on from 3 by itself.
        self.assertEqual([self.count(name) for name in ("f1", "f2", "c1", "f1")], [4, 4, 4, 5])
        for name in ("f1", "f2"):
            self.assertEqual(self.proxy(name, "/read?path=/tmp/note"), b"hello")
        self.proxy("f1", "/write?path=/tmp/note&data=mine")
        self.assertEqual([self.proxy(name, "/read?path=/tmp/note") for name in ("c1", "f1", "f2")], [b"hello", b"mine", b"hello"])
        identities = {name: self.identity(name) for name in ("c1", "f1", "f2")}
        for name, seen in identities.items():
            actor = self.daemon.actor(name)
            self.assertEqual((seen["name"], seen["uid"], seen["serial"]), (name, actor["metadata"]["uid"], "1"))
        self.assertEqual(len({seen["uid"] for seen in identities.values()}), 3)
        self.assertEqual({self.proxy(name, "/whoami").split()[-1] for name in identities}, {b"actor"})
        # The kernel's randomness is the host's; a generator in the program's own memory was copied.
        self.assertEqual(len({self.proxy(name, "/random") for name in identities}), 3)
        self.assertEqual(self.proxy("f1", "/rand"), self.proxy("f2", "/rand"))
        for name in ("c1", "f1", "f2"):
            self.delete(name)
        self.assertEqual(self.on_disk(), [snapshot])
        self.assertEqual(self.daemon.request("DELETE", "/v1/snapshots/" + snapshot).status, 204)
        self.settled(before, timeout=5, ignore=("files",))
        self.assertEqual(self.on_disk(), [])

    def test_a_snapshot_stays_while_a_fork_needs_it(self):
        self.create()
        self.count()
        first = self.verb("c1", "suspend")["status"]["snapshot"]
        self.fork("f1", first)
        self.assertEqual(self.users(first), ["default/c1", "default/f1"])
        self.assertEqual(self.count(), 2)
        second = self.verb("c1", "suspend")["status"]["snapshot"]
        self.delete("c1")
        # Neither its next suspend nor its end takes the fork's origin away.
        self.assertEqual(self.on_disk(), [first])
        self.assertNotEqual(first, second)
        refused = self.daemon.request("DELETE", "/v1/snapshots/" + first)
        self.assertEqual((refused.status, refused.problem, refused.json["usedBy"]), (409, "in-use", ["default/f1"]))
        self.daemon.stop()
        self.daemon.start()
        self.ready()
        self.assertEqual(self.on_disk(), [first])
        self.assertEqual([self.count("f1"), self.count("f1")], [2, 3])
        self.verb("f1", "pause")
        self.assertEqual(self.count("f1"), 4)
        reverted = self.verb("f1", "revert")  # no commit of its own: where it began
        self.assertEqual((reverted["status"]["state"], reverted["status"]["snapshot"]), ("SUSPENDED", None))
        self.assertEqual(self.count("f1"), 2)
        own = self.verb("f1", "suspend")["status"]["snapshot"]
        ate.wait_until(lambda: self.on_disk() == [own], 5, "the end of its origin")
        self.assertEqual(self.daemon.get("/v1/snapshots/" + first).status, 404)
        self.assertEqual(self.count("f1"), 3)
        self.verb("f1", "revert")
        self.assertEqual(self.count("f1"), 3)
        self.delete("f1")
        ate.wait_until(lambda: self.on_disk() == [], 5, "the end of its snapshot")

    def test_what_can_not_be_forked(self):
        self.create()
        self.count()
        snapshot = self.snapshot()
        for value, spec, field in (("nonsense", {}, "spec.fromSnapshot"),
                                   ("01aaaaaaaaaaaaaaaaaaaaaaaa", {}, "spec.fromSnapshot"),
                                   (snapshot, {"template": {"name": "other"}}, "spec.template.name"),
                                   (snapshot, {"template": {"name": "counter", "generation": 99}}, "spec.template.generation")):
            with self.subTest(value=value, spec=spec):
                self.assertEqual(self.fork("f1", value, 422, **spec)["field"], field)
        elsewhere = self.daemon.request("POST", "/v1/actors?atespace=tenant", {"metadata": {"name": "f1"}, "spec": {"fromSnapshot": snapshot}})
        self.assertEqual((elsewhere.status, elsewhere.json["field"]), (422, "spec.fromSnapshot"))
        self.fork("c1", snapshot, 409)
        self.assertEqual(self.users(snapshot), [])
        self.assertEqual(self.daemon.request("DELETE", "/v1/snapshots/" + snapshot).status, 204)
        self.fork("f1", snapshot, 422)

    def test_a_deleted_template_stays_for_its_snapshots(self):
        self.create()
        self.count()
        snapshot = self.snapshot()
        self.delete("c1")
        os.unlink(os.path.join(self.daemon.etc_dir, "objects.yaml"))
        self.daemon.write("objects.yaml", scenario.objects(replicas=4, name="another"))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").status == 404, 30, "the end of the template")
        self.fork("f1", snapshot)
        self.assertEqual(self.count("f1"), 2)
        self.delete("f1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
