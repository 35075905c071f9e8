#!/usr/bin/env python3
"""Records losses and gradients of JAX and Optax for tests/layers/recorded_losses_test.cc.

    python3 -m venv venv && venv/bin/pip install jax optax
    venv/bin/python tests/recordings/record_losses.py > tests/recordings/losses.txt

Gradients come from automatic differentiation in f64. Inputs are rounded so that f32 holds them.
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax

RANDOM = np.random.default_rng(20240607)


def real(*shape, scale=1.0):
    return RANDOM.normal(0, scale, shape).astype(np.float32).astype(np.float64)


def whole(low, high, *shape):
    return RANDOM.integers(low, high + 1, shape).astype(np.float64)


def print_blob(word, values):
    values = np.asarray(values, np.float64)
    shape = "x".join(str(extent) for extent in values.shape) or "scalar"
    print(word, shape, *[repr(float(value)) for value in values.ravel()])


def record(name, layer, prototxt, inputs, differentiable, loss):
    """loss: of all inputs; gradients are taken for the inputs counted in `differentiable`."""
    value, gradients = jax.value_and_grad(loss, argnums=tuple(differentiable))(*inputs)
    print("case", name)
    print("layer", layer)
    print("param", prototxt)
    for values in inputs:
        print_blob("input", values)
    print_blob("loss", value)
    for index, values in zip(differentiable, gradients):
        print_blob(f"gradient {index}", values)
    print("end")


def integers(labels):
    return jnp.asarray(labels, jnp.int32)


def cross_entropy(scores, labels):
    return optax.softmax_cross_entropy_with_integer_labels(scores, integers(labels))


def softmax_losses():
    scores, labels = real(6, 5, scale=2), whole(0, 4, 6)

    def smooth(s, x, y):
        target = optax.smooth_labels(jax.nn.one_hot(integers(y), 5), s * 5 / 4)
        return optax.softmax_cross_entropy(x, target).mean()

    record("smoothing", "SoftmaxWithLoss", "loss_param { label_smoothing: 0.125 }",
           [scores, labels], [0], lambda x, y: smooth(0.125, x, y))
    weights = np.array([0.5, 2, 1, 0, 3.25])
    record("class_weights", "SoftmaxWithLoss", "loss_param { class_weight: [0.5, 2, 1, 0, 3.25] }",
           [scores, labels], [0],
           lambda x, y: (jnp.asarray(weights)[integers(y)] * cross_entropy(x, y)).mean())
    record("position_weights", "WeightedSoftmaxWithLoss", "",
           [scores, labels, np.abs(real(6))], [0],
           lambda x, y, w: (w * cross_entropy(x, y)).mean())
    record("infogain", "InfogainLoss", "", [scores, labels, np.abs(real(5, 5))], [0],
           lambda x, y, h: optax.softmax_cross_entropy(x, h[integers(y)]).mean())

    def focal(gamma, alpha, x, y):
        cost = cross_entropy(x, y)
        return (alpha * (1 - jnp.exp(-cost)) ** gamma * cost).mean()

    for gamma, alpha in ((2.0, 0.25), (0.5, 1.0), (3.5, 2.0)):
        record(f"focal_{gamma}", "FocalLoss",
               f"focal_loss_param {{ gamma: {gamma} alpha: {alpha} }}", [scores, labels], [0],
               lambda x, y, g=gamma, a=alpha: focal(g, a, x, y))
    # Two classes that exclude each other are one sigmoid of the difference.
    record("focal_of_two", "FocalLoss", "focal_loss_param { gamma: 2 alpha: 1 }",
           [real(7, 2, scale=2), whole(0, 1, 7)], [0],
           lambda x, y: optax.sigmoid_focal_loss(x[:, 1] - x[:, 0], y, gamma=2.0).mean())


def pair_losses():
    a, b = real(5, 4, scale=1.5), real(5, 4, scale=1.5)
    record("sigmoid", "SigmoidCrossEntropyLoss", "",
           [real(5, 4, scale=3), RANDOM.integers(0, 9, (5, 4)) / 8], [0],
           lambda x, t: optax.sigmoid_binary_cross_entropy(x, t).sum() / 5)
    record("huber", "SmoothL1Loss", "", [a, b], [0, 1],
           lambda x, y: optax.huber_loss(x, y, delta=1.0).sum() / 5)
    # f(d) with sigma is sigma^2 times Huber's loss with delta = 1 / sigma^2.
    record("huber_sigma", "SmoothL1Loss", "smooth_l1_loss_param { sigma: 2 }",
           [a, b, whole(0, 1, 5, 4), np.abs(real(5, 4))], [0, 1],
           lambda x, y, i, o: (4 * o * optax.huber_loss(i * x, i * y, delta=0.25)).sum() / 5)
    labels = whole(0, 3, 5)

    def signs(y):
        return 2 * jax.nn.one_hot(integers(y), 4) - 1

    record("hinge", "HingeLoss", "", [a, labels], [0],
           lambda x, y: optax.hinge_loss(x, signs(y)).sum() / 5)
    record("hinge_squared", "HingeLoss", "hinge_loss_param { norm: L2 }", [a, labels], [0],
           lambda x, y: (optax.hinge_loss(x, signs(y)) ** 2).sum() / 5)


def feature_losses():
    a, p, n = real(8, 3), real(8, 3), real(8, 3, scale=1.5)
    record("triplet_euclidean", "TripletLoss", "triplet_loss_param { margin: 0.75 euclidean: true }",
           [a, p, n], [0, 1, 2],
           lambda x, y, z: optax.losses.triplet_margin_loss(x, y, z, margin=0.75, eps=0.0).mean())
    record("triplet", "TripletLoss", "triplet_loss_param { margin: 0.5 }", [a, p, n], [0, 1, 2],
           lambda x, y, z: jax.nn.relu(((x - y) ** 2 - (x - z) ** 2).sum(1) + 0.5).mean())

    def contrastive(x, y, alike):
        square = ((x - y) ** 2).sum(1)
        apart = jax.nn.relu(1.75 - jnp.sqrt(square)) ** 2
        return jnp.where(alike != 0, square, apart).mean() / 2

    record("contrastive", "ContrastiveLoss", "contrastive_loss_param { margin: 1.75 }",
           [a, p, whole(0, 1, 8)], [0, 1], contrastive)


def ctc(blank, x, labels, steps, lengths):
    steps_total, places = x.shape[0], labels.shape[1]
    logit_padding = (jnp.arange(steps_total)[None, :] >= steps[:, None]).astype(jnp.float64)
    label_padding = (jnp.arange(places)[None, :] >= lengths[:, None]).astype(jnp.float64)
    return optax.ctc_loss(jnp.transpose(x, (1, 0, 2)), logit_padding, integers(labels),
                          label_padding, blank_id=blank).mean()


def sequence_losses():
    x = real(9, 4, 6, scale=2)
    labels = np.array([[3, 3, 1, 5], [2, 4, 1, 1], [1, 2, 3, 4], [5, 5, 5, 2]], np.float64)
    full, four = np.full(4, 9.0), np.full(4, 4.0)
    record("ctc", "CTCLoss", "", [x, labels], [0], lambda v, y: ctc(0, v, y, full, four))
    record("ctc_lengths", "CTCLoss", "ctc_loss_param { blank_label: -1 }",
           [x, labels - 1, np.array([9.0, 7, 5, 8]), np.array([4.0, 2, 1, 0])], [0],
           lambda v, y, s, l: ctc(5, v, y, s, l))


softmax_losses()
pair_losses()
feature_losses()
sequence_losses()
