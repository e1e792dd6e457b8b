"""kill -9 at random moments while four actors live at once; and at the failpoints that are not of one actor's life."""

import os
import random
import threading
import unittest

import ate
import crash

KILLS = 15
ACTORS = ("c1", "c2", "c3", "c4")
SEED = int(os.environ.get("ATE_TEST_SEED", "20261130"))


class Life(threading.Thread):
    """One actor driven at random until the daemon dies. `saved` holds every value that a committed snapshot may have, `paused`
    every value that a pause snapshot may have: an operation that was cut off may have happened or not."""

    def __init__(self, rig, name, seed):
        super().__init__(name=name)
        self.rig, self.random = rig, random.Random(seed)
        self.saved, self.paused, self.memory = {0}, set(), 0
        self.failure = None

    def again(self):
        life = Life(self.rig, self.name, self.random.random())
        life.saved, life.memory = self.saved, self.memory
        return life

    def run(self):
        try:
            while True:
                self.one()
        except crash.Died:
            pass
        except BaseException as error:  # told by the main thread
            self.failure = error

    def verb(self, verb, *states):
        reply = self.rig.call("POST", f"/v1/actors/{self.name}/{verb}")
        if reply.status != 200 or reply.json["status"]["state"] not in states:
            raise AssertionError(f"{verb} of {self.name}: {reply}")

    def count(self, *possible):
        """`possible`: the values that the counter may go on from."""
        reply = self.rig.call("GET", f"/v1/actors/{self.name}/proxy/8080/count")
        if reply.status != 200 or int(reply.body) - 1 not in possible:
            raise AssertionError(f"{self.name}: {reply}, possible were {possible}")
        self.memory = int(reply.body)

    def one(self):
        self.count(self.memory)
        what = self.random.choice(("suspend", "suspend", "pause", "revert", "count", "recreate"))
        if what == "suspend":
            self.saved.add(self.memory)
            self.verb("suspend", "SUSPENDED")
            self.saved = {self.memory}
        elif what == "pause":
            self.paused = {self.memory}
            self.verb("pause", "PAUSED")
        elif what == "revert":
            self.verb("revert", "SUSPENDED")
            self.count(*self.saved)
            self.saved = {self.memory - 1}
        elif what == "recreate":
            self.saved.add(0)
            self.rig.call("DELETE", "/v1/actors/" + self.name)
            self.create()

    def create(self):
        reply = self.rig.call("POST", "/v1/actors", {"metadata": {"name": self.name}, "spec": {"template": {"name": "counter"}}})
        if reply.status != 201:
            raise AssertionError(reply)
        self.saved, self.memory = {0}, 0

    def recover(self):
        """After a restart: an exit from the state, a possible count."""
        actor = self.rig.settled_actor(self.name)
        if actor is None:
            if 0 not in self.saved:
                raise AssertionError(self.name + " is gone")
            self.create()
            return
        state = actor["status"]["state"]
        if state == "PAUSED":
            self.count(*self.paused)
            return
        if state == "CRASHED":
            self.verb("revert", "SUSPENDED")
        elif state != "SUSPENDED":
            raise AssertionError(f"{self.name} is {state} after a restart")
        self.count(*self.saved)
        self.saved = {self.memory - 1}


class RandomKills(unittest.TestCase):
    def test_kill_at_random_moments(self):
        rig = crash.Rig()
        self.addCleanup(crash.Prepared.remove)
        self.addCleanup(rig.close)
        rig.start()
        rig.take_baseline()
        moments = random.Random(SEED)
        lives = [Life(rig, name, moments.random()) for name in ACTORS]
        for life in lives:
            life.create()
        for kill in range(KILLS):
            with self.subTest(kill=kill, seed=SEED):
                for life in lives:
                    life.start()
                wait = moments.uniform(0.05, 2.0)
                # Not a time limit but the moment of the kill.
                threading.Event().wait(wait)
                rig.daemon.process.kill()
                self.assertEqual(rig.daemon.process.wait(10), -9)
                for life in lives:
                    life.join(30)
                    if life.failure is not None:
                        raise life.failure
                rig.start()
                for name in ACTORS:  # the deletes that were cut off end
                    ate.wait_until(lambda name=name: (rig.actor(name) or {"status": {"state": "SUSPENDED"}})["status"]["state"]
                                   in crash.STABLE, 5, "an end of the delete")
                rig.check_records()
                rig.check_clean()
                for life in lives:
                    life.recover()
                lives = [life.again() for life in lives]
        for name in ACTORS:
            self.assertEqual(rig.call("DELETE", "/v1/actors/" + name).status, 204)
        rig.check_records()
        rig.check_clean()


class Start(unittest.TestCase):
    """Failpoints of a start: reconciling, taking over assets and images."""

    def setUp(self):
        crash.binary()
        self.addCleanup(crash.Prepared.remove)

    def rig(self, prepared=True):
        rig = crash.Rig(prepared)
        self.addCleanup(rig.close)
        return rig

    def die_at_start(self, rig, name):
        rig.arm(name + "=kill")
        rig.daemon.spawn()
        self.assertEqual(rig.daemon.wait_exit(60), -9)
        self.assertTrue(rig.fired(), name)

    def test_a_worker_s_cgroup_without_a_leaf_goes(self):
        """What a kill between the two directories of an incarnation leaves; what is not ours stays."""
        rig = self.rig()
        rig.start()
        rig.take_baseline()
        rig.daemon.process.kill()
        self.assertEqual(rig.daemon.process.wait(10), -9)
        top = next(path for path in ate.cgroup_trees(rig.daemon.cgroup) if os.path.isdir(path))
        for name in ("small-1", "other"):
            os.mkdir(os.path.join(top, name))
        rig.start()
        try:
            ate.wait_until(lambda: not os.path.exists(os.path.join(top, "small-1")), 10, "the end of small-1")
            self.assertTrue(os.path.exists(os.path.join(top, "other")))
        finally:
            os.rmdir(os.path.join(top, "other"))
        rig.check_clean()

    def test_reconcile_killed_is_done_by_the_next_start(self):
        for name in ("reconcile-after-purge", "reconcile-after-commit", "store-commit-before", "store-commit-after"):
            with self.subTest(kill=name):
                rig = self.rig()
                rig.start()
                rig.take_baseline()
                counter = crash.Counter(rig)
                counter.suspended()
                counter.count()
                rig.daemon.kill9()
                self.die_at_start(rig, name)
                rig.start()
                self.assertEqual(rig.actor()["status"]["state"], "CRASHED")
                self.assertEqual(rig.actor()["status"]["reason"], "daemon-restart")
                rig.check_records()
                rig.check_clean()
                counter.expect(counter.verb("revert"), 200)
                counter.memory = counter.file = counter.committed
                counter.count()
                rig.close()

    def test_an_asset_half_copied_is_copied_by_the_next_start(self):
        rig = self.rig(prepared=False)
        self.die_at_start(rig, "asset-before-rename")
        directory = os.path.join(rig.daemon.state_dir, "assets", "sha256")
        self.assertEqual(len(os.listdir(directory)), 1)
        rig.start()
        names = os.listdir(directory)
        self.assertTrue(all(len(name) == 64 for name in names), names)
        crash.Counter(rig).running()

    def test_an_image_half_unpacked_is_unpacked_by_the_next_start(self):
        for name in ("image-commit-before", "image-commit-after"):
            with self.subTest(kill=name):
                rig = self.rig()
                images = os.path.join(rig.daemon.state_dir, "images")
                for entry in os.listdir(os.path.join(images, "sha256")):
                    ate.shutil.rmtree(os.path.join(images, "sha256", entry))
                self.die_at_start(rig, name)
                rig.start()
                crash.Counter(rig).running()
                self.assertEqual(os.listdir(images), ["sha256"])
                rig.close()

    def test_an_empty_directory_of_an_incarnation_is_taken_away(self):
        rig = self.rig()
        left = os.path.join(rig.daemon.run_dir, "actors", "01m8qgb6k1kfkdj5egrhpd9f79")
        os.makedirs(left)
        rig.start()
        ate.wait_until(lambda: not os.path.exists(left), 5, "its end")

    def test_a_helper_that_dies_or_a_step_that_fails_is_told_and_tried_again(self):
        for name, action in (("image-helper-confined", "kill"), ("image-helper-layer", "kill")):
            with self.subTest(point=name):
                rig = self.rig()
                images = os.path.join(rig.daemon.state_dir, "images")
                for entry in os.listdir(os.path.join(images, "sha256")):
                    ate.shutil.rmtree(os.path.join(images, "sha256", entry))
                rig.daemon.start(env={"ATE_FAILPOINT": f"{name}={action}"})
                counter = crash.Counter(rig)
                ate.wait_until(lambda: counter.create().status in (201, 409), 30, "an actor")
                reply = ate.wait_until(lambda: counter.verb("resume"), 1)
                self.assertGreaterEqual(reply.status, 400, reply)
                self.assertIsNotNone(reply.problem)
                self.assertEqual(rig.settled_actor()["status"]["state"], "SUSPENDED")
                ate.wait_until(lambda: os.listdir(images) == ["sha256"], 5, "the end of what the helper left")
                rig.daemon.stop()
                rig.start()
                counter.running()
                rig.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
