"""crema.dnn against what cv2.dnn of OpenCV 4 answers: recorded (dnn_facts.py), and live if it is
there."""

import json
import os
import subprocess
import sys
import threading
import warnings

import dnn_facts
import numpy as np
import pytest

import crema
from crema import dnn

HERE = os.path.dirname(os.path.abspath(__file__))
SLIM = os.path.join(HERE, "..", "..", "tests", "models", "slim-320", "slim-320")


def same(path, expected, found):
    """Compares two facts: kinds, shapes and names exactly, values to 1e-5 of the largest."""
    assert type(expected) is type(found), path
    if isinstance(expected, dict) and "dtype" in expected:
        assert (expected["dtype"], expected["shape"]) == (found["dtype"], found["shape"]), path
        values = np.array(expected["values"])
        scale = max(1.0, np.abs(values).max(initial=0))
        exact = expected["dtype"] in ("uint8", "int32")
        np.testing.assert_allclose(
            found["values"], values, rtol=0, atol=0 if exact else 1e-5 * scale, err_msg=path
        )
    elif isinstance(expected, dict):
        assert expected.keys() == found.keys(), path
        for name in expected:
            same(f"{path}/{name}", expected[name], found[name])
    elif isinstance(expected, list):
        assert len(expected) == len(found), path
        for i, (one, other) in enumerate(zip(expected, found)):
            same(f"{path}/{i}", one, other)
    else:
        assert expected == found, path


@pytest.fixture
def model(tmp_path):
    return dnn_facts.write_model(str(tmp_path))


@pytest.fixture
def net(model):
    net = dnn.readNetFromCaffe(*model)
    for blob, name in zip(dnn_facts.inputs(), ("data", "info")):
        net.setInput(blob, name)
    return net


@pytest.fixture
def cv2():
    found = pytest.importorskip("cv2", reason="no OpenCV")
    if not found.__version__.startswith("4."):
        pytest.skip(f"OpenCV {found.__version__}, not 4")
    return found


def test_answers_as_opencv_4_was_recorded():
    with open(dnn_facts.FILE, encoding="utf-8") as file:
        recorded = json.load(file)
    recorded.pop("opencv")
    same("", recorded, dnn_facts.facts(dnn))


def test_answers_as_opencv_4(cv2):
    same("", dnn_facts.facts(cv2.dnn), dnn_facts.facts(dnn))


def test_random_images_give_opencvs_blobs(cv2):
    rng = np.random.default_rng(0)
    for trial in range(300):
        height, width = rng.integers(1, 200, 2)
        shape = (height, width, (1, 3, 4)[trial % 3])
        pixels = rng.integers(0, 256, shape, dtype=np.uint8)
        if trial % 4 == 0:
            pixels = pixels.astype(np.float32)
        options = {
            "scalefactor": float(rng.choice([1, 1 / 255, 0.017])),
            "size": tuple(int(side) for side in rng.integers(1, 200, 2)),
            "mean": (104.0, 117.0, 123.0) if trial % 2 else None,
            "swapRB": bool(rng.integers(2)),
            "crop": bool(rng.integers(2)),
        }
        expected = cv2.dnn.blobFromImage(pixels, **options)
        found = dnn.blobFromImage(pixels, **options)
        if pixels.dtype == np.uint8:
            np.testing.assert_array_equal(found, expected, err_msg=str(options))
        else:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * 255)


def test_random_boxes_give_opencvs_indices(cv2):
    rng = np.random.default_rng(0)
    for trial in range(500):
        count = int(rng.integers(0, 50))
        boxes = np.concatenate([rng.random((count, 2)) * 60, rng.random((count, 2)) * 40 - 1], 1)
        scores = rng.random(count).round(1 + trial % 5)
        options = (
            float(rng.random() / 2),
            float(rng.choice([0.3, 0.5, 0.9])),
            float(rng.choice([1, 0.6])),
            int(rng.choice([0, 5])),
        )
        expected = cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), *options)
        np.testing.assert_array_equal(dnn.NMSBoxes(boxes, scores, *options), expected)


def test_a_face_detector_gives_opencvs_faces(cv2):
    pixels = cv2.imread(os.path.join(os.path.dirname(SLIM), "faces.jpg"))
    answers = []
    for module in (cv2.dnn, dnn):
        net = module.readNetFromCaffe(SLIM + ".prototxt", SLIM + ".caffemodel")
        net.setInput(module.blobFromImage(pixels, 1 / 128, (320, 240), (127, 127, 127), True))
        names = net.getUnconnectedOutLayersNames()
        boxes, scores = net.forward(names)
        kept = module.NMSBoxes(boxes[0] * 300, scores[0, :, 1], 0.7, 0.3)
        answers.append((names, boxes, scores, kept))
    assert answers[0][0] == answers[1][0] and len(answers[0][3]) > 0
    for expected, found in zip(answers[0][1:], answers[1][1:]):
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected, atol=1e-5)


SSD = """
layer { name: "data" type: "Input" top: "location" top: "scores" top: "priors"
  input_param { shape { dim: 1 dim: 8 } shape { dim: 1 dim: 6 } shape { dim: 1 dim: 2 dim: 8 } } }
layer { name: "detections" type: "DetectionOutput" top: "detections"
  bottom: "location" bottom: "scores" bottom: "priors"
  detection_output_param { num_classes: 3 share_location: true background_label_id: 0
    keep_top_k: 4 code_type: CORNER clip: true
    confidence_threshold: %s nms_param { nms_threshold: 0.4 } } }
"""


def detections(module, threshold):
    net = module.readNetFromCaffe(bytearray((SSD % threshold).encode()))
    boxes = [0.1, 0.1, 0.4, 0.4, 0.5, 0.5, 1.2, 0.9]
    net.setInput(np.zeros((1, 8), np.float32), "location")
    net.setInput(np.array([[0.1, 0.3, 0.6, 0.1, 0.7, 0.2]], np.float32), "scores")
    net.setInput(np.array([boxes, [0.1] * 8], np.float32).reshape(1, 2, 8), "priors")
    return net.forward()


@pytest.mark.parametrize("threshold, rows", [(0.25, 3), (0.99, 0)])
def test_detections_are_best_first_and_filled_with_zeros(threshold, rows):
    found = detections(dnn, threshold)
    assert found.shape == (1, 1, 4, 7)
    inside, cut = [0.1, 0.1, 0.4, 0.4], [0.5, 0.5, 1, 0.9]
    expected = [[0, 1, 0.7, *cut], [0, 2, 0.6, *inside], [0, 1, 0.3, *inside]][:rows]
    np.testing.assert_allclose(found[0, 0, :rows], np.reshape(expected, (rows, 7)), rtol=1e-6)
    assert not found[0, 0, rows:].any()


def test_detections_are_opencvs(cv2):
    for threshold in (0.25, 0.99):
        np.testing.assert_allclose(
            detections(dnn, threshold), detections(cv2.dnn, threshold), atol=1e-5
        )


def test_a_layer_in_place_gives_its_own_values(net):
    mean, variance, _ = (blob.reshape(1, -1, 1, 1) for blob in net.getLayer("bn1").blobs)
    factor, offset = (blob.reshape(1, -1, 1, 1) for blob in net.getLayer("scale1").blobs)
    convolved, normalized, scaled = net.forward("c1"), net.forward("bn1"), net.forward("scale1")
    expected = (convolved - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(normalized, expected, atol=1e-5)
    np.testing.assert_allclose(scaled, normalized * factor + offset, atol=1e-5)
    np.testing.assert_allclose(net.forward("relu1"), np.maximum(scaled, 0), atol=1e-5)
    together = net.forward(["relu1", "c1", "bn1", "c1"])
    for array, name in zip(together, ("relu1", "c1", "bn1", "c1")):
        np.testing.assert_allclose(array, net.forward(name), atol=1e-6)


def test_other_shapes_give_the_net_other_shapes(net):
    for batch in (1, 5, 2):
        data, info = dnn_facts.inputs(batch)
        net.setInput(data)
        net.setInput(info, "info")
        assert net.forward().shape == (batch, 2, 1, 1)
        assert net.forward("prob").shape == (batch, 9)
    before = net.forward("prob")
    net.setInput(np.zeros((2, 4, 8, 6), np.float32))  # four channels
    with pytest.raises(crema.Error):
        net.forward()
    net.setInput(dnn_facts.inputs()[0])
    np.testing.assert_array_equal(net.forward("prob"), before)


def test_results_and_inputs_are_copies(net):
    data = dnn_facts.inputs()[0]
    net.setInput(data)
    first = net.forward("prob")
    kept = first.copy()
    data[...] = 9
    np.testing.assert_array_equal(net.forward("prob"), kept)
    first[...] = 0
    np.testing.assert_array_equal(net.forward("prob"), kept)


def test_nets_and_weights_are_read_from_memory(model, net):
    prototxt, weights = (open(path, "rb").read() for path in model)
    for text, values in (
        (prototxt, weights),
        (bytearray(prototxt), bytearray(weights)),
        (np.frombuffer(prototxt, np.uint8), np.frombuffer(weights, np.uint8)),
    ):
        for other in (dnn.readNetFromCaffe(text, values), dnn.readNet("caffe", values, text)):
            for blob, name in zip(dnn_facts.inputs(), ("data", "info")):
                other.setInput(blob, name)
            np.testing.assert_array_equal(other.forward("prob"), net.forward("prob"))


def test_weights_come_from_a_file_or_from_the_program(model):
    net = dnn.readNetFromCaffe(model[0])
    with pytest.raises(crema.Error, match="conv1.*has no weights") as caught:
        net.setInputShape("data", (1, 3, 8, 6))
        net.setInputShape("info", (1, 4))
        net.forward("c1")
    assert caught.value.layer == "conv1"
    net.getLayer("c1").blobs = [np.ones((4, 3, 3, 3), np.float32)]
    assert not net.forward("c1").any()
    net.setParam("c1", 1, np.full((4, 1), 7, np.float32))
    assert (net.forward("c1") == 7).all()


def test_a_profile_has_nanoseconds(net):
    net.forward()
    total, layers = net.getPerfProfile()
    assert total > 0 and layers.sum() == total and len(layers) == len(net.getLayerNames())


def test_facts_of_a_net(net):
    weights, blobs = net.getMemoryConsumption([[1, 3, 8, 6], [1, 4]])
    assert weights == 4 * (108 + 4 + 9 + 8 + 10 + 5)
    assert blobs > 4 * (144 + 4)
    assert net.getFLOPS([[1, 3, 8, 6], [1, 4]]) >= 2 * 48 * 108
    assert "conv1" in net.dump()


def test_a_cuda_target_warns_once_and_computes(net, monkeypatch):
    monkeypatch.setattr(dnn.Net, "_warned", False)
    monkeypatch.delenv("CREMA_REQUIRE_GPU", raising=False)
    with pytest.warns(UserWarning, match="CPU"):
        net.setPreferableBackend(dnn.DNN_BACKEND_CUDA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.setPreferableTarget(dnn.DNN_TARGET_CUDA)
        net.setPreferableBackend(dnn.DNN_BACKEND_OPENCV)
        net.setPreferableTarget(dnn.DNN_TARGET_OPENCL)
        net.enableFusion(False)
    assert net.forward("prob").shape == (2, 9)
    monkeypatch.setenv("CREMA_REQUIRE_GPU", "1")
    with pytest.raises(crema.Error, match="CREMA_REQUIRE_GPU"):
        net.setPreferableTarget(dnn.DNN_TARGET_CUDA)


WRONG_NETS = [
    lambda net: net.setInput([1.0]),
    lambda net: net.setInput(None),
    lambda net: net.setInput(np.zeros(2, object)),
    lambda net: net.setInput(np.zeros((1, 3, 8, 6)), "nothing"),
    lambda net: net.setInput(np.zeros((1, 3, 8, 6)), mean=(1, 2, 3, 4, 5)),
    lambda net: net.setInputShape("data", (1, -3)),
    lambda net: net.setInputsNames(["one"]),
    lambda net: net.forward("nothing"),
    lambda net: net.forward("conv1"),
    lambda net: net.forward("_input"),
    lambda net: net.forward(["prob", "nothing"]),
    lambda net: net.forward(3),
    lambda net: net.getLayer(99),
    lambda net: net.getLayer(-1),
    lambda net: net.getParam("c1", 2),
    lambda net: net.getParam("relu1"),
    lambda net: net.setParam("c1", 0, np.zeros(3)),
    lambda net: net.setParam("fc", 0, np.zeros((3, 5))),
    lambda net: net.setParam("c1", 0, "text"),
    lambda net: setattr(net.getLayer(1), "blobs", []),
    lambda net: setattr(net.getLayer(1), "blobs", [np.zeros(1)] * 5),
    lambda net: net.setPreferableBackend(99),
    lambda net: net.setPreferableTarget(-1),
    lambda net: net.getLayersShapes([1, 3, 8, 6]),
    lambda net: net.getFLOPS([[1, 3, 2**40, 2**40], [1, 4]]),
    lambda net: net.dumpToFile("/nothing/there"),
    lambda net: net._net.model([10**6]),
    lambda net: net._net.parameters(10**6),
    lambda net: net._net.set_parameter(1, 9, np.zeros(3, np.float32)),
    lambda net: net.quantize,
    lambda net: dnn.readNetFromONNX,
    lambda net: dnn.NMSBoxesRotated,
    lambda net: dnn.readNetFromCaffe("/nothing"),
    lambda net: dnn.readNetFromCaffe(b"no net"),
    lambda net: dnn.readNetFromCaffe(dnn_facts.NET.encode(), b"no weights"),
    lambda net: dnn.readNetFromCaffe(None),
    lambda net: dnn.readNet("model.onnx"),
    lambda net: dnn.readNet("x", "y", "tensorflow"),
    lambda net: dnn.Net().forward(),
    lambda net: dnn.Net().getLayersShapes([1]),
]


@pytest.mark.parametrize("call", WRONG_NETS)
def test_wrong_calls_are_errors_and_the_net_remains(net, call):
    before = net.forward("prob")
    with pytest.raises((crema.Error, TypeError, ValueError, AttributeError, IndexError, OSError)):
        call(net)
        net.forward("prob")
    for blob, name in zip(dnn_facts.inputs(), ("data", "info")):
        net.setInput(blob, name)
    np.testing.assert_array_equal(net.forward("prob"), before)


@pytest.mark.parametrize(
    "arguments",
    [
        ("text",),
        ([[1, 2], [3, 4]],),
        (None,),
        (np.zeros((0, 4, 3), np.uint8),),
        (np.zeros((4, 4, 2), np.uint8),),
        (np.zeros((2, 4, 4, 3), np.uint8),),
        (np.zeros((4, 4), bool),),
        (np.zeros((4, 4), np.float16),),
        (np.zeros((4, 4), complex),),
        (np.zeros((4, 4), np.uint8), 1.0, (0, 5)),
        (np.zeros((4, 4), np.uint8), 1.0, (-1, 5)),
        (np.zeros((4, 4), np.uint8), 1.0, (5,)),
        (np.zeros((4, 4), np.uint8), 1.0, (5.5, 5)),
        (np.zeros((4, 4), np.uint8), 1.0, (5, 5), (1, 2, 3, 4, 5)),
        (np.zeros((4, 4), np.uint8), 1.0, (5, 5), "mean"),
        (np.zeros((4, 4), np.uint8), 1.0, None, None, False, False, 6),
        (np.zeros((4, 4), np.uint8), 2.0, None, None, False, False, dnn.CV_8U),
    ],
)
def test_wrong_images_are_errors(arguments):
    with pytest.raises((crema.Error, TypeError, ValueError)):
        dnn.blobFromImage(*arguments)


def test_images_differ_in_size_alone():
    for others in ([], [np.zeros((4, 4), np.uint8)], [np.zeros((4, 4, 3), np.float32)]):
        images = [np.zeros((4, 4, 3), np.uint8), *others] if others else []
        with pytest.raises(crema.Error):
            dnn.blobFromImages(images)


def test_images_need_not_be_contiguous():
    pixels = dnn_facts.image(12, 10, 3)
    for view in (pixels[:, ::-1], pixels[::2, ::3], pixels.transpose(1, 0, 2)):
        np.testing.assert_array_equal(
            dnn.blobFromImage(view, size=(5, 5)), dnn.blobFromImage(view.copy(), size=(5, 5))
        )


@pytest.mark.parametrize(
    "resize",
    [
        lambda f: f(np.zeros((2, 2, 3), np.int32), 2, 2, 1, 1),
        lambda f: f(np.zeros((0, 2, 3), np.uint8), 2, 2, 1, 1),
        lambda f: f(np.zeros((2, 2, 3), np.uint8), 0, 2, 1, 1),
        lambda f: f(np.zeros((2, 2, 3), np.uint8), 2**31 - 1, 2**31 - 1, 1, 1),
        lambda f: f(np.zeros((2, 2, 3), np.uint8), 2, 2, float("nan"), 1),
        lambda f: f(np.zeros((2, 2), np.uint8), 2, 2, 1, 1),
    ],
)
def test_impossible_sizes_are_errors(resize):
    with pytest.raises((crema.Error, TypeError)):
        resize(crema._core.resize)
    far = crema._core.resize(np.full((2, 2, 1), 5, np.uint8), 3, 3, 1e300, float("inf"))
    assert far.shape == (3, 3, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ([[0, 0, 1]], [1.0], 0.5, 0.5),
        ([[0, 0, 1, 1]], [1.0, 2.0], 0.5, 0.5),
        ([[0, 0, 1, 1]], [[1.0]], 0.5, 0.5),
        ([[0, 0, 1, 1]], [1.0], -0.5, 0.5),
        ([[0, 0, 1, 1]], [1.0], 0.5, -0.5),
        ([[0, 0, 1, 1]], [1.0], 0.5, 0.5, 0.0),
        ("box", [1.0], 0.5, 0.5),
    ],
)
def test_wrong_boxes_are_errors(arguments):
    with pytest.raises((crema.Error, TypeError, ValueError)):
        dnn.NMSBoxes(*arguments)
    with pytest.raises((crema.Error, TypeError, ValueError)):
        dnn.NMSBoxesBatched(arguments[0], arguments[1], [0], *arguments[2:])


def test_errors_of_python_have_all_fields():
    with pytest.raises(crema.Error) as caught:
        dnn.Net().forward()
    error = caught.value
    assert (error.code, error.file, error.line, error.layer) == (
        "invalid_argument",
        None,
        None,
        None,
    )
    assert error.problems == [error]


def test_threads_may_share_a_net(net):
    expected = net.forward("prob")
    failures = []

    def work():
        for _ in range(30):
            for name in ("prob", "c1", "fc", "pool", "side", "cat"):
                if name == "prob" and not np.array_equal(net.forward(name), expected):
                    failures.append(name)
                net.forward(name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_import_crema_does_not_import_dnn():
    code = "import sys, crema; assert 'crema.dnn' not in sys.modules; crema.dnn.blobFromImage"
    subprocess.run([sys.executable, "-c", code], check=True)
