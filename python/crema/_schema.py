"""The layer types of this build and their fields, from the registry and crema.desc."""

from __future__ import annotations

import os
from functools import cache

from . import _core
from ._core import LayerType, SchemaField, did_you_mean


@cache
def _messages() -> dict[str, dict[str, SchemaField]]:
    with open(os.path.join(os.path.dirname(__file__), "crema.desc"), "rb") as file:
        schema = _core.read_schema(file.read())
    return {name: {field.name: field for field in fields} for name, fields in schema.items()}


def fields_of(message: str) -> dict[str, SchemaField]:
    """Returns the fields of a message ("ConvolutionParameter") by name, in the schema's order."""
    return _messages()[message]


def layer_type(name: str) -> LayerType:
    """Returns a type of layers. Raises AttributeError, as layers.NAME does."""
    found = _core.layer_type(name)
    if found is None:
        raise AttributeError(
            f"there is no layer type '{name}'{did_you_mean(name, _core.layer_types())}"
        )
    return found


def own_message(layer: LayerType) -> str | None:
    """Returns the field of LayerParameter whose fields a layer takes as its own.

    That is the message named after the type (AnnotatedData), or the first one that it reads.
    """
    fields = fields_of("LayerParameter")
    wanted = (layer.alias_of or layer.name) + "Parameter"
    named = [name for name in layer.param_fields if fields[name].type == wanted]
    return next(iter(named + layer.param_fields), None)


@cache
def keywords_of(name: str) -> dict[str, tuple[str | None, SchemaField]]:
    """Returns what layers of a type take as keyword arguments.

    With each comes the message of LayerParameter that holds the field, or None.
    """
    layer = layer_type(name)
    own = own_message(layer)
    fields = fields_of("LayerParameter")
    keywords: dict[str, tuple[str | None, SchemaField]] = {}
    if own is not None:
        keywords = {field: (own, found) for field, found in fields_of(fields[own].type).items()}
    for field, found in fields.items():
        is_of_others = found.is_message and field.endswith("_param")
        if field in layer.param_fields or not (is_of_others or field in ("type", "bottom")):
            keywords.setdefault(field, (None, found))
    return keywords


def describe(layer: LayerType) -> str:
    """Returns the documentation of a type: purpose, formula, bottoms and tops."""
    parts = [layer.summary]
    if layer.formula:
        parts.append("\n".join("    " + line for line in layer.formula.splitlines()))
    for title, docs in (("Bottoms", layer.input_docs), ("Tops", layer.output_docs)):
        if docs:
            parts.append(
                "\n".join([title + ":", *(f"    {n}. {d}" for n, d in enumerate(docs, 1))])
            )
    return "\n\n".join(parts)
