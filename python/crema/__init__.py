"""Crema: networks in the Caffe tradition, from Python."""

import os
import typing

# libgomp reads this when it is loaded with _core. Its idle threads spin for milliseconds otherwise,
# which takes the processors from other programs. The settings of the user stay.
_chosen = "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
if not _chosen:
    os.environ["GOMP_SPINCOUNT"] = "1000"
from . import _core, layers

if not _chosen:
    del os.environ["GOMP_SPINCOUNT"]
from ._core import (
    Blob,
    Cascade,
    Model,
    Net,
    Solver,
    layer_types,
    load_plugin,
    load_state_dict,
    set_log_level,
)
from ._errors import Error
from ._layer import check_layer, layer
from ._look import Report, Summary, check, report, summary
from ._plot import plot
from ._results import ClassShare, Curve, Detection, Prediction, Segmentation
from ._spec import NetSpec, Top
from ._torch import from_torch, save_safetensors

if typing.TYPE_CHECKING:
    from . import data as data
    from . import dnn as dnn

__version__: str = _core.__dict__["__version__"]

__all__ = [
    "Blob",
    "Cascade",
    "ClassShare",
    "Curve",
    "Detection",
    "Error",
    "Model",
    "Net",
    "NetSpec",
    "Prediction",
    "Report",
    "Segmentation",
    "Solver",
    "Summary",
    "Top",
    "__version__",
    "check",
    "check_layer",
    "data",
    "dnn",
    "from_torch",
    "layer",
    "layer_types",
    "layers",
    "load_plugin",
    "load_state_dict",
    "plot",
    "report",
    "save_safetensors",
    "set_log_level",
    "summary",
]


def __getattr__(name: str) -> typing.Any:
    """Imports parts of the package that need NumPy when they are first used."""
    if name in ("data", "dnn"):
        import importlib

        return importlib.import_module(f"crema.{name}")
    raise AttributeError(f"module 'crema' has no attribute {name!r}")
