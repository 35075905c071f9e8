#!/usr/bin/env python3
"""Compares torchvision's nets, exported as ONNX by both exporters of PyTorch, with PyTorch.

Needs Python with torch, torchvision, onnx, onnxscript and numpy, and the programs onnx_cases and
import in BUILD/bin. Usage:
torchvision_nets.py BUILD [--nets=resnet18,...] [--exporters=dynamo,script] [--results=FILE]
Weights are random, with a fixed seed. PyTorch computes in double precision; the table also says how
far its single precision is from that. Prints a table, and writes it to FILE.
Exits with 1 if a net is refused (but a detector with its selection of boxes), or an output differs
by more than 1e-4 of its largest value and by more than three times as much as PyTorch's single
precision.
"""
import argparse
import contextlib
import dataclasses
import io
import logging
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
import torchvision

TOLERANCE = 1e-4  # or three times what single precision costs PyTorch
DETECTORS = ("ssdlite320_mobilenet_v3_large", "ssd300_vgg16", "retinanet_resnet50_fpn",
             "fasterrcnn_mobilenet_v3_large_320_fpn")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    size: int = 224
    batch: int = 2
    dynamic: bool = False  # the batch of the file is unknown, and that of the example is another
    whole: bool = False  # of a detector: with its selection of boxes


CLASSIFIERS = tuple(Case(name) for name in (
    "alexnet", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2",
    "regnet_y_400mf", "regnet_x_400mf", "densenet121", "googlenet", "mobilenet_v2",
    "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "squeezenet1_1", "efficientnet_b0",
    "efficientnet_v2_s", "convnext_tiny", "vit_b_16", "swin_t", "maxvit_t")) + (
        Case("inception_v3", 299),)
DYNAMIC = tuple(Case(name, dynamic=True) for name in (
    "resnet18", "mobilenet_v3_large", "efficientnet_b0", "shufflenet_v2_x1_0", "convnext_tiny",
    "vit_b_16", "swin_t"))
OTHERS = (Case("fcn_resnet50", batch=1), Case("deeplabv3_resnet50", batch=1),
          Case("lraspp_mobilenet_v3_large", batch=1),
          *(Case(name, 320, 1) for name in DETECTORS),
          Case("ssdlite320_mobilenet_v3_large", 320, 1, whole=True),
          Case("retinanet_resnet50_fpn", 320, 1, whole=True))
CASES = CLASSIFIERS + DYNAMIC + OTHERS


class Logits(torch.nn.Module):
    """A segmentation net without the names of its outputs."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        return self.net(image)["out"]


class Heads(torch.nn.Module):
    """A detector before boxes are selected: class scores and box offsets of all anchors."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        features = list(self.net.backbone(image).values())
        if hasattr(self.net, "rpn"):
            objectness, offsets = self.net.rpn.head(features)
            return (*objectness, *offsets)
        heads = self.net.head(features)
        return heads["cls_logits"], heads["bbox_regression"]


class Detections(torch.nn.Module):
    """A detector with everything, of one image."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image):
        found = self.net([image[0]])[0]
        return found["boxes"], found["scores"], found["labels"]


def fill(net):
    """Random parameters and running statistics: none is 0, 1 or left out of the result."""
    with torch.no_grad():
        for values in net.parameters():
            if values.numel() > 1 and values.min() == values.max():
                values += torch.empty_like(values).uniform_(-0.2, 0.2)


def calibrate(net, image):
    """Statistics with which values keep their size, but not those of this image."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        net(torch.cat([image, torch.rand_like(image)]))
        for norm in norms:
            norm.eval()
            norm.running_mean += norm.running_var.sqrt() * torch.empty_like(
                norm.running_mean).uniform_(-0.2, 0.2)
            norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.7, 1.4)


def make(case):
    """The net and an image."""
    torch.manual_seed(1)
    image = torch.rand(case.batch, 3, case.size, case.size) * 2 - 1
    options = {}
    wrap = torch.nn.Identity
    if case.name in ("googlenet", "inception_v3"):
        options = {"aux_logits": False, "init_weights": True}
    if case.name in DETECTORS:
        options = {"weights_backbone": None}
        wrap = Detections if case.whole else Heads
    elif case in OTHERS:
        options = {"weights_backbone": None}
        wrap = Logits
    net = torchvision.models.get_model(case.name, weights=None, **options).eval()
    fill(net)
    if wrap is not torch.nn.Identity:
        calibrate(Heads(net) if case.name in DETECTORS else wrap(net), image)
        return wrap(net).eval(), image
    calibrate(net, image)
    return net, image


def export(case, net, image, exporter, path):
    options = {}
    if case.dynamic and exporter == "dynamo":
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    elif case.dynamic:
        options["dynamic_axes"] = {"image": {0: "batch"}}
    elif exporter == "dynamo":
        options["dynamic_shapes"] = None
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(net, (image,), str(path), dynamo=exporter == "dynamo",
                          input_names=["image"], verbose=False, **options)


def run(build, folder, image):
    """What Crema computes of folder/model.onnx, or the lines of its message."""
    np.save(folder / "image.npy", image)
    (folder / "inputs.txt").write_text("image\timage.npy\n", encoding="utf-8")
    done = subprocess.run([build / "dev/onnx_cases"], input=f"{folder}\n", text=True,
                          stdout=subprocess.PIPE, check=False)
    words = done.stdout.strip().split("\t")
    if words[0] != "ok":
        return None, ("\n".join(words[1:]) or f"ended with {done.returncode}").split("|")
    return {name: np.load(folder / f"output_{i}.npy") for i, name in enumerate(words[1:])}, []


def layers_of(build, path, folder, shape):
    """The number of layers that the model becomes."""
    sizes = "x".join(map(str, shape))
    done = subprocess.run([build / "bin/import", path, "-o", folder / "net",
                           f"--shape=image={sizes}"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return 0
    text = (folder / "net/deploy.prototxt").read_text(encoding="utf-8")
    return len(re.findall(r"^layer \{", text, re.MULTILINE)) - 1


@dataclasses.dataclass
class Result:
    case: Case
    exporter: str
    nodes: int = 0
    opset: int = 0
    layers: int = 0
    error: float = 0  # of an output's largest value
    torch_error: float = 0  # that of PyTorch in single precision
    size: str = ""
    refused: str = ""

    def good(self):
        return not self.refused and self.error <= max(TOLERANCE, 3 * self.torch_error)


def compare(case, exporter, build):
    result = Result(case, exporter)
    net, image = make(case)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "model.onnx"
        try:
            export(case, net, image, exporter, path)
        except Exception as error:  # pylint: disable=broad-except
            result.refused = f"PyTorch does not export it: {type(error).__name__}"
            return result
        model = onnx.load(path, load_external_data=False)
        result.nodes = len(model.graph.node)
        result.opset = model.opset_import[0].version
        if case.dynamic:
            image = torch.cat([image, -image[:1]])
        with torch.no_grad():
            single = net(image)
            wanted = net.double()(image.double())
        single = single if isinstance(single, tuple) else (single,)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        got, message = run(build, folder, image.numpy())
        if got is None:
            message = [line.replace(f"{path}: ", "") for line in message]
            result.refused = f"{len(message)} problems, first: {message[0]}"[:300]
            return result
        result.layers = layers_of(build, path, folder, image.shape)
        for value, theirs, output in zip(wanted, single, model.graph.output):
            value, ours = value.numpy(), got[output.name]
            if ours.shape != value.shape:
                result.refused = f"{output.name} is {ours.shape}, not {value.shape}"
                return result
            most = np.abs(value).max(initial=1e-30)
            result.error = max(result.error, float(np.abs(ours - value).max(initial=0) / most))
            result.torch_error = max(
                result.torch_error, float(np.abs(theirs.numpy() - value).max(initial=0) / most))
            result.size = "x".join(map(str, value.shape))
    return result


def title(case):
    if case.whole:
        return f"{case.name}, with the selection of boxes"
    return f"{case.name}, heads" if case.name in DETECTORS else case.name


def table(results):
    yield "| net | exporter | opset | batch | nodes | layers | differs by | PyTorch | note |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for r in results:
        batch = f"any, {r.case.batch + 1}" if r.case.dynamic else str(r.case.batch)
        error = "– | –" if r.refused else f"{r.error:.1e} | {r.torch_error:.1e}"
        yield (f"| {title(r.case)} | {r.exporter} | {r.opset or '–'} | {batch} | {r.nodes or '–'} | "
               f"{r.layers or '–'} | {error} | {r.refused} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--nets", type=lambda text: text.split(","))
    parser.add_argument("--exporters", type=lambda text: text.split(","),
                        default=["dynamo", "script"])
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    results = []
    for case in CASES:
        if options.nets and case.name not in options.nets:
            continue
        for exporter in options.exporters:
            results.append(compare(case, exporter, options.build.resolve()))
            print(list(table(results))[-1], file=sys.stderr, flush=True)
    good = sum(r.good() for r in results)
    print(f"{good} of {len(results)} agree", file=sys.stderr)
    if options.results:
        options.results.write_text("\n".join(table(results)) + "\n", encoding="utf-8")
    bad = [r for r in results if not r.good() and not r.case.whole]  # those select by NonZero
    sys.exit(0 if results and not bad else 1)


if __name__ == "__main__":
    main()
