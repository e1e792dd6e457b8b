"""A real Debian userland (mmdebstrap, python3) with a Python http.server counter, suspended and woken by a request 20 times."""

import shutil
import subprocess
import unittest

import scenario

SERVER = '''
import http.server
count = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global count
        if self.path != "/readyz":
            count += 1
        body = str(count).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
'''


def userland():
    """oci-archive of a minimal Debian with python3, cached under build/."""
    target = scenario.CACHE / "python-userland.tar"
    if target.exists():
        return target
    if not shutil.which("mmdebstrap"):
        raise unittest.SkipTest("mmdebstrap is not installed")
    scenario.CACHE.mkdir(parents=True, exist_ok=True)
    root = scenario.CACHE / "python-rootfs"
    subprocess.run(["rm", "-rf", str(root)], check=True)
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=python3,libpython3-stdlib", "bookworm", str(root)],
                          capture_output=True, text=True)
    if made.returncode != 0:
        raise unittest.SkipTest("mmdebstrap could not make a userland here: " + made.stderr[-300:])
    (root / "app").mkdir()
    (root / "app" / "counter.py").write_text(SERVER)
    partial = scenario.CACHE / "python-userland.partial"
    subprocess.run([scenario.TOP / "examples" / "make-oci", root, partial, "--entrypoint", '["/usr/bin/python3"]',
                    "--cmd", '["/app/counter.py"]', "--workdir", "/app"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(root)], check=True)
    partial.rename(target)
    return target


class PythonUserland(scenario.Case):

    def file(self):
        return scenario.objects(image_path=userland(), memory="1Gi")

    def test_twenty_suspends_and_wakes_lose_no_count(self):
        before = self.daemon.seen()
        self.create()
        for expected in range(1, 22):
            self.assertEqual(self.count(), expected)
            self.verb("c1", "suspend")
            self.assertEqual(self.sandbox_processes(), [])
        self.delete()
        self.settled(before, ignore=("files",))


if __name__ == "__main__":
    unittest.main(verbosity=2)
