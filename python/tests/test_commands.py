"""Layers in Python in the nets of commands, which load the interpreter."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import crema

PACKAGE = os.path.dirname(crema.__file__)
FOLDERS = [os.path.join(PACKAGE, "bin"), os.path.join(PACKAGE, "..", "..", "bin")]
COMMANDS = next((f for f in FOLDERS if os.path.exists(os.path.join(f, "train"))), None)
SHARED = os.path.basename(crema._core.library_path()).startswith("libcrema.so")
pytestmark = [
    pytest.mark.skipif(COMMANDS is None, reason="the commands were not built"),
    pytest.mark.skipif(not SHARED, reason="the commands have a library of their own"),
]


def command(name, *flags, cwd, popen=False, **environment):
    here = os.path.dirname(__file__)
    env = {
        **os.environ,
        "CREMA_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([os.path.dirname(PACKAGE), here]),
        **environment,
    }
    arguments = [os.path.join(COMMANDS, name), *flags]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    start = subprocess.Popen if popen else subprocess.run
    return start(arguments, cwd=cwd, env=env, **streams, **({} if popen else {"timeout": 120}))


def python_layer(name, of, tops, bottoms="", param_str="", more="", module="my_layers"):
    text = " ".join([f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops])
    return (
        f'layer {{ name: "{name}" type: "Python" {text} {more}\n'
        f"  python_param {{ module: '{module}' layer: '{of}' param_str: '{param_str}' }} }}\n"
    )


DATA = python_layer("data", "Batches", "xs", module="declared_layers_for_tests")
DENSE = python_layer(
    "dense", "Dense", "y", "x", '{"outputs": 1}', module="declared_layers_for_tests"
)
LOSS = python_layer("loss", "Loss", ["loss"], "ys", more="loss_weight: 1")

MY_LAYERS = """
import atexit, os, time
import numpy as np

class Loss:
    '''As for pycaffe, with a parameter that setup sets.'''
    def __init__(self, param): pass
    def setup(self, bottom, top):
        print("setup of the loss, phase", self.phase)
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = 0.5
        atexit.register(print, "end of the loss")
    def reshape(self, bottom, top): top[0].reshape()
    def forward(self, bottom, top):
        self.distance = bottom[0].data[:, 0] - bottom[1].data
        top[0].data[...] = self.blobs[0].data[0] * np.mean(self.distance ** 2)
    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[:, 0] = 2 * self.blobs[0].data[0] * self.distance / len(self.distance)

class Fails(Loss):
    def forward(self, bottom, top):
        raise ValueError("no such luck")   # line 22

class FailsInSetup(Loss):
    def setup(self, bottom, top):
        self.nothing.at_all

class Slow(Loss):
    def forward(self, bottom, top):
        super().forward(bottom, top)
        time.sleep(0.02)
"""


@pytest.fixture
def run_folder(tmp_path):
    """Returns a function that writes a net and a solver, into the folder that it returns."""

    def write(net, max_iter=50):
        (tmp_path / "my_layers.py").write_text(MY_LAYERS)
        (tmp_path / "net.prototxt").write_text(net)
        (tmp_path / "solver.prototxt").write_text(
            textwrap.dedent(f"""
            net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: {max_iter}
            display: 10 test_iter: 1 test_interval: 25 random_seed: 1
            snapshot_prefix: "snap" """)
        )
        return tmp_path

    return write


def test_train_loads_python_and_ends_it_well(run_folder):
    folder = run_folder(DATA + DENSE + LOSS)
    done = command("train", "--solver=solver.prototxt", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("trained to iteration 50 in ") for line in lines)
    assert "setup of the loss, phase 0" in lines and "setup of the loss, phase 1" in lines
    assert lines[-1] == "end of the loss"
        # Training has found what the layers compute: y = sum of x.
    net = crema.Net.parse(
        DATA + DENSE, 0
    )
    net.load([str(folder / "snap_iter_50.caffemodel")])
    weight, _ = net.layer_list()[1].blobs
    assert abs(weight.data - 1).max() < 0.05


def test_other_commands_open_such_nets(run_folder):
    folder = run_folder(DATA + DENSE + LOSS)
    for name, *flags in [
        ("check", "--solver=solver.prototxt"),
        ("summary", "--model=net.prototxt"),
        ("profile", "--model=net.prototxt", "--iterations=2"),
    ]:
        done = command(name, *flags, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "end of the loss" in done.stdout


def test_exceptions_are_errors_with_their_place(run_folder):
    folder = run_folder(DATA + DENSE + LOSS.replace("'Loss'", "'Fails'"))
    done = command("train", "--solver=solver.prototxt", cwd=folder)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert 'layer "loss"' in last
    assert last.endswith("my_layers.py:22: ValueError: no such luck")
    assert "end of the loss" in done.stdout

    folder = run_folder(DATA + DENSE + LOSS.replace("'Loss'", "'FailsInSetup'"))
    done = command("train", "--solver=solver.prototxt", cwd=folder)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert 'net.prototxt:5:1: layer "loss"' in last
    assert "my_layers.py:26: AttributeError" in last


def test_a_missing_module_or_class_is_an_error_with_its_line(run_folder):
    folder = run_folder(DATA.replace("declared_layers_for_tests", "not_there") + DENSE + LOSS)
    done = command("train", "--solver=solver.prototxt", cwd=folder)
    assert done.returncode == 2
    assert 'net.prototxt:1:1: layer "data"' in done.stderr
    assert "No module named 'not_there'" in done.stderr and "PYTHONPATH" in done.stderr


def test_without_python_the_error_says_what_to_install(run_folder):
    folder = run_folder(DATA + DENSE + LOSS)
    for python in ("/nonexistent", "/bin/false"):
        done = command("train", "--solver=solver.prototxt", cwd=folder, CREMA_PYTHON=python)
        assert done.returncode == 2
        assert python in done.stderr and "docs/python.md" in done.stderr


def test_ctrl_c_stops_training_with_a_snapshot(run_folder):
    folder = run_folder(DATA + DENSE + LOSS.replace("'Loss'", "'Slow'"), max_iter=100000)
    run = command("train", "--solver=solver.prototxt", cwd=folder, popen=True)
    for line in run.stderr:
        if "Iteration 10" in line:
            break
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert "end of the loss" in out
    assert list(folder.glob("snap_iter_*.solverstate"))


def test_commands_find_the_libraries_of_nvidia_packages(tmp_path, monkeypatch):
    from crema import _command

    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/user")
    monkeypatch.setenv("CREMA_PYTHON", "/another/python")
    for package in ("cublas", "cudnn"):
        (tmp_path / "nvidia" / package / "lib").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    found = _command.environment()
    folders = [str(tmp_path / "nvidia" / package / "lib") for package in ("cublas", "cudnn")]
    assert found["LD_LIBRARY_PATH"].split(os.pathsep)[:3] == ["/of/the/user", *folders]
    assert found["CREMA_PYTHON"] == "/another/python"
