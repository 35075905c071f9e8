"""The progress of Solver.solve: a line on a terminal, or a bar in a notebook."""

from __future__ import annotations

import html
import importlib
import shutil
import sys
import time
from typing import Any


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


class Progress:
    """Called by the solver. Shows nothing if stderr is no terminal and this is no notebook."""

    def __init__(self) -> None:
        self._start: tuple[float, int] | None = None  # time and iteration of the first update
        self._tests: dict[str, float] = {}
        self._width = 0  # of the line on the terminal
        self._handle: Any = None
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if getattr(shell, "kernel", None) is not None:
            display: Any = importlib.import_module("IPython.display")
            self._html = display.HTML
            self._handle = display.display(self._html(""), display_id=True)

    def update(self, done: int, total: int, loss: float, rate: float) -> None:
        now = time.monotonic()
        if self._start is None:
            self._start = now, done
        start, first = self._start
        parts = [f"iter {done}/{total}", f"loss {loss:.4g}"]
        if done > first:
            parts.append("ETA " + _duration((now - start) / (done - first) * (total - done)))
        parts.append(f"lr {rate:.3g}")
        parts += [f"{name} {value:.4g}" for name, value in self._tests.items()]
        self._show("  ".join(parts), done / total if total > 0 else 0)

    def test(self, iteration: int, values: dict[str, float]) -> None:
        self._tests.update(values)

    def close(self) -> None:
        if self._width and not sys.stderr.closed:
            sys.stderr.write("\n")

    def _show(self, text: str, share: float) -> None:
        if self._handle is not None:
            bar = f'<progress value="{share:.4f}" max="1" style="width:20em"></progress> '
            self._handle.update(self._html(bar + html.escape(text)))
        elif sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)
