"""Rude clients of `serve`: after each, a good request must have the answer it had at first."""
import json
import socket
import time

from common import start, stop

BODY = json.dumps({"inputs": [{"name": "data", "shape": [1, 1, 28, 28], "datatype": "FP32",
                               "data": [0.5] * 784}]}).encode()
PATH = b"/v2/models/m/infer"
MOST_MEMORY = 600 << 20


class Server:
    """`serve` with one model on a free port of this machine."""

    def __init__(self, world, env=None):
        self.log = open(world.work / "serve.log", "w+b")
        self.process = start(
            world.command("serve", f"--model={world.whole}/m.crema", "--port=0", "--grpc_port=-1",
                          "--access_log=none", "--read_timeout=2", "--max_connections=256"),
            env=env, stderr=self.log)
        self.port = self._wait()

    def _wait(self):
        ready = b"ready: http://127.0.0.1:"
        while self.alive():
            self.log.seek(0)
            text = self.log.read()
            if ready in text:
                return int(text.split(ready)[1].split()[0].rstrip(b","))
            time.sleep(0.05)
        raise SystemExit("faults: serve did not start")

    def alive(self):
        return self.process.poll() is None

    def end(self):
        self.log.seek(0)
        return f"exit code {self.process.poll()}, {self.log.read()[-300:]}"

    def memory(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    def connect(self, timeout=10):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def stop(self):
        if stop(self.process, 10) is None:
            return "hung"
        return "survived" if self.process.returncode == 0 else "died"


def request(body=BODY, head=b"", length=None, path=PATH):
    length = len(body) if length is None else length
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n"
            % (path, length, head)) + body


def answer(server, data, timeout=10, pause=0.0, piece=1 << 20):
    """Sends bytes, perhaps slowly; returns what comes back, or b"" without an answer."""
    out = b""
    try:
        with server.connect(timeout) as connection:
            for at in range(0, len(data), piece):
                connection.sendall(data[at:at + piece])
                time.sleep(pause)
            while more := connection.recv(1 << 16):
                out += more
    except OSError:
        pass
    return out


def infer(server, timeout=10):
    """The body of a good answer, or b""."""
    head, _, body = answer(server, request(), timeout).partition(b"\r\n\r\n")
    return body if head.startswith(b"HTTP/1.1 200") else b""


def hold(server, count, data, seconds):
    """Many connections at once that send some bytes and read nothing."""
    connections = []
    for _ in range(count):
        try:
            connections.append(server.connect(2))
            connections[-1].sendall(data)
        except OSError:
            pass
    time.sleep(seconds)
    for connection in connections:
        connection.close()


def garbled(random):
    data = bytearray(request())
    for _ in range(random.choice((1, 2, 10))):
        data[random.randrange(min(len(data), 400))] = random.randrange(256)
    return bytes(data[:random.choice((len(data), len(data), random.randrange(len(data))))])


def clients(server, random):
    return {
        "500 connects, closed at once": lambda: hold(server, 500, b"", 0),
        "300 idle connections": lambda: hold(server, 300, b"", 0.5),
        "300 half heads": lambda: hold(server, 300, b"GET /v2 HT", 0.5),
        "100 half bodies": lambda: hold(server, 100, request(BODY[:500], length=len(BODY)), 0.5),
        "half a request, then the end": lambda: hold(
            server, 1, request()[:random.randrange(1, 900)], 0),
        "bytes one at a time": lambda: answer(server, request()[:200], 4, 0.002, 1),
        "10,000 header fields": lambda: answer(server, request(head=b"A: b\r\n" * 10000)),
        "header field of 10 MB": lambda: answer(server, request(head=b"A: " + b"b" * 10**7 + b"\r\n")),
        "body of 60 MB": lambda: answer(server, request(b"[" * (60 << 20))),
        "body of 1 TB announced": lambda: answer(server, request(length=10**12)),
        "JSON 100,000 deep": lambda: answer(server, request(b'{"inputs":' + b"[" * 100000)),
        "answers that nobody reads": lambda: hold(server, 50, request() * 20, 0.5),
        "random bytes": lambda: answer(server, random.randbytes(5000) + b"\r\n\r\n", 4),
        "garbled request": lambda: answer(server, garbled(random), 4),
    }


def run(world):
    server = Server(world)
    expected = infer(server)
    kinds = list(clients(server, world.random).items())
    for i in world.rounds():
        name, act = kinds[i % len(kinds)]
        act()
        good = [infer(server) == expected for _ in range(3)]
        outcome = "survived" if any(good) else "hung" if server.alive() else "died"
        if outcome == "survived" and server.memory() > MOST_MEMORY:
            outcome = "bug"
        world.table.note(f"server: {name}", outcome, f"round {i}: {server.end()}")
        if not server.alive():
            server = Server(world)
    world.table.note("server: SIGTERM after these", server.stop(), server.end())
