"""The main job on a real runsc, through the built daemon and its socket."""

import json
import os
import threading
import unittest

import ate
import scenario


class MainJob(scenario.Case):
    def test_counter_survives_suspend_and_the_next_request_wakes_it(self):
        before = self.daemon.seen()
        made = self.create()
        self.assertEqual(made["status"]["state"], "SUSPENDED")
        self.assertEqual(made["status"]["reason"], "new")
        running = self.verb("c1", "resume")
        self.assertEqual(running["status"]["state"], "RUNNING")
        self.assertEqual(running["status"]["restoredFrom"], "boot")
        self.assertEqual(running["status"]["address"], "169.254.17.2")
        self.assertEqual([self.count() for _ in range(3)], [1, 2, 3])
        suspended = self.verb("c1", "suspend")
        self.assertEqual(suspended["status"]["state"], "SUSPENDED")
        self.assertIsNone(suspended["status"]["worker"])
        self.assertIsNotNone(suspended["status"]["snapshot"])
        self.assertEqual(self.sandbox_processes(), [])
        self.assertEqual(self.count(), 4)  # woken by the request itself
        self.assertEqual(self.daemon.actor("c1")["status"]["restoredFrom"], "snapshot")
        for expected in range(5, 9):
            self.verb("c1", "suspend")
            self.assertEqual(self.count(), expected)
        operation = self.daemon.get("/v1/operations/" + self.daemon.actor("c1")["status"]["lastOperation"]).json
        self.assertEqual(operation["verb"], "resume")
        self.assertEqual(operation["state"], "DONE")
        self.assertIsNone(operation["error"])
        self.assertGreater(len(operation["stages"]), 2)
        self.delete()
        self.assertEqual(self.daemon.get("/v1/actors/c1").status, 404)
        self.settled(before, ignore=("files",))
        self.assertEqual(os.listdir(os.path.join(self.daemon.state_dir, "snapshots")), [])
        self.assertEqual(os.listdir(os.path.join(self.daemon.state_dir, "actors")), [])

    def test_verbs_in_their_target_state_are_no_ops_and_wrong_ones_say_the_way_out(self):
        self.create()
        self.verb("c1", "suspend")  # suspended already
        self.assertEqual(self.daemon.verb("c1", "pause").status, 409)
        self.assertEqual(self.daemon.verb("c1", "revert").status, 409)
        first = self.verb("c1", "resume")
        again = self.verb("c1", "resume")
        self.assertEqual(again["status"]["lastOperation"], first["status"]["lastOperation"])
        self.assertEqual(self.count(), 1)
        paused = self.verb("c1", "pause")
        self.assertEqual(paused["status"]["state"], "PAUSED")
        self.assertIsNone(paused["status"]["snapshot"])
        self.assertIsNotNone(paused["status"]["pauseSnapshot"])
        self.assertIsNone(paused["status"]["worker"])
        self.assertEqual(self.count(), 2)
        self.verb("c1", "pause")
        committed = self.verb("c1", "suspend")  # commits the pause snapshot, starts nothing
        self.assertEqual(committed["status"]["snapshot"], self.daemon.actor("c1")["status"]["snapshot"])
        self.assertIsNone(committed["status"]["pauseSnapshot"])
        self.assertEqual(self.count(), 3)
        reverted = self.verb("c1", "revert")
        self.assertEqual(reverted["status"]["state"], "SUSPENDED")
        self.assertEqual(self.count(), 3)  # as it was when suspended
        self.verb("c1", "suspend")
        booted = self.verb("c1", "resume", {"boot": True})
        self.assertEqual(booted["status"]["restoredFrom"], "boot")
        self.assertEqual(self.count(), 1)

    def test_exit_codes_and_crashes_are_told_apart(self):
        self.create()
        self.verb("c1", "resume")
        self.daemon.request("GET", "/v1/actors/c1/proxy/8080/exit?code=7")
        self.daemon.wait_state("c1", "EXITED")
        status = self.daemon.actor("c1")["status"]
        self.assertEqual(status["exitCode"], 7)
        refused = self.daemon.verb("c1", "resume")
        self.assertEqual(refused.status, 409)
        self.assertIn("revert", refused.json["detail"])
        self.assertIn("boot", refused.json["detail"])
        self.assertEqual(self.daemon.get("/v1/actors/c1/proxy/8080/count").status, 409)
        self.verb("c1", "resume", {"boot": True})
        self.assertEqual(self.count(), 1)
        self.daemon.request("GET", "/v1/actors/c1/proxy/8080/abort")
        # gVisor tells an end by a signal as 128 + signal, so it can't be told from exit(134).
        self.daemon.wait_state("c1", "EXITED")
        self.assertEqual(self.daemon.actor("c1")["status"]["exitCode"], 128 + 6)
        self.verb("c1", "revert")
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        self.delete()

    def test_signal_reaches_the_application(self):
        self.create()
        self.verb("c1", "resume")
        reply = self.daemon.verb("c1", "signal", {"signal": "SIGTERM"})
        self.assertEqual(reply.status, 200, reply)
        ate.wait_until(lambda: self.daemon.state("c1") in ("EXITED", "CRASHED"), 10, "end of the actor")

    def test_logs_are_kept_across_suspends_and_followed(self):
        self.create()
        self.proxy("c1", "/print?line=first")
        self.verb("c1", "suspend")
        connection, stream = self.daemon.open("GET", "/v1/actors/c1/logs?follow=true&stream=stdout")
        try:
            self.assertEqual(stream.status, 200)
            seen = []
            arrived = threading.Event()

            def follow():
                for line in stream:
                    seen.append(line.decode().strip())
                    if "second" in seen[-1]:
                        arrived.set()

            reader = threading.Thread(target=follow, daemon=True)
            reader.start()
            self.proxy("c1", "/print?line=second")
            self.assertTrue(arrived.wait(10), seen)
            self.delete()
            reader.join(10)  # follow ends when the actor is deleted
            self.assertFalse(reader.is_alive())
            self.assertEqual([line for line in seen if "first" in line or "second" in line], ["first", "second"])
        finally:
            connection.close()

    def test_concurrent_requests_wake_it_once(self):
        self.create()
        self.verb("c1", "resume")
        self.verb("c1", "suspend")
        answers = []
        guard = threading.Lock()

        def ask():
            value = self.daemon.get("/v1/actors/c1/proxy/8080/count")
            with guard:
                answers.append((value.status, value.body))

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(sorted(int(body) for status, body in answers if status == 200), list(range(1, 17)), answers)
        resumes = [item for item in self.daemon.get("/v1/operations?limit=100").json["items"] if item["verb"] == "resume"]
        self.assertEqual(len(resumes), 2)

    def test_bodies_of_any_size_pass_both_ways_with_flat_memory(self):
        self.create()
        self.verb("c1", "resume")
        base = self.daemon.rss_bytes()
        size = 96 * 1024 * 1024
        connection, reply = self.daemon.open("GET", f"/v1/actors/c1/proxy/8080/big?n={size}")
        total = 0
        with connection:
            while chunk := reply.read(1 << 20):
                total += len(chunk)
        self.assertEqual(total, size)
        payload = os.urandom(4 * 1024 * 1024)
        self.assertEqual(self.proxy("c1", "/echo", "POST", payload), payload)
        self.assertLess(self.daemon.rss_bytes() - base, 8 * 1024 * 1024)
        self.assertEqual(self.proxy("c1", "/target?x=%2Fa%20b//..;y=%00&z"), b"/target?x=%2Fa%20b//..;y=%00&z\n")

    def test_no_free_worker_is_503_and_a_freed_one_serves(self):
        self.create("a1")
        self.create("a2")
        self.create("a3")
        self.verb("a1", "resume")
        self.verb("a2", "resume")
        refused = self.daemon.verb("a3", "resume")
        self.assertEqual((refused.status, refused.problem), (503, "no-free-worker"))
        self.assertEqual((refused.json["workers"], refused.json["assigned"]), (2, 2))
        self.assertIn("Retry-After", refused.headers)
        self.verb("a1", "suspend")
        self.verb("a3", "resume")
        workers = self.daemon.get("/v1/workers").json["items"]
        self.assertEqual(sorted(item["state"] for item in workers), ["ASSIGNED", "ASSIGNED"])

    def test_restart_policy_boots_it_again(self):
        self.create(restartPolicy="Always")
        self.verb("c1", "resume")
        self.count()
        self.daemon.request("GET", "/v1/actors/c1/proxy/8080/exit?code=0")
        ate.wait_until(lambda: self.daemon.actor("c1")["status"]["restarts"] == 1 and self.daemon.state("c1") == "RUNNING",
                       20, "a restart")
        self.assertEqual(self.count(), 1)

    def test_idle_actor_is_suspended_and_woken(self):
        self.create(idle={"after": "1s", "action": "suspend"})
        self.assertEqual(self.count(), 1)
        self.daemon.wait_state("c1", "SUSPENDED", 20)
        self.assertEqual(self.count(), 2)

    def test_respond_async_and_the_operation_resource(self):
        self.create()
        reply = self.daemon.verb("c1", "resume", headers={"Prefer": "respond-async"})
        self.assertEqual(reply.status, 202)
        location = reply.headers["Location"]
        done = ate.wait_until(lambda: (item := self.daemon.get(location).json)["state"] == "DONE" and item, 30, "the operation")
        self.assertEqual(done["actor"]["name"], "c1")
        self.assertEqual(self.daemon.state("c1"), "RUNNING")

    def test_events_tell_the_whole_story_in_order(self):
        self.create()
        self.verb("c1", "resume")
        self.verb("c1", "suspend")
        self.delete()
        events = [item for item in self.daemon.events() if item.get("actor", {}).get("name") == "c1"]
        states = [(item.get("from", ""), item.get("to", "")) for item in events if item["type"] == "actor.state"]
        self.assertIn(("SUSPENDED", "RESUMING"), states)
        self.assertIn(("RESUMING", "RUNNING"), states)
        self.assertIn(("RUNNING", "SUSPENDING"), states)
        self.assertIn(("SUSPENDING", "SUSPENDED"), states)
        self.assertEqual([item["id"] for item in events], sorted(item["id"] for item in events))
        self.assertEqual([item["type"] for item in events if item["type"].startswith("actor.")][-1], "actor.deleted")


class Gofer(scenario.Case):
    def test_a_gofer_that_dies_alone_takes_its_actor_along(self):
        self.create()
        self.verb("c1", "resume")
        gofers = [(pid, start) for pid, start, line in ate.processes_of(self.daemon.root) if line.startswith("runsc-gofer")]
        self.assertEqual(len(gofers), 1)
        ate.kill_exact(*gofers[0])
        self.daemon.wait_state("c1", "CRASHED", 10)
        self.assertIn("gofer", self.daemon.actor("c1")["status"]["message"])
        self.verb("c1", "revert")
        self.delete()


class Restart(scenario.Case):
    def test_stop_leaves_actors_alone_and_the_next_start_marks_them(self):
        self.create("run")
        self.create("sleep")
        self.verb("run", "resume")
        self.assertEqual(self.count("run"), 1)
        self.verb("run", "suspend")
        self.assertEqual(self.count("run"), 2)
        self.assertEqual(self.count("sleep"), 1)
        self.verb("sleep", "suspend")
        processes = self.sandbox_processes()
        self.assertTrue(processes)
        code, seconds = self.daemon.stop()
        self.assertEqual(code, 0)
        self.assertLessEqual(seconds, 1.0)
        self.assertEqual(self.sandbox_processes(), processes)  # left alone
        self.daemon.start()
        self.ready()
        status = self.daemon.actor("run")["status"]
        self.assertEqual((status["state"], status["reason"]), ("CRASHED", "daemon-restart"))
        ate.wait_until(lambda: not self.sandbox_processes(), 2, "end of what is not wanted")
        self.assertEqual(self.daemon.verb("run", "resume").status, 409)
        self.verb("run", "revert")
        self.assertEqual(self.count("run"), 2)  # the committed snapshot
        self.assertEqual(self.count("sleep"), 2)

    def test_kill_9_loses_nothing_that_was_acknowledged(self):
        for index in range(3):
            self.create(f"k{index}")
            self.assertEqual(self.count(f"k{index}"), 1)
            self.verb(f"k{index}", "suspend")
        self.daemon.kill9()
        self.daemon.start()
        self.ready()
        for index in range(3):
            self.assertEqual(self.count(f"k{index}"), 2)
            self.verb(f"k{index}", "suspend")

    def test_a_second_daemon_on_the_same_directories_refuses(self):
        second = ate.subprocess.run(self.daemon.command(), capture_output=True, text=True, timeout=10)
        self.assertNotEqual(second.returncode, 0)
        self.assertEqual(self.daemon.get("/healthz").status, 200)


class Templates(scenario.Case):
    def test_files_are_noticed_and_errors_name_line_and_column(self):
        good = self.daemon.get("/v1/templates/counter").json
        self.assertEqual(good["metadata"]["generation"], 1)
        self.daemon.write("objects.yaml", self.file().replace("containers:", "contaners:"))

        def flagged():
            status = self.daemon.get("/v1/templates/counter").json["status"]
            return status["object"]["problems"]

        problems = ate.wait_until(flagged, 10, "the problem to be shown")
        self.assertEqual(problems[0]["field"], "spec.contaners")
        self.assertGreater(problems[0]["line"], 1)
        self.assertGreater(problems[0]["column"], 0)
        self.create()  # the last good version stays in force
        self.assertEqual(self.count(), 1)
        self.daemon.write("objects.yaml", self.file().replace('value: "8080"', 'value: "8080"}, {name: EXTRA, value: "yes"'))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").json["metadata"]["generation"] == 2, 10, "generation 2")
        self.assertEqual(self.daemon.actor("c1")["spec"]["template"]["generation"], 1)
        self.create("c2")
        self.assertEqual(self.proxy("c2", "/env?name=EXTRA"), b"yes\n")
        self.assertEqual(self.proxy("c1", "/env?name=EXTRA"), b"\n")

    def test_file_owned_objects_are_read_only_in_the_api(self):
        reply = self.daemon.request("DELETE", "/v1/templates/counter")
        self.assertEqual((reply.status, reply.problem), (409, "file-owned"))
        self.assertIn("objects.yaml", reply.json["detail"])

    def test_template_from_the_api_with_every_process_field(self):
        template = {"metadata": {"name": "full"}, "spec": {
            "sandboxClass": "gvisor",
            "containers": [{"name": "app", "image": f"oci-archive:{scenario.image()}", "workingDir": "/tmp",
                            "env": [{"name": "PORT", "value": "8080"}],
                            "readyz": {"tcp": {"port": 8080}},
                            "volumeMounts": [{"name": "info", "mountPath": "/run/ate", "readOnly": True}]}],
            "volumes": [{"name": "info", "systemInfo": {}}]}}
        reply = self.daemon.request("PUT", "/v1/templates/full", template)
        self.assertEqual(reply.status, 201, reply)
        self.create("f1", "full")
        self.assertEqual(self.proxy("f1", "/whoami"), b"0 0 /tmp actor\n")
        hosts = self.proxy("f1", "/read?path=/etc/hosts").decode()
        self.assertIn("actor", hosts)
        self.assertIn("169.254.17.1", self.proxy("f1", "/read?path=/etc/resolv.conf").decode())
        self.assertEqual(self.daemon.get("/v1/actors/f1/proxy/8080/write?path=/run/ate/x&data=1").status, 500)
        self.proxy("f1", "/write?path=/data/kept&data=hello")
        self.verb("f1", "suspend")
        self.assertEqual(self.proxy("f1", "/read?path=/data/kept"), b"hello")

    def test_a_container_that_does_not_start_tells_why(self):
        bad = scenario.template_text(container="    args: [fail, '5']\n", name="bad")
        self.daemon.write("bad.yaml", bad)
        ate.wait_until(lambda: self.daemon.get("/v1/templates/bad").status == 200, 10, "template bad")
        self.create("b1", "bad")
        reply = self.daemon.verb("b1", "resume")
        self.assertGreaterEqual(reply.status, 500, reply)
        self.assertIn("5", reply.json["detail"])
        self.assertEqual(self.daemon.state("b1"), "SUSPENDED")
        self.assertEqual(self.sandbox_processes(), [])
        missing = scenario.template_text(container="    command: [/no/such/file]\n", name="missing")
        self.daemon.write("missing.yaml", missing)
        ate.wait_until(lambda: self.daemon.get("/v1/templates/missing").status == 200, 10, "template missing")
        self.create("m1", "missing")
        reply = self.daemon.verb("m1", "resume")
        self.assertGreaterEqual(reply.status, 500, reply)
        self.assertIn("/no/such/file", json.dumps(reply.json))
        self.delete("m1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
