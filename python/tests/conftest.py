import textwrap

import pytest

import crema

NET = textwrap.dedent("""
    name: "small" force_backward: true
    layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
      inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
    layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
    layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
""")

TRAIN_NET = textwrap.dedent("""
    name: "train"
    layer { name: "data" type: "DummyData" top: "data" top: "label"
      dummy_data_param { shape { dim: 8 dim: 5 } shape { dim: 8 }
        data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
      inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
""")


@pytest.fixture
def write_model(tmp_path):
    """Returns a function that writes a net and weights, and returns their paths."""

    def write(text):
        net = tmp_path / "deploy.prototxt"
        net.write_text(text)
        weights = str(tmp_path / "w.caffemodel")
        crema.Net.open(str(net), 1).save(weights)
        return str(net), weights

    return write


@pytest.fixture
def solver_file(tmp_path):
    net = tmp_path / "train.prototxt"
    net.write_text(TRAIN_NET)
    path = tmp_path / "solver.prototxt"
    path.write_text(
        f'net: "{net}" test_iter: 2 test_interval: 5 base_lr: 0.1 lr_policy: "fixed" display: 2 '
        f'max_iter: 10 snapshot_prefix: "{tmp_path}/run" snapshot_after_train: false random_seed: 1'
    )
    return str(path)
