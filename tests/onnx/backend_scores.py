#!/usr/bin/env python3
"""Runs ONNX's backend tests through the importer and writes the scoreboard.

Needs Python with onnx 1.23.2 and numpy, and the program build/dev/onnx_cases. The cases are those of
onnx.backend.test: node, simple, pytorch-converted and pytorch-operator. Whole numbers and booleans
travel as floats; outputs of float16 and bfloat16 are rounded to these types. A case whose weights are
inputs of its graph is tried up to four times: with all inputs as inputs, with those of whole numbers
and booleans as constants, with all but the first, and with all. The report says how many cases need
the last form, which is folded without a net.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

KINDS = {"node": 1700, "simple": 15, "pytorch-converted": 75, "pytorch-operator": 30}
NUMBERS = {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL}


class Case:
    def __init__(self, test):
        self.name, self.kind = test.name, test.kind
        self.rtol, self.atol = test.rtol, test.atol
        if test.model is not None:
            self.model = test.model
            self.inputs, self.outputs = test.data_sets[0]
        else:
            self.model = onnx.load(os.path.join(test.model_dir, "model.onnx"))
            self.inputs, self.outputs = read_data(self.model, test.model_dir)
        self.status, self.reason, self.folded = "failed", "", False
        nodes = [n for n in self.model.graph.node if n.op_type != "Constant"]
        self.op = nodes[0].op_type if len(nodes) == 1 else name_of(test.name)

    def is_plain(self):
        """All tensors are float32, int64 or bool; shapes are static; nothing else is there."""
        graph = self.model.graph
        if any("training" in a.name for n in graph.node for a in n.attribute):
            return False
        if any(n.domain not in ("", "ai.onnx") for n in graph.node):
            return False
        for value in list(graph.input) + list(graph.output):
            tensor = value.type.tensor_type
            if not value.type.HasField("tensor_type") or tensor.elem_type not in NUMBERS:
                return False
            if any(not d.HasField("dim_value") for d in tensor.shape.dim):
                return False
        return True


def name_of(test):
    return re.sub(r"^test_", "", test).split("_")[0]


def read_data(model, folder):
    def read(kind, values):
        arrays = []
        for i, value in enumerate(values):
            path = os.path.join(folder, "test_data_set_0", f"{kind}_{i}.pb")
            if not os.path.exists(path) or not value.type.HasField("tensor_type"):
                arrays.append(None)
                continue
            tensor = onnx.TensorProto()
            with open(path, "rb") as file:
                tensor.ParseFromString(file.read())
            arrays.append(numpy_helper.to_array(tensor))
        return arrays
    given = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in given]
    return read("input", inputs), read("output", model.graph.output)


def to_array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def to_float(array):
    with np.errstate(all="ignore"):
        return np.asarray(to_array(array).astype(np.float32), order="C")


class Attempt:
    """A case with some of its inputs as constants."""

    def __init__(self, case, constant):
        self.case = case
        self.model = onnx.ModelProto()
        self.model.CopyFrom(case.model)
        graph = self.model.graph
        given = {t.name for t in graph.initializer}
        values = [v for v in graph.input if v.name not in given]
        self.inputs = []
        for index, (value, array) in enumerate(zip(values, case.inputs)):
            if constant(index, array):
                tensor = onnx.TensorProto()
                tensor.CopyFrom(array if isinstance(array, onnx.TensorProto)
                                else numpy_helper.from_array(np.asarray(array)))
                tensor.name = value.name
                graph.initializer.append(tensor)
            else:
                self.inputs.append((value.name, to_float(array)))

    def write(self, folder):
        os.makedirs(folder)
        onnx.save(self.model, os.path.join(folder, "model.onnx"))
        with open(os.path.join(folder, "inputs.txt"), "w") as file:
            for index, (name, array) in enumerate(self.inputs):
                np.save(os.path.join(folder, f"input_{index}.npy"), array)
                file.write(f"{name}\tinput_{index}.npy\n")

    def judge(self, line, folder):
        """Returns the status and the reason of one line of onnx_cases."""
        words = line.split("\t")
        if words[0] != "ok":
            return words[0], words[1] if len(words) > 1 else ""
        made = {name: np.load(os.path.join(folder, f"output_{i}.npy"))
                for i, name in enumerate(words[1:])}
        for value, wanted in zip(self.model.graph.output, self.case.outputs):
            if wanted is None:
                return "refused", "sequences or optionals"
            wanted = to_array(wanted)
            got = made.get(value.name)
            if got is None:
                return "failed", f"output {value.name} is missing"
            if got.shape != wanted.shape:
                return "failed", f"{value.name} is {got.shape}, not {wanted.shape}"
            if wanted.dtype.itemsize == 2 and wanted.dtype.kind not in "iu":
                got = got.astype(wanted.dtype).astype(np.float64)
            if not np.allclose(got, wanted.astype(np.float64), self.case.rtol,
                               max(self.case.atol, 1e-7), equal_nan=True):
                with np.errstate(all="ignore"):
                    worst = np.nanmax(np.abs(got - wanted.astype(np.float64)))
                return "failed", f"{value.name} differs by {worst:.3g}"
        return "passed", ""


CHOICES = [lambda index, array: False,
           lambda index, array: to_array(array).dtype.kind in "iub",
           lambda index, array: index > 0,
           lambda index, array: True]


def run_all(program, folders):
    """Returns a line for each folder. A crash counts for the folder in which it happens."""
    lines = []
    while len(lines) < len(folders):
        rest = folders[len(lines):]
        done = subprocess.run([program], input="\n".join(rest) + "\n", text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        lines += done.stdout.splitlines()[:len(rest)]
        if len(lines) < len(folders):
            lines.append(f"failed\tthe program ended with {done.returncode}")
    return lines


def try_cases(program, cases, choice, work):
    attempts = []
    for number, case in enumerate(cases):
        folder = os.path.join(work, str(number))
        try:
            attempt = Attempt(case, choice)
            attempt.write(folder)
            attempts.append((case, attempt, folder))
        except Exception as error:  # a case of strings or sequences
            case.status, case.reason = "refused", f"harness: {error}"
    lines = run_all(program, [folder for _, _, folder in attempts])
    for (case, attempt, folder), line in zip(attempts, lines):
        try:
            status, reason = attempt.judge(line, folder)
        except Exception as error:
            status, reason = "failed", str(error)
        if case.reason == "" or status == "passed" or case.status == "refused":
            case.status, case.reason = status, reason
        shutil.rmtree(folder, ignore_errors=True)


def reason_key(reason):
    reason = re.sub(r"^[^:]*/model\.onnx: ", "", reason.split("|")[0])
    found = re.search(r"\): (.*)", reason)
    text = found.group(1) if found else reason
    text = re.sub(r"'[^']*'", "...", text)
    return re.sub(r"-?\d+(\.\d+)?", "n", text)[:90]


def share(cases):
    good = sum(c.status == "passed" for c in cases)
    return f"{good} of {len(cases)} ({100 * good / max(len(cases), 1):.1f} %)"


def report(cases):
    out = ["# ONNX's backend tests through the importer", "",
           f"Cases of onnx {onnx.__version__}, run by tests/onnx/backend_scores.py on a two-core AMD "
           "EPYC machine. *Plain* cases have", "float32, int64 and bool tensors and static shapes "
           "only. " + f"{sum(c.folded for c in cases)} cases pass only with all inputs as constants, "
           f"{sum(c.folded and c.is_plain() for c in cases)} of them plain.", "", "| kind | passed | failed | refused |", "|---|---|---|---|"]
    for kind in list(KINDS) + ["all", "plain"]:
        some = [c for c in cases if kind == "all" or c.kind == kind
                or (kind == "plain" and c.is_plain())]
        count = collections.Counter(c.status for c in some)
        out.append(f"| {kind} | {share(some)} | {count['failed']} | {count['refused']} |")
    out += ["", "## By operator", "", "| operator | passed | failed | refused |", "|---|---|---|---|"]
    by_op = collections.defaultdict(collections.Counter)
    for case in cases:
        by_op[case.op][case.status] += 1
    for op in sorted(by_op):
        count = by_op[op]
        out.append(f"| {op} | {count['passed']} | {count['failed']} | {count['refused']} |")
    for status in ("refused", "failed"):
        reasons = collections.defaultdict(list)
        for case in cases:
            if case.status == status:
                reasons[reason_key(case.reason)].append(case.name)
        out += ["", f"## {status.capitalize()}, by reason", "", "| cases | reason | operators |",
                "|---|---|---|"]
        ops = {c.name: c.op for c in cases}
        for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
            several = sorted({ops[name] for name in names})
            out.append(f"| {len(names)} | {reason.replace('|', '/')} | "
                       f"{', '.join(several[:6])}{' ...' if len(several) > 6 else ''} |")
    out += ["", "## Plain and simple cases that do not pass", ""]
    out += [f"- {c.name}: {reason_key(c.reason)}" for c in cases
            if c.status != "passed" and (c.kind == "simple" or c.is_plain())]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/onnx_cases")
    parser.add_argument("--output", help="the Markdown file to write")
    parser.add_argument("--json", help="file for the result of each case")
    parser.add_argument("--only", help="regular expression of case names")
    arguments = parser.parse_args()
    cases = []
    for kind, least in KINDS.items():
        tests = loader.load_model_tests(kind=kind)
        if not arguments.only and len(tests) < least:
            raise SystemExit(f"only {len(tests)} {kind} cases found, expected {least} and more")
        cases += [Case(t) for t in tests
                  if not arguments.only or re.search(arguments.only, t.name)]
    with tempfile.TemporaryDirectory() as work:
        for number, choice in enumerate(CHOICES):
            rest = [c for c in cases if c.status != "passed"]
            try_cases(arguments.program, rest, choice, work)
            for case in rest:
                case.folded = number == len(CHOICES) - 1 and case.status == "passed"
    print("\n".join(report(cases).splitlines()[4:14]))
    if arguments.output:
        with open(arguments.output, "w") as file:
            file.write(report(cases))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump([[c.name, c.kind, c.op, c.status, c.reason, c.is_plain()] for c in cases], file,
                      indent=0)


if __name__ == "__main__":
    main()
