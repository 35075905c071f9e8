"""Layers that the nets of the tests name."""

import numpy as np

import crema


OBJECTS = []  # for tests that need the object of a layer


class Base:
    def __init__(self, param):
        pass

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)


class Times(Base):
    def setup(self, bottom, top):
        self.factor = float(self.param_str)

    def forward(self, bottom, top):
        self.kept = bottom[0].data
        top[0].data[...] = self.factor * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            bottom[0].diff[...] = self.factor * top[0].diff


class Growing(Base):
    """Gives 1, 2, 3, ... rows."""

    count = 0

    def setup(self, bottom, top):
        Growing.setups = getattr(Growing, "setups", 0) + 1

    def reshape(self, bottom, top):
        top[0].reshape(self.count + 1, 2)

    def forward(self, bottom, top):
        top[0].data[...] = self.count
        self.count += 1


class Batches(Base):
    """Gives data of 2, 1, 4, 3, 6, 5, ... rows of 3 and a label for each, as a function of the count
    of batches. Its param_str says when it reshapes: in "reshape", in "forward", or "at once" to the
    largest shape, as the plan of a net that shares memory needs it.
    """

    batches = 0

    def shape_like(self, rows, top):
        top[0].reshape(rows, 3)
        top[1].reshape(rows)

    def reshape(self, bottom, top):
        self.rows = self.batches + (2 if self.batches % 2 == 0 else 0)
        if self.param_str == "at once" and self.batches == 0:
            self.shape_like(20, top)
        elif self.param_str == "reshape" or self.batches == 0:
            self.shape_like(self.rows, top)

    def forward(self, bottom, top):
        self.shape_like(self.rows, top)
        numbers = np.arange(3 * self.rows, dtype=np.float32).reshape(self.rows, 3)
        top[0].data[...] = np.sin(numbers + self.batches)
        top[1].data[...] = np.arange(self.rows) % 2
        self.batches += 1


class Repeats(Base):
    """Repeats its input 1, 2, 3, ... times, which it finds out in forward."""

    times = 0

    def setup(self, bottom, top):
        OBJECTS.append(self)
        top[0].reshape(1, 3)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        self.times += 1
        top[0].reshape(self.times * bottom[0].shape[0], 3)
        top[0].data[...] = np.tile(bottom[0].data, (self.times, 1))

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff.reshape(self.times, -1, 3).sum(axis=0)


class Learning(Base):
    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = 2

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data * self.blobs[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += np.sum(top[0].diff * bottom[0].data)
        bottom[0].diff[...] = top[0].diff * self.blobs[0].data


class Failing(Base):
    def forward(self, bottom, top):
        raise ValueError("forward of mine")


class FailingSetup(Base):
    def setup(self, bottom, top):
        raise ValueError("setup of mine")


class TooLarge(Base):
    def forward(self, bottom, top):
        top[0].reshape(1000, 1000)


class NoLayer:
    def forward(self, bottom, top):
        pass


class Forgetful(Base):
    def forward(self, bottom, top):
        pass


class Plain(Base):
    def setup(self, bottom, top):
        OBJECTS.append(self)

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data


@crema.layer
class Declared:
    def infer(self, x):
        OBJECTS.append(self)
        return x.shape

    def forward(self, x):
        return x


class Reshapes(Base):
    """Changes its blobs in backward."""

    def forward(self, bottom, top):
        top[0].data[...] = bottom[0].data

    def backward(self, top, propagate_down, bottom):
        sizes = [int(size) for size in self.param_str.split()]
        top[0].reshape(*sizes)
        bottom[0].diff[...] = 3
        bottom[0].reshape(*sizes)


INNER = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "py" type: "Python" bottom: "x" top: "y"
  python_param { module: "MODULE" layer: "CLASS" param_str: "PARAM" } }
"""
TIMES = INNER.replace("MODULE", "layers_for_tests").replace("CLASS", "Times").replace("PARAM", "3")
SWISH = INNER.replace("MODULE", "declared_layers_for_tests").replace("CLASS", "Swish").replace(
    "PARAM", "")


class Opens(Base):
    """Opens other nets in setup, whose layers have the name of this one, and runs them."""

    def setup(self, bottom, top):
        self.nets = [crema.Net.parse(text, 0) for text in (TIMES, SWISH)]
        self.solver = crema.Solver.parse(
            'base_lr: 1 lr_policy: "fixed" max_iter: 9 snapshot_after_train: false net_param { '
            + TIMES + ' }')
        self.models = [crema.Model.from_caffe(path, []) for path in self.param_str.split()]
        OBJECTS.append(self)

    def forward(self, bottom, top):
        for net in self.nets:
            net.blob_list()[0].data[...] = bottom[0].data
            net.forward(0, 1)
        self.solver.step(1)
        times, swish = [net.blob_list()[1].data for net in self.nets]
        for model, expected in zip(self.models, (times, swish)):
            np.testing.assert_array_equal(model.run(bottom[0].data)["y"], expected)
        top[0].data[...] = times + swish
