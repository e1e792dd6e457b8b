"""Features together on a real runsc: three containers that share one volume, with a golden snapshot, live snapshots, forks, reverts."""

import unittest

import ate
import scenario

PORTS = scenario.PORTS
VOLUME = "  volumes: [{name: data, durableDir: {}}]\n"
MOUNT = "    volumeMounts: [{name: data, mountPath: /data}]\n"


class Together(scenario.Case):
    replicas = 4

    def file(self):
        gates = {name: f"    readyz: {{http: {{port: {port}, path: /readyz}}}}\n{MOUNT}" for name, port in PORTS.items()}
        more = VOLUME + "  snapshots: {golden: true}\n"
        return scenario.objects(replicas=self.replicas) + "---\n" + scenario.three_text(more=more, **gates)

    def ready(self):
        super().ready()
        ate.wait_until(lambda: self.daemon.get("/v1/templates/three").status == 200, 30, "template three")
        ate.wait_until(lambda: self.daemon.get("/v1/templates/three").json["status"]["golden"]["state"] == "Ready", 90, "a golden snapshot")

    def ask(self, container, path="/count", name="c1"):
        reply = self.daemon.request("GET", f"/v1/actors/{name}/proxy/{PORTS[container]}{path}")
        self.assertEqual(reply.status, 200, (container, path, reply, self.daemon.log()[-2000:]))
        return reply.body.decode()

    def put(self, container, text, name="c1"):
        self.ask(container, f"/write?path=/data/{container}&data={text}", name)

    def sees(self, expected, name="c1"):
        """Every container reads what each of them wrote."""
        for reader in PORTS:
            self.assertEqual([self.ask(reader, f"/read?path=/data/{writer}", name) for writer in PORTS], [expected] * 3)

    def all_put(self, text, name="c1"):
        for container in PORTS:
            self.put(container, text, name)

    def counts(self, name="c1"):
        return [int(self.ask(container, name=name)) for container in PORTS]

    def begin(self):
        self.create("c1", "three")
        self.assertEqual(self.verb("c1", "resume")["status"]["restoredFrom"], "golden")
        self.assertEqual(self.counts(), [1, 1, 1])
        self.all_put("one")
        self.sees("one")

    def through(self):
        made = self.daemon.request("POST", "/v1/actors/c1/snapshots")
        self.assertEqual(made.status, 201, made)
        self.assertEqual(self.counts(), [2, 2, 2])
        self.verb("c1", "suspend")
        self.assertEqual(self.counts(), [3, 3, 3])
        self.all_put("two")
        self.sees("two")
        for name in ("f1", "f2"):
            reply = self.daemon.request("POST", "/v1/actors", {"metadata": {"name": name}, "spec": {"fromSnapshot": made.json["id"]}})
            self.assertEqual(reply.status, 201, reply)
            self.assertEqual(self.verb(name, "resume")["status"]["restoredFrom"], "fork")
            self.assertEqual(self.counts(name), [2, 2, 2])
            self.sees("one", name)
            self.all_put(name, name)
        self.sees("f1", "f1")
        self.sees("two")
        self.verb("c1", "revert")
        self.assertEqual(self.counts(), [3, 3, 3])
        self.sees("one")
        for name in ("c1", "f1", "f2"):
            self.delete(name)
        self.assertEqual(self.daemon.request("DELETE", "/v1/snapshots/" + made.json["id"]).status, 204)

    def test_golden_of_three_containers_with_a_shared_volume(self):
        self.begin()
        self.through()

    def test_data_on_golden_of_three_containers(self):
        self.begin()
        self.verb("c1", "suspend", {"scope": "DATA_ON_GOLDEN"})
        self.assertEqual(self.verb("c1", "resume")["status"]["restoredFrom"], "data-on-golden")
        self.assertEqual(self.counts(), [1, 1, 1])
        self.sees("one")


if __name__ == "__main__":
    unittest.main(verbosity=2)
