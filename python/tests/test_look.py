"""check, summary, report and plot, and what objects show."""

import json
import os
import xml.etree.ElementTree

import numpy as np
import pytest

import crema
from conftest import NET, TRAIN_NET
from crema import _command

needs_commands = pytest.mark.skipif(
    not os.path.exists(_command._FRONT), reason="this package has no commands"
)


def test_a_correct_solver_has_no_problems(solver_file):
    assert crema.check(solver_file) == []


def test_problems_have_their_places(tmp_path, solver_file):
    net = tmp_path / "train.prototxt"
    text = net.read_text().replace("num_output: 3", "num_output: 0")
    net.write_text(text)
    problems = crema.check(solver_file)
    assert [(p.layer, p.file, p.code) for p in problems] == [("ip", str(net), "invalid_argument")]
    assert all(isinstance(p, crema.Error) for p in problems)
    line = text[: text.index("num_output")].count("\n") + 1
    assert problems[0].line == line and problems[0].column > 0
    assert "num_output" in str(problems[0])


def test_all_problems_are_found_at_once(tmp_path, solver_file):
    net = tmp_path / "train.prototxt"
    net.write_text(net.read_text().replace('bottom: "label"', 'bottom: "lable"'))
    solver = tmp_path / "solver.prototxt"
    solver.write_text(solver.read_text().replace("base_lr: 0.1", "base_lr: -1"))
    texts = [str(problem) for problem in crema.check(solver)]
    assert len(texts) == 2
    assert any("lable" in text for text in texts) and any("base_lr" in text for text in texts)


@pytest.mark.parametrize(
    "text, words",
    [
        ("layer {", ""),
        ('layer { name: "x" type: "Relu" top: "a" }', "ReLU"),
        ('layer { name: "a" type: "ReLU" bottom: "nobody" top: "b" }', "nobody"),
    ],
)
def test_nets_are_checked_too(tmp_path, text, words):
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    (problem,) = crema.check(path)
    assert words in str(problem)
    assert problem.file == str(path)


def test_a_net_is_checked_in_the_phases_that_it_names(tmp_path):
    def data(phase):
        return (
            f'layer {{ name: "d" type: "DummyData" top: "{phase}" include {{ phase: {phase} }} '
            "dummy_data_param { shape { dim: 1 dim: 2 } } } "
        )

    path = tmp_path / "net.prototxt"
    use = 'layer { name: "r" type: "ReLU" bottom: "TRAIN" top: "r" } '
    path.write_text(data("TRAIN") + use)
    assert crema.check(path) == []
    path.write_text(data("TRAIN") + data("TEST") + use)
    assert len(crema.check(path)) == 1


def test_missing_data_do_not_hide_later_problems(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(
        'layer { name: "d" type: "Data" top: "d" top: "l" transform_param { crop_size: 8 } '
        'data_param { source: "/nothing" batch_size: 2 backend: LMDB } } '
        'layer { name: "c" type: "Convolution" bottom: "d" top: "c" '
        "convolution_param { num_output: 1 kernel_size: 9 } }"
    )
    assert {p.layer for p in crema.check(path)} == {"d", "c"}


class Spec:
    """Has to_proto, as a NetSpec has."""

    def __init__(self, text):
        self.text = text

    def to_proto(self):
        return self.text


def test_a_net_spec_is_checked_and_counted():
    n = crema.NetSpec()
    n.x = crema.layers.Input(shape={"dim": [1, 4]})
    n.y = crema.layers.InnerProduct(n.x, num_output=3, weight_filler={"type": "xavier"})
    assert crema.check(n) == []
    assert crema.summary(n).layers[1]["macs"] == 12
    n.z = crema.layers.InnerProduct(n.y)
    (problem,) = crema.check(n)
    assert problem.layer == "z"


def test_specs_are_checked(write_model):
    assert crema.check(Spec(NET)) == []
    (problem,) = crema.check(Spec(NET.replace('"Softmax"', '"Sofmax"')))
    assert problem.file == "<text>" and "Softmax" in str(problem)
    assert crema.check(crema.Net.parse(NET, 1)) == []


@pytest.mark.parametrize("source", [None, 3, b"net", ["a"]])
def test_what_is_no_net_is_a_type_error(source):
    with pytest.raises(TypeError, match="a path"):
        crema.check(source)
    with pytest.raises(TypeError, match="a path"):
        crema.summary(source)


def test_check_of_a_missing_file_is_a_problem(tmp_path):
    (problem,) = crema.check(tmp_path / "none.prototxt")
    assert problem.code == "not_found"
    with pytest.raises(ValueError):
        crema.check(tmp_path / "none.prototxt", samples=-1)


def test_summary_counts(write_model):
    net, weights = write_model(NET)
    summary = crema.summary(net)
    assert [layer["name"] for layer in summary.layers] == ["data", "ip", "relu", "prob"]
    ip = summary.layers[1]
    assert (ip["type"], ip["outputs"], ip["parameters"], ip["macs"]) == (
        "InnerProduct", [[2, 4]], 16, 24,
    )
    assert summary.totals["parameters"] == 16
    assert summary.totals["training_peak_bytes"] > 0  # force_backward
    assert "learned parameters: 16" in str(summary)
    assert "4 layers, 16 parameters, 24 MACs" in repr(summary)
    deploy = crema.summary(Spec(NET.replace("force_backward: true", "")))
    assert deploy.totals["training_peak_bytes"] is None
    assert crema.summary(net, batch=10).layers[1]["outputs"] == [[10, 4]]
    assert crema.summary(net, shapes={"data": (7, 3)}).layers[1]["outputs"] == [[7, 4]]
    model = crema.Model.from_caffe(net, weights)
    for source in (model, crema.Net.parse(NET, 1), Spec(NET)):
        assert crema.summary(source).layers == summary.layers


def test_summary_of_a_training_net_has_its_phase():
    net = crema.Net.parse(TRAIN_NET, 0)
    assert net.phase == 0
    assert crema.summary(net).totals["training_peak_bytes"] > 0


@needs_commands
def test_summary_is_that_of_the_command(write_model):
    net, _ = write_model(NET)
    summary = crema.summary(net)
    text = _command.run("summary", "--model", net).splitlines(True)
    assert text[-1].startswith("the process itself")
    assert str(summary) == "".join(text[:-1])
    values = json.loads(_command.run("summary", "--model", net, "--json"))
    del values["process_bytes"]
    assert {"layers": summary.layers, **summary.totals} == values


def test_summary_errors(tmp_path):
    with pytest.raises(crema.Error) as caught:
        crema.summary(tmp_path / "none.prototxt")
    assert caught.value.code == "not_found"
    with pytest.raises(crema.Error, match="Softmax"):
        crema.summary(Spec(NET.replace('"Softmax"', '"Sofmax"')))
    for wrong in ({"batch": -1}, {"threads": 0}):
        with pytest.raises(ValueError):
            crema.summary(Spec(NET), **wrong)
    for shapes in ({"data": [-1, 3]}, {"data": [2**62, 2**62]}, {"data": [1] * 99}):
        with pytest.raises(crema.Error):
            crema.summary(Spec(NET), shapes=shapes)


def test_drawings_show_each_layer_and_shape():
    text = NET.replace('name: "prob" type', 'name: "<&>" type')
    text += 'layer { name: "sum" type: "Eltwise" bottom: "prob" bottom: "data2" top: "sum" }'
    text += 'layer { name: "d" type: "Input" top: "data2" input_param { shape { dim: 2 dim: 4 } } }'
    # Two ways to the sum, of which one is longer.
    parts = text.split("layer {")
    text = "layer {".join([parts[0], parts[-1], *parts[1:-1]])
    root = xml.etree.ElementTree.fromstring(crema.summary(Spec(text)).svg)
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    for wanted in ("data", "ip", "+ relu (ReLU)", "<&>", "sum", "2x3"):
        assert wanted in texts
    boxes = [node for node in root.iter() if node.tag.endswith("rect")]
    assert len(boxes) == 6  # relu is in the box of ip, and the output has one
    places = [tuple(float(box.get(k)) for k in ("x", "y", "width", "height")) for box in boxes]
    for i, (x, y, width, height) in enumerate(places):
        for other_x, other_y, other_width, other_height in places[:i]:
            apart = (
                x >= other_x + other_width or other_x >= x + width
                or y >= other_y + other_height or other_y >= y + height
            )
            assert apart
    arrows = [node for node in root.iter() if node.get("marker-end")]
    assert len(arrows) == 5


def test_an_empty_net_can_be_drawn():
    from crema import _draw

    xml.etree.ElementTree.fromstring(_draw.svg("digraph net {\n}\n"))


def test_notebooks_show_a_table_and_the_drawing():
    shown = crema.summary(Spec(NET.replace('name: "ip"', 'name: "<b>"')))._repr_html_()
    assert "<td>&lt;b&gt;</td>" in shown and "<b>" not in shown
    assert "<svg" in shown and "learned parameters" in shown


def test_nets_show_what_they_are_and_their_memory():
    net = crema.Net.parse(NET, 1)
    assert "TEST, 4 layers, 16 parameters" in repr(net)
    assert "every named blob is kept" in net.memory
    assert net.memory in repr(net)
    shown = net._repr_html_()
    assert "<td>InnerProduct</td>" in shown and net.memory in shown


def test_nets_share_memory_if_asked(tmp_path):
    layers = "".join(
        f'layer {{ name: "p{i}" type: "Power" bottom: "b{i}" top: "b{i + 1}" '
        "power_param { shift: 1 } }"
        for i in range(6)
    )
    path = tmp_path / "net.prototxt"
    path.write_text(
        'layer { name: "in" type: "Input" top: "b0" input_param { shape { dim: 1000 } } }' + layers
    )
    kept = crema.Net.open(path, 1)
    shared = crema.Net.open(path, 1, keep_blobs=False)
    assert "every named blob is kept" not in shared.memory
    assert kept.blob_names == [f"b{i}" for i in range(7)]
    assert set(shared.blob_names) == {"b0", "b6"}
    last = len(shared.layer_names) - 1
    for _ in range(2):
        blobs = dict(zip(shared.blob_names, shared.blob_list()))
        blobs["b0"].data[...] = 2
        shared.forward(0, last)
        np.testing.assert_array_equal(blobs["b6"].data, np.full(1000, 8, np.float32))
        blobs["b0"].reshape(500, 2)
        shared.forward(0, last)
        assert blobs["b6"].shape == (500, 2)
        blobs["b0"].reshape(1000)
    with pytest.raises(crema.Error, match="as a whole"):
        shared.forward(0, 0)
    with pytest.raises(crema.Error, match="no backward pass"):
        shared.backward(last, 0)


def test_solvers_show_what_they_are(solver_file):
    solver = crema.Solver.open(solver_file)
    assert repr(solver) == "<crema.Solver 'train': SGD, iteration 0 of 10, rate 0.1>"
    solver.step(3)
    assert "iteration 3 of 10" in repr(solver)
    assert "every named blob is kept" in solver.net.memory


@pytest.fixture
def run_folder(tmp_path):
    """A folder as `crema train --run` makes it; test_report_reads_a_real_run uses a real one."""
    folder = tmp_path / "a run"
    folder.mkdir()
    (folder / "metrics.csv").write_text(
        "kind,iteration,epoch,time,loss,smoothed_loss,lr,samples_per_second,wait_share,net,blob,"
        "element,value\n"
        "test,0,0,1,,,,,,0,accuracy,0,0.1\n"
        "train,0,0,1,2.5,2.5,0.01,9,0,,,,\n"
        "train,2,0,2,1.5,2.0,0.01,9,0,,,,\n"
        "output,2,0,2,,,,,,,parts,0,3\n"
        "output,2,0,2,,,,,,,parts,1,4\n"
        "test,2,0,3,,,,,,0,,0,0.5\n"
        "train,4,0,3,,1.8,0.0"
    )
    return folder


@needs_commands
def test_report_of_a_run(run_folder, tmp_path):
    path = tmp_path / "page.html"
    report = crema.report(run_folder, path)
    assert report.html.startswith("<!doctype html>") and "a run" in report.html
    assert path.read_text() == report.html
    report.save(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == report.html
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown
    assert "Two" in crema.report([run_folder, run_folder], title="Two").html
    with pytest.raises(crema.Error, match="is not a folder") as caught:
        crema.report(tmp_path / "none")
    assert caught.value.code == "invalid_argument"
    with pytest.raises(crema.Error, match="name at least one"):
        crema.report([])


@needs_commands
def test_report_and_plot_read_a_real_run(solver_file, tmp_path):
    folder = tmp_path / "real"
    _command.run("train", f"--solver={solver_file}", f"--run={folder}", "--quiet")
    assert "real" in crema.report(folder).html
    solver = crema.Solver.open(solver_file)
    solver.solve()
    from crema import _plot

    mine = solver.metrics
    for name, (iterations, values) in _plot._metrics_of(str(folder)).items():
        assert set(iterations) <= set(mine[name].iterations)
        at = np.searchsorted(mine[name].iterations, iterations)
        np.testing.assert_allclose(values, mine[name].values[at], rtol=1e-5)


def test_plot_draws_runs_and_solvers(run_folder, solver_file):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = crema.plot(run_folder)
    drawn = {line.get_label(): line.get_xydata().tolist() for a in axes for line in a.get_lines()}
    assert drawn == {
        "test_0/accuracy": [[0, 0.1]],
        "train/loss": [[0, 2.5], [2, 1.5]],
        "train/lr": [[0, 0.01], [2, 0.01]],
        "train_output/parts/0": [[2, 3]],
        "train_output/parts/1": [[2, 4]],
        "test_0/total_loss": [[2, 0.5]],
    }
    assert [a.get_ylabel() for a in axes] == ["accuracy", "loss", "lr", "parts", "total_loss"]
    solver = crema.Solver.open(solver_file)
    with pytest.raises(ValueError, match="no metrics yet"):
        crema.plot(solver)
    solver.step(3)
    (place,) = crema.plot(solver, ["train/loss"])
    assert len(place.get_lines()[0].get_xdata()) == 3
    with pytest.raises(KeyError, match="no metric 'loss'.*train/loss"):
        crema.plot(solver, ["loss"])
    with pytest.raises(crema.Error, match="holds no metrics"):
        crema.plot("/")
    matplotlib.pyplot.close("all")


def test_plot_without_matplotlib_says_what_to_install(run_folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        crema.plot(run_folder)


def test_a_solver_is_checked(solver_file):
    solver = crema.Solver.open(solver_file)
    assert crema.check(solver) == []
    text = open(solver_file).read().replace("test_iter: 2 test_interval: 5", "")
    assert crema.check(crema.Solver.parse(text)) == []


def test_phases_and_shapes_of_a_summary():
    for phase in (1, "TEST"):
        assert crema.summary(crema.Net.parse(NET, 0), phase=phase).totals["parameters"] == 16
    for wrong in ("test", 2, -1):
        with pytest.raises(ValueError, match="expected \"TRAIN\""):
            crema.summary(crema.Net.parse(NET, 0), phase=wrong)
    for wrong in ({"data": "a"}, 3, {"data": 3}, {"data": (2.5,)}):
        with pytest.raises(TypeError, match="expected a dict of shapes"):
            crema.summary(crema.Net.parse(NET, 0), shapes=wrong)


@pytest.mark.parametrize(
    "of, words",
    [
        ("FailingSetup", "setup of mine"),
        ("Failing", "forward of mine"),
        ("TooLarge", "let the first call of its reshape give the largest shape"),
        ("NoLayer", "derive it from caffe.Layer"),
    ],
)
def test_check_lists_what_layers_raise(tmp_path, of, words):
    import layers_for_tests as layers

    text = layers.INNER.replace("MODULE", "layers_for_tests").replace("PARAM", "")
    text = text.replace("CLASS", of).replace('"Input"', '"DummyData"').replace(
        "input_param { shape", "dummy_data_param { shape"
    )
    text += 'layer { name: "r" type: "Reduction" bottom: "y" top: "r" loss_weight: 1 }'
    path = tmp_path / "solver.prototxt"
    path.write_text('base_lr: 1 lr_policy: "fixed" max_iter: 9 net_param { %s }' % text)
    problems = crema.check(path)
    assert any(words in str(problem) and problem.layer == "py" for problem in problems)
