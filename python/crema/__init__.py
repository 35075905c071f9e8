"""Crema: networks in the Caffe tradition, from Python."""

from . import _core
from ._core import Blob, Model, Net, Solver, layer_types, load_plugin, set_log_level
from ._errors import Error

__version__: str = _core.__dict__["__version__"]

__all__ = [
    "Blob",
    "Error",
    "Model",
    "Net",
    "Solver",
    "__version__",
    "layer_types",
    "load_plugin",
    "set_log_level",
]
