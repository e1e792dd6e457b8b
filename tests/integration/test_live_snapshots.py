"""Snapshots of an actor that goes on running. Real runsc, built daemon."""

import os
import threading
import time
import unittest

import ate
import scenario


class Live(scenario.Case):
    def snapshot(self, name="c1", body=None, expect=201, headers=None):
        reply = self.daemon.request("POST", f"/v1/actors/{name}/snapshots", body, headers)
        self.assertEqual(reply.status, expect, (reply, self.daemon.log()[-3000:]))
        return reply.json

    def on_disk(self):
        return sorted(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")))

    def test_the_actor_counts_on_and_the_snapshot_outlives_it(self):
        self.create()
        self.assertEqual(self.count(), 1)
        before = self.daemon.actor("c1")
        made = self.snapshot(body={"metadata": {"labels": {"stage": "warm"}, "tags": ["v1"]}})
        self.assertEqual((made["kind"], made["scope"], made["state"]), ("live", "FULL", "Ready"))
        self.assertEqual(made["metadata"], {"labels": {"stage": "warm"}, "tags": ["v1"]})
        self.assertEqual(made["actor"]["name"], "c1")
        after = self.daemon.actor("c1")
        self.assertEqual((after["status"]["state"], after["status"]["since"]), ("RUNNING", before["status"]["since"]))
        self.assertIsNone(after["status"]["snapshot"])
        self.assertEqual(self.count(), 2)
        [operation] = [item for item in self.daemon.get("/v1/operations").json["items"] if item["verb"] == "snapshot"]
        self.assertEqual((operation["state"], operation["snapshot"]), ("DONE", made["id"]))
        operation = self.daemon.get("/v1/operations/" + operation["id"]).json
        stages = [stage["name"] for stage in operation["stages"]]
        self.assertEqual([name for name in stages if name in ("runsc-checkpoint", "unpause", "seal", "commit")],
                         ["runsc-checkpoint", "unpause", "seal", "commit"])
        self.assertEqual(self.daemon.request("POST", f"/v1/snapshots/{made['id']}/verify").status, 200)
        self.verb("c1", "suspend")
        self.assertEqual(self.count(), 3)
        listed = self.daemon.get("/v1/actors/c1/snapshots").json["items"]
        self.assertEqual(sorted(item["kind"] for item in listed), ["live", "suspend"])
        self.delete()
        self.assertEqual([item["id"] for item in self.daemon.get("/v1/snapshots").json["items"]], [made["id"]])
        self.daemon.stop()
        self.daemon.start()
        self.ready()
        self.assertEqual(self.daemon.get("/v1/snapshots/" + made["id"]).json["metadata"]["tags"], ["v1"])
        self.assertEqual(self.on_disk(), [made["id"]])
        self.assertEqual(self.daemon.request("DELETE", "/v1/snapshots/" + made["id"]).status, 204)
        ate.wait_until(lambda: not self.on_disk(), 5, "the removal of its files")
        self.assertEqual(self.daemon.get("/v1/snapshots/" + made["id"]).status, 404)

    def test_clients_are_served_all_the_time(self):
        self.create()
        self.count()
        failures, slowest, over = [], [0.0], threading.Event()

        def client():
            while not over.is_set():
                begun = time.monotonic()
                reply = self.daemon.get("/v1/actors/c1/proxy/8080/count")
                slowest[0] = max(slowest[0], time.monotonic() - begun)
                if reply.status != 200:
                    failures.append(reply)

        readers = [threading.Thread(target=client) for _ in range(3)]
        for reader in readers:
            reader.start()
        made = [self.snapshot() for _ in range(4)]
        over.set()
        for reader in readers:
            reader.join(30)
        self.assertEqual(failures, [])
        self.assertEqual(self.daemon.state("c1"), "RUNNING")
        self.assertEqual(self.on_disk(), sorted(item["id"] for item in made))
        self.delete()
        for item in made:
            self.assertEqual(self.daemon.request("DELETE", "/v1/snapshots/" + item["id"]).status, 204)

    def test_only_a_running_actor_and_only_a_proper_request(self):
        self.create()
        self.assertEqual(self.snapshot(expect=409)["type"], "/v1/problems/state-conflict")
        self.count()
        for body, status, field in (({"metadata": {"tags": ["a", "a"]}}, 422, "metadata.tags[1]"),
                                    ({"metadata": {"tags": ["no blanks"]}}, 422, "metadata.tags[0]"),
                                    ({"metadata": {"labels": {"a/b/c": "d"}}}, 422, "metadata.labels[\"a/b/c\"]"),
                                    ({"metadata": {"name": "x"}}, 400, "metadata.name"),
                                    ({"tags": []}, 400, "tags")):
            with self.subTest(body):
                self.assertEqual(self.snapshot(body=body, expect=status)["field"], field)
        self.verb("c1", "pause")
        self.snapshot(expect=409)
        operation = self.snapshot(name="c1", expect=409)
        self.assertIn("PAUSED", operation["detail"])
        self.count()
        accepted = self.snapshot(headers={"Prefer": "respond-async"}, expect=202)
        done = self.daemon.get(f"/v1/operations/{accepted['id']}?wait=30").json
        self.assertEqual(done["state"], "DONE")
        self.assertEqual(self.daemon.get("/v1/snapshots/" + done["snapshot"]).status, 200)


class Full(scenario.Case):
    spec = {"diskReserve": "1Pi"}

    def test_too_little_space_is_told_before_the_actor_stands_still(self):
        self.create()
        self.count()
        reply = self.daemon.request("POST", "/v1/actors/c1/snapshots")
        self.assertEqual((reply.status, reply.problem), (507, "disk-full"), reply)
        self.assertEqual(self.count(), 2)
        self.assertEqual(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
