#!/usr/bin/env python3
"""GETs of the daemon itself against a bare Beast server in the same run: tests/bench/reads.py (root, ATE_NODED = release binary,
build/bench built). Target: at least 0.4 of the bare server's rate."""

import json
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "integration"))
import ate  # noqa: E402
import scenario  # noqa: E402


def main():
    bench = os.environ.get("ATE_BENCH_HTTP", str(TOP / "build/bench/tests/bench/bench-http"))
    with ate.Daemon(spec={"logLevel": "warning"}) as daemon:
        daemon.write("objects.yaml", scenario.objects())
        daemon.start()
        daemon.wait_ready()
        ate.wait_until(lambda: daemon.get("/v1/templates/counter").status == 200, 30, "template")
        for index in range(1000):
            made = daemon.request("POST", "/v1/actors", {"metadata": {"name": f"c{index}"}, "spec": {"template": {"name": "counter"}}})
            assert made.status == 201, made
        size = len(json.dumps(daemon.get("/v1/actors/c1").json))
        print(f"1,000 actors; an actor's JSON has about {size} bytes, the bare server's answer 512", flush=True)
        targets = ["/v1/actors/c1", "/v1/actors?limit=4", "/v1/templates/counter", "/v1/workers", "/healthz"]
        return subprocess.run([bench, daemon.path, *targets], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
