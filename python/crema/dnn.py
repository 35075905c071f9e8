"""OpenCV 4's module `cv2.dnn` for Caffe models: replace `cv2.dnn.` by `crema.dnn.`.

Names, arguments and results are those of OpenCV 4, for scripts that OpenCV 5 left without
`readNetFromCaffe`. Errors are `crema.Error`. Nets run on the CPU.
"""

from __future__ import annotations

import contextlib
import operator
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from . import _core
from ._errors import Error

Array: TypeAlias = npt.NDArray[Any]
Boxes: TypeAlias = Array | Sequence[Sequence[float]]
Scores: TypeAlias = Array | Sequence[float]
Indices: TypeAlias = npt.NDArray[np.int32] | tuple[()]
Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | Array

CV_8U = 0
CV_32F = 5

DNN_BACKEND_DEFAULT = 0
DNN_BACKEND_HALIDE = 1
DNN_BACKEND_INFERENCE_ENGINE = 2
DNN_BACKEND_OPENCV = 3
DNN_BACKEND_VKCOM = 4
DNN_BACKEND_CUDA = 5
DNN_BACKEND_WEBNN = 6
DNN_BACKEND_TIMVX = 7
DNN_BACKEND_CANN = 8

DNN_TARGET_CPU = 0
DNN_TARGET_OPENCL = 1
DNN_TARGET_OPENCL_FP16 = 2
DNN_TARGET_MYRIAD = 3
DNN_TARGET_VULKAN = 4
DNN_TARGET_FPGA = 5
DNN_TARGET_CUDA = 6
DNN_TARGET_CUDA_FP16 = 7
DNN_TARGET_HDDL = 8
DNN_TARGET_NPU = 9
DNN_TARGET_CPU_FP16 = 10

SoftNMSMethod_SOFTNMS_LINEAR = SOFT_NMSMETHOD_SOFTNMS_LINEAR = 1
SoftNMSMethod_SOFTNMS_GAUSSIAN = SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN = 2

_MODELS = 4  # that a net keeps, for the sets of outputs that forward was asked for last


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"crema.dnn has no {name}: it has what cv2.dnn offers for Caffe models; see docs/python.md"
    )


# Images


def _scalar(name: str, value: float | Sequence[float] | Array | None) -> list[float]:
    """Returns a cv::Scalar: four numbers, of which those that are not given are zero."""
    numbers: Array = np.asarray(() if value is None else value, np.float64)
    if numbers.ndim > 1 or numbers.size > 4:
        raise Error(f"{name} is a number or up to four")
    return [*map(float, np.atleast_1d(numbers)), 0.0, 0.0, 0.0, 0.0][:4]


def _image(image: Array) -> Array:
    """Returns an image as height x width x channels."""
    if not isinstance(image, np.ndarray):
        raise TypeError(f"an image is a NumPy array, not {type(image).__name__}")
    if image.ndim == 2:
        image = image[:, :, np.newaxis]
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or image.size == 0:
        raise Error(f"an image is height x width, or height x width x 1, 3 or 4, not {image.shape}")
    if image.dtype.kind not in "iuf" or image.dtype == np.float16:
        raise Error(f"an image has numbers of 8 to 64 bits, not {image.dtype}")
    return image


def _resize(image: Array, height: int, width: int, scale_y: float, scale_x: float) -> Array:
    if image.dtype == np.uint8:
        return _core.resize(np.ascontiguousarray(image), height, width, scale_y, scale_x)
    resized = _core.resize(np.ascontiguousarray(image, np.float32), height, width, scale_y, scale_x)
    return resized if image.dtype.kind == "f" else np.rint(resized)


def _fit(image: Array, width: int, height: int, crop: bool) -> Array:
    """Resizes an image; `crop` keeps its aspect and cuts out the centre."""
    rows, columns = image.shape[:2]
    if (columns, rows) == (width, height):
        return image
    if width < 1 or height < 1:
        raise Error(f"an image cannot be resized to {width} x {height}")
    if not crop:
        return _resize(image, height, width, 1 / (height / rows), 1 / (width / columns))
    factor = float(max(np.float32(width / columns), np.float32(height / rows)))
    image = _resize(image, round(rows * factor), round(columns * factor), 1 / factor, 1 / factor)
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    return image[top : top + height, left : left + width]


def blobFromImages(
    images: Sequence[Array] | Array,
    scalefactor: float = 1.0,
    size: Sequence[int] | None = None,
    mean: float | Sequence[float] | Array | None = None,
    swapRB: bool = False,
    crop: bool = False,
    ddepth: int = CV_32F,
) -> Array:
    """Returns images x channels x height x width: (image - mean) * scalefactor.

    `images` are arrays of height x width, or height x width x 1, 3 or 4 channels, all of one type.
    `size` is (width, height) in pixels; without it, the size of the first image. Images of other
    sizes are resized bilinearly; with `crop`, so that they cover `size`, of which the centre is
    kept. `swapRB` swaps the first and the third channel; `mean` is in the order after that.
    `ddepth` is CV_32F, or CV_8U for bytes, without mean and scale. Thread safe.
    """
    if ddepth not in (CV_32F, CV_8U):
        raise Error(f"ddepth is CV_32F ({CV_32F}) or CV_8U ({CV_8U}), not {ddepth}")
    means = _scalar("mean", mean)
    if ddepth == CV_8U and (scalefactor != 1 or any(means)):
        raise Error("a blob of CV_8U has neither a scale nor a mean")
    if len(images) == 0:
        raise Error("there are no images")
    pixels = [_image(image) for image in images]
    if len({(image.shape[2], image.dtype) for image in pixels}) > 1:
        raise Error("the images differ in channels or type")
    width, height = (0, 0) if size is None else map(operator.index, size)
    if (width, height) == (0, 0):
        height, width = pixels[0].shape[:2]
    channels = list(range(pixels[0].shape[2]))
    if swapRB and len(channels) > 1:
        channels[0], channels[2] = 2, 0
    blob = np.empty((len(pixels), len(channels), height, width), (np.uint8, np.float32)[ddepth > 0])
    for image, planes in zip(pixels, blob):
        fitted = _fit(image, width, height, crop)
        if ddepth == CV_8U and image.dtype != np.uint8:
            fitted = np.clip(np.rint(fitted), 0, 255)
        for channel, value, plane in zip(channels, means, planes):
            plane[...] = fitted[:, :, channel]
            if value != 0:
                plane -= np.float32(value)
    if scalefactor != 1:
        blob *= np.float32(scalefactor)
    return blob


def blobFromImage(
    image: Array,
    scalefactor: float = 1.0,
    size: Sequence[int] | None = None,
    mean: float | Sequence[float] | Array | None = None,
    swapRB: bool = False,
    crop: bool = False,
    ddepth: int = CV_32F,
) -> Array:
    """Returns 1 x channels x height x width; see blobFromImages."""
    return blobFromImages([image], scalefactor, size, mean, swapRB, crop, ddepth)


def imagesFromBlob(blob_: Array, images_: object = None) -> tuple[Array, ...]:
    """Returns the images of a float32 blob of images x channels x height x width, as arrays of
    height x width x channels, or height x width for one channel."""
    if blob_.dtype != np.float32 or blob_.ndim != 4:
        raise Error(f"the blob is {blob_.dtype} of {blob_.ndim} axes, not float32 of 4")
    images = np.ascontiguousarray(blob_.transpose(0, 2, 3, 1))
    return tuple(image[:, :, 0] if image.shape[2] == 1 else image for image in images)


# Non-maximum suppression


def _boxes_and_scores(bboxes: Boxes, scores: Scores) -> tuple[Array, Array]:
    boxes = np.asarray(() if bboxes is None else bboxes, np.float64)
    values = np.asarray(() if scores is None else scores, np.float32)
    if values.ndim != 1 or (boxes.size > 0 and (boxes.ndim != 2 or boxes.shape[1] != 4)):
        raise TypeError("boxes are (x, y, width, height) each, and scores a number each")
    boxes = boxes.reshape(-1, 4)
    if len(boxes) != len(values):
        raise Error(f"there are {len(boxes)} boxes, but {len(values)} scores")
    return boxes, values


def _overlaps(box: Array, boxes: Array) -> Array:
    """Returns the intersection over union of (x, y, width, height) with those of four rows."""

    def side(axis: int) -> Array:
        at, length, own_at, own_length = boxes[axis], boxes[axis + 2], box[axis], box[axis + 2]
        is_first = at < own_at
        first = np.where(is_first, length, own_length) - np.abs(at - own_at)
        overlap: Array = np.minimum(first, np.where(is_first, own_length, length))
        return overlap

    width, height = side(0), side(1)
    both = np.where((width > 0) & (height > 0), width * height, 0)
    areas = box[2] * box[3] + boxes[2] * boxes[3]
    with np.errstate(all="ignore"):
        distances = np.where(areas <= np.finfo(np.float64).eps, 0, 1 - both / (areas - both))
    return np.float32(1) - distances.astype(np.float32)


def NMSBoxes(
    bboxes: Boxes,
    scores: Scores,
    score_threshold: float,
    nms_threshold: float,
    eta: float = 1.0,
    top_k: int = 0,
) -> Indices:
    """Returns the indices of the boxes to keep, best first: int32, or an empty tuple if none.

    Boxes are (x, y, width, height). A box is kept if its score is above `score_threshold`, and its
    intersection over union with each kept box at most `nms_threshold`, which is multiplied by
    `eta` after each box while it is above 0.5. `top_k` above 0: only that many boxes are looked at.
    """
    boxes, values = _boxes_and_scores(bboxes, scores)
    if not (score_threshold >= 0 and nms_threshold >= 0 and eta > 0):
        raise Error("score_threshold and nms_threshold are at least 0, and eta above 0")
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > np.float32(score_threshold)]
    if 0 < top_k < len(order):
        order = order[:top_k]
    boxes = boxes[order].T
    threshold = np.float32(nms_threshold)
    worst = np.full(len(order), -np.inf, np.float32)  # the largest overlap with a kept box
    kept = []
    while len(order) > 0:
        kept.append(order[0])
        if eta < 1 and threshold > 0.5:
            threshold *= np.float32(eta)
        worst = np.maximum(worst[1:], _overlaps(boxes[:, 0], boxes[:, 1:]))
        fitting = worst <= threshold
        order, boxes, worst = order[1:][fitting], boxes[:, 1:][:, fitting], worst[fitting]
    return np.array(kept, np.int32) if kept else ()


def NMSBoxesBatched(
    bboxes: Boxes,
    scores: Scores,
    class_ids: Sequence[int] | Array,
    score_threshold: float,
    nms_threshold: float,
    eta: float = 1.0,
    top_k: int = 0,
) -> Indices:
    """As NMSBoxes, but boxes of different classes do not suppress each other."""
    boxes, _ = _boxes_and_scores(bboxes, scores)
    classes = np.asarray(class_ids, np.int64)
    if classes.shape != (len(boxes),):
        raise Error(f"there are {len(boxes)} boxes, but class_ids of the shape {classes.shape}")
    if len(boxes) > 0:  # classes lie apart
        corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]])
        boxes[:, :2] += (classes * (max(0.0, corners.max()) + 1))[:, np.newaxis]
    return NMSBoxes(boxes, scores, score_threshold, nms_threshold, eta, top_k)


def softNMSBoxes(
    bboxes: Boxes,
    scores: Scores,
    score_threshold: float,
    nms_threshold: float,
    top_k: int = 0,
    sigma: float = 0.5,
    method: int = SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN,
) -> tuple[Array | tuple[()], Indices]:
    """Returns the lowered scores and the indices of the boxes, best first.

    A box that overlaps a better one has its score lowered (arXiv:1704.04503), and is left out when
    that is below `score_threshold`. Boxes are (x, y, width, height).
    """
    boxes, values = _boxes_and_scores(bboxes, scores)
    if not (score_threshold >= 0 and nms_threshold >= 0 and sigma >= 0):
        raise Error("score_threshold, nms_threshold and sigma are at least 0")
    if method not in (SOFT_NMSMETHOD_SOFTNMS_LINEAR, SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN):
        raise Error(f"there is no soft NMS method {method}")
    left = values.copy()
    kept: list[int] = []
    updated: list[np.float32] = []
    while len(kept) < (min(top_k, len(values)) if top_k > 0 else len(values)):
        best = int(left.argmax())
        if left[best] < np.float32(score_threshold):
            break
        kept.append(best)
        updated.append(left[best])
        overlaps = _overlaps(boxes[best], boxes.T)
        if method == SOFT_NMSMETHOD_SOFTNMS_LINEAR:
            factors = np.where(overlaps > np.float32(nms_threshold), 1 - overlaps, 1)
        else:
            with np.errstate(all="ignore"):
                factors = np.exp(-(overlaps * overlaps) / np.float32(sigma))
        left = np.where(left < np.float32(score_threshold), left, left * factors).astype(np.float32)
        left[kept] = -np.inf
    return (np.array(updated), np.array(kept, np.int32)) if kept else ((), ())


# Nets


class _Layer(NamedTuple):
    """A layer as OpenCV counts them: a Convolution with several tops is as many layers."""

    name: str
    type: str
    node: int  # index in DnnNet.layers
    inputs: tuple[int, ...]  # values
    outputs: tuple[int, ...]


def _layers_of(net: _core.DnnNet) -> list[_Layer]:
    names = net.value_names
    layers = []
    counts: dict[str, int] = {}
    for node, (name, kind, inputs, outputs) in enumerate(net.layers):
        repeated = counts[name] = counts.get(name, -1) + 1
        if repeated:
            name += f"_{repeated}"
        if kind == "Convolution":  # OpenCV names it by its top
            layers += [
                _Layer(names[v], kind, node, inputs[i : i + 1], (v,)) for i, v in enumerate(outputs)
            ]
        elif kind != "Input":
            outputs = inputs[:1] if kind == "Silence" else outputs  # OpenCV passes its input on
            layers.append(_Layer(name, kind, node, inputs, outputs))
    return layers


def _two_axes(array: Array) -> Array:
    """Returns an array as OpenCV holds it: with two axes at least."""
    return array if array.ndim > 1 else array.reshape(-1, 1)


def _detections(rows: Array, most: int) -> Array:
    """Returns rows of (image, class, score, ...) as OpenCV has them: by image and score, and zeros
    up to `most` rows. Caffe has them by image and class, and a row of -1 if there are none."""
    found = rows[0, 0, rows[0, 0, :, 1] >= 0]
    filled = np.zeros((1, 1, max(most, len(found)), 7), np.float32)
    filled[0, 0, : len(found)] = found[np.lexsort((-found[:, 2], found[:, 0]))]
    return filled


class Layer:
    """A layer of a Net: `name`, `type` and `blobs`, the list of its parameters.

    `blobs` are copies; assigning a list sets the parameters, of which those that are not given (a
    bias) become zero. Shapes may differ in axes of size 1.
    """

    def __init__(self, net: Net, number: int, name: str, kind: str) -> None:
        self._net, self._number, self.name, self.type = net, number, name, kind

    @property
    def blobs(self) -> list[Array]:
        if self._number == 0:
            return []
        net, layer = self._net._parts(self._number)
        blobs = [_two_axes(blob.copy()) for blob in net.parameters(layer.node)]
        if layer.type == "InnerProduct" and len(blobs) > 1:
            blobs[1] = blobs[1].reshape(1, -1)
        return blobs

    @blobs.setter
    def blobs(self, blobs: Sequence[Array]) -> None:
        own = self.blobs
        if not 0 < len(blobs) <= len(own):
            raise Error(f"layer '{self.name}' has {len(own)} parameters, not {len(blobs)}")
        for i, old in enumerate(own):
            self._net.setParam(self._number, i, blobs[i] if i < len(blobs) else np.zeros_like(old))


class Net:
    """A net for inference; readNetFromCaffe makes one. Layers have ids from 1; 0 is the input.

    As in OpenCV, one thread uses a net at a time.
    """

    _warned = False

    def __init__(self) -> None:
        self._net: _core.DnnNet | None = None
        self._start()

    def _start(self) -> None:
        self._layers = [] if self._net is None else _layers_of(self._net)
        self._ids = {layer.name: i for i, layer in reversed([*enumerate(self._layers, 1)])}
        self._ids.setdefault("_input", 0)
        self._names = [] if self._net is None else self._net.inputs
        self._inputs: dict[int, Array] = {}
        self._models: dict[tuple[int, ...], tuple[_core.Model, list[str]]] = {}
        self._planned: tuple[tuple[Any, ...], dict[str, tuple[int, ...]]] = ((), {})
        self._ticks = np.zeros(len(self._layers))

    def _parts(self, layer: int | str) -> tuple[_core.DnnNet, _Layer]:
        number = self.getLayerId(layer) if isinstance(layer, str) else operator.index(layer)
        if self._net is None or not 0 < number <= len(self._layers):
            raise Error(f"the net has no layer {layer!r}", "not_found")
        return self._net, self._layers[number - 1]

    def empty(self) -> bool:
        """Returns true for a net without layers."""
        return not self._layers

    # Inputs

    def setInput(
        self,
        blob: Array,
        name: str = "",
        scalefactor: float = 1.0,
        mean: float | Sequence[float] | Array | None = (),
    ) -> None:
        """Sets an input (the first without a name) to (blob - mean) * scalefactor.

        `mean` has a number for each channel (axis 1). A blob of another shape than the prototxt's
        gives the net new shapes at the next forward.
        """
        if not isinstance(blob, np.ndarray) or blob.dtype.kind not in "iuf":
            raise TypeError("a blob is a NumPy array of numbers")
        if self.empty():
            return
        if name not in ("", *self._names):
            raise Error(
                f"the net has no input '{name}'; it has {', '.join(self._names)}", "not_found"
            )
        values = _two_axes(np.array(blob, np.float32))
        means = _scalar("mean", mean)[: values.shape[1]]
        if any(means):
            shape = (1, -1) + (1,) * (values.ndim - 2)
            values[:, : len(means)] -= np.array(means, np.float32).reshape(shape)
        if scalefactor != 1:
            values *= np.float32(scalefactor)
        self._inputs[self._names.index(name or self._names[0])] = values

    def setInputsNames(self, inputBlobNames: Sequence[str]) -> None:
        """Gives the inputs other names."""
        if len(inputBlobNames) != len(self._names):
            raise Error(f"the net has {len(self._names)} inputs, not {len(inputBlobNames)}")
        self._names = [*inputBlobNames]

    def setInputShape(self, inputName: str, shape: Sequence[int]) -> None:
        """Sets an input to zeros of a shape."""
        self.setInput(np.zeros([operator.index(size) for size in shape], np.float32), inputName)

    # Passes

    def _run(self, values: Sequence[int]) -> list[Array]:
        """Computes values of the net."""
        if self._net is None:
            raise Error("the net is empty: readNetFromCaffe returns one with layers")
        missing = [name for i, name in enumerate(self._names) if i not in self._inputs]
        if missing:
            raise Error(f"the input '{missing[0]}' has not been set: call setInput")
        key = tuple(dict.fromkeys(values))
        if key not in self._models:
            while len(self._models) >= _MODELS:
                del self._models[next(iter(self._models))]
            self._models[key] = self._net.model([*key])
        model, names = self._models[key] = self._models.pop(key)  # the last one used is last
        start = time.perf_counter_ns()
        outputs = model.run({name: self._inputs[i] for i, name in enumerate(self._net.inputs)})
        ticks = np.zeros(len(self._layers))
        ticks[-1] = time.perf_counter_ns() - start
        self._ticks = ticks
        by_value = {value: _two_axes(outputs[name]) for value, name in zip(key, names)}
        for layer in self._layers:
            value = next(iter(layer.outputs), -1)
            if layer.type == "DetectionOutput" and value in by_value:
                by_value[value] = _detections(by_value[value], self._most_rows(value))
        return [by_value[value] for value in values]

    def _most_rows(self, value: int) -> int:
        """Returns the number of detections that the net can make at most, from these inputs."""
        assert self._net is not None
        shapes = tuple(self._inputs[i].shape for i in range(len(self._names)))
        if self._planned[0] != shapes:
            self._planned = shapes, self._net.shapes([*shapes])[0]
        return self._planned[1][self._net.value_names[value]][2]

    def _all_of(self, names: Sequence[str]) -> list[list[Array]]:
        """Computes all outputs of some layers."""
        outputs = [self._parts(name)[1].outputs for name in names]
        arrays = iter(self._run([value for values in outputs for value in values]))
        return [[next(arrays) for _ in values] for values in outputs]

    @overload
    def forward(self, outputName: str | None = None) -> Array: ...
    @overload
    def forward(
        self, outputName: list[str] | tuple[str, ...], outputBlobs: Sequence[Array] | None = None
    ) -> tuple[Array, ...]: ...
    @overload
    def forward(self, *, outBlobNames: Sequence[str]) -> tuple[Array, ...]: ...
    @overload
    def forward(self, outputName: None, outputBlobs: str) -> tuple[Array, ...]: ...

    def forward(
        self,
        outputName: str | Sequence[str] | None = None,
        outputBlobs: str | Sequence[Array] | None = None,
        outBlobNames: Sequence[str] | None = None,
    ) -> Array | tuple[Array, ...]:
        """Runs the net up to the layers that are asked for.

        forward() returns the first output of the last layer, forward(name) that of a layer, and
        forward([names]) a tuple of them. forward(None, name) returns all outputs of a layer. The
        arrays are new, of float32, and have two axes at least.
        """
        if self.empty():
            raise Error("the net is empty: readNetFromCaffe returns one with layers")
        last = self._layers[-1].name
        names = outputName if outBlobNames is None else outBlobNames
        if isinstance(outputBlobs, str) or (names is not None and len(names) == 0 and names != ""):
            return tuple(self._all_of([outputBlobs if isinstance(outputBlobs, str) else last])[0])
        names = names or last
        if isinstance(names, str):
            return self._run(self._parts(names)[1].outputs[:1])[0]
        return tuple(self._run([value for n in names for value in self._parts(n)[1].outputs[:1]]))

    def forwardAndRetrieve(self, outBlobNames: Sequence[str]) -> list[tuple[Array, ...]]:
        """Returns all outputs of each of these layers."""
        return [tuple(outputs) for outputs in self._all_of(outBlobNames)]

    # Layers

    def getLayerNames(self) -> tuple[str, ...]:
        """Returns the names of the layers, in order, without the input."""
        return tuple(layer.name for layer in self._layers)

    def getLayerId(self, layer: str) -> int:
        """Returns the id of a layer, or -1."""
        return self._ids.get(layer, -1)

    def getLayer(self, layerId: int | str) -> Layer:
        """Returns a layer by id or name."""
        if layerId in (0, "_input"):
            return Layer(self, 0, "_input", "")
        _, layer = self._parts(layerId)
        return Layer(self, self._ids[layer.name], layer.name, layer.type)

    def getLayerTypes(self) -> tuple[str, ...]:
        """Returns the types of the layers, each once, in alphabetical order."""
        return tuple(sorted({"__NetInputLayer__", *(layer.type for layer in self._layers)}))

    def getLayersCount(self, layerType: str) -> int:
        """Returns the number of layers of a type."""
        return sum(layer.type == layerType for layer in self._layers)

    def getUnconnectedOutLayers(self) -> npt.NDArray[np.int32]:
        """Returns the ids of the layers whose outputs no layer reads."""
        read = {value for layer in self._layers for value in layer.inputs}
        ids = [
            i
            for i, layer in enumerate(self._layers, 1)
            if layer.type == "Silence" or read.isdisjoint(layer.outputs)
        ]
        return np.array(ids, np.int32)

    def getUnconnectedOutLayersNames(self) -> tuple[str, ...]:
        """Returns the names of the layers whose outputs no layer reads."""
        return tuple(self._layers[i - 1].name for i in self.getUnconnectedOutLayers())

    def getParam(self, layer: int | str, numParam: int = 0) -> Array:
        """Returns a copy of a parameter of a layer."""
        _, found = self._parts(layer)
        blobs = self.getLayer(found.name).blobs
        if not 0 <= numParam < len(blobs):
            raise Error(f"layer '{found.name}' has no parameter {numParam}", "not_found")
        return blobs[numParam]

    def setParam(self, layer: int | str, numParam: int, blob: Array) -> None:
        """Sets a parameter of a layer. Its shape may differ in axes of size 1."""
        net, found = self._parts(layer)
        own = self.getParam(layer, numParam)
        values = np.ascontiguousarray(blob, np.float32)
        if values.squeeze().shape != own.squeeze().shape:
            raise Error(
                f"parameter {numParam} of layer '{found.name}' has the shape {own.shape}, "
                f"not {values.shape}"
            )
        net.set_parameter(found.node, numParam, values)
        self._models.clear()

    # Facts

    def _shapes(self, netInputShapes: Sequence[Any]) -> tuple[dict[str, tuple[int, ...]], int]:
        if self._net is None:
            raise Error("the net is empty: readNetFromCaffe returns one with layers")
        several = len(netInputShapes) > 0 and np.ndim(netInputShapes[0]) > 0
        shapes = netInputShapes if several else [netInputShapes]
        return self._net.shapes([tuple(map(operator.index, shape)) for shape in shapes])

    def getLayersShapes(
        self, netInputShapes: Sequence[Any]
    ) -> tuple[npt.NDArray[np.int32], tuple[Any, ...], tuple[Any, ...]]:
        """Returns the ids of all layers, the shapes of their inputs, and those of their outputs,
        for a shape of the input or a list of shapes."""
        shapes, _ = self._shapes(netInputShapes)
        assert self._net is not None

        def of(values: Sequence[str]) -> tuple[npt.NDArray[np.int32], ...]:
            return tuple(np.array(shapes[name], np.int32) for name in values)

        names = self._net.value_names
        inputs, outputs = [of(self._net.inputs)], [of(self._net.inputs)]
        for layer in self._layers:
            inputs.append(of([names[v] for v in layer.inputs]))
            outputs.append(of([names[v] for v in layer.outputs]))
        return np.arange(len(inputs), dtype=np.int32), tuple(inputs), tuple(outputs)

    def getMemoryConsumption(self, netInputShapes: Sequence[Any]) -> tuple[int, int]:
        """Returns the bytes of all parameters, and of all blobs without sharing memory."""
        _, _, outputs = self.getLayersShapes(netInputShapes)
        weights = [blob for name in self.getLayerNames() for blob in self.getLayer(name).blobs]
        blobs = sum(int(np.prod(shape, dtype=np.int64)) for layer in outputs for shape in layer)
        return sum(blob.nbytes for blob in weights), 4 * blobs

    def getFLOPS(self, netInputShapes: Sequence[Any]) -> int:
        """Returns the multiplications and additions of matrix products and convolutions."""
        return 2 * self._shapes(netInputShapes)[1]

    def getPerfProfile(self) -> tuple[int, npt.NDArray[np.float64]]:
        """Returns the time of the last pass in nanoseconds (the ticks of cv2.getTickFrequency), and
        times by layer: layers are computed together, so that the last one has all of it."""
        return int(self._ticks.sum()), self._ticks.copy()

    def dump(self) -> str:
        """Returns a table of the layers."""
        return "" if self._net is None else self._net.describe()

    def dumpToFile(self, path: str) -> None:
        """Writes what dump returns."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.dump())

    # Settings, which crema makes for itself

    def setPreferableBackend(self, backendId: int) -> None:
        """Accepts all backends of OpenCV; the CPU computes."""
        self._accept("backend", backendId, DNN_BACKEND_CANN, (DNN_BACKEND_CUDA,))

    def setPreferableTarget(self, targetId: int) -> None:
        """Accepts all targets of OpenCV; the CPU computes, in float32. A CUDA target warns once,
        and is an error if CREMA_REQUIRE_GPU is set."""
        cuda = (DNN_TARGET_CUDA, DNN_TARGET_CUDA_FP16)
        self._accept("target", targetId, DNN_TARGET_CPU_FP16, cuda)

    def _accept(self, what: str, number: int, last: int, cuda: Sequence[int]) -> None:
        if not 0 <= operator.index(number) <= last:
            raise Error(f"OpenCV has no {what} {number}")
        if number not in cuda:
            return
        if os.environ.get("CREMA_REQUIRE_GPU", "0") not in ("", "0"):
            raise Error(
                "crema.dnn computes on the CPU, and CREMA_REQUIRE_GPU is set", "unsupported"
            )
        if not Net._warned:
            Net._warned = True
            warnings.warn("crema.dnn computes on the CPU; CUDA is ignored", stacklevel=3)

    def enableFusion(self, fusion: bool) -> None:
        """Has no effect: layers are fused where the results stay the same."""

    def enableWinograd(self, useWinograd: bool) -> None:
        """Has no effect: the fastest algorithm is chosen for each layer."""


def _bytes_of(source: Source) -> bytes:
    if isinstance(source, np.ndarray):
        return source.tobytes()
    if not isinstance(source, (bytes, bytearray, memoryview)):
        raise TypeError(f"{source!r} is neither a path nor a buffer")
    return bytes(source)


@contextlib.contextmanager
def _file_of(weights: Source | None) -> Iterator[str]:
    """Yields the path of a weights file; empty for none."""
    if weights is None or isinstance(weights, (str, os.PathLike)):
        yield "" if weights is None else os.fspath(weights)
        return
    with tempfile.NamedTemporaryFile(suffix=".caffemodel") as file:
        file.write(_bytes_of(weights))
        file.flush()
        yield file.name


def readNetFromCaffe(prototxt: Source, caffeModel: Source | None = None) -> Net:
    """Reads a net and its weights: paths, or buffers (bytes, or an array of uint8) of both.

    Without weights, or for a layer that the weights lack, forward raises an error until
    `getLayer(...).blobs` has been set.
    """
    net = Net()
    with _file_of(caffeModel) as weights:
        if isinstance(prototxt, (str, os.PathLike)):
            net._net = _core.DnnNet.open(os.fspath(prototxt), weights)
        else:
            text = _bytes_of(prototxt).decode("utf-8", "replace")
            net._net = _core.DnnNet.parse(text, weights)
    net._start()
    return net


def readNet(model: Source, config: Source = "", framework: Source = "") -> Net:
    """Reads the weights `model` of the net `config`, in either order; with buffers, as in OpenCV,
    readNet("caffe", weights, net)."""
    if not isinstance(config, (str, os.PathLike)):
        if model != "caffe":
            raise Error(f"crema.dnn reads Caffe models, not {model!r}", "unsupported")
        return readNetFromCaffe(framework, config)
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError('nets in memory are read by readNet("caffe", weights, net)')
    net, weights = os.fspath(config), os.fspath(model)
    if weights.endswith(".prototxt") or net.endswith(".caffemodel"):
        net, weights = weights, net
    if framework not in ("", "caffe") or not (
        framework or net.endswith(".prototxt") or weights.endswith(".caffemodel")
    ):
        raise Error(f"crema.dnn reads .prototxt and .caffemodel, not '{model}'", "unsupported")
    return readNetFromCaffe(net, weights or None)
