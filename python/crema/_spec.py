"""Writes nets as Python expressions: n.conv1 = L.Convolution(n.data, kernel_size=3, ...)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

from ._core import Net, did_you_mean
from ._schema import fields_of, keywords_of, layer_type
from ._text import text_of

if TYPE_CHECKING:
    import os

    from typing_extensions import Unpack

    from .layers import NetFields


class Top:
    """An output of a layer: output `n` of layer `fn`."""

    def __init__(self, fn: Function, n: int):
        self.fn = fn
        self.n = n


class Function:
    """A layer: its type, its inputs (tops of others) and its fields."""

    make_top: type[Top] = Top
    top_names: list[str] = []  # if they are not those of the net's attributes

    def __init__(self, type_name: str, inputs: Sequence[Top], params: Mapping[str, Any]):
        self.type_name = type_name
        for index, top in enumerate(inputs):
            if not isinstance(top, Top):
                raise TypeError(f"{type_name} input {index} is not a Top (type is {type(top)})")
        self.inputs = inputs
        self.params = dict(params)
        self.ntop: int = self.params.pop("ntop", 1)
        self.in_place: bool = self.params.pop("in_place", False)
        self.tops = tuple(self.make_top(self, n) for n in range(self.ntop))

    @property
    def result(self) -> Any:
        """A single top; a tuple of several; the layer itself if it has none."""
        if self.ntop == 0:
            return self
        return self.tops[0] if self.ntop == 1 else self.tops


class PlacedLayer(NamedTuple):
    """A layer of a net, with the names that it has there."""

    layer: Any
    name: str
    bottoms: list[str]
    tops: list[str]


def place_layers(
    outputs: Iterable[Top | Function], names: Mapping[Any, str]
) -> Iterator[PlacedLayer]:
    """Yields the layers that `outputs` need, each after the ones that it reads.

    Tops (and layers without tops) that have no name in `names` get one: "ReLU1", "ReLU2".
    """
    counts: Counter[str] = Counter()
    taken = set(names.values())
    own_names: dict[Any, str] = dict(names)
    blobs: dict[Function, list[str]] = {}

    def name_of(made: Top | Function, type_name: str) -> str:
        while made not in own_names:
            counts[type_name] += 1
            name = type_name + str(counts[type_name])
            if name not in taken:
                own_names[made] = name
        return own_names[made]

    for output in outputs:
        stack = [output.fn if isinstance(output, Top) else output]
        while stack:
            layer = stack[-1]
            missing = next((top.fn for top in layer.inputs if top.fn not in blobs), None)
            if missing is not None:
                stack.append(missing)
                continue
            stack.pop()
            if layer in blobs:
                continue
            bottoms = [blobs[top.fn][top.n] for top in layer.inputs]
            own = [name_of(top, layer.type_name) for top in layer.tops or [layer]]
            tops = layer.top_names or (bottoms if layer.in_place else own[: layer.ntop])
            blobs[layer] = tops
            yield PlacedLayer(layer, own[0], bottoms, tops)


def place_net(tops: Mapping[str, Any]) -> Iterator[PlacedLayer]:
    """Yields the layers of a net whose tops have these names."""
    return place_layers(tops.values(), {top: name for name, top in tops.items()})


class _NoTop(AttributeError, KeyError):
    """A net has no top of a name: pycaffe raises KeyError, and hasattr() needs AttributeError."""

    __str__ = AttributeError.__str__


class Tops:
    """Outputs of layers, by name, as attributes and as items."""

    tops: dict[str, Any]

    def __init__(self) -> None:
        self.__dict__["tops"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getattr__(self, name: str) -> Any:
        tops = self.__dict__.get("tops", {})  # missing while a copy is made
        if name not in tops:
            raise _NoTop(f"the net has no top '{name}'{did_you_mean(name, list(tops))}")
        return tops[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.tops[name] = value

    def __getitem__(self, name: str) -> Any:
        return self.__getattr__(name)

    def __delitem__(self, name: str) -> None:
        del self.tops[name]

    def __delattr__(self, name: str) -> None:
        del self.tops[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tops]


def _count(limits: tuple[int, int], noun: str) -> str:
    low, high = limits
    text = str(low) if low == high else f"{low} or more" if high >= 2**20 else f"{low} to {high}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def _within(limits: tuple[int, int], number: int) -> bool:
    return limits[0] <= number <= limits[1]


class LayerSpec(Function):
    """A layer of a NetSpec, checked against the schema. crema.layers makes them."""

    def __init__(self, type_name: str, inputs: Sequence[Top], params: Mapping[str, Any]):
        layer = layer_type(type_name)
        names = params.get("top", [])
        self.top_names = list(names) if isinstance(names, (list, tuple)) else [names]
        ntop = 1 if _within(layer.outputs, 1) else layer.outputs[0]
        if layer.outputs_equal_inputs:
            ntop = max(1, len(inputs))
        ntop = params.get("ntop", len(self.top_names) or ntop)
        in_place = params.get("in_place", False)
        if not isinstance(ntop, SupportsIndex) or not isinstance(in_place, bool):
            raise TypeError(f"{type_name}: ntop takes a whole number, and in_place True or False")
        if not _within(layer.outputs, ntop):
            raise ValueError(f"{type_name} has {_count(layer.outputs, 'top')}; ntop is {ntop}")
        if self.top_names and in_place:
            raise ValueError(f"{type_name} is in place: its tops have the names of its bottoms")
        if self.top_names and len(self.top_names) != ntop:
            raise ValueError(f"{type_name}: top has {len(self.top_names)} of {ntop} names")
        super().__init__(type_name, inputs, {**params, "ntop": ntop})
        self.text(PlacedLayer(self, "", [], self.top_names))  # raises if a field is wrong
        if not _within(layer.inputs, len(inputs)):
            wanted = _count(layer.inputs, "bottom")
            raise TypeError(f"{type_name} takes {wanted}, not {len(inputs)}")
        if layer.outputs_equal_inputs and ntop != len(inputs):
            raise ValueError(f"{type_name} has a top for each bottom; ntop is {ntop}")
        if in_place and ntop != len(inputs):
            raise ValueError(f"{type_name} is in place only with as many tops as bottoms")

    def text(self, placed: PlacedLayer) -> str:
        """Returns the layer as text. Raises TypeError or ValueError for a wrong field."""
        values: dict[str, Any] = {"name": placed.name, "type": self.type_name}
        values |= {"bottom": placed.bottoms, "top": placed.tops}
        own: dict[str, Any] = {}
        own_name = ""
        for name, value in self.params.items():
            if name not in keywords_of(self.type_name):
                raise TypeError(f"{self.type_name} has no field '{name}'{self._hint(name)}")
            message = keywords_of(self.type_name)[name][0]
            if message is not None:
                own[name], own_name = value, message
            elif name != "top":
                values[name] = value
        if own:  # checked alone too, for errors that name the fields as they were given
            list(text_of(fields_of("LayerParameter")[own_name].type, own, self.type_name))
        given = values.get(own_name, {})
        if own and isinstance(given, Mapping):
            for name in own.keys() & given.keys():
                raise TypeError(f"{self.type_name} gets '{name}' twice: alone and in {own_name}")
            values[own_name] = {**given, **own}
        lines = text_of("LayerParameter", values, self.type_name)
        return "layer {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"

    def _hint(self, name: str) -> str:
        messages = layer_type(self.type_name).param_fields
        fields = fields_of("LayerParameter")
        if name == "type":
            return ": its type is the name of the function"
        if name == "bottom":
            return ": give the bottoms as positional arguments"
        for message in messages:
            if name in fields_of(fields[message].type):
                return f"; write {message}=dict({name}=...)"
        if name in fields:
            return "; it reads " + ", ".join(messages) if messages else "; it has no parameters"
        return did_you_mean(name, [*keywords_of(self.type_name), "ntop", "in_place"])


class NetSpec(Tops):
    """A net as Python writes it: attributes are the outputs of its layers.

        from crema import layers as L
        n = crema.NetSpec(name="small")
        n.data = L.Input(shape=dict(dim=[1, 3, 32, 32]))
        n.conv = L.Convolution(n.data, num_output=8, kernel_size=3)
        n.relu = L.ReLU(n.conv, in_place=True)

    Keyword arguments are the fields of the net (NetParameter). `str(n)` is its text (prototxt). A
    layer has the name of its first top, a blob that of the attribute; `n["a/b"]` is for names that
    no attribute can have. Wrong types raise TypeError, wrong values ValueError, names of layer
    types and tops that do not exist AttributeError. Not for several threads at once.
    """

    def __init__(self, **fields: Unpack[NetFields]):
        super().__init__()
        for name in fields.keys() & {"layer", "layers"}:
            raise TypeError(f"NetSpec has no field '{name}': layers are attributes of the net")
        self.__dict__["fields"] = dict(fields)
        self._head()

    def _head(self) -> str:
        return "".join(line + "\n" for line in text_of("NetParameter", self.fields, "NetSpec"))

    def __setattr__(self, name: str, value: Top | LayerSpec) -> None:
        if hasattr(NetSpec, name) or name in self.__dict__:
            raise AttributeError(f"'{name}' is a name of NetSpec itself; write n['{name}'] = ...")
        self[name] = value

    def __setitem__(self, name: str, value: Top | LayerSpec) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a top is a string, not {name!r}")
        if isinstance(value, tuple):
            raise TypeError(f"'{name}' is one top, not {len(value)}: write n.a, n.b = ...")
        if not isinstance(value, (Top, LayerSpec)):
            raise TypeError(f"'{name}' must be a top of a layer, not {type(value).__name__}")
        super().__setitem__(name, value)

    def __str__(self) -> str:
        return self._head() + "".join(placed.layer.text(placed) for placed in place_net(self.tops))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the text to a file."""
        text = str(self)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def to_net(self, phase: Literal["TRAIN", "TEST", 0, 1], threads: int = 0, seed: int = 1) -> Net:
        """Opens the net, without a file. Raises crema.Error with what is wrong in its text."""
        number = {"TRAIN": 0, "TEST": 1}.get(str(phase), phase)
        if number not in (0, 1):
            raise ValueError(f"phase must be 'TRAIN' (0) or 'TEST' (1), not {phase!r}")
        return Net.parse(str(self), int(number), threads, seed)
