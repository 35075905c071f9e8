"""Images, and conversions between arrays and the messages of Caffe."""

import numpy as np

from .proto import caffe_pb2


def blobproto_to_array(blob, return_diff=False):
    """Returns the values of a BlobProto, or its gradients, as an array."""
    values = np.array(blob.diff if return_diff else blob.data)
    if any(blob.HasField(field) for field in ("num", "channels", "height", "width")):
        return values.reshape(blob.num, blob.channels, blob.height, blob.width)
    return values.reshape(tuple(blob.shape.dim))


def array_to_blobproto(arr, diff=None):
    """Returns a BlobProto of an array, with gradients of the same shape if they are given."""
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(arr.astype(float).flat)
    if diff is not None:
        blob.diff.extend(diff.astype(float).flat)
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    """Returns arrays as the bytes of a BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend(array_to_blobproto(arr) for arr in arraylist)
    return vector.SerializeToString()


def blobprotovector_str_to_arraylist(str):
    """Returns the arrays of a BlobProtoVector in bytes."""
    vector = caffe_pb2.BlobProtoVector()
    vector.ParseFromString(str)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr, label=None):
    """Returns a Datum of channels x height x width values: uint8 as bytes, others as floats."""
    if arr.ndim != 3:
        raise ValueError("Incorrect array shape.")
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr.astype(float).flat)
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum):
    """Returns the values of a Datum: channels x height x width."""
    shape = (datum.channels, datum.height, datum.width)
    if len(datum.data):
        return np.frombuffer(datum.data, np.uint8).reshape(shape).copy()
    return np.array(datum.float_data).astype(float).reshape(shape)


class Transformer:
    """Brings images into the form that a net takes.

    `inputs` gives the shape of each input: samples x channels x height x width.
    """

    def __init__(self, inputs):
        self.inputs = inputs
        self.transpose = {}
        self.channel_swap = {}
        self.raw_scale = {}
        self.mean = {}
        self.input_scale = {}

    def _check_input(self, in_):
        if in_ not in self.inputs:
            raise Exception(f"{in_} is not one of the net inputs: {self.inputs}")

    def _steps(self, in_):
        steps = (self.transpose, self.channel_swap, self.raw_scale, self.mean, self.input_scale)
        return [step.get(in_) for step in steps]

    def preprocess(self, in_, data):
        """Resizes, transposes, swaps channels, scales by raw_scale, subtracts the mean, and scales
        by input_scale: height x width x channels in, channels x height x width out."""
        self._check_input(in_)
        image = data.astype(np.float32, copy=False)
        sides = tuple(self.inputs[in_][2:])
        if image.shape[:2] != sides:
            image = resize_image(image, sides)
        transpose, channel_swap, raw_scale, mean, input_scale = self._steps(in_)
        if transpose is not None:
            image = image.transpose(transpose)
        if channel_swap is not None:
            image = image[list(channel_swap), :, :]
        # In place, as in pycaffe: an image of float32 that needs no other step changes.
        if raw_scale is not None:
            image *= raw_scale
        if mean is not None:
            image -= mean
        if input_scale is not None:
            image *= input_scale
        return image

    def deprocess(self, in_, data):
        """Undoes preprocess, apart from the size."""
        self._check_input(in_)
        image = data.copy().squeeze()
        transpose, channel_swap, raw_scale, mean, input_scale = self._steps(in_)
        if input_scale is not None:
            image /= input_scale
        if mean is not None:
            image += mean
        if raw_scale is not None:
            image /= raw_scale
        if channel_swap is not None:
            image = image[np.argsort(channel_swap), :, :]
        if transpose is not None:
            image = image.transpose(np.argsort(transpose))
        return image

    def set_transpose(self, in_, order):
        """Sets the order of axes: (2, 0, 1) makes channels x height x width of an image."""
        self._check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise Exception(
                "Transpose order needs to have the same number of dimensions as the input."
            )
        self.transpose[in_] = order

    def set_channel_swap(self, in_, order):
        """Sets the order of channels after the transposition: (2, 1, 0) makes BGR of RGB."""
        self._check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise Exception(
                "Channel swap needs to have the same number of dimensions as the input channels."
            )
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_, scale):
        """Sets a factor before the mean: 255 for nets that take 0 to 255."""
        self._check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_, mean):
        """Sets the mean: a value for each channel, or an array, resized if it has to be."""
        self._check_input(in_)
        wanted = tuple(self.inputs[in_][1:])
        if mean.ndim == 1:
            if mean.shape[0] != wanted[0]:
                raise ValueError("Mean channels incompatible with input.")
            mean = mean[:, np.newaxis, np.newaxis]
        else:
            shape = mean.shape if mean.ndim != 2 else (1,) + mean.shape
            if len(shape) != 3:
                raise ValueError("Mean shape invalid")
            if shape != wanted:
                low, high = mean.min(), mean.max()
                unit = (mean.reshape(shape) - low) / (high - low)
                resized = resize_image(unit.transpose((1, 2, 0)), wanted[1:])
                mean = resized.transpose((2, 0, 1)) * (high - low) + low
        self.mean[in_] = mean

    def set_input_scale(self, in_, scale):
        """Sets a factor after the mean."""
        self._check_input(in_)
        self.input_scale[in_] = scale


def _read_image(filename, color):
    """Returns the pixels as the file has them, or as grey values in 0..1 without colour."""
    try:
        from PIL import Image
    except ImportError:
        try:
            import skimage.io
        except ImportError:
            raise ImportError(
                "load_image needs Pillow or scikit-image: pip install Pillow"
            ) from None
        pixels = skimage.io.imread(filename)
    else:
        with Image.open(filename) as image:
            is_png = image.format == "PNG"
            if image.mode not in ("L", "RGB", "RGBA", "I", "F") and image.mode[:4] != "I;16":
                image = image.convert("RGBA" if "transparency" in image.info else "RGB")
            pixels = np.asarray(image)
        if is_png and pixels.dtype == np.int32:  # 16 bits, as older Pillows read them
            pixels = pixels.astype(np.uint16)
    if np.issubdtype(pixels.dtype, np.integer):
        pixels = pixels / float(np.iinfo(pixels.dtype).max)
    if not color and pixels.ndim == 3:
        pixels = pixels[:, :, :3] @ np.array([0.2125, 0.7154, 0.0721])
    return pixels


def load_image(filename, color=True):
    """Returns an image as float32 in 0..1: height x width x 3 in RGB, or x 1 without colour."""
    image = _read_image(filename, color).astype(np.float32)
    if image.ndim == 2:
        image = image[:, :, np.newaxis]
        return np.tile(image, (1, 1, 3)) if color else image
    return image[:, :, :3]


def _sample(image, rows, columns, order):
    """Returns the image at these coordinates, 0 outside, between pixels by the order 0 or 1."""
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))

    def at(r, c):
        r = np.clip(r + 1, 0, padded.shape[0] - 1)
        c = np.clip(c + 1, 0, padded.shape[1] - 1)
        return padded[np.ix_(r, c)]

    if order == 0:
        nearest = [np.floor(axis + 0.5).astype(int) for axis in (rows, columns)]
        return at(*nearest)
    r, c = np.floor(rows).astype(int), np.floor(columns).astype(int)
    dr, dc = (rows - r)[:, np.newaxis, np.newaxis], (columns - c)[np.newaxis, :, np.newaxis]
    upper = at(r, c) * (1 - dc) + at(r, c + 1) * dc
    lower = at(r + 1, c) * (1 - dc) + at(r + 1, c + 1) * dc
    return upper * (1 - dr) + lower * dr


def _resize_by_centers(image, new_dims, order):
    """Resizes as skimage's warp did for pycaffe: pixel centres map to pixel centres."""
    axes = [
        (np.arange(size) + 0.5) * (image.shape[axis] / size) - 0.5
        for axis, size in enumerate(new_dims)
    ]
    return _sample(image.astype(float), *axes, order)


def _zoom(image, new_dims, order):
    """Resizes as scipy.ndimage.zoom: corner pixels map to corner pixels."""
    axes = [
        np.arange(size) * ((image.shape[axis] - 1) / max(size - 1, 1))
        for axis, size in enumerate(new_dims)
    ]
    zoomed = _sample(image.astype(float), *axes, order)
    if np.issubdtype(image.dtype, np.integer):
        zoomed = np.trunc(zoomed + np.copysign(0.5, zoomed))
    return zoomed


def _resize_by_splines(image, new_dims, order):
    try:
        from skimage.transform import resize
    except ImportError:
        raise ImportError(f"resize_image with order {order} needs scikit-image") from None
    return resize(image, new_dims, order=order, mode="constant", anti_aliasing=False)


def _zoom_by_splines(image, new_dims, order):
    try:
        from scipy.ndimage import zoom
    except ImportError:
        raise ImportError(f"resize_image with order {order} needs scipy") from None
    scale = tuple(np.array(new_dims, float) / np.array(image.shape[:2]))
    return zoom(image, scale + (1,), order=order)


def resize_image(im, new_dims, interp_order=1):
    """Returns an image, height x width x channels, in the size new_dims (height, width).

    The order is 0 (nearest) or 1 (bilinear). Others need scikit-image, or scipy unless the image
    has 1 or 3 channels.
    """
    in_numpy = interp_order in (0, 1)
    new_dims = tuple(int(size) for size in new_dims)
    if im.shape[-1] in (1, 3):
        low, high = im.min(), im.max()
        if high <= low:
            return np.full(new_dims + im.shape[-1:], low, np.float32)
        resize = _resize_by_centers if in_numpy else _resize_by_splines
        unit = (im - low) / (high - low)
        resized = resize(unit, new_dims, interp_order) * (high - low) + low
    else:
        resized = (_zoom if in_numpy else _zoom_by_splines)(im, new_dims, interp_order)
    return resized.astype(np.float32)


def oversample(images, crop_dims):
    """Returns ten crops of each image: the corners and the centre, then these mirrored."""
    shape = np.array(images[0].shape)
    height, width = (int(size) for size in crop_dims)
    down, right = shape[0] - height, shape[1] - width
    corners = [(0, 0), (0, right), (down, 0), (down, right)]
    centre = (int(shape[0] / 2.0 - height / 2.0), int(shape[1] / 2.0 - width / 2.0))
    crops = np.empty((10 * len(images), height, width, shape[-1]), np.float32)
    for i, image in enumerate(images):
        for k, (y, x) in enumerate(corners + [centre]):
            crop = image[y : y + height, x : x + width, :]
            crops[10 * i + k] = crop
            crops[10 * i + 5 + k] = crop[:, ::-1, :]
    return crops
