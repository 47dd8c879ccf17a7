"""Real processes over libpaceline, for tests of whole scripts."""

import atexit
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FORKED = str(HERE / "forked")
sys.path.insert(0, str(HERE.parent))

from binding import environment  # noqa: E402  # of tests/python: where the library of this build is
from sharing import turn  # noqa: E402

LIMIT = 240  # seconds, for a process that hangs
# A script whose rank 1 is killed while it trains.
KILLED = """
import os, signal, torch, paceline.torch as pt
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer, settings={"deadline": "2s"})
for step in range(10**6):
    if step == 20 and job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def variables(path=(), **more):
    """Of a process that finds the package and this folder's helpers, and what is in the folders of `path`."""
    return environment(PYTHONPATH=os.pathsep.join(map(str, [HERE, ROOT / "python", *path])), OMP_NUM_THREADS="1", **more)


def environment_of(part):
    """The interpreter of another environment than .venv, which is made if it is not there."""
    with turn(ROOT / f".venv-{part}"):
        subprocess.run([ROOT / "scripts/setup", part], check=True, timeout=1200)
    return ROOT / f".venv-{part}/bin/python"


def newest_torch():
    """Whose PyTorch has another door for backends than .venv's."""
    return environment_of("newest-torch")


def pythons():
    """Parameters of a test that runs with .venv's PyTorch, and in the full run with the newest: what gives torchrun's `python`."""
    return [pytest.param(lambda: None, id="torch"), pytest.param(newest_torch, id="newest-torch", marks=pytest.mark.full)]


def installed(folder):
    """What says of the package, which lies elsewhere, that it is installed: its entry points are found. `folder` has to be in the path."""
    metadata = folder / "paceline-0.1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: paceline\nVersion: 0.1.0\n")
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (metadata / "entry_points.txt").write_text("".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items()) for group, names in entries.items()))
    return folder


@functools.cache
def forks():
    """(variables) With them, the program `forked` stands for .venv's interpreter with PyTorch imported, for as long as this process lives."""
    place = f"{tempfile.mkdtemp()}/forks"
    command = [sys.executable, "-c", "import sys, imported; imported.main(sys.argv[1], globals())", place]
    server = subprocess.Popen(command, env=variables(), stdin=subprocess.PIPE)
    atexit.register(server.communicate)
    limit = time.monotonic() + LIMIT
    while not os.path.exists(place):
        assert server.poll() is None and time.monotonic() < limit, "imported.py does not start"
        time.sleep(0.02)
    return {"PACELINE_TEST_FORKS": place, "PYTHON_EXEC": FORKED}


def interpreter_and_variables(fresh, more):
    """`fresh`: an interpreter that has imported nothing. What acts when PyTorch is imported needs one."""
    acts = [name for name in more if name.startswith(("TORCH", "PYTHON")) or name == "path"]
    return (sys.executable, variables(**more)) if fresh or acts else (FORKED, variables(**more, **forks()))


def torchrun(script, *arguments, ranks=2, module="", limit=LIMIT, python=None, fresh=False, options=(), **more):
    """`module`: what runs the script, as python -m does. `fresh`: as `interpreter_and_variables`."""
    interpreter, environment = interpreter_and_variables(fresh or python, more)
    command = [python or interpreter, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *options, *(["-m", module] if module else []), str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)


def alone(script, *arguments, limit=LIMIT, fresh=False, **more):
    """A process that nobody has given a rank."""
    interpreter, environment = interpreter_and_variables(fresh, more)
    return subprocess.run([interpreter, str(script), *map(str, arguments)], capture_output=True, text=True, timeout=limit, env=environment)


def passes(folder, text, *arguments, **how):
    """A script of this text that ends well on all ranks."""
    script = folder / "train.py"
    script.write_text(text)
    ran = torchrun(script, *arguments, **how)
    assert ran.returncode == 0, ran.stderr[-3000:]


class Members:
    """Ranks without an agent above them, which would end the others when one ends."""

    def __init__(self, folder, script, ranks=2, fresh=False, **more):
        """`script` knows its rank as RANK, and finds `folder` as its argument."""
        interpreter, environment = interpreter_and_variables(fresh, more)
        file = folder / "train.py"
        file.write_text(script)
        self.folder = folder
        self.processes = []
        for rank in range(ranks):
            mine = dict(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE=str(ranks), OMPI_COMM_WORLD_LOCAL_SIZE=str(ranks), PMIX_NAMESPACE="x", TMPDIR=str(folder), RANK=str(rank))
            command = [interpreter, str(file), str(folder)]
            self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, **mine}, cwd=folder))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.communicate()

    def end(self, *which, limit=LIMIT):
        """Exit codes of these, of all by default, when they have ended; their stderr is in `errors`."""
        chosen = [self.processes[rank] for rank in which or range(len(self.processes))]
        self.errors = [process.communicate(timeout=limit)[1] for process in chosen]
        return [process.returncode for process in chosen]

    def said(self, rank):
        """What its script wrote into the file of its rank."""
        file = self.folder / str(rank)
        return file.read_text() if file.exists() else ""
