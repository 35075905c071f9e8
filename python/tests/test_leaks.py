"""Objects that are opened and closed again and again leave no memory behind.

bench/python/leaks.py runs the same cases 10,000 times each.
"""

import ctypes
import gc
import os
import sys

import numpy as np
import pytest

import crema
import layers_for_tests
from conftest import NET, TRAIN_NET

SOLVER = 'base_lr: 0.1 lr_policy: "fixed" max_iter: 5 snapshot_after_train: false net_param { %s }'
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident():
    """Returns the resident memory in bytes."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


def net(files):
    crema.Net.parse(NET, 0)


def net_that_runs(files):
    net = crema.Net.parse(NET, 0)
    net.forward(0, 3)
    net.backward(3, 0)


def net_with_callbacks(files):
    net = crema.Net.parse(NET, 0)
    net.add_callback("after_forward", lambda layer: net)  # a cycle, for the collector
    net.forward(0, 3)


def net_reshaped_and_shared(files):
    net, other = crema.Net.parse(NET, 0), crema.Net.parse(NET, 1)
    net.blob_list()[0].reshape(3, 3)
    net.reshape()
    other.share_with(net)


def solver(files):
    crema.Solver.parse(SOLVER % TRAIN_NET)


def solver_that_steps(files):
    solver = crema.Solver.parse(SOLVER % TRAIN_NET)
    solver.add_callback("iteration", lambda event: solver)
    solver.step(2)


def model(files):
    crema.Model.from_caffe(*files, threads=1)


def model_that_runs(files):
    model = crema.Model.from_caffe(*files, threads=1)
    model.run({"data": np.ones((2, 3), np.float32)})


def views_that_outlive_their_net(files):
    net = crema.Net.parse(NET, 0)
    views = [blob.data for blob in net.blob_list()] + [net.layer_list()[1].blobs[0].diff]
    del net
    views[0][...] = 1


def views_held_for_a_while(files, held=[]):
    net = crema.Net.parse(NET, 0)
    held.append([net.blob_list()[0].data, net.blob_list()[-1].diff])
    del held[:-20]


def errors_in_constructors(files):
    for text in ("layer { type: 'Nothing' }", NET.replace("num_output: 4", ""), "]["):
        for open_text in (lambda: crema.Net.parse(text, 0), lambda: crema.Solver.parse(text)):
            with pytest.raises(crema.Error):
                open_text()
    with pytest.raises(crema.Error):
        crema.Model.from_caffe(files[0], ["/nothing"])


def errors_in_calls(files):
    net = crema.Net.parse(NET, 0)
    net.add_callback("before_forward", lambda layer: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        net.forward(0, 3)
    with pytest.raises(crema.Error):
        net.blob_list()[1].reshape(7)


def python_layer(files):
    crema.Net.parse(
        'layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 3 } } }'
        'layer { name: "p" type: "Python" bottom: "d" top: "p" '
        'python_param { module: "layers_for_tests" layer: "Times" param_str: "2" } }', 0).forward(0, 1)


def layer_whose_tops_grow(files):
    net = crema.Net.parse(
        'layer { name: "p" type: "Python" top: "p" '
        'python_param { module: "layers_for_tests" layer: "Growing" } }'
        'layer { name: "y" type: "TanH" bottom: "p" top: "y" loss_weight: 1 }', 0)
    views = []
    for _ in range(5):
        net.forward()
        net.backward()
        views.append(net.blobs["y"].data)


KEEPS = (
    'layer { name: "d" type: "DummyData" top: "d" dummy_data_param { shape { dim: 300 } } }'
    'layer { name: "p" type: "Python" bottom: "d" top: "p" '
    'python_param { module: "declared_layers_for_tests" layer: "Keeps" } }'
)


def declared_layer_that_keeps_an_array(files):
    net = crema.Net.parse(KEEPS, 0)
    with pytest.raises(ValueError, match="keeps an array"):
        net.forward(0, 1)


def declared_layer_of_a_solver_that_keeps_an_array(files):
    solver = crema.Solver.parse(SOLVER % KEEPS)
    with pytest.raises(ValueError, match="keeps an array"):
        solver.step(1)


def layers_that_refer_to_their_net(files):
    for kind in ("Plain", "Declared"):
        net = crema.Net.parse(
            KEEPS.replace("declared_layers_for_tests", "layers_for_tests").replace("Keeps", kind), 0)
        layers_for_tests.OBJECTS.pop().of = net


def layer_that_refers_to_its_solver(files):
    solver = crema.Solver.parse(SOLVER % KEEPS.replace("declared_layers", "layers").replace(
        "Keeps", "Declared"))
    layers_for_tests.OBJECTS.pop().of = solver


def text_of_a_net_spec(files):
    caffe = pytest.importorskip("caffe")
    spec = caffe.NetSpec()
    spec.data = caffe.layers.DummyData(shape=dict(dim=[2, 3]))
    spec.ip = caffe.layers.InnerProduct(spec.data, num_output=4)
    spec.prob = caffe.layers.Softmax(spec.ip)
    crema.Net.parse(str(spec.to_proto()), 1)


CASES = [net, net_that_runs, net_with_callbacks, net_reshaped_and_shared, solver, solver_that_steps,
         model, model_that_runs, views_that_outlive_their_net, views_held_for_a_while,
         errors_in_constructors, errors_in_calls, python_layer, layer_whose_tops_grow,
         declared_layer_that_keeps_an_array, declared_layer_of_a_solver_that_keeps_an_array, layers_that_refer_to_their_net,
         layer_that_refers_to_its_solver, text_of_a_net_spec]


def keeps_an_object(files, kept=[]):
    kept.append(object())


def keeps_two_kilobytes(files, kept=[]):
    kept.append(bytearray(2048))


class MallInfo(ctypes.Structure):
    """struct mallinfo2 of <malloc.h>."""
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


def in_use():
    """Returns the bytes that malloc handed out and the number of Python's small objects."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = MallInfo
    info = mallinfo2()
    return np.array([info.uordblks + info.hblkhd, sys.getallocatedblocks()])


LIMITS = np.array([16, 0.5])  # bytes and objects that a call may leave in use


def leaks(case, files):
    """Returns true if each of 20 rounds of 100 calls leaves more in use than LIMITS.

    A leak adds to each round; a cache, a pool or a list that takes more room grows now and then.
    """
    def leak():
        before = in_use()
        for _ in range(100):
            case(files)
        return (in_use() - before) / 100

    leak()  # fills what is made once
    return not any((leak() < LIMITS).all() for _ in range(20))


pytestmark = [
    pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="asks glibc 2.33"),
    pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="not glibc's malloc")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_memory_stays(case, write_model):
    net, *weights = write_model(NET)
    assert not leaks(case, (net, weights))


@pytest.mark.parametrize("case", [keeps_an_object, keeps_two_kilobytes])
def test_leaks_are_found(case):
    assert leaks(case, None)
