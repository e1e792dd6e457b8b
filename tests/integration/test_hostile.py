"""Actors that mean harm, and harm done to actors from outside. The host stays within its bounds, others are served, the state is
right and every actor has a way on. Real runsc, built daemon."""

import contextlib
import http.client
import os
import threading
import time
import unittest

import ate
import scenario

MIB = 1 << 20


class Base(scenario.Case):
    def setUp(self):
        super().setUp()
        self.create()
        self.assertEqual(self.count(), 1)

    def ask(self, path, name="c1", timeout=30.0):
        try:
            return self.daemon.get(f"/v1/actors/{name}/proxy/8080{path}", timeout=timeout)
        except (OSError, http.client.HTTPException):
            return None  # cut

    def output(self, name="c1", stream="stdout"):
        uid = self.daemon.actor(name)["metadata"]["uid"]
        return os.path.join(self.daemon.state_dir, "actors", uid, "logs", "app." + stream)

    def others_are_served(self):
        begin = time.monotonic()
        self.assertEqual(self.daemon.get("/v1/pools/small").status, 200)
        self.assertLess(time.monotonic() - begin, 0.5)

    def taken(self, name="c1"):
        return os.stat(self.output(name)).st_blocks * 512


class Hostile(Base):
    # case T62
    def test_endless_output_takes_a_bounded_part_of_the_disk(self):
        memory = self.daemon.rss_bytes()
        self.proxy("c1", "/flood")
        ate.wait_until(lambda: os.stat(self.output()).st_size > 256 * MIB, 60, "a quarter of a GiB of output")
        ate.wait_until(lambda: self.taken() < 128 * MIB, 10, "a bounded file")
        self.others_are_served()
        logs = self.daemon.get("/v1/actors/c1/logs?tail=3")
        self.assertEqual(logs.status, 200)
        self.assertIn(b"yyyy", logs.body)
        self.verb("c1", "suspend")
        ate.wait_until(lambda: self.taken() <= 20 * MIB, 5, "what is kept")
        self.assertLess(self.daemon.rss_bytes() - memory, 16 * MIB)
        self.assertEqual(self.count(), 2)
        self.delete()

    def test_tricks_with_its_output_file(self):
        for trick in ("truncate", "seek", "hole", "reopen"):
            with self.subTest(trick):
                self.proxy("c1", "/stdout?do=" + trick)
                for _ in range(2):  # the first one may be taken for the end of a line that was dropped
                    self.proxy("c1", "/print?line=after-" + trick)
                begin = time.monotonic()
                reply = self.daemon.get("/v1/actors/c1/logs?tail=2&stream=stdout")
                self.assertEqual(reply.status, 200)
                self.assertIn(b"after-" + trick.encode(), reply.body)
                self.assertLess(len(reply.body), MIB)
                self.assertLess(time.monotonic() - begin, 2)
                self.others_are_served()
                ate.wait_until(lambda: self.taken() <= 32 * MIB, 5, "a bounded file")
        self.verb("c1", "suspend")
        self.assertEqual(self.count(), 2)

    def test_answers_that_are_no_http(self):
        memory = self.daemon.rss_bytes()
        for kind in ("garbage", "nothing", "smuggle", "split", "status", "upgrade", "length", "headers", "continue"):
            with self.subTest(kind):
                reply = self.ask("/raw?kind=" + kind)
                self.assertEqual((reply.status, reply.problem), (502, "upstream-failed"), reply)
        for kind in ("half", "chunks"):
            with self.subTest(kind):
                self.assertIsNone(self.ask("/raw?kind=" + kind))
        threads = [threading.Thread(target=self.ask, args=("/raw?kind=never",), kwargs={"timeout": 2}) for _ in range(20)]
        for thread in threads:
            thread.start()
        self.others_are_served()
        self.assertEqual(self.count(), 2)
        for thread in threads:
            thread.join()
        self.assertLess(self.daemon.rss_bytes() - memory, 16 * MIB)

    def test_it_ignores_sigterm_and_still_goes(self):
        self.proxy("c1", "/ignore")
        self.assertEqual(self.daemon.verb("c1", "signal", {"signal": "SIGTERM"}).status, 200)
        self.assertEqual(self.count(), 2)
        self.delete()
        ate.wait_until(lambda: not self.sandbox_processes(), 5, "the end of its processes")

    def test_it_exits_while_it_is_suspended(self):
        for attempt in range(4):
            with self.subTest(attempt):
                replies = []
                thread = threading.Thread(target=lambda out=replies: out.append(self.daemon.verb("c1", "suspend")))
                killer = threading.Thread(target=self.ask, args=("/exit?code=3",))
                (killer if attempt % 2 else thread).start()
                (thread if attempt % 2 else killer).start()
                thread.join()
                killer.join()
                if replies[0].status != 200:  # it was quicker
                    self.assertIn(replies[0].problem, ("state-conflict", "runtime-failed"), replies)
                state = ate.wait_until(lambda: self.settled_state(), 10, "a settled state")
                self.assertIsNotNone(state)
                # A snapshot may hold the very request that ends it, so the way on that always leads is the cold one.
                ate.wait_until(self.booted, 30, "a cold start")

    def booted(self):
        if self.daemon.verb("c1", "resume", {"boot": True}).status != 200:
            return False
        reply = self.ask("/count")
        return reply is not None and reply.status == 200

    def settled_state(self):
        state = self.daemon.state("c1")
        return state if state in ("RUNNING", "SUSPENDED", "EXITED", "CRASHED") else None


class KilledFromOutside(Base):
    """case T14, T22"""

    def kill_sandbox(self):
        """SIGKILL to every process of the sandbox, one after the other."""
        for pid, start, command in ate.processes_of(self.daemon.root, exclude=ate.own_pids(self.daemon.process)):
            if "runsc" in command:
                ate.kill_exact(pid, start)

    def test_while_it_runs(self):
        self.verb("c1", "suspend")
        self.assertEqual(self.count(), 2)
        self.kill_sandbox()
        self.daemon.wait_state("c1", "CRASHED", 20)
        ate.wait_until(lambda: not self.sandbox_processes(), 5, "no process left")
        self.assertEqual(self.daemon.verb("c1", "suspend").status, 409)
        self.assertEqual(self.daemon.verb("c1", "resume").status, 409)
        self.verb("c1", "revert")
        self.assertEqual(self.count(), 2)  # the last good one

    def test_an_upload_ends_with_it(self):
        connection = self.daemon.connection(60)
        connection.putrequest("POST", "/v1/actors/c1/proxy/8080/slow?ms=600000")
        connection.putheader("Content-Length", str(1 << 30))
        connection.endheaders()
        under_way = threading.Event()

        def fill():
            with contextlib.suppress(OSError):
                for piece in range(1 << 14):
                    connection.send(b"x" * 65536)
                    if piece == 6:  # more than the socket and the daemon hold, so it is connected
                        under_way.set()

        sender = threading.Thread(target=fill)
        sender.start()
        self.assertTrue(under_way.wait(20))
        self.kill_sandbox()
        begin = time.monotonic()
        with contextlib.suppress(ConnectionResetError):  # what it still sends may cross the answer
            self.assertEqual(connection.getresponse().status, 502)
        self.assertLess(time.monotonic() - begin, 20)
        connection.close()
        sender.join()
        self.daemon.wait_state("c1", "CRASHED", 20)

    def test_while_it_is_suspended_or_resumed(self):
        self.verb("c1", "suspend")
        for verb in ("resume", "suspend", "pause"):
            for wait in (0.01, 0.05, 0.1):
                with self.subTest(verb=verb, wait=wait):
                    self.into("SUSPENDED" if verb == "resume" else "RUNNING")
                    replies = []
                    thread = threading.Thread(target=lambda out=replies, v=verb: out.append(self.daemon.verb("c1", v)))
                    thread.start()
                    thread.join(wait)  # where it is hit is left to chance on purpose
                    self.kill_sandbox()
                    thread.join()
                    state = ate.wait_until(lambda: self.settled_state(), 20, "a settled state")
                    if replies[0].status >= 400:
                        self.assertIsNotNone(replies[0].problem, replies)
                    if state == "CRASHED":
                        self.verb("c1", "revert")
                    reply = self.ask("/count")
                self.assertEqual(reply.status, 200, reply)
        self.delete()
        ate.wait_until(lambda: not self.sandbox_processes(), 5, "no process left")

    def settled_state(self):
        state = self.daemon.state("c1")
        return state if state in ("RUNNING", "SUSPENDED", "PAUSED", "EXITED", "CRASHED") else None

    def into(self, wanted):
        state = self.settled_state()
        if state in ("CRASHED", "EXITED"):
            self.verb("c1", "revert")
        self.verb("c1", "resume")
        if wanted == "SUSPENDED":
            self.verb("c1", "suspend")


class Crowd(scenario.Case):
    replicas = 4

    # case T59
    def test_64_lifecycle_calls_at_once(self):
        names = [f"a{index}" for index in range(64)]
        self.at_once(names, lambda name: self.create(name))
        replies = self.at_once(names, lambda name: self.daemon.verb(name, "resume"))
        good = [name for name in names if replies[name].status == 200]
        self.assertGreaterEqual(len(good), 1)
        self.assertLessEqual(len(good), 4)
        for name in names:
            if name not in good:
                self.assertEqual((replies[name].status, replies[name].problem), (503, "no-free-worker"), replies[name])
                self.assertIn("Retry-After", replies[name].headers)
        patched = self.at_once(names, lambda name: self.daemon.request("PATCH", "/v1/actors/" + name, {"metadata": {"labels": {"a": "b"}}}))
        self.assertEqual({reply.status for reply in patched.values()}, {200})
        saved = self.at_once(names, lambda name: self.daemon.verb(name, "suspend"))
        self.assertEqual({reply.status for reply in saved.values()}, {200}, saved)
        gone = self.at_once(names, lambda name: self.daemon.request("DELETE", "/v1/actors/" + name))
        self.assertEqual({reply.status for reply in gone.values()}, {204})
        self.assertNotIn("locked", self.daemon.log())
        self.assertEqual(self.daemon.get("/v1/actors").json["items"], [])
        ate.wait_until(lambda: not self.sandbox_processes(), 5, "no process left")

    def at_once(self, names, call):
        answers = {}
        threads = [threading.Thread(target=lambda n=name: answers.__setitem__(n, call(n))) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(answers), len(names))
        return answers


if __name__ == "__main__":
    unittest.main()
