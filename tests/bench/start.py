#!/usr/bin/env python3
"""Start with 10,000 suspended actors in the store, idle RSS, stop: tests/bench/start.py [ACTORS] (root, ATE_NODED = release binary)."""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import ate  # noqa: E402
import scenario  # noqa: E402


def main():
    actors = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with ate.Daemon(spec={"logLevel": "warning"}) as daemon:
        daemon.write("objects.yaml", scenario.objects())
        begun = time.perf_counter()
        daemon.start()
        print(f"empty store: /healthz after {(time.perf_counter() - begun) * 1000:.0f} ms")
        daemon.wait_ready()
        print(f"empty store: first /readyz (self-test included) after {(time.perf_counter() - begun) * 1000:.0f} ms")
        ate.wait_until(lambda: daemon.get("/v1/templates/counter").status == 200, 30, "template")
        print(f"idle RSS {daemon.rss_bytes() / (1 << 20):.1f} MiB")
        connection = daemon.connection()
        begun = time.perf_counter()
        for index in range(actors):
            connection.request("POST", "/v1/actors", json.dumps(
                {"metadata": {"name": f"a{index}"}, "spec": {"template": {"name": "counter"}}}), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            reply.read()
            assert reply.status == 201, reply.status
        took = time.perf_counter() - begun
        print(f"{actors} creates one after the other: {actors / took:.0f}/s")
        connection.close()
        _, seconds = daemon.stop()
        print(f"stop: {seconds * 1000:.0f} ms")
        begun = time.perf_counter()
        daemon.start()
        daemon.wait_ready()
        print(f"{actors} suspended actors: /readyz after {(time.perf_counter() - begun) * 1000:.0f} ms (target <= 1000)")
        print(f"RSS {daemon.rss_bytes() / (1 << 20):.1f} MiB")
        _, seconds = daemon.stop()
        print(f"stop: {seconds * 1000:.0f} ms (target <= 1000)")


if __name__ == "__main__":
    main()
