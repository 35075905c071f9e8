"""Gets the ONNX file of a net of nets.py.

Usage: onnx_models.py SOURCE BATCH FILE
SOURCE is torchvision:NAME, exported with random weights, or PACKAGE:PATH, a file in an installed
package. Everything but the weights is as its owner gets it.
"""
import importlib.util
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/onnx"))


def main():
    source, batch, path = sys.argv[1:4]
    package, _, name = source.partition(":")
    if package != "torchvision":
        spec = importlib.util.find_spec(package)
        if spec is None:
            sys.exit(f"there is no package {package} (bench/compare/setup.sh)")
        shutil.copy(pathlib.Path(spec.submodule_search_locations[0]) / name, path)
        return
    import torchvision_nets

    case = torchvision_nets.Case(name, batch=int(batch))
    torchvision_nets.export(case, *torchvision_nets.make(case), "dynamo", path)


if __name__ == "__main__":
    main()
