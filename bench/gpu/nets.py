"""The nets that race, and in which order: the races that matter most come first."""
import dataclasses
import itertools
import pathlib

GPT_LENGTH = 256
_GPT = dict(layers=12, width=768, heads=12, words=50257)


@dataclasses.dataclass(frozen=True)
class Net:
    """`inputs` are without the batch; integers lie below their bound."""

    name: str
    train: str  # prototxt, from the folder of the models
    deploy: str
    inputs: dict  # blob: shape of one sample
    integers: dict  # blob: bound

    def shapes(self, batch, mode):
        labels = () if mode == "train" else ("label",)
        return {blob: (batch, *extents) for blob, extents in self.inputs.items()
                if blob not in labels}

    def path(self, models, mode):
        return pathlib.Path(models) / (self.train if mode == "train" else self.deploy)


def _images(name, extents, classes):
    return Net(name, f"{name}/train_val.prototxt", f"{name}/deploy.prototxt",
               {"data": extents, "label": ()}, {"label": classes})


_LARGE = (3, 224, 224)
GPT = "gpt2_small"
NETS = {net.name: net for net in (
    _images("resnet50", _LARGE, 1000),
    _images("vgg16", _LARGE, 1000),
    _images("googlenet", _LARGE, 1000),
    _images("alexnet", (3, 227, 227), 1000),
    _images("mobilenet_v2", _LARGE, 1000),
    _images("lenet", (1, 28, 28), 10),
    _images("cifar10_quick", (3, 32, 32), 10),
    Net(GPT, "gpt2_small.prototxt", "gpt2_small.prototxt",
        {"tokens": (GPT_LENGTH,), "label": (GPT_LENGTH,)},
        {"tokens": _GPT["words"], "label": _GPT["words"]}),
)}


@dataclasses.dataclass(frozen=True)
class Race:
    net: str
    mode: str
    precision: str
    batch: int


_FIRST = [Race("resnet50", "train", "bf16", 256), Race("resnet50", "infer", "bf16", 1),
          Race("resnet50", "infer", "bf16", 256), Race("lenet", "train", "fp32", 64),
          Race("cifar10_quick", "train", "fp32", 100), Race(GPT, "train", "bf16", 32),
          Race("resnet50", "train", "fp16", 256)]


def races(nets, modes, precisions, batches):
    """Returns the requested races of _FIRST, then all others, the large batches first."""
    every = [Race(*case) for case in itertools.product(nets, modes, precisions, batches)]
    every.sort(key=lambda race: -race.batch)
    first = [race for race in _FIRST if race.net in nets and race.mode in modes
             and race.precision in {*precisions, "fp16"}]
    return first + [race for race in every if race not in first]


def _layer(name, kind, bottoms, fields="", top=None):
    below = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
    return f'layer {{ name: "{name}" type: "{kind}" {below} top: "{top or name}" {fields} }}\n'


def _product(name, bottom, outputs, bias=True):
    filler = 'weight_filler { type: "gaussian" std: 0.02 }'
    return _layer(name, "InnerProduct", [bottom], f"inner_product_param {{ num_output: {outputs} "
                  f"axis: 2 bias_term: {str(bias).lower()} {filler} }}")


def gpt_text(layers, width, heads, words):
    """A causal transformer as GPT-2 has it: pre-norm, GELU; embedding and scores are two tables."""
    text = 'name: "GPT2Small"\n'
    for blob, phase in (("tokens", ""), ("label", "include { phase: TRAIN }")):
        text += _layer(blob, "Input", [],
                       f"{phase} input_param {{ shape {{ dim: 1 dim: {GPT_LENGTH} }} }}")
    text += _layer("embed", "Embed", ["tokens"],
                   f"embed_param {{ num_output: {width} input_dim: {words} bias_term: false "
                   'weight_filler { type: "gaussian" std: 0.02 } }')
    text += _layer("x0", "PositionEmbedding", ["embed"], "position_embedding_param { "
                   f'max_length: {GPT_LENGTH} weight_filler {{ type: "gaussian" std: 0.01 }} }}')
    for i in range(1, layers + 1):
        text += _layer(f"norm{i}a", "LayerNorm", [f"x{i - 1}"])
        text += _product(f"qkv{i}", f"norm{i}a", 3 * width)
        text += _layer(f"attention{i}", "Attention", [f"qkv{i}"],
                       f"attention_param {{ num_heads: {heads} causal: true }}")
        text += _product(f"project{i}", f"attention{i}", width)
        text += _layer(f"sum{i}", "Eltwise", [f"x{i - 1}", f"project{i}"])
        text += _layer(f"norm{i}b", "LayerNorm", [f"sum{i}"])
        text += _product(f"up{i}", f"norm{i}b", 4 * width)
        text += _layer(f"gelu{i}", "GELU", [f"up{i}"], top=f"up{i}")
        text += _product(f"down{i}", f"up{i}", width)
        text += _layer(f"x{i}", "Eltwise", [f"sum{i}", f"down{i}"])
    text += _layer("norm", "LayerNorm", [f"x{layers}"])
    text += _product("scores", "norm", words, bias=False)
    text += _layer("prob", "Softmax", ["scores"],
                   "include { phase: TEST } softmax_param { axis: 2 }")
    text += _layer("loss", "SoftmaxWithLoss", ["scores", "label"],
                   "include { phase: TRAIN } softmax_param { axis: 2 }")
    return text


def write_gpt(folder):
    (pathlib.Path(folder) / "gpt2_small.prototxt").write_text(gpt_text(**_GPT))
