"""The Python package `paceline` of this tree on the library of this build, for its tests."""

import os
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PACELINE", ROOT / "build/release/bin/paceline")).resolve()
os.environ.setdefault("PACELINE_LIBRARY", str(PROGRAM.parents[1] / "src/library/libpaceline.so"))
sys.path.insert(0, str(ROOT / "python"))


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), **more}


def python(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment(**more))


def on_threads(*lives):
    problems = []

    def run(life):
        try:
            life()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(life,)) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems
