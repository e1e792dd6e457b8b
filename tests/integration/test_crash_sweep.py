"""kill -9 of the daemon, or an error, at every failpoint that each step of an actor's life passes.

After a kill the next start must find the store whole, choose no half-made snapshot, leave the actor an exit from its state with
the right counter in it, and have nothing on the host that was not there before (an exact diff, within 2 s). After an error the
call tells a proper problem, the actor is in a listed state, the next try works, the counter is right, nothing stays behind.

Which failpoints a step passes is found by a run of it that nothing disturbs; the last test checks that all were had.
"""

import os
import unittest

import ate
import crash

# Not of an actor's life: the test that kills there.
START = "test_crash_random.py, Start"
ELSEWHERE = {
    "image-helper-confined": START,  # the helper dies, not the daemon
    "image-helper-layer": START,
    "image-commit-before": START,
    "image-commit-after": START,
    "asset-before-rename": START,
    "reconcile-after-purge": START,
    "reconcile-after-commit": START,
    "image-remove-after-rename": "test_retention.py",
    "idempotency-after-reserve": "test_idempotency.py",
    "idempotency-before-keep": "test_idempotency.py",
    # Of no actor that anybody made.
    **{f"golden-{step}": "test_golden.py, Crash" for step in (
        "after-intent", "before-intent", "after-checkpoint", "after-seal", "before-trial", "after-trial", "after-commit")},
    "egress-leased": "test_network.py",
    "egress-rules": "test_network.py",
    "egress-linked": "test_network.py",
    "egress-removed": "test_network.py",
    # A suspend that fails unpauses; killed there, the actor is found SUSPENDING as at every point before.
    "gvisor-unpause": "the errors of this sweep, and UnpauseKill",
}
covered = {"kill": set(), "error": set()}
steps_done = {"kill": set(), "error": set()}


class Step:
    """One step of a life: how to come before it, what does it, and what each state after a kill or an error goes on with.

    `after` maps a state to "memory", "paused" or "committed": where the counter is then. None: the actor is gone."""

    def __init__(self, name, before, act, template="counter", only=(), **after):
        """`only`: of the failpoints it passes these; the rest is another step's. Empty: all."""
        self.name, self.before, self.act, self.after = name, before, act, after
        self.template, self.only = template, only
        self.may_be_gone = after.pop("GONE", False)

    def arrange(self, counter):
        getattr(counter, self.before)()

    def run(self, counter):
        return self.act(counter)


def exit_by_itself(counter):
    counter.proxy("/exit?code=7")  # whose answer may be cut off
    ate.wait_until(lambda: not counter.rig.alive() or counter.rig.actor()["status"]["state"] != "RUNNING", 10, "an end")
    return counter.rig.call("GET", "/v1/actors/c1")


def sidecar_again(counter):
    """Kills the sidecar and waits until it runs again, or until a failpoint has had its say."""
    def restarts():
        actor = counter.rig.call("GET", "/v1/actors/c1").json
        return next((c["restarts"], c["ready"]) for c in actor["status"]["containers"] if c["name"] == "side")
    before = restarts()[0]
    reply = counter.expect(counter.verb("signal", {"signal": "KILL", "container": "side"}), 200)
    ate.wait_until(lambda: not counter.rig.alive() or restarts() == (before + 1, True), 20, "the sidecar's start")
    return reply if counter.rig.alive() else counter.rig.call("GET", "/v1/actors/c1")


def command(counter):
    return counter.rig.call("POST", "/v1/actors/c1/exec", {"argv": ["/bin/workload", "do", "echo", "x"], "container": "app"})


def delete(query=""):
    return lambda counter: counter.rig.call("DELETE", "/v1/actors/c1" + query)


STEPS = [
    Step("create", "remove", lambda c: c.create(), SUSPENDED="committed", GONE=True),
    Step("boot", "new", lambda c: c.verb("resume"), SUSPENDED="committed", RUNNING="memory", CRASHED="committed"),
    Step("boot-ended", "ended", lambda c: c.verb("resume", {"boot": True}),
         EXITED="committed", CRASHED="committed", RUNNING="zero"),
    Step("wake", "suspended", lambda c: c.proxy("/time"), SUSPENDED="committed", RUNNING="memory", CRASHED="committed"),
    Step("wake-reverted", "reverted", lambda c: c.proxy("/time"), SUSPENDED="committed", RUNNING="committed", CRASHED="committed"),
    Step("suspend", "running", lambda c: c.verb("suspend"), SUSPENDED="memory", RUNNING="memory", CRASHED="committed"),
    Step("pause", "running", lambda c: c.verb("pause"), PAUSED="memory", RUNNING="memory", CRASHED="committed"),
    Step("snapshot", "running", lambda c: c.verb("snapshots"), RUNNING="memory", CRASHED="committed"),
    Step("resume-paused", "pausing", lambda c: c.verb("resume"), PAUSED="paused", RUNNING="paused", CRASHED="committed"),
    Step("commit-paused", "pausing", lambda c: c.verb("suspend"), PAUSED="paused", SUSPENDED="paused"),
    Step("revert-running", "running", lambda c: c.verb("revert"), SUSPENDED="committed", RUNNING="memory", CRASHED="committed"),
    Step("revert-paused", "pausing", lambda c: c.verb("revert"), PAUSED="paused", SUSPENDED="committed"),
    Step("revert-ended", "ended", lambda c: c.verb("revert"), EXITED="committed", SUSPENDED="committed"),
    Step("exit", "running", exit_by_itself, EXITED="committed", CRASHED="committed", RUNNING="memory"),
    Step("delete-suspended", "suspended", delete(), SUSPENDED="committed", GONE=True),
    Step("delete-paused", "pausing", delete(), PAUSED="paused", GONE=True),
    Step("delete-running", "running", delete(), RUNNING="memory", CRASHED="committed", GONE=True),
    Step("delete-force", "running", delete("?force"), RUNNING="memory", CRASHED="committed", GONE=True),
    # Of three containers: what the runtime does in other ways than with one.
    Step("three-boot", "new", lambda c: c.verb("resume"), "three", ("gvisor-root-started", "gvisor-started"), SUSPENDED="committed", RUNNING="memory", CRASHED="committed"),
    Step("three-wake", "suspended", lambda c: c.proxy("/time"), "three", ("gvisor-root-started", "gvisor-started"),
         SUSPENDED="committed", RUNNING="memory", CRASHED="committed"),
    Step("three-suspend", "running", lambda c: c.verb("suspend"), "three", ("gvisor-paused", "gvisor-saved"),
         SUSPENDED="memory", RUNNING="memory", CRASHED="committed"),
    Step("three-delete", "running", delete(), "three", ("gvisor-killed",), RUNNING="memory", CRASHED="committed", GONE=True),
    Step("three-sidecar", "running", sidecar_again, "three", ("gvisor-sidecar",), RUNNING="memory", CRASHED="committed"),
    Step("three-exec", "running", command, "three", ("gvisor-exec",), RUNNING="memory", CRASHED="committed"),
]

# Errors one after the other: what a failed commit does in the middle, and what undoing does when it fails too.
CHAINS = {
    "boot": [("resume-after-ready=pass", "store-commit-before=error"), ("gvisor-started=error", "gvisor-kill=error"),
             ("resume-after-ready=error", "store-commit-before=error")],
    "wake": [("resume-after-ready=pass", "store-commit-before=error"), ("gvisor-started=error", "gvisor-leaf-removed=error")],
    "suspend": [("suspend-after-seal=pass", "store-commit-before=error"), ("gvisor-paused=error", "gvisor-unpause=error"),
                ("suspend-after-seal=error", "store-commit-before=error"), ("gvisor-pause=error", "gvisor-unpause=error")],
    "pause": [("pause-after-seal=pass", "store-commit-before=error"), ("gvisor-saved=error", "gvisor-unpause=error")],
    "snapshot": [("snapshot-after-seal=pass", "store-commit-before=error"), ("gvisor-saved=error", "gvisor-unpause=error"),
                 ("snapshot-after-unpause=error", "store-commit-before=error")],
    "revert-running": [("revert-after-destroy=pass", "store-commit-before=error")],
    "delete-running": [("delete-after-files=pass", "store-commit-before=error"), ("gvisor-kill=error", "store-commit-before=error")],
    "delete-suspended": [("delete-after-files=pass", "store-commit-before=error")],
}


class Sweep(unittest.TestCase):
    current = None

    def rig(self, template="counter"):
        self.stop_rig()
        self.current = crash.Rig()
        self.current.start()
        self.current.take_baseline(template)
        return self.current

    def stop_rig(self):
        if self.current is not None:
            self.current.close()
            self.current = None

    def setUp(self):
        crash.binary()
        self.addCleanup(self.stop_rig)

    @classmethod
    def tearDownClass(cls):
        crash.Prepared.remove()

    def go_on(self, counter, step):
        """The actor has an exit from its state, and the counter goes on from where this state has it."""
        actor = counter.rig.settled_actor()
        if actor is None:
            self.assertTrue(step.may_be_gone, "an acknowledged actor is gone")
            return
        state = actor["status"]["state"]
        self.assertIn(state, step.after, actor["status"])
        if state in ("EXITED", "CRASHED"):
            counter.expect(counter.verb("revert"), 200)
        source = step.after[state]
        counter.memory = {"memory": counter.memory, "paused": counter.paused, "committed": counter.committed, "zero": 0}[source]
        if source != "zero":  # a cold start is on the live files
            counter.file = counter.memory
        if state == "SUSPENDED":
            counter.committed = counter.memory
        if state == "PAUSED":
            counter.paused = counter.memory
        counter.count()

    def passed_by(self, rig, counter, step):
        step.arrange(counter)
        with rig.traced() as passed:
            counter.expect(step.run(counter), 200, 201, 204)
            if rig.settled_actor() is not None and rig.settled_actor()["status"]["state"] != "RUNNING":
                rig.check_clean()
            else:
                ate.wait_until(lambda: rig.settled_actor() is not None or not rig.leftovers(), 2, "the end of it")
        actor = rig.settled_actor()
        if actor is not None:
            self.go_on(counter, step)
        return [name for name in dict.fromkeys(passed) if not step.only or name in step.only]


class Kill(Sweep):
    def sweep(self, step):
        rig = self.rig(step.template)
        counter = crash.Counter(rig, step.template)
        for name in self.passed_by(rig, counter, step):
            with self.subTest(step=step.name, kill=name):
                try:
                    self.kill_at(rig, counter, step, name)
                    covered["kill"].add(name)
                    continue
                except BaseException:
                    print(rig.daemon.log()[-3000:])
                    rig = self.rig(step.template)
                    counter = crash.Counter(rig, step.template)
                    raise
        steps_done["kill"].add(step.name)

    def kill_at(self, rig, counter, step, name):
        step.arrange(counter)
        rig.arm(name + "=kill")
        try:
            step.run(counter)
        except crash.Died:
            pass
        ate.wait_until(lambda: not rig.alive(), 10, "an end at " + name)
        self.assertEqual(rig.daemon.wait_exit(), -9)
        self.assertTrue(rig.fired())
        rig.start()
        ate.wait_until(lambda: rig.actor() is None or rig.actor()["status"]["state"] in crash.STABLE, 2, "an end of the delete")
        rig.check_records()
        rig.check_clean()
        self.go_on(counter, step)


class Fail(Sweep):
    def sweep(self, step):
        rig = self.rig(step.template)
        counter = crash.Counter(rig, step.template)
        lines = [(name + "=error",) for name in self.passed_by(rig, counter, step)]
        for armed in lines + CHAINS.get(step.name, []):
            with self.subTest(step=step.name, armed=armed):
                try:
                    self.fail_at(rig, counter, step, armed)
                    covered["error"] |= {line.split("=")[0] for line in armed}
                    continue
                except BaseException:
                    print(rig.daemon.log()[-3000:])
                    rig = self.rig(step.template)
                    counter = crash.Counter(rig, step.template)
                    raise
        counter.remove()
        rig.check_records()
        rig.check_clean(crash.RETRY_SECONDS)
        steps_done["error"].add(step.name)

    def fail_at(self, rig, counter, step, armed):
        step.arrange(counter)
        rig.arm(*armed)
        reply = step.run(counter)
        ate.wait_until(rig.fired, 5, f"passing {armed}")
        if reply.status >= 400:
            self.assertIsNotNone(reply.problem, reply)
            self.assertIn(reply.status, (409, 500, 503, 504), reply)
            self.assertIn("failpoint", reply.json["detail"])
            if "cleaning up failed" in reply.json["detail"]:  # it is tried again soon, and until then nothing else starts
                running = os.path.join(rig.daemon.run_dir, "actors")
                ate.wait_until(lambda: not os.listdir(running), crash.RETRY_SECONDS, "an end of what the failed start left")
        actor = rig.settled_actor()
        if actor is not None and actor["status"]["state"] == "DELETING":
            reply = counter.expect(rig.call("DELETE", "/v1/actors/c1?force"), 200, 204)
            actor = rig.settled_actor()
            self.assertIsNone(actor)
        self.go_on(counter, step)
        if actor is None and reply.status < 300:
            return
        # The next try.
        step.arrange(counter)
        counter.expect(step.run(counter), 200, 201, 204)
        if rig.settled_actor() is not None:
            self.go_on(counter, step)


def add(base, step):
    def test(self):
        self.sweep(step)
    setattr(base, "test_" + step.name.replace("-", "_"), test)


for each in STEPS:
    add(Kill, each)
    add(Fail, each)


class UnpauseKill(Sweep):
    def test_killed_while_a_failed_suspend_is_undone(self):
        rig = self.rig()
        counter = crash.Counter(rig)
        counter.suspended()
        counter.count()
        rig.arm("gvisor-paused=error", "gvisor-unpause=kill")
        with self.assertRaises(crash.Died):
            counter.verb("suspend")
        self.assertEqual(rig.daemon.wait_exit(), -9)
        rig.start()
        rig.check_records()
        rig.check_clean()
        self.go_on(counter, next(step for step in STEPS if step.name == "suspend"))


class Whole(unittest.TestCase):
    """Runs after the others: every failpoint of the binary was had by one of them."""

    def test_every_failpoint_was_tried(self):
        if any(len(done) < len(STEPS) for done in steps_done.values()):
            self.skipTest("only some steps were run")
        names = set(crash.failpoints())
        self.assertEqual(names - covered["kill"] - set(ELSEWHERE), set(), "never killed at")
        self.assertEqual(names - covered["error"] - set(ELSEWHERE), set(), "never failed at")
        self.assertEqual(set(ELSEWHERE) - names, set(), "no such failpoint")


if __name__ == "__main__":
    unittest.main(verbosity=2)
