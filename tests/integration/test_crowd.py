"""Many actors at once, and many one after the other: nothing fails, nothing hangs, nothing stays (cases T45, T59).

`ATE_TEST_CROWD=full` is the whole size (64 actors, 10 rounds; 500 lives); without it a part that fits the time of CI."""

import concurrent.futures
import os
import time
import unittest

import ate
import scenario

FULL = os.environ.get("ATE_TEST_CROWD") == "full"
ACTORS, ROUNDS = (64, 10) if FULL else (16, 2)
LIVES, AT_ONCE = (500, 8) if FULL else (40, 4)


class Crowd(scenario.Case):
    replicas = ACTORS
    spec = {"diskReserve": "64Mi", "operationWait": "600s"}

    def file(self):
        return scenario.objects(replicas=self.replicas, memory="256Mi") + "---\n" + scenario.three_text()

    def setUp(self):
        super().setUp()
        ate.wait_until(lambda: self.daemon.get("/v1/templates/three").status == 200, 30, "template three")
        for template in ("counter", "three"):
            self.create("warm", template)
            self.verb("warm", "resume")
            self.delete("warm")

    def steady(self):
        """What is seen once the stock of network namespaces is whole again."""
        last = []

        def same():
            seen = self.daemon.seen()
            last.append(seen)
            return len(last) > 5 and all(not ate.diff(one, seen) for one in last[-5:])

        ate.wait_until(same, 60, "a steady daemon", pause=0.2)
        return last[-1]

    def together(self, work, items, workers):
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, items))

    def call(self, method, path, body=None):
        reply = self.daemon.request(method, path, body, timeout=900)
        self.assertLess(reply.status, 300, (method, path, reply, self.daemon.log()[-3000:]))
        return reply

    def test_all_resumed_and_suspended_at_once(self):
        before = self.steady()
        names = [f"c{i}" for i in range(ACTORS)]
        for i, name in enumerate(names):
            self.create(name, "three" if i % 8 == 0 else "counter")
        begun = time.monotonic()
        for count in range(1, ROUNDS + 1):
            self.together(lambda name: self.call("POST", f"/v1/actors/{name}/resume"), names, ACTORS)
            for name in names:
                self.assertEqual(self.daemon.state(name), "RUNNING")
                self.assertEqual(int(self.call("GET", f"/v1/actors/{name}/proxy/8080/count").body), count)
            self.together(lambda name: self.call("POST", f"/v1/actors/{name}/suspend"), names, ACTORS)
        print(f"{ACTORS} actors, {ROUNDS} rounds: {time.monotonic() - begun:.1f} s", flush=True)
        self.together(lambda name: self.call("DELETE", f"/v1/actors/{name}"), names, ACTORS)
        self.settled(before, 60)

    def test_created_and_deleted_again_and_again(self):
        before = self.steady()
        begun = time.monotonic()

        def live(index):
            name = f"l{index}"
            self.create(name, "three" if index % 10 == 0 else "counter")
            self.call("POST", f"/v1/actors/{name}/resume")
            if index % 3 == 0:
                self.call("POST", f"/v1/actors/{name}/suspend")
            self.call("DELETE", f"/v1/actors/{name}")

        self.together(live, range(LIVES), AT_ONCE)
        print(f"{LIVES} lives: {time.monotonic() - begun:.1f} s", flush=True)
        self.assertEqual(self.daemon.get("/v1/actors").json["items"], [])
        self.settled(before, 60)


if __name__ == "__main__":
    unittest.main()
