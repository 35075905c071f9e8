"""The messages of nets, solvers and data, as protobuf classes."""

from . import caffe_pb2

__all__ = ["caffe_pb2"]
