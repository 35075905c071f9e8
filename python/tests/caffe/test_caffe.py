import numpy as np
import pytest

import caffe
import crema

NET = """
name: "scores"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 dim: 6 dim: 5 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


@pytest.fixture
def files(write_model):
    return write_model(NET)


def test_nets_are_opened_in_every_form(files):
    net, weights = files
    for opened in (
        caffe.Net(net, caffe.TEST),
        caffe.Net(net, 1, weights=weights),
        caffe.Net(net, weights, caffe.TEST),
        caffe.Net(network_file=net, phase=caffe.TRAIN, level=0, stages=["x"]),
        caffe.Net(net, caffe.TEST, 0, None, weights),
    ):
        assert list(opened.params) == ["ip"]
    for wrong in (
        lambda: caffe.Net(net),
        lambda: caffe.Net(net, caffe.TEST, nothing=3),
        lambda: caffe.Net(net, 1, 2, 3, 4, 5),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(RuntimeError, match="Could not open file /nothing"):
        caffe.Net("/nothing", caffe.TEST)


def test_forward_checks_and_returns_blobs(files):
    net = caffe.Net(files[0], caffe.TEST, weights=files[1])
    data = np.random.rand(4, 3, 6, 5).astype(np.float32)
    outputs = net.forward(data=data, blobs=["ip"])
    assert set(outputs) == {"prob", "ip"}
    with pytest.raises(Exception, match="do not match net inputs"):
        net.forward(other=data)
    with pytest.raises(Exception, match="not batch sized"):
        net.forward(data=data[:1])
    with pytest.raises(ValueError):
        net.forward(start="nothing")


def test_forward_all_takes_any_number_of_samples(files):
    net = caffe.Net(files[0], caffe.TEST, weights=files[1])
    data = np.random.rand(10, 3, 6, 5).astype(np.float32)
    all_scores = net.forward_all(data=data)["prob"]
    assert all_scores.shape == (10, 3)
    for i in (0, 5, 9):
        net.blobs["data"].data[0] = data[i]
        np.testing.assert_allclose(net.forward()["prob"][0], all_scores[i], rtol=1e-5)
    scores, gradients = net.forward_backward_all(data=data, prob=np.ones((10, 3), np.float32))
    assert scores["prob"].shape == (10, 3) and gradients["data"].shape == (10, 3, 6, 5)


def test_surgery_on_parameters_takes_effect(files):
    net = caffe.Net(files[0], caffe.TEST, weights=files[1])
    net.params["ip"][0].data[...] = 0
    net.params["ip"][1].data[...] = [0, 0, 9]
    assert (net.forward()["prob"].argmax(axis=1) == 2).all()


def test_the_classifier_takes_images_of_any_size(files):
    classifier = caffe.Classifier(
        *files, image_dims=(8, 9), mean=np.zeros(3), raw_scale=255, channel_swap=(2, 1, 0)
    )
    images = [np.random.rand(20, 30, 3).astype(np.float32) for _ in range(3)]
    for oversample in (True, False):
        scores = classifier.predict(images, oversample=oversample)
        assert scores.shape == (3, 3)
        np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)


def test_the_detector_takes_windows(files, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    path = str(tmp_path / "a.png")
    Image.fromarray(np.random.randint(0, 255, (40, 50, 3), np.uint8)).save(path)
    windows = np.array([[0, 0, 20, 20], [10, 10, 39, 49]])
    found = caffe.Detector(*files, mean=np.zeros(3)).detect_windows([(path, windows)])
    assert [tuple(box["window"]) for box in found] == [(0, 0, 20, 20), (10, 10, 39, 49)]
    assert all(box["prediction"].shape == (3,) and box["filename"] == path for box in found)
    with pytest.raises(ImportError, match="selective_search"):
        caffe.Detector(*files).detect_selective_search([path])


def test_the_detector_surrounds_windows_by_context(write_model):
    files = write_model(NET.replace("dim: 6 dim: 5", "dim: 8 dim: 8"))
    mean = np.array([10.0, 20.0, 30.0], np.float32)
    detector = caffe.Detector(*files, mean=mean, context_pad=2)
    image = np.zeros((40, 50, 3), np.float32)
    crop = detector.crop(image, np.array([0, 0, 19, 19]))
    assert crop.shape == (8, 8, 3)
    assert crop[0, 0].tolist() == [10, 20, 30]  # outside of the image: the mean
    assert crop[4, 4].tolist() == [0, 0, 0]


def test_memory_data_takes_arrays():
    text = """
    layer { name: "data" type: "MemoryData" top: "data" top: "label"
      memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }
    layer { name: "sum" type: "Reduction" bottom: "data" top: "sum" reduction_param { axis: 1 } }
    """
    net = caffe.Net._of(crema.Net.parse(text, 1))
    data = np.arange(12, dtype=np.float32).reshape(4, 1, 1, 3)
    net.set_input_arrays(data, np.zeros(4, np.float32))
    assert net.forward()["sum"].tolist() == [3, 12]
    assert net.forward()["sum"].tolist() == [21, 30]
    for wrong, message in (
        (data.astype(float), "must be float32"),
        (data[:, :, :, :2].copy(), "wrong width"),
        (data[:3].copy(), "same first dimension"),
    ):
        with pytest.raises(RuntimeError, match=message):
            net.set_input_arrays(wrong, np.zeros(4, np.float32))


def test_modes_and_lists(monkeypatch):
    caffe.set_mode_cpu()
    caffe.set_device(0)
    caffe.set_random_seed(3)
    monkeypatch.setattr(caffe._caffe, "_warned_of_gpu", False)
    with pytest.warns(UserWarning, match="CPU only"):
        caffe.set_mode_gpu()
    caffe.set_mode_gpu()
    monkeypatch.setenv("CREMA_REQUIRE_GPU", "1")
    with pytest.raises(RuntimeError, match="CREMA_REQUIRE_GPU"):
        caffe.set_mode_gpu()
    assert "Convolution" in caffe.layer_type_list()
    assert (caffe.TRAIN, caffe.TEST) == (0, 1)


def test_solvers_train(tmp_path):
    net = tmp_path / "train.prototxt"
    net.write_text(
        """layer { name: "data" type: "DummyData" top: "data" top: "label"
        dummy_data_param { shape { dim: 8 dim: 5 } shape { dim: 8 }
          data_filler { type: "gaussian" } data_filler { type: "constant" } } }
        layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }"""
    )
    path = tmp_path / "solver.prototxt"
    path.write_text(
        f'net: "{net}" test_iter: 1 test_interval: 100 base_lr: 0.1 lr_policy: "step" gamma: 0.5 '
        f'stepsize: 5 max_iter: 10 snapshot_prefix: "{tmp_path}/m" snapshot_after_train: false'
    )
    solver = caffe.SGDSolver(str(path))
    calls = []
    solver.add_callback(lambda: calls.append("start"), lambda: calls.append("ready"))
    assert solver.lr == pytest.approx(0.1)
    solver.step(5)
    assert solver.iter == 5 and solver.lr == pytest.approx(0.05)
    assert calls == ["start", "ready"] * 5
    first = float(solver.net.blobs["loss"].data)
    solver.solve()
    assert float(solver.net.blobs["loss"].data) < first
    assert solver.param.max_iter == 10
    other = caffe.Net(str(net), caffe.TRAIN)
    solver.share_weights(other)
    assert (other.params["ip"][0].data == solver.net.params["ip"][0].data).all()
    for name in ("Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"):
        assert getattr(caffe, name + "Solver")


def test_drawing(tmp_path, files):
    pytest.importorskip("pydot")
    from google.protobuf import text_format

    import caffe.draw
    from caffe.proto import caffe_pb2

    net = text_format.Merge(open(files[0]).read(), caffe_pb2.NetParameter())
    graph = caffe.draw.get_pydot_graph(net, "LR")
    assert len(graph.get_nodes()) == 6 and len(graph.get_edges()) == 5
