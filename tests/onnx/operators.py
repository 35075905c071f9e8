#!/usr/bin/env python3
"""Writes the table of ONNX's operators in src/onnx/import_operators.cc anew.

    python tests/onnx/operators.py [--check]

Needs onnx. The table has the operators that src/onnx/import*.cc names. With --check, nothing is
written, and the exit code is 1 if the table is not that of the installed onnx.
"""
import argparse
import collections
import pathlib
import re
import sys
import textwrap

from onnx import defs

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "src" / "onnx"
TABLE = FOLDER / "import_operators.cc"
KINDS = {"bool": "b", "string": "s"}  # others: f for floats, i for whole numbers


def kind(name):
    return KINDS.get(name) or ("i" if "int" in name else "f")


def kinds_of(schemas, index):
    """Kinds that any opset takes; "?" if some are no tensors."""
    found = set()
    for schema in schemas:
        if index >= len(schema.inputs):
            continue
        type_name = schema.inputs[index].type_str
        allowed = next((c.allowed_type_strs for c in schema.type_constraints
                        if c.type_param_str == type_name), [type_name])
        for text in allowed:
            tensor = re.fullmatch(r"tensor\((\w+)\)", text)
            found.add(kind(tensor[1]) if tensor else "?")
    return "?" if "?" in found else "".join(sorted(found - {"s"})) or "s"


def interval(name, versions, all_versions):
    """The name, with the first opset that has it and the first after it that lacks it: `axes@9<13`."""
    first, last = min(versions), max(versions)
    later = [v for v in all_versions if v > last]
    since = f"@{first}" if first > all_versions[0] else ""
    return name + since + (f"<{later[0]}" if later else "")


def line_of(name, schemas):
    versions = [s.since_version for s in schemas]
    newest = schemas[-1]
    count = max(len(s.inputs) for s in schemas)
    names = [i.type_str for i in newest.inputs]
    letters = {}
    inputs = []
    for index in range(count):
        kinds = kinds_of(schemas, index)
        having = [s for s in schemas if index < len(s.inputs)]
        variable = names[index] if index < len(names) else None
        shared = names.count(variable) > 1 and len(kinds) > 1
        if shared:
            letters.setdefault(variable, "ABCDEFG"[len(letters)])
        word = (letters[variable] if shared else "") + kinds
        option = having[-1].inputs[index].option
        if option == defs.OpSchema.FormalParameterOption.Variadic:
            word = ("V" if having[-1].inputs[index].is_homogeneous and len(kinds) > 1 else "") + kinds + "*"
        inputs.append(interval(word, [s.since_version for s in having], versions))
    attributes = collections.defaultdict(list)
    for schema in schemas:
        for attribute in schema.attributes:
            attributes[attribute].append(schema.since_version)
    words = [interval(a, v, versions) for a, v in sorted(attributes.items())]
    text = " ".join([name] + inputs + (["|"] + words if words else []))
    return textwrap.wrap(text, 99, subsequent_indent=" ", break_long_words=False, break_on_hyphens=False)


def table():
    source = "".join(p.read_text() for p in FOLDER.glob("import*.cc") if p != TABLE)
    by_name = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and f'"{schema.name}"' in source:
            by_name[schema.name].append(schema)
    lines = []
    for name in sorted(by_name):
        lines += line_of(name, sorted(by_name[name], key=lambda s: s.since_version))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    old = TABLE.read_text()
    new = re.sub(r'(R"\(\n).*?(\)")', lambda m: m[1] + table() + "\n" + m[2], old, flags=re.S)
    if options.check:
        sys.exit(0 if new == old else "the table differs from that of the installed onnx")
    TABLE.write_text(new)


if __name__ == "__main__":
    main()
