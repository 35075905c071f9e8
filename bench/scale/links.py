"""Hosts joined by links with a rate and a delay."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "faults"))
import hosts  # noqa: E402

RELAY_MTU = 32000
_PLAIN = """
import socket, sys, threading, time
size, serves = int(sys.argv[1]), len(sys.argv) == 2
if serves:
    listening = socket.create_server(("", 5000))
    print("ready", flush=True)
    peer = listening.accept()[0]
else:
    peer = socket.create_connection((sys.argv[2], 5000))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
trip, rate, buffer = 9.0, 0.0, bytearray(1 << 20)
for _ in range(20):
    begin = time.perf_counter()
    if serves:
        peer.sendall(peer.recv(1))
    else:
        peer.sendall(b"x")
        peer.recv(1)
        trip = min(trip, time.perf_counter() - begin)
for _ in range(5):
    begin, left = time.perf_counter(), size
    sends = threading.Thread(target=peer.sendall, args=(bytes(size),))
    sends.start()
    while left > 0:
        left -= peer.recv_into(buffer, min(left, len(buffer)))
    sends.join()
    rate = max(rate, size / (time.perf_counter() - begin))
print(rate, trip)
"""


class Links(hosts.Hosts):
    """`rate` in bits a second, `delay` in seconds, one way. Without a delay the kernel's tbf shapes
    the rate, and a message takes what the kernel takes, about 0.05 ms. With one, relay.py does
    both."""

    def __init__(self, count, folder, rate=None, delay=0.0):
        super().__init__(count, folder, rate if not delay else None, wired=not delay)
        if delay:
            self._relay(rate, delay)

    def measure(self, size=12500000):
        """Plain sockets between hosts 0 and 1: bytes a second in each direction while both send,
        the best of five, and the seconds of a round trip."""
        program = [sys.executable, "-c", _PLAIN, str(size)]
        with subprocess.Popen(self.command(1, program), stdout=subprocess.PIPE,
                              text=True) as server:
            server.stdout.readline()
            done = subprocess.run(self.command(0, [*program, self.address(1)]), check=True,
                                  text=True, stdout=subprocess.PIPE)
        return [float(number) for number in done.stdout.split()]

    def _relay(self, rate, delay):
        processes = [str(process.pid) for process in self.processes[1:]]
        self.processes.append(subprocess.Popen(
            [sys.executable, HERE / "relay.py", str(rate or 1e12), str(delay), *processes],
            stdout=subprocess.PIPE, text=True))
        if self.processes[-1].stdout.readline() != "ready\n":
            raise OSError("relay.py cannot make tun interfaces")
        for i, host in enumerate(self.hosts):
            for arguments in (["addr", "add", f"{self.address(i)}/24", "dev", "eth0"],
                              ["link", "set", "eth0", "up", "mtu", str(RELAY_MTU)]):
                subprocess.run([*host, "ip", *arguments], check=True)
