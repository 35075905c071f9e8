"""One comparison: net, mode, batch and precision, as the driver writes it for the workers."""
import json
import pathlib

import numpy


class Case:
    """Read from case.json in a folder that all workers share.

    mode is infer or train; net is a caffemodel with all layers, made for another batch perhaps;
    onnx is the ONNX file that the net comes from, or empty;
    rate is the learning rate; dropout is false when results are compared.
    """

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        self.folder = pathlib.Path(path).parent
        self.net = values["net"]
        self.onnx = values["onnx"]
        self.mode = values["mode"]
        self.precision = values["precision"]
        self.threads = values["threads"]
        self.descriptors = values["descriptors"]
        self.blobs = values["inputs"]
        self.rate = values["rate"]
        self.dropout = values["dropout"]

    def shared(self, name):
        """A file that several peers may use."""
        return self.folder / name

    def inputs(self):
        """The inputs as float arrays, in the order of `blobs`."""
        return [numpy.fromfile(self.folder / blob["file"], numpy.float32).reshape(blob["shape"])
                for blob in self.blobs]

    def input_names(self):
        return [blob["name"] for blob in self.blobs]
