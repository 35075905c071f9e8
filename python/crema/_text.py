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


_NOUNS = {"bool": "True or False", "float": "a number", "double": "a number"}
_NOUNS |= {"string": "a string", "bytes": "bytes"} | dict.fromkeys(_RANGES, "a whole number")


def _noun(field: SchemaField) -> str:
    if field.values:
        return "one of " + ", ".join(name for name, _ in field.values)
    return "a dict" if field.is_message else _NOUNS[field.type]


def _wrong(field: SchemaField, value: Any, place: str) -> TypeError:
    return TypeError(f"{place} takes {_noun(field)}, not {reprlib.repr(value)}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _enum(field: SchemaField, value: Any, place: str) -> str:
    if isinstance(value, str):
        names = [name for name, _ in field.values]
        if value not in names:
            hint = f"{did_you_mean(value, names)}; it takes {_noun(field)}"
            raise ValueError(f"{place} has no value '{value}'{hint}")
        return value
    if not _is_whole(value):
        raise _wrong(field, value, place)
    for name, number in field.values:
        if value == number:
            return name
    raise ValueError(str(_wrong(field, value, place)))


def _scalar(field: SchemaField, value: Any, place: str) -> str:
    """Returns the text of a value that is neither a message nor an enum."""
    if field.type == "bool" and (isinstance(value, bool) or _is_whole(value) and value in (0, 1)):
        return "true" if value else "false"
    if field.type == "bytes" and isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    if field.type == "string":
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        if isinstance(text, str):
            if re.search("[\ud800-\udfff]", text):
                raise ValueError(f"{place} takes Unicode, not {text!r}")
            return _quoted(text)
    if _NOUNS[field.type].endswith("number"):
        try:
            return _number(field, value)
        except OverflowError:
            text = f"{place} takes numbers of type {field.type}, not {value!r}"
            raise ValueError(text) from None
        except ValueError as error:
            text = f"{place} takes {_noun(field)} from {error}, not {value!r}"
            raise ValueError(text) from None
        except TypeError:
            pass
    raise _wrong(field, value, place)


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
                write = _enum if field.values else _scalar
                yield f"{name}: {write(field, item, place)}"
                continue
            if not isinstance(item, Mapping):
                raise _wrong(field, item, place)
            yield name + " {"
            for line in text_of(field.type, item, owner, place[len(owner) + 2 :] + "."):
                yield "  " + line
            yield "}"
