"""Durable volumes and scopes with real runsc: every row of the table in docs/volumes.md, its template, what copies keep, what
happens when one is damaged or a file is gone, the free-space check, the time to live."""

import os
import re
import unittest

import ate
import scenario
import test_full_disk

PAGE = (scenario.TOP / "docs" / "volumes.md").read_text()
MIB = 1 << 20
VOLUMES = """  volumes:
  - {name: data, durableDir: {size: 1Gi}}
  - {name: seed, durableDir: {}}
"""
MOUNTS = """    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: seed, mountPath: /seed, readOnly: true}
"""


def table():
    """The rows of "What is kept and what is lost": (actions, memory, files)."""
    section = PAGE.split("## What is kept and what is lost")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (\w+) \| (\w+) \|$", section, re.M)
    return [(re.findall(r"`(.*?)`", actions), memory, files) for actions, memory, files in rows]


class Durable(scenario.Case):

    def file(self, env=""):
        return scenario.objects(replicas=self.replicas, template=VOLUMES + "  terminationGrace: 20s\n", container=MOUNTS).replace(
            'env: [{name: PORT, value: "8080"}]', f'env: [{{name: PORT, value: "8080"}}, {{name: EDITION, value: "{env}"}}]')

    def live(self, name="c1", volume="data"):
        uid = self.daemon.actor(name)["metadata"]["uid"]
        return os.path.join(self.daemon.state_dir, "actors", uid, "volumes", volume)

    def put(self, text, name="c1", path="/data/x"):
        self.proxy(name, f"/write?path={path}&data={text}")

    def read(self, name="c1", path="/data/x"):
        return self.proxy(name, "/read?path=" + path).decode()


class Kept(Durable):
    """The table, row by row."""

    edition = 0
    replicas = 3  # a golden snapshot is never built on the last free worker

    def file(self, env=""):
        return super().file(env).replace("  terminationGrace", "  snapshots: {golden: true}\n  terminationGrace")

    def ready(self):
        super().ready()
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").json["status"]["golden"]["state"] == "Ready", 60, "a golden snapshot")

    def act(self, name, action):
        verb, _, body = action.partition(" ")
        if verb == "exit":
            self.daemon.request("GET", f"/v1/actors/{name}/proxy/8080/exit?code=3")  # whose answer may be cut off
            self.daemon.wait_state(name, "EXITED")
        elif verb == "kill":
            self.assertLess(self.daemon.verb(name, "signal", {"signal": "KILL"}).status, 300)
            ate.wait_until(lambda: self.daemon.state(name) in ("CRASHED", "EXITED"), 30, "an end by SIGKILL")
        elif verb == "daemon-restart":
            self.daemon.stop()
            self.daemon.start()
            self.ready()
            self.assertEqual(self.daemon.actor(name)["status"]["reason"], "daemon-restart")
        elif verb == "move":
            self.edition += 1
            self.move(name, self.file(env=self.edition))
        else:
            self.verb(name, verb, body or None)

    def test_each_row(self):
        rows = table()
        self.assertGreater(len(rows), 19)
        for number, (actions, memory, files) in enumerate(rows):
            with self.subTest(actions=actions):
                name = f"row{number}"
                self.create(name)
                self.assertEqual(self.count(name), 1)
                self.put("committed", name)
                self.verb(name, "suspend")
                self.assertEqual(self.count(name), 2)
                self.put("latest", name)
                for action in actions:
                    self.act(name, action)
                status = self.daemon.actor(name)["status"]
                self.assertEqual(status["state"], "RUNNING")
                self.assertEqual(self.count(name), {"latest": 3, "committed": 2, "cold": 1, "golden": 1}[memory])
                self.assertEqual(self.read(name), files)
                self.assertEqual(memory == "cold", status["restoredFrom"] in ("boot", "data"))
                self.assertEqual(memory == "golden", status["restoredFrom"] == "data-on-golden")
                uid = self.daemon.actor(name)["metadata"]["uid"]
                self.delete(name)
                self.assertFalse(os.path.exists(os.path.join(self.daemon.state_dir, "actors", uid)))


class Volumes(Durable):

    def test_the_page_s_template_is_accepted_and_shown(self):
        text = PAGE.split("```yaml\n")[1].split("```")[0]
        reply = self.daemon.request("POST", "/v1/validate", text, {"Content-Type": "application/yaml"})
        self.assertEqual(reply.status, 200, reply)
        self.create()
        self.verb("c1", "resume")
        volumes = {volume["name"]: volume for volume in self.daemon.actor("c1")["status"]["volumes"]}
        shown = {"name": "data", "sizeBytes": 1 << 30, "quota": "enforced"}
        why = next(check["detail"] for check in self.daemon.get("/readyz").json["checks"] if check["name"] == "volumes")
        if why != "their sizes are enforced by project quota":
            shown |= {"quota": "unenforced", "message": why.removeprefix("their sizes are not enforced: ")}
        self.assertEqual(volumes["data"], shown)
        self.assertEqual(volumes["seed"]["quota"], "none")

    def test_read_only_is_read_only_and_files_are_whole(self):
        self.create()
        self.verb("c1", "resume")
        self.proxy("c1", "/write?path=/seed/x&data=no", expect=500)
        info = os.stat(self.live())
        self.assertEqual((info.st_uid, info.st_gid, info.st_mode & 0o7777), (0, 0, 0o755))
        # What the operator puts there is seen, and comes through a revert with all that it is.
        seed = self.live(volume="seed")
        with open(os.path.join(seed, "big"), "wb") as file:
            file.seek(256 * MIB)
            file.write(b"end")
        os.chmod(os.path.join(seed, "big"), 0o640)
        os.link(os.path.join(seed, "big"), os.path.join(seed, "again"))
        os.symlink("/etc/passwd", os.path.join(seed, "link"))
        os.utime(os.path.join(seed, "big"), ns=(1_000_000_001, 2_000_000_003))
        self.verb("c1", "suspend")
        snapshot = self.daemon.get("/v1/snapshots/" + self.daemon.actor("c1")["status"]["snapshot"]).json
        self.assertLess(snapshot["volumeBytes"], MIB)  # the hole costs nothing
        os.unlink(os.path.join(seed, "big"))
        self.verb("c1", "resume")
        self.verb("c1", "revert")
        self.verb("c1", "resume")
        info = os.lstat(os.path.join(seed, "big"))
        self.assertEqual((info.st_size, info.st_mode & 0o7777, info.st_mtime_ns, info.st_nlink), (256 * MIB + 3, 0o640, 2_000_000_003, 2))
        self.assertLess(info.st_blocks * 512, MIB)
        self.assertEqual(os.readlink(os.path.join(seed, "link")), "/etc/passwd")
        stages = [stage["name"] for stage in self.last_operation()["stages"]]
        self.assertIn("volumes", stages)

    def last_operation(self, name="c1"):
        return self.daemon.get("/v1/operations/" + self.daemon.actor(name)["status"]["lastOperation"]).json

    def test_a_damaged_copy_is_409_and_leaves_the_live_files(self):
        self.create()
        self.verb("c1", "resume")
        self.put("one")
        identifier = self.verb("c1", "suspend")["status"]["snapshot"]
        self.verb("c1", "resume")
        self.put("two")
        copy = os.path.join(self.daemon.state_dir, "snapshots", identifier, "volumes", "data", "x")
        times = os.stat(os.path.dirname(copy))
        os.rename(copy, copy + ".gone")
        self.verb("c1", "revert")
        reply = self.daemon.verb("c1", "resume")
        self.assertEqual((reply.status, reply.problem), (409, "snapshot-corrupt"), reply)
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        with open(os.path.join(self.live(), "x"), encoding="ascii") as file:
            self.assertEqual(file.read(), "two")
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.live()) + ".new")))
        os.rename(copy + ".gone", copy)
        os.utime(os.path.dirname(copy), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.verb("c1", "resume")
        self.assertEqual(self.read(), "one")

    def test_an_open_file_that_is_gone_is_409_and_named(self):
        self.create()
        self.verb("c1", "resume")
        self.put("text", path="/data/held")
        self.proxy("c1", "/hold?path=/data/held")
        self.verb("c1", "suspend")
        held = os.path.join(self.live(), "held")
        os.rename(held, held + ".away")
        reply = self.daemon.verb("c1", "resume")
        self.assertEqual((reply.status, reply.problem), (409, "snapshot-incompatible"), reply)
        self.assertIn("held", reply.json["detail"])
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        # The copy in the snapshot still has it: what a failed start may have touched is brought back.
        self.verb("c1", "resume")
        self.assertEqual(self.read(path="/data/held"), "text")

    def test_a_template_without_volumes_has_no_scope_data(self):
        self.daemon.write("plain.yaml", scenario.template_text(name="plain"))
        ate.wait_until(lambda: self.daemon.get("/v1/templates/plain").status == 200, 30, "template plain")
        self.create("p1", template="plain")
        self.verb("p1", "resume")
        reply = self.daemon.verb("p1", "suspend", {"scope": "DATA"})
        self.assertEqual((reply.status, reply.problem), (422, "invalid-value"), reply)
        self.assertEqual(self.daemon.state("p1"), "RUNNING")

    def test_ttl_deletes_with_an_event(self):
        before = self.daemon.seen()
        self.create("short", ttl="1s")
        self.create("long", ttl="1h")
        ate.wait_until(lambda: self.daemon.get("/v1/actors/short").status == 404, 30, "an end of the actor")
        events = [event["type"] for event in self.daemon.events() if event.get("actor", {}).get("name") == "short"]
        self.assertIn("actor.expired", events)
        self.assertIn("actor.deleted", events)
        self.assertEqual(self.daemon.state("long"), "SUSPENDED")
        self.delete("long")
        self.settled(before)


class SmallDisk(Durable):
    replicas = 1

    def setUp(self):
        scenario.runsc()
        self.daemon = ate.Daemon(spec={"diskReserve": "16Mi"})
        self.addCleanup(self.daemon.close)
        self.disk = test_full_disk.SmallDisk(os.path.join(self.daemon.root, "disk"), self.daemon.state_dir, 768 * MIB)
        self.daemon.write("objects.yaml", self.file())
        self.daemon.start()
        self.ready()

    def test_a_volume_that_does_not_fit_twice_is_507_before_anything_stands_still(self):
        self.create()
        self.assertEqual(self.count(), 1)
        with open(os.path.join(self.live(), "large"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 300 * MIB)
        self.disk.fill(leave=200 * MIB)
        for body in (None, {"scope": "DATA"}):
            reply = self.daemon.verb("c1", "suspend", body)
            self.assertEqual((reply.status, reply.problem), (507, "disk-full"), reply)
            self.assertGreater(reply.json["neededBytes"], 300 * MIB)
            self.assertEqual(self.daemon.state("c1"), "RUNNING")
        self.assertEqual(self.count(), 2)
        os.unlink(os.path.join(self.live(), "large"))
        self.verb("c1", "suspend")
        self.assertEqual(self.count(), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
