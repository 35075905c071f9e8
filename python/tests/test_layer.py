"""@crema.layer and crema.check_layer."""

import threading

import declared_layers_for_tests as declared
import numpy as np
import pytest

import crema

INPUT = """name: "n" force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
"""


def python_layer(of, bottoms=("x",), tops=("y",), param_str="", more=""):
    text = " ".join([f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops])
    return (
        f'layer {{ name: "{of.lower()}" type: "Python" {text} {more} python_param {{ '
        f"module: 'declared_layers_for_tests' layer: '{of}' param_str: '{param_str}' }} }}\n"
    )


def open_net(text):
    net = crema.Net.parse(INPUT + text, 0)
    return net, dict(zip(net.blob_names, net.blob_list()))


def run(net):
    return net.forward(0, len(net.layer_names) - 1)


def x_of(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def swish(x, beta=1.0):
    return x / (1 + np.exp(-beta * x))


def test_computes_forward_and_backward_with_the_fields_of_param_str():
    net, blobs = open_net(python_layer("Swish", param_str='{"beta": 2}'))
    x = blobs["x"].data[...] = x_of(4, 3)
    run(net)
    np.testing.assert_allclose(blobs["y"].data, swish(x, 2), rtol=1e-6)
    blobs["y"].diff[...] = 1
    net.backward(1, 0)
    step = 1e-3
    numeric = (swish(x + step, 2) - swish(x - step, 2)) / (2 * step)
    np.testing.assert_allclose(blobs["x"].diff, numeric, atol=1e-3)


def test_follows_the_shapes_of_inputs():
    net, blobs = open_net(python_layer("Dense", param_str='{"outputs": 2}'))
    blobs["x"].reshape(50, 3)
    run(net)
    assert blobs["y"].shape == (50, 2)


def test_parameters_have_fillers_and_gradients():
    net, blobs = open_net(python_layer("Dense", param_str='{"outputs": 2}'))
    weight, bias = net.layer_list()[1].blobs
    assert weight.shape == (2, 3) and bias.shape == (2,)
    assert (bias.data == 0.5).all() and np.unique(weight.data).size == 6
    x = blobs["x"].data[...] = x_of(4, 3)
    run(net)
    np.testing.assert_allclose(blobs["y"].data, x @ weight.data.T + 0.5, rtol=1e-5, atol=1e-6)
    blobs["y"].diff[...] = 1
    for count in (1, 2):  # gradients of parameters are added to
        net.backward(1, 0)
        np.testing.assert_allclose(weight.diff, count * np.tile(x.sum(axis=0), (2, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    "param_str, message",
    [
        ('{"betta": 2}', "betta"),
        ('{"beta": "two"}', "beta is 'two', expected float"),
        ("beta=2", "neither a JSON object nor a Python dict"),
        ("[2]", "neither a JSON object nor a Python dict"),
    ],
)
def test_wrong_fields_are_errors(param_str, message):
    with pytest.raises((ValueError, TypeError), match=message):
        open_net(python_layer("Swish", param_str=param_str))


def test_the_planner_uses_what_a_layer_declares(tmp_path):
    """In a model the top of a layer in place lies in the memory of its bottom."""
    net = tmp_path / "net.prototxt"
    text = INPUT.replace("force_backward: true", "")
    for k, name in enumerate(["Logistic", "Swish", "Logistic"]):
        text += python_layer(name, [f"y{k}" if k else "x"], [f"y{k + 1}"]).replace(
            f'"{name.lower()}"', f'"{name.lower()}{k}"'
        )
    net.write_text(text)
    model = crema.Model.from_caffe(str(net), [])
    x = x_of(4, 3)
    expected = 1 / (1 + np.exp(-swish(1 / (1 + np.exp(-x)))))
    np.testing.assert_allclose(model.run({"x": x})["y3"], expected, rtol=1e-5)
    np.testing.assert_allclose(model.run({"x": x_of(9, 3)})["y3"].shape, (9, 3))


def test_threads_share_a_layer(tmp_path):
    net = tmp_path / "net.prototxt"
    net.write_text(INPUT.replace("force_backward: true", "") + python_layer("Swish"))
    model = crema.Model.from_caffe(str(net), [])
    wrong = []

    def work(seed):
        for k in range(50):
            x = np.full((4, 3), seed + k / 100, np.float32)
            if not np.allclose(model.run({"x": x})["y"], swish(x), rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


SOLVER = """base_lr: 0.1 lr_policy: "fixed" max_iter: 100 random_seed: 1 snapshot_after_train: false
display: 0 net_param { name: "fit"
%s%s%s
}
"""


def test_a_solver_trains_data_layers_parameters_and_losses():
    solver = crema.Solver.parse(
        SOLVER
        % (
            python_layer("Batches", [], ["x", "sum"]),
            python_layer("Dense", param_str='{"outputs": 1}'),
            python_layer("SquaredDistance", ["y", "sum"], ["loss"], more="loss_weight: 1"),
        )
    )
    losses = []
    solver.add_callback("iteration", lambda event: losses.append(event["loss"]))
    solver.solve()
    assert losses[0] > 1 and losses[-1] < 1e-3
    weight, bias = solver.net.layer_list()[1].blobs
    np.testing.assert_allclose(weight.data, np.ones((1, 4)), atol=0.02)


def test_exceptions_reach_the_caller():
    net, _ = open_net(python_layer("Raises"))
    with pytest.raises(ValueError, match="forward of mine"):
        run(net)
    net, _ = open_net(python_layer("WrongShape"))
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for top 0, which has \(4, 3\)"):
        run(net)
    with pytest.raises(ValueError, match="infer returned 1 shapes, and the layer has 2 tops"):
        open_net(python_layer("Dense", tops=["a", "b"], param_str='{"outputs": 2}'))
    with pytest.raises(TypeError, match="expected a class"):
        open_net(python_layer("np.zeros"))


def test_arrays_of_the_net_cannot_be_kept_or_changed():
    net, blobs = open_net(python_layer("Keeps"))
    with pytest.raises(ValueError, match="keeps an array"):
        run(net)

    @crema.layer
    class Changes:
        def forward(self, x):
            x += 1

    with pytest.raises(crema.Error, match="read-only"):
        crema.check_layer(Changes, [(2, 3)])


def test_a_bottom_without_gradient_cannot_be_trained_through():
    dense = python_layer("Dense", tops=["d"], param_str='{"outputs": 3}')
    with pytest.raises(crema.Error, match="has no gradient for it") as caught:
        open_net(dense + python_layer("WrongShape", bottoms=["d"], more="loss_weight: 1"))
    assert caught.value.layer == "wrongshape"


@pytest.mark.parametrize(
    "claims, message",
    [
        ({"reach": "some"}, "reach is 'some'"),
        ({"tensors": "jax"}, "tensors is 'jax'"),
        ({"backward_reads": "bottoms"}, "'bottoms' is not"),
        ({"backward_reads": "bottom"}, "no method backward"),
    ],
)
def test_contradicting_claims_are_refused(claims, message):
    with pytest.raises(ValueError, match=message):

        @crema.layer(**claims)
        class Identity:
            def forward(self, x):
                return x


def test_in_place_and_reading_the_bottom_contradict_each_other():
    with pytest.raises(ValueError, match="overwrites"):
        crema.layer(in_place=True, backward_reads="bottom")(declared.Swish)


def test_claims_that_do_not_fit_the_shapes_are_refused():
    @crema.layer(reach="element")
    class Halves:
        def infer(self, x):
            return x.shape[0], x.shape[1] // 2

        def forward(self, x):
            return x[:, : x.shape[1] // 2]

    with pytest.raises(crema.Error, match="reach of places"):
        crema.check_layer(Halves, [(2, 4)])


@pytest.mark.parametrize(
    "of, bottoms, options",
    [
        (declared.Swish, [(3, 5)], {"beta": 1.5}),
        (declared.Logistic, [(3, 5)], {}),
        (declared.Dense, [(3, 5)], {"outputs": 2, "filler": "gaussian"}),
        (declared.SumAndProduct, [(3, 5), (3, 5)], {"tops": 2}),
        (declared.SquaredDistance, [(3, 2), (3,)], {}),
        ("TanH", [(2, 3)], {}),
        ("ReLU", [{"shape": (2, 3), "kink": 0}], {"text": "relu_param { negative_slope: 0.1 }"}),
        ("SoftmaxWithLoss", [(4, 3), {"shape": (4,), "integer": True}], {}),
    ],
)
def test_check_layer_finds_nothing_in_sound_layers(of, bottoms, options):
    crema.check_layer(of, bottoms, **options)


def faults(of, bottoms, **options):
    with pytest.raises(crema.Error) as caught:
        crema.check_layer(of, bottoms, **options)
    assert len(caught.value.problems) >= 1 and caught.value.code == "invalid_argument"
    return [str(problem) for problem in caught.value.problems]


def layer_with(**changes):
    """Returns Swish with other claims or methods."""
    methods = {name: change for name, change in changes.items() if callable(change)}
    claims = {"backward_reads": ("bottom", "top"), "reach": "element"}
    claims.update({name: change for name, change in changes.items() if name not in methods})
    members = {k: v for k, v in vars(declared.Swish).items() if k in ("infer", "forward", "backward")}
    return crema.layer(**claims)(type("Mine", (), {"beta": 1.0, **members, **methods}))


def wrong_gradient(self, gradient, x, y):
    return 1.001 * declared.Swish.backward(self, gradient, x, y)


def keeps_in_forward(self, x):
    self.kept = x
    return swish(x)


def state(self, x):
    self.calls = getattr(self, "calls", 0) + 1
    return swish(x) + (self.calls % 2)


def unwritten(self, x, out):
    out[:1] = swish(x)[:1]


def float_only(self, x):
    return swish(x) * (1.01 if x.dtype == np.float32 else 1)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"backward": wrong_gradient}, "gradient of input 0 is"),
        ({"forward": keeps_in_forward}, "keeps an array"),
        ({"forward": state}, "run again"),
        ({"forward": unwritten}, "output 0 unwritten"),
        ({"forward": float_only}, "f64 against f32"),
        ({"reach": "sample"}, 'write reach = "element"'),
        ({"forward": lambda self, x: swish(x) + x[:1]}, 'claims "element", but runs show "all"'),
        ({"constant": True}, "remove constant"),
        ({"moves_only": True}, "remove moves_only"),
    ],
)
def test_check_layer_names_the_claim_that_is_wrong(changes, message):
    assert any(message in fault for fault in faults(layer_with(**changes), [(3, 5)]))


def test_check_layer_finds_a_layer_that_does_not_compute_in_place():
    def forward(self, x, out):
        out[...] = 1
        out /= 1 + np.exp(-x)

    def backward(self, gradient, y):
        return gradient * y * (1 - y)

    of = layer_with(backward_reads="top", in_place=True, forward=forward, backward=backward)
    assert any("in place against out of place" in fault for fault in faults(of, [(3, 5)]))


def test_check_layer_refuses_other_arguments():
    with pytest.raises(TypeError, match="neither a class"):
        crema.check_layer(dict, [(2, 3)])
    with pytest.raises(crema.Error, match="TanH"):
        crema.check_layer("Tanh", [(2, 3)])
    with pytest.raises(TypeError, match="no field 'lowest'"):
        crema.check_layer("TanH", [{"shape": (2, 3), "lowest": 1}])
    assert any("TanH takes 1, not 2" in fault for fault in faults("TanH", [(2, 3), (2, 3)]))


def test_torch_tensors_and_autograd():
    torch = pytest.importorskip("torch")

    @crema.layer(tensors="torch", reach="sample")
    class Mix:
        def parameters(self, x, scale_of):
            return {"scale": ((x.shape[1],), 1)}

        def forward(self, x, scale_of, scale):
            assert isinstance(x, torch.Tensor) and isinstance(scale, torch.Tensor)
            return torch.softmax(x * scale, dim=1) * scale_of.mean(dim=1, keepdim=True)

    crema.check_layer(Mix, [(3, 5), (3, 2)])

    @crema.layer(tensors="torch", reach="element", backward_reads="top", in_place=True)
    class Logistic:
        def forward(self, x, out):
            torch.sigmoid(x, out=out)

        def backward(self, gradient, y):
            return gradient * y * (1 - y)

    crema.check_layer(Logistic, [(3, 5)])

    @crema.layer(tensors="torch")
    class Keeps:
        def forward(self, x):
            self.kept = x.view(-1)
            return x

    with pytest.raises(crema.Error, match="keeps an array"):
        crema.check_layer(Keeps, [(3, 5)])


def test_torch_tensors_lie_in_the_memory_of_the_net():
    pytest.importorskip("torch")
    net = crema.Net.parse(INPUT + python_layer("TorchAddress"), "TEST", keep_blobs=False)
    blobs = dict(zip(net.blob_names, net.blob_list()))
    run(net)
    assert declared.TorchAddress.addresses == [b.data.ctypes.data for b in blobs.values()]


@pytest.mark.parametrize(
    "layer, bottoms, message",
    [
        ("ReLU", [], "ReLU takes 1, not 0"),
        ("Concat", [], "Concat takes 1 or more, not 0"),
        ("SoftmaxWithLoss", [(3, 5)], "SoftmaxWithLoss takes 2"),
        ("ReLU", [(3, 5)] * 2, "ReLU takes 1, not 2"),
    ],
)
def test_check_layer_refuses_wrong_numbers_of_bottoms(layer, bottoms, message):
    with pytest.raises(crema.Error, match=message):
        crema.check_layer(layer, bottoms)


@pytest.mark.parametrize("name", ["param_str", "phase", "name"])
def test_fields_that_every_layer_has_are_refused(name):
    of = type("Of", (), {"forward": lambda self, x: x, name: 3, "__annotations__": {name: int}})
    with pytest.raises(ValueError, match=f"Of.{name} would be overwritten"):
        crema.layer(of)


def torch_net(of, more=""):
    net, blobs = open_net(python_layer(of, more=more))
    blobs["x"].data[...] = 1
    return net, blobs


def test_autograd_differentiates_the_forward_pass_that_ran():
    pytest.importorskip("torch")
    net, blobs = torch_net("TorchDropout")
    for _ in range(2):
        run(net)
        calls = declared.TorchDropout.calls
        for _ in range(2):
            blobs["y"].diff[...] = 1
            net.backward(1, 0)
            np.testing.assert_array_equal(blobs["x"].diff, blobs["y"].data)
        assert declared.TorchDropout.calls == calls


def test_autograd_in_inference_mode_and_with_out():
    torch = pytest.importorskip("torch")
    net, blobs = torch_net("TorchTriple")
    with torch.inference_mode():
        run(net)
        blobs["y"].diff[...] = 2
        net.backward(1, 0)
    assert (blobs["y"].data == 3).all() and (blobs["x"].diff == 6).all()
    blobs["x"].reshape(7, 3)
    run(net)
    assert blobs["y"].shape == (7, 3)


def test_autograd_before_a_forward_pass():
    pytest.importorskip("torch")
    net, blobs = torch_net("TorchTriple")
    blobs["y"].diff[...] = 2
    net.backward(1, 0)
    assert (blobs["x"].diff == 6).all()


def test_autograd_reads_all_bottoms():
    with pytest.raises(ValueError, match="leave backward_reads out"):

        @crema.layer(tensors="torch", backward_reads="top")
        class Wrong:
            def forward(self, x):
                return x


@pytest.mark.parametrize(
    "methods, fields, error, message",
    [
        (dict(forward=lambda self, x: x * 1j), "", TypeError, "returned complex64 for top 0"),
        (dict(infer=lambda self, x: "ab"), "", TypeError, "infer returned 'ab', expected a shape"),
        (dict(parameters=lambda self, x: [3]), "", TypeError, r"parameters returned \[3\]"),
        (dict(count=1, __annotations__={"count": int}), '{"count": true}', ValueError, "count is True"),
    ],
)
def test_wrong_results_are_errors(monkeypatch, methods, fields, error, message):
    of = type("Of", (), {"forward": lambda self, x: x, **methods})
    monkeypatch.setattr(declared, "Of", crema.layer(of), raising=False)
    with pytest.raises(error, match=message):
        run(open_net(python_layer("Of", param_str=fields))[0])
