"""Crema: networks in the Caffe tradition, from Python."""

from ._core import Blob, Error, Model, Net, Solver, __version__, layer_types, set_log_level

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
