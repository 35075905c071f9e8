"""The layer types as functions that make layers of a NetSpec.

`layers.Convolution(bottom, num_output=20, kernel_size=5)` returns the top of a Convolution layer.
Bottoms are positional arguments. Keyword arguments are the fields of the layer's own message
(ConvolutionParameter) and those of LayerParameter (name, loss_weight, param, include, ...);
messages are dicts, repeated fields lists (or a single value), enums names. Besides them:

    ntop      number of tops: several come as a tuple; without any the layer itself is returned
    top       names of the tops in the net, instead of those of its attributes
    in_place  True: the tops are the bottoms
"""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from . import _core
from ._schema import describe, keywords_of, layer_type
from ._spec import LayerSpec, Top

if TYPE_CHECKING:
    from inspect import Signature
    from typing import TypedDict

    class NetFields(TypedDict, total=False):
        """The fields of a net; layers.pyi, which the build makes, has them and all types."""


class _Text:
    """A default value that is shown as it is written in a net."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(name: str) -> Signature:
    from inspect import Parameter, Signature

    fields = [field for message, field in keywords_of(name).values() if message is not None]
    own = [field for field in fields if not iskeyword(field.name)]  # lambda
    shown = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=_Text(field.default or "unset"))
        for field in own
    ]
    bottoms = Parameter("bottoms", Parameter.VAR_POSITIONAL)
    return Signature([bottoms, *shown, Parameter("fields", Parameter.VAR_KEYWORD)])


def _documentation(name: str) -> str:
    lines = [describe(layer_type(name)), "", "Fields:"]
    for message, field in keywords_of(name).values():
        if message is not None or field.name in layer_type(name).param_fields:
            kind = ("list of " if field.repeated else "") + field.type
            default = f" = {field.default}" if field.default else ""
            lines.append(f"    {field.name} ({kind}{default}): {field.doc}")
    return "\n".join(lines)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    layer_type(name)

    def make(*bottoms: Top, **fields: Any) -> Any:
        return LayerSpec(name, bottoms, fields).result

    make.__name__ = make.__qualname__ = name
    make.__doc__ = _documentation(name)
    make.__dict__["__signature__"] = _signature(name)
    globals()[name] = make
    return make


def __dir__() -> list[str]:
    return _core.layer_types()
