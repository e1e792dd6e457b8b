"""What the integration tests share beside the daemon: a real runsc, the test image, the object files of examples.md's shape."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import ate

TOP = pathlib.Path(ate.TOP)
CACHE = TOP / "build" / "test-images"


def runsc():
    """Path of the real runsc, or the test is skipped with the reason."""
    path = os.environ.get("ATE_TEST_RUNSC") or shutil.which("runsc")
    if not path:
        raise unittest.SkipTest("no runsc: set ATE_TEST_RUNSC or put one into PATH (.ci/get-runsc makes one)")
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root")
    return path


def compiler():
    for name in ("clang-19", "gcc", "cc"):
        if shutil.which(name):
            return name
    raise unittest.SkipTest("no C compiler for the test workload")


def image():
    """oci-archive of tests/workload, made once per change of its source."""
    source = TOP / "tests" / "workload" / "workload.c"
    target = CACHE / "workload.tar"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        rootfs = pathlib.Path(scratch) / "rootfs"
        for name in ("bin", "etc", "tmp", "data"):
            (rootfs / name).mkdir(parents=True)
        (rootfs / "tmp").chmod(0o1777)
        (rootfs / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nweb:x:1234:1235::/home/web:/bin/sh\n")
        (rootfs / "etc" / "group").write_text("root:x:0:\nweb:x:1235:\nextra:x:77:web\n")
        subprocess.run([compiler(), "-O1", "-static", "-D_GNU_SOURCE", "-o", rootfs / "bin" / "workload", source], check=True)
        partial = pathlib.Path(scratch) / "workload.tar"
        subprocess.run([TOP / "examples" / "make-oci", rootfs, partial, "--entrypoint", '["/bin/workload"]'], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.copy(partial, target)
    return target


def debian_image(name, packages, prepare, *options):
    """oci-archive of a minimal Debian with `packages`, cached under build/; `prepare(root)` changes it, `options` go to make-oci."""
    target = CACHE / (name + ".tar")
    if target.exists():
        return target
    if not shutil.which("mmdebstrap"):
        raise unittest.SkipTest("mmdebstrap is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    root = CACHE / (name + "-rootfs")
    subprocess.run(["rm", "-rf", str(root)], check=True)
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=" + packages, "bookworm", str(root)],
                          capture_output=True, text=True)
    if made.returncode != 0:
        raise unittest.SkipTest("mmdebstrap could not make a userland here: " + made.stderr[-300:])
    prepare(root)
    partial = CACHE / (name + ".partial")
    subprocess.run([TOP / "examples" / "make-oci", root, partial, *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(root)], check=True)
    partial.rename(target)
    return target


def objects(image_path=None, replicas=2, container="", template="", name="counter", memory="512Mi"):
    """SandboxConfig, pool and template as one file. `container` and `template`: more YAML lines for those places."""
    return f"""apiVersion: ate.dev/v1alpha1
kind: SandboxConfig
metadata: {{name: gvisor}}
spec:
  sandboxClass: gvisor
  default: true
  assets:
    runsc: {{path: {runsc()}}}
---
apiVersion: ate.dev/v1alpha1
kind: WorkerPool
metadata: {{name: small, labels: {{tier: small}}}}
spec:
  sandboxClass: gvisor
  replicas: {replicas}
  resources: {{limits: {{cpu: "1", memory: {memory}, pids: 4096}}}}
---
""" + template_text(image_path, container, template, name)


def template_text(image_path=None, container="", template="", name="counter"):
    return f"""apiVersion: ate.dev/v1alpha1
kind: ActorTemplate
metadata: {{name: {name}, atespace: default}}
spec:
  sandboxClass: gvisor
  workerSelector: {{tier: small}}
{template}  containers:
  - name: app
    image: oci-archive:{image_path or image()}
    env: [{{name: PORT, value: "8080"}}]
    ports: [{{name: http, containerPort: 8080}}]
    readyz: {{http: {{port: 8080, path: /readyz}}}}
{container}"""


PORTS = {"app": 8080, "helper": 8081, "side": 8082}


def three_text(name="three", more="", **containers):
    """A template of three containers, the last one a sidecar. `containers`: YAML lines in place of a container's gate."""
    text = f"""apiVersion: ate.dev/v1alpha1
kind: ActorTemplate
metadata: {{name: {name}, atespace: default}}
spec:
  sandboxClass: gvisor
  workerSelector: {{tier: small}}
{more}  containers:
"""
    for container, port in PORTS.items():
        gate = containers.get(container, f"    readyz: {{http: {{port: {port}, path: /readyz}}}}\n")
        text += f"""  - name: {container}
    image: oci-archive:{image()}
    env: [{{name: PORT, value: "{port}"}}, {{name: WHO, value: {container}}}]
{gate}"""
        if container == "side":
            text += "    sidecar: true\n"
    return text


class Case(unittest.TestCase):
    """One daemon per test, ready to make actors; what it left on the host is compared before and after."""

    spec = {}
    replicas = 2

    def setUp(self):
        self.daemon = ate.Daemon(spec=self.spec)
        self.addCleanup(self.daemon.close)
        self.daemon.write("objects.yaml", self.file())
        self.daemon.start()
        self.ready()

    def file(self):
        return objects(replicas=self.replicas)

    def ready(self):
        self.daemon.wait_ready()
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").status == 200, 30, "template counter")

    def unpacked(self):
        """Nothing of the image is on its way any more."""
        ate.wait_until(lambda: self.daemon.get("/v1/templates/counter").json["status"]["images"][0]["state"] == "Ready", 60, "image")

    def create(self, name="c1", template="counter", **spec):
        reply = self.daemon.request("POST", "/v1/actors", {"metadata": {"name": name}, "spec": {"template": {"name": template}, **spec}})
        self.assertEqual(reply.status, 201, reply)
        return reply.json

    def verb(self, name, verb, body=None, expect=200):
        reply = self.daemon.verb(name, verb, body)
        self.assertEqual(reply.status, expect, (verb, reply, self.daemon.log()[-3000:]))
        return reply.json

    def move(self, name, text, template="counter", limit=60):
        """The actor, which is SUSPENDED, to the generation of its template that the object file `text` makes; which."""
        before = self.daemon.get("/v1/templates/" + template).json["metadata"]["generation"]
        self.daemon.write("objects.yaml", text)
        ate.wait_until(lambda: self.daemon.get("/v1/templates/" + template).json["metadata"]["generation"] > before, limit,
                       "the next generation")
        moved = self.daemon.request("PATCH", "/v1/actors/" + name, {"spec": {"template": {"generation": 0}}})
        self.assertEqual(moved.status, 200, moved)
        self.assertEqual(moved.json["spec"]["template"]["generation"], before + 1)

    def proxy(self, name, path, method="GET", body=None, headers=None, expect=200):
        reply = self.daemon.request(method, f"/v1/actors/{name}/proxy/8080{path}", body, headers)
        self.assertEqual(reply.status, expect, (path, reply))
        return reply.body

    def count(self, name="c1"):
        return int(self.proxy(name, "/count"))

    def delete(self, name="c1", query=""):
        reply = self.daemon.request("DELETE", f"/v1/actors/{name}{query}")
        self.assertIn(reply.status, (200, 204), reply)

    def sandbox_processes(self):
        return [line for _, _, line in ate.processes_of(self.daemon.root, exclude=ate.own_pids(self.daemon.process))]

    def settled(self, before, timeout=2.0, ignore=()):
        """The exact diff against `before` is empty within `timeout` (kernel objects end asynchronously). A connection that was
        ending when `before` was looked at may be gone: of descriptors only what came counts."""
        last = []

        def same():
            changes = ate.diff({key: value for key, value in before.items() if key not in ignore}, self.daemon.seen())
            last[:] = [{key: (gone, came) for key, (gone, came) in changes.items() if came or key != "fds"}]
            return not last[0]

        try:
            ate.wait_until(same, timeout, "an empty diff")
        except TimeoutError:
            self.fail(f"left behind: {last[0]}")
