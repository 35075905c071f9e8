import gc
import os
import threading

import numpy as np
import pytest

import crema
from conftest import NET


def open_net(phase=0, text=NET):
    net = crema.Net.parse(text, phase)
    return net, dict(zip(net.blob_names, net.blob_list()))


def last(net):
    return len(net.layer_names) - 1


def test_arrays_are_views_of_the_net():
    net, blobs = open_net()
    blobs["data"].data[...] = 1
    assert (blobs["data"].data == 1).all()
    net.forward(0, last(net))
    np.testing.assert_allclose(blobs["prob"].data.sum(axis=1), 1, rtol=1e-6)
    blobs["prob"].diff[...] = np.eye(4, dtype=np.float32)[:2]
    net.backward(last(net), 0)
    assert np.abs(blobs["data"].diff).max() > 0


def test_arrays_are_shared_by_dlpack():
    net, blobs = open_net()
    shared = np.from_dlpack(blobs["data"].data)
    shared[...] = 4
    assert (blobs["data"].data == 4).all()


def test_arrays_outlive_their_net():
    net, blobs = open_net()
    array = blobs["data"].data
    array[...] = 3
    weights = net.layer_list()[1].blobs[0].data
    before = weights.copy()
    del net, blobs
    gc.collect()
    assert (array == 3).all()
    np.testing.assert_array_equal(weights, before)


def test_reshape_keeps_old_arrays_and_changes_later_blobs():
    net, blobs = open_net()
    old = blobs["data"].data
    old[...] = 5
    blobs["data"].reshape(7, 3)
    assert blobs["data"].shape == (7, 3)
    net.reshape()
    assert blobs["prob"].shape == (7, 4)
    assert (old == 5).all() and old.shape == (2, 3)


def test_errors_have_code_and_place():
    with pytest.raises(crema.Error) as caught:
        crema.Net.parse('name: "x"\nlayer { name: "a" type: "ReLUU" bottom: "b" top: "c" }', 0)
    error = caught.value
    assert (error.code, error.line) == ("invalid_argument", 2)
    assert "ReLU" in str(error)
    assert len(error.problems) >= 1
    assert isinstance(error, RuntimeError)
    with pytest.raises(crema.Error) as caught:
        crema.Net.open("/nothing.prototxt", 0)
    assert caught.value.code == "not_found"


@pytest.mark.parametrize(
    "call",
    [
        lambda net, blobs: net.forward(0, 99),
        lambda net, blobs: net.forward(2, 1),
        lambda net, blobs: net.forward(-1, 1),
        lambda net, blobs: net.tops(99),
        lambda net, blobs: blobs["prob"].reshape(1),
        lambda net, blobs: blobs["data"].reshape(-2, 3),
        lambda net, blobs: blobs["data"].reshape(2**31, 2**31),
        lambda net, blobs: blobs["data"].reshape("a"),
        lambda net, blobs: net.load(["/nothing"]),
        lambda net, blobs: net.save("/nothing/there"),
        lambda net, blobs: net.layer_list()[1].blobs[0].reshape(3),
        lambda net, blobs: net.loss_weight("nothing"),
        lambda net, blobs: net.set_arrays("data", np.zeros(3, "f"), np.zeros(3, "f")),
        lambda net, blobs: net.add_callback("never", print),
    ],
)
def test_wrong_calls_are_errors_and_the_net_remains(call):
    net, blobs = open_net()
    with pytest.raises((crema.Error, TypeError, IndexError, RuntimeError)):
        call(net, blobs)
    net.forward(0, last(net))


def test_a_layer_that_rejects_a_shape_leaves_the_net_as_it_was():
    net, blobs = open_net()
    blobs["data"].reshape(2, 5)
    with pytest.raises(crema.Error, match="weight is 4x3"):
        net.reshape()
    assert blobs["data"].shape == (2, 3)
    net.forward(0, last(net))


def test_weights_are_saved_loaded_and_shared(tmp_path):
    net, _ = open_net()
    for name, hdf5 in (("a.caffemodel", False), ("a.h5", True)):
        path = str(tmp_path / name)
        net.save(path, hdf5=hdf5)
        other, _ = open_net()
        other.layer_list()[1].blobs[0].data[...] = 0
        other.load([path])
        np.testing.assert_array_equal(
            other.layer_list()[1].blobs[0].data, net.layer_list()[1].blobs[0].data
        )
    other.share_with(net)
    net.layer_list()[1].blobs[0].data[...] = 9
    assert (other.layer_list()[1].blobs[0].data == 9).all()
    net.share_with(net)
    net.forward(0, last(net))


def test_callbacks_see_each_layer_and_may_throw():
    net, blobs = open_net()
    seen = []
    net.add_callback("before_forward", lambda layer: seen.append(("before", layer)))
    net.add_callback("after_forward", lambda layer: seen.append(("after", layer)))
    net.forward(1, 2)
    assert seen == [("before", 1), ("after", 1), ("before", 2), ("after", 2)]

    def fail(layer):
        raise KeyError("mine")

    net.add_callback("after_forward", fail)
    with pytest.raises(KeyError, match="mine"):
        net.forward(0, last(net))


def test_a_callback_cannot_run_or_change_its_net():
    net, blobs = open_net()
    errors = []

    def call(layer):
        assert blobs["data"].data.shape == (2, 3)
        for attempt in (lambda: net.forward(0, 1), lambda: blobs["data"].reshape(9, 3)):
            with pytest.raises(crema.Error) as caught:
                attempt()
            errors.append(caught.value)

    net.add_callback("before_forward", call)
    net.forward(0, 0)
    assert [error.code for error in errors] == ["invalid_argument"] * 2


def test_threads_share_a_net_one_at_a_time():
    net, blobs = open_net()

    def work():
        for _ in range(50):
            net.forward(0, last(net))
            assert blobs["prob"].data.shape == (2, 4)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_forked_process_runs_a_net_of_its_own():
    net, _ = open_net()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own, _ = open_net()
            own.forward(0, last(own))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_opening_and_closing_does_not_leak():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    for _ in range(200):
        open_net()
    gc.collect()
    before = resident()
    for _ in range(2000):
        net, blobs = open_net()
        net.forward(0, last(net))
    gc.collect()
    assert resident() - before < 500  # pages: 1 KB a net would be 500


def test_weights_are_one_path_or_several_and_phases_have_names(write_model, tmp_path):
    path, weights = write_model(NET)
    expected = crema.Net.open(path, 1, weights=[weights]).layer_list()[1].blobs[0].data
    for given in (weights, tmp_path / "w.caffemodel", (tmp_path / "w.caffemodel",)):
        for net in (
            crema.Net.open(path, "TEST", weights=given, seed=7),
            crema.Net.parse(NET, "TEST", weights=given, seed=7),
        ):
            assert net.phase == 1
            np.testing.assert_array_equal(net.layer_list()[1].blobs[0].data, expected)
    assert crema.Net.parse(NET, "TRAIN").phase == 0
    with pytest.raises(crema.Error, match="phase is 'TESTING', expected 'TRAIN'"):
        crema.Net.parse(NET, "TESTING")


def test_a_text_is_opened_with_stages_levels_and_shared_memory():
    text = NET + """layer { name: "extra" type: "ReLU" bottom: "prob" top: "extra"
      include { stage: "more" min_level: 2 } }"""
    assert "extra" not in crema.Net.parse(text, 1, level=2).layer_names
    assert "extra" in crema.Net.parse(text, 1, level=2, stages=["more"]).layer_names
    assert "shared" in crema.Net.parse(NET, 1, keep_blobs=False).memory


def test_a_net_that_runs_as_a_whole_refuses_callbacks():
    net = crema.Net.parse(NET, 1, keep_blobs=False)
    with pytest.raises(crema.Error, match="keep_blobs=True") as caught:
        net.add_callback("after_forward", print)
    assert caught.value.code == "unsupported"
    net.forward(0, last(net))


def test_callbacks_that_add_callbacks():
    net, _ = open_net()
    seen = []

    def add(layer):
        for _ in range(100):  # moves the list
            net.add_callback("before_forward", seen.append)

    net.add_callback("before_forward", add)
    net.add_callback("before_forward", seen.append)
    net.forward(0, 0)
    assert seen == [0]
    net.forward(0, 0)
    assert seen == [0] * 102


def test_errors_are_freed_with_their_last_reference():
    import weakref

    gc.disable()
    try:
        error = crema.Error("mine")
        assert error.problems == [error]
        freed = weakref.ref(error)
        del error
        assert freed() is None
    finally:
        gc.enable()


def test_getters_wait_for_a_pass_of_another_thread():
    """A pass may plan the net again: what the getters read is replaced then."""
    getters = [
        lambda net: net.name, lambda net: net.blob_names, lambda net: net.layer_names,
        lambda net: net.input_names, lambda net: net.output_names, lambda net: net.bottoms(1),
        lambda net: net.tops(1), lambda net: net.loss_weight("prob"), lambda net: net.blob_list(),
        lambda net: net.layer_list(), lambda net: net.describe(), lambda net: net.to_text(),
    ]  # fmt: skip
    net, _ = open_net()
    layer = net.layer_list()[1]
    getters += [lambda net: layer.name, lambda net: layer.type, lambda net: layer.blobs]
    inside, leave = threading.Event(), threading.Event()

    def wait(_):
        inside.set()
        leave.wait()

    net.add_callback("before_forward", wait)
    running = threading.Thread(target=net.forward, args=(0, 0))
    running.start()
    inside.wait()
    order = []

    def get(number):
        getters[number](net)
        order.append(number)

    threads = [threading.Thread(target=get, args=(number,)) for number in range(len(getters))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(0.02)  # one that does not wait ends
    early = list(order)
    leave.set()
    for thread in [running, *threads]:
        thread.join()
    assert early == [] and len(order) == len(getters)


def test_sizes_of_reshape(tmp_path):
    net = crema.Net.parse(NET, "TEST")
    data = net.blob_list()[0]
    for shape in ((4, 3), [5, 3], np.array([6, 3])):
        data.reshape(shape)
        assert data.shape == tuple(shape)
    data.reshape(np.int64(2), 3)
    for wrong in ((2, 3.0), ("a",), (None,), ((2, None),)):
        with pytest.raises(TypeError):
            data.reshape(*wrong)
    with pytest.raises(OverflowError):
        data.reshape(10**30)
    assert data.shape == (2, 3)


@pytest.mark.parametrize("phase", [-1, 2, 7, "Test"])
def test_unknown_phases_are_errors(phase):
    with pytest.raises(crema.Error, match=f"phase is '{phase}', expected 'TRAIN'"):
        crema.Net.parse(NET, phase)


def test_paths_indices_and_dlpack(tmp_path):
    net = crema.Net.parse(NET, "TEST")
    net.save(tmp_path / "w.caffemodel")
    net.load(tmp_path / "w.caffemodel")
    net.load(str(tmp_path / "w.caffemodel"))
    for call in (net.tops, net.bottoms):
        for index in (99, -1):
            with pytest.raises(IndexError, match="the net has 5 layers|the net has 4 layers"):
                call(index)
    blob = net.blob_list()[0]
    np.from_dlpack(blob)[...] = 7
    assert (blob.data == 7).all()
    with pytest.raises(crema.Error):
        crema.load_plugin(tmp_path / "none.so")


def test_blobs_and_parameters_by_name_and_passes_of_all_or_of_named_layers():
    net = crema.Net.parse(NET, 0)
    assert list(net.blobs) == net.blob_names and list(net.params) == ["ip"]
    weight, bias = (blob.data for blob in net.params["ip"])
    x = net.blobs["data"].data[...] = np.random.rand(2, 3)
    net.forward("data", "ip")
    np.testing.assert_allclose(net.blobs["ip"].data, x @ weight.T + bias, rtol=1e-5)
    net.blobs["prob"].data[...] = 0
    net.forward(last="relu")
    assert (net.blobs["prob"].data == 0).all()
    net.forward()
    np.testing.assert_allclose(net.blobs["prob"].data.sum(1), 1, rtol=1e-6)
    net.blobs["prob"].diff[...] = [[1, 0, 0, 0], [0, 0, 0, 0]]
    net.backward()
    whole = net.blobs["data"].diff.copy()
    net.blobs["data"].diff[...] = 0
    net.backward(last="relu")
    assert (net.blobs["data"].diff == 0).all()
    net.backward("ip")
    np.testing.assert_array_equal(net.blobs["data"].diff, whole)
    with pytest.raises(crema.Error, match="no layer 'rel' .did you mean 'relu'"):
        net.forward("rel")
    with pytest.raises(TypeError):
        net.forward(-1)
