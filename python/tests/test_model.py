import pathlib
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
        crema.Model.from_file(str(path))
    with pytest.raises(crema.Error):
        crema.Model.from_caffe("/nothing", [])
    with pytest.raises(crema.Error):
        crema.Model.from_file(str(path), threads=5000)


def test_an_onnx_model_names_the_function_for_it(tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\x08\x07")
    with pytest.raises(crema.Error, match=r"x\.onnx: is an ONNX model.*Model\.from_onnx"):
        crema.Model.from_file(path)


def test_classifying_needs_an_image_model(model):
    with pytest.raises(crema.Error, match="classification needs an input"):
        model.classify(b"no image")


def test_one_input_needs_no_name(model):
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(model.run(rows)["prob"], model.run({"data": rows})["prob"])


def test_several_inputs_need_names(write_model):
    net, weights = write_model(
        NET + 'layer { name: "m" type: "Input" top: "more" input_param { shape { dim: 2 dim: 4 } } }'
        'layer { name: "sum" type: "Eltwise" bottom: "prob" bottom: "more" top: "sum" }'
    )
    model = crema.Model.from_caffe(net, weights)
    rows = np.zeros((2, 3), np.float32)
    with pytest.raises(TypeError, match="2 inputs: give a dict"):
        model.run(rows)
    assert list(model.run({"data": rows, "more": np.ones((2, 4), np.float32)})) == ["sum"]


@pytest.mark.parametrize("given", [3, None, "data", [[1, 2, 3]], object(), {"data": [1.0]}, {3: 4}])
def test_what_is_no_array_is_a_type_error(model, given):
    with pytest.raises(TypeError):
        model.run(given)


def test_other_element_types_are_type_errors(model):
    with pytest.raises(TypeError, match="'data' must be an array of float32.*astype"):
        model.run(np.ones((2, 3)))
    with pytest.raises(crema.Error):
        model.run(np.ones((2, 3), np.uint8))
    for shape in [(), (3,), (0, 3), (1,) * 20]:
        with pytest.raises(crema.Error):
            model.run(np.ones(shape, np.float32))


def test_a_dict_that_changes_during_the_call_does_no_harm(model):
    inputs = {}

    class Array:
        def __dlpack__(self, **keywords):
            inputs.clear()
            return np.ones((2, 3), np.float32).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (1, 0)

    inputs.update(data=Array(), other=Array())
    with pytest.raises((crema.Error, TypeError)):
        model.run(inputs)
    inputs.update(data=Array())
    assert model.run(inputs)["prob"].shape == (2, 4)


def test_paths_and_one_weights_file(write_model):
    net, weights = write_model(NET)
    rows = np.ones((2, 3), np.float32)
    wanted = crema.Model.from_caffe(net, [weights]).run(rows)["prob"]
    for given in (weights, pathlib.Path(weights), (weights,)):
        model = crema.Model.from_caffe(pathlib.Path(net), given)
        np.testing.assert_array_equal(model.run(rows)["prob"], wanted)
    for wrong in (3, None, [3]):
        with pytest.raises(TypeError):
            crema.Model.from_caffe(net, wrong)
