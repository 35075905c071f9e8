"""To and from PyTorch: modules, state dicts, safetensors."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import Error

if TYPE_CHECKING:
    from ._core import Model, Net


def _torch(needed_by: str) -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise Error(
            f"{needed_by} needs PyTorch, which cannot be imported ({error}): pip install torch",
            "unsupported",
        ) from error


def as_tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    """Returns the arrays as tensors of PyTorch, over the same memory, if it is installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return arrays
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def save_safetensors(
    tensors: Net | Model | Mapping[str, Any], path: str | os.PathLike[str]
) -> None:
    """Writes a .safetensors file, of float32.

    `tensors` is a net or a model, whose parameters get the names of to_torch_state_dict, or a
    mapping from names to arrays, or to tensors of any library. Raises crema.Error if the file
    cannot be written, TypeError and ValueError for what no such file can hold.
    """
    import numpy

    if isinstance(tensors, (_core.Net, _core.Model)):
        tensors = tensors.to_torch_state_dict()
    if not isinstance(tensors, Mapping):
        raise TypeError(
            "save_safetensors takes a Net, a Model, or a mapping from names to arrays, not "
            f"{type(tensors).__name__}"
        )
    arrays = []
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are strings, not {name!r}")
        if name == "__metadata__" or name.encode(errors="replace").decode() != name:
            raise ValueError(f"a .safetensors file cannot hold a tensor of the name {name!r}")
        if hasattr(value, "detach"):  # of PyTorch, perhaps on a GPU, with a gradient, or bfloat16
            value = value.detach().to("cpu").float().numpy()
        array = numpy.asarray(value)
        if array.dtype.kind in "cmMOSU":
            raise TypeError(f"tensor {name!r} has elements of type {array.dtype}, not real numbers")
        array = array.astype(numpy.float32)
        arrays.append((name, numpy.ascontiguousarray(array).reshape(array.shape)))
    _core.write_safetensors(arrays, path)


def _as_arguments(torch: Any, example: Any) -> tuple[Any, ...]:
    inputs = example if isinstance(example, tuple) else (example,)
    return tuple(x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in inputs)


def _export(torch: Any, module: Any, inputs: tuple[Any, ...], path: str) -> None:
    import inspect

    options: dict[str, Any] = {"opset_version": 17}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options = {"opset_version": 18, "dynamo": True, "verbose": False}
        for needed in ("onnx", "onnxscript"):
            if importlib.util.find_spec(needed) is None:
                raise Error(
                    f"the exporter of PyTorch needs the package {needed}: "
                    "pip install onnx onnxscript",
                    "unsupported",
                )
    try:
        with torch.no_grad():
            torch.onnx.export(module, inputs, path, **options)
    except Exception as error:
        raise Error(
            f"PyTorch cannot export the module to ONNX: {type(error).__name__}: "
            + re.sub(r"\x1b\[[0-9;]*m", "", str(error)),  # colours of a terminal
            "unsupported",
        ) from error


def from_torch(module: Any, example: Any) -> Model:
    """Makes a model of a module of PyTorch, by its exporter to ONNX.

    `example` is an input, or a tuple of them, of the shapes that the model is to have. The module
    is exported in eval mode and keeps its own. Needs PyTorch; raises crema.Error where it is
    missing, cannot export the module, or makes operators that Crema does not have.
    """
    import tempfile

    torch = _torch("crema.from_torch")
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"from_torch takes a torch.nn.Module, not {type(module).__name__}")
    inputs = _as_arguments(torch, example)
    modes = [(part, part.training) for part in module.modules()]
    with tempfile.TemporaryDirectory(prefix="crema-") as folder:
        path = os.path.join(folder, "module.onnx")
        try:
            module.eval()
            _export(torch, module, inputs, path)
        finally:
            for part, training in modes:
                part.training = training
        return _core.Model.from_onnx(path)
