"""The messages of Crema's schema, which are Caffe's and more, under pycaffe's name.

The classes are made from the descriptors that the package crema installs, so that they fit any
version of protobuf. They live in a pool of their own: other modules may define Caffe's messages.
"""

from importlib import resources

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper


def _read():
    data = resources.files("crema").joinpath("crema.desc").read_bytes()
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return pool, pool.FindFileByName(files[-1].name)


def _class_of(message, pool):
    if hasattr(message_factory, "GetMessageClass"):
        made = message_factory.GetMessageClass(message)
    else:
        made = message_factory.MessageFactory(pool).GetPrototype(message)
    made.__module__ = __name__  # so that messages can be pickled
    for nested in message.nested_types:
        if not hasattr(made, nested.name):
            setattr(made, nested.name, _class_of(nested, pool))
    return made


_pool, DESCRIPTOR = _read()
for _name, _message in DESCRIPTOR.message_types_by_name.items():
    globals()[_name] = _class_of(_message, _pool)
for _name, _enum in DESCRIPTOR.enum_types_by_name.items():
    globals()[_name] = enum_type_wrapper.EnumTypeWrapper(_enum)
    globals().update((value.name, value.number) for value in _enum.values)
