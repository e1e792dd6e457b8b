"""redis-server of Debian in an actor, spoken to through the tunnel: suspended, woken by the next connection, nothing lost."""

import contextlib
import runpy
import socket
import subprocess
import unittest

import ate
import scenario

open_tunnel = runpy.run_path(str(scenario.TOP / "examples" / "tunnel"))["open_tunnel"]
KEYS = 1000


def prepare(root):
    # Not configured by dpkg (variant extract): the server needs none of it.
    (root / "data").mkdir()


def redis_image():
    return scenario.debian_image("redis", "redis-server", prepare, "--entrypoint", '["/usr/bin/redis-server"]', "--cmd",
                                 '["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", "/data"]')


class Redis:
    """As much of the protocol as this needs."""

    def __init__(self, path, actor):
        self.socket, rest = open_tunnel(path, actor, 6379)
        self.socket.settimeout(60)
        self.file = self.socket.makefile("rb")
        assert rest == b"", rest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, *words):
        words = [word.encode() if isinstance(word, str) else word for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def answer(self):
        line = self.file.readline()
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2]
        return line.rstrip()

    def __call__(self, *words):
        self.send(*words)
        return self.answer()


class RedisActor(scenario.Case):
    replicas = 1

    def file(self):
        text = scenario.objects(image_path=redis_image(), memory="512Mi", replicas=1)
        return text.replace("readyz: {http: {port: 8080, path: /readyz}}", "readyz: {tcp: {port: 6379}}")

    def redis(self):
        return Redis(self.daemon.path, "c1")

    def test_a_thousand_keys_survive_a_suspend(self):
        self.unpacked()
        before = self.daemon.seen()
        self.create()
        with self.redis() as redis:  # wakes it for the first time
            for index in range(KEYS):  # pipelined, with values of all sizes
                redis.send("SET", f"key:{index}", b"v%d:" % index + bytes(index % 256 for _ in range(index)))
            for _ in range(KEYS):
                self.assertEqual(redis.answer(), b"+OK")
            self.assertEqual(redis("DBSIZE"), b":%d" % KEYS)
        self.verb("c1", "suspend")
        self.assertEqual(self.sandbox_processes(), [])
        with self.redis() as redis:  # wakes it from its snapshot
            for index in range(KEYS):
                redis.send("GET", f"key:{index}")
            for index in range(KEYS):
                self.assertEqual(redis.answer(), b"v%d:" % index + bytes(index % 256 for _ in range(index)))
            self.assertEqual(redis("INCR", "wakes"), b":1")
        self.assertEqual(self.daemon.state("c1"), "RUNNING")
        self.delete()
        self.settled(before, timeout=20, ignore=("files",))

    def test_a_tunnel_ends_with_its_sandbox(self):
        self.create()
        idle = self.redis()
        self.addCleanup(idle.__exit__)
        self.assertEqual(idle("PING"), b"+PONG")
        self.verb("c1", "suspend", {"grace": "200ms"})
        self.assertEqual(idle.file.readline(), b"")  # the end, at once
        stages = [stage["name"] for stage in self.daemon.get("/v1/operations?limit=1").json["items"][0]["stages"]]
        self.assertIn("drain", stages)
        with self.redis() as again:
            self.assertEqual(again("PING"), b"+PONG")
            for pid, start, command in ate.processes_of(self.daemon.root):
                if "runsc" in command and "boot" in command:
                    ate.kill_exact(pid, start)
            self.assertEqual(again.file.readline(), b"")
        self.daemon.wait_state("c1", "CRASHED")
        with self.assertRaisesRegex(ConnectionError, "409"):
            self.redis()

    def test_a_silent_tunnel_does_not_keep_it_awake_and_the_local_port_works(self):
        self.create(idle={"after": "1s", "action": "suspend"})
        with self.redis() as silent:
            self.assertEqual(silent("PING"), b"+PONG")
            self.daemon.wait_state("c1", "SUSPENDED")
            self.assertEqual(silent.file.readline(), b"")
        forwarder = subprocess.Popen([scenario.TOP / "examples" / "tunnel", "--socket", self.daemon.path, "c1", "6379"],
                                     stdout=subprocess.PIPE, text=True)
        self.addCleanup(forwarder.stdout.close)
        self.addCleanup(forwarder.wait)
        self.addCleanup(forwarder.terminate)
        host, port = forwarder.stdout.readline().strip().split(":")

        with contextlib.closing(socket.create_connection((host, int(port)), 60)) as client:
            client.sendall(b"PING\r\n")
            self.assertEqual(client.recv(100), b"+PONG\r\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
