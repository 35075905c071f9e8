"""The commands of the package: `crema train ...` runs its program train."""

from __future__ import annotations

import os
import sys

from ._errors import Error

_FRONT = os.path.join(os.path.dirname(__file__), "bin", "crema")
_MISSING = "this package was built without the commands"
_CODES = {3: "data_loss", 4: "device_failure"}


def main() -> None:
    if not os.path.exists(_FRONT):
        sys.exit(f"crema: {_MISSING}")
    os.environ.setdefault("CREMA_PYTHON", sys.executable)  # for layers of type Python
    os.execv("/bin/sh", ["sh", _FRONT, *sys.argv[1:]])


def run(*arguments: str) -> str:
    """Runs a command and returns what it prints. Raises crema.Error with its message."""
    import subprocess

    if not os.path.exists(_FRONT):
        raise Error(_MISSING, "unsupported")
    done = subprocess.run(
        ["/bin/sh", _FRONT, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={"CREMA_PYTHON": sys.executable, **os.environ},
    )
    if done.returncode != 0:
        message = done.stderr.strip().removeprefix("error: ")
        raise Error(message, _CODES.get(done.returncode, "invalid_argument"))
    return done.stdout


if __name__ == "__main__":
    main()
