"""The exception of the package."""

from __future__ import annotations


class Error(RuntimeError):
    """An error of Crema, with the message of the command line.

    The fields are those of the first problem; `problems` has an Error for each.
    """

    code: str  # "invalid_argument", "not_found", "unsupported", "data_loss", "io_failure", ...
    file: str | None
    line: int | None
    column: int | None
    layer: str | None
    problems: list[Error]


def make_error(code: str, message: str) -> Error:
    """Returns an Error of this package's own Python code."""
    error = Error(message)
    error.code = code
    error.file = error.line = error.column = error.layer = None
    error.problems = [error]
    return error
