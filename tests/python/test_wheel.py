"""scripts/wheel gives a package that any Linux installs without a compiler. It finds its library, needs no PyTorch before paceline.torch, and leaves
nothing behind."""

import functools
import os
import re
import shutil
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
    """(an environment of its own, the wheel that is published)."""
    environment = tmp_path_factory.mktemp("wheel") / "environment"
    assert run(sys.executable, "-m", "venv", environment).returncode == 0
    shared = shared_folder(tmp_path_factory, "wheel")
    with turn(shared):
        if not (shared / "made").exists():
            made = run(ROOT / "scripts/wheel", shared / "made", variables=AS_THE_PRESETS)
            assert made.returncode == 0, made.stderr
            (shared / "said").write_text(made.stdout)
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
    assert re.fullmatch(r"paceline-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name) and int(wheel.name.split("_")[2]) <= 36
    own = [name for name in names if name.startswith("paceline/")]
    assert "paceline/py.typed" in own and [name for name in own if name.endswith(".so") or ".so." in name] == ["paceline/lib/libpaceline.so.0"], names
    assert {name for name in own if name.startswith("paceline/bin/")} == {f"paceline/bin/paceline{part}" for part in ("", "-doctor", "-lab")}


def test_libraries_of_others_come_with_their_licences(built):
    _, wheel = built
    archive = zipfile.ZipFile(wheel)
    assert archive.testzip() is None
    licences = {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist() if ".dist-info/licenses/" in name}
    said = re.findall(r"^  (\S+)\s{2,}(\S.*?)\s{2,}(\S+)$", (wheel.parent.parent / "said").read_text(), re.MULTILINE)
    assert {name for name, _, _ in said} == {name.partition("/")[2] for name in archive.namelist() if name.startswith("paceline.libs/")} and said
    for name, licence, package in said:
        assert "GPL" not in licence and "opyright" in licences[package], name


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


FIRST = """
import sys
sys.path.append(sys.argv[1])  # where PyTorch is
import torch
import paceline.torch as pt
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.ones(64, 8))
job = pt.attach(model, optimizer, buffers="broadcast")
for epoch in range(4):
    for (x,) in torch.utils.data.DataLoader(data, 8, sampler=job.sampler(data, seed=1)):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
if job.rank == 0:
    print("trained by", job.workers)
"""
TORCH = Path(subprocess.run([ROOT / ".venv/bin/python", "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True).stdout.strip()).parent


def test_a_first_job_of_two_ranks_runs_where_no_compiler_is(built, tmp_path):
    _, wheel = built
    assert run(sys.executable, "-m", "venv", tmp_path / "fresh").returncode == 0
    alone = {"PATH": str(tmp_path / "fresh/bin")}
    assert shutil.which("cc", path=alone["PATH"]) is None
    (tmp_path / "first.py").write_text(FIRST)
    installed = run(tmp_path / "fresh/bin/pip", "install", "--no-index", wheel, variables=alone)
    assert installed.returncode == 0, installed.stderr
    done = run("paceline", "run", "--workers", "2", "--", "python", "first.py", TORCH, cwd=tmp_path, variables=alone)
    assert done.returncode == 0 and "trained by 2" in done.stdout and "2 workers" in done.stdout, (done.stdout, done.stderr)


def installed_with(*wanted):
    """Names of packages of Debian: the essential ones, `wanted`, and what these need."""
    fields = "${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    rows = [line.split("\t") for line in subprocess.run(["dpkg-query", "-W", "-f", fields], capture_output=True, text=True, check=True).stdout.splitlines()]
    names = lambda text: [re.split(r"[ (:]", one.strip())[0] for one in re.split(r"[,|]", text) if one.strip()]  # noqa: E731
    needs = {name: names(needed) for name, _, needed, _ in rows}
    provided = {virtual: name for name, _, _, virtuals in rows for virtual in names(virtuals)}
    found, left = set(), [*wanted, *(name for name, essential, _, _ in rows if essential == "yes")]
    while left:
        name = left.pop()
        name = name if name in needs else provided.get(name)
        if name is not None and name not in found:
            found.add(name)
            left += needs[name]
    return found


def minimal_debian(root):
    """A folder with the files of a minimal Debian with Python, and of nothing else that is installed here."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    listed = subprocess.run(["dpkg", "-L", *installed_with("apt", "python3", "python3-venv")], capture_output=True, text=True, check=True).stdout
    for name in sorted(set(listed.splitlines())):
        file, copy = Path(name), root / name.lstrip("/")
        if not name.startswith("/") or name.startswith(("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/")) or not os.path.lexists(file):
            continue
        if file.is_dir() and not file.is_symlink():
            copy.mkdir(parents=True, exist_ok=True)
        elif not os.path.lexists(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy, follow_symlinks=False)
    for name in ("proc", "dev", "tmp", "root", "torch"):
        (root / name).mkdir(exist_ok=True)
    shutil.copy2("/etc/passwd", root / "etc/passwd")


@functools.cache
def may_change_root():
    """Whether this machine lets a test do it, and PyTorch here is for the Python that Debian has."""
    version = "import sys; print(*sys.version_info[:2])"
    pythons = [subprocess.run([python, "-c", version], capture_output=True, text=True).stdout for python in ("/usr/bin/python3", ROOT / ".venv/bin/python")]
    return os.geteuid() == 0 and pythons[0] == pythons[1] and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def test_it_runs_in_a_minimal_debian(built, tmp_path):
    if not may_change_root():
        return
    _, wheel = built
    root = tmp_path / "root"
    minimal_debian(root)
    assert not [name for name in ("cc", "gcc", "g++", "ld", "cmake") if (root / "usr/bin" / name).exists()]
    shutil.copy2(wheel, root / wheel.name)
    (root / "first.py").write_text(FIRST)
    (root / "all").write_text(
        f"set -e\npython3 -m venv /fresh\n/fresh/bin/pip install --no-index /{wheel.name}\n/fresh/bin/paceline run --workers 2 -- /fresh/bin/python /first.py /torch\n"
    )
    mounted = f'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --bind {TORCH} "$0/torch" && exec chroot "$0" env -i HOME=/root PATH=/usr/bin:/bin sh /all'
    done = run("unshare", "--mount", "sh", "-c", mounted, root)
    assert done.returncode == 0 and "trained by 2" in done.stdout, (done.stdout, done.stderr)


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
