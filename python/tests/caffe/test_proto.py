import copy
import pickle

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, text_format

from caffe.proto import caffe_pb2


def small_net():
    return text_format.Merge(
        'name: "x" layer { name: "a" type: "ReLU" include { phase: TEST } }',
        caffe_pb2.NetParameter(),
    )


def test_the_module_is_like_a_generated_one():
    assert (caffe_pb2.TRAIN, caffe_pb2.TEST) == (0, 1)
    assert caffe_pb2.Phase.Name(1) == "TEST" and caffe_pb2.Phase.Value("TRAIN") == 0
    assert caffe_pb2.PoolingParameter.AVE == 1
    assert caffe_pb2.PoolingParameter.PoolMethod.Name(0) == "MAX"
    assert caffe_pb2.V1LayerParameter.LayerType.Value("CONVOLUTION") == 4
    assert caffe_pb2.NetParameter.LAYER_FIELD_NUMBER == 100
    assert "NetParameter" in caffe_pb2.DESCRIPTOR.message_types_by_name
    assert isinstance(small_net().layer[0], caffe_pb2.LayerParameter)


def test_all_messages_and_nested_ones_can_be_made():
    messages = caffe_pb2.DESCRIPTOR.message_types_by_name
    for name in ("NetParameter", "SolverParameter", "BlobProto", "BlobShape", "Datum"):
        assert name in messages
    for name, descriptor in messages.items():
        made = getattr(caffe_pb2, name)
        made()
        for nested in descriptor.nested_types:
            getattr(made, nested.name)()


def test_messages_are_serialized_copied_and_pickled():
    net = small_net()
    assert caffe_pb2.NetParameter.FromString(net.SerializeToString()) == net
    assert copy.deepcopy(net) == net
    assert pickle.loads(pickle.dumps(net)) == net
    assert text_format.Parse(str(net), caffe_pb2.NetParameter()) == net


def test_the_legacy_shape_of_blobs_is_kept():
    blob = caffe_pb2.BlobProto(num=1, channels=2, height=1, width=3, data=np.arange(6.0))
    assert caffe_pb2.BlobProto.FromString(blob.SerializeToString()).data[5] == 5


def test_other_modules_may_define_the_same_messages():
    file = descriptor_pb2.FileDescriptorProto()
    caffe_pb2.DESCRIPTOR.CopyToProto(file)
    other = descriptor_pb2.FileDescriptorProto(name=file.name, package=file.package)
    other.message_type.add(name="NetParameter")
    descriptor_pool.Default().AddSerializedFile(other.SerializeToString())
    assert small_net().layer[0].name == "a"
