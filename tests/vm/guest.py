"""Runs inside the machine that tests/vm boots: the cases of a real cgroup v2 + systemd host, against the installed daemon
and its real unit. One JSON line per case on standard output; test_vm.py on the host turns each into a test.

Two boots of the same disk: FirstBoot ends by a power cut with an actor running, SecondBoot looks at what came back. The cases of a boot
run in the order in which they are written here and build on each other. Everything is emulated, so limits are wide.
"""

import contextlib
import grp
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "integration"))

import ate  # noqa: E402
import scenario  # noqa: E402

SLICE = "/sys/fs/cgroup/ate.slice"
SERVICE = "/sys/fs/cgroup/system.slice/ate-noded.service"
CONFIG = "/etc/ate/noded.yaml"
MIB = 1 << 20
LIMIT = 300.0
IMAGE = os.path.join(TOP, "workload.tar")
# A second pool, whose budget is used up sooner. Together with both workers of the first it is more CPU than the machine has.
TINY = """---
apiVersion: ate.dev/v1alpha1
kind: WorkerPool
metadata: {name: tiny, labels: {tier: tiny}}
spec:
  sandboxClass: gvisor
  resources: {limits: {cpu: "1", memory: 224Mi}}
---
""" + scenario.template_text(IMAGE, name="tiny").replace("tier: small", "tier: tiny")
# Volumes on this machine's root, an ext4 with project quota.
VOLUMES = """---
""" + scenario.template_text(IMAGE, name="notes", container="""    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: free, mountPath: /free}
""", template="""  volumes:
  - {name: data, durableDir: {size: 8Mi}}
  - {name: free, durableDir: {}}
""")
FULL = ("Disk quota exceeded", "No space left on device")  # ext4, XFS
CASE_LIMIT = 600  # seconds; a case that hangs tells where, and the others get their turn


def objects(small=2, size="8Mi"):
    """The object file: so many workers for the first pool; the second has one."""
    text = scenario.objects(IMAGE) + TINY + VOLUMES
    return text.replace("replicas: 2", "replicas: %d" % small).replace("size: 8Mi", "size: " + size)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def shell(*command):
    """Output of a command that must succeed."""
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        raise AssertionError("%s: exit %d: %s" % (" ".join(command), run.returncode, run.stdout))
    return run.stdout


def inhabited(cgroup):
    try:
        return "populated 1" in read(cgroup + "/cgroup.events")
    except OSError:  # removed
        return False


def write_file(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Pid:
    def __init__(self, pid):
        self.pid = pid


class Installed(ate.Daemon):
    """The daemon that systemd runs, with the calls of ate.Daemon."""

    def __init__(self):  # noqa: super() would make directories of its own
        ate.Client.__init__(self, "/run/ate/noded.sock")
        self.run_dir, self.state_dir, self.etc_dir = "/run/ate", "/var/lib/ate", "/etc/ate"
        self.root = "/etc"  # where files are before they get into etc_dir

    @property
    def pid(self):
        return int(self.property("MainPID"))

    def property(self, name):
        return shell("systemctl", "show", "--value", "-p", name, "ate-noded").strip()

    def log(self):
        return subprocess.run(["journalctl", "-q", "--no-pager", "-o", "cat", "-u", "ate-noded", "-n", "25"],
                              stdout=subprocess.PIPE, text=True).stdout

    def healthy(self):
        with contextlib.suppress(OSError, ate.http.client.HTTPException):
            return self.get("/healthz", timeout=20.0).status == 200
        return False

    def settle(self):
        """Until it is up and has tested its runsc; the template is there."""
        ate.wait_until(self.healthy, LIMIT, "healthz")
        self.wait_ready(LIMIT)
        ate.wait_until(lambda: self.get("/v1/templates/counter").status == 200, LIMIT, "template counter")

    def sandboxes(self):
        return {(pid, start) for pid, start, _ in ate.processes_of("/run/ate/actors")}

    def seen(self):
        return {
            "processes": {line for _, _, line in ate.processes_of("/run/ate/actors")},
            "mounts": sorted(ate.without_ids(ate.mounts_under(self.run_dir))),
            "netns": sorted(ate.without_ids(ate.network_namespaces(self.run_dir))),
            "links": set(os.listdir("/sys/class/net")),
            "cgroups": {directory for directory, _, _ in os.walk(SLICE)},
            "files": set(ate.without_ids(os.path.join("/", name) for name in ate.files_under(self.run_dir))) | {
                name for name in ate.files_under(self.state_dir) if name.startswith(("actors", "snapshots"))},
            "fds": ate.descriptors_of(Pid(self.pid)),
        }


class Case(scenario.Case):
    def setUp(self):
        self.daemon = Installed()

    def worker_of(self, name):
        """Directories of its worker and of its leaf."""
        worker = self.daemon.actor(name)["status"]["worker"]
        self.assertTrue(worker, self.daemon.actor(name))
        directory = os.path.join(SLICE, worker)
        leaves = [entry for entry in os.listdir(directory) if os.path.isdir(os.path.join(directory, entry))]
        self.assertEqual(len(leaves), 1, leaves)
        return directory, os.path.join(directory, leaves[0])

    def pools(self, small):
        write_file("/etc/ate/objects.yaml", objects(small))

    def pool(self, name):
        return next(pool for pool in self.daemon.get("/v1/capacity").json["pools"] if pool["pool"] == name)

    def wait_pool(self, name, usable):
        ate.wait_until(lambda: (self.pool(name)["free"] > 0) == usable, 30, "pool %s: %s" % (name, "usable" if usable else "refused"))

    def seen_budget(self, worker):
        return self.daemon.get("/v1/workers/" + os.path.basename(worker)).json["budget"]["budgetMemoryBytes"]

    def set_budget(self, worker, mib):
        """As somebody else would; seen by the daemon without being told."""
        write_file(os.path.join(worker, "memory.max"), str(mib * MIB))
        began = time.monotonic()
        ate.wait_until(lambda: self.seen_budget(worker) == mib * MIB, 30, "the new budget")
        return time.monotonic() - began

    def assert_budget(self, directory):
        found = {name: read(os.path.join(directory, name)) for name in ("memory.max", "memory.oom.group", "cpu.max", "pids.max")}
        self.assertEqual(found, {"memory.max": str(512 * MIB), "memory.oom.group": "1", "cpu.max": "100000 100000",
                                 "pids.max": "4096"}, directory)

    def fill(self, name, mib=64, path="/data/fill"):
        """Bytes that went, and why no more did."""
        written, _, error = self.proxy(name, f"/fill?path={path}&mib={mib}").decode().strip().partition(" ")
        return int(written), error

    def assert_full(self, name):
        """Nothing can be added, but a block or so that the file system has in hand."""
        written, error = self.fill(name)
        self.assertIn(error, FULL)
        self.assertLessEqual(written, 128 << 10)

    def wait_gone(self, processes):
        ate.wait_until(lambda: not processes & self.daemon.sandboxes(), 60, "end of what is not wanted")


class FirstBoot(Case):
    def test_readme_install_starts_it_with_budgets_enforced(self):
        self.assertFalse(os.path.exists("/sys/fs/cgroup/memory"), "this is no cgroup v2 machine")
        shell("cp", "-a", os.path.join(TOP, "install", "."), "/")
        for command in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"], ["systemctl", "daemon-reload"]):
            shell(*command)
        self.assertFalse(os.path.exists(CONFIG))
        self.pools(2)
        shell("systemctl", "enable", "--now", "ate-noded")
        shell("sync")  # the copies above; whatever the daemon promises, it must sync itself
        self.daemon.settle()
        checks = {check["name"]: check for check in self.daemon.get("/readyz").json["checks"]}
        self.assertIn("enforced below " + SLICE, json.dumps(checks["cgroups"]))
        self.assertLessEqual({"cpu", "memory", "pids"}, set(read(SLICE + "/cgroup.controllers").split()))
        self.assertEqual(read(SLICE + "/cgroup.procs"), "")
        mode = os.stat(self.daemon.path)
        self.assertEqual((stat.S_IMODE(mode.st_mode), mode.st_gid), (0o660, grp.getgrnam("ate").gr_gid))
        state = os.stat("/var/lib/ate")
        self.assertEqual((stat.S_IMODE(state.st_mode), state.st_gid), (0o710, grp.getgrnam("ate-vm").gr_gid))
        self.assertEqual(self.daemon.log().count("warning"), 0, self.daemon.log())

    def test_worker_and_leaf_carry_the_budget_of_the_pool(self):  # case T43
        self.create()
        self.assertEqual(self.count(), 1)
        worker, leaf = self.worker_of("c1")
        self.assert_budget(worker)
        self.assert_budget(leaf)

    def test_sandbox_and_gofer_are_in_the_leaf_and_nothing_in_the_service(self):  # case T43
        _, leaf = self.worker_of("c1")
        inside = {int(pid) for pid in read(leaf + "/cgroup.procs").split()}
        commands = [ate.read_proc(pid, "cmdline").replace(b"\0", b" ").decode() for pid in inside]
        self.assertTrue(any("runsc-sandbox" in line for line in commands), commands)
        self.assertTrue(any("runsc-gofer" in line for line in commands), commands)
        self.assertLessEqual({pid for pid, _ in self.daemon.sandboxes()}, inside)
        self.assertEqual(read(SERVICE + "/cgroup.procs").split(), [str(self.daemon.pid)])
        self.assertGreater(int(read(leaf + "/memory.current")), 4 * MIB)
        self.assertEqual(read("/proc/%d/oom_score_adj" % self.daemon.pid), "-900")
        self.assertNotIn("-900", [read("/proc/%d/oom_score_adj" % pid) for pid in inside])

    def test_memory_of_the_guest_follows_the_budget(self):
        text = self.proxy("c1", "/read?path=/proc/meminfo").decode()
        total = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("MemTotal:"))
        self.assertEqual(total, 512 * 1024, text)
        self.assertGreater(int(read("/proc/meminfo").split()[1]), 2 * total)

    def test_counter_survives_suspend_and_wake(self):
        worker, leaf = self.worker_of("c1")
        for expected in (2, 3):
            self.verb("c1", "suspend")
            self.assertFalse(os.path.exists(leaf))
            self.assertEqual(self.daemon.sandboxes(), set())
            self.assertEqual(self.count(), expected)
            self.assertEqual(self.daemon.actor("c1")["status"]["restoredFrom"], "snapshot")
            worker, leaf = self.worker_of("c1")
            self.assert_budget(worker)
            self.assert_budget(leaf)

    def test_systemd_leaves_the_tree_alone(self):
        """A reload or a changed property makes systemd write to the slice again: limits below it must hold."""
        self.verb("c1", "suspend")  # without a running actor nothing but systemd itself keeps controllers switched on
        shell("systemctl", "daemon-reload")
        shell("systemctl", "set-property", "--runtime", "ate.slice", "CPUWeight=200")
        # A unit beside the workers comes and goes: what it needed is switched off again where systemd thinks it may.
        write_file("/run/systemd/system/other.service",
                   "[Service]\nType=oneshot\nSlice=ate.slice\nMemoryMax=64M\nExecStart=/bin/true\n")
        shell("systemctl", "daemon-reload")
        shell("systemctl", "start", "other")
        shell("systemctl", "daemon-reload")
        self.assertLessEqual({"cpu", "memory", "pids"}, set(read(SLICE + "/cgroup.subtree_control").split()))
        for entry in os.scandir(SLICE):  # with no worker there yet nothing holds them: systemd may switch them off
            if entry.is_dir() and entry.name != "helpers":
                os.rmdir(entry.path)
        write_file(SLICE + "/cgroup.subtree_control", "-cpu -memory -pids")
        self.assertEqual(self.count(), 4)
        worker, leaf = self.worker_of("c1")
        self.assert_budget(worker)
        self.assert_budget(leaf)
        self.verb("c1", "suspend")

    def test_somebody_lowers_the_budget_of_a_running_actor(self):
        """Shown within a second, and never a guest that is larger than its budget at the next start."""
        self.assertEqual(self.count(), 5)
        first, _ = self.worker_of("c1")
        self.assertLess(self.set_budget(first, 384), 10.0)  # 1 s, on a machine that is not emulated
        self.assertEqual(self.count(), 6)  # it goes on
        shown = self.daemon.get("/v1/workers/" + os.path.basename(first)).json
        decides = [term for term in shown["terms"] if term.get("decides") and term["resource"] == "memory"]
        self.assertEqual([(term["source"], term["value"]) for term in decides], [(first + "/memory.max", 384 * MIB)])
        self.verb("c1", "suspend")
        self.assertEqual(self.count(), 7)
        second, _ = self.worker_of("c1")
        self.assertNotEqual(second, first)  # the one that holds its guest
        self.verb("c1", "suspend")
        self.set_budget(second, 384)
        refused = self.daemon.verb("c1", "resume")
        self.assertEqual(refused.status, 409, refused)
        self.assertIn("snapshot-incompatible", refused.json["type"])
        self.assertEqual(refused.json["workerMemoryBytes"], 384 * MIB)
        self.assertGreater(refused.json["snapshotMemoryBytes"] + refused.json["snapshotOverheadBytes"], 384 * MIB)
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        self.create("less")
        self.assertEqual(self.count("less"), 1)
        _, leaf = self.worker_of("less")
        self.assertEqual(read(leaf + "/memory.max"), str(384 * MIB))
        status = self.daemon.actor("less")["status"]
        self.assertLessEqual(status["guest"]["memoryBytes"], (384 - 72) * MIB, status)
        self.delete("less")
        for worker in (first, second):
            self.set_budget(worker, 512)
        self.assertEqual(self.count(), 8)
        self.verb("c1", "suspend")

    def test_an_ancestor_decides(self):  # case T4
        limit = os.path.join(SLICE, "memory.max")
        before = read(limit)
        write_file(limit, str(700 * MIB))
        try:
            self.wait_pool("small", False)  # two workers of 512 MiB are more than that
            text = self.daemon.get("/v1/capacity?explain=counter", headers={"Accept": "text/plain"}).body.decode()
            self.assertIn("small 2 \u00d7 512Mi = 1Gi) is more than the 700Mi that %s leaves" % limit, text)
            self.assertIn("can't be placed", text)
            refused = self.daemon.verb("c1", "resume")
            self.assertEqual(refused.status, 422, refused)
            self.assertIn(limit, refused.json["detail"])
        finally:
            write_file(limit, before)
        self.wait_pool("small", True)
        self.assertEqual(self.count(), 9)
        self.verb("c1", "suspend")

    def test_size_of_a_volume_is_enforced(self):
        checks = {check["name"]: check["detail"] for check in self.daemon.get("/readyz").json["checks"]}
        self.assertEqual(checks["volumes"], "their sizes are enforced by project quota")
        self.create("v1", "notes")
        self.assertEqual(self.count("v1"), 1)
        volumes = {volume["name"]: volume for volume in self.daemon.actor("v1")["status"]["volumes"]}
        self.assertEqual(volumes["data"], {"name": "data", "sizeBytes": 8 * MIB, "quota": "enforced"})
        self.assertEqual(volumes["free"], {"name": "free", "quota": "none"})
        self.assertEqual(self.fill("v1", 12, "/free/fill"), (12 * MIB, "ok"))
        written, error = self.fill("v1")
        self.assertIn(error, FULL)
        self.assertTrue(7 * MIB < written <= 8 * MIB, written)
        # A save and a restore at the limit work, and it is still one.
        snapshot = self.verb("v1", "suspend")["status"]["snapshot"]
        self.assertEqual(self.count("v1"), 2)
        self.assert_full("v1")
        # A fork has copies of its own, and a limit of its own.
        self.create("v2", "notes", fromSnapshot=snapshot)
        self.assert_full("v2")
        self.assertEqual(self.proxy("v2", "/remove?path=/data/fill"), b"0\n")
        written, error = self.fill("v2", 4)
        self.assertEqual((written, error), (4 * MIB, "ok"))
        self.assert_full("v1")
        self.delete("v2")
        # So have the copies that a revert brings back.
        self.assertEqual(self.proxy("v1", "/remove?path=/data/fill"), b"0\n")
        self.verb("v1", "revert")
        self.assertEqual(self.count("v1"), 2)
        self.assert_full("v1")
        self.verb("v1", "suspend")
        # Another generation, another size; a smaller one takes nothing away.
        for size, more in ((12, True), (2, False)):
            self.move("v1", objects(size="%dMi" % size), "notes", LIMIT)
            self.verb("v1", "resume")
            self.assertEqual(self.daemon.actor("v1")["status"]["volumes"][0]["sizeBytes"], size * MIB)
            written, error = self.fill("v1")
            self.assertIn(error, FULL)
            self.assertTrue(3 * MIB < written <= 4 * MIB if more else written <= 128 << 10, written)
            self.verb("v1", "suspend")
        self.delete("v1")

    def test_beyond_the_budget_is_a_crash_that_names_cgroup_and_peak(self):  # case T44
        self.assertIn("small 2 \u00d7 1000m + tiny 1 \u00d7 1000m = 3 CPUs", json.dumps(self.pool("tiny"), ensure_ascii=False))
        self.pools(1)
        self.wait_pool("tiny", True)
        self.create("big", "tiny")
        self.assertEqual(self.count("big"), 1)
        _, leaf = self.worker_of("big")
        before = self.daemon.pid
        answers = []

        def ask():
            with contextlib.suppress(OSError, ate.http.client.HTTPException):
                answers.append(self.daemon.get("/v1/actors/big/proxy/8080/alloc?mib=1024", timeout=LIMIT))

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        ate.wait_until(lambda: not inhabited(leaf), LIMIT, "the end of the sandbox")
        ended = time.monotonic()
        self.daemon.wait_state("big", "CRASHED", 60)
        self.assertLess(time.monotonic() - ended, 5.0)  # 1 s, on a machine that is not emulated
        asking.join(40)  # the request that waits for an answer is told, too
        self.assertFalse(asking.is_alive())
        self.assertFalse([answer for answer in answers if answer.status == 200], answers)
        status = self.daemon.actor("big")["status"]
        self.assertEqual(status["reason"], "cgroup-oom", status)
        self.assertIn(leaf, status["message"])
        self.assertRegex(status["message"], r"oom_kill [1-9]")
        self.assertRegex(status["message"], r"peak [0-9]+ of 234881024 bytes")
        self.assertEqual(self.daemon.pid, before)
        self.assertEqual(self.daemon.verb("big", "resume").status, 409)
        self.verb("big", "resume", {"boot": True})
        self.assertEqual(self.count("big"), 1)  # a new leaf: nothing of the old charges
        self.delete("big")
        self.pools(2)
        self.wait_pool("tiny", False)

    def test_stop_leaves_actors_alone_and_the_next_start_ends_them(self):
        self.create("run")
        self.assertEqual(self.count("run"), 1)
        self.verb("run", "suspend")
        self.assertEqual(self.count("run"), 2)
        _, leaf = self.worker_of("run")
        processes = self.daemon.sandboxes()
        shell("systemctl", "stop", "ate-noded")
        self.assertEqual(self.daemon.property("Result"), "success")
        self.assertEqual(self.daemon.sandboxes(), processes)
        self.assertIn("populated 1", read(leaf + "/cgroup.events"))
        shell("systemctl", "start", "ate-noded")
        self.daemon.settle()
        status = self.daemon.actor("run")["status"]
        self.assertEqual((status["state"], status["reason"]), ("CRASHED", "daemon-restart"))
        self.wait_gone(processes)
        ate.wait_until(lambda: not os.path.exists(leaf), 30, "removal of the leaf")
        self.verb("run", "revert")
        self.assertEqual(self.count("run"), 2)

    def test_restart_and_kill_9_under_systemd(self):
        processes = self.daemon.sandboxes()
        self.assertTrue(processes)
        first = self.daemon.pid
        shell("systemctl", "restart", "ate-noded")
        self.daemon.settle()
        second = self.daemon.pid
        self.assertNotEqual(second, first)
        status = self.daemon.actor("run")["status"]
        self.assertEqual((status["state"], status["reason"]), ("CRASHED", "daemon-restart"))
        self.wait_gone(processes)
        os.kill(second, signal.SIGKILL)
        ate.wait_until(lambda: self.daemon.pid not in (0, second), 60, "systemd starting it again")
        self.daemon.settle()
        self.assertEqual(self.count(), 10)  # c1, suspended long before
        self.verb("c1", "suspend")

    def test_delete_leaves_nothing(self):
        for name in [item["metadata"]["name"] for item in self.daemon.get("/v1/actors").json["items"]]:
            self.delete(name)
        self.create("warm")  # the worker's directory stays for the next actor
        self.assertEqual(self.count("warm"), 1)
        self.delete("warm")
        before = self.daemon.seen()
        self.create("d1")
        self.assertEqual(self.count("d1"), 1)
        self.verb("d1", "suspend")
        self.assertEqual(self.count("d1"), 2)
        self.delete("d1")
        self.settled(before, 60.0)
        self.assertEqual(os.listdir("/var/lib/ate/snapshots"), [])
        self.assertEqual(os.listdir("/var/lib/ate/actors"), [])

    def test_refuses_to_start_and_says_why(self):
        shell("systemctl", "stop", "ate-noded")
        os.makedirs("/sys/fs/cgroup/bare/inner")
        os.makedirs("/sys/fs/cgroup/taken.slice")
        sleeper = subprocess.Popen(["sleep", "infinity"])
        try:
            write_file("/sys/fs/cgroup/taken.slice/cgroup.procs", str(sleeper.pid))
            for root, reason in (
                    ("/sys/fs/cgroup/missing.slice", "No such file or directory; create it under the cgroup v2 mount"),
                    ("/var/lib", "is not on a cgroup v2 file system"),
                    ("/sys/fs/cgroup/bare/inner", "does not offer cpu, memory, pids; enable them in its parent's cgroup.subtree_control"),
                    ("/sys/fs/cgroup/taken.slice", "holds processes (pid %d)" % sleeper.pid)):
                with self.subTest(root=root):
                    self.refused(root, reason)
        finally:
            sleeper.kill()
            sleeper.wait()
            for path in ("/sys/fs/cgroup/bare/inner", "/sys/fs/cgroup/bare", "/sys/fs/cgroup/taken.slice"):
                os.rmdir(path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(CONFIG)
            shell("systemctl", "reset-failed", "ate-noded")
            shell("systemctl", "start", "ate-noded")
        self.daemon.settle()

    def refused(self, root, reason):
        write_file(CONFIG, "apiVersion: ate.dev/v1alpha1\nkind: NodeConfig\nspec: {cgroupRoot: %s}\n" % root)
        subprocess.run(["systemctl", "start", "ate-noded"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ate.wait_until(lambda: self.daemon.property("ActiveState") == "failed", 60, "the refusal")
        self.assertEqual((self.daemon.property("ExecMainStatus"), self.daemon.property("NRestarts")), ("3", "0"))
        last = self.daemon.log().strip().splitlines()[-8:]
        self.assertTrue(any("refusing to start: spec.cgroupRoot " + root in line and reason in line for line in last), last)

    def test_power_cut_with_an_actor_running(self):
        self.create("on")
        self.assertEqual(self.count("on"), 1)
        self.verb("on", "suspend")
        self.create("full", "notes")
        self.assertIn(self.fill("full")[1], FULL)
        self.verb("full", "suspend")
        self.create("off")
        self.assertEqual(self.count("off"), 1)
        self.verb("off", "suspend")
        self.assertEqual(self.count("on"), 2)
        self.assertEqual(self.daemon.state("on"), "RUNNING")


class SecondBoot(Case):
    def test_it_came_back_by_itself(self):
        self.daemon.settle()
        self.assertEqual(self.daemon.property("NRestarts"), "0")
        self.assertEqual(self.daemon.sandboxes(), set())

    def test_running_is_crashed_by_host_reboot_and_has_a_way_back(self):  # case T50
        status = self.daemon.actor("on")["status"]
        self.assertEqual((status["state"], status["reason"]), ("CRASHED", "host-reboot"), status)
        self.assertIsNone(status["worker"])
        self.assertEqual(self.daemon.verb("on", "resume").status, 409)
        self.verb("on", "revert")
        self.assertEqual(self.count("on"), 2)  # as it was when suspended
        _, leaf = self.worker_of("on")
        self.assert_budget(leaf)

    def test_suspended_is_as_before_and_wakes(self):
        self.assertEqual(self.daemon.state("off"), "SUSPENDED")
        self.assertEqual(self.count("off"), 2)

    def test_a_volume_has_its_size_still(self):
        self.verb("off", "suspend")
        self.assert_full("full")
        self.assertEqual(self.daemon.actor("full")["status"]["volumes"][0]["quota"], "enforced")


def cases(boot):
    """Names of a boot's cases, in the order in which they are written."""
    return [name for name in vars(boot) if name.startswith("test_")]


class Lines(unittest.TestResult):
    """Each case as one line."""

    def __init__(self):
        super().__init__()
        self.trouble = []
        self.begun = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.trouble = []
        self.begun = time.monotonic()
        say(started=test.id().split(".", 1)[1])

    def addFailure(self, test, err):
        self.trouble.append(self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.trouble.append(str(subtest) + "\n" + self._exc_info_to_string(err, test))

    def stopTest(self, test):
        detail = "\n".join(self.trouble)
        if detail:
            detail = detail[-4000:] + "\n---- journal ----\n" + Installed().log()[-4000:]
        say(case=test.id().split(".", 1)[1], passed=not detail, detail=detail, seconds=round(time.monotonic() - self.begun, 1))


def out_of_time(_number, _frame):
    raise TimeoutError("this case did not end within %d s" % CASE_LIMIT)


def say(**line):
    print(json.dumps(line), flush=True)


def main():
    boot = SecondBoot if "ate.boot=2" in read("/proc/cmdline").split() else FirstBoot
    os.environ["ATE_TEST_RUNSC"] = os.path.join(TOP, "runsc")
    say(kernel=os.uname().release, systemd=shell("systemctl", "--version").split()[1], seconds=round(time.monotonic(), 1))
    result = Lines()
    signal.signal(signal.SIGALRM, out_of_time)
    for name in cases(boot):
        signal.alarm(CASE_LIMIT)
        boot(name).run(result)
        signal.alarm(0)
    say(end=boot.__name__)
    if boot is FirstBoot:
        signal.pause()  # the host cuts the power


if __name__ == "__main__":
    main()
