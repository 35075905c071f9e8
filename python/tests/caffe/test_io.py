import sys

import numpy as np
import pytest

import caffe
import crema


def picture(height, width, channels, seed=0):
    return np.random.RandomState(seed).rand(height, width, channels).astype(np.float32)


@pytest.mark.parametrize("channels", [1, 3])
def test_resizing_to_the_same_size_changes_nothing(channels):
    image = picture(5, 7, channels)
    np.testing.assert_allclose(caffe.io.resize_image(image, (5, 7)), image, atol=1e-6)


def test_bilinear_resizing_maps_pixel_centres_and_is_dark_at_the_border():
    image = np.array([[0, 1]], np.float32).reshape(1, 2, 1)
    np.testing.assert_allclose(
        caffe.io.resize_image(image, (1, 4))[0, :, 0], [0, 0.25, 0.75, 0.75], atol=1e-6
    )


def test_other_channel_counts_map_corner_pixels():
    image = np.zeros((2, 2, 4), np.float32)
    image[1, 1] = 1
    np.testing.assert_allclose(caffe.io.resize_image(image, (3, 3))[1, 1], 0.25, atol=1e-6)
    np.testing.assert_allclose(caffe.io.resize_image(image, (3, 3))[2, 2], 1, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 6), (9, 13), (30, 5)])
@pytest.mark.parametrize("order", [0, 1])
def test_resizing_is_that_of_scikit_image(shape, order):
    transform = pytest.importorskip("skimage.transform")
    image = picture(10, 8, 3)
    low, high = image.min(), image.max()  # pycaffe scales to 0..1, which shows at the border
    unit = (image - low) / (high - low)
    unit = transform.resize(unit, shape, order=order, mode="constant", anti_aliasing=False)
    wanted = unit * (high - low) + low
    np.testing.assert_allclose(caffe.io.resize_image(image, shape, order), wanted, atol=1e-6)


def test_zoom_is_that_of_scipy():
    ndimage = pytest.importorskip("scipy.ndimage")
    image = picture(6, 5, 4)
    wanted = ndimage.zoom(image, (2, 1.4, 1), order=1)
    np.testing.assert_allclose(caffe.io.resize_image(image, (12, 7)), wanted, atol=1e-6)


def test_zoom_rounds_integers():
    image = np.array([[0, 3]], np.uint8).reshape(1, 2, 1).repeat(4, axis=2)
    assert caffe.io.resize_image(image, (1, 4))[0, :, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_other_orders_are_splines(channels):
    transform = pytest.importorskip("skimage.transform")
    ndimage = pytest.importorskip("scipy.ndimage")
    image = picture(9, 11, channels)
    if channels == 4:
        wanted = ndimage.zoom(image, (13 / 9, 6 / 11, 1), order=3)
    else:
        low, high = image.min(), image.max()
        unit = (image - low) / (high - low)
        unit = transform.resize(unit, (13, 6), order=3, mode="constant", anti_aliasing=False)
        wanted = unit * (high - low) + low
    np.testing.assert_allclose(caffe.io.resize_image(image, (13, 6), 3), wanted, atol=1e-6)


@pytest.mark.parametrize(
    "channels, module, package",
    [(3, "skimage.transform", "scikit-image"), (4, "scipy.ndimage", "scipy")],
)
def test_a_missing_package_is_named(channels, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"order 3 needs {package}"):
        caffe.io.resize_image(picture(4, 4, channels), (2, 2), 3)


def test_a_constant_image_stays_constant():
    assert (caffe.io.resize_image(np.full((3, 3, 3), 0.5, np.float32), (5, 4)) == 0.5).all()


def test_the_transformer_undoes_itself():
    transformer = caffe.io.Transformer({"data": (1, 3, 6, 5)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([104.0, 117, 123], np.float32))
    transformer.set_input_scale("data", 0.5)
    image = picture(6, 5, 3)
    net_input = transformer.preprocess("data", image.copy())
    np.testing.assert_allclose(
        net_input[0], (image[:, :, 2] * 255 - 104) * 0.5, rtol=1e-5, atol=1e-3
    )
    np.testing.assert_allclose(transformer.deprocess("data", net_input), image, atol=1e-5)


@pytest.mark.parametrize("size", [(6, 5), (24, 32), (227, 227)])
def test_the_transformer_gives_what_a_model_of_crema_computes(tmp_path, size):
    pixels = np.random.RandomState(1).randint(0, 256, (*size, 3)).astype(np.uint8)
    mean = np.array([104.00699, 116.66877, 122.67892], np.float32)
    transformer = caffe.io.Transformer({"data": (1, 3, *size)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", mean)
    transformer.set_input_scale("data", 0.017)
    net = tmp_path / "net.prototxt"
    net.write_text(
        f"""layer {{ name: "data" type: "Input" top: "data"
              input_param {{ shape {{ dim: 1 dim: 3 dim: {size[0]} dim: {size[1]} }} }} }}
            layer {{ name: "relu" type: "ReLU" bottom: "data" top: "relu" }}"""
    )
    model = crema.Model.from_caffe(net, [], mean=mean, scale=0.017)
    image = pixels.astype(np.float32) / np.float32(255)  # as caffe.io.load_image reads it
    np.testing.assert_array_equal(
        transformer.preprocess("data", image), model.preprocess(pixels)[0]
    )


def test_none_is_no_step_of_the_transformer():
    transformer = caffe.io.Transformer({"data": (1, 3, 6, 5)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_raw_scale("data", None)
    transformer.set_input_scale("data", None)
    image = picture(6, 5, 3)
    net_input = transformer.preprocess("data", image)
    np.testing.assert_array_equal(net_input, image.transpose(2, 0, 1))
    np.testing.assert_array_equal(transformer.deprocess("data", net_input), image)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda t: t.set_transpose("other", (2, 0, 1)), "not one of the net inputs"),
        (lambda t: t.set_transpose("data", (1, 0)), "Transpose order"),
        (lambda t: t.set_channel_swap("data", (1, 0)), "Channel swap"),
        (lambda t: t.set_mean("data", np.zeros(4)), "Mean channels"),
        (lambda t: t.set_mean("data", np.zeros((1, 1, 1, 1))), "Mean shape"),
    ],
)
def test_the_transformer_rejects_what_does_not_fit(call, error):
    with pytest.raises(Exception, match=error):
        call(caffe.io.Transformer({"data": (1, 3, 6, 5)}))


def test_a_mean_image_of_another_size_is_resized():
    transformer = caffe.io.Transformer({"data": (1, 3, 2, 2)})
    transformer.set_mean("data", np.arange(48, dtype=np.float32).reshape(3, 4, 4))
    assert transformer.mean["data"].shape == (3, 2, 2)


def test_arrays_become_messages_and_back():
    array = picture(2, 3, 4)
    blob = caffe.io.array_to_blobproto(array, diff=2 * array)
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), array)
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob, return_diff=True), 2 * array)
    text = caffe.io.arraylist_to_blobprotovector_str([array, array])
    assert len(caffe.io.blobprotovector_str_to_arraylist(text)) == 2
    for values in (array, (array * 255).astype(np.uint8)):
        datum = caffe.io.array_to_datum(values, label=3)
        assert datum.label == 3
        np.testing.assert_array_equal(caffe.io.datum_to_array(datum), values)
    with pytest.raises(ValueError, match="Incorrect array shape"):
        caffe.io.array_to_datum(array[0])


def test_oversample_takes_corners_centre_and_mirrors():
    image = np.arange(30, dtype=np.float32).reshape(5, 6, 1)
    crops = caffe.io.oversample([image], (3, 2))
    assert crops.shape == (10, 3, 2, 1)
    np.testing.assert_array_equal(crops[0], image[:3, :2])
    np.testing.assert_array_equal(crops[3], image[2:, 4:])
    np.testing.assert_array_equal(crops[4], image[1:4, 2:4])
    np.testing.assert_array_equal(crops[5], image[:3, 1::-1])


def test_images_are_loaded_as_rgb_or_grey(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "a.png")
    Image.fromarray(np.full((4, 5, 3), (255, 0, 51), np.uint8)).save(path)
    image = caffe.io.load_image(path)
    assert image.shape == (4, 5, 3) and image.dtype == np.float32
    np.testing.assert_allclose(image[0, 0], [1, 0, 0.2], atol=1e-6)
    grey = caffe.io.load_image(path, color=False)
    assert grey.shape == (4, 5, 1)
    np.testing.assert_allclose(grey[0, 0, 0], 0.2125 + 0.2 * 0.0721, atol=1e-6)
    Image.fromarray(np.full((4, 5), 51, np.uint8)).save(path)
    np.testing.assert_allclose(caffe.io.load_image(path)[0, 0], [0.2] * 3, atol=1e-6)


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGBA", "CMYK"])
def test_images_of_other_modes_are_loaded(mode, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "a.tiff")
    Image.new("RGB", (5, 4), (255, 255, 255)).convert(mode).save(path)
    for color, channels in ((True, 3), (False, 1)):
        image = caffe.io.load_image(path, color)
        assert image.shape == (4, 5, channels)
        np.testing.assert_allclose(image, 1, atol=1e-6)


def test_images_of_16_bits_are_loaded(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "a.png")
    Image.fromarray(np.full((4, 5), 13107, np.uint16)).save(path)
    np.testing.assert_allclose(caffe.io.load_image(path, color=False), 0.2, atol=1e-6)


def test_a_missing_decoder_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "skimage.io", None)
    with pytest.raises(ImportError, match="Pillow or scikit-image"):
        caffe.io.load_image("a.png")
