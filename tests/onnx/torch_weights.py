"""Compares nets that `crema import --weights` filled with the modules of PyTorch.

usage: torch_weights.py CREMA_BIN MODELS
Run by hand; needs torch, torchvision, safetensors and the package crema. Weights are random.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import torchvision

import crema

RECURRENT = """
layer {{ name: "x" type: "Input" top: "x" top: "cont"
  input_param {{ shape {{ dim: 7 dim: 2 dim: 5 }} shape {{ dim: 7 dim: 2 }} }} }}
layer {{ name: "rnn" type: "{type}" bottom: "x" bottom: "cont" top: "y"
  recurrent_param {{ num_output: 6 {fields} }} }}
"""


def randomize(module):
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            with torch.no_grad():
                part.running_mean.uniform_(-0.2, 0.2)
                part.running_var.uniform_(0.5, 1.5)
                part.weight.uniform_(0.5, 1.5)
                part.bias.uniform_(-0.1, 0.1)
    return module.eval()


def resnet50():
    """With the strides and the pooling of Caffe's model."""
    module = torchvision.models.resnet50()
    module.maxpool = torch.nn.MaxPool2d(3, 2, 0, ceil_mode=True)
    for layer in (module.layer2, module.layer3, module.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    return module


def squeezenet():
    return torchvision.models.squeezenet1_1()


def mobilenet_v2():
    """With the ReLU of the Caffe model in place of ReLU6."""
    module = torchvision.models.mobilenet_v2()
    for parent in list(module.modules()):
        for name, part in parent.named_children():
            if isinstance(part, torch.nn.ReLU6):
                setattr(parent, name, torch.nn.ReLU())
    return module


def files(module, folder):
    state = module.state_dict()
    torch.save(state, f"{folder}/zip.pth")
    torch.save({"epoch": 1, "state_dict": state}, f"{folder}/old.pth", _use_new_zipfile_serialization=False)
    state = {name: value.contiguous() for name, value in state.items()}
    safetensors.torch.save_file(state, f"{folder}/m.safetensors")
    return ["zip.pth", "old.pth", "m.safetensors"]


def compare(binary, name, module, net, inputs, wanted, softmax):
    with tempfile.TemporaryDirectory() as folder:
        with torch.no_grad():
            wanted = wanted(module)
            if softmax:
                wanted = torch.softmax(wanted.flatten(1), 1)
        for file in files(module, folder):
            weights = f"{folder}/w.caffemodel"
            command = [f"{binary}/import", f"--weights={folder}/{file}", f"--onto={net}", "-o", weights]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (got,) = crema.Model.from_caffe(net, weights).run(inputs).values()
            a, b = got.reshape(-1), wanted.numpy().reshape(-1)
            error = np.abs(a - b).max() / np.abs(b).max()
            print(f"{name:14} {file:14} largest difference / largest value: {error:.1e}")
            assert error < 1e-4, name


def main():
    binary, models = sys.argv[1:]
    torch.manual_seed(1)
    for name, make, net, size in (
        ("resnet50", resnet50, "resnet50", 224),
        ("squeezenet1_1", squeezenet, "squeezenet_v1.1", 227),
        ("mobilenet_v2", mobilenet_v2, "mobilenet_v2", 224),
    ):
        x = torch.rand(1, 3, size, size)
        module = randomize(make())
        if hasattr(module, "fc"):  # scores of which no one is all of the softmax
            with torch.no_grad():
                module.fc.weight /= module(x).std()
        compare(
            binary,
            name,
            module,
            f"{models}/{net}/deploy.prototxt",
            x.numpy(),
            lambda module: module(x),
            True,
        )
    steps = torch.rand(7, 2, 5)
    cont = np.ones((7, 2), np.float32)
    cont[0] = 0
    for name, kind, fields in (
        ("LSTM", torch.nn.LSTM(5, 6), ""),
        ("LSTM both", torch.nn.LSTM(5, 6, bidirectional=True), "direction: BIDIRECTIONAL"),
        ("GRU", torch.nn.GRU(5, 6), ""),
        ("GRU both", torch.nn.GRU(5, 6, bidirectional=True), "direction: BIDIRECTIONAL"),
    ):
        with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as net:
            net.write(RECURRENT.format(type=name.split()[0], fields=fields))
            net.flush()
            os.fsync(net.fileno())
            inputs = {"x": steps.numpy(), "cont": cont}
            compare(binary, name, kind, net.name, inputs, lambda module: module(steps)[0], False)


if __name__ == "__main__":
    main()
