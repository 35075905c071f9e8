"""Measures what a call from Python costs: PYTHONPATH=build/python python bench/python/calls.py.

A net of one element computes nothing, so its time is that of the call. Medians of 20 rounds, in
turns. LeNet: the median of 10,000 calls, and that of `crema deploy bench`, which runs the same C++
code without Python. The Python data layer copies 64 images of 227 x 227 into the net.
"""

import json
import os
import statistics
import sys
import tempfile
import time

import numpy as np

import crema
from crema import _command

LENET = os.path.join(os.path.dirname(__file__), "../../models/lenet/deploy.prototxt")
TINY = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "out" type: "Bias" bottom: "data" top: "out" }
"""
IMAGES = (64, 3, 227, 227)


class Images:
    """A data layer that gives the same array again and again."""

    def __init__(self, param):
        pass

    def setup(self, bottom, top):
        self.images = np.random.rand(*IMAGES).astype(np.float32)

    def reshape(self, bottom, top):
        top[0].reshape(*IMAGES)

    def forward(self, bottom, top):
        top[0].data[...] = self.images


def seconds(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def median(call, count):
    values = [seconds(call, count) for _ in range(20)]
    quartiles = statistics.quantiles(values, n=4)
    return statistics.median(values), quartiles[0], quartiles[2]


def report(name, values, factor, unit):
    print(f"| {name} | {values[0] * factor:.1f} {unit} | "
          f"{values[1] * factor:.1f} to {values[2] * factor:.1f} |")


def report_lenet():
    with tempfile.TemporaryDirectory() as folder:
        weights = folder + "/lenet.caffemodel"
        crema.Net.open(LENET, 1, threads=1).save(weights)
        model = crema.Model.from_caffe(LENET, weights, threads=1)
        digit = np.ones((1, 1, 28, 28), np.float32)
        values = sorted(seconds(lambda: model.run(digit), 1) for _ in range(10000))
        report("Model.run of LeNet", (values[5000], values[2500], values[7500]), 1e6, "µs")
        flags = ["--model=" + LENET, "--weights=" + weights, "--threads=1", "--json"]
        bench = json.loads(_command.run("deploy", "bench", *flags))
        print(f"| the same in C++ | {bench['p50_ms'] * 1e3:.1f} µs | |")


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/tiny.prototxt", "w") as file:
            file.write(TINY)
        net = crema.Net.open(folder + "/tiny.prototxt", 1, threads=1)
        net.save(folder + "/tiny.caffemodel")
        model = crema.Model.from_caffe(
            folder + "/tiny.prototxt", [folder + "/tiny.caffemodel"], threads=1
        )
    inputs = {"data": np.ones((1, 1), np.float32)}
    blob = net.blob_list()[0]
    print("| call | median | quartiles |\n|---|---|---|")
    report("Model.run of one element", median(lambda: model.run(inputs), 2000), 1e6, "µs")
    report_lenet()
    report("Net.forward of one element", median(lambda: net.forward(0, 1), 2000), 1e6, "µs")
    report("blob.data", median(lambda: blob.data, 2000), 1e6, "µs")
    sys.modules["images_of_bench"] = sys.modules["__main__"]
    feed = crema.Net.parse(
        'layer { name: "d" type: "Python" top: "d" '
        'python_param { module: "images_of_bench" layer: "Images" } }', 0
    )
    values = median(lambda: feed.forward(0, 0), 3)
    gigabytes = np.prod(IMAGES) * 4 / 1e9
    print(f"| a Python data layer, 64 images of 227 x 227 | {gigabytes / values[0]:.1f} GB/s | "
          f"{gigabytes / values[2]:.1f} to {gigabytes / values[1]:.1f} |")


if __name__ == "__main__":
    main()
