"""A real mpirun (Open MPI), and a real Hydra (MPICH's mpiexec), without any variables of ours."""

import re
import subprocess
import sys

import pytest
import torch
from processes import KILLED, LIMIT, ROOT, interpreter_and_variables, torchrun, variables

RESUMED = ROOT / "examples/torch/resumed.py"
GROUP = """
import torch, torch.distributed as dist, paceline.torch, os
dist.init_process_group("paceline", init_method=f"file://{os.environ['MEETING']}", rank=int(os.environ["OMPI_COMM_WORLD_RANK"]), world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]))
dist.all_reduce(t := torch.ones(3))
assert t.tolist() == [3.0] * 3
dist.destroy_process_group()
"""


def mpirun(*command, ranks=3, **more):
    interpreter, environment = interpreter_and_variables(False, more)
    return started(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), interpreter], command, environment)


# Hydra's ranks know each other by who started them: no process that something else forks.
def hydra(*command, ranks=3, **more):
    return started(["mpiexec.hydra", "-n", str(ranks), sys.executable], command, variables(**more))


def hydra_by_a_shell(*command, ranks=3, **more):
    """Which is between Hydra and each rank, as where something is set for it."""
    return started(["mpiexec.hydra", "-n", str(ranks), "sh", "-c", '"$@"; exit $?', "sh", sys.executable], command, variables(**more))


def started(words, command, environment):
    return subprocess.run([*words, *map(str, command)], capture_output=True, text=True, timeout=LIMIT, env=environment)


@pytest.mark.parametrize("launcher", (mpirun, hydra, hydra_by_a_shell))
def test_it_has_the_bits_of_torchrun(launcher, tmp_path):
    for name in ("mpirun", "torchrun"):
        (tmp_path / name).mkdir()
    done = launcher(RESUMED, tmp_path / "mpirun", "--steps", 40)
    assert done.returncode == 0 and "3 ranks, steps 1 to 40" in done.stdout, done.stderr
    ran = torchrun(RESUMED, tmp_path / "torchrun", "--steps", 40, ranks=3)
    assert ran.returncode == 0, ran.stderr
    ours, theirs = (torch.load(tmp_path / name / "checkpoint.pt")["model"] for name in ("mpirun", "torchrun"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_process_groups_meet_in_a_file(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(GROUP)
    done = mpirun(script, MEETING=str(tmp_path / "meeting"))
    assert done.returncode == 0, done.stderr


def test_mpirun_ends_all_and_names_the_killed_rank(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    done = mpirun(script)
    assert done.returncode != 0
    assert re.search(r"process rank 1 with PID \d+ on node \S+ exited on signal 9", done.stderr), done.stderr


def test_hydra_ends_all_and_says_how_the_killed_rank_ended(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    done = hydra(script)
    assert done.returncode == 9 and re.search(r"PID \d+ RUNNING AT \S+\s+=\s+EXIT CODE: 9", done.stdout), (done.returncode, done.stdout)
