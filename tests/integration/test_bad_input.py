"""Bad input for every field of every kind and for every endpoint: a problem document that says where, nothing lost, others served, never
a 500. Needs root, no runsc."""

import copy
import http.client
import json
import os
import re
import unittest

import ate

OBJECT = {"apiVersion": "ate.dev/v1alpha1"}
LIMITS = {"limits": {"cpu": "1", "memory": "1Gi", "pids": 512}}
META = {"name": "t", "labels": {"a": "b"}, "annotations": {"c": "d"}}
DOCUMENTS = {
    "/v1/templates/t": {**OBJECT, "kind": "ActorTemplate", "metadata": {**META, "atespace": "default"}, "spec": {
        "sandboxClass": "gvisor", "workerSelector": {"tier": "small"},
        "containers": [{"name": "app", "image": "oci-archive:/nowhere.tar", "command": ["/a"], "args": ["b"],
                        "env": [{"name": "PORT", "value": "8080"}], "workingDir": "/app",
                        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                        "readyz": {"http": {"port": 8080, "path": "/r"}, "periodMs": 50, "timeout": "30s"},
                        "volumeMounts": [{"name": "info", "mountPath": "/run/ate", "readOnly": True}]}],
        "volumes": [{"name": "info", "systemInfo": {}}], "snapshots": {"onPause": "FULL", "onSuspend": "FULL"},
        "idle": {"after": "10m", "action": "suspend"}, "restartPolicy": "Never", "onHostReboot": "none", "egress": "none",
        "terminationGrace": "10s"}},
    "/v1/pools/t": {**OBJECT, "kind": "WorkerPool", "metadata": META, "spec": {
        "sandboxClass": "gvisor", "sandboxConfig": "gvisor", "replicas": 2, "resources": LIMITS}},
    "/v1/sandbox-configs/t": {**OBJECT, "kind": "SandboxConfig", "metadata": META, "spec": {
        "sandboxClass": "gvisor", "default": False, "gvisor": {"platform": "systrap"},
        "assets": {"runsc": {"path": "/nowhere", "sha256": "sha256:" + "0" * 64}}}},
    "/v1/actors": {**OBJECT, "kind": "Actor", "metadata": {**META, "atespace": "default"}, "spec": {
        "template": {"name": "none", "generation": 1}, "restartPolicy": "Never", "idle": {"after": "10m", "action": "suspend"}}},
    None: {**OBJECT, "kind": "NodeConfig", "spec": {
        "stateDir": "/a", "runDir": "/b", "listen": {"socket": "/run/x", "mode": "0660", "group": "root"}, "enforcement": "off",
        "cgroupRoot": "/x", "uidRange": {"start": 2000000000, "count": 65536}, "sizing": {"requireActorLimits": False},
        "hostReserve": {"memory": "1Gi"}, "overhead": {"gvisor": {"fixed": "72Mi", "perVcpu": 0, "percent": 0}},
        "operationWait": "60s", "logLevel": "info", "diskReserve": "1Gi",
        "network": {"uplinks": "198.19.0.0/16", "blocked": ["10.0.0.0/8"], "nft": "/usr/sbin/nft", "resolvConf": "/etc/resolv.conf"}}},
}
VALUES = [None, True, 0, -1, 1.5, 2**63, -2**63 - 1, 1e308, "", "x" * 63, "x" * 64, "x" * 100000, "..", "a/../b", "a\0b", "\u00fc",
          "1e3", "512MB", "-1", [], {}, [[]], [{}], [None], {"": ""}, {"k" * 5000: "y" * 70000}, ["a", "a"], "/dev/zero", "-5s", "\n"]

JSON_BODIES = [b"", b" ", b"null", b"1", b"[]", b"{} x", b"{}{}", b'{"spec":{},"spec":{}}', b'{"spec":\0}', b'{"metadata":{"name":"\xff"}}',
               b'{"metadata":{"annotations":{"a":"\\ud800"}}}', b"\xef\xbb\xbf{}", b"[" * 100000, b'{"a":' * 100000,
               b'{"spec":{"replicas":' + b"9" * 100000 + b"}}", json.dumps({"k%d" % i: 1 for i in range(40000)}).encode(), b"{'a':1}",
               b'{"kind":"Actor"}', b'{"apiVersion":"v9"}', b'{"metadata":{"name":"other"}}', b'{"status":{}}', b'{"bogus":1}']
YAML_BODIES = ["a: &x 1\nb: *x\n", "a:\n\tb: 1\n", "---\n" * 50000, "a: 1\n---\n" * 40000, "a: \0\n", "a: !!str x\n", "a: " + "[" * 5000, "a: 1\rb: 2\r",
               "kind: X\nkind: Y\n", "- a\n", "hello", "%YAML 1.2\n---\na: 1\n", "? [a]\n: b\n", "a" * 900000, "kind: " + "b" * 900000]
NAMES = ["..", "%2e%2e", "a%2fb", "%00", "%ff", "a" * 64, "a" * 3000, "A", "-", "a-", "%20", "*", "%zz", "a%0ab", "9223372036854775808", "'"]
QUERIES = ["x=1", "limit=0", "limit=1001", "limit=abc", "limit=1&limit=2", "limit=9223372036854775808", "pageToken=zz", "pageToken=ate1zz",
           "since=-1", "since=9223372036854775808", "follow=maybe", "wait=301", "tail=-1", "atespace=..", "state=FOO", "label=%ff", "=1", "%=1"]
HEADERS = ['If-Match: x', 'If-Match: "', 'If-Match: W/"1"', 'If-Match: "1", "2"', "If-None-Match: x", "Content-Type: text/plain", "Content-Type: ;;;",
           "Transfer-Encoding: gzip, chunked", "Content-Length: -1", "Content-Length: 99999999999999999999", "Expect: foo", "Host: b", "X-A : b", "X-A: \0"]


def paths(document, prefix=()):
    yield prefix
    items = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in items:
        yield from paths(value, prefix + (key,))


def replaced(document, path, value):
    if not path:
        return value
    document = copy.deepcopy(document)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


class BadInput(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.daemon = ate.Daemon()
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.daemon.wait_ready()
        self.connection = self.daemon.connection(30)
        self.addCleanup(lambda: self.connection.close())
        base = {"spec": {"sandboxClass": "gvisor", "resources": LIMITS}}
        self.assertEqual(self.daemon.request("PUT", "/v1/pools/base", base).status, 201)
        self.tag = self.daemon.get("/v1/pools/base").headers["ETag"]

    def tearDown(self):
        kept = self.daemon.get("/v1/pools/base")
        self.assertEqual((kept.status, kept.headers["ETag"]), (200, self.tag))
        self.assertLess(self.daemon.rss_bytes(), 96 << 20)

    def send(self, method, path, body, kind="application/json"):
        body = body.encode() if isinstance(body, str) else body
        self.connection.request(method, path, body=body, headers={"Content-Type": kind})
        response = self.connection.getresponse()
        return ate.Reply(response.status, response.headers, response.read())

    def judge(self, reply, what):
        """Taken, or refused with a document that is small and says what is wrong."""
        self.assertLess(reply.status, 500, (what, reply))
        if reply.status >= 400:
            self.assertIsNotNone(reply.problem, (what, reply))
            self.assertLess(len(reply.body), 64 << 10, what)
            self.assertTrue(reply.json["detail"], what)

    def test_every_field_of_every_kind(self):
        for url, document in DOCUMENTS.items():
            for path in paths(document):
                for value in VALUES:
                    body = json.dumps(replaced(document, path, value))
                    what = (document["kind"], path, repr(value)[:60])
                    checked = self.send("POST", "/v1/validate", body)
                    self.judge(checked, what)
                    if checked.status == 422:
                        self.assertTrue(checked.json["field"], what)
                        self.assertTrue(checked.json["line"], what)
                    if url is not None:
                        made = self.send("POST" if url == "/v1/actors" else "PUT", url, body)
                        self.judge(made, what)
                        if checked.status >= 400 and document["kind"] != "Actor" and path[:1] == ("spec",):
                            self.assertGreaterEqual(made.status, 400, what)

    def test_bodies(self):
        for body in JSON_BODIES:
            for method, path in (("PUT", "/v1/pools/t"), ("POST", "/v1/actors"), ("PATCH", "/v1/actors/none"), ("POST", "/v1/validate")):
                reply = self.send(method, path, body)
                self.judge(reply, (path, body[:60]))
                self.assertGreaterEqual(reply.status, 400, (path, body[:60]))
        for body in YAML_BODIES:
            reply = self.send("POST", "/v1/validate", body, "application/yaml")
            self.judge(reply, body[:60])
            self.assertGreaterEqual(reply.status, 400, body[:60])
        self.assertEqual(self.daemon.request("PUT", "/v1/pools/t", b"x" * ((1 << 20) + 1)).status, 413)

    def raw(self, method, target, header=""):
        request = f"{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}\r\n"
        answer = self.daemon.raw(request.encode("latin1"))
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 "), (method, target[:60], header, answer))
        status = int(head.split(b" ")[1])
        self.assertLess(status, 500, (method, target[:60], header, answer))
        if status >= 400 and method != "HEAD":
            self.assertIn(b"application/problem+json", head, (method, target[:60]))
            json.loads(body)
        return status

    # case T57
    def test_every_endpoint(self):
        served = self.daemon.get("/v1/openapi.json").json["paths"]
        for path in served:
            for name in NAMES if "{" in path else [""]:
                for method in ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO"):
                    self.raw(method, re.sub(r"\{[^}]*\}", lambda _, n=name: n, path))
        for path, item in served.items():
            for query in QUERIES if "get" in item else ():
                self.raw("GET", re.sub(r"\{[^}]*\}", "base", path) + "?" + query)
        for header in HEADERS:
            self.assertIn(self.raw("PUT", "/v1/pools/base", header + "\r\n"), (400, 412, 413, 415), header)


if __name__ == "__main__":
    unittest.main()
