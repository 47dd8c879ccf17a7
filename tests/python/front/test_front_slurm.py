"""A real Slurm of three nodes: srun without any variables of ours, and sbatch with a signal before its time is over, requeued; also as a
heterogeneous job, with servers on a node of their own."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from processes import KILLED, ROOT, torchrun, variables

from jobs import PROGRAM, train
from slurm import Cluster

pytestmark = pytest.mark.full
RESUMED = ROOT / "examples/torch/resumed.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("slurm") / "cluster") as made:
        yield made


def environment():
    found = variables()
    return {name: found[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS", "PACELINE_LIBRARY") if name in found}


def state_of(cluster, number):
    """(state, how often it was requeued); ("", 0): the controller has not said."""
    shown = cluster.run("scontrol", "-o", "show", "job", number, check=False).stdout
    found = re.search(r"JobState=(\w+)", shown), re.search(r"Restarts=(\d+)", shown)
    return (found[0].group(1), int(found[1].group(1))) if all(found) else ("", 0)


def parameters(folder):
    return torch.load(folder / "checkpoint.pt")["model"]


def same(ones, others):
    return all(torch.equal(ones[name], others[name]) for name in others)


def test_srun_on_three_nodes_with_a_key_has_the_bits_of_torchrun(cluster, tmp_path):
    for name in ("srun", "torchrun"):
        (tmp_path / name).mkdir()
    key = tmp_path / "job.key"
    subprocess.run([PROGRAM, "key", "new", key], check=True)
    done = cluster.run("srun", "-N", 3, "-n", 3, sys.executable, RESUMED, tmp_path / "srun", "--steps", 40, PACELINE_JOB_KEY_FILE=str(key), **environment())
    assert "3 ranks, steps 1 to 40" in done.stdout
    ran = torchrun(RESUMED, tmp_path / "torchrun", "--steps", 40, ranks=3)
    assert ran.returncode == 0, ran.stderr
    assert same(parameters(tmp_path / "srun"), parameters(tmp_path / "torchrun"))


def test_srun_starts_the_trainer_on_three_nodes_with_the_bits_of_its_reference(cluster):
    job = ("--model", "mlp", "--dataset", "mnist-5k", "--iterations", 4, "--mini-batch", 8)
    expected = train(*job, "--reference", "--workers", 3)["parameters_hash"]
    done = cluster.run("srun", "-N", 3, "-n", 3, PROGRAM, "train", *job, "--role", "both", "--bind", "127.0.0.1", "--json")
    assert json.loads(done.stdout)["parameters_hash"] == expected


def test_a_killed_task_ends_the_step_and_the_others_name_it(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    done = cluster.run("srun", "-N", 3, "-n", 3, sys.executable, script, check=False, **environment())
    assert done.returncode != 0
    assert re.search(r"task 1: Killed", done.stderr), done.stderr
    assert re.search(r"PacelineError: .*\b(worker|server) 1\b", done.stderr), done.stderr


def programs():
    """Of this build, and this interpreter, for scripts that name them as a user would."""
    return f"{Path(PROGRAM).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("example, ranks", (("slurm.sbatch", 2), ("slurm_servers.sbatch", 2)))
def test_a_signal_before_the_time_is_over_saves_and_the_requeued_job_goes_on_with_the_same_bits(cluster, tmp_path, example, ranks):
    # The example's own script; what is written into it is how long steps take.
    text = (ROOT / "examples/torch" / example).read_text()
    assert "resumed.py" in text
    script, log, key = tmp_path / "job.sbatch", tmp_path / "log", tmp_path / "job.key"
    script.write_text(text.replace("resumed.py", "resumed.py --steps 160 --seconds 0.1"))
    subprocess.run([PROGRAM, "key", "new", key], check=True)
    number = cluster.run("sbatch", "--parsable", "-D", ROOT, "-o", log, script, tmp_path, PATH=programs(), PACELINE_JOB_KEY_FILE=str(key), **environment()).stdout.strip()
    limit = time.monotonic() + 240
    while not (tmp_path / "checkpoint.pt").exists():
        assert time.monotonic() < limit, log.read_text()
        time.sleep(0.1)
    cluster.run("scancel", "--batch", "--signal=USR1", number)  # what --signal has Slurm send before the time is over
    # How the job that saved has ended may be shown once more after the requeued one is PENDING: what counts is what that one says, once.
    def said():
        return [(int(first), int(last)) for first, last in re.findall(rf"^{ranks} ranks, steps (\d+) to (\d+)", log.read_text(), flags=re.M)]

    requeued = None
    while (state := state_of(cluster, number))[0] != "COMPLETED" or len(said()) < 2:
        if state == ("PENDING", 1):
            # Now instead of after two minutes, but not in the second of the requeue, whose credential the node has revoked; and again, since a
            # heterogeneous job, each of whose components begins by itself, is looked at only when something has changed.
            requeued = requeued or time.monotonic()
            for component in ("+0", "+1") if "servers" in example else ("",):
                if time.monotonic() > requeued + 3:
                    cluster.run("scontrol", "update", f"jobid={number}{component}", "starttime=now", check=False)
        assert time.monotonic() < limit, (state, log.read_text())
        time.sleep(0.5)
    (first, saved), (again, last) = said()
    assert (first, again, last) == (1, saved + 1, 160), log.read_text()
    assert len(re.findall("2 workers, 2 servers", log.read_text())) == (2 if "servers" in example else 0), log.read_text()
    (tmp_path / "undisturbed").mkdir()
    ran = torchrun(RESUMED, tmp_path / "undisturbed", "--steps", 160, ranks=ranks)
    assert ran.returncode == 0, ran.stderr
    assert same(parameters(tmp_path), parameters(tmp_path / "undisturbed"))
