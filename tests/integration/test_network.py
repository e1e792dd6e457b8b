"""egress: nat and the DNS relay on real runsc. The daemon runs in a network namespace of the test, the world is another."""

import json
import os
import re
import unittest

import ate
import netlab
import scenario
import test_python_userland

# An actor that runs what it is sent: the tests say what it tries.
ACTOR = """
import http.server, socket, struct
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.reply(b"ok")
    def do_POST(self):
        scope = {"out": ""}
        try:
            exec(self.rfile.read(int(self.headers["Content-Length"])), scope)
        except Exception as error:
            scope["out"] = type(error).__name__ + ": " + str(error)
        self.reply(str(scope["out"]).encode())
    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""
FETCH = """
import socket
client = socket.create_connection(({0!r}, {1}), {2})
out = client.recv(100).decode()
"""
LOOK_UP = """
import socket
out = sorted({{entry[4][0] for entry in socket.getaddrinfo({0!r}, 80, 0, socket.SOCK_STREAM)}})
"""
ASK = """
import socket, struct
name = b"".join(bytes([len(label)]) + label.encode() for label in {0!r}.split(".")) + b"\\0"
query = struct.pack("!HHHHHH", 77, 256, 1, 0, 0, 0) + name + struct.pack("!HH", {1}, 1)
if {2}:
    s = socket.create_connection(("169.254.17.1", 53), 10)
    s.sendall(struct.pack("!H", len(query)) + query)
    size = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))[0]
    answer = s.recv(size, socket.MSG_WAITALL)
else:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.connect(("169.254.17.1", 53))
    s.send(query)
    answer = s.recv(65535)
ident, flags, questions, answers = struct.unpack("!HHHH", answer[:8])
out = "id %d tc %d rcode %d answers %d" % (ident, flags >> 9 & 1, flags & 15, answers)
"""


class Case(scenario.Case):
    network = {}

    def setUp(self):
        self.lab = netlab.Lab()
        self.addCleanup(self.lab.close)
        self.lab.serve(self.lab.world, (netlab.WORLD, 7777))
        self.resolv_conf = os.path.join("/tmp", f"ate-resolv-{os.getpid()}.conf")
        self.addCleanup(os.remove, self.resolv_conf)
        self.resolver("127.0.0.53")
        self.daemon = ate.Daemon(spec={"network": {"resolvConf": self.resolv_conf, **self.network}}, prefix=self.lab.host.prefix(),
                                 binary=os.environ.get("ATE_NODED_FAILPOINTS"))
        self.addCleanup(self.daemon.close)
        self.daemon.write("objects.yaml", self.file())
        self.armed = os.path.join(self.daemon.root, "failpoint")
        self.start()

    def start(self):
        self.daemon.start(env={"ATE_FAILPOINT": "@" + self.armed})
        self.ready()

    def resolver(self, address):
        with open(self.resolv_conf, "w", encoding="ascii") as file:
            file.write(f"nameserver {address}\n")

    def file(self):
        lines = "    command: [/usr/bin/python3]\n    args: [-c, %s]\n" % json.dumps(ACTOR)
        image = test_python_userland.userland()
        return (scenario.objects(image, container=lines, template="  egress: nat\n", replicas=3) + "---\n" +
                scenario.template_text(image, container=lines, name="closed"))

    def ask(self, code, name="c1"):
        reply = self.daemon.request("POST", f"/v1/actors/{name}/proxy/8080/", code)
        self.assertEqual(reply.status, 200, reply)
        return reply.body.decode()

    def fetch(self, host, port, name="c1", limit=10):
        return self.ask(FETCH.format(host, port, limit), name)

    def look_up(self, host, name="c1"):
        return self.ask(LOOK_UP.format(host), name)

    def uplinks(self):
        return [link for link in self.lab.host.links() if link.startswith("ate")]

    def tables(self):
        return sorted(self.lab.host.sh("nft list tables").split("\n")[:-1])

    def table(self):
        return next(line.split()[2] for line in self.tables() if "ate-noded" in line)


class Nat(Case):
    network = {"blocked": ["203.0.113.0/24"]}

    def test_the_world_is_reached_and_nothing_else(self):
        self.lab.serve(self.lab.host, (netlab.HOST, 7777))
        self.lab.serve(self.lab.world, ("169.254.169.254", 80))
        self.lab.serve(self.lab.world, ("203.0.113.9", 80))
        before = self.lab.host.links()
        self.create()
        self.create("c2")
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)  # masqueraded
        self.assertEqual(self.fetch(netlab.WORLD, 7777, "c2"), netlab.HOST)
        links = self.uplinks()
        self.assertEqual(len(links), 2)
        self.assertTrue(all(re.fullmatch("ate[0-9a-f]{12}", link) for link in links), links)
        addresses = re.findall(r"inet (198\.19\.\S+)/31", self.lab.host.sh("ip -4 addr"))
        self.assertEqual(len(set(addresses)), 2)
        inside = [address.rsplit(".", 1)[0] + "." + str(int(address.rsplit(".", 1)[1]) + 1) for address in addresses]
        for host, port in [(netlab.HOST, 7777), ("169.254.169.254", 80), ("203.0.113.9", 80), *((a, 8080) for a in addresses + inside)]:
            with self.subTest(host=host):
                said = self.fetch(host, port, limit=1)
                self.assertRegex(said, "TimeoutError|timed out|Error")
                self.assertNotIn(netlab.HOST, said)
        # Nor does the host reach into an actor by its uplink.
        self.assertEqual(self.lab.host.sh(f"timeout 1 bash -c 'echo > /dev/tcp/{inside[0]}/8080' && echo in || true"), "")
        self.verb("c2", "suspend")
        ate.wait_until(lambda: len(self.uplinks()) == 1, 10, "its link is gone")
        for _ in range(3):  # each with a link of its own, and in no case a name that is taken
            self.verb("c1", "suspend")
            self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)
        self.delete()
        self.delete("c2")
        ate.wait_until(lambda: self.lab.host.links() == before, 10, "no link left")
        self.assertEqual(len(self.tables()), 1)
        self.daemon.stop()
        self.assertEqual(self.tables(), [])

    def test_dns(self):
        local = self.lab.dns(self.lab.host, "127.0.0.53", {"a.example": "192.0.2.7"})
        other = self.lab.dns(self.lab.world, netlab.WORLD, {"a.example": "192.0.2.8"})
        # A host that lets nothing in, and its own table beside ours.
        self.lab.host.sh("nft -f -", text="table inet own {\n chain input {\n type filter hook input priority 0; policy drop;\n"
                                          "iifname lo accept\n ct state established,related accept\n }\n}\n")
        self.create()
        self.assertEqual(self.look_up("a.example"), "['192.0.2.7']")
        self.assertIn("gaierror", self.look_up("b.example"))
        self.assertEqual({kind for _, kind in local}, {1})  # AAAA is answered here
        self.assertEqual(self.ask(ASK.format("a.example", 28, False)), "id 77 tc 0 rcode 0 answers 0")
        self.assertEqual(self.ask(ASK.format("large", 1, False)), "id 77 tc 1 rcode 0 answers 0")
        self.assertEqual(self.ask(ASK.format("large", 1, True)), "id 77 tc 0 rcode 0 answers 100")
        self.assertEqual(self.ask(ASK.format("nowhere", 1, True)), "id 77 tc 0 rcode 3 answers 0")
        self.assertEqual(self.ask(ASK.format("a.example", 255, False)), "id 77 tc 0 rcode 4 answers 0")
        self.resolver(netlab.WORLD)
        ate.wait_until(lambda: self.look_up("a.example") == "['192.0.2.8']", 10, "the other resolver")
        self.assertTrue(other)
        self.resolver("127.0.0.99")  # nobody there: SERVFAIL, at once
        ate.wait_until(lambda: self.ask(ASK.format("a.example", 1, False)) == "id 77 tc 0 rcode 2 answers 0", 10, "SERVFAIL")
        self.resolver("127.0.0.53")
        ate.wait_until(lambda: self.look_up("a.example") == "['192.0.2.7']", 10, "the first again")
        flood = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('169.254.17.1', 53))\n" \
                "import os\nfor _ in range(20000):\n    s.send(os.urandom(40))\nout = 'sent'"
        self.assertEqual(self.ask(flood), "sent")
        ate.wait_until(lambda: self.look_up("a.example") == "['192.0.2.7']", 20, "served after a flood")
        self.assertIn("table inet own", self.tables())

    def test_without_egress_there_is_no_way_out_and_no_dns(self):
        self.lab.dns(self.lab.host, "127.0.0.53", {"a.example": "192.0.2.7"})
        self.create(template="closed")
        self.assertRegex(self.fetch(netlab.WORLD, 7777, limit=1), "Error")
        self.assertIn("gaierror", self.look_up("a.example"))
        self.assertRegex(self.ask(ASK.format("a.example", 1, False)), "Connection ?[Rr]efused")
        self.assertEqual((self.uplinks(), self.tables()), ([], []))

    def test_our_table_comes_back_and_others_are_left_alone(self):
        self.create()
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)
        name = self.table()
        whole = self.lab.host.sh("nft list table ip " + name)
        self.lab.host.sh("nft -f -", text="table ip theirs {\n chain x {\n counter\n }\n}\n")
        theirs = self.lab.host.sh("nft list table ip theirs")
        for harm in (f"nft delete table ip {name}", f"nft flush table ip {name}", f"nft flush chain ip {name} input",
                     f"nft add rule ip {name} input accept"):
            with self.subTest(harm=harm):
                self.lab.host.sh(harm)
                ate.wait_until(lambda: self.lab.host.sh("nft list table ip " + name, check=False) == whole, 10, "put back")
        self.assertEqual(self.lab.host.sh("nft list table ip theirs"), theirs)
        self.assertIn("it was put back", self.daemon.log())
        self.lab.host.sh("nft flush ruleset")
        ate.wait_until(lambda: self.lab.host.sh("nft list table ip " + name, check=False) == whole, 10, "put back")
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)

    def test_a_killed_daemon_and_every_failpoint_leave_nothing(self):
        before = self.lab.host.links()
        self.create()
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)
        self.daemon.kill9()
        self.assertEqual(len(self.uplinks()), 1)
        self.start()
        ate.wait_until(lambda: self.lab.host.links() == before, 10, "no link left")
        self.assertEqual(self.tables(), [])
        for point in ("egress-leased", "egress-rules", "egress-linked", "egress-removed"):
            for action in ("kill", "error"):
                with self.subTest(point=point, action=action):
                    self.verb("c1", "revert") if self.daemon.state("c1") in ("CRASHED", "RUNNING") else None
                    removal = point == "egress-removed"
                    if removal:
                        self.verb("c1", "resume")
                    with open(self.armed, "w", encoding="ascii") as file:
                        file.write(f"{point}={action}\n")
                    if action == "kill":
                        with self.assertRaises(Exception):  # the connection breaks, now or with the next call
                            self.daemon.verb("c1", "suspend" if removal else "resume")
                            ate.wait_until(lambda: self.daemon.process.poll() is not None and 1 / 0, 20)
                        self.assertEqual(self.daemon.wait_exit(), -9)
                        self.start()
                    elif removal:
                        self.verb("c1", "suspend")
                        ate.wait_until(lambda: not os.path.exists(self.armed), 10, "passed")
                    else:
                        self.assertGreaterEqual(self.daemon.verb("c1", "resume").status, 500)
                    ate.wait_until(lambda: self.lab.host.links() == before, 20, "no link left")
        self.verb("c1", "resume")
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)
        self.delete()
        ate.wait_until(lambda: self.lab.host.links() == before, 10, "no link left")


class Refused(Case):
    network = {"uplinks": "10.77.0.0/24"}  # the host's own network

    def egress(self):
        return next(check["detail"] for check in self.daemon.get("/readyz").json["checks"] if check["name"] == "egress")

    def restart(self, **network):
        self.daemon.stop()
        self.daemon.spec["network"].update(network)
        self.daemon.write_config()
        self.start()

    def refused(self):
        reply = self.daemon.verb("c1", "resume")
        self.assertEqual((reply.status, reply.problem), (503, "unavailable"), reply)
        self.assertEqual(self.daemon.state("c1"), "SUSPENDED")
        self.assertEqual(self.uplinks(), [])
        return reply.json["detail"]

    def test_what_hinders_is_told(self):
        self.create()
        self.create("c2", template="closed")
        self.assertIn("no uplink address is free in 10.77.0.0/24", self.refused())
        self.assertIn("range of the uplinks", self.egress())
        self.restart(uplinks="198.19.0.0/16", nft="/nowhere/nft")
        self.assertIn("install the package nftables", self.refused())
        self.assertIn("install the package nftables", self.egress())
        self.verb("c2", "resume")  # the rest works
        self.lab.host.sh("sysctl -qw net.ipv4.ip_forward=0")
        self.restart(nft="/usr/sbin/nft")
        self.assertIn("net.ipv4.ip_forward=1", self.refused())
        self.lab.host.sh("sysctl -qw net.ipv4.conf.w0.forwarding=1")  # enough
        self.verb("c1", "resume")
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)
        self.assertEqual(self.lab.host.sh("sysctl -n net.ipv4.ip_forward").strip(), "0")
        # A leased address that the host has a route to is passed over.
        self.lab.host.sh("ip route add 198.19.0.2/32 via " + netlab.WORLD)
        self.verb("c1", "suspend")
        self.lab.host.sh("nft -f -", text="table ip filter {\n chain FORWARD {\n type filter hook forward priority 0; policy drop;\n }\n}\n")
        self.restart()
        self.assertIn("chain ip filter FORWARD drops", self.egress())
        self.verb("c1", "resume")
        self.assertRegex(self.fetch(netlab.WORLD, 7777, limit=1), "Error")
        self.lab.host.sh('nft add rule ip filter FORWARD iifname "ate*" accept; '
                         'nft add rule ip filter FORWARD oifname "ate*" ct state established,related accept')
        self.assertEqual(self.fetch(netlab.WORLD, 7777), netlab.HOST)


if __name__ == "__main__":
    unittest.main(verbosity=2)
