"""One peer in a process of its own, which does what its standard input says.

Usage: worker.py PEER prepare|serve CASE_JSON
prepare converts the net into what the peer reads. serve loads that, runs once, and answers each
line with a line of JSON, as compare_runner does:
  run N          {"seconds": [...], "loss": x}
  outputs FOLDER writes the outputs of the last run
  updates FILE   compares what training has changed with a caffemodel of Crema's
  memory         {"peak_kb": n}
  quit
"""
import importlib
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

PROTOCOL = os.fdopen(os.dup(1), "w", encoding="utf-8")


def answer(**values):
    print(json.dumps(values), file=PROTOCOL, flush=True)


def peak_kb():
    """Returns the peak of this program. ru_maxrss would contain that of the driver before exec."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def run(racer, count):
    seconds = []
    loss = None
    for _ in range(count):
        start = time.perf_counter()
        loss = racer.run()
        seconds.append(time.perf_counter() - start)
    answer(seconds=seconds, loss=loss)


def write_outputs(racer, folder):
    files = []
    for index, values in enumerate(racer.outputs()):
        files.append({"file": f"output{index}.f32", "shape": list(values.shape)})
        values.astype("float32").tofile(pathlib.Path(folder) / files[-1]["file"])
    answer(outputs=files)


def serve(racer):
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "quit":
            return
        if command == "run":
            run(racer, int(argument))
        elif command == "outputs":
            write_outputs(racer, argument)
        elif command == "updates":
            answer(**racer.updates(argument))
        elif command == "memory":
            answer(peak_kb=peak_kb())
        else:
            raise ValueError(f"unknown command {command}")


def main():
    name, action, path = sys.argv[1:4]
    os.dup2(2, 1)  # what libraries print is not an answer
    peer = importlib.import_module("peers." + name)
    case = importlib.import_module("case").Case(path)
    if action == "prepare":
        peer.prepare(case)
        return
    imported_kb = peak_kb()
    start = time.perf_counter()
    racer = peer.load(case)
    loss = racer.run()
    answer(ready=True, loss=loss, load_seconds=time.perf_counter() - start, imported_kb=imported_kb)
    serve(racer)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # pylint: disable=broad-except
        answer(error=f"{type(error).__name__}: {error}"[:2000])
        raise
