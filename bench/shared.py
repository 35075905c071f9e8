#!/usr/bin/env python3
"""Measures what other processes on the same processors cost Crema, PyTorch and OpenVINO.

    python bench/shared.py [--build=build] [--turns=5] [--threads=2]

Each case is a process: LeNet forward and backward on 64 images, SqueezeNet 1.1 forward on one.
  alone      its time in seconds, without its start
  neighbour  its time beside a process that computes on one core, divided by `alone`
  two        what two such processes make together, divided by what one makes
  quota      its time with a quota of one processor (control group, root only), divided by that of
             one thread
Prints a Markdown table of medians with quartiles, taken in turns.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPIN = "while True: pass"
PEERS = {
    "PyTorch": ("torch", "torchvision"),
    "OpenVINO": ("openvino", "torch", "torchvision"),
}
# The worker of the peers: what, passes, threads. Prints seconds.
WORKER = r"""
import sys, time
peer, what, passes, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
import torch
torch.set_num_threads(threads)
if what == "lenet":
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 20, 5), torch.nn.MaxPool2d(2), torch.nn.Conv2d(20, 50, 5),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(800, 500),
        torch.nn.ReLU(), torch.nn.Linear(500, 10))
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    def step():
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
else:
    import torchvision
    net = torchvision.models.squeezenet1_1(weights=None).eval()
    x = torch.randn(1, 3, 227, 227)
    if peer == "OpenVINO":
        import openvino
        model = openvino.convert_model(net, example_input=x)
        model.reshape([1, 3, 227, 227])
        run = openvino.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads})
        step = lambda: run(x.numpy())
    else:
        def step():
            with torch.inference_mode():
                net(x)
for _ in range(10):
    step()
begin = time.perf_counter()
for _ in range(passes):
    step()
print(time.perf_counter() - begin)
"""


def has(modules):
    return subprocess.run([sys.executable, "-c", "import " + ",".join(modules)],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


class Case:
    """A process that computes `passes` passes and says in how many seconds."""

    def __init__(self, options, who, what, passes):
        self.who, self.what, self.passes, self.build = who, what, passes, options.build

    def command(self, threads):
        if self.who != "Crema":
            return [sys.executable, "-c", WORKER, self.who, self.what, str(self.passes),
                    str(threads)]
        net = {"lenet": "models/lenet/train_val.prototxt",
               "squeezenet": "models/squeezenet_v1.1/deploy.prototxt"}[self.what]
        shape = "data=64x1x28x28,label=64" if self.what == "lenet" else "data=1x3x227x227"
        phase = "train" if self.what == "lenet" else "test"
        return [str(self.build / "bin/profile"), net, f"--threads={threads}", f"--shape={shape}",
                f"--phase={phase}", f"--iterations={self.passes}", "--warmup=10", "--json", "--quiet",
                "--peak_gbs=1", "--peak_gflops=1"]

    def start(self, threads, group=None):
        join = None
        if group is not None:
            def join():
                (group / "cgroup.procs").write_text(str(os.getpid()))
        return subprocess.Popen(self.command(threads), stdout=subprocess.PIPE, text=True, cwd=ROOT,
                                stderr=subprocess.DEVNULL, preexec_fn=join)

    def seconds(self, process):
        out, _ = process.communicate()
        if process.returncode != 0:
            sys.exit(f"{self.who} {self.what}: exit code {process.returncode}")
        return json.loads(out)["iteration"]["total_ms"] / 1000 if self.who == "Crema" else float(out)


def quota_group():
    """A control group with the time of one processor, or None."""
    group = pathlib.Path("/sys/fs/cgroup/cpu/crema_shared")  # version 1
    try:
        if not group.parent.is_dir():
            group = pathlib.Path("/sys/fs/cgroup/crema_shared")
        group.mkdir(exist_ok=True)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text("100000 100000")
        else:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("100000")
        return group
    except OSError as error:
        print(f"no quota: {error}", file=sys.stderr)
        if group.is_dir():
            group.rmdir()
        return None


def turn(case, threads, group):
    """One measurement of each column."""
    alone = case.seconds(case.start(threads))
    spin = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        beside = case.seconds(case.start(threads))
    finally:
        spin.kill()
        spin.wait()
    both = [case.start(threads) for _ in range(2)]
    two = sum(alone / case.seconds(process) for process in both)
    row = {"alone": alone, "neighbour": beside / alone, "two": two}
    if group is not None:
        # Without a number of threads, Crema counts what the quota gives.
        given = 0 if case.who == "Crema" else threads
        row["quota"] = case.seconds(case.start(given, group)) / case.seconds(case.start(1))
    return row


def cell(values):
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.build = options.build.resolve()
    who = ["Crema"] + [peer for peer, modules in PEERS.items() if has(modules)]
    cases = [Case(options, one, "lenet", 200) for one in who if one != "OpenVINO"]
    cases += [Case(options, one, "squeezenet", 300) for one in who]
    group = quota_group()
    rows = {case: [] for case in cases}
    try:
        for _ in range(options.turns):
            for case in cases:
                rows[case].append(turn(case, options.threads, group))
                time.sleep(0.2)
    finally:
        if group is not None:
            group.rmdir()
    columns = list(rows[cases[0]][0])
    print("| | | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for case in cases:
        cells = [cell([row[c] for row in rows[case]]) for c in columns]
        print(f"| {case.what} | {case.who} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
