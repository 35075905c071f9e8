"""The peers: what each needs and can do. Each is a module of its name in peers/."""
import dataclasses
import importlib.util

_TORCH = ("torch", "numpy", "google.protobuf")
_ONNX = ("onnxscript", *_TORCH)  # PyTorch writes the ONNX files


@dataclasses.dataclass(frozen=True)
class Peer:
    modules: tuple
    modes: tuple = ("infer",)
    precisions: tuple = ("fp32",)

    def can(self, course):
        """Whether it takes part in a course: nets that come as ONNX are for those who read ONNX."""
        return (course.mode in self.modes and course.precision in self.precisions
                and (not course.net.onnx or "onnxscript" in self.modules))

    def missing(self):
        """The modules that cannot be imported here."""
        return [module for module in self.modules if not _is_there(module)]


# In this order they take turns.
PEERS = {
    "torch_eager": Peer(_TORCH, ("infer", "train"), ("fp32", "bf16")),
    "torch_channels_last": Peer(_TORCH, ("infer", "train"), ("fp32", "bf16")),
    "torch_compiled": Peer(_TORCH, ("infer", "train"), ("fp32", "bf16")),
    "onnx_runtime": Peer(("onnxruntime", *_ONNX)),
    "open_vino": Peer(("openvino", *_ONNX), precisions=("fp32", "bf16")),
    "ncnn_cpu": Peer(("ncnn", "pnnx", *_TORCH), precisions=("fp32", "bf16")),
    "opencv_dnn": Peer(("cv2", *_ONNX)),
}


def _is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
