"""PostgreSQL (Debian's package) on a durable volume: what it committed is there after every suspend of scope DATA and cold
start, and pg_amcheck finds nothing wrong with it."""

import hashlib
import shutil
import subprocess
import unittest

import ate
import scenario

CYCLES = 10
TRANSACTIONS = 100

# The actor's first process: starts the server on the volume, stops it in good order on SIGTERM, runs the client programs.
SUPERVISOR = '''
import http.server, os, signal, subprocess, sys, threading
BIN = "/usr/lib/postgresql/15/bin/"
DATA = "/data/pg"
if not os.path.exists(DATA + "/PG_VERSION"):
    subprocess.run([BIN + "initdb", "-D", DATA, "--data-checksums", "--locale=C.UTF-8", "-U", "postgres", "-A", "trust"],
                   check=True)
server = subprocess.Popen([BIN + "postgres", "-D", DATA, "-c", "listen_addresses=", "-k", "/tmp",
                           "-c", "unix_socket_directories=/tmp", "-c", "shared_buffers=32MB"])
def stop(*_):
    server.send_signal(signal.SIGINT)
signal.signal(signal.SIGTERM, stop)
COMMANDS = {
    "/readyz": [BIN + "pg_isready", "-h", "/tmp"],
    "/init": [BIN + "pgbench", "-h", "/tmp", "-U", "postgres", "-i", "-q", "postgres"],
    "/bench": [BIN + "pgbench", "-h", "/tmp", "-U", "postgres", "-n", "-c", "2", "-t", "%d", "postgres"],
    "/count": [BIN + "psql", "-h", "/tmp", "-U", "postgres", "-At", "-c", "select count(*) from pgbench_history"],
    "/sums": [BIN + "psql", "-h", "/tmp", "-U", "postgres", "-At", "-c",
              "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)"],
    "/check": [BIN + "pg_amcheck", "-h", "/tmp", "-U", "postgres", "--install-missing", "--heapallindexed", "postgres"],
}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        done = subprocess.run(COMMANDS[self.path], capture_output=True)
        body = done.stdout + done.stderr
        self.send_response(200 if done.returncode == 0 else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
threading.Thread(target=http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever, daemon=True).start()
sys.exit(server.wait())
''' % (TRANSACTIONS // 2)


def postgres():
    """oci-archive of Debian's postgresql with python3, cached under build/."""
    version = hashlib.sha256(SUPERVISOR.encode()).hexdigest()[:8]
    target = scenario.CACHE / f"postgres-{version}.tar"
    if target.exists():
        return target
    if not shutil.which("mmdebstrap"):
        raise unittest.SkipTest("mmdebstrap is not installed")
    scenario.CACHE.mkdir(parents=True, exist_ok=True)
    root = scenario.CACHE / "postgres-rootfs"
    subprocess.run(["rm", "-rf", str(root)], check=True)
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=postgresql-15,python3,libpython3-stdlib,dash",
                           "bookworm", str(root)], capture_output=True, text=True)
    if made.returncode != 0:
        raise unittest.SkipTest("mmdebstrap could not make a userland here: " + made.stderr[-300:])
    for unused in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/i18n", "usr/lib/llvm-14",
                   "usr/lib/postgresql/15/lib/bitcode"):
        subprocess.run(["rm", "-rf", str(root / unused)], check=True)
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\npostgres:x:100:101::/var/lib/postgresql:/bin/sh\n")
    (root / "etc" / "group").write_text("root:x:0:\npostgres:x:101:\n")
    if not (root / "bin" / "sh").exists():
        (root / "bin" / "sh").symlink_to("dash")
    (root / "tmp").chmod(0o1777)
    (root / "app").mkdir()
    (root / "app" / "supervisor.py").write_text(SUPERVISOR)
    partial = scenario.CACHE / "postgres.partial"
    subprocess.run([scenario.TOP / "examples" / "make-oci", root, partial, "--entrypoint", '["/usr/bin/python3"]',
                    "--cmd", '["/app/supervisor.py"]', "--user", "postgres"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(root)], check=True)
    partial.rename(target)
    return target


class Postgres(scenario.Case):

    def file(self):
        return scenario.objects(image_path=postgres(), memory="1Gi", template="""  volumes:
  - {name: data, durableDir: {size: 2Gi}}
  snapshots: {onSuspend: DATA}
  terminationGrace: 60s
""", container="    volumeMounts: [{name: data, mountPath: /data}]\n")

    def check(self):
        """pg_amcheck ended well and had nothing to say."""
        lines = self.proxy("c1", "/check").splitlines()
        self.assertEqual([line for line in lines if not line.startswith(b"NOTICE")], [])

    def test_ten_suspends_of_scope_data_lose_no_transaction(self):
        self.create()
        self.verb("c1", "resume")
        self.proxy("c1", "/init")
        for cycle in range(1, CYCLES + 1):
            self.proxy("c1", "/bench")
            suspended = self.verb("c1", "suspend")
            snapshot = self.daemon.get("/v1/snapshots/" + suspended["status"]["snapshot"]).json
            self.assertEqual(snapshot["scope"], "DATA")
            self.assertEqual(self.sandbox_processes(), [])
            self.verb("c1", "resume")
            self.assertEqual(self.daemon.actor("c1")["status"]["restoredFrom"], "data")
            self.assertEqual(int(self.proxy("c1", "/count")), cycle * TRANSACTIONS)
            self.check()
        self.assertEqual(self.proxy("c1", "/sums").strip(), b"t")

    def test_a_crash_and_a_full_snapshot_lose_nothing_committed(self):
        self.create()
        self.verb("c1", "resume")
        self.proxy("c1", "/init")
        self.proxy("c1", "/bench")
        self.verb("c1", "suspend", {"scope": "FULL"})
        self.assertEqual(int(self.proxy("c1", "/count")), TRANSACTIONS)  # woken, with its memory
        self.proxy("c1", "/bench")
        self.assertLess(self.daemon.verb("c1", "signal", {"signal": "KILL"}).status, 300)
        ate.wait_until(lambda: self.daemon.state("c1") in ("CRASHED", "EXITED"), 30, "an end by SIGKILL")
        self.verb("c1", "resume", {"boot": True})
        self.assertEqual(int(self.proxy("c1", "/count")), 2 * TRANSACTIONS)
        self.check()
        self.verb("c1", "revert")
        self.assertEqual(int(self.proxy("c1", "/count")), TRANSACTIONS)
        self.check()


if __name__ == "__main__":
    unittest.main(verbosity=2)
