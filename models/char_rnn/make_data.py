#!/usr/bin/env python3
"""Writes the HDF5 files that train_val.prototxt reads. usage: make_data.py TEXT [FOLDER]

The 64 most frequent characters have numbers of their own; all others share the last one.
"""
import collections
import os
import sys

import h5py
import numpy as np

TEXTS = 50  # read side by side
CLASSES = 65


def write(path, codes):
    steps = (len(codes) - 1) // TEXTS
    x = codes[: steps * TEXTS].reshape(TEXTS, steps).T
    y = codes[1 : steps * TEXTS + 1].reshape(TEXTS, steps).T
    cont = np.ones((steps, TEXTS), np.float32)
    cont[0] = 0
    with h5py.File(path, "w") as file:
        file["data"] = np.eye(CLASSES, dtype=np.float32)[x]
        file["cont"] = cont
        file["label"] = y.astype(np.float32)


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    folder = sys.argv[2] if len(sys.argv) > 2 else "data/char_rnn"
    os.makedirs(folder, exist_ok=True)
    frequent = [c for c, _ in collections.Counter(text).most_common(CLASSES - 1)]
    number = {c: i for i, c in enumerate(sorted(frequent))}
    codes = np.array([number.get(c, CLASSES - 1) for c in text])
    split = int(len(codes) * 0.95)
    for phase, part in (("train", codes[:split]), ("test", codes[split:])):
        path = os.path.join(folder, phase + ".h5")
        write(path, part)
        with open(os.path.join(folder, phase + "_files.txt"), "w") as listing:
            listing.write(path + "\n")


main()
