"""Crema: networks in the Caffe tradition, from Python."""

from . import _core, layers
from ._core import Blob, Model, Net, Solver, layer_types, set_log_level
from ._errors import Error
from ._spec import NetSpec, Top

__version__: str = _core.__dict__["__version__"]

__all__ = [
    "Blob",
    "Error",
    "Model",
    "Net",
    "NetSpec",
    "Solver",
    "Top",
    "__version__",
    "layer_types",
    "layers",
    "set_log_level",
]
