"""The additions of pycaffe to Net: dictionaries of blobs and parameters, and passes by name."""

from collections import OrderedDict
from itertools import zip_longest

import numpy as np

from ._caffe import (
    NCCL,
    AdaDeltaSolver,
    AdaGradSolver,
    AdamSolver,
    Net,
    NesterovSolver,
    RMSPropSolver,
    SGDSolver,
    Timer,
)

__all__ = [
    "NCCL",
    "AdaDeltaSolver",
    "AdaGradSolver",
    "AdamSolver",
    "Net",
    "NesterovSolver",
    "RMSPropSolver",
    "SGDSolver",
    "Timer",
]


def _cached(name, make):
    """A property that `make` computes once for each net."""

    def get(self):
        if name not in self.__dict__:
            self.__dict__[name] = make(self)
        return self.__dict__[name]

    return property(get)


def _blobs_of_layers(ids_of):
    def make(net):
        return OrderedDict(
            (name, [net._blob_names[i] for i in ids_of(net, layer)])
            for layer, name in enumerate(net._layer_names)
        )

    return make


def _params(net):
    pairs = ((name, layer.blobs) for name, layer in zip(net._layer_names, net.layers))
    return OrderedDict((name, blobs) for name, blobs in pairs if len(blobs) > 0)


def _check_arrays(given, names, message):
    if set(given) != set(names):
        raise Exception(message)


def _forward(self, blobs=None, start=None, end=None, **kwargs):
    """Runs the net, or its layers `start` to `end`.

    Keyword arguments are arrays for all inputs of the net. Returns a dict of arrays: the outputs
    of the net (the tops of `end`), and the blobs that `blobs` names.
    """
    names = list(self._layer_names)
    first = 0 if start is None else names.index(start)
    last = len(names) - 1 if end is None else names.index(end)
    wanted = set(self.outputs if end is None else self.top_names[end]) | set(blobs or [])
    if kwargs:
        _check_arrays(kwargs, self.inputs, "Input blob arguments do not match net inputs.")
        for name, array in kwargs.items():
            if array.shape[0] != self.blobs[name].shape[0]:
                raise Exception("Input is not batch sized")
            self.blobs[name].data[...] = array
    self._forward(first, last)
    return {name: self.blobs[name].data for name in wanted}


def _backward(self, diffs=None, start=None, end=None, **kwargs):
    """Runs the net backward, or its layers `start` down to `end`.

    Keyword arguments are gradients of all outputs of the net. Returns a dict of gradients: of the
    inputs of the net (the bottoms of `end`), and of the blobs that `diffs` names.
    """
    names = list(self._layer_names)
    first = len(names) - 1 if start is None else names.index(start)
    last = 0 if end is None else names.index(end)
    wanted = set(self.inputs if end is None else self.bottom_names[end]) | set(diffs or [])
    if kwargs:
        _check_arrays(kwargs, self.outputs, "Top diff arguments do not match net outputs.")
        for name, gradient in kwargs.items():
            if gradient.shape[0] != self.blobs[name].shape[0]:
                raise Exception("Diff is not batch sized")
            self.blobs[name].diff[...] = gradient
    self._backward(first, last)
    return {name: self.blobs[name].diff for name in wanted}


def _batch(self, arrays):
    """Yields the arrays in batches of the net's size; the last one is filled up with zeros."""
    size = next(iter(self.blobs.values())).shape[0]
    count = len(next(iter(arrays.values())))
    for begin in range(0, count, size):
        batch = {name: np.asarray(array[begin : begin + size]) for name, array in arrays.items()}
        missing = size - min(size, count - begin)
        if missing:
            batch = {
                name: np.concatenate([part, np.zeros((missing,) + part.shape[1:], part.dtype)])
                for name, part in batch.items()
            }
        yield batch


def _whole(parts, count):
    """Joins lists of rows to arrays, without the rows of the padding."""
    return {name: np.asarray(rows)[:count] for name, rows in parts.items()}


def _forward_all(self, blobs=None, **kwargs):
    """Runs any number of samples, in batches. Returns a dict of arrays, a row for each sample."""
    rows = {name: [] for name in set(self.outputs) | set(blobs or [])}
    for batch in self._batch(kwargs):
        for name, array in self.forward(blobs=blobs, **batch).items():
            rows[name].extend(array.copy())
    return _whole(rows, len(next(iter(kwargs.values()))))


def _forward_backward_all(self, blobs=None, diffs=None, **kwargs):
    """Runs any number of samples forward and backward. Returns two dicts: values, gradients."""
    values = {name: [] for name in set(self.outputs) | set(blobs or [])}
    gradients = {name: [] for name in set(self.inputs) | set(diffs or [])}
    forward = self._batch({name: kwargs[name] for name in self.inputs if name in kwargs})
    given = {name: kwargs[name] for name in self.outputs if name in kwargs}
    backward = self._batch(given) if given else iter(())
    for inputs, outputs in zip_longest(forward, backward, fillvalue={}):
        for name, array in self.forward(blobs=blobs, **inputs).items():
            values[name].extend(array.copy())
        for name, array in self.backward(diffs=diffs, **outputs).items():
            gradients[name].extend(array.copy())
    count = len(next(iter(kwargs.values())))
    return _whole(values, count), _whole(gradients, count)


def _set_input_arrays(self, data, labels):
    """Feeds a MemoryData layer: samples x channels x height x width values, a label for each."""
    if labels.ndim == 1:
        labels = np.ascontiguousarray(labels[:, np.newaxis, np.newaxis, np.newaxis])
    return self._set_input_arrays(data, labels)


Net.blobs = _cached("_blob_dict", lambda net: OrderedDict(zip(net._blob_names, net._blobs)))
Net.blob_loss_weights = _cached(
    "_loss_weight_dict", lambda net: OrderedDict(zip(net._blob_names, net._blob_loss_weights))
)
Net.layer_dict = _cached(
    "_layers_by_name", lambda net: OrderedDict(zip(net._layer_names, net.layers))
)
Net.params = _cached("_parameters_by_layer", _params)
Net.inputs = _cached("_input_names", lambda net: [net._blob_names[i] for i in net._inputs])
Net.outputs = _cached("_output_names", lambda net: [net._blob_names[i] for i in net._outputs])
Net.top_names = _cached("_tops_by_layer", _blobs_of_layers(Net._top_ids))
Net.bottom_names = _cached("_bottoms_by_layer", _blobs_of_layers(Net._bottom_ids))
Net.forward = _forward
Net.backward = _backward
Net.forward_all = _forward_all
Net.forward_backward_all = _forward_backward_all
Net.set_input_arrays = _set_input_arrays
Net._batch = _batch
