"""Layers of a caffemodel as PyTorch modules, as a user of PyTorch would write them."""
import torch
from torch import nn
from torch.nn import functional


class Linear(nn.Module):
    """InnerProduct: axes from `axis` on are one row."""

    def __init__(self, axis, weight, bias):
        super().__init__()
        self.axis = axis
        self.linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)

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


class Embedding(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.table = nn.Embedding(rows, columns)

    def forward(self, x):
        return self.table(x if x.dtype == torch.long else x.long())


class Positions(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(rows, columns))

    def forward(self, x):
        return x + self.rows[:x.shape[1]]


class Attention(nn.Module):
    """Queries, keys and values lie behind each other on the last axis."""

    def __init__(self, heads, causal):
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.mask = None  # for converters that know no causal attention

    def forward(self, x):
        batch, length, width = x.shape
        queries, keys, values = (
            part.reshape(batch, length, self.heads, width // 3 // self.heads).transpose(1, 2)
            for part in x.chunk(3, -1))
        y = functional.scaled_dot_product_attention(
            queries, keys, values, self.mask, is_causal=self.causal and self.mask is None)
        return y.transpose(1, 2).reshape(batch, length, width // 3)

    def spell_out_mask(self, length):
        """Causality as a mask that is added."""
        if self.causal:
            self.mask = torch.full((length, length), float("-inf")).triu(1)


class SoftmaxLoss(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, scores, labels):
        classes = scores.shape[self.axis]
        rows = scores.movedim(self.axis, -1).reshape(-1, classes)
        return functional.cross_entropy(rows, labels.long().reshape(-1))


def _pair(param, name, default):
    """Height and width of kernel_size, stride or pad, in either way of writing them."""
    short = name.split("_", maxsplit=1)[0]
    if param.HasField(short + "_h"):
        return getattr(param, short + "_h"), getattr(param, short + "_w")
    value = getattr(param, name)
    if isinstance(value, int):
        return (value, value) if param.HasField(name) else (default, default)
    values = list(value) or [default]
    return (values[0], values[-1])


def _convolution(layer, blobs):
    param = layer.convolution_param
    return nn.Conv2d(blobs[0].shape[1] * param.group, param.num_output,
                     _pair(param, "kernel_size", 1), _pair(param, "stride", 1),
                     _pair(param, "pad", 0), _pair(param, "dilation", 1) if param.dilation else 1,
                     param.group, bias=len(blobs) > 1)


def _pooling(layer, _):
    param = layer.pooling_param
    maximum = param.pool == param.MAX
    if param.global_pooling:
        return nn.AdaptiveMaxPool2d(1) if maximum else nn.AdaptiveAvgPool2d(1)
    window = _pair(param, "kernel_size", 1), _pair(param, "stride", 1)
    pad = _pair(param, "pad", 0)
    ceil = param.round_mode == param.CEIL
    if maximum:
        return nn.MaxPool2d(*window, pad, ceil_mode=ceil)
    # Caffe's mean counts padding, but not cells beyond it. Some readers of ONNX do not support that
    # difference, so without padding only the image is counted.
    return nn.AvgPool2d(*window, pad, ceil_mode=ceil, count_include_pad=any(pad))


def _norm(layer, _):
    param = layer.lrn_param
    return nn.LocalResponseNorm(param.local_size, param.alpha, param.beta, param.k)


def _eltwise(layer, _):
    param = layer.eltwise_param
    if param.operation != param.SUM or param.coeff or len(layer.bottom) != 2:
        raise NotImplementedError(f'Eltwise "{layer.name}" is no sum of two')
    return Sum()


def _in_place(layer):
    return layer.bottom[0] == layer.top[0]


_MAKERS = {
    "Attention": lambda l, b: Attention(l.attention_param.num_heads, l.attention_param.causal),
    "Concat": lambda l, b: Concat(l.concat_param.axis),
    "Convolution": _convolution,
    "Dropout": lambda l, b: nn.Dropout(l.dropout_param.dropout_ratio),  # a ReLU needs its output
    "Eltwise": _eltwise,
    "Embed": lambda l, b: Embedding(*b[0].shape),
    "Flatten": lambda l, b: nn.Flatten(l.flatten_param.axis),
    "GELU": lambda l, b: nn.GELU("tanh" if l.gelu_param.approximation else "none"),
    "InnerProduct": lambda l, b: Linear(l.inner_product_param.axis, b[0],
                                        b[1] if len(b) > 1 else None),
    "LRN": _norm,
    "LayerNorm": lambda l, b: nn.LayerNorm(b[0].shape, l.layer_norm_param.eps),
    "Pooling": _pooling,
    "PositionEmbedding": lambda l, b: Positions(*b[0].shape),
    "ReLU": lambda l, b: nn.ReLU(_in_place(l)),
    "Softmax": lambda l, b: nn.Softmax(l.softmax_param.axis),
    "SoftmaxWithLoss": lambda l, b: SoftmaxLoss(l.softmax_param.axis),
}


def make(layer, blobs):
    """The module of a layer; its parameters, in the order of the blobs, are not set yet."""
    if layer.type not in _MAKERS:
        raise NotImplementedError(f'no PyTorch module for {layer.type} ("{layer.name}")')
    return _MAKERS[layer.type](layer, blobs)


def make_batch_norm(channels, eps):
    """BatchNorm with the Scale that follows it."""
    return nn.BatchNorm2d(channels, eps, momentum=0.001)
