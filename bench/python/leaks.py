"""Opens and closes objects 10,000 times, and prints the resident memory each 1,000 times.

    PYTHONPATH=build/python:python/crema-caffe:python/tests python bench/python/leaks.py [case ...]

Each case of python/tests/test_leaks.py runs in a process of its own. Fails if the last half of one
adds 1 MB or more.
"""

import os
import subprocess
import sys
import tempfile

import test_leaks

import crema

COUNT = 10_000


def run(case):
    with tempfile.TemporaryDirectory() as folder:
        files = folder + "/net.prototxt", [folder + "/w.caffemodel"]
        with open(files[0], "w") as file:
            file.write(test_leaks.NET)
        crema.Net.open(files[0], 1).save(files[1][0])
        memory = []
        for i in range(COUNT):
            case(files)
            if (i + 1) % (COUNT // 10) == 0:
                memory.append(test_leaks.resident() / 1e6)
    growth = memory[-1] - memory[4]
    values = " | ".join(f"{value:.1f}" for value in memory)
    print(f"| {case.__name__.replace('_', ' ')} | {values} | {growth:+.2f} |", flush=True)
    return growth < 1


def main():
    cases = {case.__name__: case for case in test_leaks.CASES}
    names = sys.argv[1:] or list(cases)
    if len(names) == 1:
        sys.exit(not run(cases[names[0]]))
    header = " | ".join(f"{(i + 1) * COUNT // 10:,}" for i in range(10))
    print(f"| MB after | {header} | last half |\n|---|" + "---|" * 11, flush=True)
    codes = [subprocess.run([sys.executable, os.path.abspath(__file__), name]).returncode
             for name in names]
    sys.exit(any(codes))


if __name__ == "__main__":
    main()
