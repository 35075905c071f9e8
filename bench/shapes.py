#!/usr/bin/env python3
"""Times single layers of published nets in Crema, OpenVINO and PyTorch, as a table of ratios.

    python bench/shapes.py [--build=build] [--precisions=fp32,bf16,int8,backward] [--batch=1]
                           [--turns=3] [--threads=2] [--passes=30]
                           [--only=SUBSTRING] [--json=FILE]

bench/shapes.csv has the layers: convolutions, and products of `height` rows. Each is the middle of
a net of three layers, so that blobs have the layout that they have inside a net; the time is that
of the layer alone, without reorders. Ratios are the peer's time divided by Crema's: below 1 Crema
is behind. OpenVINO is the peer of forward passes, PyTorch that of the backward pass (gradients of
input and weights, fp32). Prints Markdown: a summary, then each layer below 0.9.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANGE = 4.0  # of the activations in int8
SMALL = 16   # channels of the layers around


class Shape:
    def __init__(self, row):
        self.net, self.kind = row["net"], row["kind"]
        numbers = {key: int(value) for key, value in row.items() if key not in ("net", "kind")}
        self.inputs, self.outputs = numbers["in"], numbers["out"]
        self.kernel = numbers["kernel_h"], numbers["kernel_w"]
        self.pad = numbers["pad_h"], numbers["pad_w"]
        self.stride, self.dilation = numbers["stride"], numbers["dilation"]
        self.groups, self.size = numbers["groups"], (numbers["height"], numbers["width"])

    def name(self):
        if self.kind == "product":
            return f"{self.size[0]} x {self.inputs} to {self.outputs}"
        parts = [f"{self.inputs} to {self.outputs}, {self.kernel[0]} x {self.kernel[1]}",
                 f"map {self.size[0]} x {self.size[1]}"]
        for word, value in (("stride", self.stride), ("dilation", self.dilation),
                            ("groups", self.groups)):
            if value > 1:
                parts.append(f"{word} {value}")
        return ", ".join(parts)


def prototxt(shape, batch, precision):
    quant = {"fp32": "", "backward": "", "bf16": "precision: BF16 ",
             "int8": f"precision: INT8 int8 {{ bottom {{ max: {RANGE} }} top {{ max: {RANGE} }} }} "
             }[precision]
    if shape.kind == "product":
        layers = [("layer", "x", shape.outputs, f"inner_product_param {{ num_output: {shape.outputs} "
                   "weight_filler { type: 'xavier' } }")]
        kind, dims = "InnerProduct", (batch * shape.size[0], shape.inputs)
        last = SMALL
        layers.append(("after", "layer", last, f"inner_product_param {{ num_output: {last} "
                       "weight_filler { type: 'xavier' } }"))
    else:
        def convolution(outputs, rest):
            return (f"convolution_param {{ num_output: {outputs} weight_filler {{ type: 'msra' }} "
                    f"{rest} }}")
        own = (f"kernel_h: {shape.kernel[0]} kernel_w: {shape.kernel[1]} stride: {shape.stride} "
               f"pad_h: {shape.pad[0]} pad_w: {shape.pad[1]} group: {shape.groups} "
               f"dilation: {shape.dilation}")
        layers = [("before", "x", shape.inputs, convolution(shape.inputs, "kernel_size: 1")),
                  ("layer", "before", shape.outputs, convolution(shape.outputs, own)),
                  ("after", "layer", SMALL, convolution(SMALL, "kernel_size: 1"))]
        kind, dims = "Convolution", (batch, SMALL, *shape.size)
    text = ("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { "
            + " ".join(f"dim: {d}" for d in dims) + " } } "
            + (f"int8 {{ top {{ max: {RANGE} }} }} " if precision == "int8" else "") + "}\n")
    for name, bottom, _, param in layers:
        text += (f"layer {{ name: '{name}' type: '{kind}' bottom: '{bottom}' top: '{name}' {quant}"
                 f"{param} }}\n")
    if precision == "backward":
        text += ("layer { name: 'loss' type: 'Reduction' bottom: 'after' top: 'loss' "
                 "loss_weight: 1 }\n")
    return text


def crema_ms(options, shape, precision):
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(prototxt(shape, options.batch, precision))
        file.flush()
        done = subprocess.run(
            [options.build / "bin/profile", file.name, f"--threads={options.threads}",
             f"--phase={'train' if precision == 'backward' else 'test'}",
             f"--iterations={options.passes}", "--warmup=5", "--json", "--quiet",
             "--peak_gbs=1", "--peak_gflops=1"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    layer = next(one for one in json.loads(done.stdout)["layers"] if one["name"] == "layer")
    part = layer["backward" if precision == "backward" else "forward"]
    return part["median_ms"], layer["implementation"]


class OpenVino:
    """The three layers as an OpenVINO model; times come from its counters."""

    def __init__(self, options, shape, precision):
        import openvino
        from openvino import opset13 as op
        self.openvino, self.precision = openvino, precision
        random = np.random.default_rng(1)

        def quantized(node, most):
            if precision != "int8":
                return node
            return op.fake_quantize(node, np.float32(-most * 128 / 127), np.float32(most),
                                    np.float32(-most * 128 / 127), np.float32(most), 256)

        def weight(*dims):
            scale = 1 / np.sqrt(np.prod(dims[1:]))
            values = op.constant(random.normal(0, scale, dims).astype(np.float32))
            return quantized(values, np.float32(4 * scale))

        def bias(node, count, rank):
            dims = [1, count] + [1] * (rank - 2)
            return op.add(node, op.constant(np.full(dims, 0.1, np.float32)))

        def convolution(node, inputs, outputs, kernel, stride, pad, dilation, groups):
            dims = (outputs, inputs // groups, *kernel)
            node = quantized(node, RANGE)
            if groups > 1:
                weights = weight(groups, outputs // groups, inputs // groups, *kernel)
                node = op.group_convolution(node, weights, [stride] * 2, list(pad), list(pad),
                                            [dilation] * 2)
            else:
                node = op.convolution(node, weight(*dims), [stride] * 2, list(pad), list(pad),
                                      [dilation] * 2)
            return bias(node, outputs, 4)

        if shape.kind == "product":
            x = op.parameter([options.batch * shape.size[0], shape.inputs], np.float32)

            def product(node, inputs, outputs):
                node = op.matmul(quantized(node, RANGE), weight(outputs, inputs), False, True)
                return bias(node, outputs, 2)
            layer = product(x, shape.inputs, shape.outputs)
            last = product(layer, shape.outputs, SMALL)
        else:
            x = op.parameter([options.batch, SMALL, *shape.size], np.float32)
            before = convolution(x, SMALL, shape.inputs, (1, 1), 1, (0, 0), 1, 1)
            layer = convolution(before, shape.inputs, shape.outputs, shape.kernel, shape.stride,
                                shape.pad, shape.dilation, shape.groups)
            last = convolution(layer, shape.outputs, SMALL, (1, 1), 1, (0, 0), 1, 1)
        kind = {"bf16": "bf16"}.get(precision, "f32")
        compiled = openvino.compile_model(
            openvino.Model([last], [x]), "CPU",
            {"INFERENCE_NUM_THREADS": options.threads, "PERF_COUNT": "YES",
             "INFERENCE_PRECISION_HINT": kind, "NUM_STREAMS": "1"})
        self.request = compiled.create_infer_request()
        self.data = random.normal(size=[int(d) for d in x.shape]).astype(np.float32)
        self.which = 0 if shape.kind == "product" else 1

    def ms(self, passes):
        times = []
        for turn in range(passes + 5):
            self.request.infer([self.data])
            if turn < 5:
                continue
            ran = [one for one in self.request.profiling_info
                   if one.status == self.openvino.ProfilingInfo.Status.EXECUTED
                   and one.node_type in ("Convolution", "GroupConvolution", "MatMul",
                                         "FullyConnected")]
            times.append(ran[self.which].real_time.total_seconds() * 1e3)
        return statistics.median(times)


class Torch:
    """The backward pass of the layer in PyTorch, the faster of its two layouts."""

    def __init__(self, options, shape):
        import torch
        torch.set_num_threads(options.threads)
        self.runs = []
        for layout in (torch.contiguous_format, torch.channels_last):
            if shape.kind == "product":
                if layout == torch.channels_last:
                    continue
                module = torch.nn.Linear(shape.inputs, shape.outputs)
                x = torch.randn(options.batch * shape.size[0], shape.inputs)
            else:
                module = torch.nn.Conv2d(shape.inputs, shape.outputs, shape.kernel, shape.stride,
                                         shape.pad, shape.dilation, shape.groups)
                module = module.to(memory_format=layout)
                x = torch.randn(options.batch, shape.inputs, *shape.size).to(memory_format=layout)
            x.requires_grad_(True)
            self.runs.append((module, x, torch.ones_like(module(x))))

    def ms(self, passes):
        medians = []
        for module, x, ones in self.runs:
            times = []
            for turn in range(passes + 3):
                y = module(x)
                module.zero_grad(set_to_none=False)
                x.grad = None
                begin = time.perf_counter()
                y.backward(ones)
                if turn >= 3:
                    times.append((time.perf_counter() - begin) * 1e3)
            medians.append(statistics.median(times))
        return min(medians)


def measure(options, shape, precision):
    peer = Torch(options, shape) if precision == "backward" else OpenVino(options, shape, precision)
    turns = []
    for _ in range(options.turns):
        ours, implementation = crema_ms(options, shape, precision)
        turns.append((peer.ms(options.passes) / ours, ours))
    return {"net": shape.net, "shape": shape.name(), "precision": precision,
            "ratio": statistics.median(ratio for ratio, _ in turns),
            "low": min(ratio for ratio, _ in turns), "high": max(ratio for ratio, _ in turns),
            "crema_ms": statistics.median(ms for _, ms in turns), "implementation": implementation}


def report(options, rows, failed):
    print("| | layers | below 0.9 | median | lowest | highest |\n|---|---|---|---|---|---|")
    for precision in options.precisions:
        ratios = sorted(row["ratio"] for row in rows if row["precision"] == precision)
        if ratios:
            print(f"| {precision} | {len(ratios)} | {sum(r < 0.9 for r in ratios)} | "
                  f"{statistics.median(ratios):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} |")
    print("\n| below 0.9 | net | layer | ratio | Crema ms | implementation |\n|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda one: (one["precision"], one["ratio"])):
        if row["ratio"] < 0.9:
            print(f"| {row['precision']} | {row['net']} | {row['shape']} | {row['ratio']:.2f} "
                  f"({row['low']:.2f} to {row['high']:.2f}) | {row['crema_ms']:.3f} | "
                  f"{row['implementation']} |")
    for line in failed:
        print(f"\nnot measured: {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--precisions", default="fp32,bf16,int8,backward")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.precisions = options.precisions.split(",")
    rows, failed = [], []
    with open(ROOT / "bench/shapes.csv", encoding="utf-8") as file:
        shapes = [Shape(row) for row in csv.DictReader(file)]
    for number, shape in enumerate(shapes):
        if options.only not in f"{shape.net} {shape.name()}":
            continue
        for precision in options.precisions:
            try:
                rows.append(measure(options, shape, precision))
            except RuntimeError as error:
                failed.append(f"{precision}, {shape.net}, {shape.name()}: {error}")
        print(f"\r{number + 1} of {len(shapes)}", end="", file=sys.stderr)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print(file=sys.stderr)
    report(options, rows, failed)


if __name__ == "__main__":
    main()
