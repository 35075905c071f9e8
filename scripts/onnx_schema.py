#!/usr/bin/env python3
"""Compares proto/onnx_model.proto with the schema of the onnx package; exits with 1 if they differ.

Needs protoc and a Python with the onnx package. Fields and values that only onnx has are listed,
and are no error: Crema does not read them.
"""

import pathlib
import subprocess
import sys
import tempfile

import onnx
from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent


def facts(messages, prefix=""):
    """Returns {path: number and type} of all fields and enum values."""
    found = {}
    for message in messages:
        path = prefix + message.name
        for field in message.field:
            type_name = field.type_name.rsplit(".", 1)[-1]
            packed = field.options.packed
            found[f"{path}.{field.name}"] = (field.number, field.type, field.label, type_name, packed)
        for enum in message.enum_type:
            for value in enum.value:
                found[f"{path}.{enum.name}.{value.name}"] = (value.number,)
        found.update(facts(message.nested_type, path + "."))
    return found


def main():
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["protoc", f"--proto_path={ROOT}/proto", f"--descriptor_set_out={file.name}",
                        "onnx_model.proto"], check=True)
        ours = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]
    theirs = descriptor_pb2.FileDescriptorProto()
    onnx.onnx_ml_pb2.DESCRIPTOR.CopyToProto(theirs)
    mine, reference = facts(ours.message_type), facts(theirs.message_type)
    wrong = [f"{path}: {fact}, onnx {onnx.__version__} has {reference.get(path)}"
             for path, fact in mine.items() if reference.get(path) != fact]
    print(f"{len(mine)} fields and values; only in onnx: "
          f"{', '.join(sorted(set(reference) - set(mine)))}")
    print("\n".join(wrong) or "no difference")
    return 1 if wrong or len(mine) < 140 else 0


if __name__ == "__main__":
    sys.exit(main())
