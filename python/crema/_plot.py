"""Curves of runs, drawn by matplotlib."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ._core import Solver
from ._errors import Error

Points = tuple[list[int], list[float]]  # iterations, values


def _rows(folder: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of metrics.csv, or of metrics.jsonl. The last line of a run in progress may
    be incomplete."""
    path = os.path.join(folder, "metrics.csv")
    if os.path.exists(path):
        with open(path, newline="", encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
            yield from csv.DictReader(lines)
        return
    path = os.path.join(folder, "metrics.jsonl")
    if not os.path.exists(path):
        raise Error(
            f"'{folder}' holds no metrics; give the folder of a run (train --run=DIR)", "not_found"
        )
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _blob_of(row: dict[str, Any]) -> tuple[object, ...]:
    return row["kind"], row.get("net"), row.get("blob")


def _metrics_of(folder: str) -> dict[str, Points]:
    """Returns the metrics of a run folder by the names of Solver.metrics."""
    rows = list(_rows(folder))
    several = {_blob_of(row) for row in rows if row.get("element") not in (None, "", "0", 0)}
    metrics: dict[str, Points] = {}

    def add(name: str, iteration: object, value: object) -> None:
        if value not in (None, ""):
            iterations, values = metrics.setdefault(name, ([], []))
            iterations.append(int(str(iteration)))
            values.append(float(str(value)))

    for row in rows:
        if row["kind"] == "train":
            for name in ("loss", "lr"):
                add(f"train/{name}", row["iteration"], row.get(name))
            continue
        group = f"test_{row['net']}" if row["kind"] == "test" else "train_output"
        name = f"{group}/{row['blob'] or 'total_loss'}"
        if _blob_of(row) in several:
            name += f"/{row['element']}"
        add(name, row["iteration"], row["value"])
    return metrics


def plot(run: Solver | str | os.PathLike[str], names: Sequence[str] | None = None) -> Any:
    """Draws the metrics of a Solver or of a run folder, and returns matplotlib's axes, a list.

    Names are those of Solver.metrics. Curves of one quantity share axes: train/loss and
    test_0/loss. `names` selects curves. Raises ImportError without matplotlib, KeyError for a name
    that the run lacks, crema.Error for a folder without metrics.
    """
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("crema.plot needs matplotlib: pip install matplotlib") from error
    metrics: dict[str, Any]
    metrics = run.metrics if isinstance(run, Solver) else _metrics_of(os.fspath(run))
    groups: dict[str, list[str]] = {}
    for name in metrics if names is None else names:
        if name not in metrics:
            raise KeyError(f"the run has no metric '{name}'; it has {', '.join(metrics)}")
        quantity = re.sub(r"/\d+$", "", name.partition("/")[2])
        groups.setdefault(quantity, []).append(name)
    if not groups:
        raise ValueError("the run has no metrics yet")
    figure, grid = pyplot.subplots(
        len(groups), squeeze=False, sharex=True, figsize=(7, 2.5 * len(groups))
    )
    axes = list(grid[:, 0])
    for place, (quantity, members) in zip(axes, groups.items()):
        for name in members:
            iterations, values = metrics[name]
            # A single point has no line.
            place.plot(iterations, values, label=name, marker="." if len(values) < 50 else None)
        place.set_ylabel(quantity)
        place.legend()
        place.grid(alpha=0.3)
    axes[-1].set_xlabel("iteration")
    figure.tight_layout()
    return axes
