"""Model.classify, detect and segment, with nets whose answers follow from the colours."""

import json
import os
import threading

import numpy as np
import pytest

import crema
from crema import _command

# The mean of each channel, as scores: 0 blue, 1 green, 2 red.
MEANS = """
    name: "means"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
    layer { name: "mean" type: "Convolution" bottom: "data" top: "mean"
      convolution_param { num_output: 3 kernel_size: 4 } }
    layer { name: "prob" type: "Softmax" bottom: "mean" top: "prob" }
"""
# Scores of each pixel: 1 where it is red, 2 green, 3 blue, 0 where it is dark.
COLOURS = """
    name: "colours"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 3 dim: 4 dim: 6 } } }
    layer { name: "score" type: "Convolution" bottom: "data" top: "score"
      convolution_param { num_output: 4 kernel_size: 1 } }
"""
# Two boxes, the left and the right half; the score of class 1 grows with the mean of each.
RAW = """
    name: "halves"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } } }
    layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores"
      inner_product_param { num_output: 4 } }
    layer { name: "boxes" type: "InnerProduct" bottom: "data" top: "boxes"
      inner_product_param { num_output: 8 } }
"""
TAIL = """
    layer { name: "map" type: "Pooling" bottom: "data" top: "map" pooling_param {
      pool: AVE kernel_h: 4 kernel_w: 2 stride_h: 4 stride_w: 2 } }
    layer { name: "priors" type: "PriorBox" bottom: "map" bottom: "data" top: "priors"
      prior_box_param { width: 2 height: 4 } }
    layer { name: "found" type: "DetectionOutput" bottom: "boxes" bottom: "scores"
      bottom: "priors" top: "found" detection_output_param { num_classes: 2 } }
"""
# 300 rows of corners, score, class and one point.
ROWS = """
    name: "rows"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 1 dim: 4 dim: 4 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
      inner_product_param { num_output: 2700 } }
    layer { name: "rows" type: "Reshape" bottom: "ip" top: "rows"
      reshape_param { shape { dim: 0 dim: 300 dim: 9 } } }
"""
# Proposes each place of 16 x 16 pixels. A bright one has the class 1, and a box that lies half its
# width to the right.
REGIONS = """
    name: "regions"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 1 dim: 16 dim: 16 } } }
    layer { name: "im_info" type: "Input" top: "im_info" input_param { shape { dim: 1 dim: 3 } } }
    layer { name: "map" type: "Pooling" bottom: "data" top: "map"
      pooling_param { pool: AVE kernel_size: 16 stride: 16 } }
    layer { name: "dark" type: "Power" bottom: "map" top: "dark" power_param { scale: -1 } }
    layer { name: "rpn" type: "Concat" bottom: "dark" bottom: "map" top: "rpn" }
    layer { name: "still" type: "Power" bottom: "map" top: "still" power_param { scale: 0 } }
    layer { name: "moves" type: "Concat" bottom: "still" bottom: "still" bottom: "still"
      bottom: "still" top: "moves" }
    layer { name: "proposal" type: "Proposal" bottom: "rpn" bottom: "moves" bottom: "im_info"
      top: "rois" proposal_param { ratio: 1 scale: 1 min_size: 0 } }
    layer { name: "pool" type: "ROIPooling" bottom: "map" bottom: "rois" top: "pool"
      roi_pooling_param { pooled_h: 1 pooled_w: 1 spatial_scale: 0.0625 } }
    layer { name: "zero" type: "Power" bottom: "pool" top: "zero" power_param { scale: 0 } }
    layer { name: "half" type: "Power" bottom: "pool" top: "half"
      power_param { scale: 0 shift: 0.5 } }
    layer { name: "lamp" type: "Power" bottom: "pool" top: "lamp"
      power_param { scale: 0.1 shift: -10 } }
    layer { name: "scores" type: "Concat" bottom: "zero" bottom: "lamp" top: "scores" }
    layer { name: "cls_score" type: "Flatten" bottom: "scores" top: "cls_score" }
    layer { name: "cls_prob" type: "Softmax" bottom: "cls_score" top: "cls_prob" }
    layer { name: "boxes" type: "Concat" bottom: "zero" bottom: "zero" bottom: "zero"
      bottom: "zero" bottom: "half" bottom: "zero" bottom: "zero" bottom: "zero" top: "boxes" }
    layer { name: "bbox_pred" type: "Flatten" bottom: "boxes" top: "bbox_pred" }
"""
# A cascade: a bright window of 12 x 12 pixels, then the box around it, moved.
WINDOW = """
    name: "first"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 3 dim: 12 dim: 12 } } }
    layer { name: "score" type: "Convolution" bottom: "data" top: "score"
      convolution_param { num_output: 2 kernel_size: 12 stride: 2 } }
    layer { name: "shift" type: "Convolution" bottom: "data" top: "shift"
      convolution_param { num_output: 4 kernel_size: 12 stride: 2 } }
"""
CLOSER = """
    name: "second"
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 1 dim: 3 dim: 24 dim: 24 } } }
    layer { name: "score" type: "InnerProduct" bottom: "data" top: "score"
      inner_product_param { num_output: 2 } }
    layer { name: "shift" type: "InnerProduct" bottom: "data" top: "shift"
      inner_product_param { num_output: 4 } }
    layer { name: "points" type: "InnerProduct" bottom: "data" top: "points"
      inner_product_param { num_output: 10 } }
"""
CASCADE = """
    stage { net: "first.prototxt" weights: "first.caffemodel" threshold: 0.95 }
    stage { net: "second.prototxt" weights: "second.caffemodel" threshold: 0.9 nms_by: SMALLER }
    min_size: 12 mean: 0 scale: 0.0038
"""
RED, GREEN, BLUE, BLACK = (240, 0, 0), (0, 240, 0), (0, 0, 240), (0, 0, 0)


def write(folder, text, parameters):
    """Writes a net and its weights, given by layer, and returns their paths."""
    opened = crema.Net.parse(text, 1)
    for layer in opened.layer_list():
        for blob, values in zip(layer.blobs, parameters.get(layer.name, [])):
            blob.data[...] = np.reshape(values, blob.shape)
    net, weights = folder / f"{opened.name}.prototxt", folder / f"{opened.name}.caffemodel"
    net.write_text(text)
    opened.save(str(weights))
    return net, weights


@pytest.fixture
def means(tmp_path):
    filters = np.zeros((3, 3, 4, 4))
    for c in range(3):
        filters[c, c] = 1 / 16
    return write(tmp_path, MEANS, {"mean": [filters, np.zeros(3)]})


@pytest.fixture
def colours(tmp_path):
    filters = [[0, 0, 0], [-1, -1, 1], [-1, 1, -1], [1, -1, -1]]  # of blue, green, red
    return write(tmp_path, COLOURS, {"score": [filters, [50, 0, 0, 0]]})


@pytest.fixture
def halves(tmp_path):
    scores = np.zeros((4, 4, 4))
    scores[1, :, :2] = scores[3, :, 2:] = 1 / 8
    zeros = np.zeros
    parameters = {"scores": [scores, zeros(4)], "boxes": [zeros((8, 16)), zeros(8)]}
    tail = tmp_path / "tail.prototxt"
    tail.write_text(TAIL)
    return *write(tmp_path, RAW, parameters), tail


def plain(colour, height=4, width=4):
    return np.full((height, width, 3), colour, np.uint8)


def pixmap(pixels):
    """Returns an image file of RGB pixels."""
    return b"P6\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


@pytest.fixture
def opencv(means):
    """Skips tests that decode or resize where the package lacks OpenCV, which does that."""
    try:
        crema.Model.from_caffe(*means).classify(pixmap(plain(RED, 9, 5)))
    except crema.Error as error:
        if error.code == "unsupported":
            pytest.skip("no OpenCV here: only JPEG files are decoded")
        raise


def test_classifies_pixels(means):
    model = crema.Model.from_caffe(*means, labels=["blue", "green", "red"])
    best = model.classify(plain(RED))
    assert [p.label for p in best] == ["red", "blue", "green"]
    assert best[0].class_id == 2 and best[0].score == pytest.approx(1)
    assert len(model.classify(plain(RED), most=1)) == 1
    assert crema.Model.from_caffe(*means).classify(plain(GREEN))[0].label == "1"


def test_a_path_and_bytes_and_pixels_give_the_same(means, opencv, tmp_path):
    model = crema.Model.from_caffe(*means)
    pixels = np.random.default_rng(1).integers(0, 9, (4, 4, 3), dtype=np.uint8)
    file = pixmap(pixels)
    path = tmp_path / "x.ppm"
    path.write_bytes(file)
    turned = np.ascontiguousarray(pixels[:, ::-1])[:, ::-1]  # not contiguous
    wanted = model.classify(pixels)
    for image in (file, path, str(path), np.frombuffer(file, np.uint8), turned):
        assert model.classify(image) == wanted


def test_pillow_images_are_images(means):
    image = pytest.importorskip("PIL.Image").fromarray(plain(BLUE))
    assert crema.Model.from_caffe(*means).classify(image)[0].class_id == 0


def test_images_are_resized(means, opencv):
    model = crema.Model.from_caffe(*means)
    assert model.classify(plain(RED, 9, 5)) == model.classify(plain(RED))


def test_preprocessing_by_keywords(means, tmp_path):
    def scores(**keywords):
        best = crema.Model.from_caffe(*means, **keywords).classify(plain((3, 2, 1)))
        return [p.score for p in sorted(best)]

    def softmax(values):
        values = np.exp(np.subtract(values, max(values)))
        return pytest.approx(list(values / values.sum()), abs=3e-6)

    assert scores() == softmax([1, 2, 3])
    assert scores(rgb=True) == softmax([3, 2, 1])
    assert scores(scale=0.5) == softmax([0.5, 1, 1.5])
    assert scores(mean=[1, 1, 2]) == softmax([0, 1, 1])
    assert scores(mean=7) == softmax([-6, -5, -4])
    assert scores(mean=np.ones((3, 4, 4)) * [[[0]], [[1]], [[2]]]) == softmax([1, 1, 1])
    assert scores(invert=True, scale=0.125) == softmax([31.75, 31.625, 31.5])
    with pytest.raises(crema.Error, match="mean has 2 numbers"):
        scores(mean=[1, 2])
    with pytest.raises(crema.Error):
        scores(mean=tmp_path / "none.binaryproto")
    with pytest.raises(ValueError):
        scores(mean="abc".split())


def test_gray_models_take_colours_and_gray(halves):
    net, weights, tail = halves
    model = crema.Model.from_caffe(net, weights, tail=tail)
    gray = np.zeros((4, 4), np.uint8)
    gray[:, :2] = 255
    assert model.detect(gray) == model.detect(np.stack([gray] * 3, axis=2))


def test_decodes_heads(tmp_path):
    row = [0, 1, 2, 3, 0.75, 1, 1, 2, 0.5]
    bias = np.zeros(2700)
    bias[:9] = row
    files = write(tmp_path, ROWS, {"ip": [np.zeros((2700, 16)), bias]})
    model = crema.Model.from_caffe(*files, nms=0.5)
    (found,) = model.detect(np.zeros((8, 8), np.uint8))
    assert (found.class_id, found.score, found.box) == (1, 0.75, (0, 2, 4, 6))
    assert found.keypoints == ((2, 4),)
    with pytest.raises(crema.Error, match="the head yolox has outputs"):
        crema.Model.from_caffe(*files, head="yolox").detect(np.zeros((8, 8), np.uint8))


def test_detects_by_regions(tmp_path):
    net = tmp_path / "regions.prototxt"
    net.write_text(REGIONS)
    model = crema.Model.from_caffe(net, [], resize=(32, 48), interpolation="nearest")
    gray = np.zeros((16, 24), np.uint8)
    assert model.preprocess(gray).shape == (1, 1, 32, 48)
    assert model.detect(gray) == []
    gray[:8, :8] = 255
    (found,) = model.detect(gray)
    assert (found.class_id, found.box) == (1, (4.5, 0, 13.5, 9))
    assert found.score > 0.999
    assert model.preprocess(np.zeros((64, 16), np.uint8)).shape == (1, 1, 48, 12)
    fixed = crema.Model.from_caffe(net, [], fit="letterbox")
    assert fixed.preprocess(gray).shape == (1, 1, 16, 16)
    with pytest.raises(crema.Error, match="needs a resize"):
        crema.Model.from_caffe(net, [], resize=(48, 32))


def test_detects(halves):
    net, weights, tail = halves
    model = crema.Model.from_caffe(net, [weights], tail=tail, labels=["nothing", "lamp"])
    gray = np.zeros((4, 4), np.uint8)
    gray[:, :2] = 255
    (found,) = model.detect(gray)
    assert (found.class_id, found.label) == (1, "lamp")
    assert found.score > 0.9
    assert found.box == pytest.approx((0, 0, 2, 4), abs=1e-5)
    gray[:, 2:] = 1
    assert [d.box[0] for d in model.detect(gray, confidence=0)] == [0, 2]
    assert model.detect(np.zeros((4, 4), np.uint8), confidence=0.9) == []


@pytest.fixture
def cascade(tmp_path, opencv):
    for text, size, shifts in ((WINDOW, 12, [0, 0, 0, 0]), (CLOSER, 24, [-0.25, 0, 0.25, 0.5])):
        mean = np.full(3 * size * size, 1 / (3 * size * size))
        write(tmp_path, text, {
            "score": [np.concatenate([0 * mean, mean]), [0, 0]],
            "shift": [np.zeros((4, mean.size)), shifts],
            "points": [np.zeros((10, mean.size)), np.full(10, 0.5)],
        })
    file = tmp_path / "cascade.txt"
    file.write_text(CASCADE)
    return file


def test_detects_by_a_cascade(cascade):
    faces = crema.Cascade.from_file(cascade, labels=["background", "face"])
    image = np.zeros((30, 36, 3), np.uint8)
    assert faces.detect(image) == []
    image[4:16, 8:20] = 255
    for given in (image, image[:, :, 0], pixmap(image)):
        (found,) = faces.detect(given)
        assert (found.class_id, found.label, found.box) == (1, "face", (6, 5, 23, 22))
        assert found.keypoints == ((14, 10),) * 5
    assert faces.labels == ["background", "face"]
    assert faces.detect(image, confidence=0.98) == []
    with pytest.raises(crema.Error, match="expected 0 to 1"):
        faces.detect(image, confidence=2)
    with pytest.raises(crema.Error):
        faces.detect(b"no image")
    with pytest.raises(crema.Error, match="threads is -1"):
        crema.Cascade.from_file(cascade, threads=-1)
    (cascade.parent / "second.caffemodel").unlink()
    with pytest.raises(crema.Error, match="second.caffemodel: there is no such file"):
        crema.Cascade.from_file(cascade)


def test_ten_crops_are_averaged(means, opencv, tmp_path):
    model = crema.Model.from_caffe(*means, resize=4, ten_crops=True, scale=0.01)
    image = np.concatenate([plain(RED), plain(GREEN)], axis=1)
    assert model.preprocess(image).shape == (10, 3, 4, 4)
    scores = model.run(model.preprocess(image))["prob"].mean(axis=0).ravel()
    assert [p.score for p in sorted(model.classify(image))] == pytest.approx(list(scores))
    one = crema.Model.from_caffe(*means, resize=4, scale=0.01)
    assert model.classify(image)[0].score > one.classify(image)[0].score
    with pytest.raises(crema.Error, match="ten crops .* need the fit 'crop'"):
        crema.Model.from_caffe(*means, ten_crops=True)


def test_thresholds_of_the_net_are_replaced(halves):
    net, weights, tail = halves
    model = crema.Model.from_caffe(net, weights, tail=tail, confidence=0.7, nms=0.5)
    gray = np.zeros((4, 4), np.uint8)
    assert model.detect(gray, confidence=0.7) == []
    with pytest.raises(crema.Error, match="find none below 0.7"):
        model.detect(gray, confidence=0.1)
    with pytest.raises(crema.Error, match="nms is 2"):
        crema.Model.from_caffe(net, weights, tail=tail, nms=2)
    with pytest.raises(crema.Error, match="DetectionOutput"):
        crema.Model.from_caffe(net, weights, confidence=0.5)


def test_segments(colours):
    model = crema.Model.from_caffe(*colours, labels=["dark", "red", "green", "blue"])
    image = np.concatenate([plain(RED, 4, 3), plain(BLUE, 4, 2), plain(BLACK, 4, 1)], axis=1)
    mask, classes = model.segment(image)
    assert mask.dtype == np.uint8
    np.testing.assert_array_equal(mask, [[1, 1, 1, 3, 3, 0]] * 4)
    assert [(c.class_id, c.label) for c in classes] == [(1, "red"), (3, "blue"), (0, "dark")]
    assert sum(c.share for c in classes) == pytest.approx(1)


def test_masks_have_the_size_of_the_image(colours, opencv):
    mask = crema.Model.from_caffe(*colours).segment(plain(GREEN, 40, 9)).mask
    assert mask.shape == (40, 9)
    assert (mask == 2).all()


def test_errors_say_what_does_not_fit(means, halves):
    model = crema.Model.from_caffe(*means)
    with pytest.raises(crema.Error, match="segmentation needs scores"):
        crema.Model.from_caffe(*halves[:2], tail=halves[2]).segment(plain(RED))
    with pytest.raises(crema.Error, match="no layer of type DetectionOutput"):
        model.detect(plain(RED))
    with pytest.raises(crema.Error, match="no output 'probs'.*prob"):
        model.classify(plain(RED), output="probs")
    with pytest.raises(crema.Error, match="expected 0 to 1"):
        model.detect(plain(RED), confidence=float("nan"))
    with pytest.raises(crema.Error, match="2 labels.*3 classes"):
        crema.Model.from_caffe(*means, labels=["a", "b"]).classify(plain(RED))


@pytest.mark.parametrize(
    "image, error",
    [
        (plain(RED).astype(np.float32), TypeError),
        (plain(RED).astype(np.int64), TypeError),
        (3, TypeError),
        (None, TypeError),
        (object(), TypeError),
        ({}, TypeError),
        (np.zeros((4, 4, 4), np.uint8), ValueError),
        (np.zeros((3, 4, 0), np.uint8), ValueError),
        (np.zeros((0, 4, 3), np.uint8), ValueError),
        (np.zeros((1, 4, 4, 3), np.uint8), ValueError),
        (b"", crema.Error),
        (b"no image", crema.Error),
        (b"\xff\xd8\xff", crema.Error),
        (np.zeros(3, np.uint8), crema.Error),
        ("/nothing.jpg", crema.Error),
        ("", crema.Error),
        ("/", crema.Error),
        ("a\0b", ValueError),
    ],
)
def test_what_is_no_image_is_an_error_and_the_model_remains(means, image, error):
    model = crema.Model.from_caffe(*means)
    for call in (model.classify, model.detect, model.segment):
        with pytest.raises((error, crema.Error)):
            call(image)
    with pytest.raises(error):
        model.classify(image)
    assert model.classify(plain(RED))[0].class_id == 2


def test_many_threads_share_a_model(means):
    model = crema.Model.from_caffe(*means, threads=1)
    failures = []

    def work(colour, wanted):
        for _ in range(50):
            # By turns with and without a name: the model changes its classifier meanwhile.
            for output in ("", "prob"):
                best = model.classify(plain(colour), output=output)
                if best[0].class_id != wanted:
                    failures.append(best)

    cases = [(BLUE, 0), (GREEN, 1), (RED, 2)] * 2
    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_command_answers_the_same(means, colours, halves, opencv, tmp_path):
    if not os.path.exists(_command._FRONT):
        pytest.skip("this package has no commands")
    pixels = np.random.default_rng(1).integers(0, 200, (11, 17, 3), dtype=np.uint8)
    file = tmp_path / "x.ppm"
    file.write_bytes(pixmap(pixels))

    def answer(action, model, *flags):
        net, weights = model[:2]
        flags = [*flags, f"--model={net}", f"--weights={weights}", "--json"]
        return json.loads(_command.run("deploy", action, str(file), *flags))

    best = crema.Model.from_caffe(*means).classify(pixels)
    assert [(p.class_id, np.float32(p.score)) for p in best] == [
        (p["index"], np.float32(p["score"])) for p in answer("classify", means)["predictions"]
    ]
    shares = crema.Model.from_caffe(*colours).segment(pixels).classes
    assert [(s.class_id, pytest.approx(s.share)) for s in shares] == [
        (s["index"], s["share"]) for s in answer("segment", colours)["classes"]
    ]
    flags = [f"--tail={halves[2]}", "--confidence=0.01"]
    model = crema.Model.from_caffe(*halves[:2], tail=halves[2], confidence=0.01)
    found = model.detect(pixels, confidence=0.01)
    assert len(found) == 2
    assert [(d.class_id, np.float32(d.score), pytest.approx(d.box)) for d in found] == [
        (d["index"], np.float32(d["score"]), tuple(d["box"])) for d in answer("detect", halves, *flags)["detections"]
    ]


def test_models_show_what_they_are(means):
    model = crema.Model.from_caffe(*means)
    assert repr(model) == "<crema.Model 'means': data Nx3x4x4 -> prob Nx3x1x1>"
    assert "<td>Softmax</td>" in model._repr_html_()
    assert 'name: "prob"' in model.to_text()


@pytest.mark.parametrize("wrong", [dict(mean=float("nan")), dict(scale=float("inf")), dict(scale=float("nan"))])
def test_preprocessing_is_of_finite_numbers(tmp_path, wrong):
    path = tmp_path / "net.prototxt"
    path.write_text(MEANS)
    with pytest.raises(ValueError, match="finite"):
        crema.Model.from_caffe(path, [], **wrong)
