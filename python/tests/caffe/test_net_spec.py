import copy

import pytest

import caffe
from caffe import layers as L
from caffe import params as P
from caffe.coord_map import AxisMismatchException, compose, coord_map_from_to, crop


def test_names_follow_the_attributes():
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 3, 8, 8]))
    n.conv = L.Convolution(
        n.data,
        num_output=2,
        kernel_size=3,
        weight_filler=dict(type="xavier"),
        param=dict(lr_mult=2),
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
    with pytest.raises(AttributeError):
        L.Deconvolution(L.Input(), num_output=3).to_proto()
    with pytest.raises(AttributeError):
        P.Pooling.NOTHING


def test_unknown_tops_are_errors_of_attributes_and_of_keys():
    n = caffe.NetSpec()
    assert not hasattr(n, "x")
    with pytest.raises(AttributeError, match="no top 'x'"):
        n.x
    for error in (KeyError, AttributeError):
        with pytest.raises(error):
            n["x"]


def test_fields_take_scalars_lists_and_dicts():
    layer = L.Convolution(
        L.Input(),
        num_output=2,
        kernel_size=[3, 5],
        stride=2,
        pad=(1, 2),
        param=[dict(lr_mult=1), dict(lr_mult=2, decay_mult=0)],
        include=dict(phase=caffe.TEST, stage=["a", "b"]),
        bias_filler={},
        name="own",
    )
    made = layer.to_proto().layer[1]
    convolution = made.convolution_param
    assert list(convolution.kernel_size) == [3, 5]
    assert list(convolution.stride) == [2] and list(convolution.pad) == [1, 2]
    assert [param.lr_mult for param in made.param] == [1, 2]
    assert made.include[0].phase == 1 and list(made.include[0].stage) == ["a", "b"]
    assert not convolution.HasField("bias_filler")
    assert made.name == "own"
    pooling = L.Pooling(L.Input(), pool="AVE", pooling_param=dict(kernel_size=2)).to_proto()
    assert pooling.layer[1].pooling_param.pool == P.Pooling.AVE


def test_layers_have_any_number_of_tops():
    n = caffe.NetSpec()
    n.data, n.label = L.DummyData(shape=[dict(dim=[2]), dict(dim=[2])], ntop=2)
    n.none = L.Silence(n.data, n.label, ntop=0)
    n["a/b"] = L.ReLU(n["data"], in_place=True)
    layers = n.to_proto().layer
    assert [list(layer.top) for layer in layers] == [["data", "label"], [], ["data"]]
    assert [layer.name for layer in layers] == ["data", "none", "a/b"]


def test_layers_are_written_once():
    x = L.Input()
    net = caffe.to_proto(L.Eltwise(L.ReLU(x), L.Power(x)), L.Sigmoid(x))
    assert [layer.type for layer in net.layer] == ["Input", "ReLU", "Power", "Eltwise", "Sigmoid"]
    assert list(net.layer[3].bottom) == ["ReLU1", "Power1"]


def test_names_of_parameters():
    names = caffe.net_spec.param_name_dict()
    assert names["Convolution"] == "convolution" and names["HDF5Data"] == "hdf5_data"


def test_nets_are_copied():
    n = caffe.NetSpec()
    n.data = L.Input()
    for made in (copy.copy(n), copy.deepcopy(n)):
        assert made.to_proto() == n.to_proto()


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
