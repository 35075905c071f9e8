import numpy as np
import pytest

import caffe
from caffe import layers as L
from caffe.coord_map import (
    AxisMismatchException,
    UndefinedMapException,
    compose,
    coord_map,
    coord_map_from_to,
    crop,
    crop_params,
    inverse,
)


def image():
    return L.Input(shape=dict(dim=[1, 1, 50, 50]))


def same(one, other):
    return one[0] == other[0] and np.all(one[1] == other[1]) and np.all(one[2] == other[2])


@pytest.mark.parametrize(
    "layer, wanted",
    [
        (lambda x: L.ReLU(x), (None, 1, 0)),
        (lambda x: L.Convolution(x, kernel_size=3), (1, 1, -1)),
        (lambda x: L.Convolution(x, kernel_size=3, pad=1, stride=2), (1, 0.5, 0)),
        (lambda x: L.Convolution(x, kernel_size=3, dilation=2), (1, 1, -2)),
        (lambda x: L.Convolution(x, convolution_param=dict(kernel_size=5)), (1, 1, -2)),
        (lambda x: L.Convolution(x, kernel_size=[1, 3], pad=[0, 1]), (1, 1, 0)),
        (lambda x: L.Pooling(x, kernel_size=2, stride=2), (1, 0.5, -0.25)),
        (lambda x: L.Im2col(x, convolution_param=dict(kernel_size=3, axis=2)), (2, 1, -1)),
        (lambda x: L.Deconvolution(x, kernel_size=4, stride=2, pad=1), (1, 2, 0.5)),
        (lambda x: L.Crop(x, x, axis=2, offset=[3, 4]), (1, 1, [-3, -4])),
        (lambda x: L.Crop(x, x), (1, 1, 0)),
    ],
)
def test_layers_map_coordinates(layer, wanted):
    assert same(coord_map(layer(image()).fn), wanted)


def test_layers_without_a_map_are_errors():
    with pytest.raises(UndefinedMapException):
        coord_map(L.InnerProduct(image(), num_output=1).fn)
    with pytest.raises(KeyError, match="kernel_size"):
        coord_map(L.Convolution(image(), kernel_h=3, kernel_w=3).fn)
    with pytest.raises(AssertionError, match="legacy"):
        coord_map(L.Convolution(image(), kernel_size=3, pad_h=1).fn)


def test_maps_compose_and_invert():
    assert same(compose((None, 2, 1), (1, 3, 4)), (1, 6, 9))
    assert same(compose((1, 2, 1), (None, 1, 0)), (1, 2, 1))
    assert same(inverse((1, 2, 3)), (1, 0.5, -1.5))
    assert same(compose((1, 4, 3), inverse((1, 4, 3))), (1, 1, 0))
    with pytest.raises(AxisMismatchException):
        compose((1, 1, 0), (2, 1, 0))


def test_crop_params_have_defaults():
    axis, offset = crop_params(L.Crop(image(), image()).fn)
    assert axis == 2 and offset.tolist() == [0]


def test_maps_lead_through_a_common_ancestor():
    n = caffe.NetSpec()
    n.data = image()
    n.one = L.Convolution(n.data, kernel_size=3)
    n.two = L.Convolution(n.data, kernel_size=7)
    assert same(coord_map_from_to(n.two, n.one), (1, 1, 2))
    assert same(coord_map_from_to(n.one, n.two), (1, 1, -2))
    n.flat = L.Flatten(n.one)
    with pytest.raises(RuntimeError, match="Could not compute map"):
        coord_map_from_to(n.flat, n.data)


def test_crop_reads_no_coordinates_from_its_reference():
    data, other = image(), image()
    with pytest.raises(RuntimeError):
        coord_map_from_to(L.Crop(data, other), other)


def test_long_chains_of_branches_take_linear_time():
    top = data = L.Convolution(image(), kernel_size=1)
    for _ in range(200):
        top = L.Eltwise(L.ReLU(top), L.Dropout(top), top)
    assert same(coord_map_from_to(top, data), (None, 1, 0))


def test_crop_checks_what_it_is_given():
    data = image()
    with pytest.raises(AssertionError, match="scale mismatch"):
        crop(L.Convolution(data, kernel_size=3, stride=2), data)
    with pytest.raises(AssertionError, match="negative offset"):
        crop(L.Convolution(data, kernel_size=3), data)
    with pytest.raises(AssertionError, match="noninteger offset"):
        crop(L.Convolution(data, kernel_size=2, pad=1), data)
    layer = crop(L.Convolution(data, kernel_size=3, pad=[1, 4]), data).fn
    assert layer.params["crop_param"] == {"axis": 2, "offset": [0, 3]}
