"""Questions to `paceline plan`: asked with JSON, answered with JSON or refused with one line.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))


def run(*arguments, text=""):
    return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=120)


def ask(question, cases, *options):
    done = run("plan", question, "--input", "-", "--json", *options, text=json.dumps(cases))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    return json.loads(done.stdout)


def refused(question, case, *options, names=()):
    """One line on standard error that has all `names`, nothing on standard output."""
    done = run("plan", question, "--input", "-", "--json", *options, text=case if isinstance(case, str) else json.dumps(case))
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1, done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)


def without(case, key):
    return {k: v for k, v in case.items() if k != key}


# A good case of each question.
BARRIER = {"last_end": [0, 0], "interval": [1, 3], "lookahead": 5}
ENDS = {"ends": [[1, 4, 7], [3, 8]]}
SERVERS = {"parameter_bytes": 244_000_000, "workers": 8, "bandwidth": 125e6, "compute_time": 10, "duplex": "half"}
MEMORY = {"model": "alexnet", "mini_batch": 128, "memory": 12 * 2**30}
ALGORITHMS = {"bound": 13, "layers": [[{"time": 2, "memory": 1}, {"time": 1, "memory": 9}], [{"time": 1, "memory": 6}, {"time": 3, "memory": 0}]]}
MINI_BATCH = {
    "samples": 100,
    "candidates": [
        {"mini_batch": 10, "bound": 9, "layers": [[{"time": 3, "memory": 1}]]},
        {"mini_batch": 25, "bound": 9, "layers": [[{"time": 5, "memory": 8}, {"time": 9, "memory": 0}]]},
        {"mini_batch": 50, "bound": 7, "layers": [[{"time": 9, "memory": 8}]]},
    ],
}
FFT = {"mini_batch": 128, "input": [224, 224], "output": [55, 55], "depth": 3, "filters": 96}
