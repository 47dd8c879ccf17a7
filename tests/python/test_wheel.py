"""`pip install .` gives a package that finds its library, needs no PyTorch before paceline.torch, and leaves nothing behind."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jobs import two_ports_in_a_row
from sharing import shared_folder, turn

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.full

ALONE = """
import array, sys, paceline
numbers = array.array("f", [1, 2])
with paceline.Communicator(0, ["127.0.0.1:" + sys.argv[1]]) as alone:
    alone.start("allreduce", numbers).wait()
assert paceline.plan.gpus(overhead=0.1, speedup=3)["gpus"] == 4
assert list(numbers) == [1, 2] and "torch" not in sys.modules and "numpy" not in sys.modules
print(paceline.__file__)
"""
# What the import costs is what it imports: two small modules of this package, and no big ones of others.
HEAVY = {"torch", "numpy", "pandas", "ctypes", "json", "socket", "subprocess", "asyncio", "multiprocessing", "dataclasses", "inspect", "logging", "importlib.metadata"}
IMPORTED = "import sys; before = set(sys.modules); import paceline; print(*sorted(set(sys.modules) - before))"


# As in CMakePresets.json, whose objects the compiler's cache holds: the wheel is built in a minute then.
AS_THE_PRESETS = {
    "CXX": "g++",
    "CMAKE_ARGS": "-DPACELINE_WERROR=ON",
    "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    "CCACHE_BASEDIR": str(ROOT),
    "CCACHE_NOHASHDIR": "1",
    "CCACHE_SLOPPINESS": "pch_defines,time_macros",
    "SKBUILD_BUILD_DIR": str(ROOT / "build/wheel"),
}


def run(*command, **options):
    environment = {name: value for name, value in os.environ.items() if name not in ("PACELINE_LIBRARY", "PYTHONPATH")}
    environment.update(options.pop("variables", {}))
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1800, env=environment, **options)


def files(folder):
    return {file.relative_to(folder) for file in folder.rglob("*") if "__pycache__" not in file.parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(an environment of its own, the wheel that pip builds of a checkout)."""
    environment = tmp_path_factory.mktemp("wheel") / "environment"
    assert run(sys.executable, "-m", "venv", environment).returncode == 0
    shared = shared_folder(tmp_path_factory, "wheel")
    with turn(shared):
        if not (shared / "made").exists():
            made = run(environment / "bin/pip", "wheel", "--no-deps", "--wheel-dir", shared / "made", ROOT, variables=AS_THE_PRESETS)
            assert made.returncode == 0, made.stderr
    (wheel,) = (shared / "made").iterdir()
    return environment, wheel


@pytest.fixture
def installed(built):
    environment, wheel = built
    before = files(environment)
    done = run(environment / "bin/pip", "install", wheel)
    assert done.returncode == 0, done.stderr
    yield environment
    assert run(environment / "bin/pip", "uninstall", "-y", "paceline").returncode == 0
    assert files(environment) == before


def test_one_wheel_serves_every_python_and_says_that_it_is_typed(built):
    _, wheel = built
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith("paceline-") and "-py3-none-" in wheel.name
    assert "paceline/py.typed" in names and [name for name in names if name.endswith(".so") or ".so." in name] == ["paceline/lib/libpaceline.so.0"], names
    assert {name for name in names if name.startswith("paceline/bin/")} == {f"paceline/bin/paceline{part}" for part in ("", "-doctor", "-lab")}


def test_what_pip_installs_works_alone(installed, tmp_path):
    with two_ports_in_a_row() as port:
        alone = run(installed / "bin/python", "-c", ALONE, port, cwd=tmp_path)
    assert alone.returncode == 0 and str(installed) in alone.stdout, alone.stderr
    torchless = run(installed / "bin/python", "-c", "import paceline.torch", cwd=tmp_path)
    assert torchless.returncode == 1 and torchless.stderr.splitlines()[-1].startswith("ModuleNotFoundError: paceline.torch needs PyTorch"), torchless.stderr


def test_the_program_comes_along(installed, tmp_path):
    version = run(installed / "bin/python", "-c", "import paceline; print(paceline.__version__)", cwd=tmp_path).stdout
    for words in ((installed / "bin/paceline",), (installed / "bin/python", "-m", "paceline")):
        assert run(*words, "--version", cwd=tmp_path).stdout == f"paceline {version}"
        assert run(*words, "doctor", "--help", cwd=tmp_path).returncode == run(*words, "lab", "--help", cwd=tmp_path).returncode == 0
        done = run(*words, "train", "--iterations", "1", cwd=tmp_path)  # PyTorch's own library is not here
        assert done.returncode == 1 and "paceline-trainer is missing" in done.stderr, done.stderr
    assert run(installed / "bin/paceline", "plan", "speedup", "--input", "vgg19", "--bandwidth", "10gbit", "--machines", "2", cwd=tmp_path).returncode == 0
    replay = run(installed / "bin/paceline", "train", "--model", "replay:resnet50", "--scale", "1000", "--iterations", "2", cwd=tmp_path)
    assert replay.returncode == 0 and "resnet50" in replay.stdout, (replay.stdout, replay.stderr)


def test_the_import_imports_next_to_nothing(installed, tmp_path):
    done = run(installed / "bin/python", "-c", IMPORTED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert [name for name in imported if name.partition(".")[0] == "paceline"] == ["paceline", "paceline._errors"]
    assert not set(imported) & HEAVY, imported


def test_a_library_of_another_release_is_refused_with_both_numbers(installed, tmp_path):
    other = tmp_path / "other.c"
    other.write_text('const char* paceline_version(void) { return "0.0.9"; }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", other, "-o", tmp_path / "other.so"], check=True)
    code = "import paceline; paceline.Communicator(0, ['127.0.0.1:1'])"
    done = run(installed / "bin/python", "-c", code, cwd=tmp_path, variables={"PACELINE_LIBRARY": str(tmp_path / "other.so")})
    version = run(installed / "bin/python", "-c", "import importlib.metadata as m; print(m.version('paceline'))").stdout.strip()
    assert done.returncode == 1 and f"is of release 0.0.9, this package of {version}" in done.stderr, done.stderr


def test_a_folder_of_ones_choice_does_as_well(built, tmp_path):
    environment, wheel = built
    before = files(environment)
    done = run(environment / "bin/pip", "install", "--target", tmp_path / "folder", wheel)
    assert done.returncode == 0 and files(environment) == before, done.stderr
    with two_ports_in_a_row() as port:
        alone = run(environment / "bin/python", "-c", ALONE, port, cwd=tmp_path, variables={"PYTHONPATH": str(tmp_path / "folder")})
    assert alone.returncode == 0 and str(tmp_path / "folder") in alone.stdout, alone.stderr
