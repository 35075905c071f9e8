#!/usr/bin/env python3
"""Training on sequences of several lengths: padded to the longest of all (HDF5Data), and in
batches of similar length (HDF5SequenceData).

Usage: bench/sequences.py BUILD_DIR [THREADS]
Writes bench/results/sequences.md. Needs h5py and NumPy. Two nets (labels of all steps: two LSTMs of
128 units on 65 classes, as models/char_rnn; CTC: one LSTM of 128 units in both directions), and two
sets of 2048 sequences of 10 to 200 steps in batches of 32: lengths equally likely, and their
logarithms equally likely, so that most are short.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROWS, BATCH, STEPS, SHORTEST, CLASSES = 2048, 32, 200, 10, 65


def write_set(path, lengths):
    random = np.random.default_rng(2)
    steps = np.arange(STEPS)
    inside = steps < lengths[:, None]
    labels = random.integers(0, CLASSES, (ROWS, STEPS))
    with h5py.File(path, "w") as file:
        file["data"] = (np.eye(CLASSES, dtype=np.float32)[labels] * inside[:, :, None]).astype("f")
        file["cont"] = (inside & (steps > 0)).astype(np.float32)
        file["label"] = np.where(inside, labels, -1).astype(np.float32)
        file["length"] = lengths.astype(np.float32)
        target = np.where(steps[:100] < lengths[:, None] // 4, 1 + labels[:, :100] % 9, -1)
        file["target"] = target.astype(np.float32)


def net(kind, folder, by_length):
    tops = ["data", "cont"] + (["label"] if kind == "labels" else ["target"]) + ["length"]
    layer = "HDF5SequenceData" if by_length else "HDF5Data"
    text = f"""layer {{ name: "data" type: "{layer}" {" ".join(f'top: "{t}"' for t in tops)}
  hdf5_data_param {{ source: "{folder}/list.txt" batch_size: {BATCH} shuffle: true }} }}
"""
    for name in ["data", "cont"] + (["label"] if kind == "labels" else []):
        text += f"""layer {{ name: "{name}_by_step" type: "Permute" bottom: "{name}" top: "{name}_by_step"
  permute_param {{ order: 1 order: 0 }} }}
"""
    bottom = "data_by_step"
    for i in range(2 if kind == "labels" else 1):
        direction = "" if kind == "labels" else "direction: BIDIRECTIONAL "
        text += f"""layer {{ name: "lstm{i}" type: "LSTM" bottom: "{bottom}" bottom: "cont_by_step" top: "lstm{i}"
  recurrent_param {{ num_output: 128 {direction}weight_filler {{ type: "uniform" min: -0.08 max: 0.08 }} }} }}
"""
        bottom = f"lstm{i}"
    text += f"""layer {{ name: "scores" type: "InnerProduct" bottom: "{bottom}" top: "scores"
  inner_product_param {{ num_output: {CLASSES if kind == "labels" else 10} axis: 2
    weight_filler {{ type: "uniform" min: -0.08 max: 0.08 }} }} }}
"""
    if kind == "labels":
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
    one, three = (cpu_seconds(train, threads, folder, name, epochs) for epochs in (1, 3))
    return 2 * ROWS / (three - one)


def main():
    train = os.path.join(sys.argv[1], "bin/train")
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    random = np.random.default_rng(1)
    sets = {
        "equally likely": random.integers(SHORTEST, STEPS + 1, ROWS),
        "most are short": np.exp(
            random.uniform(np.log(SHORTEST), np.log(STEPS + 1), ROWS)).astype(int),
    }
    with open("/proc/cpuinfo") as file:
        processor = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    lines = [
        "# Sequences of several lengths",
        "",
        f"`bench/sequences.py build {threads}`, {time.strftime('%Y-%m-%d')}, {processor}, {threads} "
        f"thread{'s' if threads > 1 else ''}. {ROWS} sequences of {SHORTEST} to {STEPS} steps in batches of {BATCH}. Sequences in a "
        "second of processor time (other programs ran beside it): padded to the longest of all (HDF5Data), and in batches of similar length (HDF5SequenceData). "
        "\"at most\" is the number of steps padded to those that count; CTC itself skips padding in both.",
        "",
        "| net | lengths | padded | similar lengths | factor | at most |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, lengths in sets.items():
            write_set(f"{folder}/set.h5", lengths)
            with open(f"{folder}/list.txt", "w") as file:
                file.write(f"{folder}/set.h5\n")
            for kind, title in (("labels", "two LSTMs, labels of all steps"), ("ctc", "LSTM, CTC")):
                padded = rate(train, threads, folder, kind, False)
                cut = rate(train, threads, folder, kind, True)
                print(name, kind, padded, cut, flush=True)
                lines.append(f"| {title} | {name} | {padded:.0f} | {cut:.0f} | {cut / padded:.2f} | "
                             f"{STEPS / lengths.mean():.2f} |")
    with open("bench/results/sequences.md", "w") as file:
        file.write("\n".join(lines) + "\n")


main()
