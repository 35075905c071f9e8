"""The exception of the package."""

from __future__ import annotations

import os


class Error(RuntimeError):
    """An error of Crema, with the message of the command line.

    The fields are those of the first problem; `problems` has an Error for each.
    """

    code: str  # "invalid_argument", "not_found", "unsupported", "data_loss", "io_failure", ...
    file: str | None
    line: int | None
    column: int | None
    layer: str | None

    def __init__(self, message: str = "", code: str = "invalid_argument") -> None:
        super().__init__(message)
        self.code = code
        self.file = self.line = self.column = self.layer = None
        self._problems: list[Error] | None = None

    @property
    def problems(self) -> list[Error]:
        return self._problems or [self]

    @problems.setter
    def problems(self, problems: list[Error]) -> None:
        self._problems = problems


def describe(error: BaseException) -> str:
    """Returns one line: where an exception was raised, its type and its message."""
    import traceback

    text = traceback.format_exception_only(type(error), error)[-1].strip()
    own = os.path.dirname(__file__)
    places = [
        (frame.filename, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", own))
    ]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    if isinstance(error, ModuleNotFoundError):
        text += "; modules are searched in PYTHONPATH and in the current folder"
    return f"{places[-1][0]}:{places[-1][1]}: {text}" if places else text
