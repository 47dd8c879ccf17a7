"""`pip install .` in an environment of its own gives a package that finds its library, and needs no PyTorch before paceline.torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import two_ports_in_a_row

ROOT = Path(__file__).resolve().parents[2]

ALONE = """
import array, sys, paceline
numbers = array.array("f", [1, 2])
with paceline.Communicator(0, ["127.0.0.1:" + sys.argv[1]]) as alone:
    alone.start("allreduce", numbers).wait()
assert paceline.plan.gpus(overhead=0.1, speedup=3)["gpus"] == 4
assert list(numbers) == [1, 2] and "torch" not in sys.modules and "numpy" not in sys.modules
print(paceline.__file__)
"""


def run(*command, **options):
    environment = {name: value for name, value in os.environ.items() if name not in ("PACELINE_LIBRARY", "PYTHONPATH")}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900, env=environment, **options)


@pytest.mark.full
def test_pip_installs_what_works_alone_and_takes_it_away_again(tmp_path):
    place = tmp_path / "environment"
    assert run(sys.executable, "-m", "venv", place).returncode == 0
    source = tmp_path / "source"
    assert run("git", "clone", "-q", ROOT, source).returncode == 0
    installed = run(place / "bin/pip", "install", source)
    assert installed.returncode == 0, installed.stderr
    with two_ports_in_a_row() as port:
        alone = run(place / "bin/python", "-c", ALONE, port, cwd=tmp_path)
    assert alone.returncode == 0 and str(place) in alone.stdout, alone.stderr
    torchless = run(place / "bin/python", "-c", "import paceline.torch", cwd=tmp_path)
    assert torchless.returncode == 1 and torchless.stderr.splitlines()[-1].startswith("ModuleNotFoundError: paceline.torch needs PyTorch"), torchless.stderr
    assert run(place / "bin/pip", "uninstall", "-y", "paceline").returncode == 0
    assert list((place / "lib").glob("python3*/site-packages/*aceline*")) == []
