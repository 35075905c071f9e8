"""check, summary and report: what the commands of these names tell, as Python objects."""

from __future__ import annotations

import html
import json
import operator
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import _command, _core, _draw
from ._errors import Error
from ._spec import NetSpec


class _HasText(Protocol):  # Net and Model
    def to_text(self) -> str: ...


class _HasProto(Protocol):  # NetSpec
    def to_proto(self) -> object: ...


class _Message(Protocol):  # a protobuf message, such as caffe_pb2.NetParameter
    DESCRIPTOR: Any


Path = str | os.PathLike[str]
NetSource = Path | _HasText | _HasProto | _Message

# Fields that a solver has and a net has not.
_SOLVER = re.compile(
    r"^\s*(net|(train|test)_net|((train|test)_)?net_param|base_lr|lr_policy|max_iter|max_epoch)"
    r"\s*[:{]",
    re.MULTILINE,
)


def _text_or_path(source: NetSource | _core.Solver) -> tuple[str, bool]:
    """Returns prototxt and False, or a path and True."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source), True
    if isinstance(source, _core.Solver):
        return source.text, False
    if hasattr(source, "to_text"):
        return source.to_text(), False
    if isinstance(source, NetSpec):
        return str(source), False
    if hasattr(source, "to_proto"):
        return str(source.to_proto()), False
    if hasattr(source, "DESCRIPTOR"):
        return str(source), False
    raise TypeError(f"a path, a Net, a NetSpec or a message is needed, not {source!r}")


def _is_net(text: str, is_path: bool) -> bool:
    if is_path:
        try:
            with open(text, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return False  # the C++ code says what is wrong
    return not _SOLVER.search(text)


def check(source: NetSource | _core.Solver, *, samples: int = 100, threads: int = 0) -> list[Error]:
    """Returns the problems that would stop training, as `crema check` finds them.

    `source` is a solver or a net: a path, a Solver, a Net, a NetSpec or a protobuf message. A solver is
    checked with all that it needs: nets, data (`samples` of each net are read and run), weights,
    schedule, disk and memory. A net is checked in the phases that its layers name. Warnings go to
    the log. Each problem is a crema.Error with `file`, `line`, `column`, `layer` and `code`, not
    raised. No problems: an empty list. Thread safety: any number of threads.
    """
    if samples < 0:
        raise ValueError(f"samples is {samples}; use 0 or more")
    text, is_path = _text_or_path(source)
    return _core.check(text, is_path, _is_net(text, is_path), threads, samples)


def _table(layers: Sequence[Mapping[str, Any]], total: Mapping[str, int]) -> str:
    def row(cell: str, *values: str) -> str:
        return "<tr>" + "".join(f"<{cell}>{value}</{cell}>" for value in values) + "</tr>"

    rows = [row("th", "layer", "type", "output", "parameters", "MACs", "bytes")]
    for layer in layers:
        shapes = ", ".join("x".join(map(str, shape)) for shape in layer["outputs"])
        counts = (layer["parameters"] + layer["statistics"], layer["macs"], layer["bytes"])
        names = (html.escape(layer["name"]), html.escape(layer["type"]), shapes)
        rows.append(row("td", *names, *(f"{count:,}" for count in counts)))
    counts = (total["parameters"] + total["statistics"], total["macs"], total["activation_bytes"])
    rows.append(row("th", "sum", "", "", *(f"{count:,}" for count in counts)))
    return "<table>" + "".join(rows) + "</table>"


def layers_html(name: str, text: str, layers: str) -> str:
    """Returns a heading, a line of text and a table; `layers` is JSON. For Net and Model."""
    values = json.loads(layers)
    heading = f"<b>{html.escape(name)}</b><br>{html.escape(text)}"
    return heading + _table(values["layers"], values)


class Summary:
    """The costs of a net. `str()` is the text of `crema summary`; notebooks show a table and the
    drawing."""

    layers: list[dict[str, Any]]
    """A dict for each layer: name, type, outputs (shapes), parameters and statistics (elements),
    macs (multiply-adds of a forward pass), bytes (of its outputs)."""
    totals: dict[str, Any]
    """Sums, and the planned memory: parameters, macs, inference_peak_bytes, training_peak_bytes
    (None: it cannot be trained), ..., as in `crema summary --json`."""
    dot: str
    """The net in Graphviz's language."""

    def __init__(self, text: str, values: str, dot: str) -> None:
        self._text = text
        self.totals = json.loads(values)
        self.layers = self.totals.pop("layers")
        del self.totals["process_bytes"]  # measured by the command alone
        self.dot = dot

    @property
    def svg(self) -> str:
        """A drawing of the layers, with the shapes of the blobs between them."""
        return _draw.svg(self.dot)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        totals = self.totals
        return (
            f"<crema summary: {len(self.layers)} layers, {totals['parameters']} parameters, "
            f"{totals['macs']} MACs>"
        )

    def _repr_html_(self) -> str:
        memory = self._text[self._text.index("\nlearned parameters:") + 1 :]
        return _table(self.layers, self.totals) + f"<pre>{html.escape(memory)}</pre>" + self.svg


def summary(
    net: NetSource,
    *,
    phase: int | str | None = None,
    batch: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    level: int = 0,
    stages: Sequence[str] = (),
    threads: int = 1,
) -> Summary:
    """Returns shapes, parameters, multiply-adds and memory of each layer, without running the net.

    `net` is a path, a Net, Model or NetSpec, or a protobuf message. `phase` is "TRAIN" (0) or "TEST"
    (1); None: that of the Net, else TEST. `batch` replaces the batch size (0: as written), and
    `shapes` are shapes of blobs, by name. Data sets may be missing if the text or `shapes` give the
    sizes. `threads`: those that memory is planned for. Raises crema.Error.
    """
    text, is_path = _text_or_path(net)
    if phase is None:
        phase = getattr(net, "phase", 1)
    phases: dict[object, int] = {0: 0, "TRAIN": 0, 1: 1, "TEST": 1}
    if phase not in phases:
        raise ValueError(f'phase is {phase!r}, expected "TRAIN" (0) or "TEST" (1)')
    if batch < 0 or threads < 1:
        raise ValueError("batch is 0 or more, and threads is 1 or more")
    try:
        given = {
            str(name): [operator.index(size) for size in shape]
            for name, shape in (shapes or {}).items()
        }
    except (AttributeError, TypeError):
        raise TypeError(f"shapes is {shapes!r}, expected a dict of shapes by blob") from None
    return Summary(
        *_core.summary(text, is_path, phases[phase], level, list(stages), batch, given, threads)
    )


class Report:
    """The page of `crema report`, which notebooks show in a frame."""

    html: str

    def __init__(self, page: str) -> None:
        self.html = page

    def save(self, path: Path) -> None:
        """Writes the page; it needs no other file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self) -> str:
        return f"<crema report: {len(self.html)} bytes of HTML>"

    def _repr_html_(self) -> str:
        page = html.escape(self.html)
        return f'<iframe srcdoc="{page}" style="width:100%;height:50em;border:0"></iframe>'


def report(
    runs: Path | Sequence[Path], path: Path | None = None, *, title: str | None = None
) -> Report:
    """Returns a page about one run folder or several: curves, results and evaluations.

    Writes it to `path` too, if that is given. Needs the commands of the package. Raises crema.Error
    for a folder that is no run.
    """
    import tempfile

    folders = [runs] if isinstance(runs, (str, os.PathLike)) else runs
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "report.html")
        options = [] if title is None else ["--title", title]
        # "./" before a name that would be read as a flag.
        names = [os.path.join(os.curdir, os.fspath(name)) for name in folders]
        _command.run("report", *names, "-o", page, *options)
        with open(page, encoding="utf-8") as file:
            made = Report(file.read())
    if path is not None:
        made.save(path)
    return made
