"""The command line: `crema train ...` runs the program train of the package."""

import os
import sys


def main() -> None:
    front = os.path.join(os.path.dirname(__file__), "bin", "crema")
    if not os.path.exists(front):
        sys.exit("crema: this package was built without the commands")
    os.execv("/bin/sh", ["sh", front, *sys.argv[1:]])


if __name__ == "__main__":
    main()
