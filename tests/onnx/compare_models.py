#!/usr/bin/env python3
"""Compares imported models with ONNX Runtime on random inputs.

Needs Python with onnxruntime and numpy, and the program build/dev/onnx_cases. Usage:
compare_models.py model.onnx[,input=1x3x224x224,...] ... Prints the largest difference of each output
and the largest value. Exits with 1 if a difference exceeds 1e-4 of it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

PROGRAM = "build/dev/onnx_cases"


def random_input(value, shape, random):
    if "int" not in value.type:
        return random.uniform(-1, 1, shape).astype(np.float32)
    whole = np.int64 if "64" in value.type else np.int32
    if "mask" in value.name:
        return np.ones(shape, whole)
    return random.integers(0, 2 if "type" in value.name else 1000, shape).astype(whole)


def compare(path, shapes):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, os.path.join(folder, "model.onnx"))
        feeds, lines = {}, []
        for index, value in enumerate(session.get_inputs()):
            shape = shapes.get(value.name) or [d if isinstance(d, int) else 1 for d in value.shape]
            feeds[value.name] = random_input(value, shape, random)
            np.save(os.path.join(folder, f"{index}.npy"),
                    np.asarray(feeds[value.name].astype(np.float32), order="C"))
            lines.append(f"{value.name}\t{index}.npy\n")
        with open(os.path.join(folder, "inputs.txt"), "w") as file:
            file.writelines(lines)
        done = subprocess.run([PROGRAM], input=folder + "\n", text=True, stdout=subprocess.PIPE)
        words = done.stdout.strip().split("\t")
        print(os.path.basename(path))
        if words[0] != "ok":
            print("  " + "\n  ".join(done.stdout.strip().split("|")))
            return False
        good = True
        for value, wanted in zip(session.get_outputs(), session.run(None, feeds)):
            place = words[1:].index(value.name)
            got = np.load(os.path.join(folder, f"output_{place}.npy"))
            if got.shape != wanted.shape:
                print(f"  {value.name}: {got.shape}, not {wanted.shape}")
                good = False
                continue
            most = np.abs(wanted).max(initial=0)
            difference = np.abs(got - wanted).max(initial=0)
            good = good and difference <= 1e-4 * most
            print(f"  {value.name} {got.shape}: differs by {difference:.2g} of {most:.2g}")
        return good


def main():
    results = []
    for argument in sys.argv[1:]:
        path, *entries = argument.split(",")
        shapes = {name: [int(d) for d in sizes.split("x")]
                  for name, sizes in (entry.split("=") for entry in entries)}
        results.append(compare(path, shapes))
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
