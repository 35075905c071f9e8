import numpy as np
import pytest

import caffe

NET = """
layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 4 dim: 3 dim: 6 dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
"""


@pytest.fixture
def files(write_model):
    return write_model(NET)


def scores_of(files, crops):
    """Returns what the net computes of crops, height x width x RGB."""
    net = caffe.Net(files[0], caffe.TEST, weights=files[1])
    return net.forward_all(data=np.stack([crop.transpose(2, 0, 1) for crop in crops]))["ip"]


def picture(height, width, seed=0):
    return np.random.RandomState(seed).rand(height, width, 3).astype(np.float32)


def test_the_centre_is_cropped(files):
    classifier = caffe.Classifier(*files, image_dims=(9, 8))
    image = picture(9, 8)
    np.testing.assert_allclose(
        classifier.predict([image], oversample=False),
        scores_of(files, [image[1:7, 1:7]]),
        atol=1e-5,
    )


def test_ten_crops_are_averaged(files):
    classifier = caffe.Classifier(*files, image_dims=[9, 8])
    images = [picture(9, 8), picture(9, 8, seed=1)]
    crops = scores_of(files, caffe.io.oversample(images, (6, 6)))
    np.testing.assert_allclose(
        classifier.predict(images), crops.reshape(2, 10, 3).mean(axis=1), atol=1e-5
    )


def test_the_whole_image_is_the_default(files):
    classifier = caffe.Classifier(*files)
    image = picture(20, 11)
    assert tuple(classifier.image_dims) == tuple(classifier.crop_dims) == (6, 6)
    np.testing.assert_allclose(
        classifier.predict([image], False),
        scores_of(files, [caffe.io.resize_image(image, (6, 6))]),
        atol=1e-5,
    )


def test_preprocessing_is_that_of_the_arguments(files):
    mean = np.array([1.0, 2, 3], np.float32)
    classifier = caffe.Classifier(
        *files, mean=mean, input_scale=0.5, raw_scale=255, channel_swap=(2, 1, 0)
    )
    image = picture(6, 6)
    np.testing.assert_allclose(
        classifier.predict([image.copy()], oversample=False),
        scores_of(files, [(image[:, :, ::-1] * 255 - mean) * 0.5]),
        rtol=1e-4,
        atol=1e-3,
    )


def test_grey_images_may_follow_those_in_colour(files):
    grey = picture(7, 7)[:, :, :1]
    scores = caffe.Classifier(*files).predict([picture(7, 7), grey, np.tile(grey, (1, 1, 3))])
    np.testing.assert_allclose(scores[1], scores[2], atol=1e-5)


def test_windows_do_not_change_the_image(files, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "a.png")
    image = np.random.RandomState(3).randint(0, 255, (12, 12, 3)).astype(np.uint8)
    Image.fromarray(image).save(path)
    window = np.array([2, 3, 8, 9])  # as large as the input: it is not resized
    detector = caffe.Detector(*files, raw_scale=255)
    first, second = detector.detect_windows([(path, [window, window])])
    wanted = scores_of(files, [image[2:8, 3:9].astype(np.float32)])[0]
    for found in (first, second):
        assert found["filename"] == path and found["window"] is window
        np.testing.assert_allclose(found["prediction"], wanted, rtol=1e-4, atol=1e-2)


def test_images_of_a_generator_are_detected_once(files, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    paths = [str(tmp_path / f"{i}.png") for i in range(2)]
    for path in paths:
        Image.fromarray(np.zeros((12, 12, 3), np.uint8)).save(path)
    found = caffe.Detector(*files).detect_windows(
        (path, [np.array([0, 0, 9, 9])]) for path in paths
    )
    assert [box["filename"] for box in found] == paths


def test_padding_is_the_mean_before_preprocessing(files):
    mean = np.array([10.0, 20, 30], np.float32)
    detector = caffe.Detector(*files, mean=mean, raw_scale=2, channel_swap=(2, 1, 0), context_pad=1)
    crop = detector.crop(np.zeros((30, 30, 3), np.float32), np.array([0, 0, 9, 9]))
    assert crop.shape == (6, 6, 3)
    assert crop[0, 0].tolist() == [15, 10, 5]
    net_input = detector.transformer.preprocess("data", crop)
    assert net_input[:, 0, 0].tolist() == [0, 0, 0]
