#!/usr/bin/env python3
"""Runs exported models in ONNX Runtime and other readers, and compares them with Crema.

    python tests/onnx/export_check.py [--build=build] [--cases=FOLDER] [--table=bench/results/onnx_export.md]
        [--readers crema openvino opencv ncnn]

Needs onnx, onnxruntime and numpy; for --readers also openvino, opencv-python-headless below 5, ncnn
and pnnx. onnx_test writes the cases: every net of models/ with random
weights, every recorded case of tests/conformance, every sample of every layer type. The nets of
--nets=NET=WEIGHTS are exported by `deploy`. A case passes if onnx.checker takes it and every output
of ONNX Runtime is within 1e-4 of the largest value of Crema's. The other readers get the nets and
the recorded cases; `crema` imports the file to a prototxt, which must give the same to 1e-6.
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
ROUND_TRIP = 1e-6
# (reader, case): the reason of a difference, if it is the reader's.
NOTES = {("opencv", f"recorded-{case}"): reason for case, reason in {
    "lrn_within": "ignores count_include_pad unless PyTorch wrote the file",
    "pool_ave_pad": "ignores count_include_pad unless PyTorch wrote the file",
    "reduction_asum": "a blob of one axis becomes a column, and a product with a constant a row of wrong values",
    "reduction_mean": "as reduction_asum",
    "reduction_sum": "as reduction_asum",
}.items()}
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


def fitting(got, want):
    """Gives `got` the shape of `want` if their elements are as many: readers drop or add axes."""
    return got.reshape(want.shape) if got.size == want.size else got


def check_in(reader, folder, build, seconds):
    """Runs a reader in a process. Returns (state, largest difference, why)."""
    if (folder / "refused.txt").exists():
        return "refused", None, "not exported"
    with tempfile.TemporaryDirectory() as made:
        result = pathlib.Path(made) / "out.npz"
        script = pathlib.Path(__file__).parent / "export_readers.py"
        try:
            run = subprocess.run([sys.executable, str(script), reader, str(folder), str(result),
                                  str(build)], capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return "slow", None, f"more than {seconds} s"
        lines = run.stderr.decode(errors="replace").strip().splitlines()
        last = lines[-1].strip() if lines else "no message"
        if run.returncode == 3:
            return "refused", None, last
        if run.returncode != 0:
            return "crashed", None, f"exit code {run.returncode}: {last}"
        got, want = dict(np.load(result)), dict(np.load(folder / "out.npz"))
    tolerance = ROUND_TRIP if reader == "crema" else TOLERANCE
    worst, why = 0.0, ""
    for name, value in want.items():
        if name not in got:
            return "wrong", None, f"output '{name}' is missing"
        own = got[name] if reader in ("crema", "openvino") else fitting(got[name], value)
        found, note = difference(own, value)
        if found > worst or not np.isfinite(found):
            worst, why = found, f"{name}: {note or f'{found:.3g}'}"
    return ("passed", worst, "") if worst <= tolerance else ("wrong", worst, why)


def write_cases(build, cases):
    environment = dict(os.environ, CREMA_ONNX_CASES=str(cases))
    subprocess.run([str(build / "dev" / "onnx_test"), "--gtest_filter=ExportCases.*",
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


def summary(rows, states):
    """Lines of a table: the number of cases of each kind in each state."""
    counts = {}
    for name, (state, _, _) in rows.items():
        kind = counts.setdefault(name.split("-")[0], {})
        kind[state] = kind.get(state, 0) + 1
    lines = ["| cases | " + " | ".join(states) + " |", "|---" * (len(states) + 1) + "|"]
    for kind in sorted(counts):
        lines.append(f"| {kind} | " + " | ".join(str(counts[kind].get(s, 0)) for s in states) + " |")
    return lines


def cell(text):
    return text.replace("|", " ").replace("\n", " ")[:200]


def versions(readers):
    import importlib.metadata
    packages = {"openvino": ["openvino"], "opencv": ["opencv-python-headless"],
                "ncnn": ["ncnn", "pnnx"]}
    return ", ".join(f"{package} {importlib.metadata.version(package)}"
                     for reader in readers for package in packages.get(reader, []))


def readers_section(found):
    """Lines about the other readers: `found` has the rows of each."""
    states = ("passed", "refused", "wrong", "crashed", "slow")
    lines = ["", "## Other readers", "", versions(found) + ", each in a process of its own on one thread.",
             "`crema` is the round trip: `import` writes a prototxt and a caffemodel, and `deploy run` on them "
             f"differs by at most {ROUND_TRIP:g}.", "Cases that are not exported are left out."]
    for reader, rows in found.items():
        rows = {name: row for name, row in rows.items() if row[2] != "not exported"}
        lines += ["", f"### {reader}", ""] + summary(rows, states)
        failed = {name: row for name, row in rows.items() if row[0] != "passed"}
        if failed:
            lines += ["", "| case | state | reason |", "|---|---|---|"]
        for name, (state, _, why) in sorted(failed.items()):
            note = NOTES.get((reader, name))
            lines.append(f"| {name} | {state} | {note or cell(why)} |")
    return lines


def write_table(rows, found, path):
    lines = ["<!-- Made by tests/onnx/export_check.py; do not edit. -->", "# Export to ONNX", "",
             f"onnx {onnx.__version__} checks each file, ONNX Runtime {onnxruntime.__version__} runs it (CPU, "
             "two-core AMD EPYC machine). A case passes if the largest",
             f"difference from Crema's outputs is at most {TOLERANCE:g} of their largest value.", ""]
    lines += summary(rows, ("passed", "refused", "wrong", "checker", "runtime"))
    lines += ["", "`model`: the nets of models/ with random weights. `command`: nets with trained "
              "weights, written by `deploy export`.", "`recorded`: the cases of tests/conformance. `sample`: "
              "the samples of the layer types.", "", "## Refused or not passed", "",
              "| case | state | reason |", "|---|---|---|"]
    listed = {}
    for name in sorted(rows):
        state, _, why = rows[name]
        if state != "passed":  # samples of a type that are refused for one reason are one line
            what = "-".join(name.split("-")[:2]) if state == "refused" else name
            listed[(what, state, cell(why))] = None
    lines += [f"| {what} | {state} | {why} |" for what, state, why in listed]
    lines += readers_section(found) if found else []
    readers = list(found)
    lines += ["", "## Largest differences of nets and recorded cases", "",
              "| case | onnxruntime |" + "".join(f" {reader} |" for reader in readers),
              "|---" * (len(readers) + 2) + "|"]
    for name in sorted(rows):
        if rows[name][0] != "passed" or name.startswith("sample-"):
            continue
        cells = [rows[name]] + [found[reader].get(name, ("-", None, "")) for reader in readers]
        lines.append(f"| {name} | " + " | ".join(
            f"{worst:.2g}" if state == "passed" else state for state, worst, _ in cells) + " |")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def run_readers(readers, folders, build, seconds):
    found = {}
    for reader in readers:
        for folder in folders:
            row = check_in(reader, folder, build, seconds)
            found.setdefault(reader, {})[folder.name] = row
            if row[0] != "passed" and row[2] != "not exported":
                print(f"{reader} {folder.name}: {row[0]} {row[2][:300]}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--cases", type=pathlib.Path, help="folder to keep; default: a temporary one")
    parser.add_argument("--written", action="store_true", help="the cases are there already")
    parser.add_argument("--nets", nargs="*", default=[], metavar="NET=WEIGHTS")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--readers", nargs="*", default=[], help="crema openvino opencv ncnn")
    parser.add_argument("--seconds", type=int, default=300, help="limit of one run of a reader")
    parser.add_argument("--table")
    args = parser.parse_args()
    cases = args.cases or pathlib.Path(tempfile.mkdtemp())
    if not args.written:
        write_cases(args.build, cases)
    for spec in args.nets:
        export_net(args.build, cases, spec)
    folders = [f for f in sorted(cases.iterdir()) if args.only in f.name]
    rows = {}
    for folder in folders:
        rows[folder.name] = check(folder)
        state, worst, why = rows[folder.name]
        if state != "passed":
            print(f"{folder.name}: {state} {why}")
    nets = [folder for folder in folders if not folder.name.startswith("sample-")]
    found = run_readers(args.readers, nets, args.build.resolve(), args.seconds)
    if args.table:
        write_table(rows, found, args.table)
    states = [state for state, _, _ in rows.values()]
    print({state: states.count(state) for state in sorted(set(states))})
    if args.cases is None:
        shutil.rmtree(cases)
    if not args.only and len(rows) < LEAST_CASES:
        sys.exit(f"only {len(rows)} cases were found, expected {LEAST_CASES} or more")
    states += [row[0] for name, row in found.get("crema", {}).items()]
    if any(state not in ("passed", "refused") for state in states):
        sys.exit(1)


if __name__ == "__main__":
    main()
