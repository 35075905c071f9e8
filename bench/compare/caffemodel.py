"""Caffemodels, as compare_runner writes them, for those who have protobuf but no Crema."""
import numpy


def read(path, descriptors):
    """The NetParameter in `path`; `descriptors` is BUILD/proto/crema.desc."""
    # Running a net needs no protobuf, so its cold start does not load it.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet()
    with open(descriptors, "rb") as file:
        files.ParseFromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for schema in files.file:
        pool.Add(schema)
    net = message_factory.GetMessageClass(pool.FindMessageTypeByName("crema.NetParameter"))()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return net


def blobs(layer):
    """The learned blobs of a layer of that net."""
    return [numpy.array(blob.data, numpy.float32).reshape(blob.shape.dim) for blob in layer.blobs]
