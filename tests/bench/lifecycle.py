#!/usr/bin/env python3
"""Whole resume and suspend through the daemon against plain runsc commands by hand, in the same run.

    tests/bench/lifecycle.py [ROUNDS]        (root; ATE_NODED = release binary, ATE_TEST_RUNSC or runsc in PATH)

With several containers: an actor of two against the sum of the plain commands, create and restore of the pause container and of each
of the two, one after the other.

Rounds alternate, so that a noisy machine disturbs both sides alike. Plain means: one runsc command after the other on a network
namespace made beforehand, from the very snapshot the daemon made. Never fails by time; figures go to docs/performance.md.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import ate  # noqa: E402
import scenario  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def shell(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Netns:
    """A namespace pair as the daemon makes it; runsc takes the addresses, so one serves one restore."""

    serial = 0

    def __init__(self):
        Netns.serial += 1
        self.name = f"atebench{os.getpid()}x{Netns.serial}"
        shell("ip", "netns", "add", self.name)
        shell("ip", "-n", self.name, "link", "set", "lo", "up")
        shell("ip", "-n", self.name, "link", "add", "eth0", "type", "veth", "peer", "name", "r0")
        shell("ip", "-n", self.name, "addr", "add", "169.254.17.2/30", "dev", "eth0")
        shell("ip", "-n", self.name, "link", "set", "eth0", "up")
        shell("ip", "-n", self.name, "link", "set", "r0", "up")
        shell("ip", "-n", self.name, "route", "add", "default", "via", "169.254.17.1")
        self.path = f"/run/netns/{self.name}"

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False, stderr=subprocess.DEVNULL)


class Plain:
    """One sandbox by hand from a copy of the daemon's snapshot."""

    def __init__(self, scratch, manifest, image):
        self.root = pathlib.Path(scratch)
        self.root.mkdir(parents=True)
        for name in ("state", "overlay"):
            (self.root / name).mkdir()
        self.image = image
        self.netns = Netns()
        self.bundle("bundle", manifest["ociSpec"])
        self.members = [container["name"] for container in manifest.get("containers", [])]
        for container in manifest.get("containers", []):
            self.bundle("bundle-" + container["name"], container["ociSpec"].replace('"io.kubernetes.cri.sandbox-id":"actor"',
                                                                                    '"io.kubernetes.cri.sandbox-id":"x"'))
        self.globals = [scenario.runsc(), f"--root={self.root}/state", f"--log={self.root}/log", "--log-format=json", "--platform=systrap",
                        "--network=sandbox", f"--overlay2=root:dir={self.root}/overlay", "--host-uds=none", "--host-fifo=none",
                        "--ignore-cgroups=true"]
        self.out = open(self.root / "stdout", "ab")

    def bundle(self, name, text):
        (self.root / name).mkdir()
        spec = json.loads(text)
        spec["linux"].pop("cgroupsPath", None)
        for space in spec["linux"]["namespaces"]:
            if space["type"] == "network":
                space["path"] = self.netns.path
        for mount in spec["mounts"]:  # files of the daemon's incarnation, which is gone
            if mount.get("type") == "bind" and not os.path.exists(mount["source"]):
                mine = self.root / name / os.path.basename(mount["destination"])
                mine.write_text("")
                mount["source"] = str(mine)
        (self.root / name / "config.json").write_text(json.dumps(spec))

    def run(self, *words):
        subprocess.run([*self.globals, *words], check=True, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out)

    def restore(self, create_first):
        bundle, pid = f"-bundle={self.root}/bundle", f"-pid-file={self.root}/pid"
        begun = time.perf_counter()
        if create_first:
            self.run("create", bundle, pid, "x")
        self.run("restore", "-detach", bundle, pid, f"-image-path={self.image}", "x")
        for member in self.members:
            self.run("create", f"-bundle={self.root}/bundle-{member}", "c-" + member)
            self.run("restore", "-detach", f"-bundle={self.root}/bundle-{member}", f"-image-path={self.image}", "c-" + member)
        return time.perf_counter() - begun

    def suspend(self):
        target = self.root / "checkpoint"
        target.mkdir(mode=0o700)
        # Sandbox and gofer: orphans of ours since the command that made them has ended.
        ours = [pid for pid, _, _ in ate.processes_of(str(self.root))]
        begun = time.perf_counter()
        self.run("pause", "x")
        self.run("checkpoint", "-leave-running", "-compression=none", f"-image-path={target}", "x")
        for path in target.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        self.kill(ours)
        return time.perf_counter() - begun

    @staticmethod
    def kill(ours):
        for orphan in ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        for orphan in ours:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)

    def close(self):
        self.out.close()
        self.netns.close()


def mount_run(daemon):
    """Its run directory lies on tmpfs, as /run does; the state stays on a disk. Unmounted when the daemon is closed."""
    os.mkdir(daemon.run_dir, 0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ate-run", daemon.run_dir], check=True)


def figures(name, values, unit=1000.0):
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"  {name:<46} min {ordered[0] * unit:7.1f}  p50 {statistics.median(ordered) * unit:7.1f}  p99 {p99 * unit:7.1f} ms")
    return statistics.median(ordered)


# What the plain sequence does too: runsc, the application's readiness, the payload reaching the disk, kill and reap.
PLAIN_STAGES = ("runsc-", "ready", "seal", "destroy")


def own_share(operation):
    return operation["durationMs"] - sum(stage["ms"] for stage in operation["stages"] if stage["name"].startswith(PLAIN_STAGES))


TWO = f"""---
apiVersion: ate.dev/v1alpha1
kind: ActorTemplate
metadata: {{name: two, atespace: default}}
spec:
  sandboxClass: gvisor
  containers:
  - {{name: app, image: "oci-archive:{scenario.image()}", env: [{{name: PORT, value: "8080"}}], readyz: {{http: {{port: 8080, path: /readyz}}}}}}
  - {{name: helper, image: "oci-archive:{scenario.image()}", env: [{{name: PORT, value: "8081"}}]}}
"""


def several(rounds):
    """Resume of an actor of two containers against the plain commands."""
    ours, plain = [], []
    with ate.Daemon(spec={"logLevel": "warning"}) as daemon:
        mount_run(daemon)
        daemon.write("objects.yaml", scenario.objects() + TWO)
        daemon.start()
        daemon.wait_ready()
        ate.wait_until(lambda: daemon.get("/v1/templates/two").status == 200, 30, "template")
        assert daemon.request("POST", "/v1/actors", {"metadata": {"name": "c1"}, "spec": {"template": {"name": "two"}}}).status == 201
        for verb in ("resume", "suspend"):
            assert daemon.verb("c1", verb).status == 200
        for index in range(rounds):
            begun = time.perf_counter()
            assert daemon.verb("c1", "resume").status == 200
            ours.append(time.perf_counter() - begun)
            suspended = daemon.verb("c1", "suspend").json
            snapshot = pathlib.Path(daemon.state_dir) / "snapshots" / suspended["status"]["snapshot"]
            manifest = json.loads((snapshot / "manifest.json").read_text())
            by_hand = Plain(pathlib.Path(daemon.root) / "plain" / str(index), manifest, snapshot)
            try:
                plain.append(by_hand.restore(create_first=True))
                by_hand.suspend()
            finally:
                by_hand.close()
    print(f"{rounds} rounds, pause container and two more")
    first = figures("resume", ours)
    second = figures("plain create+restore of all three", plain)
    print(f"resume / sum of the plain commands    {first / second:6.3f}   (target <= 0.90)")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    several(rounds)
    series = {key: [] for key in ("resume", "first", "suspend", "plain restore", "plain create+restore", "plain suspend", "own resume", "own suspend")}
    stages = {}
    with ate.Daemon(spec={"logLevel": "warning"}) as daemon:
        mount_run(daemon)
        daemon.write("objects.yaml", scenario.objects())
        daemon.start()
        daemon.wait_ready()
        ate.wait_until(lambda: daemon.get("/v1/templates/counter").status == 200, 30, "template")
        body = {"metadata": {"name": "c1"}, "spec": {"template": {"name": "counter"}}}
        assert daemon.request("POST", "/v1/actors", body).status == 201
        connection = daemon.connection()

        def call(method, path):
            connection.request(method, path)
            response = connection.getresponse()
            data = response.read()
            assert response.status == 200, (response.status, data)
            return data

        call("POST", "/v1/actors/c1/resume")
        call("POST", "/v1/actors/c1/suspend")
        for index in range(rounds):
            begun = time.perf_counter()
            resumed = json.loads(call("POST", "/v1/actors/c1/resume"))
            series["resume"].append(time.perf_counter() - begun)
            begun = time.perf_counter()
            call("GET", "/v1/actors/c1/proxy/8080/count")
            series["first"].append(time.perf_counter() - begun)
            begun = time.perf_counter()
            suspended = json.loads(call("POST", "/v1/actors/c1/suspend"))
            series["suspend"].append(time.perf_counter() - begun)
            for verb, answer in (("resume", resumed), ("suspend", suspended)):
                operation = json.loads(call("GET", "/v1/operations/" + answer["status"]["lastOperation"]))
                series["own " + verb].append(own_share(operation) / 1000)
                for stage in operation["stages"]:
                    stages.setdefault((verb, stage["name"]), []).append(stage["ms"] / 1000)
            snapshot = pathlib.Path(daemon.state_dir) / "snapshots" / suspended["status"]["snapshot"]
            manifest = json.loads((snapshot / "manifest.json").read_text())
            for create_first in (False, True):
                plain = Plain(pathlib.Path(daemon.root) / "plain" / f"{index}-{create_first}", manifest, snapshot)
                try:
                    series["plain create+restore" if create_first else "plain restore"].append(plain.restore(create_first))
                    series["plain suspend"].append(plain.suspend())
                finally:
                    plain.close()
        connection.close()
        idle = daemon.rss_bytes()
    print(f"{rounds} rounds, alternating")
    middle = {name: figures(name, values) for name, values in series.items()}
    print("  stages of the daemon's operations:")
    for (verb, name), values in stages.items():
        figures(f"  {verb}: {name}", values)
    fastest = min(middle["plain restore"], middle["plain create+restore"])
    print(f"resume  / faster plain restore        {middle['resume'] / fastest:6.3f}   (target <= 1.05)")
    print(f"suspend - plain suspend               {(middle['suspend'] - middle['plain suspend']) * 1000:6.1f} ms (target <= 15)")
    print(f"first byte after RUNNING, p50         {middle['first'] * 1000:6.1f} ms (target <= 10)")
    print(f"RSS of the daemon after it            {idle / (1 << 20):6.1f} MiB (target idle <= 16)")


if __name__ == "__main__":
    main()
