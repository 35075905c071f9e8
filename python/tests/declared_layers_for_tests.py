"""Layers with @crema.layer that the nets of the tests name."""

from __future__ import annotations

import numpy as np

import crema


@crema.layer(backward_reads=("bottom", "top"), reach="element")
class Swish:
    beta: float = 1.0

    def infer(self, x):
        return x.shape

    def forward(self, x):
        return x / (1 + np.exp(-self.beta * x))

    def backward(self, gradient, x, y):
        return gradient * (self.beta * y + (1 - self.beta * y) / (1 + np.exp(-self.beta * x)))


@crema.layer(backward_reads="top", in_place=True, reach="element")
class Logistic:
    def forward(self, x, out):
        np.negative(x, out=out)
        np.exp(out, out=out)
        out += 1
        np.reciprocal(out, out=out)

    def backward(self, gradient, y):
        return gradient * y * (1 - y)


@crema.layer(backward_reads="bottom", reach="sample")
class Dense:
    outputs: int
    filler: str = "xavier"

    def infer(self, x):
        return x.shape[0], self.outputs

    def parameters(self, x):
        return {
            "weight": ((self.outputs, x.shape[1]), {"type": self.filler}),
            "bias": ((self.outputs,), 0.5),
        }

    def forward(self, x, weight, bias):
        return x @ weight.T + bias

    def backward(self, gradient, x, weight, bias):
        return gradient @ weight, gradient.T @ x, gradient.sum(axis=0)


@crema.layer(backward_reads=("bottom[1]", "bottom[0]"), reach="sample")
class SumAndProduct:
    """Two bottoms, two tops."""

    def infer(self, a, b):
        return [a.shape, a.shape[:1]]

    def forward(self, a, b):
        return a + b, (a * b).sum(axis=1)

    def backward(self, of_sum, of_product, b, a):
        return of_sum + of_product[:, None] * b, of_sum + of_product[:, None] * a


@crema.layer(no_gradient="bottom[1]", backward_reads="bottom")
class SquaredDistance:
    def infer(self, x, label):
        return ()

    def forward(self, x, label):
        return 0.5 * np.sum((x[:, 0] - label) ** 2) / len(x)

    def backward(self, gradient, x, label):
        dx = np.zeros_like(x)
        dx[:, 0] = gradient * (x[:, 0] - label) / len(x)
        return dx, None


@crema.layer
class Batches:
    """A data layer: y is the sum of x."""

    size: int = 8

    def infer(self):
        self.random = np.random.default_rng(3)
        return [(self.size, 4), (self.size,)]

    def forward(self):
        x = self.random.normal(size=(self.size, 4))
        return x, x.sum(axis=1)


@crema.layer(tensors="torch")
class TorchAddress:
    def forward(self, x, out):
        TorchAddress.addresses = [x.data_ptr(), out.data_ptr()]


@crema.layer
class Raises:
    def forward(self, x):
        raise ValueError("forward of mine")


@crema.layer
class Keeps:
    def forward(self, x):
        self.x = x
        return x


@crema.layer
class WrongShape:
    def forward(self, x):
        return x[:1]


@crema.layer(tensors="torch")
class TorchDropout:
    calls = 0

    def forward(self, x):
        import torch

        TorchDropout.calls += 1
        return torch.nn.functional.dropout(x, 0.5)


@crema.layer(tensors="torch")
class TorchTriple:
    def forward(self, x, out):
        out.copy_(x * 3)
