"""A net as ONNX served by NVIDIA's Triton (of the package nvidia-pytriton), computed by ONNX Runtime.

Usage: triton_peer.py NET.onnx HTTP_PORT GRPC_PORT INSTANCES MAX_BATCH
Prints "ready" when it answers. The model is `m`, its input and output have the names of the file.
"""
import signal
import sys

import numpy
import onnxruntime
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def make_runner(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given, wanted = session.get_inputs()[0], session.get_outputs()[0]

    @batch
    def run(**inputs):
        return session.run([wanted.name], {given.name: inputs[given.name]})

    return run, given, wanted


def tensor_of(value):
    return Tensor(name=value.name, dtype=numpy.float32, shape=tuple(value.shape[1:]))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the server it starts ends too
    path, http, grpc, instances, most = sys.argv[1], *map(int, sys.argv[2:6])
    runners = [make_runner(path) for _ in range(instances)]
    _, given, wanted = runners[0]
    config = TritonConfig(http_port=http, grpc_port=grpc, http_address="127.0.0.1",
                          grpc_address="127.0.0.1", allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind("m", [run for run, _, _ in runners], [tensor_of(given)], [tensor_of(wanted)],
                    config=ModelConfig(batching=True, max_batch_size=most,
                                       batcher=DynamicBatcher(max_queue_delay_microseconds=1000)))
        triton.run()
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
