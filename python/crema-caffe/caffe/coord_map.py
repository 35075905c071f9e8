"""Relates the coordinates of blobs of a net, to crop one to another.

A map is (axis, scale, shift) of the first spatial axis, counted without the batch: coordinate x of
the one is scale * x + shift of the other. The axis is None if the map holds for all axes.
"""

import numpy as np

from .net_spec import layers as L

PASS_THROUGH_LAYERS = [
    "AbsVal",
    "BatchNorm",
    "Bias",
    "BNLL",
    "Dropout",
    "Eltwise",
    "ELU",
    "Log",
    "LRN",
    "Exp",
    "MVN",
    "Power",
    "ReLU",
    "PReLU",
    "Scale",
    "Sigmoid",
    "Split",
    "TanH",
    "Threshold",
]


class UndefinedMapException(Exception):
    """A layer does not map coordinates."""


class AxisMismatchException(Exception):
    """Two maps are of different axes."""


def conv_params(fn):
    """Returns axis, stride, size of the dilated kernel and padding of a layer with a kernel."""
    params = fn.params.get("convolution_param", fn.params)

    def sizes(name, default=None):
        return np.array(params[name] if default is None else params.get(name, default), ndmin=1)

    kernel = (sizes("kernel_size") - 1) * sizes("dilation", 1) + 1
    legacy = {"pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w"}
    assert not legacy & set(fn.params), "cropping does not support legacy _h/_w params"
    return params.get("axis", 1), sizes("stride", 1), kernel, sizes("pad", 0)


def crop_params(fn):
    """Returns axis and offset of a Crop layer."""
    params = fn.params.get("crop_param", fn.params)
    return params.get("axis", 2), np.array(params.get("offset", 0), ndmin=1)


def coord_map(fn):
    """Returns the map of a layer. Raises UndefinedMapException for layers without one."""
    if fn.type_name in ("Convolution", "Pooling", "Im2col"):
        axis, stride, kernel, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (kernel - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, kernel, pad = conv_params(fn)
        return axis, stride, (kernel - 1) / 2 - pad
    if fn.type_name in PASS_THROUGH_LAYERS:
        return None, 1, 0
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset
    raise UndefinedMapException


def compose(base_map, next_map):
    """Returns the map that applies next_map, then base_map."""
    base_axis, base_scale, base_shift = base_map
    next_axis, next_scale, next_shift = next_map
    if base_axis is not None and next_axis is not None and base_axis != next_axis:
        raise AxisMismatchException
    axis = next_axis if base_axis is None else base_axis
    return axis, base_scale * next_scale, base_scale * next_shift + base_shift


def inverse(coord_map):
    """Returns the map in the other direction."""
    axis, scale, shift = coord_map
    return axis, 1 / scale, -shift / scale


def _maps_to_ancestors(top):
    """Yields each blob that `top` depends on by layers that map coordinates, with its map."""
    maps = {top: (None, 1, 0)}
    frontier = [top]
    while frontier:
        blob = frontier.pop()
        yield blob, maps[blob]
        # The second bottom of Crop gives a size, and no coordinates.
        bottoms = blob.fn.inputs[:1] if blob.fn.type_name == "Crop" else blob.fn.inputs
        try:
            for bottom in bottoms:
                bottom_map = compose(maps[blob], coord_map(blob.fn))
                if bottom not in maps:
                    maps[bottom] = bottom_map
                    frontier.append(bottom)
        except UndefinedMapException:
            pass


def coord_map_from_to(top_from, top_to):
    """Returns the map from one blob to another, by a blob that both depend on.

    Raises RuntimeError if there is none, AxisMismatchException if layers on the way disagree.
    """
    from_maps = dict(_maps_to_ancestors(top_from))
    for blob, to_map in _maps_to_ancestors(top_to):
        if blob in from_maps:
            return compose(to_map, inverse(from_maps[blob]))
    raise RuntimeError("Could not compute map between tops; are they connected by spatial layers?")


def crop(top_from, top_to):
    """Returns the Crop layer that cuts `top_from` to the place and size of `top_to`."""
    axis, scale, shift = coord_map_from_to(top_from, top_to)
    assert np.all(scale == 1), f"scale mismatch on crop (a = {scale})"
    assert np.all(shift <= 0), f"cannot crop negative offset (b = {shift})"
    assert np.all(np.round(shift) == shift), f"cannot crop noninteger offset (b = {shift})"
    offset = [int(-size) for size in np.atleast_1d(np.round(shift))]
    return L.Crop(top_from, top_to, crop_param=dict(axis=axis + 1, offset=offset))
