"""Parameters under PyTorch's names, without PyTorch; with it if it is installed."""

import os
import sys
import types

import numpy as np
import pytest
from conftest import NET

import crema

NORM_NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "c"
  convolution_param { num_output: 2 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" }
layer { name: "scale" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
"""


# y = Relu(x), 1 x 2, opset 17.
RELU_ONNX = (
    b'\x08\x08:;\n\x0c\n\x01x\x12\x01y"\x04Relu\x12\x01gZ\x13\n\x01x\x12\x0e\n\x0c\x08\x01\x12\x08'
    b"\n\x02\x08\x01\n\x02\x08\x02b\x13\n\x01y\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x01\n\x02\x08\x02"
    b"B\x04\n\x00\x10\x11"
)


def arrays(state):
    return {name: np.asarray(value) for name, value in state.items()}


@pytest.fixture
def net():
    net = crema.Net.parse(NORM_NET, 1)
    blobs = {layer.name: layer.blobs for layer in net.layer_list()}
    for name, values in (("bn", ([2.0, 4.0], [6.0, 8.0], [2.0])), ("scale", ([3.0, 5.0], [7.0, 9.0]))):
        for blob, value in zip(blobs[name], values):
            blob.data[...] = value
    return net


def test_names_and_values(net):
    state = arrays(net.to_torch_state_dict())
    assert list(state) == [
        "conv.weight",
        "conv.bias",
        "bn.running_mean",
        "bn.running_var",
        "bn.weight",
        "bn.bias",
    ]
    assert state["conv.weight"].shape == (2, 3, 1, 1)
    assert state["bn.running_mean"].tolist() == [1, 2]  # the sums by the factor
    assert state["bn.bias"].tolist() == [7, 9]
    state["conv.bias"][...] = 100  # a copy
    assert np.asarray(net.to_torch_state_dict()["conv.bias"])[0] != 100


def test_model(write_model):
    model = crema.Model.from_caffe(*write_model(NET))
    assert arrays(model.to_torch_state_dict())["ip.weight"].shape == (4, 3)


def test_layers_without_a_module():
    net = crema.Net.parse(
        """layer { name: "x" type: "Input" top: "x" top: "cont"
          input_param { shape { dim: 3 dim: 1 dim: 2 } shape { dim: 3 dim: 1 } } }
        layer { name: "old" type: "RNN" bottom: "x" bottom: "cont" top: "y"
          recurrent_param { num_output: 2 } }""",
        1,
    )
    with pytest.raises(crema.Error, match="W_ho") as caught:
        net.to_torch_state_dict()
    assert caught.value.layer == "old"


def test_safetensors(net, tmp_path):
    path = tmp_path / "m.safetensors"
    crema.save_safetensors(net, path)
    back = crema.load_state_dict(path)
    wanted = arrays(net.to_torch_state_dict())
    assert list(back) == list(wanted)
    for name, value in wanted.items():
        assert np.array_equal(back[name], value)
    crema.save_safetensors({"a": np.arange(6, dtype=np.int64).reshape(2, 3).T, "s": 1.5}, path)
    back = crema.load_state_dict(path)
    assert back["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert back["s"].shape == ()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(crema.Error) as caught:
        crema.load_state_dict(path)
    assert caught.value.code == "data_loss"


@pytest.mark.parametrize(
    "tensors, error, message",
    [
        ({3: 1.0}, TypeError, "names of tensors are strings, not 3"),
        ([1.0], TypeError, "a Net, a Model, or a mapping from names to arrays, not list"),
        (None, TypeError, "not NoneType"),
        ({"a": 1j}, TypeError, "tensor 'a' has elements of type complex128, not real numbers"),
        ({"a": "x"}, TypeError, "tensor 'a' has elements of type <U1"),
        ({"a": object()}, TypeError, "tensor 'a' has elements of type object"),
        ({"\ud800": 1.0}, ValueError, "of the name '.ud800'"),
        ({"__metadata__": 1.0}, ValueError, "of the name '__metadata__'"),
        ({"a": np.zeros((1,) * 33)}, crema.Error, "33 axes"),
    ],
)
def test_what_a_safetensors_file_cannot_hold(tensors, error, message, tmp_path):
    with pytest.raises(error, match=message):
        crema.save_safetensors(tensors, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name, content, code, message",
    [
        ("missing", None, "not_found", "there is no such file"),
        ("folder", "folder", "invalid_argument", "is a folder"),
        ("empty", b"", "data_loss", "is empty; expected a .safetensors, .pth or .pt file"),
        ("text", b"hello", "data_loss", "is a text file"),
        ("model.onnx", RELU_ONNX, "data_loss", "is a binary file of another kind"),
        ("a.pkl", b"\x80\x04}.", "unsupported", "is a pickle, but not of torch.save"),
    ],
)
def test_files_without_a_state_dict(name, content, code, message, tmp_path):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(crema.Error, match=message) as caught:
        crema.load_state_dict(path)
    assert caught.value.code == code and caught.value.file == str(path)
    with pytest.raises(TypeError):
        crema.load_state_dict(3)
    with pytest.raises(TypeError):
        crema.load_state_dict(path, key=3)


def test_from_torch_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(crema.Error, match="pip install torch") as caught:
        crema.from_torch(object(), np.zeros(3))
    assert caught.value.code == "unsupported"


def test_from_torch_exports_in_eval_mode_to_a_file_that_is_removed(monkeypatch):
    """With a stand-in for PyTorch."""
    seen = {}

    class Module:
        training = True

        def modules(self):
            return [self]

        def eval(self):
            self.training = False

    def export(module, inputs, path, opset_version):
        seen.update(training=module.training, inputs=inputs, path=path, opset=opset_version)
        with open(path, "wb") as file:
            file.write(RELU_ONNX)

    class NoGrad:
        def __enter__(self):
            pass

        def __exit__(self, *error):
            pass

    torch = types.ModuleType("torch")
    torch.nn = types.SimpleNamespace(Module=Module)
    torch.Tensor = np.ndarray
    torch.no_grad = NoGrad
    torch.onnx = types.SimpleNamespace(export=export)
    monkeypatch.setitem(sys.modules, "torch", torch)
    module = Module()
    x = np.zeros((1, 2), np.float32)
    model = crema.from_torch(module, x)
    assert np.array_equal(model.run(np.float32([[-1, 2]]))["y"], [[0, 2]])
    assert seen["inputs"] == (x,) and not seen["training"] and module.training
    assert not os.path.exists(seen["path"])
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        crema.from_torch(3, x)

    def fails(*arguments, **options):
        raise ValueError("no such operator")

    torch.onnx.export = fails
    with pytest.raises(crema.Error, match="ValueError: no such operator"):
        crema.from_torch(module, x)
    assert module.training


def test_torch_loads_the_state(net):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential()
    module.add_module("conv", torch.nn.Conv2d(3, 2, 1))
    module.add_module("bn", torch.nn.BatchNorm2d(2))
    module.load_state_dict(net.to_torch_state_dict())
    module.eval()
    blobs = dict(zip(net.blob_names, net.blob_list()))
    x = np.random.default_rng(1).random((2, 3, 4, 4), dtype=np.float32)
    blobs["x"].data[...] = x
    net.forward(0, len(net.layer_names) - 1)
    with torch.no_grad():
        assert np.allclose(module(torch.from_numpy(x)).numpy(), blobs["c"].data, atol=1e-5)


def test_onnx_models_run(tmp_path):
    path = tmp_path / "relu.onnx"
    path.write_bytes(RELU_ONNX)
    x = np.float32([[-1, 2], [3, -4]])
    assert np.array_equal(crema.Model.from_onnx(path).run(x)["y"], np.maximum(x, 0))
    with pytest.raises(crema.Error, match="input 'x' is 1x2 in the file"):
        crema.Model.from_onnx(path, {"x": (3, 5)})
    with pytest.raises(crema.Error, match="has no input 'z'"):
        crema.Model.from_onnx(path, {"z": (1, 2)})
    for sizes, message in (
        ((-1, 2), "negative dimension -1"),
        ((1 << 40, 2), "more than 2147483647 elements"),
        ((1,) * 33, "33 axes"),
    ):
        with pytest.raises(crema.Error, match=f"shapes: 'x': .*{message}") as caught:
            crema.Model.from_onnx(path, {"x": sizes})
        assert caught.value.code == "invalid_argument" and caught.value.file == str(path)
    for shapes in ([1, 2], {"x": (1.5, 2)}, {"x": "12"}, {3: (1, 2)}):
        with pytest.raises(TypeError):
            crema.Model.from_onnx(path, shapes)
    path.write_bytes(RELU_ONNX[:40])
    with pytest.raises(crema.Error, match="relu.onnx"):
        crema.Model.from_onnx(path)


# y = x + x and z = (x == y), where x is of int64.
WHOLE_ONNX = (
    b'\x08\x08:X\n\x0e\n\x01x\n\x01x\x12\x01y"\x03Add\n\x10\n\x01x\n\x01y\x12\x01z"\x05Equal'
    b"\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x07\x12\x04\n\x02\x08\x02b\x0f\n\x01y\x12\n\n\x08\x08"
    b"\x07\x12\x04\n\x02\x08\x02b\x0f\n\x01z\x12\n\n\x08\x08\t\x12\x04\n\x02\x08\x02B\x04\n\x00\x10\x11"
)


def test_whole_numbers_of_onnx_models_are_exact_or_errors(tmp_path):
    path = tmp_path / "whole.onnx"
    path.write_bytes(WHOLE_ONNX)
    model = crema.Model.from_onnx(path)
    assert model.inputs == [("x", "int64", (-1,))]
    assert sorted(model.outputs) == [("y", "int64", (-1,)), ("z", "bool", (-1,))]
    for kind in (np.int64, np.int32, np.int8, np.uint8, np.float32):
        answer = model.run(np.array([0, 100], kind))
        assert answer["y"].dtype == np.int64 and answer["y"].tolist() == [0, 200]
        assert answer["z"].dtype == np.bool_ and answer["z"].tolist() == [True, False]
    assert model.run(np.array([True, False]))["y"].tolist() == [2, 0]
    assert model.run(np.array([3, 1 << 22]))["y"].tolist() == [6, 1 << 23]
    with pytest.raises(crema.Error, match="input 'x' is 16777217 at element 1"):
        model.run(np.array([3, (1 << 24) + 1]))
    with pytest.raises(crema.Error, match=r"element 1 \(.*\) is about 16777218: whole numbers"):
        model.run(np.array([3, (1 << 23) + 1]))
    with pytest.raises(TypeError):
        model.run(np.array([0.5, 1]))


@pytest.mark.parametrize(
    "content, code, message",
    [
        (None, "not_found", "there is no such file"),
        (b"", "data_loss", "is empty; expected an ONNX model"),
        (b"hello", "data_loss", "is a text file, not an ONNX model"),
        (NET.encode(), "data_loss", "is a net as text"),
        (b"\x0a\x03net", "data_loss", "is no ONNX model, or is damaged"),
    ],
)
def test_files_that_are_no_onnx_model(content, code, message, tmp_path):
    path = tmp_path / "m.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(crema.Error, match=message) as caught:
        crema.Model.from_onnx(path)
    assert caught.value.code == code and caught.value.file == str(path)
    for wrong in (3, None, RELU_ONNX):
        with pytest.raises(TypeError):
            crema.Model.from_onnx(wrong)
