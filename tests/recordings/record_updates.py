#!/usr/bin/env python3
"""Records updates of Optax for tests/solvers/recorded_updates_test.cc.

    python3 -m venv venv && venv/bin/pip install jax optax
    venv/bin/python tests/recordings/record_updates.py > tests/recordings/updates.txt

In f64. Numbers are rounded so that f32 holds them: fields of a solver are f32. Optax's LARS takes
the norm of gradient plus decay, the paper the sum of both norms; without decay they are the same.
With decay LARS is recorded from the paper's formula, in NumPy.
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax

RANDOM = np.random.default_rng(20240901)
STEPS = 8


def f32(value):
    return float(np.float32(value))


MOMENTUM, SECOND, LION_SECOND = f32(0.9), f32(0.999), f32(0.99)
RATE, DECAY, TRUST = f32(0.125), f32(0.03125), f32(0.02)
DELTA, LAMB_DELTA = f32(1e-8), f32(1e-6)


def draw(count, scale=1.0):
    return RANDOM.normal(0, scale, count).astype(np.float32).astype(np.float64)


def print_row(word, values):
    print(word, *[repr(float(value)) for value in np.asarray(values).ravel()])


def run_optax(transform, weights, gradients):
    weights = jnp.asarray(weights)
    state = transform.init(weights)
    for gradient in gradients:
        updates, state = transform.update(jnp.asarray(gradient), state, weights)
        weights = optax.apply_updates(weights, updates)
    return weights


def run_lars(weights, gradients, decay):
    weights, history = weights.copy(), np.zeros_like(weights)
    for g in gradients:
        norm = np.linalg.norm(weights)
        ratio = TRUST * norm / (np.linalg.norm(g) + decay * norm)
        history = MOMENTUM * history + RATE * ratio * (g + decay * weights)
        weights = weights - history
    return weights


def record(name, fields, decay, run):
    count = 7
    weights = draw(count)
    gradients = [draw(count, 0.5) for _ in range(STEPS)]
    print("case", name)
    print("fields", fields)
    print_row("rate", RATE)
    print_row("decay", decay)
    print_row("weights", weights)
    for gradient in gradients:
        print_row("gradient", gradient)
    print_row("result", run(weights, gradients))
    print("end")


def record_optax(name, fields, decay, transform):
    record(name, fields, decay, lambda w, g: run_optax(transform, w, g))


def main():
    for decay in (0.0, DECAY):
        record_optax("AdamW", "momentum: 0.9", decay,
                     optax.adamw(RATE, MOMENTUM, SECOND, DELTA, weight_decay=decay))
        record_optax("LAMB", "momentum: 0.9", decay,
                     optax.lamb(RATE, MOMENTUM, SECOND, LAMB_DELTA, weight_decay=decay))
        record_optax("Lion", "momentum: 0.9 momentum2: 0.99", decay,
                     optax.lion(RATE, MOMENTUM, LION_SECOND, weight_decay=decay))
    record_optax("LARS", "momentum: 0.9 trust_coefficient: 0.02", 0.0,
                 optax.lars(RATE, weight_decay=0.0, trust_coefficient=TRUST, momentum=MOMENTUM))
    record("LARS", "momentum: 0.9 trust_coefficient: 0.02", DECAY,
           lambda w, g: run_lars(w, g, DECAY))
    # Rules of Caffe that Optax computes in the same way.
    record_optax("SGD", "momentum: 0.9", 0.0, optax.sgd(RATE, momentum=MOMENTUM))
    record_optax("Nesterov", "momentum: 0.9", 0.0,
                 optax.sgd(RATE, momentum=MOMENTUM, nesterov=True))
    record_optax("RMSProp", "rms_decay: 0.9 delta: 1e-8", 0.0,
                 optax.rmsprop(RATE, decay=MOMENTUM, eps=DELTA, eps_in_sqrt=False))
    record_optax("AdaDelta", "momentum: 0.9 delta: 1e-6", 0.0,
                 optax.adadelta(RATE, rho=MOMENTUM, eps=LAMB_DELTA))


main()
