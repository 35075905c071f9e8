"""Crema: networks in the Caffe tradition, from Python."""

from typing import TYPE_CHECKING, Any

from . import _core
from ._core import Blob, Model, Net, Solver, layer_types, set_log_level
from ._errors import Error

if TYPE_CHECKING:
    from . import dnn as dnn

__version__: str = _core.__dict__["__version__"]

__all__ = [
    "Blob",
    "Error",
    "Model",
    "Net",
    "Solver",
    "__version__",
    "layer_types",
    "set_log_level",
]


def __getattr__(name: str) -> Any:
    if name == "dnn":  # imported when it is used first
        import importlib

        return importlib.import_module("crema.dnn")
    raise AttributeError(f"module 'crema' has no attribute '{name}'")
