#!/usr/bin/env python3
"""Runs exported models in ONNX Runtime and compares them with Crema.

    python tests/onnx/export_check.py [--build=build] [--cases=FOLDER] [--table=bench/results/onnx_export.md]

Needs onnx, onnxruntime and numpy. onnx_test writes the cases: every net of models/ with random
weights, every recorded case of tests/conformance, every sample of every layer type. The nets of
--nets=NET=WEIGHTS are exported by `deploy`. A case passes if onnx.checker takes it and every output
of ONNX Runtime is within 1e-4 of the largest value of Crema's.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

TOLERANCE = 1e-4
LEAST_CASES = 500  # fewer: the cases were not written


def difference(got, want):
    """The largest difference relative to the largest value; infinite for other shapes."""
    if got.shape != want.shape:
        return float("inf"), f"shape {got.shape} instead of {want.shape}"
    if want.size == 0:
        return 0.0, ""
    got, want = got.astype(np.float64), want.astype(np.float64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    rest = np.where(same, 0, np.abs(got - want))
    if not np.all(np.isfinite(rest)):
        return float("inf"), "NaN or infinity on one side"
    finite = want[np.isfinite(want)]
    return float(rest.max() / max(float(np.abs(finite).max()) if finite.size else 1.0, 1e-5)), ""


def check(folder):
    """Returns (state, largest difference, why)."""
    refused = folder / "refused.txt"
    if refused.exists():
        return "refused", None, refused.read_text().strip().splitlines()[0]
    path = str(folder / "m.onnx")
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:  # any complaint counts
        return "checker", None, str(error).strip().splitlines()[0][:200]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = dict(np.load(folder / "in.npz"))
        known = {i.name for i in session.get_inputs()}
        names = [o.name for o in session.get_outputs()]
        got = dict(zip(names, session.run(names, {k: v for k, v in inputs.items() if k in known})))
    except Exception as error:
        return "runtime", None, str(error).strip().splitlines()[0][:300]
    want = dict(np.load(folder / "out.npz"))
    worst, why = 0.0, ""
    for name in names:
        if name not in want:
            return "wrong", None, f"there is no output '{name}'"
        found, note = difference(got[name], want[name])
        if found > worst or not np.isfinite(found):
            worst, why = found, f"{name}: {note or f'{found:.3g}'}"
    return ("passed" if worst <= TOLERANCE else "wrong"), worst, "" if worst <= TOLERANCE else why


def write_cases(build, cases):
    environment = dict(os.environ, CREMA_ONNX_CASES=str(cases))
    subprocess.run([str(build / "bin" / "onnx_test"), "--gtest_filter=ExportCases.*",
                    "--gtest_brief=1"], env=environment, check=True)


def export_net(build, cases, spec):
    """Exports NET=WEIGHTS by the command and records its outputs."""
    net, weights = spec.split("=")
    folder = cases / ("command-" + pathlib.Path(net).resolve().parent.name)
    folder.mkdir(parents=True, exist_ok=True)
    deploy = str(build / "bin" / "deploy")
    run = subprocess.run([deploy, "export", f"--model={net}", f"--weights={weights}",
                          "--format=onnx", "--check=none", "-o", str(folder / "m.onnx")],
                         capture_output=True, text=True)
    if run.returncode != 0:
        (folder / "refused.txt").write_text(run.stderr or run.stdout or "no message")
        return
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"),
                                           providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    inputs = {}
    for blob in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in blob.shape]
        inputs[blob.name] = random.random(shape, dtype=np.float32)
    np.savez(folder / "in.npz", **inputs)
    subprocess.run([deploy, "run", f"--model={net}", f"--weights={weights}",
                    f"--input={folder / 'in.npz'}", f"--output={folder / 'out.npz'}"], check=True,
                   stdout=subprocess.DEVNULL)


def write_table(rows, path):
    counts = {}
    for name, (state, _, _) in rows.items():
        kind = name.split("-")[0]
        counts.setdefault(kind, {}).setdefault(state, 0)
        counts[kind][state] += 1
    lines = ["<!-- Made by tests/onnx/export_check.py; do not edit. -->", "# Export to ONNX", "",
             f"onnx {onnx.__version__} checks each file, ONNX Runtime {onnxruntime.__version__} runs it (CPU, "
             "two-core AMD EPYC machine). A case passes if the largest",
             f"difference from Crema's outputs is at most {TOLERANCE:g} of their largest value.", "",
             "| cases | " + " | ".join(["passed", "refused", "wrong", "checker", "runtime"]) + " |",
             "|---|---|---|---|---|---|"]
    for kind in sorted(counts):
        row = counts[kind]
        lines.append(f"| {kind} | " + " | ".join(
            str(row.get(s, 0)) for s in ("passed", "refused", "wrong", "checker", "runtime")) + " |")
    lines += ["", "`model`: the nets of models/ with random weights. `command`: nets with trained "
              "weights, written by `deploy export`.", "`recorded`: the cases of tests/conformance. `sample`: "
              "the samples of the layer types.", "", "## Refused or not passed", "",
              "| case | state | reason |", "|---|---|---|"]
    listed = {}
    for name in sorted(rows):
        state, _, why = rows[name]
        if state != "passed":  # samples of a type that are refused for one reason are one line
            what = "-".join(name.split("-")[:2]) if state == "refused" else name
            listed[(what, state, why.replace("|", " "))] = None
    lines += [f"| {what} | {state} | {why} |" for what, state, why in listed]
    lines += ["", "## Nets and recorded cases that passed", "", "| case | largest difference |",
              "|---|---|"]
    for name in sorted(rows):
        state, worst, _ = rows[name]
        if state == "passed" and not name.startswith("sample-"):
            lines.append(f"| {name} | {worst:.2g} |")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--cases", type=pathlib.Path, help="folder to keep; default: a temporary one")
    parser.add_argument("--written", action="store_true", help="the cases are there already")
    parser.add_argument("--nets", nargs="*", default=[], metavar="NET=WEIGHTS")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--table")
    args = parser.parse_args()
    cases = args.cases or pathlib.Path(tempfile.mkdtemp())
    if not args.written:
        write_cases(args.build, cases)
    for spec in args.nets:
        export_net(args.build, cases, spec)
    rows = {}
    for folder in sorted(cases.iterdir()):
        if args.only not in folder.name:
            continue
        rows[folder.name] = check(folder)
        state, worst, why = rows[folder.name]
        if state != "passed":
            print(f"{folder.name}: {state} {why}")
    if args.table:
        write_table(rows, args.table)
    states = [state for state, _, _ in rows.values()]
    print({state: states.count(state) for state in sorted(set(states))})
    if args.cases is None:
        shutil.rmtree(cases)
    if not args.only and len(rows) < LEAST_CASES:
        sys.exit(f"only {len(rows)} cases were found, expected {LEAST_CASES} or more")
    if any(state not in ("passed", "refused") for state in states):
        sys.exit(1)


if __name__ == "__main__":
    main()
