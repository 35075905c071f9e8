#!/usr/bin/env python3
"""A model of an iteration on several ranks: backward times of the layers, buckets, links.

    bench/scale/model.py --bin=build/bin [--race=race.json] [--extrapolate]

--race compares the model with the runs that ddp_race.py has recorded. Times of layers come from
`profile`, one thread. The file also has what ranks cost each other on shared cores (trainings
beside each other), what a byte costs a processor (the net "sums"), and what links carry (plain
sockets). Nothing is fitted to the runs that are compared. --extrapolate prints numbers of the model
for GPUs and networks that were not measured; ASSUMED has what it assumes."""
import argparse
import collections
import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

import measured_nets

sys.path.append(str(measured_nets.HERE.parent / "gpu"))
import nets as gpu_nets  # noqa: E402

MB = 1e6
MESSAGE = 50e-6  # seconds of software for a message


@dataclasses.dataclass(frozen=True)
class Layer:
    forward: float  # seconds
    backward: float
    bytes: int  # of its gradients


@dataclasses.dataclass(frozen=True)
class Sum:
    """Of one bucket: seconds before anything flows, on the wire, and of the rank's processor."""

    latency: float
    wire: float
    processor: float = 0.0


@dataclasses.dataclass(frozen=True)
class Iteration:
    seconds: float
    exposed: float  # part of it in which the rank only waits for sums
    sums: float  # seconds in which some sum is made


def buckets(layers, limit, small=0):
    """(bytes, layer whose backward pass completes them), as gradient_buckets.cc and
    process_collective.cc make them: from the last layer, of `limit` bytes or more, then cut. With
    `small` the first has as many or more, the last as many or less."""
    groups, size, left = [], 0, sum(layer.bytes for layer in layers)
    for i in reversed(range(len(layers))):
        size += layers[i].bytes
        left -= layers[i].bytes
        full = size >= (limit if groups or not small else small)
        if layers[i].bytes and (full or left <= small < left + size):
            groups.append((size, i))
            size = 0
    if size:
        groups.append((size, next(i for i, layer in enumerate(layers) if layer.bytes)))
    for size, after in groups:
        while size > 0:
            yield min(size, limit), after
            size -= limit


def iterate(layers, rest, sum_of, limit=25 * MB, slowdown=1.0, small=0):
    """One iteration. `rest`: seconds of the update and all that follows the sums; `sum_of(bytes)`:
    a Sum; `slowdown`: of computing, by other ranks on the same core. A sum and the layers share a
    core: a sum gets half of it at most while layers compute. With `small`, as in buckets, messages
    of a sum flow before those of the last one have come."""
    waiting = collections.deque(buckets(layers, limit, small))
    forward = slowdown * sum(layer.forward for layer in layers)
    work = collections.deque((slowdown * layers[i].backward, i)
                             for i in reversed(range(len(layers))))
    ready, time, sums, computed = collections.deque(), forward, 0.0, forward
    left, current, flows = work.popleft(), None, False
    while left is not None or waiting or ready or current:
        if current is None and ready:
            cost = sum_of(ready.popleft())
            current = [0.0 if flows else cost.latency, 1.0, cost]
        if left is None and current is None:
            break
        # Until the latency, the sum, or the layer ends.
        speed, rate = 1.0, 0.0
        if current and current[0] <= 0:
            share = 0.5 if left is not None else 1.0
            full = max(current[2].wire, current[2].processor * slowdown / share, 1e-12)
            rate = 1 / full
            speed -= current[2].processor * slowdown / full if left is not None else 0.0
        steps = [left[0] / speed] if left is not None else []
        if current:
            steps.append(current[0] if current[0] > 0 else current[1] / rate)
        step = min(steps)
        time += step
        if current:
            sums += step
            if current[0] > 0:
                current[0] -= step
            else:
                current[1] -= step * rate
            if current[0] <= 1e-12 and current[1] <= 1e-9:
                current, flows = None, small > 0 and len(ready) > 0
        if left is not None:
            left = (left[0] - step * speed, left[1])
            if left[0] <= 1e-12:
                while waiting and waiting[0][1] >= left[1]:
                    ready.append(waiting.popleft()[0])
                computed = time
                left = work.popleft() if work else None
    return Iteration(time + slowdown * rest, time - computed, sums)


def direct(ranks, rate, delay, processor=0.0, eager=65536):
    """process_collective.cc: each rank sums one piece, then sends it to all. `rate`: bytes a second
    of its link, in each direction; `delay`: one way; `processor`: seconds for each byte that is
    sent and one that is received. Large messages ask before they come."""

    def cost(size):
        sent = 2 * size * (ranks - 1) / ranks
        ways = 3 if size / ranks > eager else 1
        return Sum(2 * (ways * delay + (ranks - 1) * MESSAGE), sent / rate, sent * processor)

    return cost


# --- Measured runs ---

def tool(binary, *arguments):
    done = subprocess.run([binary, *arguments, "--json", "--quiet"], stdout=subprocess.PIPE,
                          text=True, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def seconds_of(layer, which):
    return layer[which]["median_ms"] / 1e3 if layer[which] else 0.0


def profiled(bin_, path, *more):
    """(layer of `profile`, layer of `summary`) of a training net; fused layers have no times."""
    model = f"--model={path}"
    times = tool(bin_ / "profile", model, "--threads=1", "--peak_gbs=1", "--peak_gflops=1", *more)
    sizes = tool(bin_ / "summary", model, "--phase=train",
                 *(flag for flag in more if flag.startswith("--batch")))
    by_name = {layer["name"]: layer for layer in times["layers"]}
    none = {"forward": None, "backward": None}
    return [(by_name.get(layer["name"], none), layer) for layer in sizes["layers"]]


def layers_of(bin_, net, folder):
    path = pathlib.Path(folder) / "net.prototxt"
    path.write_text(measured_nets.text_of(net))
    return [Layer(seconds_of(times, "forward"), seconds_of(times, "backward"),
                  4 * size["parameters"])
            for times, size in profiled(bin_, path, "--iterations=20")]


def compare(bin_, race, who, cores, limit):
    """Prints measured and computed times of each run of Crema in the file. In each iteration ranks
    exchange notes with rank 0 once, while sums go on."""
    median = {key: statistics.median(values) for key, values in race.items()
              if not key.startswith("sums/")}
    byte = median[f"{who}/sums/2/local"] - median["crema/sums/1/-"]
    byte /= measured_nets.SUMS_BYTES  # sent and received by each of two ranks
    print(f"{who}: a byte sent and received costs {1e9 * byte:.2f} ns of a processor.\n")
    print("| net | ranks | link | measured, ms | model, ms | model / measured | sums, ms | model | "
          "exposed, ms | model |\n|" + "---|" * 10)
    ratios = []
    for name, net in measured_nets.NETS.items():
        runs = [key.split("/") for key in race if key.startswith(f"{who}/{name}/")]
        if name == "sums" or f"crema/{name}/1/-" not in race:
            continue
        with tempfile.TemporaryDirectory() as folder:
            layers = layers_of(bin_, net, folder)
        alone = median[f"crema/{name}/1/-"]
        # Clocks between layers cost time, and `profile` may have had less of the machine.
        rest = alone - sum(layer.forward + layer.backward for layer in layers)
        if rest < 0:
            layers = [Layer(layer.forward * alone / (alone - rest),
                            layer.backward * alone / (alone - rest), layer.bytes)
                      for layer in layers]
            rest = 0.0
        for _, _, ranks, link in runs:
            rate, trip = race[f"link/{link}"]
            slowdown = max(1.0, int(ranks) / cores)
            busy = median[f"crema/{name}/{ranks}/beside"] / alone / slowdown
            slower = [Layer(busy * layer.forward, busy * layer.backward, layer.bytes)
                      for layer in layers]
            # MPI asks before it sends a large message; over TCP it is sent at once.
            eager = math.inf if who.endswith("tcp") else 65536
            cost = direct(int(ranks), rate, trip / 2, byte, eager)
            note = trip + 2 * (int(ranks) - 1) * MESSAGE
            result = iterate(slower, busy * rest, cost, limit, slowdown, limit / 4)
            seconds = result.seconds + max(0.0, note - result.exposed)
            measured = median[f"{who}/{name}/{ranks}/{link}"]
            ratios.append(seconds / measured)
            parts = race.get(f"sums/{who}/{name}/{ranks}/{link}")
            made, exposed = ([f"{1e3 * statistics.median(part):.1f}" for part in zip(*parts)]
                             if parts else ["", ""])
            print(f"| {name} | {ranks} | {link} | {1e3 * measured:.1f} | {1e3 * seconds:.1f} | "
                  f"{ratios[-1]:.2f} | {made} | {1e3 * result.sums:.1f} | {exposed} | "
                  f"{1e3 * result.exposed:.1f} |")
    print(f"\nmodel / measured: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to "
          f"{max(ratios):.2f}, {len(ratios)} runs")


# --- Numbers of the model alone ---

ASSUMED = """\
f32 gradients, buckets of 25 MB, all GPUs equally fast, no waiting for data. Layers share the time
of an iteration on one GPU as the larger of operations at 793 TFLOP/s and bytes at 4.8 TB/s does,
the backward pass twice the forward pass. Sums take no time from the layers. A sum takes 20 us to
start, then the shorter of a ring, 2 (n - 1) / n x bytes / bus + 2 (n - 1) hops, and a double
tree, 2 x bytes / bus + 2 (GPUs of a node + log2 of the nodes) hops. Hops: 3 us inside a node, 8
us between nodes. Bus: 360 GB/s inside a node, 85 % of its links between nodes."""
BANDWIDTH, OPERATIONS, START = 4.8e12, 793e12, 20e-6
HOP_INSIDE, HOP_BETWEEN = 3e-6, 8e-6


@dataclasses.dataclass(frozen=True)
class Cluster:
    name: str
    gpus: int  # of a node
    inside: float  # bytes a second of the bus of a node
    between: float  # of all links of a node, in each direction


CLUSTERS = (Cluster("8 GPUs and 8 x 400 Gbit/s a node", 8, 360e9, 0.85 * 8 * 50e9),
            Cluster("8 GPUs and 1 x 100 Gbit/s a node", 8, 360e9, 0.85 * 12.5e9),
            Cluster("1 GPU and 10 Gbit/s a node", 1, 360e9, 0.85 * 1.25e9))
GPU_NETS = (  # name, batch, seconds of an iteration on one GPU, and where they come from
    ("resnet50", 256, 256 / 6332.7, "measured: H200, BF16"),
    ("vgg16", 128, None, "not measured: products at a quarter of 793 TFLOP/s"),
    ("gpt2_small", 32, 32 / 901.9, "measured: H200, BF16, 256 tokens"))


def nccl(cluster, gpus):
    """Sums as NCCL makes them."""
    nodes = max(1, gpus // cluster.gpus)
    bus = cluster.inside if nodes == 1 else min(cluster.inside, cluster.between)
    inside = gpus - nodes
    ring_hops = 2 * (inside * HOP_INSIDE + (nodes if nodes > 1 else 0) * HOP_BETWEEN)
    tree_hops = 2 * (min(gpus, cluster.gpus) * HOP_INSIDE + math.log2(nodes) * HOP_BETWEEN)

    def cost(size):
        ring = (2 * (gpus - 1) / gpus * size / bus, ring_hops)
        tree = (2 * size / bus, tree_hops)
        wire, hops = min(ring, tree, key=sum)
        return Sum(START + hops, wire)

    return cost


def gpu_layers(bin_, name, batch, seconds, folder):
    path = measured_nets.MODELS / name / "train_val.prototxt"
    if name == "gpt2_small":
        gpu_nets.write_gpt(folder)
        path = pathlib.Path(folder) / "gpt2_small.prototxt"
    more = [] if name == "gpt2_small" else ["--batch=1"]
    rows = tool(bin_ / "summary", f"--model={path}", "--phase=train", *more)["layers"]
    # Of one sample; outputs are f32 there and have two bytes on the GPU, read and written.
    share = [max(2 * batch * row["macs"] / OPERATIONS, batch * row["bytes"] / BANDWIDTH)
             for row in rows]
    if seconds is None:
        seconds = 3 * 2 * batch * sum(row["macs"] for row in rows) / (OPERATIONS / 4)
    scale = seconds / 3 / sum(share)
    return [Layer(scale * one, 2 * scale * one, 4 * row["parameters"])
            for one, row in zip(share, rows)]


def extrapolate(bin_):
    counts = (8, 64, 256, 1024)
    print(f"These are numbers of the model. Assumed: {ASSUMED}\n")
    print("| net, images or sequences of a GPU | gradients, MB | one GPU, ms | network | "
          + " | ".join(f"{n} GPUs" for n in counts) + " |\n|" + "---|" * (4 + len(counts)))
    for name, batch, seconds, _ in GPU_NETS:
        with tempfile.TemporaryDirectory() as folder:
            layers = gpu_layers(bin_, name, batch, seconds, folder)
        alone = sum(layer.forward + layer.backward for layer in layers)
        size = sum(layer.bytes for layer in layers) / MB
        for cluster in CLUSTERS:
            results = [iterate(layers, 0.0, nccl(cluster, n)) for n in counts]
            cells = [f"{alone / r.seconds:.0%}, {1e3 * r.exposed:.1f} of {1e3 * r.sums:.1f}"
                     for r in results]
            print(f"| {name}, {batch} | {size:.0f} | {1e3 * alone:.1f} | {cluster.name} | "
                  + " | ".join(cells) + " |")
    print("\nA cell: efficiency, and the ms of sums that are exposed, of those of all sums.\n")
    print("| ms of 100 MB of gradients on 10 Gbit/s | " + " | ".join(map(str, counts))
          + " |\n|" + "---|" * (1 + len(counts)))
    link = CLUSTERS[2].between
    for name, cost_of in (("a ring or tree of GPUs, as above", lambda n: nccl(CLUSTERS[2], n)),
                          ("process_collective.cc on CPUs, without the work of the processor",
                           lambda n: direct(n, link, HOP_BETWEEN))):
        costs = [cost_of(n)(25 * MB) for n in counts]
        cells = [f"{4e3 * (c.latency + c.wire):.0f}" for c in costs]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--race", type=pathlib.Path)
    parser.add_argument("--launch", default="openmpi")
    parser.add_argument("--cores", type=int, default=2, help="of the machine of the race")
    parser.add_argument("--bucket_mb", type=float, default=4)
    parser.add_argument("--extrapolate", action="store_true")
    flags = parser.parse_args()
    if flags.race:
        compare(flags.bin, json.loads(flags.race.read_text()), f"crema {flags.launch}", flags.cores,
                flags.bucket_mb * MB)
    if flags.extrapolate:
        extrapolate(flags.bin)


if __name__ == "__main__":
    main()
