"""Actors of several containers on a real runsc: app, helper and a sidecar; and commands by exec (docs/containers.md, docs/api.md)."""

import base64
import threading
import time
import unittest

import ate
import scenario

PORTS = scenario.PORTS
three = scenario.three_text
GRACE = 6


class Containers(scenario.Case):
    def file(self):
        return scenario.objects(replicas=self.replicas) + "---\n" + three() + "---\n" + self.more_templates()

    def more_templates(self):
        return three("graceful", more=f"  terminationGrace: {GRACE}s\n")

    def ready(self):
        super().ready()
        ate.wait_until(lambda: self.daemon.get("/v1/templates/three").status == 200, 30, "template three")

    def ask(self, container, path="/count", name="c1", expect=200):
        reply = self.daemon.request("GET", f"/v1/actors/{name}/proxy/{PORTS[container]}{path}")
        self.assertEqual(reply.status, expect, (container, path, reply))
        return reply.body.decode()

    def containers(self, name="c1"):
        return {item["name"]: item for item in self.daemon.actor(name)["status"].get("containers", [])}

    def running(self, name="c1", template="three"):
        self.create(name, template)
        self.verb(name, "resume")

    def kill(self, container, signal="KILL"):
        self.verb("c1", "signal", {"signal": signal, "container": container})

    def exec(self, *argv, name="c1", expect=200, container="app", **more):
        body = {"argv": ["/bin/workload", "do", *argv], "container": container, **more}
        reply = self.daemon.request("POST", f"/v1/actors/{name}/exec", body, timeout=120)
        self.assertEqual(reply.status, expect, (reply, self.daemon.log()[-3000:]))
        return reply.json


class Life(Containers):
    def test_memory_and_files_of_all_come_back(self):
        self.create("warm", "three")  # an image's first run adds mount points to its tree
        self.verb("warm", "resume")
        self.delete("warm")
        before = self.daemon.seen()
        self.running()
        self.assertEqual({name: (c["state"], c["ready"], c.get("sidecar", False)) for name, c in self.containers().items()},
                         {"app": ("RUNNING", True, False), "helper": ("RUNNING", True, False), "side": ("RUNNING", True, True)})
        for container in PORTS:
            self.assertEqual(self.ask(container, "/env?name=WHO"), container + "\n")
            self.ask(container, f"/write?path=/tmp/note&data={container}")
            self.assertEqual(self.ask(container), "1\n")
        for count, verb in ((2, "suspend"), (3, "pause"), (4, "suspend")):
            self.verb("c1", verb)
            self.assertEqual(self.containers(), {})
            for container in PORTS:  # the first one wakes it
                self.assertEqual(self.ask(container), f"{count}\n")
                self.assertEqual(self.ask(container, "/read?path=/tmp/note"), container)
        operation = self.daemon.get("/v1/operations/" + self.daemon.actor("c1")["status"]["lastOperation"]).json
        self.assertIn("runsc-restore-containers", [stage["name"] for stage in operation["stages"]])
        self.verb("c1", "revert")
        self.assertEqual(self.ask("helper"), "4\n")
        self.delete()
        self.settled(before, 10)

    def test_they_share_the_network_and_nothing_else(self):
        self.running()
        self.assertEqual(self.exec("count", container="helper")["stdout"], "2\n")  # itself and its own pid 1
        self.ask("app", "/write?path=/tmp/mine&data=x")
        self.assertEqual(self.exec("exists", "/tmp/mine")["exitCode"], 0)
        self.assertEqual(self.exec("exists", "/tmp/mine", container="helper")["exitCode"], 1)

    def test_logs_are_told_apart(self):
        self.running()
        for container in PORTS:
            self.ask(container, f"/print?line=from-{container}")
        for container in PORTS:
            reply = self.daemon.get(f"/v1/actors/c1/logs?container={container}&stream=stdout")
            self.assertIn(f"from-{container}", reply.body.decode())
            self.assertEqual(reply.body.decode().count("from-"), 1, reply)
        self.assertEqual(self.daemon.get("/v1/actors/c1/logs").status, 422)

    def test_grace_is_for_all_of_them(self):
        def took():
            before = time.monotonic()
            self.delete()
            return time.monotonic() - before

        self.running(template="graceful")
        self.assertLess(took(), GRACE)  # each heeds its SIGTERM; one that had got none would have been waited for
        self.running(template="graceful")
        self.ask("side", "/ignore")
        self.assertGreaterEqual(took(), GRACE)


class Ends(Containers):
    def ended(self, container, code, *, how):
        self.running()
        how()
        ate.wait_until(lambda: self.daemon.state("c1") in ("EXITED", "CRASHED"), 15, "an end")
        status = self.daemon.actor("c1")["status"]
        self.assertEqual((status["state"], status["exitCode"], status["reason"]), ("EXITED", code, f"exited({code})"), status)
        self.assertIn(f"container {container} exited with code {code}", status["message"])
        self.assertEqual({name: c["state"] for name, c in self.containers().items()}, dict.fromkeys(PORTS, "EXITED"))
        self.assertEqual(self.containers()[container]["exitCode"], code)
        ate.wait_until(lambda: not self.sandbox_processes(), 15, "the end of all of it")
        self.delete()

    def test_the_end_of_any_but_a_sidecar_is_the_actors(self):
        self.ended("app", 7, how=lambda: self.daemon.request("GET", "/v1/actors/c1/proxy/8080/exit?code=7"))
        self.ended("helper", 137, how=lambda: self.kill("helper"))
        self.ended("helper", 0, how=lambda: self.daemon.request("GET", "/v1/actors/c1/proxy/8081/exit?code=0"))

    def test_restart_policy_boots_all_again(self):
        self.create("c1", "three", restartPolicy="OnFailure")
        self.verb("c1", "resume")
        self.ask("side")
        self.daemon.request("GET", "/v1/actors/c1/proxy/8081/exit?code=3")  # not by a signal of the operator
        ate.wait_until(lambda: self.daemon.actor("c1")["status"]["restarts"] == 1, 30, "a restart")
        self.daemon.wait_state("c1", "RUNNING")
        self.assertEqual([self.ask(name) for name in PORTS], ["1\n"] * 3)

    def test_a_sidecar_is_started_again_in_place(self):
        self.running()
        for container in PORTS:
            self.ask(container)
        for restarts in (1, 2):
            self.kill("side")
            ate.wait_until(lambda: self.containers()["side"]["restarts"] == restarts and self.containers()["side"]["ready"], 30, "a restart")
            self.assertEqual(self.ask("side"), "1\n")
        self.assertEqual([self.ask("app"), self.ask("helper")], ["2\n"] * 2)
        self.assertEqual(self.daemon.state("c1"), "RUNNING")
        self.assertEqual(self.containers()["side"]["exitCode"], 137)
        self.assertTrue([e for e in self.daemon.events() if e["type"] == "actor.containers"])
        self.verb("c1", "suspend")
        self.assertEqual([self.ask(name) for name in PORTS], ["3\n", "3\n", "2\n"])

    def test_a_snapshot_without_the_sidecar_that_has_just_ended(self):
        self.running()
        for container in PORTS:
            self.ask(container)
        self.kill("side")
        self.verb("c1", "suspend")  # within its back-off, or just after: both are whole
        self.assertEqual([self.ask("app"), self.ask("helper")], ["2\n"] * 2)
        ate.wait_until(lambda: self.containers()["side"]["ready"], 30, "the sidecar")
        self.assertEqual(self.ask("side"), "1\n")
        self.verb("c1", "suspend")
        self.assertEqual(self.ask("side"), "2\n")

    def test_which_container_must_be_said(self):
        self.running()
        for path, body in (("signal", {"signal": "HUP"}), ("exec", {"argv": ["/bin/workload"]}),
                           ("signal", {"signal": "HUP", "container": "other"})):
            reply = self.daemon.request("POST", "/v1/actors/c1/" + path, body)
            self.assertEqual((reply.status, reply.json["field"]), (422, "container"), reply)
            self.assertIn("app, helper, side", reply.json["detail"])


class Gates(Containers):
    def more_templates(self):
        good = "    readyz: {exec: {command: [/bin/workload, do, exists, /bin/workload]}, periodMs: 20}\n"
        bad = "    readyz: {exec: {command: [/bin/workload, do, exists, /none]}, timeout: 1s}\n"
        hung = "    readyz: {tcp: {port: 1}, timeout: 500ms}\n"
        return "---\n".join([three("commands", app=good, helper="    readyz: {tcp: {port: 8081}}\n"), three("closed", helper=bad),
                             three("silent", side=hung)])

    def test_tcp_http_and_command(self):
        self.running(template="commands")
        self.assertTrue(all(c["ready"] for c in self.containers().values()))
        self.delete()
        for template, name, words in (("closed", "helper", "its command"), ("silent", "side", "port 1")):
            self.create("c1", template)
            reply = self.daemon.verb("c1", "resume")
            self.assertEqual(reply.problem, "not-ready", reply)
            self.assertIn(f"container {name}: {words} was not ready", reply.json["detail"])
            self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
            self.delete()
        self.assertEqual(self.sandbox_processes(), [])


class Exec(Containers):
    def more_templates(self):
        return scenario.template_text(name="one")

    def test_what_goes_in_and_what_comes_out(self):
        self.running()
        self.assertEqual(self.exec("echo", "hello")["stdout"], "hello\n")
        self.assertEqual(self.exec("err", "oops")["stderr"], "oops\n")
        self.assertEqual(self.exec("exit", "3")["exitCode"], 3)
        self.assertEqual(self.exec("env", "WHO", container="side")["stdout"], "side\n")
        self.assertEqual(self.exec("env", "WHO", env=[{"name": "WHO", "value": "me"}])["stdout"], "me\n")
        self.assertEqual(self.exec("whoami")["stdout"], "0 0 /\n")
        self.assertEqual(self.exec("whoami", user="web", workingDir="/tmp")["stdout"], "1234 1235 /tmp\n")
        text = "x" * (512 * 1024)
        self.assertEqual(self.exec("cat", stdin=text)["stdout"], text)
        everything = bytes(range(256))
        result = self.exec("cat", stdinBase64=base64.b64encode(everything).decode())
        self.assertEqual((result["stdoutEncoding"], base64.b64decode(result["stdout"])), ("base64", everything))
        self.assertEqual(base64.b64decode(self.exec("binary")["stdout"]), everything)

    def test_errors_are_exact(self):
        self.running()
        reply = self.daemon.request("POST", "/v1/actors/c1/exec", {"argv": ["/none"], "container": "app"})
        self.assertEqual((reply.status, reply.json["field"]), (422, "argv"), reply)
        self.assertIn("no such file", reply.json["detail"])
        reply = self.daemon.request("POST", "/v1/actors/c1/exec", {"argv": ["/bin/workload"], "container": "app", "user": "nobody-there"})
        self.assertEqual((reply.status, reply.json["field"]), (422, "user"), reply)
        self.assertEqual(self.daemon.request("POST", "/v1/actors/none/exec", {"argv": ["x"]}).status, 404)

    def test_hostile(self):
        self.running()
        processes = self.exec("count")["stdout"]
        rss = self.daemon.rss_bytes()
        flood = self.exec("flood", timeout="2s")
        self.assertTrue(flood["timedOut"] and flood["stdoutTruncated"])
        self.assertEqual(len(flood["stdout"]), 1 << 20)
        self.assertLess(self.daemon.rss_bytes() - rss, 16 << 20)
        for what in (("hang",), ("fork", "20")):
            result = self.exec(*what, timeout="1s")
            self.assertEqual((result["timedOut"], result["exitCode"]), (True, 137), result)
        self.assertEqual(self.exec("leave")["stdout"], "left\n")  # its child holds stdout and is not waited for
        ate.wait_until(lambda: int(self.exec("count")["stdout"]) == int(processes) + 1, 10, "only the one left behind")
        self.assertEqual(self.ask("app"), "1\n")

    def test_only_so_many_at_once(self):
        self.running()
        results = []
        hung = [threading.Thread(target=lambda: results.append(self.daemon.request(
            "POST", "/v1/actors/c1/exec", {"argv": ["/bin/workload", "do", "hang"], "container": "app", "timeout": "5s"}))) for _ in range(9)]
        for thread in hung:
            thread.start()
        for thread in hung:
            thread.join()
        self.assertEqual(sorted(reply.status for reply in results), [200] * 8 + [429], results)
        self.assertEqual(self.exec("count")["stdout"], "2\n")  # each ended with its own tree, none with another's

    def test_a_command_wakes_the_actor_and_keeps_it_awake(self):
        self.create("c1", "one", idle={"after": "1s", "action": "suspend"})
        reply = self.daemon.request("POST", "/v1/actors/c1/exec", {"argv": ["/bin/workload", "do", "hang"], "timeout": "5s"})
        self.assertEqual((reply.status, reply.json["timedOut"]), (200, True), reply)
        self.assertFalse([e for e in self.daemon.events() if e.get("to") == "SUSPENDING"])
        self.daemon.wait_state("c1", "SUSPENDED", 30)

    def test_a_save_closes_what_is_open_and_the_restore_succeeds(self):
        # case T33
        for name, template, container in (("c1", "three", "helper"), ("c2", "one", "app")):
            self.running(name, template)
            self.assertEqual(self.exec("leave", name=name, container=container)["stdout"], "left\n")
            replies = []
            hung = threading.Thread(target=lambda: replies.append(self.daemon.request(
                "POST", f"/v1/actors/{name}/exec", {"argv": ["/bin/workload", "do", "flood"], "container": container, "timeout": "60s"})))
            hung.start()
            ate.wait_until(lambda: int(self.exec("count", name=name, container=container)["stdout"]) >= 4, 10, "an open command")
            self.verb(name, "suspend")
            hung.join(20)
            self.assertEqual([reply.status for reply in replies], [409], replies)
            self.assertIn("saved or ended", replies[0].json["detail"])
            self.verb(name, "resume")
            self.assertEqual(self.exec("count", name=name, container=container)["stdout"], "2\n")
            self.assertEqual(self.ask("app", name=name), "1\n")


if __name__ == "__main__":
    unittest.main()
