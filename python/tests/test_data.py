import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from data_for_tests import Broken, Deadly, Exits, Numbers, Reports, Unequal, Uneven, as_tuple, jitter

import crema
from crema.data import batches

HEAD = """
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
INPUTS = """
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 4 } } }
    layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
"""
# No such file exists: data replace the layers, and so their transform_param.
READERS = """
    layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
      data_param { source: "/nothing" batch_size: 4 } }
    layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
      data_param { source: "/nothing" batch_size: 4 } }
"""
ALL = [Numbers()[i] for i in range(20)]
ROWS = {
    "data": np.stack([sample["data"] for sample in ALL]),
    "label": np.array([sample["label"] for sample in ALL]),
}
BATCHES = [{key: rows[i : i + 4] for key, rows in ROWS.items()} for i in range(0, 20, 4)]


@pytest.fixture
def open_solver(tmp_path):
    """Returns a function that opens a solver over such a net."""

    def open_solver(data, test_data=None, inputs=INPUTS, more="max_iter: 1000", seed=1):
        net = tmp_path / "net.prototxt"
        net.write_text(inputs + HEAD)
        return crema.Solver.parse(
            f'net: "{net}" base_lr: 0.1 momentum: 0.9 lr_policy: "fixed" {more} '
            f'snapshot_prefix: "{tmp_path}/run" random_seed: {seed}',
            threads=1,
            data=data,
            test_data=test_data,
        )

    return open_solver


def weights_of(solver):
    layers = [layer for layer in solver.net.layer_list() if layer.name == "ip"]
    return np.concatenate([blob.data.ravel() for blob in layers[0].blobs])


def net_of(data, inputs=INPUTS, phase=0):
    net = crema.Net.parse(inputs + HEAD, phase, threads=1, data=data)
    return net, dict(zip(net.blob_names, net.blob_list()))


def run(net):
    return net.forward(0, len(net.layer_names) - 1)


def children():
    """Returns the processes that this one has started, but for the tracker of multiprocessing."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            parent = int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1])
            command = open(f"/proc/{entry}/cmdline").read()
        except (OSError, IndexError, ValueError):
            continue
        if parent == os.getpid() and "resource_tracker" not in command:
            found.append(int(entry))
    return found


def shared_memory():
    """Returns what modules of Python name so, and Crema; other programs may come and go."""
    names = ("psm_", "sem.mp", "pym", "crema")
    return {name for name in os.listdir("/dev/shm") if name.startswith(names)}


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = shared_memory(), set(children()), set(threading.enumerate())
    yield
    gc.collect()
    assert shared_memory() <= before[0]
    assert set(children()) <= before[1]
    started = set(threading.enumerate()) - before[2]
    assert not [thread for thread in started if thread.name == "crema data"]


class Loader:
    """An iterable with a length and epochs, as PyTorch's DataLoader with a sampler."""

    def __init__(self):
        self.epochs = []

    def __len__(self):
        return len(BATCHES)

    def __iter__(self):
        return iter(BATCHES)

    def set_epoch(self, epoch):
        self.epochs.append(epoch)


KINDS = {
    "list of dicts": lambda: BATCHES,
    "list of tuples": lambda: [(batch["data"], batch["label"]) for batch in BATCHES],
    "function": lambda: lambda: iter(BATCHES),
    "iterator": lambda: iter(BATCHES * 3),
    "iterable": Loader,
    "dict of arrays": lambda: ROWS,
    "dataset": Numbers,
    "batches": lambda: batches(Numbers(), 4),
    "batches of tuples": lambda: batches(Numbers(), 4, transform=as_tuple),
    "batches of arrays": lambda: batches(ROWS, 4),
    "batches of an iterable": lambda: batches(ALL, 4),
    "batches of a stream": lambda: batches(type("S", (), {"__iter__": lambda _: iter(ALL)})(), 4),
    "workers": lambda: batches(Numbers(), 4, workers=2),
}


@pytest.mark.parametrize("inputs", [INPUTS, READERS], ids=["inputs", "readers"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_data_train_the_same(kind, inputs, open_solver):
    by_hand = crema.Net.parse(INPUTS + HEAD, 0, threads=1)
    blobs = dict(zip(by_hand.blob_names, by_hand.blob_list()))
    losses = []
    solver = open_solver(KINDS[kind](), inputs=inputs)
    for own, its in zip(by_hand.layer_list()[2].blobs, solver.net.layer_list()[-2].blobs):
        own.data[...] = its.data
    solver.add_callback("iteration", lambda event: losses.append(event["loss"]))
    solver.step(1)
    blobs["data"].data[...] = BATCHES[0]["data"]
    blobs["label"].data[...] = BATCHES[0]["label"]
    assert losses == [run(by_hand)]
    solver.step(6)  # two more than a pass
    expected = open_solver(BATCHES)
    expected.step(7)
    assert (weights_of(solver) == weights_of(expected)).all()


def test_each_forward_pass_of_a_net_takes_a_batch():
    net, blobs = net_of(BATCHES)
    assert net.input_names == ["data", "label"]
    for number in range(7):
        run(net)
        assert (blobs["data"].data == BATCHES[number % 5]["data"]).all()
        assert (blobs["label"].data == BATCHES[number % 5]["label"]).all()


def test_the_last_batch_may_be_smaller():
    net, blobs = net_of(batches(Numbers(10), 4))
    shapes = []
    for _ in range(4):
        run(net)
        shapes.append((blobs["data"].shape, blobs["ip"].shape))
    assert [shape[0][0] for shape in shapes] == [4, 4, 2, 4]
    assert shapes[2] == ((2, 4), (2, 3))
    dropping = batches(Numbers(10), 4, drop_last=True)
    assert len(dropping) == 2
    assert len(batches(Numbers(10), 4)) == 3


def test_batches_are_iterable():
    for workers in 0, 2:
        seen = list(batches(Numbers(10), 4, workers=workers))
        assert [len(batch["label"]) for batch in seen] == [4, 4, 2]
        assert (seen[1]["data"] == BATCHES[1]["data"]).all()
        seen = list(batches(Numbers(10), 4, workers=workers, transform=as_tuple))
        assert (seen[0][1] == BATCHES[0]["label"]).all()


@pytest.mark.parametrize("count", [1, 3])
def test_workers_give_the_batches_of_one_process(count):
    def take(workers, seed):
        net, blobs = net_of(
            batches(Numbers(), 4, shuffle=True, seed=seed, transform=jitter, workers=workers)
        )
        seen = []
        for _ in range(12):
            run(net)
            seen.append(blobs["data"].data.copy())
        return np.stack(seen)

    alone = take(0, seed=5)
    assert (take(count, seed=5) == alone).all()
    assert (take(0, seed=6) != alone).any()
    assert (np.sort(alone[:5].ravel()) != np.sort(alone[5:10].ravel())).any()  # jitter goes on


def test_each_pass_has_another_order_and_all_samples():
    net, blobs = net_of(batches(ROWS, 4, shuffle=True))
    passes = []
    for _ in range(3):
        rows = []
        for _ in range(5):
            run(net)
            rows.extend(map(tuple, blobs["data"].data))
        passes.append(rows)
    assert passes[0] != passes[1] != passes[2]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(map(tuple, ROWS["data"]))


def test_batches_come_in_order_whatever_the_timing(tmp_path):
    net, blobs = net_of(batches(Uneven(str(tmp_path)), 4, workers=2))
    for number in range(5):
        run(net)
        assert (blobs["data"].data == BATCHES[number]["data"]).all()


def test_random_states_of_the_program_stay():
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1)
    np.random.seed(1)
    list(batches(Numbers(), 4, transform=jitter))
    assert (random.random(), np.random.rand()) == expected


RESUMED = {
    "one process": lambda seed: batches(
        Numbers(), 3, shuffle=True, seed=seed, transform=jitter
    ),
    "workers": lambda seed: batches(
        Numbers(), 3, shuffle=True, seed=seed, transform=jitter, workers=2
    ),
    "arrays": lambda seed: batches(ROWS, 3, shuffle=True, seed=seed),
    "list": lambda seed: BATCHES,
    "function": lambda seed: lambda: (batch for batch in BATCHES),
    "iterator": lambda seed: iter(BATCHES * 10),
    "iterable": lambda seed: Loader(),
}


@pytest.mark.parametrize("iter_size", [1, 2])
@pytest.mark.parametrize("kind", RESUMED)
def test_a_restored_run_goes_on_with_the_next_sample(kind, iter_size, open_solver):
    more = (
        f"max_iter: 1000 iter_size: {iter_size} test_iter: 2 test_interval: 3 "
        "test_initialization: false"
    )

    def open_run(seed):
        make = RESUMED[kind]
        tests = []
        solver = open_solver(make(seed), make(seed + 9), INPUTS, more)
        solver.add_callback("test", lambda event: tests.append(event["outputs"]))
        return solver, tests

    whole, expected = open_run(seed=4)
    files = []
    whole.add_callback("snapshot", files.append)
    whole.step(8)
    whole.snapshot()
    whole.step(5)
    resumed, tests = open_run(seed=77)  # the snapshot has the seed of the order
    resumed.restore(files[0]["state"])
    resumed.step(5)
    assert resumed.iteration == whole.iteration == 13
    assert (weights_of(resumed) == weights_of(whole)).all()
    assert tests == expected[2:]


def test_a_restored_run_skips_passes_by_set_epoch(open_solver):
    first = open_solver(Loader())
    files = []
    first.add_callback("snapshot", files.append)
    first.step(12)
    first.snapshot()
    loader = Loader()
    second = open_solver(loader)
    second.restore(files[0]["state"])
    second.step(1)
    assert loader.epochs == [0, 2]


def test_tests_use_every_sample_once(open_solver):
    tests = []
    solver = open_solver(
        batches(Numbers(), 4, shuffle=True),
        {key: rows[:10] for key, rows in ROWS.items()},
        READERS,
        "max_epoch: 2 test_interval_epoch: 1",
    )
    solver.add_callback("test", lambda event: tests.append(event))
    events = []
    solver.add_callback("iteration", events.append)
    solver.solve()
    assert solver.iteration == 10
    assert [event["iteration"] for event in tests] == [0, 5, 10]
    assert [event["epoch"] for event in events[::5]] == [0.2, 1.2]
    assert events[0]["wait_seconds"] >= 0
    net, _ = net_of([{key: rows[:10] for key, rows in ROWS.items()}], READERS, phase=1)
    for own, its in zip(net.layer_list()[1].blobs, solver.net.layer_list()[1].blobs):
        own.data[...] = its.data
    np.testing.assert_allclose(tests[-1]["outputs"]["loss"][0], run(net), rtol=1e-6)


def test_a_test_without_end_needs_test_iter(open_solver):
    with pytest.raises(crema.Error, match="test_iter"):
        open_solver(BATCHES, BATCHES, READERS, "max_iter: 4 test_interval: 2").solve()


def test_the_next_batch_is_made_while_the_net_runs(open_solver):
    asked = [threading.Event() for _ in range(6)]

    def data():
        for event in asked:
            event.set()
            yield BATCHES[0]

    solver = open_solver(data)
    # The callback is part of iteration i, whose batch is number i.
    solver.add_callback(
        "gradients", lambda: seen.append(asked[solver.iteration + 1].wait(timeout=60))
    )
    seen = []
    solver.step(4)
    assert seen == [True] * 4


def test_a_generator_may_reuse_its_array():
    def data():
        array = np.empty((4, 4), np.float32)
        for number in range(10):
            array[...] = number
            yield {"data": array, "label": np.zeros(4)}

    net, blobs = net_of(data)
    for number in range(10):
        run(net)
        assert (blobs["data"].data == number).all()


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyArray:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.astype(np.float64),
        lambda a: a.astype(np.uint8),
        lambda a: a.astype(np.int64),
        lambda a: a.astype(np.float16),
        lambda a: a > 1,
        lambda a: a.tolist(),
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        OnlyDlpack,
        OnlyArray,
    ],
)
def test_arrays_of_all_kinds_are_taken(convert):
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    net, blobs = net_of([{"data": convert(values), "label": [0, 1, 2, 0]}])
    run(net)
    expected = convert(values)
    expected = np.asarray(getattr(expected, "array", expected), np.float32)
    assert (blobs["data"].data == expected).all()


def test_bytes_feed_a_net_of_bytes():
    inputs = """layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 2 dim: 4 dim: 4 dim: 3 } } pipeline_param { output: U8 } }"""
    images = np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3)
    net = crema.Net.parse(inputs, 1, data=[images])
    net.forward(0, 0)
    assert net.blob_list()[0].data.dtype == np.uint8
    assert (net.blob_list()[0].data == images).all()
    with pytest.raises(TypeError, match="data is float32, and the net has uint8"):
        crema.Net.parse(inputs, 1, data=[images.astype(np.float32)]).forward(0, 0)


GOOD = BATCHES[0]


@pytest.mark.parametrize(
    "data, error, message",
    [
        ([{"data": GOOD["data"]}], None, None),  # the labels stay the program's
        ([{"lable": GOOD["label"]}], ValueError, "'lable' is no top.*has data, label"),
        ([{}], ValueError, "tuple of 0 arrays"),
        ([(GOOD["data"],)], ValueError, "tuple of 1 arrays.*tops data, label"),
        ([{**GOOD, "data": GOOD["data"][:, :3]}], ValueError, r"data is \(4, 3\).*has \(4, 4\)"),
        ([{**GOOD, "data": ROWS["data"]}], ValueError, r"data is \(20, 4\).*has \(4, 4\)"),
        ([{**GOOD, "data": np.zeros((0, 4))}], ValueError, r"data is \(0, 4\)"),
        ([{**GOOD, "data": np.float32(3)}], ValueError, r"data is \(\)"),
        ([{**GOOD, "data": np.array(["x"] * 4)}], TypeError, "'data' has elements of type <U1"),
        ([{**GOOD, "data": None}], TypeError, "'data' has elements of type object"),
        ([{**GOOD, "data": GOOD["data"] * 1j}], TypeError, "'data'.*complex"),
        ([], ValueError, "no batches"),
        (lambda: [], ValueError, "no batches"),
        (lambda: 3, TypeError, "not iterable"),
        (3, TypeError, "data is a int"),
        ("file.txt", TypeError, "data is a str"),
        ({}, ValueError, "number of samples"),
        ({"data": np.zeros(4), "label": np.zeros(3)}, ValueError, "differ.*'data': 4, 'label': 3"),
        (Numbers(0), ValueError, "0 samples"),
        (Unequal(), ValueError, r"sample 6: 'data' is float32 \(3,\).*\(4,\)"),
        (Broken(), LookupError, "thirteen"),
    ],
)
def test_wrong_data_are_errors(data, error, message):
    if error is None:
        net, blobs = net_of(data)
        run(net)
        assert (blobs["data"].data == GOOD["data"]).all()
        return
    with pytest.raises(error, match=message):
        net, _ = net_of(data)
        for _ in range(5):
            run(net)


def test_layers_of_two_tops_need_both_keys():
    with pytest.raises(ValueError, match="'label' is missing; layer \"data\" has the tops"):
        net_of([{"data": GOOD["data"]}], READERS)


def test_later_batches_are_checked_and_errors_leave_the_net_usable():
    wrong = {**GOOD, "data": GOOD["data"][:, :2]}
    stream = iter([GOOD, wrong, {"data": GOOD["data"]}, GOOD])
    net, blobs = net_of(stream)
    run(net)
    with pytest.raises(ValueError, match=r"batch 1: data is \(4, 2\), and the net has \(4, 4\)"):
        run(net)
    with pytest.raises(ValueError, match="batch 1"):
        run(net)  # the same batch again
    net, blobs = net_of([GOOD, {"data": GOOD["data"]}])
    run(net)
    with pytest.raises(ValueError, match=r"batch 1 has \['data'\], and the first one has"):
        run(net)


def test_an_iterator_that_ends_is_an_error(open_solver):
    solver = open_solver(iter(BATCHES))
    solver.step(5)
    with pytest.raises(crema.Error, match="ended after 5 batches") as caught:
        solver.step(1)
    assert caught.value.code == "not_found"
    with pytest.raises(crema.Error, match="ended after 5 batches"):
        solver.step(1)


def test_an_iterator_cannot_go_back(open_solver):
    files = []
    solver = open_solver(iter(BATCHES))
    solver.add_callback("snapshot", files.append)
    solver.snapshot()
    solver.step(2)
    solver.restore(files[0]["state"])
    with pytest.raises(crema.Error, match="can be started again") as caught:
        solver.step(1)
    assert caught.value.code == "unsupported"


def test_nets_without_sources_and_test_nets_without_data_are_errors(open_solver):
    with pytest.raises(ValueError, match="no Input or data layer"):
        crema.Net.parse('layer { name: "p" type: "Parameter" top: "p" '
                        "parameter_param { shape { dim: 1 } } }", 0, data=BATCHES)
    with pytest.raises(crema.Error, match="test net #0 has the inputs data, label"):
        open_solver(BATCHES, None, INPUTS, "max_iter: 9 test_iter: 1 test_interval: 2")
    with pytest.raises(crema.Error, match="/nothing"):
        open_solver(None, None, READERS)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(dataset=Numbers(), batch_size=0), ValueError, "batch_size is 0; give 1 or more"),
        (dict(dataset=Numbers(), batch_size=1.5), TypeError, "batch_size is 1.5"),
        (dict(dataset=Numbers(), batch_size=4, seed=-1), ValueError, "seed is -1"),
        (dict(dataset=Numbers(), batch_size=4, workers=-1), ValueError, "workers is -1"),
        (dict(dataset=Numbers(3), batch_size=4, drop_last=True), ValueError, "3 samples"),
        (dict(dataset=7, batch_size=4), TypeError, "a int is no dataset"),
        (dict(dataset=iter(ALL), batch_size=4, shuffle=True), TypeError, "shuffle and workers"),
    ],
)
def test_wrong_arguments_of_batches_are_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        batches(**arguments)


def test_errors_in_workers_have_their_traceback():
    net, blobs = net_of(batches(Broken(), 4, workers=2))
    for _ in range(3):
        run(net)
    for _ in range(2):  # the same sample again
        with pytest.raises(LookupError, match="thirteen") as caught:
            run(net)
        assert "data_for_tests.py" in str(caught.value.__cause__)
        assert "in __getitem__" in str(caught.value.__cause__)
        if sys.version_info >= (3, 11):
            assert "sample 13" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="sample 6"):
        net, _ = net_of(batches(Unequal(), 4, workers=1))
        run(net)
        run(net)


def test_a_killed_worker_is_an_error_and_training_may_go_on(open_solver):
    solver = open_solver(batches(Deadly(), 4, workers=2))
    solver.step(3)
    with pytest.raises(crema.Error, match="was killed by SIGKILL") as caught:
        solver.step(1)
    assert caught.value.code == "io_failure"
    solver = open_solver(batches(Numbers(), 4, workers=2))
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
    with pytest.raises(crema.Error, match="was killed by SIGKILL"):
        solver.step(20)
    done = solver.iteration
    solver.step(5)
    assert solver.iteration == done + 5


@pytest.mark.parametrize(
    "how, error, message",
    [
        ("_exit", crema.Error, r"data: worker 1 \(process \d+\) ended with exit status 0"),
        ("exit", crema.Error, "ended with exit status 3"),
        ("forks", crema.Error, "was killed by SIGKILL"),
        ("raises what loads there alone", RuntimeError, "OnlyInWorkers"),
        ("hangs at exit", None, None),
    ],
)
def test_workers_that_end_in_any_way_leave_nothing(how, error, message, open_solver, tmp_path):
    solver = open_solver(batches(Exits(how, str(tmp_path)), 4, workers=2))
    before = children()
    if error is None:
        solver.step(5)
    else:
        for _ in range(2):  # with other workers
            with pytest.raises(error, match=message):
                solver.step(5)
            (tmp_path / "raised").touch()
        assert solver.iteration == 3
        assert not (tmp_path / "waited in vain").exists()
    del solver
    gc.collect()
    assert before and not [child for child in before if child in children()]


def test_datasets_that_cannot_be_sent_are_errors():
    with pytest.raises(TypeError, match="can be pickled"):
        net_of(batches(Numbers(), 4, workers=2, transform=lambda sample: sample))


def test_workers_do_the_loading(tmp_path):
    path = tmp_path / "processes"
    net, _ = net_of(batches(Reports(str(path)), 4, workers=2))
    for _ in range(5):
        run(net)
    processes = {int(line) for line in path.read_text().split()}
    assert len(processes) == 2 and os.getpid() not in processes


@pytest.fixture
def interrupts():
    """Makes Ctrl-C raise KeyboardInterrupt, also where a shell has turned it off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_a_batch_is_awaited_ends_after_the_iteration(open_solver, interrupts):
    def data():
        for number in range(1000):
            if number == 3:
                os.kill(os.getpid(), signal.SIGINT)
                while not is_handled.wait(0):
                    os.sched_yield()
            yield BATCHES[number % 5]

    is_handled = threading.Event()

    def handle(*_):
        is_handled.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    solver = open_solver(data)
    files = []
    solver.add_callback("snapshot", files.append)
    with pytest.raises(KeyboardInterrupt):
        solver.solve()
    assert solver.iteration in (3, 4)
    assert f"_{solver.iteration}.solverstate" in files[-1]["state"]
    before = solver.iteration
    solver.step(2)
    expected = open_solver(BATCHES)
    expected.step(before + 2)
    assert (weights_of(solver) == weights_of(expected)).all()


def test_a_second_ctrl_c_ends_a_wait_at_once(open_solver, interrupts):
    go_on = threading.Event()
    interrupted = []

    def data():
        yield BATCHES[0]
        os.kill(os.getpid(), signal.SIGINT)
        go_on.wait()
        yield BATCHES[1]

    def press_again():  # two that come before Python handles the first are one
        while not ended.wait(0.05):
            os.kill(os.getpid(), signal.SIGINT)

    def handle(*_):
        interrupted.append(1)
        if len(interrupted) == 1:
            presses.start()
        if not ended.is_set():
            raise KeyboardInterrupt

    ended = threading.Event()
    presses = threading.Thread(target=press_again)
    signal.signal(signal.SIGINT, handle)
    solver = open_solver(data)
    try:
        solver.step(3)
        raised = False
    except KeyboardInterrupt:
        ended.set()
        raised = True
    presses.join()
    go_on.set()
    assert raised and solver.iteration == 1


def test_ctrl_c_leaves_workers_to_the_program(open_solver, interrupts):
    solver = open_solver(batches(Numbers(), 4, workers=2))
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGINT)  # as a terminal does for the whole group
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        solver.step(100000000)
    assert len(multiprocessing.active_children()) == 2
    solver.step(3)


def test_a_forked_process_may_go_on(open_solver):
    solver = open_solver(batches(Numbers(), 4, workers=1))
    solver.step(2)
    expected = open_solver(BATCHES)
    expected.step(4)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            solver.step(2)
            status = 0 if (weights_of(solver) == weights_of(expected)).all() else 2
            solver = None
            gc.collect()
            import atexit

            atexit._run_exitfuncs()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    solver.step(2)  # its worker is still there
    assert (weights_of(solver) == weights_of(expected)).all()


def test_workers_end_with_a_killed_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(f"""
        import os, signal, sys, multiprocessing
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import crema
        from data_for_tests import Numbers

        if __name__ == "__main__":
            net = crema.Net.parse('''{' '.join(INPUTS.split())}''', 0,
                                  data=crema.data.batches(Numbers(), 4, workers=2))
            net.forward(0, 0)
            print(*[child.pid for child in multiprocessing.active_children()], flush=True)
            sys.stdin.read()
            {{}}
    """))
    for end in ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()", "raise KeyError"]:
        (tmp_path / "one.py").write_text(script.read_text().replace("{}", end))
        done = subprocess.run(
            [sys.executable, str(tmp_path / "one.py")], input="", capture_output=True, text=True
        )
        workers = done.stdout.split()
        assert len(workers) == 2, done.stderr
        deadline = time.monotonic() + 60
        while any(os.path.exists(f"/proc/{pid}") for pid in workers):
            assert time.monotonic() < deadline
            os.sched_yield()
        assert "resource_tracker" not in done.stderr
        assert ("KeyError" in done.stderr) == ("KeyError" in end)


def test_a_script_without_the_main_guard_is_told_so(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import crema
        from data_for_tests import Numbers

        crema.Net.parse('''{' '.join(INPUTS.split())}''', 0, data=crema.data.batches(Numbers(), 4, workers=1))
    """))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "__main__" in done.stderr.splitlines()[-1]


def test_pytorch_works_as_it_is(open_solver):
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(
        torch.from_numpy(ROWS["data"]), torch.from_numpy(ROWS["label"])
    )
    kinds = [
        dataset,
        torch.utils.data.DataLoader(dataset, batch_size=4),
        torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=1),
        batches(dataset, 4, workers=1),
    ]
    expected = open_solver(BATCHES)
    expected.step(7)
    for data in kinds:
        solver = open_solver(data, inputs=READERS)
        solver.step(7)
        assert (weights_of(solver) == weights_of(expected)).all()
    loader = torch.utils.data.DataLoader(dataset, batch_size=8)
    tests = []
    solver = open_solver(dataset, loader, READERS, "max_iter: 2 test_interval: 2")
    solver.add_callback("test", tests.append)
    solver.solve()  # without test_iter: the loader says how many samples a pass has
    assert len(tests) == 2


def test_what_carries_feeds_has_no_effect_in_a_text(capfd):
    fields = 'python_param { param_str: "1" } memory_data_param { batch_size: 2 } input_param'
    for open_text in (
        lambda text: crema.Net.parse(text, 0),
        lambda text: crema.Net.parse(text, 0, data=[GOOD]),
        lambda text: crema.Solver.parse(
            f'base_lr: 1 lr_policy: "fixed" max_iter: 1 net_param {{ {text} }}', data=[GOOD]
        ),
    ):
        capfd.readouterr()
        net = open_text(INPUTS.replace("input_param", fields, 1) + HEAD)
        written = capfd.readouterr().err
        for field in ("python_param", "memory_data_param"):
            assert f'layer "data": \'{field}\' has no effect on a layer of type Input' in written
        if isinstance(net, crema.Net):
            crema.Net.parse(net.to_text(), 0)
            assert capfd.readouterr().err == ""


def test_the_text_of_another_net_reaches_no_data():
    net, blobs = net_of(BATCHES)
    other = INPUTS.replace("input_param", 'python_param { param_str: "1" } input_param')
    stranger = crema.Net.parse(other + HEAD, 0, threads=1)
    its = dict(zip(stranger.blob_names, stranger.blob_list()))
    its["data"].data[...] = 7
    run(stranger)
    assert (its["data"].data == 7).all()
    again = crema.Net.parse(net.to_text(), 0, threads=1)
    run(again)
    labels = [{"label": BATCHES[1]["label"]}]
    fed, its = net_of(labels, other)  # and the number of its own data is no other input's
    its["data"].data[...] = 7
    run(fed)
    assert (its["data"].data == 7).all() and (its["label"].data == BATCHES[1]["label"]).all()
    run(net)
    assert (blobs["data"].data == BATCHES[0]["data"]).all()  # nobody took a batch


def test_feeds_do_not_disturb_the_random_numbers_of_each_other():
    """The states of random and numpy.random belong to the process."""
    calls = []
    inside, other_inside, drawn = (threading.Event() for _ in range(3))

    def draw(sample):
        calls.append(sample)
        if len(calls) == 2:  # the first one asks for the shapes
            inside.set()
            other_inside.wait(0.2)  # in vain: the other feed has to wait
        drawn_now = np.float32(np.random.rand())
        if len(calls) > 1:
            drawn.set()
        return {**sample, "data": sample["data"] + drawn_now}

    def stay(sample):
        other_inside.set()
        drawn.wait()
        return sample

    def make_other():
        inside.wait()
        list(batches(Numbers(4), 4, seed=9, transform=stay))

    other = threading.Thread(target=make_other)
    other.start()
    (disturbed,) = batches(Numbers(4), 4, seed=1, transform=draw)
    other.join()
    (alone,) = batches(Numbers(4), 4, seed=1, transform=draw)
    assert (disturbed["data"] == alone["data"]).all()


CTRL_C = """
import os, signal, sys
sys.path.insert(0, {here!r})
import crema
from crema.data import batches
from data_for_tests import Numbers

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    data = batches(Numbers(), 4, workers=2)
    net = {net!r}
    solver = crema.Solver.parse(
        'base_lr: 0.1 lr_policy: "fixed" max_iter: 100000000 snapshot_prefix: "{folder}/run" '
        "net_param {{ " + net + " }}", threads=1, data=data)
    files = []
    solver.add_callback("snapshot", files.append)

    def press(event):
        if event["iteration"] == 5:
            os.killpg(0, signal.SIGINT)  # as a terminal does

    solver.add_callback("iteration", press)
    try:
        solver.solve()
    except KeyboardInterrupt:
        print("stopped", solver.iteration, len(files))
    solver.step(20)
    print("went on", solver.iteration)
"""


def test_ctrl_c_on_a_terminal_leaves_workers_alone(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CTRL_C.format(here=os.path.dirname(__file__), folder=tmp_path, net=INPUTS + HEAD))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=100,
        start_new_session=True,
    )
    assert done.stdout == "stopped 6 1\nwent on 26\n", done.stderr
    assert done.stderr == ""


def test_data_set_all_inputs_of_the_training_net(open_solver):
    with pytest.raises(crema.Error, match="has the inputs label, which data does not set"):
        open_solver([{"data": np.zeros((4, 4), np.float32)}])


def test_a_dict_without_arrays_is_an_error():
    with pytest.raises(ValueError, match="the dict has no arrays"):
        net_of({})
