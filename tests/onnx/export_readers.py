#!/usr/bin/env python3
"""Runs one exported model in one reader of ONNX files, in a process of its own since readers crash.

    python tests/onnx/export_readers.py READER FOLDER RESULT.npz BUILD

FOLDER has m.onnx and in.npz. Writes the outputs under their names. Exit code 3: the reader refuses
the file; the last line of the standard error says why. Readers: `crema` (import to a prototxt, then
deploy run), `onnxruntime`, `openvino`, `opencv`, `ncnn` (converted by pnnx).
"""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx


class Refused(Exception):
    """The reader does not take the file."""


def graph_names(path):
    """Returns the names of the inputs and outputs of the file."""
    graph = onnx.load(path, load_external_data=False).graph
    constants = {value.name for value in graph.initializer}
    return ([value.name for value in graph.input if value.name not in constants],
            [value.name for value in graph.output])


def run_program(command, folder=None):
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder)
    if run.returncode < 0:
        raise Refused(f"{pathlib.Path(command[0]).name} ends by signal {-run.returncode}")
    if run.returncode != 0:
        lines = (run.stderr.strip() or run.stdout.strip() or "no message").splitlines()
        told = [line for line in lines if "error" in line.lower()] or lines
        raise Refused(told[-1])
    return run.stdout + run.stderr


def run_crema(path, inputs, outputs, build):
    with tempfile.TemporaryDirectory() as folder:
        shapes = ",".join(name + "=" + "x".join(map(str, value.shape))
                          for name, value in inputs.items())
        run_program([f"{build}/bin/import", path, "-o", folder, "--force", f"--shape={shapes}"])
        np.savez(f"{folder}/in.npz", **inputs)
        command = [f"{build}/bin/deploy", "run", f"--model={folder}/deploy.prototxt",
                   f"--input={folder}/in.npz", f"--output={folder}/out.npz", "--threads=1"]
        if os.path.exists(f"{folder}/weights.caffemodel"):
            command.append(f"--weights={folder}/weights.caffemodel")
        run_program(command)
        return dict(np.load(f"{folder}/out.npz"))


def run_onnxruntime(path, inputs, outputs, _):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known = {value.name for value in session.get_inputs()}
    return dict(zip(outputs, session.run(outputs, {k: v for k, v in inputs.items() if k in known})))


def run_openvino(path, inputs, outputs, _):
    import openvino
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    model = core.read_model(path)
    known = {name for value in model.inputs for name in value.names}
    request = core.compile_model(model, "CPU").create_infer_request()
    request.infer({k: v for k, v in inputs.items() if k in known})
    return {name: request.get_tensor(name).data.copy() for name in outputs}


def run_opencv(path, inputs, outputs, _):
    import cv2
    cv2.setNumThreads(1)
    net = cv2.dnn.readNetFromONNX(path)
    for name, value in inputs.items():
        net.setInput(value, name)
    return dict(zip(outputs, net.forward(outputs)))


def run_ncnn(path, inputs, outputs, _):
    import ncnn
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(path), f"{folder}/m.onnx")
        shapes = ",".join("[" + ",".join(map(str, value.shape)) + "]f32"
                          for value in inputs.values())
        pnnx = str(pathlib.Path(sys.executable).parent / "pnnx")
        run_program([pnnx, "m.onnx", f"inputshape={shapes}", "fp16=0"], folder)
        code = pathlib.Path(folder, "m_ncnn.py")
        if not code.exists():
            raise Refused("pnnx writes no ncnn model")
        # The written program tells which axis is the batch, and shapes that ncnn cannot hold.
        text = code.read_text()
        net = ncnn.Net()
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic",
                       "use_bf16_storage"):
            setattr(net.opt, option, False)
        net.opt.num_threads = 1
        if net.load_param(f"{folder}/m.ncnn.param") or net.load_model(f"{folder}/m.ncnn.bin"):
            raise Refused("ncnn does not load what pnnx wrote")
        extractor = net.create_extractor()
        for index, value in enumerate(inputs.values()):
            form = re.search(rf'ex\.input\("in{index}", (.*)\)$', text, re.M)
            if form is None:
                continue  # not read
            batch = re.search(r"batch_index=(\d+)", form[1])
            squeezed = re.search(r"squeeze\((\d+)\)", form[1])
            value = np.ascontiguousarray(value.squeeze(int(squeezed[1])) if squeezed else value)
            mat = ncnn.Mat(value, batch_index=int(batch[1])) if batch else ncnn.Mat(value)
            if extractor.input(f"in{index}", mat.clone()):
                raise Refused(f"ncnn does not take input {index}")
        made = {}
        for index, name in enumerate(outputs):
            state, mat = extractor.extract(f"out{index}")
            if state:
                raise Refused(f"ncnn does not compute output {index}")
            form = re.search(rf"out{index}\.numpy\(batch_index=(\d+)\)", text)
            made[name] = mat.numpy(batch_index=int(form[1])) if form else mat.numpy()
            made[name] = np.array(made[name])
        return made


READERS = {"crema": run_crema, "onnxruntime": run_onnxruntime, "openvino": run_openvino,
           "opencv": run_opencv, "ncnn": run_ncnn}


def main():
    reader, folder, result, build = sys.argv[1:5]
    path = str(pathlib.Path(folder) / "m.onnx")
    names, outputs = graph_names(path)
    given = np.load(pathlib.Path(folder) / "in.npz")
    inputs = {name: given[name] for name in names}
    try:
        with contextlib.redirect_stdout(sys.stderr):
            made = READERS[reader](path, inputs, outputs, build)
    except Exception as error:  # any complaint counts
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        print("\n" + " ".join(lines)[:2000], file=sys.stderr)
        sys.exit(3)
    np.savez(result, **made)


if __name__ == "__main__":
    main()
