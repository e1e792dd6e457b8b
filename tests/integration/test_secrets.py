"""env.valueFrom.file: the value reaches the process, and nothing else that the daemon writes or answers."""

import os
import stat

import ate
import scenario

CANARY = "canary-7b1f9c0e5a"


class Secrets(scenario.Case):
    def setUp(self):
        self.daemon = ate.Daemon()
        self.addCleanup(self.daemon.close)
        self.secrets = os.path.join(self.daemon.etc_dir, "secrets")
        os.mkdir(self.secrets, 0o700)
        self.daemon.spec["secretsDir"] = self.secrets
        self.daemon.write_config()
        self.token = os.path.join(self.secrets, "token")
        self.put(CANARY + "\n")
        self.daemon.write("objects.yaml", self.file())
        self.daemon.start()
        self.ready()

    def file(self):
        text = scenario.objects()
        return text.replace('env: [{name: PORT, value: "8080"}]',
                            f'env: [{{name: PORT, value: "8080"}}, {{name: TOKEN, valueFrom: {{file: {self.token}}}}}]')

    def put(self, text, mode=0o600, path=None):
        path = path or self.token
        with open(path, "w", encoding="latin-1") as file:
            file.write(text)
        os.chmod(path, mode)

    def token_of(self, name="c1"):
        return self.proxy(name, "/env?name=TOKEN").decode().rstrip("\n")

    def files_with(self, text):
        """(path, mode) of every file below the daemon's directories that holds it, the secret itself left out."""
        found = []
        for top in (self.daemon.state_dir, self.daemon.run_dir, self.daemon.etc_dir, self.daemon.log_path):
            for directory, _, names in os.walk(top) if os.path.isdir(top) else [(os.path.dirname(top), [], [os.path.basename(top)])]:
                for name in names:
                    path = os.path.join(directory, name)
                    if not os.path.isfile(path) or os.path.islink(path) or path == self.token:
                        continue
                    try:
                        with open(path, "rb") as file:
                            data = file.read()
                    except OSError:
                        continue  # the handle of a network namespace
                    if text.encode() in data:
                        found.append(path)
        return found

    def closed(self, path):
        """Nobody but root gets at it: the file, or a directory above it, is closed to group and others."""
        while path != self.daemon.root:
            if not stat.S_IMODE(os.stat(path).st_mode) & 0o077:
                return True
            path = os.path.dirname(path)
        return False

    def answers(self):
        """Everything there is to read about c1."""
        snapshots = [item["id"] for item in self.daemon.get("/v1/snapshots").json["items"]]
        paths = ["/v1/templates", "/v1/templates/counter", "/v1/actors", "/v1/actors/c1", "/v1/operations", "/v1/events?since=0&limit=1000",
                 "/v1/files", "/v1/workers", "/v1/snapshots", "/v1/actors/c1/snapshots", "/v1/actors/c1/logs", "/v1/pools", "/readyz",
                 *("/v1/snapshots/" + each for each in snapshots)]
        return {path: self.daemon.get(path).body for path in paths}

    def nowhere_to_be_read(self):
        for path, body in self.answers().items():
            self.assertNotIn(CANARY.encode(), body, path)
        self.assertNotIn(CANARY, self.daemon.log())
        for _, _, command in ate.processes_of(self.daemon.root):
            self.assertNotIn(CANARY, command)
        for path in self.files_with(CANARY):
            self.assertTrue(self.closed(path), path)
            relative = os.path.relpath(path, self.daemon.root)
            self.assertTrue(relative.startswith(("run/actors/", "state/snapshots/", "state/actors/")), relative)
            self.assertNotIn("/logs/", relative)

    def test_the_value_is_in_the_process_and_nowhere_to_be_read(self):
        self.create()
        self.verb("c1", "resume")
        self.assertEqual(self.token_of(), CANARY)
        self.nowhere_to_be_read()
        shown = self.daemon.get("/v1/templates/counter").json["spec"]["containers"][0]["env"]
        self.assertEqual(shown[1], {"name": "TOKEN", "valueFrom": {"file": self.token}})
        self.verb("c1", "suspend")
        self.nowhere_to_be_read()
        self.assertTrue([path for path in self.files_with(CANARY) if path.endswith("manifest.json")], "the restore needs the spec")
        # A restore goes on with the old value, a cold start takes the new one.
        self.put("second")
        self.verb("c1", "resume")
        self.assertEqual(self.token_of(), CANARY)
        self.verb("c1", "revert")
        self.verb("c1", "resume", {"boot": True})
        self.assertEqual(self.token_of(), "second")
        self.nowhere_to_be_read()
        # No secret file is needed to wake what has it in memory.
        self.verb("c1", "suspend")
        os.unlink(self.token)
        self.verb("c1", "resume")
        self.assertEqual(self.token_of(), "second")

    def test_files_that_are_no_secrets_are_refused_with_the_reason(self):
        self.create()
        elsewhere = os.path.join(self.daemon.root, "elsewhere")
        self.put(CANARY, path=elsewhere)

        def refused(reason):
            reply = self.daemon.verb("c1", "resume")
            self.assertEqual((reply.status, reply.problem), (422, "secret-unusable"), reply)
            self.assertIn(reason, reply.json["detail"])
            self.assertEqual(reply.json["field"], "spec.containers[0].env[1].valueFrom.file")
            self.assertNotIn(CANARY.encode(), reply.body)
            self.assertEqual(self.daemon.state("c1"), "SUSPENDED")

        for mode in (0o644, 0o620, 0o602, 0o604):
            self.put(CANARY, mode)
            refused("chmod 0600")
        self.put(CANARY)
        os.chown(self.token, 12345, 0)
        refused("uid 12345")
        os.chown(self.token, 0, 0)
        self.put("x" * 65537)
        refused("65536 bytes")
        self.put(CANARY + "\0")
        refused("NUL byte")
        os.unlink(self.token)
        refused("can't be read")
        os.symlink(elsewhere, self.token)
        refused("symbolic link")
        os.unlink(self.token)
        os.mkdir(self.token)
        refused("not a regular file")
        os.rmdir(self.token)
        os.mkfifo(self.token, 0o600)
        refused("not a regular file")
        os.unlink(self.token)
        self.put(CANARY)
        os.chmod(self.secrets, 0o777)
        refused("directory that others")
        os.chmod(self.secrets, 0o700)
        self.put("y" * 65536)
        self.verb("c1", "resume")

    def test_a_template_can_not_name_a_file_elsewhere(self):
        for number, path in enumerate(("/etc/shadow", self.secrets + "/../noded.yaml", self.secrets)):
            body = {"spec": {"sandboxClass": "gvisor", "containers": [
                {"name": "app", "image": f"oci-archive:{scenario.image()}", "env": [{"name": "X", "valueFrom": {"file": path}}]}]}}
            put = self.daemon.request("PUT", f"/v1/templates/t{number}", body)
            if put.status == 422:
                continue  # no clean path
            self.assertIn(put.status, (200, 201), put)
            self.create(f"a{number}", f"t{number}")
            reply = self.daemon.verb(f"a{number}", "resume")
            self.assertEqual((reply.status, reply.problem), (422, "secret-unusable"), (path, reply))
            self.assertIn("is not below", reply.json["detail"])


if __name__ == "__main__":
    scenario.unittest.main(verbosity=2)
