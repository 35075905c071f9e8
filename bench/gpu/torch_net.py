"""A net of models/ as one PyTorch module, as a user of PyTorch would write it."""
import torch
from torch import nn
from torch.nn import functional

import prototxt

SOURCES = ("Data", "DummyData", "ImageData", "Input")


class Linear(nn.Module):
    """InnerProduct: axes from `axis` on are one row."""

    def __init__(self, axis, outputs, bias):
        super().__init__()
        self.axis = axis
        self.linear = nn.LazyLinear(outputs, bias=bias)

    def forward(self, x):
        return self.linear(torch.flatten(x, self.axis) if x.dim() > self.axis + 1 else x)


class Concat(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, *inputs):
        return torch.cat(inputs, self.axis)


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b


class Positions(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.count = rows
        self.rows = nn.parameter.UninitializedParameter()

    def forward(self, x):
        if nn.parameter.is_lazy(self.rows):
            self.rows.materialize((self.count, x.shape[-1]), device=x.device, dtype=x.dtype)
            nn.init.normal_(self.rows.data, std=0.01)
        return x + self.rows[:x.shape[1]]


class LastAxisNorm(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps
        self.norm = None

    def forward(self, x):
        if self.norm is None:
            self.norm = nn.LayerNorm(x.shape[-1], self.eps, device=x.device)
        return self.norm(x)


class Attention(nn.Module):
    """Queries, keys and values lie behind each other on the last axis."""

    def __init__(self, heads, causal):
        super().__init__()
        self.heads = heads
        self.causal = causal

    def forward(self, x):
        batch, length, width = x.shape
        queries, keys, values = (
            part.reshape(batch, length, self.heads, width // 3 // self.heads).transpose(1, 2)
            for part in x.chunk(3, -1))
        y = functional.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        return y.transpose(1, 2).reshape(batch, length, width // 3)


class SoftmaxLoss(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, scores, labels):
        rows = scores.movedim(self.axis, -1).reshape(-1, scores.shape[self.axis])
        return functional.cross_entropy(rows, labels.reshape(-1))


def _convolution(layer):
    p = layer.sub("convolution_param")
    size = p.get("kernel_size") or (p.get("kernel_h"), p.get("kernel_w"))
    return nn.LazyConv2d(p.get("num_output"), size, p.get("stride", 1), p.get("pad", 0),
                         p.get("dilation", 1), p.get("group", 1), bias=p.get("bias_term", True))


def _pooling(layer):
    p = layer.sub("pooling_param")
    maximum = p.get("pool", "MAX") == "MAX"
    if p.get("global_pooling", False):
        return nn.AdaptiveMaxPool2d(1) if maximum else nn.AdaptiveAvgPool2d(1)
    window = p.get("kernel_size"), p.get("stride", 1), p.get("pad", 0)
    ceil = p.get("round_mode", "CEIL") == "CEIL"
    return (nn.MaxPool2d if maximum else nn.AvgPool2d)(*window, ceil_mode=ceil)


class WithinChannelNorm(nn.Module):
    def __init__(self, size, alpha, beta):
        super().__init__()
        self.size, self.alpha, self.beta = size, alpha, beta

    def forward(self, x):
        squares = functional.avg_pool2d(x * x, self.size, 1, self.size // 2)
        return x * (1 + self.alpha * squares) ** -self.beta


def _norm(layer):
    p = layer.sub("lrn_param")
    if p.get("norm_region") == "WITHIN_CHANNEL":
        return WithinChannelNorm(p.get("local_size", 5), p.get("alpha", 1.0), p.get("beta", 0.75))
    return nn.LocalResponseNorm(p.get("local_size", 5), p.get("alpha", 1.0), p.get("beta", 0.75),
                                p.get("k", 1.0))


def _inner_product(layer):
    p = layer.sub("inner_product_param")
    return Linear(p.get("axis", 1), p.get("num_output"), p.get("bias_term", True))


def _embedding(layer):
    p = layer.sub("embed_param")
    return nn.Embedding(p.get("input_dim"), p.get("num_output"))


_MAKERS = {
    "Attention": lambda l: Attention(l.sub("attention_param").get("num_heads"),
                                     l.sub("attention_param").get("causal", False)),
    "BatchNorm": lambda l: nn.LazyBatchNorm2d(l.sub("batch_norm_param").get("eps", 1e-5), 0.001),
    "Concat": lambda l: Concat(l.sub("concat_param").get("axis", 1)),
    "Convolution": _convolution,
    "Dropout": lambda l: nn.Dropout(l.sub("dropout_param").get("dropout_ratio", 0.5)),
    "Eltwise": lambda l: Sum(),
    "Embed": _embedding,
    "Flatten": lambda l: nn.Flatten(),
    "GELU": lambda l: nn.GELU(),
    "InnerProduct": _inner_product,
    "LRN": _norm,
    "LayerNorm": lambda l: LastAxisNorm(l.sub("layer_norm_param").get("eps", 1e-5)),
    "Pooling": _pooling,
    "PositionEmbedding": lambda l: Positions(l.sub("position_embedding_param").get("max_length")),
    "ReLU": lambda l: nn.ReLU(inplace=l.get("bottom") == l.get("top")),
    "Softmax": lambda l: nn.Softmax(l.sub("softmax_param").get("axis", 1)),
    "SoftmaxWithLoss": lambda l: SoftmaxLoss(l.sub("softmax_param").get("axis", 1)),
}


class Net(nn.Module):
    """Runs layers in the order of the file; BatchNorm and the Scale behind it are one module."""

    def __init__(self, text, phase):
        super().__init__()
        self.steps = []  # (inputs, output) by module
        self.inputs = []
        self.losses = []  # (blob, weight)
        modules = []
        after_norm = False
        for layer in prototxt.layers(text, phase):
            kind = layer.get("type")
            if kind in SOURCES:
                self.inputs += layer.all("top")
            elif kind == "Scale" and after_norm:
                self.steps[-1] = (self.steps[-1][0], layer.get("top"))
            elif kind in _MAKERS:
                modules.append(_MAKERS[kind](layer))
                self.steps.append((layer.all("bottom"), layer.get("top")))
                if kind == "SoftmaxWithLoss":
                    self.losses.append((layer.get("top"), layer.get("loss_weight", 1.0)))
            else:
                raise NotImplementedError(f'no PyTorch module for {kind} ("{layer.get("name")}")')
            after_norm = kind == "BatchNorm"
        self.modules_in_order = nn.ModuleList(modules)

    def forward(self, *inputs):
        blobs = dict(zip(self.inputs, inputs))
        for module, (names, output) in zip(self.modules_in_order, self.steps):
            blobs[output] = module(*(blobs[name] for name in names))
        if self.losses:
            return sum(weight * blobs[name] for name, weight in self.losses)
        return blobs[self.steps[-1][1]]
