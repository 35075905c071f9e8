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
    os.execve("/bin/sh", ["sh", _FRONT, *sys.argv[1:]], environment())


def environment() -> dict[str, str]:
    """Returns the environment of a command: with the Python for its layers, and the folders of
    CUDA's libraries in NVIDIA's packages (nvidia-cublas-cu12 and the like), which are loaded by name.
    """
    import glob
    import importlib.util

    variables = {"CREMA_PYTHON": sys.executable, **os.environ}
    nvidia = importlib.util.find_spec("nvidia")
    places = list(nvidia.submodule_search_locations or []) if nvidia else []
    folders = [f for place in places for f in sorted(glob.glob(os.path.join(place, "*", "lib")))]
    if folders:
        before = [f for f in (variables.get("LD_LIBRARY_PATH"),) if f]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(before + folders)
    return variables


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
        env=environment(),
    )
    if done.returncode != 0:
        message = done.stderr.strip().removeprefix("error: ")
        raise Error(message, _CODES.get(done.returncode, "invalid_argument"))
    return done.stdout


if __name__ == "__main__":
    main()
