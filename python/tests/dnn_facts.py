"""Facts about OpenCV 4's cv2.dnn: `python dnn_facts.py` records them as dnn_facts.json, and
test_dnn.py compares crema.dnn with that. Needs opencv-python-headless below 5, and crema."""

import json
import os
import sys
import tempfile

import numpy as np

import crema

FILE = os.path.join(os.path.dirname(__file__), "dnn_facts.json")

NET = """
name: "facts"
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 6 } } }
layer { name: "more" type: "Input" top: "info" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "c1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "bn1" type: "BatchNorm" bottom: "c1" top: "c1" }
layer { name: "scale1" type: "Scale" bottom: "c1" top: "c1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "c1" top: "c1" }
layer { name: "drop" type: "Dropout" bottom: "c1" top: "c1" }
layer { name: "slice" type: "Slice" bottom: "c1" top: "left" top: "right"
  slice_param { axis: 1 slice_point: 2 } }
layer { name: "pool" type: "Pooling" bottom: "right" top: "pool"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "pool" type: "Pooling" bottom: "pool" top: "mean"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "fc" type: "InnerProduct" bottom: "mean" top: "fc"
  inner_product_param { num_output: 5 } }
layer { name: "cat" type: "Concat" bottom: "fc" bottom: "info" top: "cat" }
layer { name: "prob" type: "Softmax" bottom: "cat" top: "prob" }
layer { name: "side" type: "Pooling" bottom: "left" top: "side"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "silence" type: "Silence" bottom: "side" }
"""


def numbers(*shape, seed=0):
    """Numbers in [0, 1) that are the same everywhere."""
    index = np.arange(np.prod(shape, dtype=np.int64)) + 1000 * seed
    return ((index * 7919 + 104729) * (index + 13) % 10007 / 10007).reshape(shape)


def image(*shape, seed=0):
    return (numbers(*shape, seed=seed) * 256).astype(np.uint8)


def write_model(folder):
    """Writes NET and weights; returns their paths."""
    prototxt, weights = os.path.join(folder, "f.prototxt"), os.path.join(folder, "f.caffemodel")
    with open(prototxt, "w", encoding="utf-8") as file:
        file.write(NET)
    net = crema.Net.open(prototxt, 1)
    for seed, layer in enumerate(net.layer_list()):
        for i, blob in enumerate(layer.blobs):
            values = numbers(*blob.shape, seed=10 * seed + i)
            statistics = layer.type == "BatchNorm"
            blob.data[...] = (1 if i == 2 else values + 0.5) if statistics else values - 0.2
    net.save(weights)
    return prototxt, weights


def blobs(dnn):
    color, gray, alpha = image(7, 9, 3), image(9, 6, seed=1), image(5, 5, 4, seed=2)
    floats = numbers(6, 5, 3).astype(np.float32)
    return {
        "plain": dnn.blobFromImage(color),
        "resized": dnn.blobFromImage(color, size=(5, 4)),
        "enlarged": dnn.blobFromImage(color, 1 / 255, (11, 13), swapRB=True),
        "halved": dnn.blobFromImage(image(8, 6, 3), size=(3, 4)),
        "mean": dnn.blobFromImage(color, 0.017, (6, 6), (103.94, 116.78, 123.68), True),
        "mean of one": dnn.blobFromImage(color, 1.0, (4, 4), 127.5),
        "cropped": dnn.blobFromImage(color, 1.0, (4, 6), (1, 2, 3), False, True),
        "cropped large": dnn.blobFromImage(color, 1.0, (16, 12), crop=True),
        "gray": dnn.blobFromImage(gray, 2.0, (4, 5), (10,)),
        "alpha": dnn.blobFromImage(alpha, 1.0, (3, 3), (1, 2, 3, 4), True),
        "floats": dnn.blobFromImage(floats, 2.0, (7, 4), (0.1, 0.2, 0.3), True),
        "bytes": dnn.blobFromImage(color, size=(4, 4), swapRB=True, ddepth=0),
        "several": dnn.blobFromImages([color, image(4, 4, 3, seed=3)], 1.0, (4, 4)),
        "first's size": dnn.blobFromImages([image(2, 3, 3), image(4, 4, 3)]),
        "back": dnn.imagesFromBlob(dnn.blobFromImages([image(2, 3, 3), image(2, 3, 3, seed=4)])),
        "back gray": dnn.imagesFromBlob(dnn.blobFromImage(image(2, 3))),
    }


def boxes(dnn):
    count = 24
    found = np.concatenate([numbers(count, 2) * 30, numbers(count, 2, seed=1) * 25], 1)
    whole, scores = found.astype(int).tolist(), numbers(count, seed=2).astype(np.float32).tolist()
    classes = [i % 3 for i in range(count)]
    return {
        "nms": dnn.NMSBoxes(found.tolist(), scores, 0.2, 0.3),
        "nms of arrays": dnn.NMSBoxes(found, np.array(scores), 0.0, 0.5),
        "nms of ints": dnn.NMSBoxes(whole, scores, 0.5, 0.1),
        "eta": dnn.NMSBoxes(found.tolist(), scores, 0.1, 0.8, 0.7),
        "top_k": dnn.NMSBoxes(found.tolist(), scores, 0.1, 0.4, 1.0, 6),
        "none": dnn.NMSBoxes(whole, scores, 1.0, 0.4),
        "no boxes": dnn.NMSBoxes([], [], 0.5, 0.4),
        "equal scores": dnn.NMSBoxes(
            [[0, 0, 2, 2], [5, 5, 0, 0], [5, 5, 0, 0]], [0.5] * 3, 0.1, 0.5
        ),
        "batched": dnn.NMSBoxesBatched(found.tolist(), scores, classes, 0.2, 0.3),
        "soft": dnn.softNMSBoxes(whole, scores, 0.2, 0.3),
        "soft linear": dnn.softNMSBoxes(whole, scores, 0.2, 0.3, 5, 0.5, 1),
        "soft none": dnn.softNMSBoxes(whole, scores, 1.0, 0.3),
    }


def inputs(batch=2, height=8):
    return numbers(batch, 3, height, 6).astype(np.float32), numbers(batch, 4).astype(np.float32)


def nets(dnn, folder):
    prototxt, weights = write_model(folder)

    def forward(*arguments, height=8, prepare=lambda net: None, **options):
        net = dnn.readNetFromCaffe(prototxt, weights)
        prepare(net)
        data, info = inputs(height=height)
        net.setInput(data, **options)
        net.setInput(info, "info")
        return net.forward(*arguments)

    def all_of(layer):
        net = dnn.readNet(weights, prototxt)
        net.setInput(inputs()[0])
        net.setInput(inputs()[1], "info")
                # For a layer that is not the last, OpenCV 4.14 returns memory that it has reused.
        return [[output.shape for output in of] for of in net.forwardAndRetrieve([layer, "prob"])]

    def set_bias(net):
        net.setParam("c1", 1, numbers(4).astype(np.float32))

    def set_blobs(net):
        net.getLayer(1).blobs = [numbers(4, 3, 3, 3, seed=9).astype(np.float32)]  # and no bias

    net = dnn.readNetFromCaffe(prototxt, weights)
    names = net.getLayerNames()
    layer = net.getLayer(1)
    return {
        "names": names,
        "ids": [net.getLayerId(name) for name in (*names, "_input", "data", "conv1", "nothing")],
        "types": net.getLayerTypes(),
        "count": net.getLayersCount("Pooling"),
        "outputs": net.getUnconnectedOutLayers(),
        "output names": net.getUnconnectedOutLayersNames(),
        "layer": [layer.name, layer.type, list(layer.blobs)],
        "parameters": [net.getParam("scale1", 1), net.getParam(net.getLayerId("fc"), 1)],
        "empty": [net.empty(), dnn.Net().empty(), dnn.Net().getLayerNames()],
        "shapes": net.getLayersShapes([[1, 3, 9, 7], [1, 4]]),
        "forward": forward(),
        "forward of none": forward([]),
        "forward of one": forward("c1"),
        "forward of silence": forward("silence"),
        "forward of a slice": forward("slice"),
        "forward of names": forward(["side", "prob"]),
        "forward of outputs": forward(None, "slice"),
        "forward and retrieve": all_of("slice"),
        "forward scaled": forward("prob", scalefactor=2.0, mean=(0.1, 0.2, 0.3)),
        "forward by name": forward("prob", name="data"),
        "other height": forward("pool", height=11),
        "set parameter": forward("c1", prepare=set_bias),
        "set blobs": forward("c1", prepare=set_blobs),
    }


def plain(value):
    """Returns a fact as lists, numbers and texts, with the kind of an array."""
    if isinstance(value, np.ndarray):
        return {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "values": [float(f"{v:.8g}") for v in value.ravel().tolist()],
        }
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def facts(dnn):
    with tempfile.TemporaryDirectory() as folder:
        return plain({"blobs": blobs(dnn), "boxes": boxes(dnn), "nets": nets(dnn, folder)})


if __name__ == "__main__":
    import cv2

    if int(cv2.__version__.split(".")[0]) != 4:
        sys.exit(f"OpenCV 4 is needed, not {cv2.__version__}")
    recorded = {"opencv": cv2.__version__, **facts(cv2.dnn)}
    with open(FILE, "w", encoding="utf-8") as output:
        json.dump(recorded, output, separators=(",", ":"))
        output.write("\n")
