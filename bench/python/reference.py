"""Nets of Caffe in JAX, in double precision: a reference that shares no code with Crema.

run(net, parameters, inputs) follows the text of a net; jax.grad differentiates it.
"""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def _pair(param, name, default):
    """Returns height and width of a field that is one number, a list, or name_h and name_w."""
    stem = name.split("_")[0]
    if param.HasField(stem + "_h"):
        return getattr(param, stem + "_h"), getattr(param, stem + "_w")
    value = getattr(param, name)
    values = [value] if isinstance(value, int) else list(value) or [default]
    return (values[0], values[-1])


def _convolution(layer, blobs, x):
    param = layer.convolution_param
    stride, pad = _pair(param, "stride", 1), _pair(param, "pad", 0)
    y = jax.lax.conv_general_dilated(
        x, blobs[0], stride, [(p, p) for p in pad],
        rhs_dilation=(list(param.dilation) or [1]) * (1 if len(param.dilation) == 2 else 2),
        feature_group_count=param.group)
    return y + blobs[1].reshape(1, -1, 1, 1) if param.bias_term else y


def _deconvolution(layer, blobs, x):
    param = layer.convolution_param
    stride, pad, size = _pair(param, "stride", 1), _pair(param, "pad", 0), blobs[0].shape[2:]
    weights = jnp.flip(blobs[0], (2, 3)).swapaxes(0, 1)
    y = jax.lax.conv_general_dilated(
        x, weights, (1, 1), [(k - 1 - p, k - 1 - p) for k, p in zip(size, pad)],
        lhs_dilation=stride)
    return y + blobs[1].reshape(1, -1, 1, 1) if param.bias_term else y


def _pooling(layer, blobs, x):
    param = layer.pooling_param
    is_max = param.pool == 0
    size = x.shape[2:] if param.global_pooling else _pair(param, "kernel_size", 0)
    stride, pad = _pair(param, "stride", 1), _pair(param, "pad", 0)
    pads, areas = [], []
    for n, k, s, p in zip(x.shape[2:], size, stride, pad):
        out = -(-(n + 2 * p - k) // s) + 1
        if p > 0 and (out - 1) * s >= n + p:
            out -= 1
        pads.append((p, max(0, (out - 1) * s + k - n - p)))
        starts = np.arange(out) * s - p
        areas.append(np.minimum(starts + k, n + p) - starts)
    window, strides = (1, 1, *size), (1, 1, *stride)
    pads = [(0, 0), (0, 0), *pads]
    if is_max:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, pads)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, window, strides, pads)
    return total / np.outer(*areas)


def _lrn(layer, blobs, x):
    param = layer.lrn_param
    n = param.local_size
    sums = jax.lax.reduce_window(x * x, 0.0, jax.lax.add, (1, n, 1, 1), (1, 1, 1, 1),
                                 [(0, 0), (n // 2, n // 2), (0, 0), (0, 0)])
    return x * (param.k + param.alpha / n * sums) ** -param.beta


def _inner_product(layer, blobs, x):
    y = x.reshape(x.shape[0], -1) @ blobs[0].T
    return y + blobs[1] if layer.inner_product_param.bias_term else y


def _crop(layer, blobs, x, like):
    param = layer.crop_param
    offsets = list(param.offset) * (x.ndim - param.axis if len(param.offset) == 1 else 1)
    for axis, offset in enumerate(offsets, param.axis):
        x = jax.lax.slice_in_dim(x, offset, offset + like.shape[axis], axis=axis)
    return x


def _softmax_loss(layer, blobs, x, label):
    log = jax.nn.log_softmax(x, axis=1)
    return -jnp.mean(jnp.take_along_axis(log, label.astype(int).reshape(-1, 1), axis=1))


LAYERS = {
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "Pooling": _pooling,
    "LRN": _lrn,
    "InnerProduct": _inner_product,
    "Crop": _crop,
    "SoftmaxWithLoss": _softmax_loss,
    "ReLU": lambda layer, blobs, x: jax.nn.relu(x),
    "PReLU": lambda layer, blobs, x: jnp.where(
        x > 0, x, x * blobs[0].reshape((1, -1) + (1,) * (x.ndim - 2))),
    "Dropout": lambda layer, blobs, x: x,
    "Softmax": lambda layer, blobs, x: jax.nn.softmax(x, axis=layer.softmax_param.axis),
    "Concat": lambda layer, blobs, *xs: jnp.concatenate(xs, axis=layer.concat_param.axis),
    "Eltwise": lambda layer, blobs, *xs: sum(xs),
}


def double(array):
    return jnp.asarray(np.asarray(array), jnp.float64)


def parameters_of(net):
    """Returns copies of the parameters of a caffe.Net, by layer name."""
    return {name: [double(blob.data) for blob in blobs] for name, blobs in net.params.items()}


def run(net, parameters, inputs, end=None):
    """Returns the blobs of a net (a NetParameter, for testing) up to the blob `end`."""
    blobs = dict(inputs)
    for layer in net.layer:
        if layer.type in LAYERS:
            blobs[layer.top[0]] = LAYERS[layer.type](
                layer, parameters.get(layer.name, []), *[blobs[name] for name in layer.bottom])
        if end is not None and end in blobs and end in layer.top:
            break
    return blobs
