"""Requests made up from docs/openapi.yaml by schemathesis against a real daemon: no answer is a 5xx that should not be, and every
answer is one that the document describes. Deterministic, bounded by time; what it finds is printed with a curl line each."""

import json
import os
import pathlib
import re
import socket
import subprocess
import threading
import unittest

import ate
import scenario

TOP = pathlib.Path(ate.TOP)
SECONDS = 45
SEED = 4
# Streams without end, and what belongs to the actor; both have tests of their own.
LEFT_OUT = r"/proxy/|/tunnel/|/logs|/events"
# What the document can't say: 503 (no free worker, a daemon that stops) and 504, 507 are honest answers of a healthy one.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


class Forwarder:
    """A loopback port of its own in front of the unix socket: the fuzzer speaks TCP only."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.closed = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                server.connect(self.path)
            except OSError:
                client.close()
                server.close()
                continue
            threading.Thread(target=self.relay, args=(client, server), daemon=True).start()

    def relay(self, client, server):
        with client, server:
            back = threading.Thread(target=self.pump, args=(server, client), daemon=True)
            back.start()
            self.pump(client, server)
            back.join()

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for each in (source, target):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.closed = True
        self.listener.close()


def fuzzer():
    made = subprocess.run([TOP / ".ci" / "get-schemathesis"], capture_output=True, text=True, timeout=300)
    if made.returncode != 0:
        raise unittest.SkipTest("schemathesis can't be installed: " + " ".join(made.stderr.split())[-200:])
    return made.stdout.strip()


class Fuzz(scenario.Case):
    def setUp(self):
        self.command = fuzzer()
        super().setUp()

    def test_every_answer_is_as_documented(self):
        self.create("c1")
        document = os.path.join(self.daemon.root, "openapi.json")
        with open(document, "w", encoding="utf-8") as file:
            json.dump(self.daemon.get("/v1/openapi.json").json, file)
        forwarder = Forwarder(self.daemon.path)
        self.addCleanup(forwarder.close)
        run = subprocess.run(
            [self.command, "run", document, "--url", forwarder.url, "--seed", str(SEED), "--generation-deterministic",
             "--max-time", str(SECONDS), "--max-examples", "40", "--phases", "examples,coverage,fuzzing", "--checks", CHECKS,
             "--exclude-path-regex", LEFT_OUT, "--continue-on-failure", "--request-timeout", "30", "--no-color", "--warnings", "off",
             "--suppress-health-check", "all"],
            cwd=self.daemon.root, capture_output=True, text=True, timeout=SECONDS * 6 + 120, stdin=subprocess.DEVNULL)
        output = run.stdout + run.stderr
        self.assertEqual(run.returncode, 0, output[-20000:] + self.daemon.log()[-2000:])
        cases = re.search(r"([\d,]+) (?:test cases )?generated", output)
        self.assertIsNotNone(cases, output[-2000:])
        print(f"    schemathesis: {cases.group(1)} requests", flush=True)
        self.assertIsNone(self.daemon.process.poll(), "the daemon is alive")
        self.assertEqual(self.daemon.get("/healthz").status, 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
