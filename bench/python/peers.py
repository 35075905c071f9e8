"""Measures crema.Model beside ONNX Runtime, OpenVINO and ncnn, by their Python packages.

    PYTHONPATH=build/python python bench/python/peers.py [--rounds N] [--threads N]

Peers that cannot be imported are left out; OpenVINO needs onnx too. All run the same LeNet with the
same weights and must give the same outputs to 1e-5. They take turns in one process; the tables have
medians and quartiles of the rounds. For a result, let nothing else run on the machine.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import tempfile
import time

import numpy as np

import crema

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "prob" type: "Bias" bottom: "data" top: "prob"
  bias_param { filler { type: "constant" value: 1 } } }
"""


def lenet_text(batch):
    text = (ROOT / "models/lenet/deploy.prototxt").read_text()
    return text.replace("dim: 64", f"dim: {batch}", 1)


class Net:
    """A net as text of Caffe, with its weights, and as the peers need it."""

    def __init__(self, folder, text, shape):
        self.shape = shape
        self.prototxt = f"{folder}/net.prototxt"
        self.weights = f"{folder}/net.caffemodel"
        pathlib.Path(self.prototxt).write_text(text)
        net = crema.Net.open(self.prototxt, 1)
        net.save(self.weights)
        self.parameters = {layer.name: [blob.data.copy() for blob in layer.blobs]
                           for layer in net.layer_list() if layer.blobs}
        self.is_tiny = text == TINY
        self.folder = folder

    def onnx_file(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        nodes, constants = [], []

        def constant(name, array):
            constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            return name

        def add(kind, inputs, output, **fields):
            nodes.append(helper.make_node(kind, inputs, [output], **fields))

        def weights(name):
            return [constant(f"{name}.{i}", a) for i, a in enumerate(self.parameters[name])]

        if self.is_tiny:
            add("Add", ["data", *weights("prob")], "prob")
        else:
            add("Conv", ["data", *weights("conv1")], "c1")
            add("MaxPool", ["c1"], "p1", kernel_shape=[2, 2], strides=[2, 2])
            add("Conv", ["p1", *weights("conv2")], "c2")
            add("MaxPool", ["c2"], "p2", kernel_shape=[2, 2], strides=[2, 2])
            add("Flatten", ["p2"], "f")
            add("Gemm", ["f", *weights("ip1")], "i1", transB=1)
            add("Relu", ["i1"], "r1")
            add("Gemm", ["r1", *weights("ip2")], "i2", transB=1)
            add("Softmax", ["i2"], "prob", axis=1)
        outputs = [1, 1] if self.is_tiny else [self.shape[0], 10]
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("data", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info("prob", TensorProto.FLOAT, outputs)], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        path = f"{self.folder}/net.onnx"
        onnx.save(model, path)
        return path

    def ncnn_files(self):
        """Writes the text and the weights: a tag of 0 (float) before those of each layer."""
        if self.is_tiny:
            # In-place layers on an input of NumPy crash in ncnn 1.0.20261020: no BinaryOp.
            layers = ["Input data 0 1 data", "InnerProduct prob 1 1 data prob 0=1 1=1 2=1"]
            weights = ["one", "prob"]
            self.parameters["one"] = [np.ones(1, np.float32)]
        else:
            layers = [
                "Input data 0 1 data",
                "Convolution c1 1 1 data c1 0=20 1=5 5=1 6=500",
                "Pooling p1 1 1 c1 p1 0=0 1=2 2=2",
                "Convolution c2 1 1 p1 c2 0=50 1=5 5=1 6=25000",
                "Pooling p2 1 1 c2 p2 0=0 1=2 2=2",
                "InnerProduct i1 1 1 p2 i1 0=500 1=1 2=400000",
                "ReLU r1 1 1 i1 r1",
                "InnerProduct i2 1 1 r1 i2 0=10 1=1 2=5000",
                "Softmax prob 1 1 i2 prob 0=0",
            ]
            weights = ["conv1", "conv2", "ip1", "ip2"]
        text = "\n".join(["7767517", f"{len(layers)} {len(layers)}", *layers]) + "\n"
        pathlib.Path(f"{self.folder}/net.param").write_text(text)
        with open(f"{self.folder}/net.bin", "wb") as file:
            for name in weights:
                if name != "prob":
                    file.write(np.uint32(0).tobytes())
                for array in self.parameters[name]:
                    file.write(array.astype(np.float32).tobytes())
        return f"{self.folder}/net.param", f"{self.folder}/net.bin"


def run_crema(net, threads):
    model = crema.Model.from_caffe(net.prototxt, [net.weights], threads=threads)
    return lambda x: model.run({"data": x})["prob"]


def run_onnxruntime(net, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        net.onnx_file(), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(["prob"], {"data": x})[0]


def run_openvino(net, threads):
    import openvino

    core = openvino.Core()
    model = core.compile_model(core.read_model(net.onnx_file()), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    return lambda x: request.infer({0: x}, share_inputs=True)[0]


def run_ncnn(net, threads):
    import ncnn

    loaded = ncnn.Net()
    loaded.opt.num_threads = threads
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(loaded.opt, "use_" + name, False)
    text, weights = net.ncnn_files()
    loaded.load_param(text)
    loaded.load_model(weights)

    def run(x):  # one image at a time: ncnn has no batches
        outputs = []
        for image in x:
            extractor = loaded.create_extractor()
            data = ncnn.Mat(image)  # a view: both must live until the output is there
            extractor.input("data", data)
            outputs.append(np.array(extractor.extract("prob")[1]))
        return np.stack(outputs)

    run.keeps = loaded
    return run


PEERS = {"crema": run_crema, "ONNX Runtime": run_onnxruntime, "OpenVINO": run_openvino,
         "ncnn": run_ncnn}
MODULES = {"crema": ["crema"], "ONNX Runtime": ["onnxruntime", "onnx"],
           "OpenVINO": ["openvino", "onnx"], "ncnn": ["ncnn"]}


def is_there(peer):
    with contextlib.suppress(ImportError):
        for module in MODULES[peer]:
            __import__(module)
        return True
    print(f"{peer} is not there")
    return False


def seconds(call, x, count):
    start = time.perf_counter()
    for _ in range(count):
        call(x)
    return (time.perf_counter() - start) / count


def measure(text, shape, options, factor, unit):
    with tempfile.TemporaryDirectory() as folder:
        net = Net(folder, text, shape)
        calls = {name: make(net, options.threads)
                 for name, make in PEERS.items() if is_there(name)}
        x = np.random.default_rng(1).random(shape, np.float32)
        wanted = np.array(calls["crema"](x))
        for name, call in calls.items():
            error = np.abs(np.array(call(x)) - wanted).max()
            assert error < 1e-5, f"{name} differs by {error}"
        rounds = {name: [] for name in calls}
        counts = {name: max(1, int(0.05 / seconds(call, x, 3))) for name, call in calls.items()}
        for _ in range(options.rounds):
            for name, call in calls.items():
                rounds[name].append(factor(seconds(call, x, counts[name])))
        for name, values in rounds.items():
            low, _, high = statistics.quantiles(values, n=4)
            print(f"| {name} | {statistics.median(values):.4g} {unit} | {low:.4g} to {high:.4g} |",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    for title, text, shape, factor, unit in (
        ("a net of one element", TINY, (1, 1), lambda s: s * 1e6, "µs"),
        ("LeNet, one image", lenet_text(1), (1, 1, 28, 28), lambda s: s * 1e6, "µs"),
        ("LeNet, 64 images", lenet_text(64), (64, 1, 28, 28), lambda s: 64 / s, "images/s"),
    ):
        print(f"\n{title}, threads: {options.threads}\n\n| package | median | quartiles |\n"
              "|---|---|---|", flush=True)
        measure(text, shape, options, factor, unit)


if __name__ == "__main__":
    main()
