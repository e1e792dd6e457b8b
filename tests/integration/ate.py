"""Drives a built ate-noded for integration tests; Python standard library only.

    with ate.Daemon() as daemon:              # own temporary directories, enforcement off
        daemon.write("gvisor.yaml", TEXT)     # into its /etc/ate
        daemon.start()                        # returns once /healthz answers
        daemon.wait_ready()
        reply = daemon.request("POST", "/v1/actors", {"metadata": {"name": "c1"}, ...})
        assert reply.status == 201, reply

The binary is `ATE_NODED` or the newest of build/*/ate-noded. Nothing outside the temporary directory is touched;
only processes started here are ended. Exit code 77 (`ate.skip(reason)`) means skipped.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POLL_SECONDS = 0.01
MAX_BODY = 1 << 30  # of one answer: one without end must fail a test, not take the machine's memory


def skip(reason):
    """Ends the test as skipped, with the reason."""
    print("SKIPPED: " + reason)
    sys.exit(77)


def find_binary():
    """The daemon under test: $ATE_NODED, else the newest build."""
    given = os.environ.get("ATE_NODED")
    if given:
        return os.path.abspath(given)
    build = os.path.join(TOP, "build")
    found = []
    if os.path.isdir(build):
        for name in os.listdir(build):
            path = os.path.join(build, name, "ate-noded")
            if os.access(path, os.X_OK):
                found.append((os.stat(path).st_mtime, path))
    if not found:
        skip("no build/*/ate-noded; set ATE_NODED")
    return max(found)[1]


def wait_until(condition, timeout=10.0, what="condition", pause=POLL_SECONDS):
    """Polls `condition` until it is true and returns its value; raises TimeoutError naming `what`."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError("%s: not within %.1f s" % (what, timeout))
        time.sleep(pause)  # lint: the one place that polls, until `deadline`


class Reply:
    """Status, headers and body of an answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def problem(self):
        """The slug of a problem document, or None."""
        if self.headers.get("Content-Type") != "application/problem+json":
            return None
        return self.json["type"].rsplit("/", 1)[1]

    def __repr__(self):
        return "Reply(%d, %r)" % (self.status, self.body[:2000])


class UnixConnection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("ate", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Client:
    """Calls over one unix socket; a new connection per call unless `connection` is given."""

    def __init__(self, path):
        self.path = path

    def connection(self, timeout=90.0):
        return UnixConnection(self.path, timeout)

    def open(self, method, path, body=None, headers=None, timeout=90.0):
        """Sends and returns (connection, response) with the body unread, for streams. Close the connection."""
        connection = self.connection(timeout)
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body=body, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def request(self, method, path, body=None, headers=None, timeout=90.0):
        connection, response = self.open(method, path, body, headers, timeout)
        with contextlib.closing(connection):
            body = response.read(MAX_BODY + 1)
            if len(body) > MAX_BODY:
                raise AssertionError(f"{method} {path}: a body without end")
            if response.length:  # read(amount) doesn't tell that a body was cut short, as read() does
                raise http.client.IncompleteRead(body, response.length)
            return Reply(response.status, response.headers, body)

    def raw(self, data, timeout=10.0):
        """Sends bytes as they are and returns what comes back until the other side closes."""
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as sock:
            sock.settimeout(timeout)
            sock.connect(self.path)
            sock.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := sock.recv(65536):
                    answer += chunk
            return answer

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def events(self, since=0):
        """All events after `since`, following the pages."""
        items = []
        while True:
            reply = self.get("/v1/events?since=%d&limit=1000" % since)
            assert reply.status == 200, reply
            page = reply.json["items"]
            items += page
            if not page:
                return items
            since = page[-1]["id"]


class Daemon(Client):
    """One daemon on temporary directories of its own; start() may be called again after stop() or kill9()."""

    def __init__(self, binary=None, spec=None, env=None, keep=False, prefix=()):
        """`spec`: members that replace those of the generated NodeConfig.spec; `env`: added to its environment."""
        self.binary = binary or find_binary()
        # Short on purpose: socket paths are at most 107 bytes.
        self.root = tempfile.mkdtemp(prefix="ate-")
        os.chmod(self.root, 0o755)
        super().__init__(os.path.join(self.root, "run", "noded.sock"))
        self.etc_dir = os.path.join(self.root, "etc")
        self.state_dir = os.path.join(self.root, "state")
        self.run_dir = os.path.join(self.root, "run")
        self.log_path = os.path.join(self.root, "noded.log")
        os.mkdir(self.etc_dir, 0o755)
        self.env = dict(env or {})
        self.keep = keep
        self.prefix = list(prefix)  # of its command line: where it runs (nsenter)
        self.process = None
        self.spec = {
            "stateDir": self.state_dir,
            "runDir": self.run_dir,
            "listen": {"socket": self.path, "mode": "0660", "group": "root"},
            "enforcement": "off",
            "logLevel": "debug",
        }
        self.spec.update(spec or {})
        self.write_config()

    @property
    def cgroup(self):
        """Where its workers live: a path with enforcement, else a name below every cgroup2 mount."""
        if self.spec["enforcement"] == "off":
            return private_cgroup_name(self.spec["stateDir"])
        return self.spec["cgroupRoot"]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            sys.stderr.write("---- noded.log ----\n" + self.log()[-20000:] + "\n----\n")
        self.close()

    # Files.

    def write_config(self):
        # JSON is YAML.
        self.write("noded.yaml", json.dumps(
            {"apiVersion": "ate.dev/v1alpha1", "kind": "NodeConfig", "spec": self.spec}, indent=1))

    def write(self, name, text):
        """Puts an object file into the daemon's /etc/ate, atomically."""
        path = os.path.join(self.etc_dir, name)
        temporary = os.path.join(self.root, ".write-" + name)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.rename(temporary, path)
        return path

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    # Life.

    @property
    def pid(self):
        return self.process.pid

    def command(self, *arguments):
        return [*self.prefix, self.binary, "--config", os.path.join(self.etc_dir, "noded.yaml"), "--config-dir", self.etc_dir, *arguments]

    def spawn(self, *arguments, env=None):
        """Starts it without waiting for anything."""
        environment = {**os.environ, **self.env, **(env or {})}
        environment.pop("JOURNAL_STREAM", None)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(*arguments), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        return self

    def start(self, *arguments, env=None, timeout=10.0):
        """Starts it and waits until /healthz answers 200; returns the seconds that took."""
        begin = time.monotonic()
        self.spawn(*arguments, env=env)
        wait_until(self.healthy, timeout, "healthz")
        return time.monotonic() - begin

    def healthy(self):
        code = self.process.poll()
        if code is not None:
            raise RuntimeError("ate-noded ended with %d:\n%s" % (code, self.log()[-4000:]))
        try:
            return self.get("/healthz", timeout=5.0).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_ready(self, timeout=60.0):
        """Waits until /readyz answers 200."""
        last = []

        def ready():
            reply = self.get("/readyz", timeout=5.0)
            last[:] = [reply]
            return reply.status == 200

        try:
            wait_until(ready, timeout, "readyz")
        except TimeoutError as error:
            raise TimeoutError("%s: %r" % (error, last)) from None

    def stop(self, timeout=10.0):
        """SIGTERM; returns (exit code, seconds). What runs in it is left alone."""
        if self.process is None:
            return None
        begin = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self.process = None
        return code, time.monotonic() - begin

    def kill9(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def wait_exit(self, timeout=30.0):
        """Waits until it ended by itself (a failpoint); returns its exit code (-9 = SIGKILL)."""
        code = self.process.wait(timeout)
        self.process = None
        return code

    def close(self):
        """Ends the daemon and everything below its directories, then removes them."""
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill9()
        if self.keep:
            return
        for pid, start, _ in processes_of(self.root):
            kill_exact(pid, start)
        wait_until(lambda: not processes_of(self.root), 5.0, "end of leftover processes")
        remove_cgroups(self.cgroup)
        for target in sorted(mounts_under(self.root), key=len, reverse=True):
            subprocess.run(["umount", "-l", target], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.root, ignore_errors=True)

    # Shorthands.

    def actor(self, name):
        reply = self.get("/v1/actors/" + name)
        assert reply.status == 200, reply
        return reply.json

    def state(self, name):
        return self.actor(name)["status"]["state"]

    def verb(self, name, verb, body=None, headers=None, timeout=90.0):
        return self.request("POST", "/v1/actors/%s/%s" % (name, verb), body, headers, timeout)

    def wait_state(self, name, state, timeout=30.0):
        return wait_until(lambda: self.actor(name)["status"]["state"] == state, timeout, "%s %s" % (name, state))

    def rss_bytes(self):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")

    def seen(self):
        """Everything on the host that belongs to this daemon; compare two with diff()."""
        return {
            "processes": {command for _, _, command in processes_of(self.root, exclude=own_pids(self.process))},
            "mounts": sorted(without_ids(mounts_under(self.root))),
            "netns": sorted(without_ids(network_namespaces(self.root))),
            "links": set(os.listdir("/sys/class/net")),
            "cgroups": cgroup_directories(self.cgroup),
            "files": sorted(without_ids(files_under(self.root))),
            "fds": descriptors_of(self.process),
        }


def own_pids(process):
    return {os.getpid()} | ({process.pid} if process else set())


def read_proc(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def start_time(pid):
    stat = read_proc(pid, "stat")
    return int(stat.rsplit(b")", 1)[1].split()[19]) if stat else 0


def processes_of(root, exclude=frozenset()):
    """(pid, start time, command line) of live processes whose command line or directory names `root`."""
    found = []
    needle = root.encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in exclude:
            continue
        pid = int(entry)
        command = read_proc(pid, "cmdline")
        try:
            directory = os.readlink("/proc/%d/cwd" % pid).encode()
        except OSError:
            directory = b""
        if pid == os.getpid() or not (needle in command or directory.startswith(needle)):
            continue
        found.append((pid, start_time(pid), command.replace(b"\0", b" ").decode(errors="replace").strip()))
    return found


def kill_exact(pid, start):
    """SIGKILL, only if that pid is still the process that was seen."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if start_time(pid) == start:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def mounts_under(root):
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            target = line.split()[4]
            if target == root or target.startswith(root + "/"):
                found.append(target)
    return found


def without_ids(paths):
    """Namespaces made ahead have random names: what must stay the same is how many there are."""
    return [re.sub(r"/netns/[0-9a-f]{8}\b", "/netns/*", path) for path in paths]


def network_namespaces(root):
    """Network namespaces kept alive by a mount below `root` or by a process of it, beside our own."""
    own = os.readlink("/proc/self/ns/net")
    found = set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split()
            if fields[3].startswith("net:[") and fields[4].startswith(root + "/"):
                found.add(fields[4])
    for pid, _, command in processes_of(root):
        with contextlib.suppress(OSError):
            if os.readlink("/proc/%d/ns/net" % pid) != own:
                found.add("process " + command)
    return found


def private_cgroup_name(state_dir):
    """As src/daemon/host.cpp names our directory with enforcement off: the hierarchy is shared by the whole host."""
    value = 2166136261
    for byte in state_dir.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return "ate-%08x" % value


def cgroup_mounts():
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            left, right = line.split(" - ", 1)
            if right.split()[0] == "cgroup2":
                found.append(left.split()[4])
    return found


def cgroup_trees(name):
    """Where the directory `name` is seen: through every mount of the one hierarchy, or at `name` when it is a path."""
    return {os.path.join(mount, name) for mount in cgroup_mounts() + ["/"]}


def cgroup_directories(name):
    """Paths below `name` of all cgroups in it, `name` included."""
    return {os.path.join(name, os.path.relpath(directory, top))
            for top in cgroup_trees(name) for directory, _, _ in os.walk(top)}


def remove_cgroups(name):
    for top in cgroup_trees(name):
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def files_under(root):
    """Relative paths of everything below `root` but the log, SQLite's own side files and what a cgroup2 mount shows: the whole
    host's hierarchy."""
    skip_names = {"noded.log", "state.db-wal", "state.db-shm"}
    found = set()
    hierarchies = set(cgroup_mounts())
    for directory, directories, names in os.walk(root):
        if directory in hierarchies:
            directories.clear()
            continue
        for name in directories + names:
            if name not in skip_names:
                found.add(os.path.relpath(os.path.join(directory, name), root))
    return found


def descriptors_of(process):
    """What the daemon holds open: targets, with numbers of pipes and sockets left out."""
    found = []
    if process is not None:
        base = "/proc/%d/fd" % process.pid
        for entry in os.listdir(base):
            with contextlib.suppress(OSError):
                target = os.readlink(os.path.join(base, entry))
                found.append(target.split(":[")[0] if ":[" in target else target)
    return sorted(found)


def diff(before, after):
    """{category: (gone, new)} of two seen(); empty when they are equal."""
    changes = {}
    for key, old in before.items():
        new = after[key]
        if isinstance(old, set):
            gone, came = sorted(old - new), sorted(new - old)
        else:
            gone, came = subtract(old, new), subtract(new, old)
        if gone or came:
            changes[key] = (gone, came)
    return changes


def subtract(left, right):
    rest = list(left)
    for item in right:
        if item in rest:
            rest.remove(item)
    return rest
