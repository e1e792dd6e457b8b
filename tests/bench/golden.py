#!/usr/bin/env python3
"""First start of an actor from a golden snapshot against a cold boot, alternating in the same run.

    tests/bench/golden.py [ROUNDS]        (root; ATE_NODED = release binary, ATE_TEST_RUNSC or runsc in PATH)

Two programs: one that listens at once, one that takes a second to start. Never fails by time; figures go to docs/performance.md.
"""

import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import ate  # noqa: E402
import scenario  # noqa: E402


def first_start(daemon, connection, name, body):
    """Milliseconds of the first resume of a new actor; the actor is gone afterwards."""
    made = {"metadata": {"name": name}, "spec": {"template": {"name": "counter"}}}
    assert daemon.request("POST", "/v1/actors", made).status == 201
    begun = time.perf_counter()
    connection.request("POST", f"/v1/actors/{name}/resume", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    data = reply.read()
    took = (time.perf_counter() - begun) * 1000
    assert reply.status == 200, data
    assert daemon.request("DELETE", f"/v1/actors/{name}?force").status == 204
    return took, json.loads(data)["status"]["restoredFrom"]


def measure(rounds, start_ms):
    series = {"boot": [], "golden": []}
    objects = scenario.objects(replicas=3, template="  snapshots: {golden: true}\n")
    objects = objects.replace('{name: PORT, value: "8080"}', '{name: PORT, value: "8080"}, {name: START_MS, value: "%d"}' % start_ms)
    with ate.Daemon(spec={"logLevel": "warning"}) as daemon:
        daemon.write("objects.yaml", objects)
        daemon.start()
        daemon.wait_ready()
        ate.wait_until(lambda: daemon.get("/v1/templates/counter").status == 200, 30, "template")
        ate.wait_until(lambda: daemon.get("/v1/templates/counter").json["status"]["golden"]["state"] == "Ready", 120, "golden snapshot")
        connection = daemon.connection()
        for index in range(rounds):
            for source, body in (("golden", {}), ("boot", {"boot": True})):
                took, restored = first_start(daemon, connection, f"{source}{index}", body)
                assert restored == source, restored
                series[source].append(took)
        connection.close()
        [build] = [item for item in daemon.get("/v1/operations?limit=1000").json["items"] if item["verb"] == "golden"]
        size = daemon.get("/v1/templates/counter").json["status"]["golden"]["bytes"]
    middle = {}
    for source, values in series.items():
        middle[source] = statistics.median(values)
        print(f"  start {start_ms:5} ms, {source:6}  min {min(values):7.1f}  p50 {middle[source]:7.1f}  max {max(values):7.1f} ms")
    print(f"  golden / cold boot {middle['golden'] / middle['boot']:.3f}; built once in {build['durationMs']} ms, {size / (1 << 20):.1f} MiB")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for start_ms in (0, 1000):
        measure(rounds, start_ms)


if __name__ == "__main__":
    main()
