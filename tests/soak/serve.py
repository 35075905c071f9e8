#!/usr/bin/env python3
"""Mixed load on `serve`: good requests whose answers are compared, a new version every 10 s, and
clients that stall, cut off and send garbage. Fails on a wrong answer, a failed good request, more
memory than 5 % over that after the first tenth of the time, or descriptors that do not come back.

Usage: tests/soak/serve.py BIN_DIR MODEL.crema [SECONDS] [RELOAD_SECONDS]
The model has one input of floats. Python's own library is all it needs."""
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BODIES = 8
TOLERANCE = 1e-5  # of values in 0..1; sizes of batches differ, and with them the order of sums
MOST_GROWTH = 0.05


class Server:
    def __init__(self, binary, repository):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [binary, f"--repository={repository}", "--port=0", "--grpc_port=-1",
             "--access_log=none", "--settle_seconds=0.2", "--poll_seconds=0.2",
             "--max_delay_us=200", "--instances=2", "--read_timeout=2"], stderr=self.log)
        self.port = self._wait()

    def _wait(self):
        said = "ready: http://127.0.0.1:"
        while self.process.poll() is None:
            self.log.seek(0)
            text = self.log.read()
            if said in text:
                return int(text.split(said)[1].split()[0].rstrip(","))
            time.sleep(0.05)
        raise SystemExit("serve did not start")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def resident_mb(self):
        pages = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def ask(connection, body):
    connection.request("POST", "/v2/models/m/infer", body)
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise RuntimeError(text)
    return json.loads(text)["outputs"][0]["data"]


def make_bodies(server):
    connection = server.connect()
    connection.request("GET", "/v2/models/m")
    meta = json.loads(connection.getresponse().read())["inputs"][0]
    shape = [1] + meta["shape"][1:]
    count = 1
    for extent in shape:
        count *= extent
    bodies = []
    for seed in range(BODIES):
        draw = random.Random(seed)
        data = [round(draw.random(), 3) for _ in range(count)]
        bodies.append(json.dumps({"inputs": [{"name": meta["name"], "shape": shape,
                                              "datatype": "FP32", "data": data}]}).encode())
    return bodies


class Load:
    def __init__(self, server, bodies, expected, end):
        self.server, self.bodies, self.expected, self.end = server, bodies, expected, end
        self.good = 0
        self.wrong = []
        self.lock = threading.Lock()

    def good_client(self):
        connection = self.server.connect()
        while time.time() < self.end:
            i = random.randrange(BODIES)
            try:
                answer = ask(connection, self.bodies[i])
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                connection = self.server.connect()
                continue
            if max(abs(a - b) for a, b in zip(answer, self.expected[i])) > TOLERANCE:
                self.wrong.append("another answer")
            with self.lock:
                self.good += 1

    def bad_client(self):
        head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n"
        whole = self.bodies[0]
        while time.time() < self.end:
            kind = random.randrange(6)
            try:
                with socket.create_connection(("127.0.0.1", self.server.port), 10) as s:
                    if kind == 0:
                        s.sendall(os.urandom(200))
                    elif kind == 1:  # stalls within the body
                        s.sendall(head + b"Content-Length: 5000\r\n\r\n{")
                        time.sleep(random.random())
                    elif kind == 2:  # does not wait for the answer
                        s.sendall(head + b"Content-Length: %d\r\n\r\n" % len(whole) + whole)
                    elif kind == 3:  # stalls within the head
                        s.sendall(b"GET / HT")
                        time.sleep(0.1)
                    elif kind == 4:  # ends within a chunk
                        s.sendall(head + b"Transfer-Encoding: chunked\r\n\r\nffff\r\nabc")
                        s.shutdown(socket.SHUT_WR)
                        s.recv(1000)
                    else:
                        text = b'{"inputs": [{"name": "data", "shape": [-1, 9e99], "data": [[[1'
                        s.sendall(head + b"Content-Length: %d\r\n\r\n" % len(text) + text)
                        s.recv(1000)
            except OSError:
                pass


def reload_until(end, repository, model, seconds, look):
    version = 1
    while time.time() < end:
        time.sleep(max(0.1, min(seconds, end - time.time())))
        version += 1
        beside = repository / "m" / f".{version}"
        beside.mkdir()
        shutil.copy(model, beside / "model.crema")
        beside.rename(repository / "m" / str(version))
        if version > 4:
            shutil.rmtree(repository / "m" / str(version - 3))
        look()
    return version - 1


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    binary, model = pathlib.Path(sys.argv[1]) / "serve", sys.argv[2]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1800
    each = float(sys.argv[4]) if len(sys.argv) > 4 else 10
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder)
        (repository / "m" / "1").mkdir(parents=True)
        shutil.copy(model, repository / "m" / "1" / "model.crema")
        server = Server(binary, repository)
        bodies = make_bodies(server)
        expected = [ask(server.connect(), body) for body in bodies]
        start = time.time()
        load = Load(server, bodies, expected, start + seconds)
        clients = [threading.Thread(target=load.good_client) for _ in range(3)]
        clients += [threading.Thread(target=load.bad_client) for _ in range(2)]
        for client in clients:
            client.start()
        seen = []  # seconds, resident MB, descriptors
        reloads = reload_until(start + seconds, repository, model, each, lambda: seen.append(
            (time.time() - start, server.resident_mb(), server.descriptors())))
        for client in clients:
            client.join()
        time.sleep(5)
        left = server.descriptors()
        server.process.terminate()
        code = server.process.wait(60)
    early = statistics.median(mb for at, mb, _ in seen if at <= max(seconds / 5, 3 * each)
                              and at >= seconds / 10 or len(seen) < 5)
    late = statistics.median(mb for at, mb, _ in seen if at >= seconds * 0.9 or len(seen) < 5)
    print(f"{seconds:.0f} s: {load.good} good requests, {len(load.wrong)} failed or wrong "
          f"{load.wrong[:3]}, {reloads} reloads, resident {early:.1f} MB early, {late:.1f} MB late "
          f"({(late / early - 1) * 100:+.1f} %), descriptors {seen[0][2]} at first, {left} at the "
          f"end, exit code {code}")
    for at, mb, fds in seen[:: max(1, len(seen) // 12)]:
        print(f"  {at:6.0f} s  {mb:6.1f} MB  {fds} descriptors")
    ok = not load.wrong and late <= early * (1 + MOST_GROWTH) and left <= seen[0][2] + 2
    return 0 if ok and code == 0 and load.good > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
