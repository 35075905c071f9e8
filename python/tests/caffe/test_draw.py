import shutil

import pytest
from google.protobuf import text_format

import caffe
import caffe.draw as draw
from caffe.proto import caffe_pb2

NET = """
name: "drawn"
layer { name: "data" type: "Data" top: "data" include { phase: TRAIN }
  data_param { batch_size: 8 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { lr_mult: 2 }
  convolution_param { num_output: 7 kernel_size: 3 stride: 2 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" exclude { phase: TRAIN } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: AVE kernel_size: 2 pad: 1 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 5 } }
"""


@pytest.fixture
def net():
    return text_format.Merge(NET, caffe_pb2.NetParameter())


def names(graph):
    return {node.get_name().strip('"').split(r"\n")[0] for node in graph.get_nodes()}


def test_labels_tell_the_sizes(net):
    data, conv, relu, pool, ip = net.layer
    assert draw.get_layer_label(data, "LR") == r'"data\n(Data)"'
    assert (
        draw.get_layer_label(conv, "LR")
        == r'"conv\n(Convolution)\nkernel size: 3\nstride: 2\npad: 0"'
    )
    assert (
        draw.get_layer_label(pool, "TB") == '"pool (Pooling AVE) kernel size: 2 stride: 1 pad: 1"'
    )
    assert draw.get_layer_label(conv, "BT", display_lrm=True).endswith(' lr mult: 2.0, 1.0"')
    assert draw.get_layer_label(relu, "BT", display_lrm=True) == '"relu (ReLU)"'
    labels = [draw.get_edge_label(layer) for layer in net.layer]
    assert labels == ["Batch 8", "7", '""', '""', "5"]


def test_learning_rates_have_defaults(net):
    conv = net.layer[1]
    assert draw.get_layer_lr_mult(conv) == (2, 1)
    assert draw.get_layer_lr_mult(net.layer[4]) == (1, 1)
    conv.param.add(lr_mult=0)
    assert draw.get_layer_lr_mult(conv) == (2, 0)
    conv.param.add()
    with pytest.raises(ValueError, match="Could not parse"):
        draw.get_layer_lr_mult(conv)
    with pytest.raises(ValueError, match="ReLU layers do not have"):
        draw.get_layer_lr_mult(net.layer[2])


def test_tables():
    assert draw.get_pooling_types_dict()[2] == "STOCHASTIC"
    assert draw.choose_color_by_layertype("Deconvolution") == "#FF5050"
    assert draw.choose_color_by_layertype("ReLU") == "#6495ED"


def test_graphs_have_layers_blobs_and_edges(net):
    pytest.importorskip("pydot")
    graph = draw.get_pydot_graph(net, "LR")
    assert graph.get_name() == "drawn" and graph.get_rankdir() == "LR"
    assert names(graph) == {"data", "conv", "relu", "pool", "ip"}
    assert len(graph.get_nodes()) == 9
    assert [edge.get_label() for edge in graph.get_edges()].count("7") == 1
    plain = draw.get_pydot_graph(net, "LR", label_edges=False)
    assert {edge.get_label() for edge in plain.get_edges()} == {'""'}


def test_graphs_show_the_layers_of_a_phase(net):
    pytest.importorskip("pydot")
    train = draw.get_pydot_graph(net, "LR", phase=caffe.TRAIN).to_string()
    test = draw.get_pydot_graph(net, "LR", phase=caffe.TEST).to_string()
    assert "(Data)" in train and "(ReLU)" not in train
    assert "(Data)" not in test and "(ReLU)" in test
    net.layer[0].exclude.add(phase=caffe.TEST)
    with pytest.raises(ValueError, match="both include and exclude"):
        draw.get_pydot_graph(net, "LR", phase=caffe.TRAIN)


def test_drawings_are_files(net, tmp_path):
    pytest.importorskip("pydot")
    if not shutil.which("dot"):
        pytest.skip("needs Graphviz")
    draw.draw_net_to_file(net, str(tmp_path / "net.png"), "TB", caffe.TEST, True)
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in draw.draw_net(net, "LR", "svg")


def test_drawing_without_pydot_is_an_error(net, monkeypatch):
    monkeypatch.setattr(draw, "pydot", None)
    with pytest.raises(ImportError, match="needs pydot"):
        draw.get_pydot_graph(net, "LR")
