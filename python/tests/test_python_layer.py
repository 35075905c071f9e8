import gc

import layers_for_tests
import numpy as np
import pytest

import crema


def net_with(layer, param_str="", bottom="data", phase=0):
    source = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }'
    net = crema.Net.parse(
        f"""force_backward: true
        {source if bottom else ""}
        layer {{ name: "py" type: "Python" {f'bottom: "{bottom}"' if bottom else ""} top: "out"
          python_param {{ module: "layers_for_tests" layer: "{layer}" param_str: "{param_str}" }} }}
        layer {{ name: "after" type: "Power" bottom: "out" top: "after" power_param {{ scale: 2 }} }}
        """,
        phase,
    )
    return net, dict(zip(net.blob_names, net.blob_list()))


def run(net):
    return net.forward(0, len(net.layer_names) - 1)


def test_computes_forward_and_backward():
    net, blobs = net_with("Times", "10")
    blobs["data"].data[...] = 3
    run(net)
    assert (blobs["after"].data == 60).all()
    blobs["after"].diff[...] = 1
    net.backward(2, 0)
    assert (blobs["data"].diff == 20).all()


def test_follows_the_shapes_of_inputs():
    net, blobs = net_with("Times", "10")
    blobs["data"].reshape(50, 3)
    blobs["data"].data[...] = 1
    run(net)
    assert blobs["after"].shape == (50, 3)


def test_data_layers_may_grow_from_batch_to_batch_and_keep_their_object():
    net, blobs = net_with("Growing", bottom="")
    import layers_for_tests

    layers_for_tests.Growing.setups = 1
    for count in range(5):
        run(net)
        assert blobs["after"].shape == (count + 1, 2)
        assert (blobs["out"].data == count).all()
    assert layers_for_tests.Growing.setups == 1


def test_gradients_of_losses_that_grow_start_from_the_weight():
    net = crema.Net.parse(
        'layer { name: "p" type: "Python" top: "p" '
        'python_param { module: "layers_for_tests" layer: "Growing" } }'
        'layer { name: "y" type: "InnerProduct" bottom: "p" top: "y" loss_weight: 0.5 '
        'inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }', 0)
    for count in range(4):
        net.forward()
        net.backward()
        assert net.blobs["y"].diff.shape == (count + 1, 2)
        assert (net.blobs["y"].diff == 0.5).all()


def test_parameters_start_as_setup_set_them_and_are_saved(tmp_path):
    net, blobs = net_with("Learning")
    parameter = net.layer_list()[1].blobs[0]
    assert parameter.data[0] == 2
    blobs["data"].data[...] = 1
    run(net)
    assert (blobs["out"].data == 2).all()
    blobs["after"].diff[...] = 1
    net.backward(2, 0)
    assert parameter.diff[0] == 12
    parameter.data[...] = 7
    net.save(str(tmp_path / "w.caffemodel"))
    other, _ = net_with("Learning")
    other.load([str(tmp_path / "w.caffemodel")])
    assert other.layer_list()[1].blobs[0].data[0] == 7


@pytest.mark.parametrize("layer, error", [("Failing", "forward of mine"), ("Forgetful", None)])
def test_exceptions_of_layers_reach_the_caller(layer, error):
    net, _ = net_with(layer)
    if error is None:
        run(net)
    else:
        with pytest.raises(ValueError, match=error):
            run(net)


def test_errors_while_planning_reach_the_caller():
    with pytest.raises(ValueError, match="setup of mine"):
        net_with("FailingSetup")
    with pytest.raises(AttributeError):
        net_with("Nothing")
    with pytest.raises(ValueError, match="could not convert"):
        net_with("Times", "no number")


BATCHES = """
layer { name: "data" type: "Python" top: "data" top: "label"
  python_param { module: "layers_for_tests" layer: "Batches" param_str: "WHEN" } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "drop" type: "Dropout" bottom: "ip" top: "drop" }
layer { name: "out" type: "InnerProduct" bottom: "drop" top: "out"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" top: "loss" }
"""
STEPS = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 12 random_seed: 3 snapshot_after_train: false '


@pytest.mark.parametrize("when", ["reshape", "forward"])
def test_a_solver_trains_on_batches_that_grow(when):
    def train(when, kept):
        tests = "test_iter: 2 test_interval: 2 " + "test_net_param { " + BATCHES + " } "
        text = STEPS + tests + "train_net_param { " + BATCHES + " }"
        solver = crema.Solver.parse(text.replace("WHEN", when))
        blobs = dict(zip(solver.net.blob_names, solver.net.blob_list()))
        for step in range(12):
            solver.step(1)
            kept.append((blobs["ip"].data, blobs["ip"].data.copy(), blobs["ip"].diff))
        assert blobs["data"].shape == (11, 3) and blobs["out"].data.shape == (11, 2)
        weights = [b.data.copy() for layer in solver.net.layer_list() for b in layer.blobs]
        return solver.metrics["train/loss"].values, solver.metrics["test_0/loss"].values, *weights

    kept = []
    for got, expected in zip(train(when, kept), train("at once", []), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    gc.collect()
    rows = [array.shape[0] for array, _, _ in kept]
    assert rows == [2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11]
    for array, values, diff in kept[::2]:  # views of memory that the net has outgrown
        assert array.shape == values.shape == diff.shape and np.isfinite(diff).all()


def test_a_layer_may_give_tops_that_grow_while_it_runs():
    net, blobs = net_with("Repeats")
    layers_for_tests.OBJECTS.clear()
    for times in range(1, 6):
        x = blobs["data"].data[...] = np.random.rand(2, 3).astype(np.float32)
        run(net)
        np.testing.assert_array_equal(blobs["after"].data, 2 * np.tile(x, (times, 1)))
        blobs["after"].diff[...] = 1
        net.backward(2, 0)
        assert blobs["out"].diff.shape == (2 * times, 3)
        assert (blobs["data"].diff == 2 * times).all()


def test_parts_of_a_net_follow_blobs_that_grew_while_others_ran():
    net, blobs = net_with("Repeats")
    layer = layers_for_tests.OBJECTS.pop()
    run(net)
    for _ in range(3):
        net.forward(0, 1)
    layer.times = 0  # the shape is again that of the first pass, in other memory
    blobs["data"].data[...] = 7
    run(net)
    assert blobs["after"].shape == (2, 3) and (blobs["after"].data == 14).all()


def test_a_top_cannot_outgrow_the_plan_of_a_net_that_shares_memory():
    text = BATCHES.replace("WHEN", "reshape")
    net = crema.Net.parse(text, 0, keep_blobs=False)
    run(net)
    run(net)
    with pytest.raises(crema.Error, match="layer \"data\".*'data'.*during a pass") as caught:
        run(net)
    assert caught.value.code == "invalid_argument"


def test_arrays_kept_by_a_layer_stay_valid():
    net, blobs = net_with("Times", "1")
    blobs["data"].data[...] = 4
    run(net)
    kept = blobs["out"].data
    del net, blobs
    assert np.isfinite(kept).all()


@pytest.mark.parametrize("sizes", ["1 3", "2 1", "6"])
def test_a_layer_may_shrink_its_blobs_in_backward(sizes):
    net, blobs = net_with("Reshapes", sizes)
    for _ in range(2):
        run(net)
        assert blobs["out"].shape == blobs["out"].data.shape == (2, 3)
        net.backward(2, 0)
        assert (blobs["data"].diff == 3).all()


def test_a_layer_cannot_grow_its_blobs_in_backward():
    net, blobs = net_with("Reshapes", "7 7")
    for _ in range(2):
        run(net)
        with pytest.raises(crema.Error, match="during a pass") as caught:
            net.backward(2, 0)
        assert caught.value.code == "invalid_argument"


@pytest.mark.parametrize("shape", [(5, 3), (1, 3)])
def test_a_reshape_before_backward_plans_the_net_again(shape):
    net, blobs = net_with("Times", "10")
    run(net)
    blobs["data"].reshape(*shape)
    net.backward(2, 0)  # of blobs that no pass has filled
    assert blobs["data"].diff.shape == blobs["out"].diff.shape == shape
    blobs["data"].data[...] = 3
    run(net)
    blobs["after"].diff[...] = 1
    net.backward(2, 0)
    assert (blobs["data"].diff == 20).all()


def test_a_reshape_during_backward_is_an_error():
    net, blobs = net_with("Times", "10")
    run(net)
    net.add_callback("before_backward", lambda layer: blobs["data"].reshape(5, 3))
    with pytest.raises(crema.Error, match="run or change the net"):
        net.backward(2, 0)
    assert blobs["data"].shape == (2, 3)
    net, blobs = net_with("Growing", bottom="")
    run(net)
    net.add_callback("before_backward", lambda layer: net.reshape())
    with pytest.raises(crema.Error, match="run or change the net"):
        net.backward(1, 0)


def test_nets_and_models_that_a_layer_opens_are_their_own(tmp_path):
    for name in ("TIMES", "SWISH"):
        (tmp_path / name).write_text(getattr(layers_for_tests, name))
    net, blobs = net_with("Opens", f"{tmp_path}/TIMES {tmp_path}/SWISH")
    x = blobs["data"].data[...] = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(2):
        run(net)
        np.testing.assert_allclose(blobs["out"].data, 3 * x + x / (1 + np.exp(-x)), rtol=1e-6)
    assert (blobs["data"].data == x).all()
    models = layers_for_tests.OBJECTS.pop().models
    del net, blobs
    gc.collect()
    times, swish = [model.run(x)["y"] for model in models]  # they need no net
    np.testing.assert_allclose(times + swish, 3 * x + x / (1 + np.exp(-x)), rtol=1e-6)


def test_share_in_parallel_changes_nothing_and_says_so(capfd):
    source = 'layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 3 } } }'
    layer = """layer { name: "py" type: "Python" bottom: "d" top: "out" python_param {
      module: "layers_for_tests" layer: "Plain" share_in_parallel: true } }"""
    solver = crema.Solver.parse(
        f'base_lr: 1 lr_policy: "fixed" max_iter: 9 net_param {{ {source} {layer} }}', threads=2)
    solver.step(3)
    assert len(layers_for_tests.OBJECTS) == 1
    layers_for_tests.OBJECTS.clear()
    warning = capfd.readouterr().err
    assert 'layer "py"' in warning and "share_in_parallel" in warning


def test_a_class_that_is_no_layer_says_what_it_lacks():
    with pytest.raises(TypeError, match="layers_for_tests.NoLayer is no layer: derive it from"):
        net_with("NoLayer")
