"""The daemon itself: command line, refusals, signals, modes, what it leaves behind. Needs root; one case a runsc."""

import grp
import json
import os
import signal
import stat
import subprocess
import unittest

import ate
import scenario

POOL = """apiVersion: ate.dev/v1alpha1
kind: WorkerPool
metadata: {name: %s}
spec: {sandboxClass: gvisor, replicas: 1, resources: {limits: {cpu: "1", memory: 1Gi, pids: 512}}}
"""

CONFIG = """apiVersion: ate.dev/v1alpha1
kind: SandboxConfig
metadata: {name: late}
spec: {sandboxClass: gvisor, default: true, assets: {runsc: {path: %s}}}
"""


class Case(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.daemon = ate.Daemon()
        self.addCleanup(self.daemon.close)

    def run_once(self, *arguments, env=None):
        return subprocess.run(self.daemon.command(*arguments), capture_output=True, text=True, timeout=30,
                              env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)


class CommandLine(Case):
    def test_it_prints_what_is_asked_and_ends(self):
        self.assertRegex(self.run_once("--version").stdout, r"^ate-noded \d+\.\d+\.\d+\n$")
        self.assertIn("exit codes", self.run_once("--help").stdout)
        printed = json.loads(self.run_once("--print-config").stdout)  # JSON is YAML
        self.assertEqual(printed["spec"]["stateDir"], self.daemon.state_dir)
        self.assertEqual(printed["spec"]["operationWait"], "60s")
        self.assertEqual(printed["spec"]["sizing"], {"requireActorLimits": False, "overcommit": {"memory": 1, "cpu": 1}})
        self.assertEqual(self.run_once("--check-config").returncode, 0)
        self.assertFalse(os.path.exists(self.daemon.state_dir))

    def test_mistakes_end_it_with_2_and_their_place(self):
        self.assertEqual(self.run_once("--nonsense").returncode, 2)
        self.daemon.write("noded.yaml", "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\nspec:\n  statDir: /x\n  logLevel: loud\n")
        for arguments in (("--check-config",), ()):
            run = self.run_once(*arguments)
            self.assertEqual(run.returncode, 2)
            self.assertIn("noded.yaml:4:3: spec.statDir", run.stderr)
            self.assertIn("noded.yaml:5:13: spec.logLevel", run.stderr)

    def test_check_config_reads_the_object_files_too(self):
        self.daemon.write("a.yaml", "apiVersion: ate.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: a}\nspec: {sandboxClass: gvisor}\n")
        run = self.run_once("--check-config")
        self.assertEqual(run.returncode, 2)
        self.assertIn("a.yaml:4:7: spec.resources.limits.cpu: is required", run.stderr)
        self.assertFalse(os.path.exists(self.daemon.state_dir))

    def test_failpoints_are_listed_or_refused(self):
        listed = self.run_once("--failpoints")
        if listed.returncode == 0:
            self.assertGreater(len(listed.stdout.split()), 5)
            return
        refused = self.run_once(env={"ATE_FAILPOINT": "x=kill"})
        self.assertEqual(refused.returncode, 3)
        self.assertIn("no failpoints", refused.stderr)


class Refusals(Case):
    def refused(self, text):
        run = self.run_once()
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("refusing to start", run.stderr)
        self.assertIn(text, run.stderr)

    def test_enforcement_without_its_cgroup_says_why(self):
        self.daemon.spec.update(enforcement="required", cgroupRoot=os.path.join(self.daemon.root, "none"))
        self.daemon.write_config()
        self.refused("enforcement: off")
        self.daemon.spec["cgroupRoot"] = self.daemon.root
        self.daemon.write_config()
        self.refused("not on a cgroup v2 file system")

    def test_a_second_daemon_on_the_same_state_is_refused_and_the_first_goes_on(self):
        self.daemon.start()
        self.refused("")
        self.assertEqual(self.daemon.get("/healthz").status, 200)

    def test_a_served_socket_is_not_taken_over(self):
        self.daemon.start()
        other = ate.Daemon(spec={"listen": {"socket": self.daemon.path, "mode": "0660", "group": "root"}})
        self.addCleanup(other.close)
        run = subprocess.run(other.command(), capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertEqual(self.daemon.get("/healthz").status, 200)

    def test_paths_that_are_no_directories(self):
        with open(self.daemon.state_dir, "w", encoding="ascii") as file:
            file.write("in the way")
        self.refused(self.daemon.state_dir)

    def test_too_long_run_directory(self):
        self.daemon.spec["runDir"] = os.path.join(self.daemon.root, "x" * 90)
        self.daemon.write_config()
        self.refused("runDir")


class Life(Case):
    def test_start_stop_and_nothing_is_left(self):
        before = self.daemon.seen()
        self.daemon.start()
        self.daemon.wait_ready()
        code, seconds = self.daemon.stop()
        self.assertEqual(code, 0, self.daemon.log())
        self.assertLessEqual(seconds, 1.0)
        changes = ate.diff(before, self.daemon.seen())
        changes.pop("files", None)
        self.assertEqual(changes, {})
        self.assertIn("left alone", self.daemon.log())

    def test_readiness_says_loudly_that_nothing_is_enforced(self):
        self.daemon.start()
        self.daemon.wait_ready()
        ready = self.daemon.get("/readyz").json
        self.assertEqual(ready["enforcement"], "off")
        self.assertIn("NOT ENFORCED", json.dumps(ready))
        self.assertIn("NOT ENFORCED", self.daemon.log())

    def test_modes_of_what_it_makes(self):
        self.daemon.start()
        self.daemon.wait_ready()
        mode = lambda *parts: stat.S_IMODE(os.stat(os.path.join(self.daemon.root, *parts)).st_mode)
        self.assertEqual(mode("run", "noded.sock"), 0o660)
        self.assertEqual(mode("run"), 0o711)
        self.assertEqual(mode("state"), 0o710)
        self.assertEqual(mode("state", "state.db"), 0o600)
        for name in ("images", "assets", "snapshots", "actors"):
            self.assertEqual(mode("state", name), 0o710, name)
        try:
            expected = grp.getgrnam("ate-vm").gr_gid
        except KeyError:
            expected = 0
        self.assertEqual(os.stat(self.daemon.state_dir).st_gid, expected)

    def test_hup_reads_the_files_again(self):
        self.daemon.start()
        self.daemon.wait_ready()
        self.daemon.write("pool.yaml", POOL % "late")
        os.kill(self.daemon.pid, signal.SIGHUP)
        ate.wait_until(lambda: self.daemon.get("/v1/pools/late").status == 200, 10, "pool late")
        self.assertEqual(self.daemon.get("/v1/pools/late").json["status"]["object"]["source"], "file")

    def test_a_runsc_that_failed_its_self_test_gets_another_chance(self):
        script, there = os.path.join(self.daemon.root, "runsc"), os.path.join(self.daemon.root, "there")
        with open(script, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\n[ -e {there} ] || {{ echo not yet >&2; exit 1; }}\nexec {scenario.runsc()} "$@"\n')
        os.chmod(script, 0o755)
        self.daemon.write("config.yaml", CONFIG % script)
        self.daemon.start()
        shown = lambda: self.daemon.get("/v1/sandbox-configs/late").json["status"]
        ate.wait_until(lambda: self.daemon.get("/v1/sandbox-configs/late").status == 200 and shown()["selfTest"] == "Failed",
                       30, "a failed self-test")
        self.assertEqual(shown()["object"]["ready"], "False")
        self.assertIn("self-test", shown()["object"]["message"])
        self.assertEqual(self.daemon.get("/readyz").status, 503)
        with open(there, "w", encoding="ascii"):
            os.kill(self.daemon.pid, signal.SIGHUP)
        ate.wait_until(lambda: shown()["object"]["ready"] == "True", 60, "a passed self-test")
        self.assertEqual(self.daemon.get("/readyz").status, 200)

    def test_a_kill_loses_nothing_that_was_answered(self):
        self.daemon.start()
        self.daemon.wait_ready()
        document = {"spec": {"sandboxClass": "gvisor", "replicas": 1,
                             "resources": {"limits": {"cpu": "1", "memory": "1Gi", "pids": 512}}}}
        made = self.daemon.request("PUT", "/v1/pools/kept", document)
        self.assertEqual(made.status, 201, made)
        self.daemon.kill9()
        self.daemon.start()
        self.daemon.wait_ready()
        kept = self.daemon.get("/v1/pools/kept")
        self.assertEqual(kept.status, 200, kept)
        self.assertEqual(kept.headers["ETag"], made.headers["ETag"])

    def test_followers_do_not_hold_up_the_stop(self):
        self.daemon.start()
        self.daemon.wait_ready()
        connection, stream = self.daemon.open("GET", "/v1/events?follow=true")
        self.addCleanup(connection.close)
        self.assertEqual(stream.status, 200)
        _, seconds = self.daemon.stop()
        self.assertLessEqual(seconds, 1.0)


class Interface(Case):
    def setUp(self):
        super().setUp()
        self.daemon.start()
        self.daemon.wait_ready()

    def test_what_is_served_is_what_is_documented(self):
        served = self.daemon.get("/v1/openapi.json").json
        self.assertTrue(served["openapi"].startswith("3.1"))
        for path, item in served["paths"].items():
            if "get" in item and "{" not in path:
                reply = self.daemon.get(path)
                documented = set(item["get"]["responses"]) - {"default"}
                self.assertIn(str(reply.status), documented, path)

    def test_problems_are_documents_with_a_page(self):
        reply = self.daemon.get("/v1/actors/none")
        self.assertEqual((reply.status, reply.problem), (404, "not-found"))
        self.assertEqual(reply.json["requestId"], reply.headers["Request-Id"])
        self.assertEqual(self.daemon.get(reply.json["type"]).status, 200)
        for target in ("/v1/actors/%2e%2e", "/v1/actors/a%00", "/v1//actors", "/v1/actors?x=1"):
            self.assertEqual(self.daemon.get(target).status, 400, target)
        self.assertEqual(self.daemon.request("PUT", "/v1/actors").headers["Allow"], "GET, POST, HEAD")

    def test_what_curl_sends_by_itself_is_taken(self):
        reply = self.daemon.request("POST", "/v1/actors", '{"metadata":{"name":"c1"},"spec":{"template":{"name":"none"}}}',
                                    {"Content-Type": "application/x-www-form-urlencoded"})
        self.assertNotEqual(reply.status, 415, reply)
        self.assertIn("none", reply.json["detail"])

    def test_every_change_is_written_down_without_its_body(self):
        document = {"spec": {"sandboxClass": "gvisor", "replicas": 1, "resources": {"limits": {"cpu": "1", "memory": "1Gi", "pids": 512}}}}
        made = self.daemon.request("PUT", "/v1/pools/written", document)
        self.assertEqual(made.status, 201, made)
        # Written after the reply, because it says how long that took.
        line = ate.wait_until(lambda: next((line for line in self.daemon.log().splitlines()
                                            if made.headers["Request-Id"] in line), None), 5, "audit line")
        for part in ('method="PUT"', 'path="/v1/pools/written"', 'status="201"', 'uid="0"', 'pid="%d"' % os.getpid()):
            self.assertIn(part, line)
        self.assertNotIn("sandboxClass", self.daemon.log())

    def test_idle_memory(self):
        limit = 16 << 20
        if "asan" in self.daemon.binary or self.dynamic():
            self.skipTest("measured on the static release build only")
        self.assertLessEqual(self.daemon.rss_bytes(), limit)

    def dynamic(self):
        with open("/proc/%d/maps" % self.daemon.pid, encoding="ascii") as file:
            return "ld-linux" in file.read()


if __name__ == "__main__":
    unittest.main()
