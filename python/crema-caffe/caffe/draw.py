"""Draws nets by Graphviz: graphs need pydotplus or pydot, and drawings the program dot."""

from .proto import caffe_pb2

try:
    import pydotplus as pydot
except ImportError:
    try:
        import pydot
    except ImportError:
        pydot = None

LAYER_STYLE_DEFAULT = {"shape": "record", "fillcolor": "#6495ED", "style": "filled"}
NEURON_LAYER_STYLE = {"shape": "record", "fillcolor": "#90EE90", "style": "filled"}
BLOB_STYLE = {"shape": "octagon", "fillcolor": "#E0E0E0", "style": "filled"}
_COLORS = {
    "Convolution": "#FF5050",
    "Deconvolution": "#FF5050",
    "Pooling": "#FF9900",
    "InnerProduct": "#CC33FF",
}
_WITH_PARAMETERS = ("Convolution", "Deconvolution", "InnerProduct")


def get_pooling_types_dict():
    """Returns the name of each number of PoolMethod."""
    methods = caffe_pb2.PoolingParameter.DESCRIPTOR.enum_types_by_name["PoolMethod"]
    return {value.number: value.name for value in methods.values}


def get_edge_label(layer):
    """Returns the text at the edge from a layer to its tops: a number of samples or channels."""
    if layer.type == "Data":
        return f"Batch {layer.data_param.batch_size}"
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return '""'


def get_layer_lr_mult(layer):
    """Returns lr_mult of weight and bias. Raises ValueError for layers without."""
    if layer.type not in _WITH_PARAMETERS:
        raise ValueError(f"{layer.type} layers do not have a learning rate multiplier")
    if len(layer.param) > 2:
        raise ValueError("Could not parse the learning rate multiplier")
    rates = [param.lr_mult for param in layer.param]
    return tuple(rates + [1.0, 1.0])[:2]


def _kernel_text(layer, separator):
    """Returns size, stride and padding of a layer with a kernel."""
    if layer.type == "Pooling":
        p = layer.pooling_param
        sizes = (p.kernel_size, p.stride, p.pad)
    else:
        p = layer.convolution_param
        sizes = (
            p.kernel_size[0] if p.kernel_size else 1,
            p.stride[0] if p.stride else 1,
            p.pad[0] if p.pad else 0,
        )
    return separator.join(
        f"{name}: {size}" for name, size in zip(("kernel size", "stride", "pad"), sizes)
    )


def get_layer_label(layer, rankdir, display_lrm=False):
    """Returns the text of a layer, on one line in vertical drawings."""
    separator = " " if rankdir in ("TB", "BT") else r"\n"
    kind = layer.type
    if layer.type == "Pooling":
        kind += " " + get_pooling_types_dict()[layer.pooling_param.pool]
    texts = [layer.name, f"({kind})"]
    if layer.type in ("Convolution", "Deconvolution", "Pooling"):
        texts.append(_kernel_text(layer, separator))
    if display_lrm and layer.type in _WITH_PARAMETERS:
        rates = get_layer_lr_mult(layer)
        if any(rates):
            texts.append("lr mult: %.1f, %.1f" % rates)
    return '"%s"' % separator.join(texts)


def choose_color_by_layertype(layertype):
    """Returns the colour of a layer type."""
    return _COLORS.get(layertype, "#6495ED")


def _is_in_phase(layer, phase):
    if phase is None:
        return True
    if layer.include and layer.exclude:
        raise ValueError(f"layer {layer.name} has both include and exclude specified.")
    included = not layer.include or any(rule.phase == phase for rule in layer.include)
    return included and not any(rule.phase == phase for rule in layer.exclude)


def _is_in_place(layer):
    return len(layer.bottom) == 1 and len(layer.top) == 1 and layer.bottom[0] == layer.top[0]


def get_pydot_graph(caffe_net, rankdir, label_edges=True, phase=None, display_lrm=False):
    """Returns the graph of a NetParameter: layers, blobs and edges between them."""
    if pydot is None:
        raise ImportError("drawing nets needs pydot: pip install pydot")
    graph = pydot.Dot(caffe_net.name or "Net", graph_type="digraph", rankdir=rankdir)
    nodes, edges = {}, []
    for layer in caffe_net.layer:
        if not _is_in_phase(layer, phase):
            continue
        node = f"{layer.name}_{layer.type}"
        style = dict(NEURON_LAYER_STYLE if _is_in_place(layer) else LAYER_STYLE_DEFAULT)
        if not _is_in_place(layer):
            style["fillcolor"] = choose_color_by_layertype(layer.type)
        label = get_layer_label(layer, rankdir, display_lrm=display_lrm)
        nodes[node] = pydot.Node(label, **style)
        for bottom in layer.bottom:
            nodes[bottom + "_blob"] = pydot.Node(bottom, **BLOB_STYLE)
            edges.append((bottom + "_blob", node, '""'))
        for top in layer.top:
            nodes[top + "_blob"] = pydot.Node(top)  # plain, unless a later layer reads it
            edges.append((node, top + "_blob", get_edge_label(layer) if label_edges else '""'))
    for node in nodes.values():
        graph.add_node(node)
    for source, target, label in edges:
        graph.add_edge(pydot.Edge(nodes[source], nodes[target], label=label))
    return graph


def draw_net(caffe_net, rankdir, ext="png", phase=None, display_lrm=False):
    """Returns the drawing of a net, in the format `ext`, as bytes."""
    graph = get_pydot_graph(caffe_net, rankdir, phase=phase, display_lrm=display_lrm)
    return graph.create(format=ext)


def draw_net_to_file(caffe_net, filename, rankdir="LR", phase=None, display_lrm=False):
    """Writes the drawing of a net to a file, in the format of its extension."""
    ext = filename[filename.rfind(".") + 1 :]
    with open(filename, "wb") as file:
        file.write(draw_net(caffe_net, rankdir, ext, phase, display_lrm))
