#!/usr/bin/env python3
"""Writes models/zoo.json: the models that have weights, with the sizes and sums of their files.

Usage: scripts/zoo_list.py. A model is listed here with its summary; its files are those in its folder that are
named after it, its nets, labels and recipe.
"""
import hashlib
import json
import pathlib

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
SUMMARIES = {
    "lenet": "LeNet on MNIST, gray 28 x 28: the digits 0 to 9",
}


def files_of(name):
    for file in sorted((MODELS / name).iterdir()):
        own = file.stem == name and file.suffix in {".caffemodel", ".crema", ".onnx"}
        if own or file.suffix == ".prototxt" or file.name in {"README.md", "labels.txt", "train.sh"}:
            data = file.read_bytes()
            yield {"path": f"{name}/{file.name}", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


models = [{"name": name, "summary": text, "license": "BSD-2-Clause", "files": list(files_of(name))}
          for name, text in sorted(SUMMARIES.items())]
(MODELS / "zoo.json").write_text(json.dumps({"schema": 1, "models": models}, indent=1) + "\n")
