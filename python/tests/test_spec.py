import copy
import inspect
import pathlib
import pickle
import random
import re
import struct

import nets_for_tests
import numpy
import pytest

import crema
from crema import _schema
from crema import layers as L

MODELS = pathlib.Path(__file__).parents[2] / "models"


def pycaffe():
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    import caffe

    return caffe


def parsed(text):
    """Returns the NetParameter of a text, read by protobuf."""
    net = pycaffe().proto.caffe_pb2.NetParameter()
    from google.protobuf import text_format

    return text_format.Parse(str(text), net)


def net_of(*tops):
    """Returns a spec with these tops."""
    n = crema.NetSpec()
    for index, top in enumerate(tops):
        n[f"t{index}"] = top
    return n


# Names, order, tops.


def test_layers_are_named_by_attributes():
    n = crema.NetSpec(name="small", force_backward=True)
    n.data, n.label = L.DummyData(shape=[dict(dim=[2, 3]), dict(dim=2)], ntop=2)
    n.ip = L.InnerProduct(n.data, num_output=4, weight_filler=dict(type="xavier", std=1e-5))
    n.relu = L.ReLU(n.ip, in_place=True)
    n["a/b"] = L.SoftmaxWithLoss(n.relu, n.label, loss_weight=0.5, include=[dict(phase="TRAIN")])
    n.unused = L.Silence(n.label)
    assert (
        str(n)
        == inspect.cleandoc("""
        name: "small"
        force_backward: true
        layer {
          name: "data"
          type: "DummyData"
          top: "data"
          top: "label"
          dummy_data_param {
            shape {
              dim: 2
              dim: 3
            }
            shape {
              dim: 2
            }
          }
        }
        layer {
          name: "ip"
          type: "InnerProduct"
          bottom: "data"
          top: "ip"
          inner_product_param {
            num_output: 4
            weight_filler {
              type: "xavier"
              std: 1e-05
            }
          }
        }
        layer {
          name: "relu"
          type: "ReLU"
          bottom: "ip"
          top: "ip"
        }
        layer {
          name: "a/b"
          type: "SoftmaxWithLoss"
          bottom: "ip"
          bottom: "label"
          top: "a/b"
          loss_weight: 0.5
          include {
            phase: TRAIN
          }
        }
        layer {
          name: "unused"
          type: "Silence"
          bottom: "label"
        }
    """)
        + "\n"
    )


def test_layers_without_a_name_get_one_that_is_free():
    n = crema.NetSpec()
    n.ReLU1 = L.Input(shape=dict(dim=[1, 2]))
    n.y = L.Eltwise(L.ReLU(n.ReLU1), L.ReLU(L.Sigmoid(n.ReLU1), in_place=True))
    assert re.findall('name: "(.*)"', str(n)) == ["ReLU1", "ReLU2", "Sigmoid1", "ReLU3", "y"]


def test_layers_that_no_attribute_needs_are_left_out():
    n = crema.NetSpec()
    n.x = L.Input(shape=dict(dim=[1, 2]))
    n.y = L.ReLU(n.x)
    n.y = L.Sigmoid(n.x)
    assert n.to_net("TEST").layer_names == ["x", "y"] and "Sigmoid" in str(n)
    del n.y
    assert n.to_net("TEST").layer_names == ["x"]


def test_nets_may_be_deeper_than_the_stack():
    n = crema.NetSpec()
    x = L.Input(shape=dict(dim=[1, 2]))
    for _ in range(5000):
        x = L.Power(x, in_place=True)
    n.x = x
    assert str(n).count("layer {") == 5001


def test_tops_may_have_the_names_of_others():
    n = crema.NetSpec()
    shape = [dict(dim=[2, 3]), dict(dim=[2])]
    n.data, n.label = L.DummyData(shape=shape, ntop=2, include=dict(phase="TRAIN"))
    n.test_data, n.test_label = L.DummyData(
        shape=[dict(dim=[7, 3]), dict(dim=[7])], top=["data", "label"], include=dict(phase="TEST")
    )
    n.sum = L.Reduction(n.data)
    assert n.to_net("TRAIN").layer_names == ["data", "sum"]
    test = n.to_net("TEST")
    assert test.layer_names == ["test_data", "sum"]
    assert dict(zip(test.blob_names, test.blob_list()))["data"].shape == (7, 3)


def test_the_number_of_tops_has_a_default():
    x = L.Input()
    assert isinstance(x, crema.Top)
    assert len(L.LSTMUnit(x, x, x)) == 2
    assert len(L.Convolution(x, x, num_output=1)) == 2
    assert not isinstance(L.Silence(x), (crema.Top, tuple))
    assert len(L.Data(ntop=2)) == len(L.Data(top=["a", "b"])) == 2


def test_nets_are_copied():
    n = crema.NetSpec(name="a")
    n.x = L.Input(shape=dict(dim=[1, 2]))
    for made in (copy.copy(n), copy.deepcopy(n), pickle.loads(pickle.dumps(n))):
        assert str(made) == str(n)


def test_nets_are_saved_and_opened(tmp_path):
    n = crema.NetSpec()
    n.x = L.Input(shape=dict(dim=[2, 3]))
    n.y = L.Power(n.x, scale=2, shift=1)
    n.save(tmp_path / "n.prototxt")
    saved = crema.Net.open(str(tmp_path / "n.prototxt"), 1)
    for net in (saved, n.to_net("TEST"), n.to_net(0)):
        blobs = dict(zip(net.blob_names, net.blob_list()))
        blobs["x"].data[...] = 3
        net.forward(0, 1)
        assert (blobs["y"].data == 7).all()
    n.z = L.InnerProduct(n.y)
    with pytest.raises(crema.Error, match="num_output") as raised:
        n.to_net("TEST")
    assert raised.value.layer == "z"


def test_nets_with_python_layers_run():
    n = crema.NetSpec()
    n.x = L.Input(shape=dict(dim=[2, 3]))
    n.y = L.Python(n.x, module="layers_for_tests", layer="Times", param_str="10")
    net = n.to_net("TEST")
    blobs = dict(zip(net.blob_names, net.blob_list()))
    blobs["x"].data[...] = 3
    net.forward(0, 1)
    assert (blobs["y"].data == 30).all()


def test_nets_are_trained(tmp_path):
    n = crema.NetSpec()
    filler = [dict(type="gaussian", std=1), dict(type="constant")]
    shape = [dict(dim=[8, 5]), dict(dim=[8])]
    n.data, n.label = L.DummyData(shape=shape, data_filler=filler, ntop=2)
    x = n.data
    for outputs in (6, 4):  # both branches of each layer share their weights
        fields = dict(num_output=outputs, weight_filler=dict(type="xavier"), bias_term=False)
        shared = [L.InnerProduct(x, param=dict(name=f"w{outputs}"), **fields) for _ in range(2)]
        x = n[f"sum{outputs}"] = L.Eltwise(*shared)
    n.loss = L.SoftmaxWithLoss(x, n.label)
    n.save(tmp_path / "net.prototxt")
    solver = crema.Solver.parse(
        f'net: "{tmp_path}/net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 3 '
        f'snapshot_prefix: "{tmp_path}/s" snapshot_after_train: false'
    )
    blobs = {layer.name: layer.blobs for layer in solver.net.layer_list()}
    before = blobs["InnerProduct1"][0].data.copy()
    solver.step(3)
    one, other = (blobs[name][0].data for name in ("InnerProduct1", "InnerProduct2"))
    assert (one == other).all() and not (one == before).all()


# Values.


def test_values_may_be_of_numpy_and_pathlib():
    top = L.Convolution(
        L.Input(shape=dict(dim=numpy.array([1, 2, 8, 8]))),
        num_output=numpy.int64(4),
        ntop=numpy.int64(1),
        kernel_size=(3, 5),
        pad=range(2),
        bias_term=numpy.bool_(False),
        weight_filler=dict(std=numpy.float32(0.1), type="gaussian"),
        blobs=dict(data=numpy.arange(3, dtype=numpy.float32)),
        propagate_down=0,
    )
    text = " ".join(str(net_of(top)).split())
    assert "dim: 1 dim: 2 dim: 8 dim: 8" in text
    assert "num_output: 4 bias_term: false pad: 0 pad: 1 kernel_size: 3 kernel_size: 5" in text
    assert "std: 0.1 " in text and "data: 0 data: 1 data: 2" in text
    assert "propagate_down: false" in text
    assert 'source: "a/b"' in str(net_of(L.Data(source=pathlib.PurePosixPath("a") / "b")))


def test_messages_may_be_given_with_their_names():
    x = L.Input()
    alone = L.Convolution(x, num_output=1, kernel_size=3)
    both = L.Convolution(x, convolution_param=dict(num_output=1), kernel_size=3)
    assert str(net_of(alone)) == str(net_of(both))


def test_enums_may_be_numbers():
    x = L.Input()
    assert str(net_of(L.Pooling(x, pool=1))) == str(net_of(L.Pooling(x, pool="AVE")))


@pytest.mark.parametrize("name", ['"quoted"', "a\\b", "line\nand\ttab\x01\x7f", "é漢🙂", "'", ""])
def test_strings_are_read_as_they_were_written(name):
    n = crema.NetSpec(name=name)
    n.x = L.Input(shape=dict(dim=1))
    assert n.to_net("TEST").name == name
    assert parsed(n).name == name


def test_numbers_are_read_as_they_were_written():
    draw = random.Random(1)
    floats = [struct.unpack("f", draw.randbytes(4))[0] for _ in range(2000)]
    floats += [0.1, 1e-45, 3.4028235e38, -0.0, float("inf"), float("-inf"), 16777217, 2**100]
    floats = [value for value in floats if value == value]
    whole = [0, -1, 2**63 - 1, -(2**63)]
    n = net_of(L.Input(shape=dict(dim=whole)), L.Parameter(blobs=dict(data=floats)))
    read = parsed(n).layer
    assert list(read[0].input_param.shape[0].dim) == whole
    assert list(read[1].blobs[0].data) == [
        struct.unpack("f", struct.pack("f", v))[0] for v in floats
    ]
    doubles = [struct.unpack("d", draw.randbytes(8))[0] for _ in range(2000)]
    doubles = [value for value in doubles if value == value] + [0.1, 5e-324]
    n = net_of(L.Parameter(blobs=dict(double_data=doubles)))
    assert list(parsed(n).layer[0].blobs[0].double_data) == doubles


# Errors.

x, y = L.Input(), L.Input()
WRONG = {
    "Convolution has no field 'kernal_size' (did you mean 'kernel_size'?)": (
        TypeError,
        lambda: L.Convolution(x, kernal_size=3),
    ),
    "Convolution: weight_filler has no field 'typ' (did you mean 'type'?)": (
        TypeError,
        lambda: L.Convolution(x, weight_filler=dict(typ="xavier")),
    ),
    "Convolution: param[1] has no field 'lr_mul' (did you mean 'lr_mult'?)": (
        TypeError,
        lambda: L.Convolution(x, param=[dict(lr_mult=1), dict(lr_mul=2)]),
    ),
    "Convolution: num_output takes a whole number, not 3.0": (
        TypeError,
        lambda: L.Convolution(x, num_output=3.0),
    ),
    "Convolution: num_output takes a whole number, not True": (
        TypeError,
        lambda: L.Convolution(x, num_output=True),
    ),
    "Convolution: num_output takes a whole number, not None": (
        TypeError,
        lambda: L.Convolution(x, num_output=None),
    ),
    "Convolution: num_output takes a whole number from 0 to 4294967295, not -1": (
        ValueError,
        lambda: L.Convolution(x, num_output=-1),
    ),
    "Convolution: num_output takes a whole number, not a list": (
        TypeError,
        lambda: L.Convolution(x, num_output=[1, 2]),
    ),
    "Convolution: kernel_size[1] takes a whole number, not 'b'": (
        TypeError,
        lambda: L.Convolution(x, kernel_size=[1, "b"]),
    ),
    "Convolution: convolution_param.num_output takes a whole number, not 'b'": (
        TypeError,
        lambda: L.Convolution(x, convolution_param=dict(num_output="b")),
    ),
    "Convolution gets 'group' twice: alone and in convolution_param": (
        TypeError,
        lambda: L.Convolution(x, convolution_param=dict(group=1), group=2),
    ),
    "Convolution: weight_filler takes a dict, not 'xavier'": (
        TypeError,
        lambda: L.Convolution(x, weight_filler="xavier"),
    ),
    "Convolution: weight_filler.std takes a number, not '1'": (
        TypeError,
        lambda: L.Convolution(x, weight_filler=dict(std="1")),
    ),
    "Convolution: bias_term takes True or False, not 2": (
        TypeError,
        lambda: L.Convolution(x, bias_term=2),
    ),
    "ReLU: negative_slope takes numbers of type float, not 1e+300": (
        ValueError,
        lambda: L.ReLU(x, negative_slope=1e300),
    ),
    "ReLU: name takes Unicode, not '\\udc80'": (ValueError, lambda: L.ReLU(x, name="\udc80")),
    "Data: source takes a string, not b'a'": (TypeError, lambda: L.Data(source=b"a")),
    "Eltwise: operation has no value 'SUMM' (did you mean 'SUM'?)"
    "; it takes one of PROD, SUM, MAX": (
        ValueError,
        lambda: L.Eltwise(x, y, operation="SUMM"),
    ),
    "Pooling: pool takes one of MAX, AVE, STOCHASTIC, not 1.5": (
        TypeError,
        lambda: L.Pooling(x, pool=1.5),
    ),
    "Pooling: pool takes one of MAX, AVE, STOCHASTIC, not 7": (
        ValueError,
        lambda: L.Pooling(x, pool=7),
    ),
    "SoftmaxWithLoss has no field 'ignore_label'; write loss_param=dict(ignore_label=...)": (
        TypeError,
        lambda: L.SoftmaxWithLoss(x, y, ignore_label=255),
    ),
    "ReLU has no field 'pooling_param'; it reads relu_param": (
        TypeError,
        lambda: L.ReLU(x, pooling_param={}),
    ),
    "AbsVal has no field 'relu_param'; it has no parameters": (
        TypeError,
        lambda: L.AbsVal(x, relu_param={}),
    ),
    "ReLU has no field 'bottom': give the bottoms as positional arguments": (
        TypeError,
        lambda: L.ReLU(bottom="x"),
    ),
    "ReLU input 0 is not a Top (type is <class 'str'>)": (TypeError, lambda: L.ReLU("x")),
    "SoftmaxWithLoss takes 2 bottoms, not 1": (TypeError, lambda: L.SoftmaxWithLoss(x)),
    "Concat takes 1 or more bottoms, not 0": (TypeError, lambda: L.Concat()),
    "LSTM takes 2 to 5 bottoms, not 1": (TypeError, lambda: L.LSTM(x)),
    "ReLU has 1 top; ntop is 2": (ValueError, lambda: L.ReLU(x, ntop=2)),
    "Slice has 1 or more tops; ntop is 1000000000000": (
        ValueError,
        lambda: L.Slice(x, ntop=10**12),
    ),
    "Convolution has a top for each bottom; ntop is 2": (
        ValueError,
        lambda: L.Convolution(x, ntop=2),
    ),
    "Eltwise is in place only with as many tops as bottoms": (
        ValueError,
        lambda: L.Eltwise(x, y, in_place=True),
    ),
    "Data: top has 1 of 2 names": (ValueError, lambda: L.Data(top="a", ntop=2)),
    "ReLU is in place: its tops have the names of its bottoms": (
        ValueError,
        lambda: L.ReLU(x, top="a", in_place=True),
    ),
    "Data: top[0] takes a string, not 3": (TypeError, lambda: L.Data(top=3)),
    "ReLU: ntop takes a whole number, and in_place True or False": (
        TypeError,
        lambda: L.ReLU(x, in_place="yes"),
    ),
    "there is no layer type 'Convolutoin' (did you mean 'Convolution'?)": (
        AttributeError,
        lambda: L.Convolutoin(x),
    ),
    "NetSpec has no field 'nmae' (did you mean 'name'?)": (
        TypeError,
        lambda: crema.NetSpec(nmae="a"),
    ),
    "NetSpec has no field 'layer': layers are attributes of the net": (
        TypeError,
        lambda: crema.NetSpec(layer=[]),
    ),
    "NetSpec: state.phase has no value 'Q'; it takes one of TRAIN, TEST": (
        ValueError,
        lambda: crema.NetSpec(state=dict(phase="Q")),
    ),
    "phase must be 'TRAIN' (0) or 'TEST' (1), not 'x'": (
        ValueError,
        lambda: crema.NetSpec().to_net("x"),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_mistakes_are_told_at_once(message):
    error, call = WRONG[message]
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


def test_attributes_are_tops():
    n = crema.NetSpec()
    n.data = x
    for name in ("save", "tops", "__class__"):
        with pytest.raises(AttributeError, match="a name of NetSpec itself"):
            setattr(n, name, x)
    n["save"] = y
    assert n["save"] is y
    with pytest.raises(TypeError, match="'a' is one top, not 2: write n.a, n.b ="):
        n.a = L.Data(ntop=2)
    with pytest.raises(TypeError, match="'a' must be a top of a layer, not int"):
        n.a = 3
    with pytest.raises(TypeError, match="the name of a top is a string, not 3"):
        n[3] = x
    for error in (AttributeError, KeyError):
        with pytest.raises(error, match="no top 'dta' .did you mean 'data'"):
            n.dta
    assert not hasattr(n, "label")
    assert {"data", "save"} <= set(dir(n))


def test_any_value_is_an_error_of_python():
    draw = random.Random(2)
    values = [None, 1, -1, 2**70, 1.5, float("nan"), "MAX", "\0", b"a", {}, {"type": "a"}, {1: 2}]
    values += [[], [1], [[1]], [{}], (x,), x, object(), len, {1}, iter([1]), numpy.zeros((2, 2))]
    refused = 0
    for _ in range(3000):
        name = draw.choice(crema.layer_types())
        bottoms = [draw.choice([x, x, x, y, *values[:3]]) for _ in range(draw.randrange(4))]
        keys = draw.choices([*_schema.keywords_of(name), "ntop", "in_place", "no"], k=2)
        try:
            made = getattr(L, name)(*bottoms, **{key: draw.choice(values) for key in keys})
        except (TypeError, ValueError):
            refused += 1
        else:
            str(net_of(*(made if isinstance(made, tuple) else [made])))
    assert 0 < refused < 3000


def test_the_schema_is_checked():
    for junk in (b"", b"junk"):
        with pytest.raises(crema.Error, match="crema.desc has no schema"):
            crema._core.read_schema(junk)
    with pytest.raises(AttributeError, match="no layer type 'A'"):
        _schema.layer_type("A")


# All types.


def test_every_type_is_a_function():
    assert dir(L) == crema.layer_types()
    for name in crema.layer_types():
        make = getattr(L, name)
        assert make.__name__ == name and make is getattr(L, name)
        assert _schema.layer_type(name).summary in make.__doc__
    pooling = inspect.signature(L.Pooling)
    assert str(pooling.parameters["stride"]) == "stride=1"
    assert "kernel_size (uint32): Window size" in L.Pooling.__doc__
    with pytest.raises(ImportError):
        from crema.layers import Nothing  # noqa: F401


def value_of(field, depth=0):
    """Returns a value for a field that sets everything in it, to a depth of three messages."""
    if field.is_message:
        inner = _schema.fields_of(field.type).values() if depth < 3 else []
        value = {f.name: value_of(f, depth + 1) for f in inner}
    elif field.values:
        value = field.values[-1][0]
    else:
        simple = {"string": 'a "b"', "bytes": b"\x00\xff'", "bool": True}
        value = simple.get(field.type, 0.1 if field.type in ("float", "double") else 7)
    return [value, value] if field.repeated else value


def test_input_has_no_fields_of_data_from_python():
    for field in ("python_param", "memory_data_param"):
        with pytest.raises(TypeError, match=f"Input has no field '{field}'; it reads input_param"):
            L.Input(**{field: {}})


@pytest.mark.parametrize("name", crema.layer_types())
def test_every_field_of_every_type_is_written(name):
    caffe = pycaffe()
    layer = _schema.layer_type(name)
    fields, nested = {}, {}
    for field, (message, described) in _schema.keywords_of(name).items():
        if field in layer.param_fields and field == _schema.own_message(layer):
            continue
        if field == "top":
            continue
        value = value_of(described)
        fields[field] = value
        if message is None:
            nested[field] = value
        else:
            nested.setdefault(message, {})[field] = value
    bottoms, tops = layer.inputs[0], max(layer.outputs[0], min(layer.outputs[1], 1))
    made = [L.Input() for _ in range(bottoms)]
    made = getattr(L, name)(*made, ntop=tops, **fields)
    written = parsed(net_of(*(made if isinstance(made, tuple) else [made]))).layer[-1]

    n = caffe.NetSpec()
    made = [caffe.layers.Input() for _ in range(bottoms)]
    made = getattr(caffe.layers, name)(*made, ntop=tops, **nested)
    for index, top in enumerate(made if isinstance(made, tuple) else [made]):
        n[f"t{index}"] = top
    assert written == n.to_proto().layer[-1]
    assert len(written.ListFields()) >= 10


# Whole nets.


@pytest.mark.parametrize("name", ["lenet", "googlenet"])
def test_caffe_writes_the_same_net(name):
    caffe = pycaffe()
    make = getattr(nets_for_tests, name)
    ours, theirs = crema.NetSpec(), caffe.NetSpec()
    make(ours, L)
    make(theirs, caffe.layers)
    assert parsed(ours) == theirs.to_proto()


def read_model(path):
    if not path.exists():
        pytest.skip("the reference nets are not beside the tests")
    return parsed(path.read_text())


def test_lenet_is_the_reference():
    n = crema.NetSpec(name="LeNet")
    nets_for_tests.lenet(n, L)
    after_data = {name: n.tops[name] for name in list(n.tops)[2:]}
    for name in after_data:
        del n[name]
    n.test_data, n.test_label = L.Data(
        name="mnist",
        top=["data", "label"],
        include=dict(phase="TEST"),
        transform_param=dict(scale=0.00390625),
        source="build/data/mnist_test_lmdb",
        batch_size=100,
        backend="LMDB",
    )
    n.tops.update(after_data)
    assert parsed(n) == read_model(MODELS / "lenet/train_val.prototxt")


def test_googlenet_is_the_reference():
    n = crema.NetSpec(name="GoogleNet")
    nets_for_tests.googlenet(n, L)
    read = read_model(MODELS / "googlenet/train_val.prototxt")
    del read.layer[1]  # the data of TEST
    assert parsed(n) == read


def as_dict(message):
    fields = {}
    for field, value in message.ListFields():
        many = getattr(field, "is_repeated", None)
        many = field.label == field.LABEL_REPEATED if many is None else many
        items = list(value) if many else [value]
        if field.message_type:
            items = [as_dict(item) for item in items]
        fields[field.name] = items if many else items[0]
    return fields


def rebuilt(read):
    """Returns the program of a net, run: each layer from its fields."""
    fields = as_dict(read)
    layers = fields.pop("layer")
    n = crema.NetSpec(**fields)
    blobs = {}
    for index, layer in enumerate(layers):
        name, kind = layer.pop("name"), layer.pop("type")
        bottoms, tops = layer.pop("bottom", []), layer.pop("top", [])
        layer |= dict(in_place=True) if tops and tops == bottoms else dict(top=tops)
        made = getattr(L, kind)(*(blobs[b] for b in bottoms), name=name, **layer)
        made = made if isinstance(made, tuple) else [made]
        blobs |= dict(zip(tops, made))
        n.tops.update({f"{index}.{number}": top for number, top in enumerate(made)})
    return n


@pytest.mark.parametrize(
    "path",
    sorted([*MODELS.glob("*/deploy.prototxt"), *MODELS.glob("*/train_val.prototxt")]),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_reference_nets_are_rebuilt(path):
    read = read_model(path)
    assert parsed(rebuilt(read)) == read


@pytest.mark.parametrize("name", ["lenet", "cifar10_full", "squeezenet_v1.1"])
def test_rebuilt_nets_are_planned_alike(name):
    path = MODELS / name / "deploy.prototxt"
    net = rebuilt(read_model(path)).to_net("TEST")
    assert net.to_text() == crema.Net.open(str(path), 1).to_text()
