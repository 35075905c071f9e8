"""Writes a YOLOv8n with random weights, whose scores differ, for 320 x 320 pixels: random_yolo.py FILE.onnx

Needs: pip install ultralytics onnx.
"""

import sys

import torch
from ultralytics.nn.tasks import DetectionModel


def main():
    torch.manual_seed(7)
    model = DetectionModel("yolov8n.yaml", verbose=False)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.3, 1.5)
            module.weight.data.uniform_(0.7, 1.6)
            module.bias.data.normal_(0, 0.3)
    head = model.model[-1]
    for branch in head.cv3:
        branch[-1].bias.data.fill_(0.0)
        branch[-1].weight.data.mul_(3)
    model = model.eval().fuse(verbose=False)
    head = model.model[-1]
    head.export, head.format, head.dynamic = True, "onnx", False
    image = torch.rand(1, 3, 320, 320)
    model(image)
    names = {"input_names": ["images"], "output_names": ["output0"]}
    torch.onnx.export(model, image, sys.argv[1], opset_version=17, dynamo=False, **names)


main()
