#!/usr/bin/env python3
"""Kills (SIGKILL), stops (SIGSTOP) or cuts off a random rank of a LeNet that trains on 2 or 3
ranks, at a random time, RUNS times, and judges each run:

- all processes end within the rank timeout and 15 seconds, none is left, and the exit code is not 0
- each snapshot is whole: its weights are those of the undisturbed run, byte for byte, and its
  solver state can be resumed
- the run, resumed on as many ranks, ends with the weights of the undisturbed run, byte for byte

A rank is cut off by the link of its host, a network namespace. A third of the killed and stopped
ranks have such hosts too; the others share the machine's memory. Without the right to make
namespaces these runs are left out, and a line says so. Prints a table; exit code 1 if a run was
bad. Needs Linux and Python's own library. The seed fixes ranks, faults and times."""
import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import hosts

FAULTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "cut off": None}
LAUNCHERS = ("openmpi", "mpich", "tcp")
RANK_VARIABLES = (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"RANK")
GRACE = 15  # seconds after the rank timeout
RESUME = 600  # seconds that a run without a fault may take, on a busy machine
MARK = "CREMA_KILL_RANKS"
ITERATIONS, SNAPSHOT = 600, 60
LENET = """name: "LeNet"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "%s" batch_size: 8 backend: LMDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
  inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
SOLVER = """net: "%s" base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" random_seed: 5 max_iter: %d
snapshot: %d snapshot_keep: 3 snapshot_prefix: "s" display: 100
"""


def environment(process):
    """The variables of a process; none if it has ended, and of a kernel's thread."""
    try:
        return pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def processes_of(mark):
    """Those that inherited this mark: {id: rank or None}. Zombies have no variables any more."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        variables = environment(name)
        if f"{MARK}={mark}".encode() not in variables:
            continue
        values = dict(v.partition(b"=")[::2] for v in variables)
        ranks = [int(values[v]) for v in RANK_VARIABLES if v in values]
        found[int(name)] = ranks[0] if ranks and name_of(name) == "train" else None
    return found


def name_of(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(os.readlink(f"/proc/{process}/exe")).name
    return ""


class Job:
    """One training on several ranks: a launcher, or with tcp the ranks themselves."""

    def __init__(self, test, folder, launcher, ranks, place, more=()):
        self.mark = f"{os.getpid()}.{folder.name}.{time.monotonic_ns()}"
        self.log = folder / f"log{len(list(folder.glob('log*')))}"
        train = [test.bin / "train", "--solver=solver.prototxt", "--run=none", "--threads=1", *more]
        commands = [(test.launch(launcher, ranks, train, place), {})]
        if launcher == "tcp":
            commands = test.by_variables(ranks, train, place)
        with open(self.log, "ab") as log:
            self.started = [subprocess.Popen(
                list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=dict(os.environ, **{MARK: self.mark}, **variables))
                for command, variables in commands]

    def rank(self, number):
        """The process of a rank. None: not there yet, or not any more."""
        return next((p for p, r in processes_of(self.mark).items() if r == number), None)

    def has_ended(self):
        return all(process.poll() is not None for process in self.started)

    def wait(self, seconds):
        """Whether all that it started has ended in this time."""
        end = time.monotonic() + seconds
        while not self.has_ended() or processes_of(self.mark):
            if time.monotonic() >= end:
                return False
            time.sleep(0.05)
        return True

    def codes(self):
        return [process.poll() for process in self.started]

    def text(self):
        return self.log.read_text(errors="replace")

    def end(self):
        """Ends what is left; returns its names."""
        left = processes_of(self.mark)
        names = sorted(name_of(process) or "?" for process in left)
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.wait()
        return names


class Outcome:
    """The faults of a run are in `bad`; the other values are for the table."""

    def __init__(self):
        self.bad, self.codes, self.seconds, self.snapshots, self.early = [], "", 0.0, 0, False


class Test:
    def __init__(self, flags, work):
        self.bin, self.work, self.timeout = flags.bin.resolve(), work, flags.rank_timeout
        self.bound, self.more = self.timeout + GRACE, flags.train_flag
        self.expected, self.seconds = {}, {}
        subprocess.run([self.bin / "make_digits", "--count=400", "--quiet", work / "set"],
                       check=True, stdout=subprocess.DEVNULL)
        (work / "net.prototxt").write_text(LENET % (work / "set"))

    def launch(self, launcher, ranks, train, place):
        if place is not None:
            return place.mpirun(launcher, ranks, train)
        root = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        return [f"mpirun.{launcher}", *(root if launcher == "openmpi" else []), "-n", ranks, *train]

    def by_variables(self, ranks, train, place):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        variables = {"WORLD_SIZE": ranks, "MASTER_PORT": port,
                     "MASTER_ADDR": place.address(0) if place else "127.0.0.1"}
        return [(place.command(r, train) if place else train,
                 {k: str(v) for k, v in dict(variables, RANK=r).items()}) for r in range(ranks)]

    def folder(self, name):
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        (path / "solver.prototxt").write_text(SOLVER % (self.work / "net.prototxt", ITERATIONS,
                                                        SNAPSHOT))
        return path

    def undisturbed(self, launcher, ranks):
        """Keeps the weights of all snapshots, which are the same by each launcher, and the time."""
        folder = self.folder(f"whole{ranks}")
        start = time.monotonic()
        job = Job(self, folder, launcher, ranks, None, ["--set=snapshot_keep=1000", *self.more])
        good = job.wait(RESUME) and not any(job.codes())
        self.seconds[launcher, ranks] = time.monotonic() - start
        job.end()
        if not good:
            raise SystemExit(f"kill_ranks: {launcher} fails without a fault:\n{job.text()[-2000:]}")
        weights = {path.name: path.read_bytes() for path in folder.glob("*.caffemodel")}
        if self.expected.setdefault(ranks, weights) != weights:
            raise SystemExit(f"kill_ranks: {launcher} trains other weights on {ranks} ranks")

    def run(self, number, launcher, fault, at_hosts, ranks, rank, share):
        """Returns the outcome of one run."""
        outcome, folder = Outcome(), self.folder(f"try{number}")
        with contextlib.ExitStack() as stack:
            place = None
            if at_hosts:
                place = hosts.Hosts(ranks, folder)
                stack.callback(place.close)
            job = Job(self, folder, launcher, ranks, place,
                      [f"--rank_timeout={self.timeout}", *self.more])
            stack.callback(job.end)
            time.sleep(share * self.seconds[launcher, ranks])
            process = self.harm(job, fault, place, rank)
            self.judge_end(job, fault, process, outcome)
        if not outcome.early:
            self.judge_snapshots(folder, ranks, outcome)
        self.judge_resumed(folder, launcher, ranks, outcome)
        if outcome.bad:
            print(f"BAD run {number}: {launcher}, {ranks} ranks, rank {rank} {fault}"
                  f"{' on hosts' if at_hosts else ''} after {share:.2f} of the time: "
                  f"{'; '.join(outcome.bad)}\n{job.text()[-1500:]}", flush=True)
        else:
            shutil.rmtree(folder)
        return outcome

    def run_until(self, end, *arguments):
        return self.run(*arguments) if time.monotonic() < end else None

    def harm(self, job, fault, place, rank):
        """Harms the rank once it is there. Returns its process; None: the run has ended before."""
        while (process := job.rank(rank)) is None:
            if job.has_ended():
                return None
            time.sleep(0.002)
        if place and FAULTS[fault] is None:
            place.set_link(rank, False)
            return process
        try:
            os.kill(process, FAULTS[fault])
        except ProcessLookupError:
            return None
        return process

    def judge_end(self, job, fault, process, outcome):
        start = time.monotonic()
        if process is not None and fault == "stopped" and len(job.started) > 1:
            # Nobody but its launcher, which is this script, can end a stopped process.
            while not all(p.poll() is not None for p in job.started if p.pid != process) and (
                    time.monotonic() < start + self.bound):
                time.sleep(0.05)
            os.kill(process, signal.SIGCONT)
        in_time = job.wait(start + self.bound - time.monotonic())
        outcome.seconds = time.monotonic() - start
        codes, left = job.codes(), job.end()
        outcome.codes = " ".join(sorted(str(c if c is None or c >= 0 else 128 - c) for c in codes))
        if process is None or all(code == 0 for code in codes):
            # It had ended already, or had nothing left to do with the others.
            outcome.early = True
            if any(codes):
                outcome.bad.append(f"exit code {outcome.codes} before the fault")
        if not in_time:
            outcome.bad.append(f"not ended after {self.bound} s: {' '.join(left) or 'launcher'}")
        elif not outcome.early and 0 in codes:
            outcome.bad.append(f"exit code {outcome.codes}")

    def judge_snapshots(self, folder, ranks, outcome):
        for state in folder.glob("*.solverstate"):
            weights = state.with_suffix(".caffemodel")
            outcome.snapshots += 1
            if not weights.exists() or weights.read_bytes() != self.expected[ranks][weights.name]:
                outcome.bad.append(f"{weights.name} is damaged")
            iteration = re.search(r"\d+$", state.stem).group()
            load = subprocess.run(
                [self.bin / "train", "--solver=solver.prototxt", f"--resume={state.name}",
                 f"--set=max_iter={iteration}", "--set=snapshot_prefix=loaded", "--run=none",
                 "--threads=1", "--quiet"], cwd=folder, capture_output=True, text=True, check=False)
            if load.returncode != 0:
                outcome.bad.append(f"{state.name}: {load.stderr[-300:]}")
        for path in folder.glob("loaded*"):
            path.unlink()

    def judge_resumed(self, folder, launcher, ranks, outcome):
        job = Job(self, folder, launcher, ranks, None, ["--resume=auto", *self.more])
        ended = job.wait(RESUME)
        codes, last = job.codes(), f"s_iter_{ITERATIONS}.caffemodel"
        job.end()
        if not ended or any(codes):
            outcome.bad.append(f"resumed: exit code {codes}")
        elif (folder / last).read_bytes() != self.expected[ranks][last]:
            outcome.bad.append("resumed: other weights")


def plan(flags, launchers, has_hosts):
    """The arguments of each run, fixed by the seed."""
    random_ = random.Random(flags.seed)
    for number in range(flags.runs):
        launcher, fault = launchers[number % len(launchers)], random_.choice(list(FAULTS))
        at_hosts = fault == "cut off" or random_.random() < 1 / 3
        ranks = random_.choice((2, 3))
        arguments = (number, launcher, fault, at_hosts, ranks, random_.randrange(ranks),
                     random_.uniform(0, 0.9))
        if has_hosts or not at_hosts:
            yield arguments


def print_table(rows):
    print("| launcher | a rank is | on | runs | ended by it | exit codes | longest until all had "
          "ended, s | whole snapshots | good |\n|---|---|---|---|---|---|---|---|---|")
    for (launcher, fault, at_hosts), all_ in sorted(rows.items()):
        late = [o for o in all_ if not o.early]
        codes = collections.Counter(o.codes for o in late)
        cells = [launcher, fault, "hosts" if at_hosts else "one machine", len(all_), len(late),
                 ", ".join(f"{n} x {c}" for c, n in codes.most_common()),
                 f"{max((o.seconds for o in late), default=0):.1f}",
                 sum(o.snapshots for o in late), sum(not o.bad for o in all_)]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="folder of the commands")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--launch", default="openmpi,mpich",
                        help="of openmpi, mpich, and tcp: RANK and MASTER_ADDR without MPI")
    parser.add_argument("--rank_timeout", type=int, default=3, help="seconds")
    parser.add_argument("--minutes", type=float, default=1e6, help="no run starts after them")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--train_flag", action="append", default=[], help="one more, for all ranks")
    flags = parser.parse_args()
    launchers = [l for l in flags.launch.split(",") if l == "tcp" or shutil.which(f"mpirun.{l}")]
    if not set(flags.launch.split(",")) <= set(LAUNCHERS) or not launchers:
        parser.error(f"--launch={flags.launch} names nothing that is here")
    no_hosts = hosts.why_not()
    if no_hosts:
        print(f"kill_ranks: no rank is cut off, and none has a host of its own: {no_hosts}")
    rows = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as work:
        test = Test(flags, pathlib.Path(work).resolve())
        for launcher in launchers:
            for ranks in (2, 3):
                test.undisturbed(launcher, ranks)
        with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
            end = time.monotonic() + 60 * flags.minutes
            runs = {pool.submit(test.run_until, end, *a): a
                    for a in plan(flags, launchers, not no_hosts)}
            for done in concurrent.futures.as_completed(runs):
                _, launcher, fault, at_hosts, *_ = runs[done]
                if done.result():
                    rows[launcher, fault, at_hosts].append(done.result())
    print_table(rows)
    return 1 if any(outcome.bad for all_ in rows.values() for outcome in all_) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    raise SystemExit(main())
