"""A real Debian userland (mmdebstrap, python3) with a Python http.server counter, suspended and woken by a request 20 times."""

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


def prepare(root):
    (root / "app").mkdir()
    (root / "app" / "counter.py").write_text(SERVER)


def userland():
    return scenario.debian_image("python-userland", "python3,libpython3-stdlib", prepare, "--entrypoint", '["/usr/bin/python3"]',
                                 "--cmd", '["/app/counter.py"]', "--workdir", "/app")


class PythonUserland(scenario.Case):

    def file(self):
        return scenario.objects(image_path=userland(), memory="1Gi")

    def test_twenty_suspends_and_wakes_lose_no_count(self):
        self.unpacked()
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
