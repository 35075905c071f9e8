"""Parts of a net that run although its other layers do not accept the shapes of the inputs."""

import numpy as np
import pytest

import crema

NET = """
    force_backward: true
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 2 dim: 9 dim: 9 } } }
    layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
      convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
    layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
    layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
      pooling_param { kernel_size: 7 } }
    layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
      inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
    layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


def open_net():
    net = crema.Net.parse(NET, 1)
    return net, dict(zip(net.blob_names, net.blob_list()))


def expected(net, x):
    """Convolution and ReLU in NumPy."""
    weights, bias = (blob.data for blob in net.layer_list()[1].blobs)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("nchwij,ocij->nohw", windows, weights) + bias.reshape(-1, 1, 1), 0)


@pytest.mark.parametrize(
    "size, layer",
    [((12, 15), "ip"), ((5, 6), "pool")],  # too large for the weights, too small for the window
)
def test_layers_before_one_that_does_not_accept_the_shape_run(size, layer):
    net, blobs = open_net()
    whole = net.forward(0, 5)
    probabilities = blobs["prob"].data.copy()
    x = np.random.default_rng(1).standard_normal((1, 2, *size)).astype(np.float32)
    blobs["data"].reshape(*x.shape)
    blobs["data"].data[...] = x
    net.forward(0, 2)
    np.testing.assert_allclose(blobs["conv"].data, expected(net, x), rtol=1e-5, atol=1e-6)
    blobs["conv"].diff[...] = 1
    net.backward(2, 0)
    assert blobs["data"].diff.shape == x.shape and np.abs(blobs["data"].diff).max() > 0
    with pytest.raises(crema.Error) as caught:
        net.forward(0, 5)
    assert caught.value.layer == layer
    with pytest.raises(crema.Error) as caught:
        net.reshape()
    assert caught.value.layer == layer
    # The layers after it keep their shapes, and run again with the first ones.
    assert blobs["prob"].shape == (1, 4)
    assert net.layer_list()[4].blobs[0].data.shape == (4, 3)
    blobs["data"].reshape(1, 2, 9, 9)
    blobs["data"].data[...] = 0
    assert net.forward(0, 5) == whole
    np.testing.assert_array_equal(blobs["prob"].data, probabilities)


def test_other_sizes_follow_each_other():
    net, blobs = open_net()
    for size in (20, 4, 9, 13):
        x = np.random.default_rng(size).standard_normal((2, 2, size, size)).astype(np.float32)
        blobs["data"].reshape(*x.shape)
        blobs["data"].data[...] = x
        net.forward(0, 2)
        np.testing.assert_allclose(blobs["conv"].data, expected(net, x), rtol=1e-5, atol=1e-6)


def test_a_layer_that_does_not_fit_cannot_run_by_itself():
    net, blobs = open_net()
    blobs["data"].reshape(1, 2, 30, 30)
    net.forward(0, 2)
    for first, last in ((3, 5), (3, 4)):
        with pytest.raises(crema.Error):
            net.forward(first, last)


CHAIN = """
    force_backward: true
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "a"
      inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
    layer { name: "second" type: "TYPE" bottom: "a" top: "b" }
    layer { name: "third" type: "Scale" bottom: "b" top: "c" scale_param { filler { value: 3 } } }
    layer { name: "end" type: "Power" bottom: "c" top: "end" power_param { power: 2 } }
"""


@pytest.mark.parametrize(
    "kind", ["Scale", "BatchNorm", "PReLU", "Sigmoid", "TanH", "ReLU", "Power", "Dropout"]
)
def test_parts_of_a_net_see_layers_in_place_as_one_blob(kind):
    text = CHAIN.replace("TYPE", kind)
    place, apart = crema.Net.parse(
        text.replace('"b"', '"a"').replace('"c"', '"a"'), 0
    ), crema.Net.parse(text, 0)
    x = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    y = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    a = place.blobs["a"]
    for net in (place, apart):
        net.blobs["data"].data[...] = x
        net.forward()
    np.testing.assert_array_equal(a.data, apart.blobs["c"].data)
    for layer, blob in (("ip", "a"), ("second", "b"), ("third", "c")):
        for net in (place, apart):
            net.forward(last=layer)
        np.testing.assert_array_equal(a.data, apart.blobs[blob].data)
    # What the program writes is what the next layer reads, and the gradient that it starts from.
    a.data[...] = apart.blobs["a"].data[...] = y
    for net in (place, apart):
        net.forward("second")
    np.testing.assert_array_equal(place.blobs["end"].data, apart.blobs["end"].data)
    a.diff[...] = apart.blobs["c"].diff[...] = y
    for net in (place, apart):
        net.backward("third", "third")
    np.testing.assert_array_equal(a.diff, apart.blobs["b"].diff)
    a.diff[...] = apart.blobs["b"].diff[...] = -y
    for net in (place, apart):
        net.backward("second")
    np.testing.assert_array_equal(a.diff, apart.blobs["a"].diff)
    np.testing.assert_array_equal(place.blobs["data"].diff, apart.blobs["data"].diff)
    for net in (place, apart):  # passes of all layers are as before
        net.forward()
        net.blobs["end"].diff[...] = y
        net.backward()
    np.testing.assert_array_equal(a.data, apart.blobs["c"].data)
    np.testing.assert_array_equal(a.diff, apart.blobs["a"].diff)
    np.testing.assert_array_equal(place.blobs["data"].diff, apart.blobs["data"].diff)


def test_a_gradient_of_an_output_that_is_written_in_place_is_set_by_its_name():
    text = CHAIN.replace("TYPE", "PReLU").replace('"b"', '"a"').replace('"c"', '"a"')
    net = crema.Net.parse(text[: text.index('layer { name: "end"')], 0)
    net.blobs["data"].data[...] = np.random.rand(4, 3)
    net.forward()
    net.blobs["a"].diff[...] = 1
    net.backward()
    assert np.abs(net.blobs["data"].diff).min() > 0


def test_a_solver_that_steps_writes_all_layers_in_place():
    text = CHAIN.replace("TYPE", "PReLU").replace('"b"', '"a"').replace('"c"', '"a"')
    text = text.replace("Input", "DummyData").replace("input_param", "dummy_data_param")
    text += 'layer { name: "sum" type: "Reduction" bottom: "end" top: "sum" loss_weight: 1 }'
    solver = crema.Solver.parse(
        'base_lr: 0 lr_policy: "fixed" max_iter: 9 snapshot_after_train: false net_param { '
        + text.replace("dim: 3 }", "dim: 3 } data_filler { value: 2 }") + " }"
    )
    solver.step(1)
    whole = solver.net.blobs["a"].data.copy()
    net = solver.net
    net.forward(last="ip")
    assert (net.blobs["a"].data != whole).any()
    solver.step(1)
    np.testing.assert_array_equal(net.blobs["a"].data, whole)
