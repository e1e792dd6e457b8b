"""Idempotency-Key against a real daemon: one effect and one answer, also across kill -9 at the two points between."""

import concurrent.futures
import sqlite3
import time
import unittest

import ate
import crash
import scenario

CREATE = {"metadata": {"name": "c1"}, "spec": {"template": {"name": "counter"}}}


def key(text):
    return {"Idempotency-Key": text}


class Keys(scenario.Case):
    def post(self, path, body, name, expect):
        reply = self.daemon.request("POST", path, body, key(name))
        self.assertEqual(reply.status, expect, reply)
        return reply

    def operations(self):
        return [item["verb"] for item in self.daemon.get("/v1/operations?limit=1000").json["items"]]

    def test_one_effect_one_answer_across_a_restart(self):
        first = self.post("/v1/actors", CREATE, "make", 201)
        self.assertNotIn("Idempotency-Replayed", first.headers)
        self.assertEqual(self.daemon.request("POST", "/v1/actors", CREATE).status, 409)
        again = self.post("/v1/actors", CREATE, '"make"', 201)
        self.assertEqual((again.body, again.headers["Location"], again.headers["ETag"], again.headers["Idempotency-Replayed"]),
                         (first.body, first.headers["Location"], first.headers["ETag"], "true"))
        other = self.post("/v1/actors", {**CREATE, "metadata": {"name": "c2"}}, "make", 422)
        self.assertEqual(other.problem, "idempotency-key-reused")
        resumed = self.post("/v1/actors/c1/resume", None, "go", 200)
        self.verb("c1", "suspend")
        self.daemon.stop()
        self.daemon.start()
        self.ready()
        replayed = self.post("/v1/actors/c1/resume", None, "go", 200)
        self.assertEqual((replayed.body, replayed.headers["Idempotency-Replayed"]), (resumed.body, "true"))
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED", "a replay does nothing")
        self.assertEqual(self.post("/v1/actors", CREATE, "make", 201).body, first.body)
        self.assertEqual(sorted(self.operations()), ["create", "resume", "suspend"])

    def test_many_at_once_make_one(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda _: self.daemon.request("POST", "/v1/actors", CREATE, key("same")), range(32)))
            self.assertEqual({reply.status for reply in replies}, {201})
            self.assertEqual(len({reply.body for reply in replies}), 1)
            self.assertEqual(sum("Idempotency-Replayed" not in reply.headers for reply in replies), 1)
            replies = list(pool.map(lambda _: self.daemon.request("POST", "/v1/actors/c1/resume", None, key("go")), range(16)))
        self.assertEqual({reply.status for reply in replies}, {200})
        self.assertEqual(sorted(self.operations()), ["create", "resume"])

    def test_refused_is_tried_anew_and_failed_is_not(self):
        missing = {"metadata": {"name": "c1"}, "spec": {"template": {"name": "later"}}}
        self.post("/v1/actors", missing, "k", 422)
        self.daemon.write("later.yaml", scenario.template_text(name="later", container="    command: [/bin/none]\n"))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/later").status == 200, 30, "template")
        self.post("/v1/actors", missing, "k", 201)
        failed = self.daemon.request("POST", "/v1/actors/c1/resume", None, key("go"))
        self.assertGreaterEqual(failed.status, 400, failed)
        self.assertTrue(failed.json["instance"].startswith("/v1/operations/"))
        again = self.daemon.request("POST", "/v1/actors/c1/resume", None, key("go"))
        self.assertEqual((again.status, again.body, again.headers["Idempotency-Replayed"]), (failed.status, failed.body, "true"))
        self.assertEqual(self.operations().count("resume"), 1)

    def test_old_keys_are_let_go(self):
        self.post("/v1/actors", CREATE, "make", 201)
        self.daemon.stop()
        database = self.daemon.state_dir + "/state.db"
        with sqlite3.connect(database) as connection:
            self.assertEqual(connection.execute("SELECT count(*) FROM requests").fetchone(), (1,))
            connection.execute("UPDATE requests SET created_ms = ?", (int((time.time() - 86460) * 1000),))
        connection.close()
        self.daemon.start()
        self.ready()
        # Housekeeping takes it away; then the key is as new, and the name is taken.
        ate.wait_until(lambda: self.daemon.request("POST", "/v1/actors", CREATE, key("make")).status == 409, 90, "an end of the key",
                       pause=0.5)


class Killed(unittest.TestCase):
    def setUp(self):
        crash.binary()
        scenario.runsc()

    @classmethod
    def tearDownClass(cls):
        crash.Prepared.remove()

    def died(self, rig, path, body, armed):
        rig.arm(armed)
        try:
            rig.daemon.request("POST", path, body, key("k" + path), timeout=60)
        except (OSError, ate.http.client.HTTPException):
            pass
        ate.wait_until(lambda: not rig.alive(), 10, "an end at " + armed)
        self.assertEqual(rig.daemon.wait_exit(), -9)
        rig.start()

    def test_kill_between_reservation_effect_and_answer(self):
        rig = crash.Rig()
        self.addCleanup(rig.close)
        rig.start()
        path = "/v1/actors"
        self.died(rig, path, CREATE, "idempotency-after-reserve=kill")
        self.assertIsNone(rig.actor())
        made = rig.daemon.request("POST", path, CREATE, key("k" + path))
        self.assertEqual((made.status, "Idempotency-Replayed" in made.headers), (201, False), made)
        self.assertEqual(rig.daemon.request("DELETE", "/v1/actors/c1").status, 204)

        path = "/v1/actors?atespace=default"
        self.died(rig, path, CREATE, "idempotency-before-keep=kill")
        made = rig.daemon.request("POST", path, CREATE, key("k" + path))
        self.assertEqual((made.status, made.headers["Idempotency-Replayed"], made.json["metadata"]["uid"]),
                         (201, "true", rig.actor()["metadata"]["uid"]))

        # The verb was done; what it left RUNNING died with the daemon, and is not started a second time.
        path = "/v1/actors/c1/resume"
        self.died(rig, path, None, "idempotency-before-keep=kill")
        self.assertEqual(rig.actor()["status"]["reason"], "daemon-restart")
        again = rig.daemon.request("POST", path, None, key("k" + path))
        self.assertEqual((again.status, again.headers["Idempotency-Replayed"]), (200, "true"), again)
        self.assertEqual(rig.actor()["status"]["state"], "CRASHED")
        verbs = [item["verb"] for item in rig.daemon.get("/v1/operations").json["items"]]
        self.assertEqual(verbs.count("resume"), 1)

        # A signal leaves no operation: nothing tells.
        rig.daemon.request("POST", "/v1/actors/c1/resume", {"boot": True})
        path = "/v1/actors/c1/signal"
        self.died(rig, path, {"signal": "USR1"}, "idempotency-before-keep=kill")
        again = rig.daemon.request("POST", path, {"signal": "USR1"}, key("k" + path))
        self.assertEqual(again.problem, "idempotency-key-in-use")

        rig.arm("idempotency-after-reserve=error")
        path = "/v1/actors/c1/revert"
        self.assertEqual(rig.daemon.request("POST", path, None, key("k" + path)).status, 500)
        self.assertEqual(rig.daemon.request("POST", path, None, key("k" + path)).status, 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
