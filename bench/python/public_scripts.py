"""Runs public pycaffe scripts against the module caffe, and compares their numbers.

    PYTHONPATH=build/python:python/crema-caffe python bench/python/public_scripts.py \\
        --clones DIR --mnist DIR --bin build/bin [--work DIR] [name ...]

DIR of --clones holds checkouts of BVLC/caffe (caffe), DuinoDu/mtcnn (mtcnn), google/deepdream
(deepdream) and shelhamer/fcn.berkeleyvision.org (fcn). Needs jax, opencv-python-headless below 5,
h5py, scikit-learn, pandas, matplotlib and ipython beside crema and crema-caffe.

A notebook becomes a plain script, cell by cell. PORTS has every other line that is changed: idioms
of Python 2 and names that NumPy, scikit-learn and the like have dropped since. Numbers that a
notebook recorded are compared with ours; what depends on random weights is compared with JAX in
double precision, or with OpenCV.
"""

import argparse
import ast
import contextlib
import gzip
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time

os.environ.setdefault("MPLBACKEND", "agg")
import numpy as np

import caffe

PRINT = re.compile(r"^(\s*)print (?!\()(.*)$", re.M)  # print x, y
PORTS = {
    "01-learning-lenet": [
        ("test_interval = niter / 10", "test_interval = niter // 10"),
    ],
    "brewing-logreg": [
        ("import sklearn.linear_model\n", "import sklearn.linear_model, sklearn.model_selection\n"),
        ("loss='log', n_iter=1000", "loss='log_loss', max_iter=1000"),
        ("shutil.rmtree(dirname)", "pass  # the comparison reads the files"),
    ],
    "net_surgery": [],
    "deepdream": [
        ("from cStringIO import StringIO", "from io import BytesIO as StringIO"),
        ("xrange", "range"),
        # Less of the same work.
        ("iter_n=10, octave_n=4", "iter_n=1, octave_n=2"),
        ("range(100)", "range(1)"),
        ("frames/0029.jpg", "frames/0000.jpg"),
    ],
    "fcn/surgery.py": [],
    "fcn/vis.py": [("xrange", "range")],
    "fcn/infer.py": [],
    "fcn/net.py": [],
    "mtcnn/demo.py": [
        ("np.float)", "float)"),
        ("cv2.imshow('img', img)", "images.append((img, boundingboxes, points))"),
        ("ch = cv2.waitKey(0) & 0xFF", "ch = 0"),
        ('imglistfile = "imglist.txt"', 'imglistfile = "both.txt"'),
    ],
}
results = []


def record(name, what, difference, limit=1e-5):
    results.append(difference <= limit)
    print(f"| {name} | {what} | {difference:.1e} | {'' if results[-1] else 'FAILED'} |", flush=True)


def difference(ours, reference):
    """Returns the largest difference, relative to the largest value if that is above 1."""
    ours, reference = np.asarray(ours, float), np.asarray(reference, float)
    if ours.shape != reference.shape:
        return float("inf")
    return float(np.abs(ours - reference).max() / max(1, np.abs(reference).max()))


def port(name, text):
    text = PRINT.sub(r"\1print(\2)", text)
    for old, new in PORTS[name]:
        assert old in text, f"{name}: {old!r} is not there"
        text = text.replace(old, new)
    return text


def plain(source):
    """Returns the Python of a cell: magics are dropped, and !commands become os.system."""
    if source.startswith("%%timeit"):
        body = "".join("    " + line for line in source.splitlines(True)[1:])
        return f"def timed():\n{body}\n\ntimed()\n"
    source = re.sub(r"^%.*$", "", source, flags=re.M)
    return re.sub(r"^!(.*)$", lambda m: f"assert os.system({m[1]!r}) in (0, 256)", source,
                  flags=re.M)


def cells_of(path):
    with open(path) as file:
        notebook = json.load(file)
    for cell in notebook.get("cells") or notebook["worksheets"][0]["cells"]:
        if cell["cell_type"] != "code":
            continue
        outputs = []
        for output in cell["outputs"]:
            data = output.get("text") or output.get("data", {}).get("text/plain") or []
            outputs.append("".join(data))
        yield "".join(cell.get("source") or cell.get("input")), "".join(outputs)


def show_last(source):
    """Makes the last expression of a cell print its value, as a notebook does."""
    tree = ast.parse(source)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        return source
    last = tree.body[-1]
    lines = source.splitlines(True)
    before = "".join(lines[: last.lineno - 1]) + lines[last.lineno - 1][: last.col_offset]
    return f"{before}display_({ast.unparse(last.value)})\n"


def run_notebook(name, path):
    """Runs a notebook in the current folder. Returns its variables and (ours, recorded) texts."""
    variables = {"__name__": "__main__", "os": os,
                 "display_": lambda value: value is None or print(repr(value))}
    texts, script = [], []
    ported = port(name, "\n#CELL\n".join(plain(source) for source, _ in cells_of(path)))
    for source, (_, recorded) in zip(ported.split("\n#CELL\n"), cells_of(path)):
        script.append(source)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(show_last(source), f"{name}, cell {len(script)}", "exec"), variables)
        texts.append((printed.getvalue(), recorded))
    with open(name + ".py", "w") as file:
        file.write("\n\n".join(script))
    return variables, texts


def run_file(name, path, variables):
    with open(path) as file:
        text = port(name, file.read())
    sys.path.insert(0, os.getcwd())
    exec(compile(text, path, "exec"), variables)
    return variables


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+\.?\d*", re.sub(r"0x\w+|[a-z_]\w*", "", text))]


def compare_texts(name, texts, cells):
    for number, what in cells.items():
        ours, recorded = (numbers(text) for text in texts[number])
        record(name, f"{what}: as recorded", difference(ours, recorded))


def randomize(net, seed=0):
    """Gives a net weights for pixels, so that values have about the size 1 in all layers."""
    rng = np.random.default_rng(seed)
    for k, blobs in enumerate(net.params.values()):
        weights = blobs[0].data
        scale = np.sqrt(2 / np.prod(weights.shape[1:])) / (64 if k == 0 else 1)
        weights[...] = rng.standard_normal(weights.shape, np.float32) * np.float32(scale)
        for bias in list(blobs)[1:]:
            bias.data[...] = rng.standard_normal(bias.data.shape, np.float32) * 0.01


def net_text(path):
    from google.protobuf import text_format

    with open(path) as file:
        return text_format.Parse(file.read(), caffe.proto.caffe_pb2.NetParameter())


def mnist(folder, images, labels):
    def read(name, header):
        with gzip.open(f"{folder}/{name}.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    return read(images, 16).reshape(-1, 1, 28, 28) / 255.0, read(labels, 8)


def train(loss_of, parameters, batches, rate_of, decay=5e-4, momentum=0.9):
    """Caffe's SGD in double precision. Returns losses and parameters."""
    import jax

    step = jax.jit(jax.value_and_grad(loss_of))
    history = jax.tree.map(lambda p: 0 * p, parameters)
    losses = []
    for iteration, batch in enumerate(batches):
        loss, gradients = step(parameters, *batch)
        rate = rate_of(iteration)
        history = jax.tree.map(
            lambda h, g, p: momentum * h + rate * (g + decay * p), history, gradients, parameters)
        parameters = jax.tree.map(lambda p, h: p - h, parameters, history)
        losses.append(float(loss))
    return losses, parameters


def parameter_difference(net, parameters):
    return max(difference(ours.data, reference)
               for name, blobs in parameters.items()
               for ours, reference in zip(net.params[name], blobs))


def lenet(options):
    name = "01-learning-lenet"
    os.chdir("caffe/examples")
    variables, texts = run_notebook(name, "01-learning-lenet.ipynb")
    compare_texts(name, texts, {7: "shapes of blobs", 8: "shapes of weights"})
    print(f"{name}: accuracy of the linear net after 225 steps {variables['test_acc'][-1]:.3f}")

    import reference

    images, labels = mnist(options.mnist, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    _, test_labels = mnist(options.mnist, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    for cell, first in ((10, labels[:8]), (11, test_labels[:8])):  # files may have another order
        record(name, "first 8 labels: those of the files",
               difference(numbers(texts[cell][0]), first))
    caffe.set_random_seed(2)
    solver = caffe.SGDSolver("mnist/lenet_auto_solver.prototxt")
    net = net_text("mnist/lenet_auto_train.prototxt")

    def loss_of(parameters, data, label):
        return reference.run(net, parameters, {"data": data, "label": label})["loss"]

    batches = [(reference.double(images[i : i + 64]), labels[i : i + 64])
               for i in range(0, 20 * 64, 64)]
    start = reference.parameters_of(solver.net)
    losses, parameters = train(
        loss_of, start, batches, lambda i: 0.01 * (1 + 0.0001 * i) ** -0.75)
    ours = []
    for _ in batches:
        solver.step(1)
        ours.append(float(solver.net.blobs["loss"].data))
    record(name, "losses of the first 20 steps of LeNet: JAX", difference(ours, losses))
    record(name, "parameters after them: JAX", parameter_difference(solver.net, parameters))


def logreg(options):
    name = "brewing-logreg"
    os.chdir("caffe/examples")
    np.random.seed(0)
    variables, texts = run_notebook(name, "brewing-logreg.ipynb")
    for cell, what, recorded in ((2, "scikit-learn", 0.781), (6, "logistic regression", 0.770),
                                 (9, "hidden layer", 0.8375)):
        accuracy = numbers(texts[cell][0])[-1]
        record(name, f"accuracy, {what}: {accuracy:.3f}, recorded {recorded:.3f} (random split)",
               abs(accuracy - recorded), 0.02)

    import jax
    import reference

    x = reference.double(np.float32(variables["X"]))
    y = jax.numpy.asarray(variables["y"])
    for file, steps in (("logreg", 10000), ("nonlinear_logreg", 100)):
        solver = caffe.get_solver(f"examples/hdf5_classification/{file}_solver.prototxt")
        net = net_text(str(solver.param.train_net))

        def loss_of(parameters, first):
            batch = {"data": jax.lax.dynamic_slice_in_dim(x, first, 10),
                     "label": jax.lax.dynamic_slice_in_dim(y, first, 10)}
            return reference.run(net, parameters, batch)["loss"]

        _, parameters = train(
            loss_of, reference.parameters_of(solver.net),
            [(10 * i % 7500,) for i in range(steps)],
            lambda i: 0.01 * 0.1 ** (i // 5000))
        solver.step(steps)
        record(name, f"parameters of {file} after {steps} steps: JAX",
               parameter_difference(solver.net, parameters))


def caffenet_weights(folder):
    net = caffe.Net(folder + "deploy.prototxt", caffe.TEST)
    randomize(net)
    net.save(folder + "bvlc_reference_caffenet.caffemodel")


def surgery(options):
    import cv2

    name = "net_surgery"
    caffenet_weights("caffe/models/bvlc_reference_caffenet/")
    os.chdir("caffe/examples")
    variables, texts = run_notebook(name, "net_surgery.ipynb")
    words = [re.findall(r"'(\w+)'", text) for text in texts[1]]
    record(name, "names of blobs and parameters: as recorded", float(words[0] != words[1]))
    before, after = numbers(texts[3][0])
    record(name, "a bias of 1 added to the output mean: as recorded",
           abs(after - before - 1), 0.011)
    compare_texts(name, texts, {6: "shapes of InnerProduct weights",
                                7: "shapes of convolutional weights"})
    full, net = variables["net_full_conv"], variables["net"]
    record(name, "shape of the map: as recorded",
           difference(full.blobs["prob"].data.shape, (1, 1000, 8, 8)))
    deploy = "../models/bvlc_reference_caffenet/deploy.prototxt"
    weights = "../models/bvlc_reference_caffenet/bvlc_reference_caffenet.caffemodel"
    image = full.blobs["data"].data.copy()
    for what, text, model, data, ours in (
        ("the map", "net_surgery/bvlc_caffenet_full_conv.prototxt",
         "net_surgery/bvlc_caffenet_full_conv.caffemodel", image, full.blobs["prob"].data.copy()),
        ("CaffeNet", deploy, weights, image[:, :, 100:327, 100:327], None),
    ):
        peer = cv2.dnn.readNetFromCaffe(text, model)
        peer.setInput(np.ascontiguousarray(data))
        if ours is None:
            net.blobs["data"].reshape(*data.shape)
            ours = net.forward(data=data)["prob"]
        record(name, f"{what}: OpenCV", difference(ours, peer.forward("prob").reshape(ours.shape)))
    full.blobs["data"].reshape(1, 3, 227, 227)
    cast = full.forward(data=image[:, :, 100:327, 100:327])["prob"]
    record(name, "the convolutional net at 227 x 227: CaffeNet", difference(cast[:, :, 0, 0], ours))


def mtcnn(options):
    import cv2

    name = "mtcnn/demo.py"
    os.chdir("mtcnn")
    with open("both.txt", "w") as file:
        file.write("test1.jpg\ntest2.jpg\n")
    variables = {"__name__": "demo", "images": []}
    run_file(name, "demo.py", variables)
    with contextlib.redirect_stdout(io.StringIO()):
        variables["main"]()
    ours = list(variables["images"])

    class PeerBlob:
        def reshape(self, *shape):
            self.data = np.empty(shape, np.float32)

    class PeerNet:
        """A net of OpenCV behind the names of pycaffe that the script uses."""

        def __init__(self, text, weights, phase):
            self.net = cv2.dnn.readNetFromCaffe(text, weights)
            self.blobs = {"data": PeerBlob()}

        def forward(self):
            self.net.setInput(self.blobs["data"].data)
            names = self.net.getUnconnectedOutLayersNames()
            return dict(zip(names, self.net.forward(names)))

    class Peer:
        Net, TEST, set_mode_cpu = PeerNet, 1, staticmethod(lambda: None)

    variables["caffe"] = Peer
    variables["images"].clear()
    with contextlib.redirect_stdout(io.StringIO()):
        variables["main"]()
    for i, (one, other) in enumerate(zip(ours, variables["images"]), 1):
        record(name, f"{len(one[1])} faces of test{i}.jpg: OpenCV", difference(one[1], other[1]))
        record(name, f"their 5 points each: OpenCV", difference(one[2], other[2]))


def deepdream(options):
    name = "deepdream"
    folder = "caffe/models/bvlc_googlenet/"
    net = caffe.Net(folder + "deploy.prototxt", caffe.TEST)
    randomize(net)
    net.save(folder + "bvlc_googlenet.caffemodel")
    del net
    os.chdir("deepdream")
    np.random.seed(0)
    variables, texts = run_notebook(name, "dream.ipynb")
    shapes = [[re.findall(r"\(\d+, \d+, \d+\)", text)[-1] for text in texts[cell]]
              for cell in (5, 6)]
    record(name, "shape of the picture: as recorded", float(any(a != b for a, b in shapes)))

    import jax
    import reference

    net, end = variables["net"], "inception_4c/output"
    data = np.random.default_rng(1).standard_normal((1, 3, 96, 96), np.float32) * 60
    net.blobs["data"].reshape(*data.shape)
    net.blobs["data"].data[...] = data
    net.forward(end=end)
    variables["objective_L2"](net.blobs[end])
    net.backward(start=end)
    text, parameters = net_text("tmp.prototxt"), reference.parameters_of(net)

    def objective(x):
        return (reference.run(text, parameters, {"data": x}, end)[end] ** 2).sum() / 2

    gradient = jax.grad(objective)(reference.double(data))
    scale = float(np.abs(gradient).max())
    record(name, "gradient of the picture: JAX",
           difference(net.blobs["data"].diff / scale, gradient / scale))


def fcn(options):
    import cv2

    os.chdir("fcn")
    for split in ("train", "val"):
        shutil.copy(f"voc-fcn8s/{split}.prototxt", f"voc-fcn8s/{split}.theirs")
    os.chdir("voc-fcn8s")
    run_file("fcn/net.py", "net.py", {"__name__": "__main__"})
    for split in ("train", "val"):
        ours, theirs = (net_text(f"{split}.{end}") for end in ("prototxt", "theirs"))
        for net in ours, theirs:  # Python 2 had no order in a dict
            text = net.layer[0].python_param.param_str
            net.layer[0].python_param.param_str = str(sorted(ast.literal_eval(text).items()))
        record("fcn/net.py", f"{split}.prototxt: that of the repository", float(ours != theirs))
    os.chdir("..")
    vis = type(sys)("vis")
    sys.modules["vis"] = vis
    run_file("fcn/vis.py", "vis.py", vis.__dict__)
    helpers = run_file("fcn/surgery.py", "surgery.py", {})
    net = caffe.Net("voc-fcn8s/deploy.prototxt", caffe.TEST)
    randomize(net)
    helpers["interp"](net, [layer for layer in net.params if "up" in layer])
    net.save("voc-fcn8s/fcn8s-heavy-pascal.caffemodel")
    other = caffe.Net("voc-fcn8s/deploy.prototxt", caffe.TEST)
    with contextlib.redirect_stdout(io.StringIO()):
        helpers["transplant"](other, net)
    record("fcn/surgery.py", "parameters after transplant: those of the other net",
           max(difference(a.data, b.data) for layer in net.params
               for a, b in zip(other.params[layer], net.params[layer])))
    del net, other
    variables = run_file("fcn/infer.py", "infer.py", {"__name__": "__main__"})
    ours = variables["net"].blobs["score"].data
    peer = cv2.dnn.readNetFromCaffe(
        "voc-fcn8s/deploy.prototxt", "voc-fcn8s/fcn8s-heavy-pascal.caffemodel")
    peer.setInput(variables["in_"][np.newaxis])
    theirs = peer.forward("score")
    scale = np.abs(theirs).max()
    record("fcn/infer.py", "scores of 21 classes: OpenCV", difference(ours / scale, theirs / scale))


SCRIPTS = {"01-learning-lenet": lenet, "brewing-logreg": logreg, "net_surgery": surgery,
           "mtcnn": mtcnn, "deepdream": deepdream, "fcn": fcn}


def prepare(options):
    """Copies the clones, and writes the scripts that BVLC's notebooks call."""
    shutil.copytree(options.clones, options.work, dirs_exist_ok=True, symlinks=True)
    with contextlib.suppress(FileNotFoundError):  # the module of the clone is not used
        os.remove(f"{options.work}/caffe/python/caffe/__init__.py")
    commands = {
        "caffe/data/mnist/get_mnist.sh": "true",
        "caffe/examples/mnist/create_mnist.sh": "".join(
            f'rm -rf "examples/mnist/mnist_{kind}_lmdb"\n"{options.bin}/convert_mnist" -q '
            f"{options.mnist}/{stem}-images-idx3-ubyte.gz "
            f"{options.mnist}/{stem}-labels-idx1-ubyte.gz examples/mnist/mnist_{kind}_lmdb\n"
            for kind, stem in (("train", "train"), ("test", "t10k"))),
        "caffe/build/tools/caffe": f'shift\nexec "{options.bin}/train" -q "$@"',
    }
    for path, text in commands.items():
        path = f"{options.work}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\nset -e\n{text}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clones", required=True, type=os.path.abspath)
    parser.add_argument("--mnist", required=True, type=os.path.abspath)
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    parser.add_argument("--work", default="/tmp/public_scripts", type=os.path.abspath)
    parser.add_argument("names", nargs="*", default=list(SCRIPTS), metavar="name")
    options = parser.parse_args()
    prepare(options)
    if len(options.names) > 1:  # each in a process of its own
        arguments = ["--clones", options.clones, "--mnist", options.mnist, "--bin", options.bin,
                     "--work", options.work]
        codes = [subprocess.run([sys.executable, __file__, *arguments, name]).returncode
                 for name in options.names]
        sys.exit(any(codes))
    start = time.time()
    os.chdir(options.work)
    caffe.set_random_seed(1)
    SCRIPTS[options.names[0]](options)
    print(f"{options.names[0]}: {time.time() - start:.0f} s", flush=True)
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
