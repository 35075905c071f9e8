#!/usr/bin/env python3
"""Crema beside PyTorch on one GPU: training steps and inference, in turns.

    bench/gpu/race.py --runner=bin/gpu_race --devices=bin/devices --models=models --out=FILE

Exit status 77 where nothing can be compared: no PyTorch, or no GPU. --device=cpu shows that the
script works where there is none; its rates say nothing about GPUs. docs/gpus.md tells the rest.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import crema_side
import nets
import report

SKIPPED = 77
# Seconds that compiling a large net may take: a race begun must end.
COMPILING = 45
# The name in `devices` of the peak rate that a precision is compared with.
RATES = {"fp32": "f32_gflops", "tf32": "tf32_gflops", "bf16": "bf16_gflops", "fp16": "bf16_gflops"}


def flags():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runner", required=True, help="the program gpu_race")
    parser.add_argument("--devices", required=True, help="the program devices")
    parser.add_argument("--models", required=True, help="the folder models/")
    parser.add_argument("--out", required=True, help="the table, a Markdown file")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--nets", default=",".join(nets.NETS))
    parser.add_argument("--modes", default="train,infer")
    parser.add_argument("--precisions", default="bf16,fp32")
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--variants", default="eager,compiled")
    parser.add_argument("--seconds", type=float, default=200, help="for all races")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--turn-seconds", type=float, default=0.4)
    parser.add_argument("--autotune", type=float, default=10,
                        help="seconds a race in which Crema measures cuDNN's engines, as PyTorch's "
                        "cudnn.benchmark does")
    return parser.parse_args()


def why_not(device):
    """Why nothing can be compared; None when it can."""
    try:
        import torch
    except ImportError:
        return "there is no PyTorch for this Python"
    if device == "cuda" and not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    return None


def rates_of_device(args):
    """Returns the peak rates of matrix products, by precision; empty on the CPU."""
    if args.device == "cpu":
        return {}
    machine = json.loads(subprocess.run([args.devices, "--json"], check=True, text=True,
                                        capture_output=True, timeout=60,
                                        env=crema_side.environment()).stdout)
    gpu = machine["gpus"][args.gpu]
    return {precision: gpu.get(name, 0) for precision, name in RATES.items()}


class Course:
    """All races of one run."""

    def __init__(self, args, models, rates, end):
        self.args = args
        self.models = models
        self.rates = rates
        self.end = end
        self.lines = []

    def left(self):
        return self.end - time.monotonic()

    def run(self):
        races = nets.races(*(getattr(self.args, name).split(",")
                             for name in ("nets", "modes", "precisions")),
                           list(map(int, self.args.batches.split(","))))
        for race in races:
            if self.left() <= 0:
                self.lines.append(report.Line(race, notes=["no time was left"]))
                continue
            self.lines.append(self.hold(race))
            self.write()
            print(report.row(self.lines[-1]), flush=True)
        self.write()

    def hold(self, race):
        line = report.Line(race)
        contestants = {}
        try:
            for name in ["crema", *self.args.variants.split(",")]:
                self.join(name, contestants, line)
            self.compare_size(contestants, line)
            self.take_turns(race, contestants, line)
        finally:
            for contestant in contestants.values():
                contestant.close()
        return line

    def join(self, name, contestants, line):
        """One that cannot leaves the others their race."""
        if name == "compiled" and self.left() < COMPILING:
            line.notes.append("compiled: no time was left")
            return
        ways = (self.args.autotune, 0) if name == "crema" else (0,)
        for autotune in dict.fromkeys(ways):
            try:
                contestants[name] = self.start(name, line, autotune)
                return
            except Exception as error:
                how = f"{name}, autotuned" if autotune else name
                line.notes.append(f"{how}: {_first_line(error)}")

    def start(self, name, line, autotune):
        race = line.race
        net = nets.NETS[race.net]
        model = net.path(self.models, race.mode)
        if name == "crema":
            gpu = self.args.gpu if self.args.device == "cuda" else None
            made = crema_side.Crema(self.args.runner, net, race, model, gpu,
                                    limit=max(30, self.left()), autotune=autotune)
        else:
            import torch_side
            made = torch_side.Torch(net, race, model.read_text(), name, self.args.device)
        try:
            # The first passes compile, measure, allocate and capture.
            made.passes(3, True)
            if name == "crema":
                self.note_state(made, line)
        except Exception:
            made.close()
            raise
        return made

    def note_state(self, crema, line):
        """Before others take memory of the GPU."""
        state = crema.state()
        line.memory_mib = state["memory_mib"]
        print(f"# {line.race}: implementations {crema.implementations}", flush=True)
        if state["no_graph"]:
            line.notes.append(f"no CUDA graphs: {state['no_graph']}")

    def compare_size(self, contestants, line):
        """Other nets than Crema's would say nothing."""
        crema = contestants.get("crema")
        for name in list(contestants):
            if crema is None or contestants[name].learned == crema.learned:
                continue
            line.notes.append(f"{name} learns {contestants[name].learned} numbers, crema "
                              f"{crema.learned}")
            contestants.pop(name).close()

    def take_turns(self, race, contestants, line):
        wait = race.mode == "infer"
        counts = {}
        for turn in range(self.args.turns + 1):
            for name in list(contestants):
                try:
                    if turn == 0:
                        seconds = contestants[name].passes(1, True)
                        counts[name] = max(1, round(self.args.turn_seconds / seconds))
                        continue
                    seconds = contestants[name].passes(counts[name], wait)
                    line.turns.setdefault(name, []).append(race.batch * counts[name] / seconds)
                except Exception as error:
                    line.notes.append(f"{name}: {_first_line(error)}")
                    line.turns.pop(name, None)
                    contestants.pop(name).close()
        crema = contestants.get("crema")
        if crema is None:
            return
        rate = self.rates.get(race.precision, 0)
        if rate > 0:
            operations = 2 * crema.macs / race.batch * (3 if race.mode == "train" else 1)
            line.share = statistics.median(line.turns["crema"]) * operations / (rate * 1e9)

    def write(self):
        report.write(self.args.out, self.lines, self.args, self.rates)


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def main():
    args = flags()
    end = time.monotonic() + args.seconds
    reason = why_not(args.device)
    if reason is not None:
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as models:
        shutil.copytree(args.models, models, dirs_exist_ok=True)
        nets.write_gpt(models)
        Course(args, pathlib.Path(models), rates_of_device(args), end).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
