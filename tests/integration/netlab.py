"""Network namespaces of a test: a stand-in for the host, in which the daemon runs, and the world behind it. Nothing reaches the
machine's own network.

    lab = netlab.Lab(); lab.close()
    lab.host, lab.world: Netns with sh(), socket()
"""

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import threading

HOST, WORLD = "10.77.0.1", "10.77.0.2"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class Netns:
    """A namespace held by a process of its own, without a name anywhere."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"up\n"
        self.path = f"/proc/{self.holder.pid}/ns/net"

    def prefix(self):
        return ["nsenter", "--net=" + self.path]

    def sh(self, command, check=True, text=None):
        done = subprocess.run(self.prefix() + ["sh", "-c", command], input=text, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: {done.stderr}")
        return done.stdout

    def socket(self, kind, address):
        """A bound socket of this namespace. Sockets stay where they were made."""
        made = []

        def make():
            with open(self.path, "rb") as file:
                if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            one = socket.socket(socket.AF_INET, kind)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
            if kind == socket.SOCK_STREAM:
                one.listen(64)
            made.append(one)

        thread = threading.Thread(target=make)  # which ends in that namespace
        thread.start()
        thread.join()
        return made[0]

    def links(self):
        return sorted(line.split(": ")[1].split("@")[0] for line in self.sh("ip -o link").splitlines())

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()


class Lab:
    def __init__(self):
        self.closing = contextlib.ExitStack()
        self.host = Netns()
        self.closing.callback(self.host.close)
        self.world = Netns()
        self.closing.callback(self.world.close)
        self.host.sh(f"ip link add w0 type veth peer name h0 netns {self.world.holder.pid} && ip addr add {HOST}/24 dev w0 && "
                     f"ip link set w0 up && ip route add default via {WORLD} && sysctl -qw net.ipv4.ip_forward=1")
        self.world.sh(f"ip addr add {WORLD}/24 dev h0 && ip addr add 169.254.169.254/32 dev h0 && ip addr add 203.0.113.9/32 dev h0 && "
                      "ip link set h0 up")
        self.host.sh("ip route add 169.254.169.254/32 via " + WORLD)

    def serve(self, netns, address):
        """Tells everybody who connects what address they come from, until the lab closes."""
        listener = netns.socket(socket.SOCK_STREAM, address)
        self.run(lambda: self.greet(listener), listener)

    def greet(self, listener):
        client, peer = listener.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(peer[0].encode())

    def dns(self, netns, address, answers):
        """A name server: {name: address}; "large" is larger than a datagram may be. Returns the list of what was asked."""
        asked = []
        udp = netns.socket(socket.SOCK_DGRAM, (address, 53))
        tcp = netns.socket(socket.SOCK_STREAM, (address, 53))

        def one_datagram():
            query, peer = udp.recvfrom(4096)
            udp.sendto(dns_answer(query, answers, asked, 512), peer)

        def one_stream():
            client, _ = tcp.accept()
            with client, contextlib.suppress(OSError, struct.error):
                size, = struct.unpack("!H", client.recv(2, socket.MSG_WAITALL))
                answer = dns_answer(client.recv(size, socket.MSG_WAITALL), answers, asked, 65535)
                client.sendall(struct.pack("!H", len(answer)) + answer)

        self.run(one_datagram, udp)
        self.run(one_stream, tcp)
        return asked

    def run(self, step, sock):
        def work():
            with contextlib.suppress(OSError, IndexError):  # closed
                while True:
                    step()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()

        def end():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

        self.closing.callback(end)

    def close(self):
        self.closing.close()


def dns_answer(query, answers, asked, limit):
    end = 12
    labels = []
    while query[end]:
        labels.append(query[end + 1:end + 1 + query[end]].decode())
        end += 1 + query[end]
    name = ".".join(labels)
    kind, = struct.unpack("!H", query[end + 1:end + 3])
    asked.append((name, kind))
    question = query[12:end + 5]
    addresses = ["192.0.2.%d" % index for index in range(1, 101)] if name == "large" else [answers[name]] if name in answers else []
    records = b"".join(struct.pack("!HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(address)) for address in addresses)
    code = 0 if addresses else 3
    if 12 + len(question) + len(records) > limit:
        return query[:2] + struct.pack("!HHHHH", 0x8380, 1, 0, 0, 0) + question
    return query[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(addresses), 0, 0) + question + records
