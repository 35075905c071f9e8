import threading

import numpy as np
import pytest

import crema
from conftest import NET


@pytest.fixture
def model(write_model):
    net, weights = write_model(NET)
    return crema.Model.from_caffe(net, [weights], threads=1)


def test_runs_arrays(model):
    assert model.inputs == [("data", "float32", (-1, 3))]
    assert [name for name, _, _ in model.outputs] == ["prob"]
    for rows in (1, 2, 7):
        answer = model.run({"data": np.ones((rows, 3), np.float32)})["prob"]
        assert answer.shape == (rows, 4)
        np.testing.assert_allclose(answer.sum(axis=1), 1, rtol=1e-6)


def test_arrays_need_not_be_contiguous(model):
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(
        model.run({"data": np.asfortranarray(rows)})["prob"], model.run({"data": rows})["prob"]
    )


def test_answers_are_arrays_of_their_own(model):
    first = model.run({"data": np.ones((1, 3), np.float32)})["prob"]
    kept = first.copy()
    model.run({"data": np.full((1, 3), 5, np.float32)})
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"data": np.ones((2, 3))},
        {"data": np.ones((2, 4), np.float32)},
        {"other": np.ones((2, 3), np.float32)},
        {"data": 3},
        {3: np.ones((2, 3), np.float32)},
    ],
)
def test_wrong_inputs_are_errors_and_the_model_remains(model, inputs):
    with pytest.raises((crema.Error, TypeError, RuntimeError)):
        model.run(inputs)
    model.run({"data": np.ones((1, 3), np.float32)})


def test_many_threads_run_one_model(model):
    expected = [model.run({"data": np.full((1, 3), i, np.float32)})["prob"] for i in range(4)]
    failures = []

    def work(i):
        for _ in range(100):
            if not np.array_equal(
                model.run({"data": np.full((1, 3), i, np.float32)})["prob"], expected[i]
            ):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_files_that_are_no_models_are_errors(tmp_path):
    path = tmp_path / "x.crema"
    path.write_bytes(b"no model")
    with pytest.raises(crema.Error):
        crema.Model.open(str(path))
    with pytest.raises(crema.Error):
        crema.Model.from_caffe("/nothing", [])
    with pytest.raises(crema.Error):
        crema.Model.open(str(path), threads=5000)


def test_classifying_needs_an_image_model(model):
    with pytest.raises(crema.Error, match="does not take one image"):
        model.classify(b"no image")
