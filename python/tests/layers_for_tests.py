"""Layers that the nets of the tests name."""

import numpy as np


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


class Forgetful(Base):
    def forward(self, bottom, top):
        pass
