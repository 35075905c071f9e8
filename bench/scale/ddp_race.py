#!/usr/bin/env python3
"""Crema on several ranks beside PyTorch's DistributedDataParallel with gloo: the same nets,
batches, processes with one thread each, and links, in turns.

    bench/scale/ddp_race.py --bin=build/bin --python=VENV/bin/python --out=race.json [--ranks=1,2]

Each rank is on a host of its own, a network namespace (root only). One rank trains without others.
PyTorch is eager, in the faster of its two layouts by a run alone. --out keeps all seconds; the
table has medians of all blocks of all turns, with the lowest and the highest. model.py reads the
file."""
import argparse
import collections
import contextlib
import csv
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import links
import measured_nets as nets

import kill_ranks  # of tests/faults

LIMIT = 90  # seconds of one training
LINKS = {  # bits a second and delay in seconds of each direction
    "local": (None, 0.0),
    "10G": (10e9, 0.0),
    "1G": (1e9, 0.0),
    "1G, 5 ms": (1e9, 0.005),
    "10G, 5 ms": (10e9, 0.005),
}
BESIDE = "beside"  # no link: as many trainings at a time, each for itself
LINE = re.compile(r"Iteration (\d+) \(\S+ iter/s, (\S+)s/(\d+) iters\)")


class Failed(Exception):
    """A training did not end, or not well."""


class Race:
    def __init__(self, flags, work):
        self.flags, self.work = flags, work
        self.layouts = {}

    def run(self, who, net, ranks, link):
        """Returns the seconds of an iteration, of each block."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder, contextlib.ExitStack() as stack:
            folder = pathlib.Path(folder)
            (folder / "net.prototxt").write_text(nets.text_of(net))
            (folder / "solver.prototxt").write_text(nets.solver_of(net))
            place = None
            if ranks > 1 and link != BESIDE:
                place = links.Links(ranks, folder, *LINKS[link])
                stack.callback(place.close)
            if who == "torch":
                seconds = self.torch(net, ranks, place, folder)
            else:
                seconds = self.crema(net, ranks, place, folder, who.partition(" ")[2])
        return seconds[nets.WARM_UP:]

    def crema(self, _, ranks, place, folder, launch):
        train = [self.flags.bin / "train", "--solver=solver.prototxt", "--threads=1",
                 f"--run={'run' if place else 'none'}", f"--bucket_mb={self.flags.bucket_mb}",
                 *self.flags.train_flag]
        if place is None:
            out = self.wait([(train, {})] * ranks, folder)
        elif launch == "tcp":
            out = self.wait(self.by_variables(train, ranks, place), folder)
        else:
            out = self.wait([(place.mpirun(launch, ranks, train), {})], folder)
        self.sums = sums_of(folder / "run" / "metrics.csv") if place else []
        return [float(s) / int(n) for i, s, n in LINE.findall(out) if int(i) > 0]

    def torch(self, net, ranks, place, folder):
        if net.name not in self.layouts:
            self.layouts[net.name] = min(
                ("contiguous", "channels_last"),
                key=lambda layout: statistics.median(self.worker(net, layout, 1, None, folder)))
        return self.worker(net, self.layouts[net.name], ranks, place, folder)

    def worker(self, net, layout, ranks, place, folder):
        command = [self.flags.python, links.HERE / "ddp_worker.py", "net.prototxt", net.name,
                   layout]
        commands = [(command, {})] if place is None else self.by_variables(command, ranks, place)
        return [float(line) / net.block for line in self.wait(commands, folder).splitlines()
                if line[:1].isdigit()]

    def by_variables(self, command, ranks, place):
        variables = {"WORLD_SIZE": ranks, "MASTER_ADDR": place.address(0), "MASTER_PORT": 29500,
                     "GLOO_SOCKET_IFNAME": "eth0"}
        return [(place.command(rank, command), dict(variables, RANK=rank)) for rank in range(ranks)]

    def wait(self, commands, folder):
        """Runs all at once; returns what the first wrote."""
        mark = folder.name
        processes = [subprocess.Popen(
            list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
            env=dict(os.environ, OMP_NUM_THREADS="1", **{kill_ranks.MARK: mark},
                     **{k: str(v) for k, v in values.items()}))
            for command, values in commands]
        try:
            outs = [process.communicate(timeout=LIMIT)[0] for process in processes]
        except subprocess.TimeoutExpired:
            raise Failed(f"not done in {LIMIT} s") from None
        finally:
            for process in processes:
                process.kill()
            for process in kill_ranks.processes_of(mark):  # of a launcher that was killed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        for process, out in zip(processes, outs):
            if process.returncode != 0:
                raise Failed(f"exit code {process.returncode}\n{out[-2000:]}")
        return outs[0]


def sums_of(path):
    """[seconds of sums, seconds of them that are exposed] of each block that is counted."""
    columns = {"sum_seconds": [], "exposed_sum_seconds": []}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["blob"] in columns:
                columns[row["blob"]].append(float(row["value"]))
    return [list(both) for both in zip(*columns.values())][1 + nets.WARM_UP:]


def contests(flags):
    """(net, ranks, link, contestant) of all turns."""
    peers = ["torch"] if flags.python else []
    several = [f"crema {launch}" for launch in flags.launch.split(",")] + peers
    for turn in range(flags.turns):
        for name in flags.nets.split(","):
            for ranks in map(int, flags.ranks.split(",")):
                if ranks > 1 and turn == 0:
                    yield name, ranks, BESIDE, "crema"
                for link in flags.links.split(";") if ranks > 1 else ["-"]:
                    for who in several if ranks > 1 else ["crema", *peers]:
                        yield name, ranks, link, who


def cell(values, digits=0):
    return (f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to "
            f"{max(values):,.{digits}f})")


def tables(results):
    """Prints images a second of all ranks, their efficiency, which is their share of ranks times
    one, and how many times as fast as PyTorch Crema is."""
    rates, medians = collections.defaultdict(dict), {}
    for key, seconds in results.items():
        if not key.startswith(("link/", "sums/")) and not key.endswith(BESIDE):
            who, name, ranks, link = key.split("/")
            rates[name, int(ranks), link][who] = [
                nets.NETS[name].batch * int(ranks) / s for s in seconds]
            medians[key] = statistics.median(rates[name, int(ranks), link][who])
    columns = sorted({who for row in rates.values() for who in row} - {"crema"})
    print("| net | ranks | link | " + " | ".join(columns) + " | ratio |\n|"
          + "---|" * (4 + len(columns)))
    for (name, ranks, link), row in sorted(rates.items()):
        cells = []
        for column in columns:
            who = column.partition(" ")[0] if ranks == 1 else column
            alone = medians.get(f"{column.partition(' ')[0]}/{name}/1/-")
            text = cell(row[who]) if who in row else ""
            if text and ranks > 1 and alone:
                text += f", {medians[f'{who}/{name}/{ranks}/{link}'] / ranks / alone:.0%}"
            cells.append(text)
        torch = medians.get(f"torch/{name}/{ranks}/{link}")
        ratios = [f"{medians[f'{who}/{name}/{ranks}/{link}'] / torch:.2f}"
                  for who in sorted(row) if torch and who != "torch"]
        print("| " + " | ".join([name, str(ranks), link, *cells, ", ".join(ratios)]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--python", help="with PyTorch; without it, Crema runs alone")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="is added to")
    parser.add_argument("--nets", default="lenet,cifar10_full,squeezenet_v1.1,resnet18")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--links", default="10G;1G;1G, 5 ms", help=f"of {'; '.join(LINKS)}")
    parser.add_argument("--launch", default="openmpi", help="of openmpi, mpich, tcp")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e6, help="no run starts after them")
    parser.add_argument("--bucket_mb", type=float, default=4)
    parser.add_argument("--train_flag", action="append", default=[])
    flags = parser.parse_args()
    flags.bin = flags.bin.resolve()
    results = json.loads(flags.out.read_text()) if flags.out.exists() else {}
    for link in flags.links.split(";"):
        with links.Links(2, tempfile.gettempdir(), *LINKS[link]) as place:
            results[f"link/{link}"] = place.measure()
        print(f"link/{link}: {results[f'link/{link}']}", file=sys.stderr)
    end, failed = time.monotonic() + 60 * flags.minutes, 0
    with tempfile.TemporaryDirectory() as work:
        race = Race(flags, work)
        for name, ranks, link, who in contests(flags):
            if time.monotonic() > end:
                print("the time is over", file=sys.stderr)
                break
            key = f"{who}/{name}/{ranks}/{link}"
            try:
                seconds = race.run(who, nets.NETS[name], ranks, link)
            except Failed as error:
                print(f"{key}: {error}", file=sys.stderr)
                failed += 1
                continue
            results.setdefault(key, []).extend(seconds)
            if who.startswith("crema ") and race.sums:
                results.setdefault(f"sums/{key}", []).extend(race.sums)
            print(f"{key}: {cell([1e3 * s for s in seconds], 1)} ms", file=sys.stderr, flush=True)
            flags.out.write_text(json.dumps(results, indent=1))
    tables(results)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
