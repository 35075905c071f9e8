#!/usr/bin/env python3
"""Measures the models of the zoo with ONNX Runtime, which shares no code with Crema.

    python3 bench/zoo_accuracy.py lenet IMAGES LABELS      # MNIST's t10k-*-ubyte.gz

Needs numpy and onnxruntime. Reads models/NAME/NAME.onnx, whose preprocessing is inside. Prints the number of test
images and the share whose class is right.
"""
import gzip
import pathlib
import sys

import numpy
import onnxruntime

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"


def mnist(images, labels):
    with gzip.open(images) as file:
        pixels = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(labels) as file:
        return pixels.astype(numpy.float32), numpy.frombuffer(file.read(), numpy.uint8, offset=8)


def main():
    name, images, labels = sys.argv[1:]
    pixels, truth = mnist(images, labels)
    session = onnxruntime.InferenceSession(str(MODELS / name / f"{name}.onnx"))
    feed = session.get_inputs()[0].name
    found = [session.run(None, {feed: pixels[i:i + 100]})[0].argmax(1) for i in range(0, len(pixels), 100)]
    print(f"{name}: {len(truth)} images, {numpy.mean(numpy.concatenate(found) == truth):.4f} right")


if __name__ == "__main__":
    main()
