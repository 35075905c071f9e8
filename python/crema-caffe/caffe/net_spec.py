"""Writes nets as Python expressions: n.conv1 = L.Convolution(n.data, kernel_size=3, ...)."""

from crema import _spec

from .proto import caffe_pb2


def param_name_dict():
    """Returns the field of LayerParameter ("convolution") of each message ("Convolution")."""
    names = {}
    for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields:
        if field.name.endswith("_param") and field.message_type is not None:
            type_name = field.message_type.name[: -len("Parameter")]
            names.setdefault(type_name, field.name[: -len("_param")])
    return names


def to_proto(*tops):
    """Returns the NetParameter of the layers that these tops need."""
    return _net_of(_spec.place_layers(tops, {}))


def _net_of(placed_layers):
    net = caffe_pb2.NetParameter()
    for layer, name, bottoms, tops in placed_layers:
        made = net.layer.add(name=name, type=layer.type_name, bottom=bottoms, top=tops)
        layer.assign(made)
    return net


def assign_proto(proto, name, val):
    """Sets a field of a message: lists become repeated fields, dicts messages.

    A value that is no list becomes a list of one if the field is repeated.
    """
    field = getattr(proto, name)
    if hasattr(field, "extend") and not isinstance(val, (list, tuple)):
        val = [val]
    if isinstance(val, (list, tuple)):
        for item in val:
            if isinstance(item, dict):
                added = field.add()
                for key, value in item.items():
                    assign_proto(added, key, value)
            else:
                field.append(item)
    elif isinstance(val, dict):
        for key, value in val.items():
            assign_proto(field, key, value)
    else:
        setattr(proto, name, val)


class Top(_spec.Top):
    """An output of a layer."""

    def to_proto(self):
        """Returns the NetParameter of the layers that this top needs."""
        return to_proto(self)


class Function(_spec.Function):
    """A layer: its type, its inputs (tops of others) and its fields."""

    make_top = Top

    def assign(self, layer):
        """Sets the fields of a LayerParameter: of the message of this type, or of the layer."""
        own = _param_names.get(self.type_name)
        for name, value in self.params.items():
            message = layer
            if not name.endswith("param") and own is not None:
                message = getattr(layer, own + "_param")
                if name not in message.DESCRIPTOR.fields_by_name:
                    message = layer
            assign_proto(message, name, value)


class NetSpec(_spec.Tops):
    """A net whose tops are its attributes; to_proto gives its NetParameter."""

    def to_proto(self):
        """Returns the net: layers and tops have the names of the attributes."""
        return _net_of(_spec.place_net(self.tops))


class Layers:
    """Makes layers: Layers().Convolution(bottom, kernel_size=3) returns the top."""

    def __getattr__(self, name):
        def make(*args, **kwargs):
            return Function(name, args, kwargs).result

        return make


class Parameters:
    """Names constants of fields: Parameters().Pooling.MAX."""

    def __getattr__(self, name):
        return getattr(caffe_pb2, name + "Parameter")


_param_names = param_name_dict()
layers = Layers()
params = Parameters()
