"""A net that classifies images."""

import numpy as np

from . import io
from .proto import caffe_pb2
from .pycaffe import Net


def make_transformer(net, mean, input_scale, raw_scale, channel_swap):
    """Returns the Transformer of the first input of a net, with what is not None."""
    name = net.inputs[0]
    transformer = io.Transformer({name: net.blobs[name].data.shape})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


class Classifier(Net):
    """Scales images to image_dims (the size of the input if None), crops and classifies them."""

    def __init__(
        self,
        model_file,
        pretrained_file,
        image_dims=None,
        mean=None,
        input_scale=None,
        raw_scale=None,
        channel_swap=None,
    ):
        super().__init__(model_file, caffe_pb2.TEST, weights=pretrained_file)
        self.transformer = make_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].data.shape[2:])
        self.image_dims = image_dims if image_dims is not None else self.crop_dims

    def predict(self, inputs, oversample=True):
        """Returns images x classes scores of images, height x width x channels each.

        oversample: the mean over ten crops (corners, centre, mirrored); else the centre crop.
        """
        images = np.zeros((len(inputs), *self.image_dims, inputs[0].shape[2]), np.float32)
        for i, image in enumerate(inputs):
            images[i] = io.resize_image(image, self.image_dims)
        if oversample:
            crops = io.oversample(images, self.crop_dims)
        else:
            top, left = (int(d / 2.0 - c / 2.0) for d, c in zip(self.image_dims, self.crop_dims))
            height, width = self.crop_dims
            crops = images[:, top : top + height, left : left + width, :]
        name = self.inputs[0]
        batch = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        scores = self.forward_all(**{name: batch})[self.outputs[0]]
        if oversample:
            scores = scores.reshape((len(scores) // 10, 10, -1)).mean(1)
        return scores
