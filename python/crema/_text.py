"""Writes messages as text (prototxt), from Python values that it checks."""

from __future__ import annotations

import operator
import os
import re
import reprlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._core import SchemaField, did_you_mean
from ._schema import fields_of

_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


def _quoted(text: str) -> str:
    def escape(found: re.Match[str]) -> str:
        char = found[0]
        return {"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(char, f"\\{ord(char):03o}")

    return '"' + re.sub(r'[\x00-\x1f\x7f"\\]', escape, text) + '"'


def _shortest(value: float, code: str, digits: Iterable[int]) -> str:
    """Returns the shortest decimal of the same float ("<f") or double ("<d")."""
    packed = struct.pack(code, value)
    texts = (f"{value:.{count}g}" for count in digits)
    return next((text for text in texts if struct.pack(code, float(text)) == packed), str(value))


def _number(field: SchemaField, value: Any) -> str:
    """Returns the text of a number. Raises TypeError, ValueError, OverflowError."""
    if isinstance(value, (bool, str, bytes)):
        raise TypeError
    if field.type in ("float", "double"):
        single = field.type == "float"
        digits = range(6, 10) if single else range(6, 18)
        return _shortest(float(value), "<f" if single else "<d", digits)
    low, high = _RANGES[field.type]
    number = operator.index(value)
    if not low <= number <= high:
        raise ValueError(f"{low} to {high}")
    return str(number)


def _noun(field: SchemaField) -> str:
    if field.values:
        return "one of " + ", ".join(name for name, _ in field.values)
    nouns = {"bool": "True or False", "float": "a number", "double": "a number"}
    nouns |= {"string": "a string", "bytes": "bytes"} | dict.fromkeys(_RANGES, "a whole number")
    return "a dict" if field.is_message else nouns[field.type]


def _scalar(field: SchemaField, value: Any, place: str) -> str:
    """Returns the text of a value that is no message."""
    wrong = TypeError(f"{place} takes {_noun(field)}, not {reprlib.repr(value)}")
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if field.values:
        names = [name for name, number in field.values if value == name]
        if is_number:
            names = [name for name, number in field.values if value == number]
        if names:
            return names[0]
        if isinstance(value, str):
            hint = did_you_mean(value, [name for name, _ in field.values])
            raise ValueError(f"{place} has no value '{value}'{hint}; it takes {_noun(field)}")
        raise ValueError(str(wrong)) if is_number else wrong
    if field.type == "bool":
        if isinstance(value, bool) or (is_number and value in (0, 1)):
            return "true" if value else "false"
        raise wrong
    if field.type == "string":
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, str):
            raise wrong
        if re.search("[\ud800-\udfff]", value):
            raise ValueError(f"{place} takes Unicode, not {value!r}")
        return _quoted(value)
    if field.type == "bytes":
        if not isinstance(value, bytes):
            raise wrong
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    try:
        return _number(field, value)
    except OverflowError:
        raise ValueError(f"{place} takes numbers of type {field.type}, not {value!r}") from None
    except TypeError:
        raise wrong from None
    except ValueError as error:
        raise ValueError(f"{place} takes {_noun(field)} from {error}, not {value!r}") from None


def text_of(message: str, values: Mapping[str, Any], owner: str, path: str = "") -> Iterator[str]:
    """Yields the lines of a message, with its fields in the order of the schema.

    `owner` and `path` are for messages: "Convolution", "weight_filler.".
    """
    fields = fields_of(message)
    for name in values:
        if name not in fields:
            where = f"{owner}: {path[:-1]}" if path else owner
            raise TypeError(f"{where} has no field '{name}'{did_you_mean(str(name), list(fields))}")
    for name, field in fields.items():
        if name not in values:
            continue
        value = values[name]
        if hasattr(value, "tolist"):  # NumPy's arrays and scalars, and tensors
            value = value.tolist()
        place = f"{owner}: {path}{name}"
        is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        if is_list and not field.repeated:
            raise TypeError(f"{place} takes {_noun(field)}, not a list")
        for index, item in enumerate(value if is_list else [value]):
            if is_list:
                place = f"{owner}: {path}{name}[{index}]"
            if not field.is_message:
                yield f"{name}: {_scalar(field, item, place)}"
                continue
            if not isinstance(item, Mapping):
                raise TypeError(f"{place} takes a dict, not {reprlib.repr(item)}")
            yield name + " {"
            for line in text_of(field.type, item, owner, place[len(owner) + 2 :] + "."):
                yield "  " + line
            yield "}"
