"""A net that classifies windows of images (R-CNN, arXiv:1311.2524)."""

import os

import numpy as np

from . import io
from .classifier import make_transformer
from .proto import caffe_pb2
from .pycaffe import Net


class Detector(Net):
    """Crops windows, with context_pad pixels of their surroundings in the input of the net."""

    def __init__(
        self,
        model_file,
        pretrained_file,
        mean=None,
        input_scale=None,
        raw_scale=None,
        channel_swap=None,
        context_pad=None,
    ):
        super().__init__(model_file, caffe_pb2.TEST, weights=pretrained_file)
        self.transformer = make_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def detect_windows(self, images_windows):
        """Classifies windows: (file name, [(ymin, xmin, ymax, xmax), ...]) of each image.

        Returns a dict with window, prediction and filename for each window.
        """
        pairs = [(filename, window) for filename, windows in images_windows for window in windows]
        images = {}
        inputs = []
        name = self.inputs[0]
        for filename, window in pairs:
            if filename not in images:
                images = {filename: io.load_image(filename)}
            crop = self.crop(images[filename], window)
            inputs.append(self.transformer.preprocess(name, crop.copy()))
        scores = self.forward_all(**{name: np.stack(inputs)})[self.outputs[0]]
        return [
            {"window": window, "prediction": scores[i], "filename": filename}
            for i, (filename, window) in enumerate(pairs)
        ]

    def detect_selective_search(self, image_fnames):
        """Classifies the windows that Selective Search proposes; needs its Python module."""
        try:
            import selective_search_ijcv_with_python as selective_search
        except ImportError:
            raise ImportError(
                "detect_selective_search needs the module selective_search_ijcv_with_python"
            ) from None
        paths = [os.path.abspath(path) for path in image_fnames]
        windows = selective_search.get_windows(paths, cmd="selective_search_rcnn")
        return self.detect_windows(zip(paths, windows))

    def crop(self, im, window):
        """Returns a window of an image, with its context if context_pad is set."""
        if not self.context_pad:
            return im[window[0] : window[2], window[1] : window[3]]
        side = self.blobs[self.inputs[0]].width  # of a square
        scale = side / (1.0 * side - self.context_pad * 2)
        window = np.asarray(window, float)
        half = (window[2:] - window[:2] + 1) / 2.0
        centre = window[:2] + half
        box = np.round(np.concatenate([centre - scale * half, centre + scale * half]))
        to_input = side / (box[2:] - box[:2] + 1)
        pad = np.round(np.maximum(0, -box[:2]) * to_input).astype(int)  # outside of the image
        box = np.clip(box, 0, np.tile(im.shape[:2], 2))
        clipped = box[2:] - box[:2] + 1
        assert (clipped > 0).all()
        size = np.minimum(np.round(clipped * to_input).astype(int), side - pad)
        y0, x0, y1, x1 = box.astype(int)
        placed = np.ones(self.crop_dims, np.float32) * self.crop_mean
        placed[pad[0] : pad[0] + size[0], pad[1] : pad[1] + size[1]] = io.resize_image(
            im[y0:y1, x0:x1], size
        )
        return placed

    def configure_crop(self, context_pad):
        """Sets the size of crops and the width of their context; None: no context."""
        name = self.inputs[0]
        order = self.transformer.transpose[name]
        inverse = [order[axis] for axis in order]
        self.crop_dims = np.array(self.blobs[name].data.shape[1:])[inverse]
        self.context_pad = context_pad
        if not context_pad:
            return
        mean = self.transformer.mean.get(name)
        if mean is None:
            self.crop_mean = np.zeros(self.crop_dims, np.float32)
            return
        # The mean before preprocessing, so that padding becomes 0 in the input.
        self.crop_mean = mean.copy().transpose(inverse)
        swap = self.transformer.channel_swap.get(name)
        if swap is not None:
            self.crop_mean = self.crop_mean[:, :, [swap.index(i) for i in range(len(swap))]]
        raw_scale = self.transformer.raw_scale.get(name)
        if raw_scale is not None:
            self.crop_mean = self.crop_mean / raw_scale
