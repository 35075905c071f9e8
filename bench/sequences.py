#!/usr/bin/env python3
"""Training on sequences of several lengths: padded to the longest of all (HDF5Data), and in
batches of similar length (HDF5SequenceData).

Usage: bench/sequences.py BUILD_DIR [THREADS]
Writes bench/results/sequences.md. Needs h5py and NumPy. Three nets: labels of all steps, two LSTMs of
128 units on 65 classes, as models/char_rnn; CTC, one LSTM of 128 units in both directions; LRCN, a
small convolutional net on each frame of a clip, then an LSTM of 64 units, as models/lrcn. Two sets
for each, of sequences of 10 to 200 steps (clips: 5 to 100 frames): lengths equally likely, and their
logarithms equally likely, so that most are short. Both ways are measured in turns, ROUNDS times.
"""
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROUNDS = 3
NETS = {  # title, sequences, shortest, longest, batch, classes, epochs that are measured
    "labels": ("two LSTMs, labels of all steps", 1024, 10, 200, 32, 65, 2),
    "ctc": ("LSTM, CTC", 1024, 10, 200, 32, 65, 2),
    "lrcn": ("LRCN: convolutions on frames, LSTM", 256, 5, 100, 16, 20, 12),
}
SIDE = 20  # of a frame


def write_set(path, kind, lengths):
    _, rows, _, steps, _, classes, _ = NETS[kind]
    random = np.random.default_rng(2)
    inside = np.arange(steps) < lengths[:, None]
    labels = random.integers(0, classes, (rows, steps))
    with h5py.File(path, "w") as file:
        if kind == "lrcn":
            frames = random.standard_normal((rows, steps, 3, SIDE, SIDE), np.float32)
            file["data"] = frames * inside[:, :, None, None, None]
        else:
            file["data"] = (np.eye(classes, dtype=np.float32)[labels] * inside[:, :, None])
        file["cont"] = (inside & (np.arange(steps) > 0)).astype(np.float32)
        file["label"] = np.where(inside, labels, -1).astype(np.float32)
        file["length"] = lengths.astype(np.float32)
        target = np.where(np.arange(100) < lengths[:, None] // 4, 1 + labels[:, :100] % 9, -1)
        file["target"] = target.astype(np.float32)


UNIFORM = 'weight_filler { type: "uniform" min: -0.08 max: 0.08 }'


def frames_to_features(batch):
    """The layers of LRCN from the frames, by step, to features, by step."""
    return f"""layer {{ name: "frames" type: "Reshape" bottom: "data_by_step" top: "frames"
  reshape_param {{ axis: 0 num_axes: 2 shape {{ dim: -1 }} }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "frames" top: "conv1"
  convolution_param {{ num_output: 16 kernel_size: 5 stride: 2 {UNIFORM} }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param {{ num_output: 32 kernel_size: 3 pad: 1 {UNIFORM} }} }}
layer {{ name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }}
layer {{ name: "fc6" type: "InnerProduct" bottom: "conv2" top: "fc6" inner_product_param {{ num_output: 64 {UNIFORM} }} }}
layer {{ name: "relu6" type: "ReLU" bottom: "fc6" top: "fc6" }}
layer {{ name: "features" type: "Reshape" bottom: "fc6" top: "features"
  reshape_param {{ axis: 0 num_axes: 1 shape {{ dim: -1 dim: {batch} }} }} }}
"""


def net(kind, folder, by_length):
    batch, classes = NETS[kind][4:6]
    labelled = kind != "ctc"
    tops = ["data", "cont", "label" if labelled else "target", "length"]
    layer = "HDF5SequenceData" if by_length else "HDF5Data"
    text = f"""layer {{ name: "data" type: "{layer}" {" ".join(f'top: "{t}"' for t in tops)}
  hdf5_data_param {{ source: "{folder}/list.txt" batch_size: {batch} shuffle: true }} }}
"""
    for name in ["data", "cont"] + (["label"] if labelled else []):
        text += f"""layer {{ name: "{name}_by_step" type: "Permute" bottom: "{name}" top: "{name}_by_step"
  permute_param {{ order: 1 order: 0 }} }}
"""
    bottom = "data_by_step"
    if kind == "lrcn":
        text += frames_to_features(batch)
        bottom = "features"
    for i in range(2 if kind == "labels" else 1):
        direction = "direction: BIDIRECTIONAL " if kind == "ctc" else ""
        text += f"""layer {{ name: "lstm{i}" type: "LSTM" bottom: "{bottom}" bottom: "cont_by_step" top: "lstm{i}"
  recurrent_param {{ num_output: {64 if kind == "lrcn" else 128} {direction}{UNIFORM} }} }}
"""
        bottom = f"lstm{i}"
    text += f"""layer {{ name: "scores" type: "InnerProduct" bottom: "{bottom}" top: "scores"
  inner_product_param {{ num_output: {classes if labelled else 10} axis: 2 {UNIFORM} }} }}
"""
    if labelled:
        return text + """layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label_by_step" top: "loss"
  softmax_param { axis: 2 } loss_param { ignore_label: -1 } }
"""
    return text + """layer { name: "loss" type: "CTCLoss" bottom: "scores" bottom: "target" bottom: "length" top: "loss"
  ctc_loss_param { zero_infinity: true } }
"""


def cpu_seconds(train, threads, folder, name, epochs):
    """Returns the processor time of a training."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [train, f"--solver={folder}/{name}_solver.prototxt", "--run=none", f"--threads={threads}",
         f"--set=max_epoch={epochs}", "--quiet"],
        check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rate(train, threads, folder, kind, by_length):
    """Returns the sequences in a second of processor time, without the start of the command."""
    name = f"{kind}_{by_length}"
    with open(f"{folder}/{name}.prototxt", "w") as file:
        file.write(net(kind, folder, by_length))
    with open(f"{folder}/{name}_solver.prototxt", "w") as file:
        file.write(
            f'net: "{folder}/{name}.prototxt" base_lr: 0.002 type: "Adam" momentum: 0.9 lr_policy: '
            '"fixed" max_epoch: 1 random_seed: 1 snapshot_after_train: false'
        )
    epochs = NETS[kind][6]
    start, all_of_it = (cpu_seconds(train, threads, folder, name, e) for e in (1, 1 + epochs))
    return epochs * NETS[kind][1] / (all_of_it - start)


def lengths_of(name, rows, shortest, longest):
    random = np.random.default_rng(1)
    if name == "equally likely":
        return random.integers(shortest, longest + 1, rows)
    return np.exp(random.uniform(np.log(shortest), np.log(longest + 1), rows)).astype(int)


def main():
    train = os.path.join(sys.argv[1], "bin/train")
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with open("/proc/cpuinfo") as file:
        processor = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    lines = [
        "# Sequences of several lengths",
        "",
        f"`bench/sequences.py build {threads}`, {time.strftime('%Y-%m-%d')}, {processor}, {threads} "
        f"thread{'s' if threads > 1 else ''}. Sequences in a second of processor time (other programs ran beside it), padded to "
        "the longest of all (HDF5Data), and in batches of similar length (HDF5SequenceData): medians of "
        f"{ROUNDS} rounds, in each of which both ran in turns, with the factors of the rounds. "
        "\"at most\" is the number of steps padded to those that count; CTC itself skips padding in both.",
        "",
        "| net | sequences, steps, batch | lengths | padded | similar lengths | factor | of the rounds | at most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("equally likely", "most are short"):
        for kind, (title, rows, shortest, longest, batch, _, _) in NETS.items():
            lengths = lengths_of(name, rows, shortest, longest)
            with tempfile.TemporaryDirectory() as folder:
                write_set(f"{folder}/set.h5", kind, lengths)
                with open(f"{folder}/list.txt", "w") as file:
                    file.write(f"{folder}/set.h5\n")
                rounds = [[rate(train, threads, folder, kind, way) for way in (False, True)]
                          for _ in range(ROUNDS)]
            print(name, kind, rounds, flush=True)
            padded, cut = (statistics.median(column) for column in zip(*rounds))
            factors = sorted(b / a for a, b in rounds)
            lines.append(f"| {title} | {rows}, {shortest} to {longest}, {batch} | {name} | {padded:.0f} | {cut:.0f} | "
                         f"{cut / padded:.2f} | {factors[0]:.2f} to {factors[-1]:.2f} | {longest / lengths.mean():.2f} |")
    with open("bench/results/sequences.md", "w") as file:
        file.write("\n".join(lines) + "\n")


main()
