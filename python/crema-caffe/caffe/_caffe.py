"""The classes and functions that pycaffe takes from its C++ module, on top of crema._core."""

import os
import time
import warnings

import numpy as np
from crema import _core
from google.protobuf import text_format

from .proto import caffe_pb2

Blob = _core.Blob
BlobVec = _core.BlobVec
__version__ = "1.0.0"

_seed = None
_warned_of_gpu = False
_solver_count = 1
_solver_rank = 0


def _check_file(path):
    if not os.path.isfile(path):
        raise RuntimeError(f"Could not open file {path}")


class Layer:
    """The base class of layers in Python: setup, reshape, forward, backward."""

    type = "Python"

    def __init__(self, param=None):
        pass

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        pass


class Net:
    """A net. Net(file, phase, level=0, stages=None, weights=None), or Net(file, weights, phase)."""

    def __init__(self, network_file, *args, **kwargs):
        options = _net_arguments(args, kwargs)
        _check_file(network_file)
        weights = options["weights"]
        if weights is not None:
            _check_file(weights)
        self._start(
            _core.Net.open(
                str(network_file),
                options["phase"] if isinstance(options["phase"], str) else int(options["phase"]),
                level=int(options["level"]),
                stages=list(options["stages"] or []),
                weights=[] if weights is None else [str(weights)],
                seed=_next_seed(),
            )
        )

    @classmethod
    def _of(cls, core):
        net = cls.__new__(cls)
        net._start(core)
        return net

    def _start(self, core):
        self._core = core
        self._blob_names = core.blob_names
        self._layer_names = core.layer_names
        self._blobs = core.blob_list()
        self.layers = core.layer_list()
        self._inputs = [self._blob_names.index(name) for name in core.input_names]
        self._outputs = [self._blob_names.index(name) for name in core.output_names]
        self._blob_loss_weights = [core.loss_weight(name) for name in self._blob_names]

    def _bottom_ids(self, layer):
        return [self._blob_names.index(name) for name in self._core.bottoms(layer)]

    def _top_ids(self, layer):
        return [self._blob_names.index(name) for name in self._core.tops(layer)]

    def _forward(self, start, end):
        return self._core.forward(start, end)

    def _backward(self, start, end):
        self._core.backward(start, end)

    def _set_input_arrays(self, data, labels):
        if not self.layers or self.layers[0].type != "MemoryData":
            raise RuntimeError(
                "set_input_arrays may only be called if the first layer is a MemoryDataLayer"
            )
        shape = self._blobs[self._top_ids(0)[0]].shape
        _check_array(data, "data array", shape[1:])
        _check_array(labels, "labels array", (1, 1, 1))
        if len(data) != len(labels):
            raise RuntimeError("data and labels must have the same first dimension")
        if len(data) % shape[0] != 0:
            raise RuntimeError("first dimensions of input arrays must be a multiple of batch size")
        self._core.set_arrays(self._layer_names[0], data, labels)

    def reshape(self):
        """Makes the shapes of all blobs follow from those of the inputs."""
        self._core.reshape()

    def clear_param_diffs(self):
        self._core.clear_parameter_gradients()

    def copy_from(self, path):
        """Loads parameters from a caffemodel (or HDF5 file) by the names of layers."""
        _check_file(path)
        self._core.load([str(path)])

    def share_with(self, other):
        """Uses the memory of the parameters of another net, by the names of layers."""
        self._core.share_with(other._core)

    def save(self, path):
        self._core.save(str(path))

    def save_hdf5(self, path):
        self._core.save(str(path), hdf5=True)

    def load_hdf5(self, path):
        self.copy_from(path)

    def before_forward(self, function):
        self._core.add_callback("before_forward", function)

    def after_forward(self, function):
        self._core.add_callback("after_forward", function)

    def before_backward(self, function):
        self._core.add_callback("before_backward", function)

    def after_backward(self, function):
        self._core.add_callback("after_backward", function)


def _net_arguments(args, kwargs):
    options = {"phase": None, "level": 0, "stages": None, "weights": None}
    if len(args) == 2 and isinstance(args[0], (str, os.PathLike)):
        warnings.warn(
            "Net(file, weights, phase) is deprecated; use Net(file, phase, weights=...)",
            DeprecationWarning,
            stacklevel=3,
        )
        options["weights"], options["phase"] = args
    elif len(args) <= 4:
        options.update(zip(options, args))
    else:
        raise TypeError(f"Net takes a file and up to 4 arguments, not {len(args)}")
    for name, value in kwargs.items():
        if name not in options:
            raise TypeError(f"Net has no argument '{name}'")
        options[name] = value
    if options["phase"] is None:
        raise TypeError("Net needs a phase: caffe.TRAIN or caffe.TEST")
    return options


def _check_array(array, name, shape):
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        raise RuntimeError(f"{name} must be C contiguous")
    if array.ndim != 4:
        raise RuntimeError(f"{name} must be 4-d")
    if array.dtype != np.float32:
        raise RuntimeError(f"{name} must be float32")
    for part, given, wanted in zip(("number of channels", "height", "width"), array.shape[1:], shape):
        if given != wanted:
            raise RuntimeError(f"{name} has wrong {part}")


class Solver:
    """A training run of a solver file; the subclasses set its type."""

    _type = ""

    def __init__(self, solver_file):
        _check_file(solver_file)
        self._core = _core.Solver.open(str(solver_file), self._type, seed=_seed)
        self.net = Net._of(self._core.net)
        self.test_nets = [Net._of(net) for net in self._core.test_nets]
        self.param = text_format.Parse(self._core.text, caffe_pb2.SolverParameter())

    @property
    def iter(self):
        return self._core.iteration

    @property
    def lr(self):
        return self._core.rate

    def solve(self, resume_file=None):
        """Trains to max_iter, from a snapshot if one is given."""
        if resume_file:
            self.restore(resume_file)
        self._core.solve()

    def step(self, count):
        self._core.step(count)

    def restore(self, path):
        _check_file(path)
        self._core.restore(str(path))

    def snapshot(self):
        self._core.snapshot()

    def apply_update(self):
        """Updates the parameters by the gradients that the net holds."""
        self._core.update()

    def share_weights(self, net):
        """Makes another net use the memory of the parameters that are trained."""
        net.share_with(self.net)

    def add_callback(self, on_start, on_gradients_ready=None):
        """Calls on_start() before each iteration, on_gradients_ready() before its update."""
        self._core.add_callback("start", on_start)
        if on_gradients_ready is not None:
            self._core.add_callback("gradients", on_gradients_ready)


def _solver_class(type_name):
    return type(type_name + "Solver", (Solver,), {"_type": type_name, "__doc__": Solver.__doc__})


SGDSolver = _solver_class("SGD")
NesterovSolver = _solver_class("Nesterov")
AdaGradSolver = _solver_class("AdaGrad")
RMSPropSolver = _solver_class("RMSProp")
AdaDeltaSolver = _solver_class("AdaDelta")
AdamSolver = _solver_class("Adam")


def get_solver(solver_file):
    """Makes the solver that the type in the file names."""
    return Solver(solver_file)


class NCCL:
    """Stands for pycaffe's class: `crema train --gpu=0,1` trains on several GPUs."""

    def __init__(self, solver, uid):
        raise RuntimeError("NCCL is not available from Python; `crema train --gpu=0,1` uses it")

    @staticmethod
    def new_uid():
        raise RuntimeError("NCCL is not available from Python; `crema train --gpu=0,1` uses it")


class Timer:
    """Measures wall-clock time, in milliseconds."""

    def __init__(self):
        self._start = self._stop = 0.0

    def start(self):
        self._start = self._stop = time.perf_counter()

    def stop(self):
        self._stop = time.perf_counter()

    @property
    def ms(self):
        return (self._stop - self._start) * 1e3


def _next_seed():
    return int(np.random.randint(1, 2**31)) if _seed is None else _seed


def set_random_seed(seed):
    """Sets the seed of nets and solvers that are made from now on."""
    global _seed
    _seed = int(seed)


def set_mode_cpu():
    pass


def set_mode_gpu():
    """Warns once and computes on the CPU; raises an error if CREMA_REQUIRE_GPU is set."""
    global _warned_of_gpu
    if os.environ.get("CREMA_REQUIRE_GPU", "") not in ("", "0"):
        raise RuntimeError("CREMA_REQUIRE_GPU is set, and nets in Python run on the CPU only so far")
    if not _warned_of_gpu:
        warnings.warn("nets in Python run on the CPU only so far; set_mode_gpu has no effect")
    _warned_of_gpu = True


def set_device(device):
    pass


def set_multiprocess(enabled):
    pass


def solver_count():
    return _solver_count


def set_solver_count(count):
    global _solver_count
    _solver_count = int(count)


def solver_rank():
    return _solver_rank


def set_solver_rank(rank):
    global _solver_rank
    _solver_rank = int(rank)


def has_nccl():
    return False


def layer_type_list():
    return list(_core.layer_types())


def init_log(level=0, to_stderr=True):
    """Logs to stderr from this level on: 0 info, 1 warnings, 2 errors."""
    _core.set_log_level(int(level) if to_stderr else 3)


def log(text):
    _core.log(str(text))
