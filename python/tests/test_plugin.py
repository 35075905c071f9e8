"""Layers in C++ that a program loads."""

import pathlib
import shutil
import subprocess

import crema
import numpy
import pytest

SOURCES = pathlib.Path(__file__).parents[2]
NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "y" type: "ScaledSoftsign" bottom: "x" top: "y"
  plugin_param { param_str: "scale: 1.5" } }
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    library = str(tmp_path_factory.mktemp("plugin") / "softsign.so")
    source = SOURCES / "examples" / "plugin" / "scaled_softsign.cc"
    include = SOURCES / "include"
    command = [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{include}", str(source)]
    subprocess.run([*command, "-o", library], check=True)
    return library


def test_layers_of_a_plugin_are_known_once_it_is_loaded(
    plugin: str, tmp_path: pathlib.Path
) -> None:
    text = tmp_path / "net.prototxt"
    text.write_text(NET)
    with pytest.raises(crema.Error, match="unknown layer type 'ScaledSoftsign'"):
        crema.Net.open(str(text), phase=1)
    crema.load_plugin(plugin)
    crema.load_plugin(plugin)
    assert "ScaledSoftsign" in crema.layer_types()
    net = crema.Net.open(str(text), phase=1)
    blobs = dict(zip(net.blob_names, net.blob_list()))
    x = numpy.array([[-2, -1, 0], [0.5, 1, 3]], numpy.float32)
    blobs["x"].data[...] = x
    net.forward(0, len(net.layer_names) - 1)
    numpy.testing.assert_allclose(blobs["y"].data, 1.5 * x / (1 + abs(x)), rtol=1e-6)
    model = crema.Model.from_caffe(str(text), [])
    numpy.testing.assert_allclose(model.run({"x": x})["y"], 1.5 * x / (1 + abs(x)), rtol=1e-6)


def test_a_file_that_is_no_plugin_is_an_error(tmp_path: pathlib.Path) -> None:
    text = tmp_path / "a.so"
    text.write_text("hello")
    with pytest.raises(crema.Error, match="is no shared library") as error:
        crema.load_plugin(str(text))
    assert error.value.file == str(text)
    with pytest.raises(crema.Error, match="missing.so"):
        crema.load_plugin(str(tmp_path / "missing.so"))
    with pytest.raises(TypeError):
        crema.load_plugin(3)  # type: ignore[arg-type]
