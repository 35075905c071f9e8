"""The nets that are measured, with constant inputs instead of data sets."""
import dataclasses
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent.parent / "models"


@dataclasses.dataclass(frozen=True)
class Net:
    name: str
    shape: tuple  # of one sample
    batch: int  # of each rank
    classes: int
    block: int  # iterations that are timed together


NETS = {net.name: net for net in (
    Net("lenet", (1, 28, 28), 64, 10, 20),
    Net("cifar10_full", (3, 32, 32), 100, 10, 4),
    Net("squeezenet_v1.1", (3, 227, 227), 16, 1000, 1),
    Net("resnet18", (3, 224, 224), 4, 1000, 2),
    Net("sums", (12000,), 1, 1000, 2),  # no model: little but gradients
)}
SUMS_BYTES = 4 * 1000 * (12000 + 1)
_SUMS = """layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 1000 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
BLOCKS, WARM_UP = 6, 2  # the first blocks are not counted


def _layers(text):
    """The texts of the layers."""
    text = re.sub(r"#[^\n]*", "", text)
    for start in re.finditer(r"^layer\s*{", text, re.MULTILINE):
        depth, at = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield text[start.start():at]


def text_of(net):
    """The training net as a prototxt whose data layer repeats one batch."""
    shapes = (net.batch, *net.shape), (net.batch,)
    dims = " ".join("shape { " + " ".join(f"dim: {n}" for n in shape) + " }" for shape in shapes)
    layers = ['layer { name: "data" type: "DummyData" top: "data" top: "label" '
              f"dummy_data_param {{ {dims} data_filler {{ value: 0.5 }} "
              "data_filler { value: 1 } } }"]
    path = MODELS / net.name / "train_val.prototxt"
    for layer in _layers(_SUMS if net.name == "sums" else path.read_text()):
        if not re.search(r'type: "(Data|ImageData|Accuracy)"|phase: TEST', layer):
            layers.append(layer)
    return "\n".join(layers) + "\n"


def solver_of(net):
    """Of net.prototxt, in the same folder. The rate is too low to diverge on one batch."""
    return ('net: "net.prototxt" base_lr: 1e-5 momentum: 0.9 weight_decay: 0.0005 '
            f'lr_policy: "fixed" random_seed: 1 display: {net.block} '
            f"max_iter: {net.block * BLOCKS + 1} "
            'snapshot_prefix: "s" snapshot_after_train: false\n')
