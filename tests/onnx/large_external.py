#!/usr/bin/env python3
"""Imports an ONNX model whose weights are 2.25 GiB of external data, and refuses damaged ones.

usage: large_external.py BUILD/bin/import     (needs the package onnx; 8 GiB of memory)

The data are zeros of a sparse file, which takes no room on the disk; the weights that are written
take 2.25 GiB. Prints the peak memory of the import, and fails if it is above three times the
weights.
"""
import os
import resource
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

SIZES = [16384, 12288, 16384, 12288]
WEIGHTS = sum(4 * a * b for a, b in zip(SIZES, SIZES[1:]))


def model(folder, location="w.bin", offset=0):
    """Writes folder/m.onnx: three products with matrices of `location`, from `offset` on."""
    tensors, nodes = [], []
    for i, (rows, columns) in enumerate(zip(SIZES, SIZES[1:])):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[rows, columns])
        tensor.data_location = TensorProto.EXTERNAL
        length = 4 * rows * columns
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        offset += length
        tensors.append(tensor)
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "large", [value("x0", TensorProto.FLOAT, [1, SIZES[0]])],
        [value(f"x{len(nodes)}", TensorProto.FLOAT, [1, SIZES[-1]])], tensors)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), f"{folder}/m.onnx")


def run(tool, folder):
    return subprocess.run([tool, f"{folder}/m.onnx", "-o", f"{folder}/out"], capture_output=True,
                          text=True)


def expect_refusal(tool, folder, text):
    result = run(tool, folder)
    assert result.returncode in (2, 3), (text, result.returncode, result.stderr)
    assert text in result.stderr, (text, result.stderr)
    assert not os.path.exists(f"{folder}/out"), text
    print("refused:", result.stderr.strip()[-160:])


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def main():
    tool = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as outer:
        folder = f"{outer}/model"
        os.mkdir(folder)
        sparse(f"{outer}/outside.bin", WEIGHTS)
        os.symlink(f"{outer}/outside.bin", f"{folder}/link.bin")
        sparse(f"{folder}/w.bin", WEIGHTS - 1)
        model(folder)
        expect_refusal(tool, folder, "which has")  # truncated
        sparse(f"{folder}/w.bin", WEIGHTS)
        model(folder, offset=WEIGHTS)
        expect_refusal(tool, folder, "which has")
        model(folder, offset=2**62)
        expect_refusal(tool, folder, "external data with offset")
        model(folder, "../outside.bin")
        expect_refusal(tool, folder, "leaves the folder")
        model(folder, f"{outer}/outside.bin")
        expect_refusal(tool, folder, "absolute path")
        model(folder, "link.bin")
        expect_refusal(tool, folder, "link out of the folder")
        model(folder)
        result = run(tool, folder)
        assert result.returncode == 0, result.stderr
        peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"{WEIGHTS / 2**30:.2f} GiB of weights, peak {peak / 2**30:.2f} GiB")
        assert os.path.getsize(f"{folder}/out/weights.caffemodel.h5") > WEIGHTS
        assert peak < 3 * WEIGHTS


if __name__ == "__main__":
    main()
