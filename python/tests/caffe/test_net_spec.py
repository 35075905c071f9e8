import pytest

import caffe
from caffe import layers as L
from caffe import params as P
from caffe.coord_map import AxisMismatchException, compose, coord_map_from_to, crop


def test_names_follow_the_attributes():
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 3, 8, 8]))
    n.conv = L.Convolution(
        n.data, num_output=2, kernel_size=3, weight_filler=dict(type="xavier"), param=dict(lr_mult=2)
    )
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, pool=P.Pooling.AVE, kernel_size=2)
    n.loss = L.SoftmaxWithLoss(n.pool, n.data, loss_weight=3)
    net = n.to_proto()
    assert [layer.name for layer in net.layer] == ["data", "conv", "relu", "pool", "loss"]
    assert net.layer[1].param[0].lr_mult == 2
    assert net.layer[2].top[0] == "conv"
    assert net.layer[3].pooling_param.pool == 1
    assert list(net.layer[4].loss_weight) == [3]


def test_names_are_made_for_tops_without_one():
    data = L.Input(shape=dict(dim=[1, 3]))
    net = L.InnerProduct(L.InnerProduct(data, num_output=2), num_output=1).to_proto()
    assert sorted(layer.name for layer in net.layer) == ["InnerProduct1", "InnerProduct2", "Input1"]


def test_layers_of_crema_are_known():
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 4, 6]))
    n.norm = L.LayerNorm(n.data)
    n.lstm = L.LSTM(n.norm, n.data, recurrent_param=dict(num_output=5))
    assert n.to_proto().layer[2].recurrent_param.num_output == 5


def test_unknown_fields_are_errors():
    with pytest.raises(AttributeError):
        L.ReLU(L.Input(), nothing=3).to_proto()
    with pytest.raises(TypeError, match="is not a Top"):
        L.ReLU("data")
    with pytest.raises(AttributeError, match="no top 'x'"):
        caffe.NetSpec().x


def test_crop_follows_the_coordinates():
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 1, 100, 100]))
    n.conv = L.Convolution(n.data, num_output=1, kernel_size=3, stride=2, pad=10)
    n.up = L.Deconvolution(n.conv, num_output=1, kernel_size=3, stride=2)
    assert coord_map_from_to(n.up, n.data) == (1, 1, -10)
    layer = crop(n.up, n.data).fn
    assert layer.params["crop_param"]["axis"] == 2
    assert layer.params["crop_param"]["offset"] == [10]
    with pytest.raises(AxisMismatchException):
        compose((1, 1, 0), (2, 1, 0))
