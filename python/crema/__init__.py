"""Crema: networks in the Caffe tradition, from Python."""

from . import _core
from ._core import Blob, Model, Net, Solver, layer_types, set_log_level
from ._errors import Error
from ._layer import check_layer, layer

__version__: str = _core.__dict__["__version__"]

__all__ = [
    "Blob",
    "Error",
    "Model",
    "Net",
    "Solver",
    "__version__",
    "check_layer",
    "layer",
    "layer_types",
    "set_log_level",
]
