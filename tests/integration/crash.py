"""One daemon that is killed or made to fail at failpoints, and what must hold afterwards."""

import contextlib
import http.client
import os
import shutil
import subprocess
import tempfile
import unittest

import ate
import scenario

STABLE = ("SUSPENDED", "RUNNING", "PAUSED", "EXITED", "CRASHED")
SETTLE_SECONDS = 2.0     # what issue 3 gives the host to be clean after a start
STOCK = 4                # pairs of network namespaces that the daemon keeps ahead
RETRY_SECONDS = 12.0     # the engine tries again every 10 s what would not go


def binary():
    path = os.environ.get("ATE_NODED_FAILPOINTS")
    if not path or not os.access(path, os.X_OK):
        raise unittest.SkipTest("no build with failpoints: set ATE_NODED_FAILPOINTS (tests/run builds one)")
    return os.path.abspath(path)


def failpoints():
    return subprocess.run([binary(), "--failpoints"], capture_output=True, text=True, check=True).stdout.split()


def objects(replicas=2):
    """The counter with a durable volume, so that memory and files can be seen to go together."""
    return scenario.objects(replicas=replicas, template="  volumes:\n  - {name: data, durableDir: {}}\n",
                            container="    volumeMounts: [{name: data, mountPath: /data}]\n")


class Died(Exception):
    """The daemon ended in the middle of a call."""


class Prepared:
    """A state directory in which the self-test has run and the image is unpacked: made once, copied for each rig."""

    made = None

    @classmethod
    def directory(cls):
        if cls.made is None:
            with ate.Daemon(binary=binary()) as daemon:
                daemon.write("objects.yaml", objects())
                daemon.start()
                daemon.wait_ready()
                ate.wait_until(lambda: daemon.get("/v1/templates/counter").status == 200, 30, "template")
                ate.wait_until(lambda: os.listdir(os.path.join(daemon.state_dir, "images", "sha256")), 30, "image")
                daemon.stop()
                cls.made = tempfile.mkdtemp(prefix="ate-prepared-")
                subprocess.run(["cp", "-a", daemon.state_dir, cls.made], check=True)
        return os.path.join(cls.made, "state")

    @classmethod
    def remove(cls):
        if cls.made is not None:
            shutil.rmtree(cls.made, ignore_errors=True)
            cls.made = None


class Rig:
    """A daemon whose failpoints are armed by a file (see ate/util/failpoint.hpp)."""

    def __init__(self, prepared=True):
        self.daemon = ate.Daemon(binary=binary())
        self.notes = tempfile.mkdtemp(prefix="ate-armed-")
        self.armed = os.path.join(self.notes, "armed")
        self.daemon.env["ATE_FAILPOINT"] = "@" + self.armed
        self.daemon.write("objects.yaml", objects(replicas=4) + "---\n" + scenario.three_text())
        self.template = "three"  # the last one of its files: usable once it is there
        self.baseline = None
        if prepared:
            subprocess.run(["cp", "-a", Prepared.directory(), self.daemon.state_dir], check=True)

    def close(self):
        self.daemon.close()
        shutil.rmtree(self.notes, ignore_errors=True)

    # Failpoints.

    def arm(self, *lines):
        """Each line "name=action"; all but the last may be "name=pass", which only waits for a point."""
        with open(self.armed + ".new", "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        os.rename(self.armed + ".new", self.armed)

    def disarm(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.armed)

    def fired(self):
        return not os.path.exists(self.armed)

    @contextlib.contextmanager
    def traced(self):
        """Gives the list that holds, afterwards, the failpoints that were passed meanwhile, in order."""
        passed = []
        with open(self.armed + ".passed", "w", encoding="ascii"):
            pass
        try:
            yield passed
        finally:
            with open(self.armed + ".passed", encoding="ascii") as file:
                passed += file.read().split()
            os.unlink(self.armed + ".passed")

    # Life.

    def alive(self):
        return self.daemon.process is not None and self.daemon.process.poll() is None

    def start(self):
        self.daemon.start()
        ate.wait_until(self.usable, 60, "ready")

    def usable(self):
        if not self.alive():
            raise Died
        try:
            return self.daemon.get("/readyz", timeout=20).status == 200 and self.daemon.get("/v1/templates/" + self.template).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def call(self, method, path, body=None):
        try:
            return self.daemon.request(method, path, body, timeout=60)
        except (OSError, http.client.HTTPException) as error:
            # A daemon that lives must answer.
            ate.wait_until(lambda: not self.alive(), 5, f"an answer to {method} {path}, or the end of the daemon ({error!r})")
            raise Died from error

    def actor(self, name="c1"):
        """The actor, or None when there is none."""
        reply = self.call("GET", "/v1/actors/" + name)
        if reply.status not in (200, 404):
            raise AssertionError(reply)
        return reply.json if reply.status == 200 else None

    def settled_actor(self, name="c1"):
        """The same once no operation runs on it."""
        def stable():
            actor = self.actor(name)
            return (actor is None or actor["status"]["state"] in (*STABLE, "DELETING")) and [actor]
        return ate.wait_until(stable, 30, "an end of the operation")[0]

    # What must hold.

    def take_baseline(self, template="counter"):
        """Everything there is without any actor, once the daemon has its stock together. An image's first run adds mount
        points to its tree, so one actor has lived before."""
        counter = Counter(self, template)
        counter.running()
        counter.remove()
        last = []

        def steady():
            seen = self.daemon.seen()
            same = last and not ate.diff(last[0], seen)
            # The namespaces of the actor that lived may go slowly: with the stock alone it is steady.
            same = same and len([path for path in seen["files"] if path.startswith("run/netns/")]) == 2 * STOCK
            last[:] = [seen]
            return same

        ate.wait_until(steady, 20, "a steady daemon", pause=0.2)
        self.baseline = last[0]

    def leftovers(self):
        """Exact difference to the baseline, less what the actors that exist own (their files, and what of them runs) and
        live snapshots, which are nobody's."""
        actors = self.call("GET", "/v1/actors?limit=100").json["items"]
        owned = []
        for actor in actors:
            status = actor["status"]
            if status["state"] not in ("SUSPENDED", "PAUSED", "EXITED", "CRASHED"):
                raise AssertionError(f"{actor['metadata']['name']} is {status['state']}: no moment to look for leftovers")
            owned.append("state/actors/" + actor["metadata"]["uid"])
            owned += ["state/snapshots/" + status[key] for key in ("snapshot", "pauseSnapshot") if status[key]]
        owned += ["state/snapshots/" + item["id"] for item in self.snapshots() if item["kind"] == "live"]
        now = self.daemon.seen()
        now["files"] = [path for path in now["files"] if "/volumes.new" in path or
                        not any(path == top or path.startswith(top + "/") for top in owned)]
        return ate.diff(self.baseline, now)

    def check_clean(self, timeout=SETTLE_SECONDS):
        last = [None]

        def clean():
            last[0] = self.leftovers()
            return not last[0]

        try:
            ate.wait_until(clean, timeout, "an empty diff")
        except TimeoutError:
            raise AssertionError(f"left behind (gone, new): {last[0]}") from None

    def snapshots(self):
        return self.call("GET", "/v1/snapshots?limit=1000").json["items"]

    def check_records(self):
        """Snapshots on disk, in the store and named by actors are the same, all whole; no operation hangs."""
        named = set()
        for actor in self.call("GET", "/v1/actors?limit=100").json["items"]:
            named |= {actor["status"][key] for key in ("snapshot", "pauseSnapshot") if actor["status"][key]}
        listed = {item["id"]: item["kind"] for item in self.snapshots()}
        if named != {identifier for identifier, kind in listed.items() if kind != "live"}:
            raise AssertionError(f"actors name {named}, listed are {listed}")
        for identifier in listed:
            if not os.path.exists(os.path.join(self.daemon.state_dir, "snapshots", identifier, "manifest.json")):
                raise AssertionError(f"snapshot {identifier} is not whole")
        hanging = [item for item in self.call("GET", "/v1/operations?limit=1000").json["items"]
                   if item["state"] not in ("DONE", "FAILED", "CANCELLED")]
        if hanging:
            raise AssertionError(f"still running: {hanging}")


class Counter:
    """The counter of actor c1 as it must be: in memory, in the committed snapshot, in the pause snapshot; and in a file on its
    durable volume, which a snapshot brings back together with the memory."""

    def __init__(self, rig, template="counter"):
        self.rig = rig
        self.template = template
        # Those whose memory lives as long as the actor's: not the sidecar's.
        self.ports = [8080] if template == "counter" else [8080, 8081]
        self.memory = self.committed = self.paused = self.file = 0

    def expect(self, reply, *status):
        if reply.status not in status:
            raise AssertionError(f"{reply}\n{self.rig.daemon.log()[-3000:]}")
        return reply

    def verb(self, verb, body=None):
        return self.rig.call("POST", f"/v1/actors/c1/{verb}", body)

    def proxy(self, path):
        return self.rig.call("GET", "/v1/actors/c1/proxy/8080" + path)

    def create(self):
        self.memory = self.committed = self.paused = self.file = 0
        return self.rig.call("POST", "/v1/actors", {"metadata": {"name": "c1"}, "spec": {"template": {"name": self.template}}})

    def count(self):
        """One request; wakes the actor, whose state decides where the counter goes on."""
        self.memory += 1
        for port in self.ports:
            reply = self.expect(self.rig.call("GET", f"/v1/actors/c1/proxy/{port}/count"), 200)
            if int(reply.body) != self.memory:
                raise AssertionError(f"counter {reply.body} on port {port} instead of {self.memory}")
        if self.template != "counter":
            return  # which has no durable volume
        reply = self.expect(self.proxy("/read?path=/data/count"), 200, 404)
        if int(reply.body if reply.status == 200 else 0) != self.file:
            raise AssertionError(f"the file says {reply.body} instead of {self.file}")
        self.expect(self.proxy(f"/write?path=/data/count&data={self.memory}"), 200)
        self.file = self.memory

    def remove(self):
        if self.rig.actor() is not None:
            self.expect(self.rig.call("DELETE", "/v1/actors/c1"), 200, 204)

    # Ways into a state, from any stable one.

    def exists(self):
        if self.rig.settled_actor() is None:
            self.expect(self.create(), 201)

    def running(self):
        self.exists()
        state = self.rig.settled_actor()["status"]["state"]
        if state in ("EXITED", "CRASHED"):
            self.expect(self.verb("revert"), 200)
            state = "SUSPENDED"
        if state != "RUNNING":
            self.memory = self.file = self.paused if state == "PAUSED" else self.committed
        self.count()

    def suspended(self):
        """With a snapshot that is not the counter's first."""
        self.running()
        self.expect(self.verb("suspend"), 200)
        self.committed = self.memory

    def new(self):
        self.remove()
        self.expect(self.create(), 201)

    def pausing(self):
        """PAUSED, with a committed snapshot beside that holds another count."""
        self.suspended()
        self.count()
        self.expect(self.verb("pause"), 200)
        self.paused = self.memory

    def reverted(self):
        """SUSPENDED at a snapshot whose files are not the live ones."""
        self.suspended()
        self.count()
        self.expect(self.verb("revert"), 200)

    def ended(self):
        self.suspended()
        self.count()
        self.expect(self.verb("signal", {"signal": "KILL", "container": "app"}), 200, 202, 204)
        ate.wait_until(lambda: self.rig.actor()["status"]["state"] in ("CRASHED", "EXITED"), 10, "an end by SIGKILL")
        # What the end left is cleared away after the state is told: before the step, or its failpoints would be the step's.
        running = os.path.join(self.rig.daemon.run_dir, "actors")
        ate.wait_until(lambda: not os.listdir(running), RETRY_SECONDS, "an end of the cleaning")
