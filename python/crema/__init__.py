"""Crema: networks in the Caffe tradition, from Python."""

from . import _core
from ._core import Blob, Model, Net, Solver, layer_types, set_log_level
from ._errors import Error
from ._look import Report, Summary, check, report, summary
from ._plot import plot
from ._results import ClassShare, Curve, Detection, Prediction, Segmentation

__version__: str = _core.__dict__["__version__"]

__all__ = [
    "Blob",
    "ClassShare",
    "Curve",
    "Detection",
    "Error",
    "Model",
    "Net",
    "Prediction",
    "Report",
    "Segmentation",
    "Solver",
    "Summary",
    "__version__",
    "check",
    "layer_types",
    "plot",
    "report",
    "set_log_level",
    "summary",
]
