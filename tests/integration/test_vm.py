"""Enforced budgets on a real cgroup v2 + systemd host: an emulated machine (tests/vm) in which the daemon is installed as the README
says. Each case that runs inside (tests/vm/guest.py) is a test here; the machine is booted twice, once, for all of them."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm"))

import guest  # noqa: E402
import machine  # noqa: E402
import scenario  # noqa: E402


class VirtualMachine(unittest.TestCase):
    booted = None

    @classmethod
    def setUpClass(cls):
        machine.require_tools()
        scenario.runsc()
        cls.booted = machine.Machine()
        cls.addClassCleanup(cls.booted.close)
        if cls.booted.boot(1):
            cls.booted.boot(2)

    def check(self, name):
        line = self.booted.cases.get(name)
        if line is None:
            trouble, self.booted.trouble = self.booted.trouble, "see the first case that did not run"
            self.fail("did not run: " + trouble)
        self.assertTrue(line["passed"], line["detail"])


def add_cases():
    for boot in (guest.FirstBoot, guest.SecondBoot):
        for case in guest.cases(boot):
            name = boot.__name__ + "." + case
            setattr(VirtualMachine, "test_%s_%s" % (boot.__name__, case[len("test_"):]), lambda self, name=name: self.check(name))


add_cases()

if __name__ == "__main__":
    unittest.main(verbosity=2)
