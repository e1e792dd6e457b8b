"""What an actor may write, with real runsc: `diskQuota` of the root file system. At the limit the actor gets ENOSPC, and nobody else
notices: not the host's disk, not a save, not its other containers. (The quota of durable volumes needs a kernel with project quota:
tests/vm.)"""

import os
import unittest

import scenario

MIB = 1 << 20
QUOTA = 24 * MIB
FULL = "No space left on device"


class RootQuota(scenario.Case):

    def file(self):
        return scenario.objects(template="  diskQuota: 24Mi\n") + "---\n" + scenario.three_text(more="  diskQuota: 24Mi\n")

    def port(self, name, port, path):
        reply = self.daemon.get(f"/v1/actors/{name}/proxy/{port}{path}")
        self.assertEqual(reply.status, 200, reply)
        return reply.body.decode().strip()

    def fill(self, name="c1", port=8080, mib=256):
        """Bytes that went, and why no more did."""
        written, _, error = self.port(name, port, f"/fill?path=/fill&mib={mib}").partition(" ")
        return int(written), error

    def shown(self, name="c1"):
        return self.daemon.actor(name)["status"]["disk"]

    def free(self):
        info = os.statvfs(self.daemon.state_dir)
        return info.f_bavail * info.f_frsize

    def test_full_is_the_actor_s_own_trouble_and_stays_so_over_every_way(self):
        self.create()
        self.assertEqual(self.count(), 1)
        self.assertEqual(self.shown(), {"sizeBytes": QUOTA, "quota": "enforced"})
        self.assertEqual(int(self.port("c1", 8080, "/space?path=/")), QUOTA)
        written, error = self.fill()
        self.assertEqual(error, FULL)
        self.assertTrue(QUOTA - MIB <= written <= QUOTA, written)
        self.proxy("c1", "/write?path=/more&data=x", expect=500)
        # Saved and restored at the limit: still full, the counter goes on.
        for verb in ("pause", "suspend"):
            self.verb("c1", verb)
            self.assertEqual(self.fill(), (0, FULL))
            self.assertEqual(self.shown()["quota"], "enforced")
        self.assertEqual(self.count(), 2)
        # What is removed can be written again, not more.
        self.assertEqual(self.port("c1", 8080, "/remove?path=/fill"), "0")
        written, error = self.fill()
        self.assertEqual(error, FULL)
        self.assertTrue(QUOTA - MIB <= written <= QUOTA, written)
        # A fork has the quota of its template too.
        snapshot = self.verb("c1", "suspend")["status"]["snapshot"]
        self.create("f1", fromSnapshot=snapshot)
        self.assertEqual(self.fill("f1"), (0, FULL))
        self.delete("f1")
        # So has a cold start.
        self.verb("c1", "resume", {"boot": True})
        written, error = self.fill()
        self.assertEqual((written <= QUOTA, error), (True, FULL))

    def test_each_container_has_its_own_and_another_generation_another_one(self):
        self.create("c3", "three")
        self.verb("c3", "resume")
        before = self.free()
        self.assertEqual(self.fill("c3", 8080)[1], FULL)
        written, error = self.fill("c3", 8081, 8)
        self.assertEqual((written, error), (8 * MIB, "ok"))
        self.assertLess(before - self.free(), 256 * MIB)  # of this disk, which others use as well
        self.verb("c3", "suspend")
        self.assertEqual(self.fill("c3", 8080), (0, FULL))
        self.assertEqual(self.fill("c3", 8081)[1], FULL)
        self.verb("c3", "suspend")
        self.move("c3", self.file().replace("24Mi", "32Mi"), "three")
        self.verb("c3", "resume")
        self.assertEqual(self.shown("c3"), {"sizeBytes": 32 * MIB, "quota": "enforced"})
        written, error = self.fill("c3")
        self.assertEqual((QUOTA < written <= 32 * MIB, error), (True, FULL))
        self.verb("c3", "suspend")
        self.move("c3", self.file().replace("  diskQuota: 24Mi\n", ""), "three")
        self.verb("c3", "resume")
        self.assertEqual(self.shown("c3"), {"quota": "none"})
        self.assertEqual(self.fill("c3", mib=40), (40 * MIB, "ok"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
