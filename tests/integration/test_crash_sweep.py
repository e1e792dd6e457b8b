"""kill -9 of the daemon at every failpoint that a life passes: the store opens, no half-made snapshot is chosen, each actor has an
exit from its state, and nothing is left on the host 2 s after the next start."""

import http.client
import os
import subprocess
import unittest

import ate
import scenario


def binary():
    path = os.environ.get("ATE_NODED_FAILPOINTS")
    if not path or not os.access(path, os.X_OK):
        raise unittest.SkipTest("no build with failpoints: set ATE_NODED_FAILPOINTS (tests/run builds one)")
    return path


def failpoints():
    try:
        listed = subprocess.run([binary(), "--failpoints"], capture_output=True, text=True, check=True)
    except (unittest.SkipTest, OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.split()


class Died(Exception):
    """The daemon ended in the middle of a call."""


class Life:
    """One actor's whole life, remembering what may be lost and what must not."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.acceptable = {0}  # counter values a fresh restore may continue from
        self.counter = 0
        self.deleting = False
        self.created = False

    def call(self, method, path, body=None):
        try:
            reply = self.daemon.request(method, path, body, timeout=60)
        except (OSError, http.client.HTTPException) as error:
            raise Died from error
        if reply.status >= 500 and self.daemon.process.poll() is not None:
            raise Died
        return reply

    def expect(self, reply, *status):
        if reply.status not in status:
            raise AssertionError(f"{reply} (counter {self.counter})")

    def count(self):
        reply = self.call("GET", "/v1/actors/c1/proxy/8080/count")
        self.expect(reply, 200)
        self.counter += 1
        if int(reply.body) != self.counter:
            raise AssertionError(f"counter {reply.body} instead of {self.counter}")

    def save(self, verb):
        """suspend commits, pause keeps a snapshot that a crash may or may not lose."""
        self.acceptable.add(self.counter)
        self.expect(self.call("POST", f"/v1/actors/c1/{verb}"), 200)
        self.acceptable = {self.counter} if verb == "suspend" else self.acceptable

    def run(self):
        self.expect(self.call("POST", "/v1/actors", {"metadata": {"name": "c1"}, "spec": {"template": {"name": "counter"}}}), 201)
        self.created = True
        self.count()            # wake by boot
        self.count()
        self.save("suspend")
        self.count()            # wake by restore
        self.save("suspend")    # replaces the first snapshot
        self.count()
        self.save("pause")
        self.count()            # from the pause snapshot
        self.save("pause")
        self.save("suspend")    # commits the pause snapshot
        self.count()
        self.expect(self.call("POST", "/v1/actors/c1/revert"), 200)
        self.counter = next(iter(self.acceptable))
        self.count()
        self.deleting = True
        self.expect(self.call("DELETE", "/v1/actors/c1"), 200, 204)


class CrashSweep(unittest.TestCase):
    def sweep(self, name):
        daemon = ate.Daemon(binary=binary())
        self.addCleanup(daemon.close)
        daemon.write("objects.yaml", scenario.objects())
        # The state before any actor: an undisturbed start whose self-test has run.
        daemon.start()
        daemon.wait_ready()
        ate.wait_until(lambda: daemon.get("/v1/templates/counter").status == 200, 30, "template")
        daemon.stop()
        life = Life(daemon)
        died = False
        try:
            daemon.spawn(env={"ATE_FAILPOINT": name + "=kill"})
            ate.wait_until(lambda: daemon.process.poll() is not None or self.answers(daemon), 20, "an answer or the end")
            if daemon.process.poll() is not None:
                raise Died
            ate.wait_until(lambda: daemon.process.poll() is not None or self.ready(daemon), 60, "ready or the end")
            life.run()
            daemon.stop()
        except Died:
            died = True
            self.assertEqual(daemon.wait_exit(), -9, daemon.log()[-3000:])
        if not died and daemon.process is None:
            self.skipTest("not passed by this life")  # other suites cover it: see docs/testing.md
        daemon.start()
        daemon.wait_ready()
        reply = daemon.get("/v1/actors/c1")
        if life.deleting:
            ate.wait_until(lambda: daemon.get("/v1/actors/c1").status in (404, 200), 2, "an end of the delete")
        if reply.status == 404:
            self.assertTrue(life.deleting or not life.created, "an acknowledged actor is gone")
        else:
            self.check_exit(daemon, life)
        ate.wait_until(lambda: not daemon.seen()["processes"], 2, "no process left")
        leftovers = self.leftovers(daemon)
        try:
            ate.wait_until(lambda: not self.leftovers(daemon), 2, "nothing left")
        except TimeoutError:
            self.fail(f"left behind: {leftovers}")

    @staticmethod
    def answers(daemon):
        try:
            return daemon.get("/healthz", timeout=5).status == 200
        except (OSError, http.client.HTTPException):
            return False

    @staticmethod
    def ready(daemon):
        try:
            return daemon.get("/readyz", timeout=5).status == 200 and daemon.get("/v1/templates/counter").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def check_exit(self, daemon, life):
        state = daemon.state("c1")
        if state in ("CRASHED", "EXITED"):
            reply = daemon.verb("c1", "revert")
            self.assertEqual(reply.status, 200, reply)
        elif state not in ("SUSPENDED", "PAUSED"):
            self.fail(f"state {state} after a restart")
        reply = daemon.get("/v1/actors/c1/proxy/8080/count")
        self.assertEqual(reply.status, 200, (reply, daemon.log()[-3000:]))
        self.assertIn(int(reply.body) - 1, life.acceptable)
        self.assertEqual(daemon.verb("c1", "suspend").status, 200)
        self.assertIn(daemon.request("DELETE", "/v1/actors/c1").status, (200, 204))

    @staticmethod
    def leftovers(daemon):
        """What must be empty when there is no actor: network namespaces kept ahead are the daemon's stock, not leftovers."""
        found = {}
        for place in ("snapshots", "actors"):
            entries = os.listdir(os.path.join(daemon.state_dir, place))
            if entries:
                found[place] = entries
        entries = [entry for entry in os.listdir(os.path.join(daemon.state_dir, "images")) if entry.startswith(".")]
        if entries:
            found["images"] = entries
        running = os.path.join(daemon.run_dir, "actors")
        if os.path.isdir(running) and os.listdir(running):
            found["run"] = os.listdir(running)
        stock = len(os.listdir(os.path.join(daemon.run_dir, "netns"))) if os.path.isdir(os.path.join(daemon.run_dir, "netns")) else 0
        if stock > 16:
            found["netns"] = stock
        return found


def add(name):
    def test(self):
        self.sweep(name)
    setattr(CrashSweep, "test_kill_at_" + name.replace("-", "_"), test)


for failpoint in failpoints():
    add(failpoint)
if not failpoints():
    def no_build(self):
        binary()
        self.fail("the build lists no failpoints")
    CrashSweep.test_build = no_build


if __name__ == "__main__":
    unittest.main(verbosity=2)
