"""Writes crema/layers.pyi, the types of crema.layers, from the schema. Usage: FILE."""

from __future__ import annotations

import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from crema import _core
from crema._core import LayerType, SchemaField
from crema._schema import describe, fields_of, keywords_of, layer_type, own_message

HEAD = '''"""The layer types as functions; made by python/src/layer_stubs.py."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, overload

from typing_extensions import Unpack

from ._spec import LayerSpec, Top
'''
MANY = 4  # tops of a type that has any number of them, for which a tuple has a length
TYPES = {"bool": "bool", "string": "str | PathLike[str]", "bytes": "bytes"}
TYPES |= {"float": "float", "double": "float"}


def quoted(text: str, indent: str) -> str:
    """Returns a text as a docstring."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return textwrap.indent(f'"""{text}"""', indent)


def type_of(field: SchemaField) -> str:
    if field.is_message:
        text = "_" + field.type
    elif field.values:
        text = f"Literal[{', '.join(repr(name) for name, _ in field.values)}]"
    else:
        text = TYPES.get(field.type, "int")
    return f"{text} | Sequence[{text}]" if field.repeated else text


def is_reserved(field: SchemaField) -> bool:
    return keyword.iskeyword(field.name)  # lambda


def fields_class(name: str, bases: list[str], fields: list[SchemaField]) -> Iterator[str]:
    """Yields a class of fields."""
    reserved = [f"{field.name!r}: {type_of(field)}" for field in fields if is_reserved(field)]
    if reserved:
        bases = [*bases, f"{name}Reserved"]
        yield f"{bases[-1]} = TypedDict({bases[-1]!r}, {{{', '.join(reserved)}}}, total=False)"
    yield f"class {name}({', '.join(bases or ['TypedDict'])}, total=False):"
    for field in fields:
        if is_reserved(field):
            continue
        yield f"    {field.name}: {type_of(field)}"
        default = f" Default: {field.default}." if field.default else ""
        if field.doc:
            yield quoted(field.doc + default, "    ")
    if len(reserved) == len(fields):
        yield "    ..."


def bottoms_of(layer: LayerType, count: int) -> list[str]:
    """Returns names for bottoms, from their documentation."""
    names: list[str] = []
    for index in range(count):
        doc = layer.input_docs[index] if index < len(layer.input_docs) else ""
        found = re.match(r"(\w+(?: \w+)?)(?: \(optional\))?:", doc)
        name = found[1].replace(" ", "_") if found else ""
        usable = name.isidentifier() and not keyword.iskeyword(name) and name not in names
        names.append(name if usable else f"bottom{index}")
    return names


def signatures(layer: LayerType) -> Iterator[tuple[str, str, str]]:
    """Yields the bottoms, the number of tops and the result of each form of a type."""
    low, high = layer.inputs
    any_number = high >= 2**20
    names = bottoms_of(layer, low if any_number else high)
    bottoms = [f"{name}: Top{'' if i < low else ' = ...'}" for i, name in enumerate(names)]
    bottoms += ["/"] if bottoms else []
    if layer.outputs_equal_inputs:
        yield ", ".join([*bottoms, "*"]), "Literal[1] = 1", "Top"
        bottoms[-1:] = ["bottom1: Top", "/", "*more: Top"]
        yield ", ".join(bottoms), "int = ...", "tuple[Top, ...]"
        return
    others = "*more: Top" if bottoms else "*bottoms: Top"
    text = ", ".join([*bottoms, others if any_number else "*"])
    low, high = layer.outputs
    default = 1 if low <= 1 <= high else low
    for count in range(low, min(high, MANY) + 1):
        result = (
            ["LayerSpec", "Top"][count] if count < 2 else f"tuple[{', '.join(['Top'] * count)}]"
        )
        yield text, f"Literal[{count}]" + (f" = {count}" if count == default else ""), result
    if high > MANY:
        yield text, "int", "tuple[Top, ...] | Any"


def functions(layer: LayerType, fields: str) -> Iterator[str]:
    forms = list(signatures(layer))
    for index, (bottoms, ntop, result) in enumerate(forms):
        if len(forms) > 1:
            yield "@overload"
        arguments = f"{bottoms}, ntop: {ntop}, in_place: bool = False, **fields: Unpack[{fields}]"
        yield f"def {layer.name}({arguments}) -> {result}:"
        yield quoted(describe(layer), "    ") if index == 0 else "    ..."


def messages_in(message: str, found: dict[str, None]) -> None:
    """Adds the messages that fields of a message hold."""
    for field in fields_of(message).values():
        if field.is_message and field.type not in found and field.name not in ("layer", "layers"):
            found[field.type] = None
            messages_in(field.type, found)


def module() -> Iterator[str]:
    yield HEAD
    types = [layer_type(name) for name in _core.layer_types()]
    layer_fields = fields_of("LayerParameter")
    nested: dict[str, None] = {}
    messages_in("LayerParameter", nested)
    messages_in("NetParameter", nested)
    for message in nested:
        yield from fields_class("_" + message, [], list(fields_of(message).values()))
    net = [field for name, field in fields_of("NetParameter").items() if "layer" not in name]
    yield from fields_class("NetFields", [], net)

    # Fields of LayerParameter that every type takes, and no type under another meaning.
    common = [
        name
        for name in layer_fields
        if all(keywords_of(t.name).get(name, ("",))[0] is None for t in types)
        and not any(name in t.param_fields for t in types)
    ]
    yield from fields_class("_LayerFields", [], [layer_fields[name] for name in common])
    for layer in types:
        own = own_message(layer)
        bases = ["_LayerFields"] + (["_" + layer_fields[own].type] if own else [])
        more = [
            field
            for message, field in keywords_of(layer.name).values()
            if message is None and field.name not in common
        ]
        fields = f"_{layer.name}Fields"
        yield from fields_class(fields, bases, more)
        yield from functions(layer, fields)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(module()) + "\n", encoding="utf-8")
