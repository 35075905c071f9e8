"""The types of crema.layers: a checker finds mistakes before the program runs."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import crema
from crema import _schema

PACKAGE = pathlib.Path(crema.__file__).parent
BUILT_IN = set(crema.layer_types())  # before tests load plugins

GOOD = """
    import pathlib

    import crema
    from crema import layers as L


    def block(x: crema.Top, outputs: int) -> crema.Top:
        conv = L.Convolution(
            x,
            num_output=outputs,
            kernel_size=[3, 5],
            pad=1,
            weight_filler=dict(type="xavier", variance_norm="AVERAGE"),
            param=[dict(lr_mult=1), dict(lr_mult=2, decay_mult=0)],
            include={"phase": "TRAIN", "stage": ["a", "b"]},
        )
        return L.ReLU(conv, in_place=True)


    n = crema.NetSpec(name="n", force_backward=True)
    n.data, n.label = L.Data(
        source=pathlib.Path("a"), batch_size=2, backend="LMDB", ntop=2, transform_param={"scale": 2}
    )
    x = n.data
    for i in range(3):
        x = n[f"block{i}"] = block(x, 2**i)
    n.pool = L.Pooling(x, pool="MAX", kernel_size=2, engine="CAFFE")
    parts = L.Slice(n.pool, ntop=3, slice_point=[1, 2])
    n.a, n.b, n.c = parts
    n.cat = L.Concat(n.a, n.b, L.Softmax(n.c), axis=1)
    n.both, n.too = L.Convolution(n.a, n.b, num_output=1)
    n.h, n.state = L.LSTM(n.cat, n.label, num_output=3, ntop=2)
    n.elu = L.ELU(n.cat, elu_param={"lambda": 0.5})
    n.none = L.Silence(n.both, n.too)
    n.loss = L.SoftmaxWithLoss(n.cat, n.label, loss_weight=1, loss_param=dict(ignore_label=255))
    n.save("n.prototxt")
    names: list[str] = n.to_net("TEST").layer_names
"""

# Each line: a mistake, and what the checker says about it.
BAD = {
    "L.ReLU(x, negativ_slope=1)": 'did you mean "negative_slope"',
    "L.Convolution(x, kernal_size=3)": 'did you mean "kernel_size"',
    "L.Convolution(x, num_output='20')": 'incompatible type "str"|No overload variant',
    "L.InnerProduct(x, num_output=1.5)": 'incompatible type "float"; expected "int"',
    "L.Pooling(x, pool='MAXX')": "No overload variant|incompatible type",
    "L.Eltwise(x, x, operation='SUMM')": r"incompatible type \"Literal\['SUMM'\]\"",
    "L.InnerProduct(x, weight_filler=dict(typ='xavier'))": 'Extra key "typ"',
    "L.InnerProduct(x, weight_filler='xavier')": 'incompatible type "str"',
    "L.ReLU(x, param=[dict(lr_mul=1)])": 'Extra key "lr_mul"',
    "L.ReLU(x, include={'phase': 'TSET'})": "incompatible type",
    "L.ReLU(x, pooling_param={})": 'Unexpected keyword argument "pooling_param"',
    "L.ReLU()": "Too few arguments",
    "L.EuclideanLoss(x)": "Too few arguments",
    "L.SoftmaxWithLoss(x)": "No overload variant|Too few arguments",
    "L.ReLU('x')": 'incompatible type "str"; expected "Top"',
    "L.ReLU(x, ntop=2)": 'incompatible type "Literal',
    "n.a, n.b = L.Data(source='a')": "is not iterable|has no attribute|Top",
    "n.a, n.b = L.Data(source='a', ntop=3)": "No overload variant",
    "L.Convolutoin(x)": 'has no attribute "Convolutoin"; maybe "Convolution"',
    "n.a = 3": "Incompatible types in assignment|incompatible type",
    "crema.NetSpec(nmae='x')": 'Unexpected keyword argument "nmae"',
    "n.to_net('TETS')": "incompatible type",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Returns what mypy --strict says about each mistake, and elsewhere (also in the package)."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    if not (PACKAGE / "layers.pyi").exists():
        pytest.fail("the build made no layers.pyi: build the target crema_layer_stubs")
    folder = tmp_path_factory.mktemp("types")
    (folder / "good.py").write_text(textwrap.dedent(GOOD))
    head = ["import crema", "from crema import layers as L", "n = crema.NetSpec()", "x = L.Input()"]
    (folder / "bad.py").write_text("\n".join([*head, *BAD]) + "\n")
    environment = dict(os.environ)
    if "site-packages" not in PACKAGE.parts:  # mypy finds installed packages itself
        environment["MYPYPATH"] = str(PACKAGE.parent)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--cache-dir", str(folder / "cache")]

    def lines(*what):
        done = subprocess.run(
            [*command, *what], cwd=folder, env=environment, capture_output=True, text=True
        )
        return (done.stdout + done.stderr).splitlines()

    said = {"elsewhere": lines("-p", "crema")}
    for line in lines("good.py", "bad.py"):
        found = re.match(r"bad\.py:(\d+): (.*)", line)
        place = list(BAD)[int(found[1]) - len(head) - 1] if found else "elsewhere"
        said.setdefault(place, []).append(line)
    return said


def test_correct_programs_pass(checked):
    assert checked["elsewhere"] == []


@pytest.mark.parametrize("line", BAD)
def test_mistakes_are_found(checked, line):
    assert line in checked, "mypy finds nothing wrong"
    assert re.search(BAD[line], "\n".join(checked[line]))


def test_correct_programs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = textwrap.dedent(GOOD).replace('names: list[str] = n.to_net("TEST").layer_names', "")
    exec(compile(program, "good.py", "exec"), {})
    assert (tmp_path / "n.prototxt").read_text().count("layer {") == 16


def test_every_type_and_field_has_a_stub():
    tree = ast.parse((PACKAGE / "layers.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions == BUILT_IN
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    reserved = {  # Name = TypedDict("Name", {"lambda": float}, total=False)
        node.targets[0].id: [key.value for key in node.value.args[1].keys]
        for node in tree.body
        if isinstance(node, ast.Assign)
    }

    def fields_of(name):
        if name not in classes:
            return reserved.get(name, [])
        fields = [n.target.id for n in classes[name].body if isinstance(n, ast.AnnAssign)]
        return fields + [field for base in classes[name].bases for field in fields_of(base.id)]

    for name in BUILT_IN:
        fields = fields_of(f"_{name}Fields")
        assert sorted(fields) == sorted(_schema.keywords_of(name))
