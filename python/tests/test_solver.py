import io
import os
import resource
import signal
import sys
import threading
import types

import numpy as np
import pytest

import crema


def test_trains_with_callbacks(solver_file):
    solver = crema.Solver.open(solver_file)
    seen = {"start": 0, "gradients": 0, "iteration": [], "test": []}
    solver.add_callback("start", lambda: seen.update(start=seen["start"] + 1))
    solver.add_callback("gradients", lambda: seen.update(gradients=seen["gradients"] + 1))
    solver.add_callback("iteration", seen["iteration"].append)
    solver.add_callback("test", seen["test"].append)
    solver.solve()
    assert solver.iteration == 10
    assert (seen["start"], seen["gradients"], len(seen["iteration"])) == (10, 10, 10)
    assert [event["iteration"] for event in seen["test"]] == [0, 5, 10]
    assert seen["iteration"][-1]["loss"] < seen["iteration"][0]["loss"]
    assert "loss" in seen["test"][0]["outputs"]


def test_step_update_and_blobs(solver_file):
    solver = crema.Solver.open(solver_file)
    solver.step(3)
    assert solver.iteration == 3
    weights = solver.net.layer_list()[1].blobs[0]
    weights.data[...] = 0
    weights.diff[...] = 1
    solver.net.layer_list()[1].blobs[1].diff[...] = 0
    solver.update()
    np.testing.assert_allclose(weights.data, -0.1, rtol=1e-6)
    assert solver.iteration == 3
    assert (solver.test_nets[0].layer_list()[1].blobs[0].data == weights.data).all()


def test_snapshots_are_restored(solver_file, tmp_path):
    solver = crema.Solver.open(solver_file)
    files = []
    solver.add_callback("snapshot", files.append)
    solver.step(4)
    solver.snapshot()
    assert os.path.exists(files[0]["model"])
    other = crema.Solver.open(solver_file)
    other.restore(files[0]["state"])
    assert other.iteration == 4
    np.testing.assert_array_equal(
        other.net.layer_list()[1].blobs[0].data, solver.net.layer_list()[1].blobs[0].data
    )


def test_exceptions_of_callbacks_end_the_call_and_not_the_process(solver_file):
    solver = crema.Solver.open(solver_file)

    def fail(event):
        raise KeyError("mine")

    solver.add_callback("iteration", fail)
    with pytest.raises(KeyError, match="mine"):
        solver.solve()


def test_a_callback_may_read_blobs_but_not_train(solver_file):
    solver = crema.Solver.open(solver_file)
    errors = []

    def look():
        assert dict(zip(solver.net.blob_names, solver.net.blob_list()))["ip"].data.shape == (8, 3)
        with pytest.raises(crema.Error) as caught:
            solver.step(1)
        errors.append(caught.value.code)

    solver.add_callback("start", look)
    solver.step(1)
    assert errors == ["invalid_argument"]


def test_ctrl_c_stops_after_the_iteration(tmp_path, solver_file):
    text = open(solver_file).read().replace("max_iter: 10", "max_iter: 100000000")
    text = text.replace("test_interval: 5", "test_interval: 100000000").replace("display: 2", "")
    solver = crema.Solver.parse(text)
    # A program that a shell runs in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            solver.solve()
    finally:
        signal.signal(signal.SIGINT, before)
    assert 0 < solver.iteration < 100000000


@pytest.mark.parametrize("text", ["", "net: 3", 'net: "/nothing"', "max_iter: -1"])
def test_wrong_solvers_are_errors(text):
    with pytest.raises(crema.Error):
        crema.Solver.parse(text)


def test_wrong_calls_are_errors(solver_file):
    solver = crema.Solver.open(solver_file)
    with pytest.raises(crema.Error):
        solver.restore("/nothing")
    with pytest.raises(crema.Error):
        solver.test(7)
    with pytest.raises(crema.Error):
        solver.add_callback("never", print)
    with pytest.raises(TypeError):
        solver.step("x")


def test_metrics_are_arrays(solver_file):
    solver = crema.Solver.open(solver_file)
    assert solver.metrics == {}
    losses, tests = [], []
    solver.add_callback("iteration", lambda event: losses.append(event["loss"]))
    solver.add_callback("test", lambda event: tests.append(event["outputs"]["loss"][0]))
    solver.solve()
    metrics = solver.metrics
    loss = metrics["train/loss"]
    assert loss.iterations.dtype == np.int64 and loss.values.dtype == np.float64
    np.testing.assert_array_equal(loss.iterations, np.arange(10))
    np.testing.assert_array_equal(loss.values, losses)
    np.testing.assert_allclose(metrics["train/lr"].values, [0.1] * 10)
    np.testing.assert_array_equal(metrics["test_0/loss"].iterations, [0, 5, 10])
    np.testing.assert_array_equal(metrics["test_0/loss"].values, tests)
    # display: 2
    np.testing.assert_array_equal(metrics["train_output/loss"].iterations, [0, 2, 4, 6, 8])
    loss.values[:] = 0  # a copy
    np.testing.assert_array_equal(solver.metrics["train/loss"].values, losses)


def test_metrics_of_a_restored_run_replace_those_after_the_snapshot(solver_file):
    solver = crema.Solver.open(solver_file)
    files = []
    solver.add_callback("snapshot", files.append)
    solver.step(4)
    solver.snapshot()
    solver.step(4)
    solver.restore(files[0]["state"])
    solver.step(2)
    np.testing.assert_array_equal(solver.metrics["train/loss"].iterations, np.arange(6))
    np.testing.assert_array_equal(solver.metrics["test_0/loss"].iterations, [0, 5])


def test_metrics_may_be_read_while_another_thread_trains(solver_file):
    solver = crema.Solver.parse(
        open(solver_file).read().replace("max_iter: 10", "max_iter: 3000").replace("display: 2", "")
    )
    failures = []

    def read():
        while solver.iteration < 3000:
            for name, curve in solver.metrics.items():
                if len(curve.iterations) != len(curve.values):
                    failures.append(name)

    threads = [threading.Thread(target=target) for target in (solver.solve, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(solver.metrics["train/loss"].values) == 3000


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_line_on_a_terminal(solver_file, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "IPython", None)
    crema.Solver.open(solver_file).solve(progress=True)
    line = sys.stderr.getvalue().rsplit("\r", 1)[1]
    assert line.startswith("iter 10/10  loss ") and line.endswith("\n")
    assert "lr 0.1" in line and "test_0/loss" in line


def test_progress_needs_a_terminal_or_a_notebook(solver_file, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    crema.Solver.open(solver_file).solve(progress=True)
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)
    crema.Solver.open(solver_file).solve(progress=True)


def test_progress_is_a_bar_in_a_notebook(solver_file, monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=shown.append)
    display = types.SimpleNamespace(HTML=str, display=lambda value, display_id: handle)
    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    crema.Solver.open(solver_file).solve(progress=True)
    assert '<progress value="1.0000" max="1"' in shown[-1] and "iter 10/10" in shown[-1]


def test_a_progress_bar_that_fails_ends_the_call_and_not_the_process(solver_file, monkeypatch):
    class Broken(Terminal):
        def write(self, text):
            raise OSError("no space")

    monkeypatch.setattr(sys, "stderr", Broken())
    monkeypatch.setitem(sys.modules, "IPython", None)
    solver = crema.Solver.open(solver_file)
    with pytest.raises(OSError, match="no space"):
        solver.solve(progress=True)
    solver.step(1)


def test_arrays_of_memory_data_layers_live_as_long_as_they_are_read():
    layer = """layer { name: "%s" type: "MemoryData" top: "%s" top: "%s_label"
      memory_data_param { batch_size: 2 channels: 1 height: 600 width: 500 } }"""
    net = "".join(layer % (name, name, name) for name in "ab")
    solver = crema.Solver.parse('base_lr: 1 lr_policy: "fixed" max_iter: 5 net_param { %s }' % net)
    for name, value in (("a", 1), ("b", 2)):  # by a temporary net, in temporary arrays
        solver.net.set_arrays(
            name, np.full((2, 1, 600, 500), value, np.float32), np.full(2, value, np.float32)
        )
    np.zeros((4, 600, 500), np.float32)
    solver.net.forward(0, 1)
    blobs = dict(zip(solver.net.blob_names, solver.net.blob_list()))
    assert (blobs["a"].data == 1).all() and (blobs["b"].data == 2).all()


def test_the_net_of_a_solver_takes_larger_inputs(tmp_path):
    text = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 5 snapshot_after_train: false net_param { '
    text += """layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
      layer { name: "y" type: "TanH" bottom: "x" top: "y" loss_weight: 1 } }"""
    net = crema.Solver.parse(text).net
    x = net.blobs["x"]
    for rows in (1, 7, 3, 9):
        kept = x.data
        x.reshape(rows, 2)
        x.data[...] = np.random.rand(rows, 2)
        loss = net.forward()
        np.testing.assert_allclose(net.blobs["y"].data, np.tanh(x.data), rtol=1e-6)
        assert loss == pytest.approx(net.blobs["y"].data.sum(), rel=1e-5)
        assert np.isfinite(kept).all()


def test_callbacks_that_add_callbacks(solver_file):
    solver = crema.Solver.open(solver_file)
    seen = []

    def add(event=None):
        for _ in range(100):  # moves the list
            for name in ("iteration", "test"):
                solver.add_callback(name, seen.append)

    solver.add_callback("iteration", add)
    solver.add_callback("test", add)
    solver.add_callback("iteration", seen.append)
    solver.step(1)
    assert len(seen) == 101 and solver.iteration == 1


@pytest.fixture
def default_sigint():
    # A program that a shell runs in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("event", ["start", "gradients", "iteration", "test"])
def test_ctrl_c_in_a_callback_stops_after_the_iteration_with_a_snapshot(
    solver_file, event, default_sigint
):
    solver = crema.Solver.open(solver_file)
    ended, files = [], []

    def interrupt(*event):
        if solver.iteration == 5 and not ended:
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(1000))  # where Python would raise KeyboardInterrupt
            ended.append(True)

    solver.add_callback(event, interrupt)
    solver.add_callback("snapshot", files.append)
    with pytest.raises(KeyboardInterrupt):
        solver.solve()
    assert ended == [True]
    assert solver.iteration == 6 or (event == "test" and solver.iteration == 5)
    assert files[0]["state"].endswith(f"iter_{solver.iteration}.solverstate")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    solver.solve()
    assert solver.iteration == 10


def test_the_second_ctrl_c_ends_the_callback(solver_file, default_sigint):
    solver = crema.Solver.open(solver_file)
    ended = []

    def interrupt():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(1000))
        ended.append(True)

    solver.add_callback("start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        solver.solve()
    assert not ended and solver.iteration == 0


@pytest.mark.parametrize("begins", ["during the inner run", "before the inner run"])
def test_one_ctrl_c_stops_a_run_and_the_one_that_its_callback_makes(
    solver_file, begins, default_sigint
):
    def interrupt(*event):
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))  # where Python would raise KeyboardInterrupt

    outer, inner, files = crema.Solver.open(solver_file), crema.Solver.open(solver_file), []
    inner.add_callback("iteration", lambda e: e["iteration"] == 2 and interrupt())

    def train_inner(event):
        if event["iteration"] == 1:
            if begins == "before the inner run":
                interrupt()
            inner.solve()

    outer.add_callback("iteration", train_inner)
    outer.add_callback("snapshot", files.append)
    with pytest.raises(KeyboardInterrupt):
        outer.solve()
    assert outer.iteration == 2 and len(files) == 1
    assert inner.iteration == (3 if begins == "during the inner run" else 0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    outer.solve()
    assert outer.iteration == 10


def test_steps_of_an_inner_run_that_are_complete_do_not_break_the_outer_iteration(
    solver_file, default_sigint
):
    outer, inner, steps = crema.Solver.open(solver_file), crema.Solver.open(solver_file), []
    inner.add_callback("start", lambda: inner.iteration == 2 and os.kill(os.getpid(), signal.SIGINT))

    def step():
        inner.step(1)
        steps.append(inner.iteration)

    outer.add_callback("start", step)
    with pytest.raises(KeyboardInterrupt):
        outer.solve()
    assert outer.iteration == 3 and steps == [1, 2, 3]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_iteration_whose_callback_raises_counts(solver_file, error):
    solver, whole = crema.Solver.open(solver_file), crema.Solver.open(solver_file)
    raised = []

    def fail(event):
        if event["iteration"] == 3 and not raised:
            raised.append(True)
            raise error("mine")

    solver.add_callback("iteration", fail)
    with pytest.raises(error, match="mine"):
        solver.step(10)
    assert solver.iteration == 4
    solver.step(6)
    whole.step(10)
    np.testing.assert_array_equal(
        solver.metrics["train/loss"].values, whole.metrics["train/loss"].values
    )
    for blob, expected in zip(
        solver.net.layer_list()[1].blobs, whole.net.layer_list()[1].blobs, strict=True
    ):
        np.testing.assert_array_equal(blob.data, expected.data)


def weights_of(net):
    return [blob.data.copy() for layer in net.layer_list() for blob in layer.blobs]


@pytest.mark.parametrize("hdf5", [False, True])
@pytest.mark.parametrize("which", [lambda s: s.net, lambda s: s.test_nets[0]])
def test_weights_are_loaded_into_nets_of_a_solver(solver_file, tmp_path, which, hdf5):
    other = crema.Solver.open(solver_file, seed=7)
    path = tmp_path / ("w.h5" if hdf5 else "w.caffemodel")
    other.net.save(path, hdf5=hdf5)
    solver = crema.Solver.open(solver_file)
    which(solver).load(path)
    for net in (solver.net, solver.test_nets[0]):
        for blob, expected in zip(weights_of(net), weights_of(other.net), strict=True):
            np.testing.assert_array_equal(blob, expected)
    solver.step(1)
    other.step(1)
    for blob, expected in zip(weights_of(solver.net), weights_of(other.net), strict=True):
        assert blob.shape == expected.shape and np.isfinite(blob).all()


def test_a_net_of_a_solver_shares_its_weights_with_another(solver_file, tmp_path):
    solver = crema.Solver.open(solver_file)
    net = crema.Net.open(tmp_path / "train.prototxt", "TEST", seed=9)
    expected = weights_of(net)
    solver.net.share_with(net)
    for blob, value in zip(weights_of(solver.test_nets[0]), expected, strict=True):
        np.testing.assert_array_equal(blob, value)
    solver.step(2)
    assert (weights_of(net)[0] != expected[0]).any()  # they are one
    np.testing.assert_array_equal(weights_of(net)[0], weights_of(solver.net)[0])
    solver.test_nets[0].share_with(solver.net)
    with pytest.raises(crema.Error, match="both nets belong to solvers"):
        solver.net.share_with(crema.Solver.open(solver_file).net)


def test_arguments_are_checked(solver_file, tmp_path):
    solver = crema.Solver.open(solver_file)
    with pytest.raises(ValueError, match="0 or more"):
        solver.step(-1)
    with pytest.raises(TypeError, match="a callback is a function, not 3"):
        solver.add_callback("start", 3)
    solver.net.save(tmp_path / "w.caffemodel")
    solver.load(str(tmp_path / "w.caffemodel"))
    solver.load([tmp_path / "w.caffemodel"])
    solver.step(1)
    solver.snapshot()
    solver.restore(tmp_path / "run_iter_1.solverstate")


def test_a_blob_without_memory_to_grow_keeps_its_shape():
    solver = crema.Solver.parse(
        """base_lr: 0.1 lr_policy: "fixed" max_iter: 9 snapshot_after_train: false net_param {
        layer { name: "data" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
        layer { name: "ip" type: "InnerProduct" bottom: "x" top: "loss" loss_weight: 1
          inner_product_param { num_output: 1 weight_filler { type: "xavier" } } } }""")
    blob = solver.net.blobs["x"]
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), before[1]))
    try:
        with pytest.raises((crema.Error, MemoryError)):
            blob.reshape(1 << 28, 3)
            solver.net.forward()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert blob.data.shape == (2, 3)
    solver.net.forward()
