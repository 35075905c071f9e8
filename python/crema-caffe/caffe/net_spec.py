"""Writes nets as Python expressions: n.conv1 = L.Convolution(n.data, kernel_size=3, ...)."""

from collections import Counter, OrderedDict

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
    return _net_of(tops, {})


def _net_of(tops, names):
    made = OrderedDict()
    autonames = Counter()
    for top in tops:
        top._to_proto(made, names, autonames)
    net = caffe_pb2.NetParameter()
    net.layer.extend(made.values())
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


class Top:
    """An output of a layer."""

    def __init__(self, fn, n):
        self.fn = fn
        self.n = n

    def to_proto(self):
        """Returns the NetParameter of the layers that this top needs."""
        return to_proto(self)

    def _to_proto(self, layers, names, autonames):
        return self.fn._to_proto(layers, names, autonames)


class Function:
    """A layer: its type, its inputs (tops of others) and its fields."""

    def __init__(self, type_name, inputs, params):
        self.type_name = type_name
        for index, top in enumerate(inputs):
            if not isinstance(top, Top):
                raise TypeError(f"{type_name} input {index} is not a Top (type is {type(top)})")
        self.inputs = inputs
        self.params = dict(params)
        self.ntop = self.params.pop("ntop", 1)
        self.in_place = self.params.pop("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def _automatic(self, autonames):
        autonames[self.type_name] += 1
        return self.type_name + str(autonames[self.type_name])

    def _get_top_name(self, top, names, autonames):
        if top not in names:
            names[top] = self._automatic(autonames)
        return names[top]

    def _get_name(self, names, autonames):
        if self not in names:
            names[self] = (
                self._get_top_name(self.tops[0], names, autonames)
                if self.ntop > 0
                else self._automatic(autonames)
            )
        return names[self]

    def _to_proto(self, layers, names, autonames):
        if self in layers:
            return
        layer = caffe_pb2.LayerParameter()
        layer.type = self.type_name
        for top in self.inputs:
            top._to_proto(layers, names, autonames)
            layer.bottom.append(layers[top.fn].top[top.n])
        if self.in_place:
            layer.top.extend(layer.bottom)
        else:
            layer.top.extend(self._get_top_name(top, names, autonames) for top in self.tops)
        layer.name = self._get_name(names, autonames)
        for name, value in self.params.items():
            self._assign(layer, name, value)
        layers[self] = layer

    def _assign(self, layer, name, value):
        """Sets a field of the message of this type, or of the layer."""
        own = _param_names.get(self.type_name)
        if not name.endswith("param") and own is not None:
            message = getattr(layer, own + "_param")
            if name in message.DESCRIPTOR.fields_by_name:
                assign_proto(message, name, value)
                return
        assign_proto(layer, name, value)


class _NoTop(AttributeError, KeyError):
    """A net has no top of a name: pycaffe raises KeyError, and hasattr() needs AttributeError."""

    __str__ = AttributeError.__str__


class NetSpec:
    """A net whose tops are its attributes; to_proto gives its NetParameter."""

    def __init__(self):
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name, value):
        self.tops[name] = value

    def __getattr__(self, name):
        tops = self.__dict__.get("tops", {})  # missing while a copy is made
        if name not in tops:
            raise _NoTop(f"the net has no top '{name}'")
        return tops[name]

    def __setitem__(self, key, value):
        self.tops[key] = value

    def __getitem__(self, item):
        return self.__getattr__(item)

    def __delitem__(self, name):
        del self.tops[name]

    def __delattr__(self, name):
        del self.tops[name]

    def to_proto(self):
        """Returns the net: layers and tops have the names of the attributes."""
        return _net_of(self.tops.values(), {top: name for name, top in self.tops.items()})


class Layers:
    """Makes layers: Layers().Convolution(bottom, kernel_size=3) returns the top."""

    def __getattr__(self, name):
        def make(*args, **kwargs):
            layer = Function(name, args, kwargs)
            if layer.ntop == 0:
                return layer
            return layer.tops[0] if layer.ntop == 1 else layer.tops

        return make


class Parameters:
    """Names constants of fields: Parameters().Pooling.MAX."""

    def __getattr__(self, name):
        return getattr(caffe_pb2, name + "Parameter")


_param_names = param_name_dict()
layers = Layers()
params = Parameters()
