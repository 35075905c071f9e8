#!/usr/bin/env python3
"""Proves bfloat16 and int8 and times bfloat16 on a processor with AMX, in less than ten minutes.

    scripts/amx_check.py [BUILD] [--turns=3] [--anyway]

Prints a Markdown table each for
  - tests of the code that depends on AMX;
  - how many of oneDNN's primitives multiply by tiles, for nets in bfloat16;
  - the speed of bfloat16 relative to single precision, in turns: medians, and the least and the largest.
Exit code 1 if a test fails or no primitive uses tiles; 2 without AMX. --anyway runs on any
processor, to try the script. The tests must be built (`make tests`).
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = {
    "math": "*BF16*:*TileStandIn*:*BlockedBatchNorm*:*Pooling*",
    "plan": "BFloat16*:MemoryFormats*:UnusedBFloat16*",
    "runtime": "*BFloat16*",
    "implementations": "*/Convolution:*/InnerProduct",
    "quantization": "*",
}
NETS = {  # name: blob and shape of one image, passes of a turn
    "resnet50": ("data=%dx3x224x224", 8),
    "mobilenet_v1": ("data=%dx3x224x224", 30),
    "squeezenet_v1.1": ("data=%dx3x227x227", 30),
}
TRAINED = {  # name: shapes, passes of a turn
    "resnet50": ("data=8x3x224x224,label=8", 1),
    "googlenet": ("data=10x3x224x224,label=10", 1),
    "squeezenet_v1.1": ("data=8x3x227x227,label=8", 2),
}


def has_amx():
    return "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text()


def run_tests(build):
    """Prints the table of tests; returns whether all passed."""
    print("| tests | passed | skipped | result | seconds |\n|---|---|---|---|---|")
    good = True
    for program, pattern in TESTS.items():
        begin = time.monotonic()
        done = subprocess.run([build / f"dev/{program}_test", f"--gtest_filter={pattern}"],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        passed, skipped = (sum(line.startswith(word) for line in done.stdout.splitlines())
                           for word in ("[       OK ]", "[  SKIPPED ]"))
        fine = done.returncode == 0 and passed > 0
        good = good and fine
        print(f"| {program} {pattern} | {passed} | {skipped} | {'ok' if fine else '**failed**'} | "
              f"{time.monotonic() - begin:.0f} |", flush=True)
        if not fine:
            print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
    return good


def profile(build, net, shape, phase, precision, passes, warmup=2, verbose=False):
    """Returns the milliseconds of a pass and what oneDNN prints."""
    name = "train_val" if phase == "train" else "deploy"
    environment = dict(os.environ)
    if verbose:
        environment["DNNL_VERBOSE"] = environment["ONEDNN_VERBOSE"] = "1"
    done = subprocess.run(
        [build / "bin/profile", ROOT / f"models/{net}/{name}.prototxt", f"--shape={shape}",
         f"--phase={phase}", f"--precision={precision}", f"--iterations={passes}",
         f"--warmup={warmup}", "--json", "--quiet", "--peak_gbs=1", "--peak_gflops=1"],
        capture_output=True, text=True, check=True, env=environment)
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("{"))
    text = [line for line in lines[start:] if "_verbose," not in line]
    return json.loads("\n".join(text))["iteration"]["median_ms"], lines


def print_tiles(build):
    """Prints how many primitives use tiles; returns whether each net has some."""
    print("\n| bf16 | primitives | with AMX | implementations of the others |\n|---|---|---|---|")
    good = True
    cases = [(net, shape % 1, "test") for net, (shape, _) in NETS.items()]
    cases += [(net, shape, "train") for net, (shape, _) in TRAINED.items()]
    for net, shape, phase in cases:
        _, lines = profile(build, net, shape, phase, "BF16", 1, 0, verbose=True)
        fields = [line.split(",") for line in lines if ",exec,cpu," in line]
        kinds = [f[f.index("exec") + 2:f.index("exec") + 4] for f in fields]
        products = [name for kind, name in kinds if kind in ("convolution", "inner_product", "matmul")]
        tiles = sum("amx" in name for name in products)
        others = collections.Counter(name for name in products if "amx" not in name)
        good = good and tiles > 0
        print(f"| {net}, {phase} | {len(products)} | {tiles} | "
              + ", ".join(f"{name} {count}" for name, count in others.most_common(4)) + " |",
              flush=True)
    return good


def print_races(build, turns):
    print("\n| | fp32 ms | bf16 ms | speed of bf16 |\n|---|---|---|---|")
    cases = [(net, shape % batch, "test", max(1, passes // batch))
             for net, (shape, passes) in NETS.items() for batch in (1, 8)]
    cases += [(net, shape, "train", passes) for net, (shape, passes) in TRAINED.items()]
    for net, shape, phase, passes in cases:
        times = {"FP32": [], "BF16": []}
        for _ in range(turns):
            for precision, values in times.items():
                values.append(profile(build, net, shape, phase, precision, passes)[0])
        ratios = sorted(a / b for a, b in zip(times["FP32"], times["BF16"]))
        print(f"| {net}, {phase}, {shape.split(',')[0]} | {statistics.median(times['FP32']):.2f} | "
              f"{statistics.median(times['BF16']):.2f} | {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--anyway", action="store_true")
    options = parser.parse_args()
    if not has_amx() and not options.anyway:
        print("this processor has no AMX (amx_bf16 in /proc/cpuinfo); --anyway runs all the same",
              file=sys.stderr)
        return 2
    build = options.build.resolve()
    good = run_tests(build)
    good = print_tiles(build) and good
    print_races(build, options.turns)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
