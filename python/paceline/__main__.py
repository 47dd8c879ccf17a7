"""`python -m paceline ...`, and the script `paceline` that pip installs: the program, as it lies in this package or in a build."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

ENDING = Path("build/release/bin/paceline")  # of the checkout that this package lies in


def program() -> str | None:
    """Where the program is: in the package, in the checkout's build, else in PATH. This script itself, of the same name there, is no program."""
    package = Path(__file__).resolve().parent
    for place in (package / "bin" / "paceline", package.parents[1] / ENDING):
        if os.access(place, os.X_OK):
            return str(place)
    for folder in os.get_exec_path():
        found = shutil.which("paceline", path=folder)
        if found and Path(found).read_bytes()[:2] != b"#!":
            return found
    return None


def main() -> NoReturn:
    path = program()
    if path is None:
        print(
            f"paceline: error: the program is neither in this package ({Path(__file__).parent}/bin) nor in PATH; install the package by 'pip install .' in a checkout, "
            f"or build it there: scripts/quickstart [paceline help PL-NOT-INSTALLED]",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.stdout.flush()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
