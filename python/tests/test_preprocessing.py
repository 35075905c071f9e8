"""How images become inputs: sizes and values, against Pillow, OpenCV and formulas."""

import re

import numpy as np
import pytest

import crema

SIZES = ((37, 61), (61, 37), (48, 48), (8, 200), (301, 224), (10, 10))


def model_for(tmp_path, channels, height, width, **keywords):
    net = tmp_path / "net.prototxt"
    net.write_text(
        f"""layer {{ name: "data" type: "Input" top: "data"
              input_param {{ shape {{ dim: 1 dim: {channels} dim: {height} dim: {width} }} }} }}
            layer {{ name: "pool" type: "Pooling" bottom: "data" top: "pool"
              pooling_param {{ pool: AVE global_pooling: true }} }}"""
    )
    return crema.Model.from_caffe(net, [], **keywords)


def picture(height, width, seed=0):
    random = np.random.default_rng(seed)
    smooth = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None] % 256
    noise = random.integers(0, 80, (height, width, 3))
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def resize(image, size, resample):
    """Image.resize, the rows first. Pillow 13 chooses the order by the sizes, which changes roundings."""
    return image.resize((size[0], image.height), resample).resize(size, resample)


def test_values_follow_the_formula(tmp_path):
    pixels = picture(6, 5)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    model = model_for(tmp_path, 3, 6, 5, rgb=True, pixel_range=1, mean=mean, std=std)
    expected = (pixels.astype(np.float32) / np.float32(255) - mean) / std
    got = model.preprocess(pixels)
    assert got.shape == (1, 3, 6, 5)
    np.testing.assert_array_equal(got[0], expected.transpose(2, 0, 1))

    both = model_for(tmp_path, 3, 6, 5, invert=True, mean=[1, 2, 3], scale=0.5, std=4)
    blue_first = 255 - pixels[..., ::-1].astype(np.float32)
    expected = (blue_first - np.float32([1, 2, 3])) * np.float32(0.5) / np.float32(4)
    np.testing.assert_array_equal(both.preprocess(pixels)[0], expected.transpose(2, 0, 1))


@pytest.mark.parametrize("how, filter_name", [("antialias", "BILINEAR"), ("antialias_cubic", "BICUBIC")])
@pytest.mark.parametrize("size", SIZES)
def test_antialiased_sizes_are_those_of_pillow(tmp_path, how, filter_name, size):
    image = pytest.importorskip("PIL.Image")
    pixels = picture(*size)
    model = model_for(tmp_path, 3, 32, 24, rgb=True, interpolation=how)
    resized = resize(image.fromarray(pixels), (24, 32), getattr(image.Resampling, filter_name))
    expected = np.asarray(resized, np.float32).transpose(2, 0, 1)
    np.testing.assert_array_equal(model.preprocess(pixels)[0], expected)


@pytest.mark.parametrize("size", [(37, 61), (61, 37), (48, 48), (301, 224), (40, 41)])
def test_torchvision_transforms(tmp_path, size):
    """Resize(40), CenterCrop(32) of torchvision, written out: its sizes and its rounding."""
    image = pytest.importorskip("PIL.Image")
    height, width = size
    pixels = picture(*size)
    model = model_for(tmp_path, 3, 32, 32, rgb=True, pixel_range=1, resize=40, interpolation="antialias")
    short = min(size)
    new = (int(40 * width / short), int(40 * height / short))
    resized = np.asarray(resize(image.fromarray(pixels), new, image.Resampling.BILINEAR))
    top, left = round((new[1] - 32) / 2.0), round((new[0] - 32) / 2.0)
    crop = resized[top : top + 32, left : left + 32].astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(model.preprocess(pixels)[0], crop.transpose(2, 0, 1))


def test_the_transforms_of_torchvision_itself(tmp_path):
    transforms = pytest.importorskip("torchvision.transforms")
    image = pytest.importorskip("PIL.Image")
    if int(pytest.importorskip("PIL").__version__.split(".")[0]) >= 13:
        pytest.skip("Pillow 13 rounds otherwise for some sizes")
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    theirs = transforms.Compose(
        [transforms.Resize(40), transforms.CenterCrop(32), transforms.ToTensor(), transforms.Normalize(mean, std)]
    )
    model = model_for(
        tmp_path, 3, 32, 32, rgb=True, pixel_range=1, mean=mean, std=std, resize=40, interpolation="antialias"
    )
    for size in ((37, 61), (61, 37), (48, 48), (301, 224), (40, 41)):
        pixels = picture(*size)
        expected = theirs(image.fromarray(pixels)).numpy()
        np.testing.assert_array_equal(model.preprocess(pixels)[0], expected)


def test_blobs_of_opencv(tmp_path):
    cv2 = pytest.importorskip("cv2")
    # Not 33 x 47: OpenCV's factor, in single precision, makes the letterbox a pixel smaller.
    for size in ((64, 96), (96, 64), (48, 32), (20, 20)):
        pixels = np.ascontiguousarray(picture(*size)[..., ::-1])  # blue first
        for fit, mode in (("stretch", cv2.dnn.DNN_PMODE_NULL), ("letterbox", cv2.dnn.DNN_PMODE_LETTERBOX)):
            param = cv2.dnn.Image2BlobParams()
            param.size = (32, 32)
            param.mean = (1, 2, 3, 0)
            param.scalefactor = (0.5, 0.5, 0.5, 0.5)
            param.paddingmode = mode
            model = model_for(tmp_path, 3, 32, 32, mean=[1, 2, 3], scale=0.5, fit=fit, pad=0)
            got = model.preprocess(np.ascontiguousarray(pixels[..., ::-1]))
            np.testing.assert_array_equal(got, cv2.dnn.blobFromImageWithParams(pixels, param))


def test_a_letterbox_keeps_the_aspect(tmp_path):
    pixels = np.full((10, 20, 3), 200, np.uint8)
    model = model_for(tmp_path, 3, 32, 32, fit="letterbox", pad=7, interpolation="antialias")
    got = model.preprocess(pixels)[0, 0]
    assert (got[8:24] == 200).all()
    assert (got[:8] == 7).all() and (got[24:] == 7).all()


def test_a_crop_is_the_middle(tmp_path):
    pixels = picture(40, 60)
    model = model_for(tmp_path, 3, 30, 31, rgb=True, fit="crop", resize=(40, 60))
    expected = pixels[5:35, 14:45].astype(np.float32).transpose(2, 0, 1)
    np.testing.assert_array_equal(model.preprocess(pixels)[0], expected)


@pytest.mark.parametrize(
    "keywords, message",
    [
        ({"std": [1, 2]}, "standard deviation has 2 numbers for 3 channels"),
        ({"std": [1, 0, 1]}, "a standard deviation (std) is 0"),
        ({"pixel_range": 0}, "the largest pixel value (pixel_range) is 0; use a number above 0"),
        ({"resize": 31}, "images are resized to 31 before the crop, which must be from 32x32"),
        ({"resize": (32, 31)}, "images are resized to 32x31 before the crop"),
        ({"resize": 100000}, "to 16384"),
        ({"fit": "fill"}, "unknown fit 'fill'; use stretch, crop, letterbox"),
        ({"interpolation": "lanczos4"}, "unknown interpolation 'lanczos4'; use linear"),
        ({"fit": "letterbox", "pad": 256}, "the padding is 256"),
        ({"fit": "letterbox", "resize": 40}, "a size before the crop needs the fit 'crop'"),
        ({"resize": 40, "fit": "letterbox"}, "a size before the crop needs the fit 'crop'"),
    ],
)
def test_values_that_do_not_fit_are_errors(tmp_path, keywords, message):
    with pytest.raises(crema.Error, match=re.escape(message)):
        model_for(tmp_path, 3, 32, 32, **keywords)


def test_keywords_are_checked(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'means'"):
        model_for(tmp_path, 3, 32, 32, means=3)
    with pytest.raises(TypeError, match="'rgb' has a value of another type"):
        model_for(tmp_path, 3, 32, 32, rgb="yes")
    with pytest.raises(TypeError, match="'resize' has a value of another type"):
        model_for(tmp_path, 3, 32, 32, resize=True)


def test_a_narrow_image_does_not_take_all_memory(tmp_path):
    model = model_for(tmp_path, 3, 32, 32, resize=8000, interpolation="antialias")
    with pytest.raises(crema.Error, match="it is too narrow"):
        model.preprocess(np.zeros((1, 5000, 3), np.uint8))
