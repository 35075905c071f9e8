#!/usr/bin/env python3
"""Compares imported nets that ONNX Runtime quantized with the run of ONNX Runtime.

Needs Python with onnx, onnxruntime and numpy, and the programs build/dev/onnx_cases and
build/bin/import. Makes a residual net of random weights, quantizes it in several forms, and prints
for each: how many of its seven products compute on bytes, and the noise against ONNX Runtime's run of
the same file and of the net before. Exits with 1 if a form with symmetric or non-negative blobs has
less than six such products, or a noise above 5 % of the largest output.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SHAPE = [1, 16, 24, 24]


class Inputs(CalibrationDataReader):
    def __init__(self, count):
        random = np.random.default_rng(1)
        self.items = iter([{"x": random.normal(size=SHAPE).astype(np.float32)}
                           for _ in range(count)])

    def get_next(self):
        return next(self.items, None)


def make_model():
    random = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name, *dims):
        scale = (2 / np.prod(dims[1:])) ** 0.5
        weights.append(numpy_helper.from_array(
            (random.normal(size=dims) * scale).astype(np.float32), name))
        return name

    def conv(name, bottom, outputs, inputs, kernel, stride=1):
        weights.append(numpy_helper.from_array(
            (0.1 * random.normal(size=[outputs])).astype(np.float32), name + "_b"))
        nodes.append(helper.make_node(
            "Conv", [bottom, weight(name + "_w", outputs, inputs, kernel, kernel), name + "_b"],
            [name], name=name, kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4,
            strides=[stride, stride]))
        return name

    def add(op, *bottoms, **attributes):
        name = f"{op}{len(nodes)}"
        nodes.append(helper.make_node(op, list(bottoms), [name], name=name, **attributes))
        return name

    x = add("Relu", conv("c1", "x", 32, 16, 3))
    x = add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for i in range(2):
        y = add("Relu", conv(f"r{i}a", x, 32, 32, 3))
        y = conv(f"r{i}b", y, 32, 32, 3)
        x = add("Relu", add("Add", x, y))
    x = add("Relu", conv("c2", x, 64, 32, 3, 2))
    x = add("Flatten", add("GlobalAveragePool", x))
    nodes.append(helper.make_node("Gemm", [x, weight("fc_w", 100, 64), "fc_b"], ["y"], name="fc",
                                  transB=1))
    weights.append(numpy_helper.from_array(np.zeros(100, np.float32), "fc_b"))
    graph = helper.make_graph(
        nodes, "residual", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 100])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run_runtime(path, x):
    options = SessionOptions()
    options.log_severity_level = 4
    return InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def run_crema(path, x):
    folder = os.path.dirname(path)
    np.save(os.path.join(folder, "x.npy"), x)
    with open(os.path.join(folder, "inputs.txt"), "w") as file:
        file.write("x\tx.npy\n")
    done = subprocess.run(["build/dev/onnx_cases"], input=folder + "\n", text=True,
                          stdout=subprocess.PIPE)
    if not done.stdout.startswith("ok"):
        raise SystemExit(done.stdout)
    out = os.path.join(folder, "net")
    subprocess.run(["build/bin/import", path, "-o", out], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "deploy.prototxt")) as file:
        layers = file.read().split("layer {")
    products = sum(('type: "Convolution"' in text or 'type: "InnerProduct"' in text)
                   and "int8 {" in text and "bottom {" in text for text in layers)
    return np.load(os.path.join(folder, "output_0.npy")), products


def main():
    forms = {
        "QDQ, symmetric, by channel": (QuantFormat.QDQ, QuantType.QInt8, True, True),
        "QDQ, symmetric, one scale": (QuantFormat.QDQ, QuantType.QInt8, True, False),
        "QDQ, asymmetric int8": (QuantFormat.QDQ, QuantType.QInt8, False, True),
        "QDQ, asymmetric uint8": (QuantFormat.QDQ, QuantType.QUInt8, False, True),
        "QLinear operators": (QuantFormat.QOperator, QuantType.QInt8, True, True),
    }
    good = True
    x = np.random.default_rng(2).normal(size=SHAPE).astype(np.float32)
    for name, (form, kind, symmetric, by_channel) in forms.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "float.onnx")
            onnx.save(make_model(), path)
            exact = run_runtime(path, x)
            quantized = os.path.join(folder, "model.onnx")
            quantize_static(path, quantized, Inputs(16), quant_format=form, activation_type=kind,
                            weight_type=QuantType.QInt8, per_channel=by_channel,
                            extra_options={"ActivationSymmetric": symmetric})
            wanted = run_runtime(quantized, x)
            try:
                got, products = run_crema(quantized, x)
            except SystemExit as error:
                print(f"{name}: {error}")
                continue
            most = np.abs(wanted).max()
            noise, own = np.abs(got - wanted).max() / most, np.abs(got - exact).max() / most
            theirs = np.abs(wanted - exact).max() / most
            print(f"{name}: {products} of 7 products on bytes, {100 * noise:.2f} % from ONNX Runtime, "
                  f"{100 * own:.2f} % from the float net (ONNX Runtime {100 * theirs:.2f} %)")
            if symmetric and form == QuantFormat.QDQ:
                good = good and products >= 6 and noise < 0.05
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
