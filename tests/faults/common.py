"""Shared by the groups of faults: files to damage, commands with a fault, and the table."""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
OUTCOMES = ("survived", "clear error", "lost data", "hung", "died", "bug")
GOOD = OUTCOMES[:2]
TIME_LIMIT = 60  # seconds; a command of these tests takes well under one

NET = """name: "faults"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "%(set)s" batch_size: 16 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 20 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
DEPLOY = """name: "faults"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 28 dim: 28 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 20 } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }
"""


_started = []


def start(command, **options):
    """A process that end_all() ends if it still runs."""
    _started[:] = [p for p in _started if p.poll() is None]
    _started.append(subprocess.Popen(command, **options))
    return _started[-1]


def end_all():
    for process in _started:
        if process.poll() is None:
            process.kill()
            process.wait()


class Table:
    """Counts outcomes by fault, and prints each that is not good when it comes."""

    def __init__(self):
        self.rows = {}

    def note(self, fault, outcome, detail=""):
        self.rows.setdefault(fault, dict.fromkeys(OUTCOMES, 0))[outcome] += 1
        if outcome not in GOOD:
            print(f"FAULT {fault}: {outcome}: {detail}", flush=True)

    def failed(self):
        return sum(row[o] for row in self.rows.values() for o in OUTCOMES if o not in GOOD)

    def print(self):
        print("| fault | tried | " + " | ".join(OUTCOMES) + " |")
        print("|" + "---|" * (len(OUTCOMES) + 2))
        for fault, row in self.rows.items():
            cells = [fault, sum(row.values())] + [row[o] for o in OUTCOMES]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


class Fault:
    """A fault at a chosen call of failing_calls.c; see there for kinds and ways."""

    def __init__(self, world, calls, how, under):
        self.path = world.work / "control"
        self.path.write_bytes(bytes(32))
        self.env = dict(os.environ, LD_PRELOAD=str(world.stand_in), FAULT_CONTROL=str(self.path),
                        FAULT_CALLS=calls, FAULT_HOW=str(how), FAULT_UNDER=str(under))

    def read(self):
        return struct.unpack("4q", self.path.read_bytes())

    def calls(self):
        return self.read()[0]

    def made(self):
        return self.read()[2]

    def set(self, at, restart=True, more=0):
        """Makes the fault at this call (0: none), and at `more` after it."""
        with open(self.path, "r+b") as file:
            if restart:
                file.write(bytes(24))
            file.seek(24)
            file.write(struct.pack("q", more))
            file.seek(8)
            file.write(struct.pack("q", at))


class Result:
    def __init__(self, code, err, seconds):
        self.code, self.err, self.seconds = code, err, seconds

    def outcome(self):
        """Judges an end by the exit codes of docs/development/files_and_errors.md."""
        if self.code is None:
            return "hung"
        if self.code < 0 or self.code >= 128:
            return "died"
        if self.code == 0:
            return "survived"
        clear = self.code in (2, 3, 4, 5) and ("error" in self.err or "problem" in self.err)
        return "clear error" if clear and "internal error" not in self.err else "bug"

    def detail(self):
        return f"exit code {self.code}, {self.err.strip()[-300:]}"


class World:
    """The commands, a folder to work in, and whole files that faults start from."""

    def __init__(self, binaries, work, quick, seed, table):
        self.bin, self.work, self.table = pathlib.Path(binaries).resolve(), work, table
        self.seconds = 80 if quick else 1080  # of each group
        self.random = random.Random(seed)
        self.stand_in = work / "failing_calls.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", self.stand_in,
                        HERE / "failing_calls.c"], check=True)
        self.whole = work / "whole"
        self.whole.mkdir()
        self._make_files()

    def command(self, name, *arguments):
        return [str(self.bin / name), *map(str, arguments)]

    def run(self, command, cwd=None, env=None, limit=TIME_LIMIT, preexec=None):
        begin = time.monotonic()
        process = start(command, cwd=cwd or self.work, env=env, preexec_fn=preexec,
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            code, err = None, process.communicate(timeout=limit)[0]
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            err = process.communicate()[0]
        return Result(code, err, time.monotonic() - begin)

    def must(self, command, cwd=None):
        result = self.run(command, cwd)
        if result.code != 0:
            raise SystemExit(f"faults: {command} failed without a fault: {result.detail()}")

    def note_result(self, fault, result, place=""):
        self.table.note(fault, result.outcome(), f"{place} {result.detail()}")

    def rounds(self, share=1.0):
        """Numbers from 0 until this share of the group's time is over."""
        end, i = time.monotonic() + self.seconds * share, 0
        while time.monotonic() < end:
            yield i
            i += 1

    @contextlib.contextmanager
    def folder(self, name="try"):
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def write_run(self, folder, more="", iterations=6, prefix="s"):
        """Writes net and solver; returns the command that trains."""
        (folder / "net.prototxt").write_text(NET % {"set": self.whole / "set"})
        (folder / "solver.prototxt").write_text(
            f'net: "{folder}/net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: {iterations} '
            f'random_seed: 5 snapshot: 2 snapshot_keep: 2 snapshot_prefix: "{prefix}" {more}\n')
        return self.command("train", "--solver=solver.prototxt", "--threads=1")

    def _make_files(self):
        whole = self.whole
        self.must(self.command("make_digits", "--count=200", "--seed=1", f"--png={whole}", "set"),
                  whole)
        self.must(self.write_run(whole), whole)
        self.must(self.write_run(whole, "snapshot_format: HDF5", prefix="h"), whole)
        (whole / "deploy.prototxt").write_text(DEPLOY)
        self.must(self.command("deploy", "export", "--model=deploy.prototxt",
                               "--weights=s_iter_6.caffemodel", "--scale=0.00390625", "-o",
                               "m.crema"), whole)
        for backend in ("hdf5", "tar"):
            self.must(self.command("convert_db", f"--backend={backend}", "set", backend), whole)
        self.picture = sorted(whole.glob("*.png"))[0]


def stop(process, seconds):
    """Sends SIGTERM. Returns the seconds until the end, or None if it does not come."""
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
        return time.monotonic() - start
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
