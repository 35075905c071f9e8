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

    def __init__(self, message: str, code: str = "invalid_argument") -> None:
        super().__init__(message)
        self.code = code
        self.file = self.line = self.column = self.layer = None
        self.problems = [self]
