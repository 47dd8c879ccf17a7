"""`paceline train` started by mpirun, Hydra, torchrun and (its variables set by hand) srun gives the bits of the reference.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from jobs import SLACK, two_ports_in_a_row

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))
TORCHRUN = shutil.which("torchrun") or str(ROOT / ".venv/bin/torchrun")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
JOB = ["--model", "mlp", "--dataset", "mnist-5k", "--iterations", "4", "--mini-batch", "8"]
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_", "OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "SLURM_", "PACELINE_COORDINATOR")


def run(command, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    environment.update({name: str(value) for name, value in variables.items()})
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, env=environment, cwd=ROOT)


@pytest.fixture(scope="module")
def reference_hash():
    done = run([PROGRAM, "train", "--reference", "--workers", "2", *JOB, "--json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["parameters_hash"]


def check_report(text, reference_hash):
    report = json.loads(text)
    assert report["workers"] == 2
    assert sorted(worker["rank"] for worker in report["per_worker"]) == [0, 1]
    assert report["parameters_hash"] == reference_hash


def refused(done, *names):
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1, done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)


# Servers of their own, or each process a worker and a server.
PLACES = pytest.mark.parametrize("place", [("--servers", "2"), ("--role", "both")], ids=["servers", "both"])


@PLACES
def test_mpirun(reference_hash, place):
    done = run([*MPIRUN, "-np", "2", PROGRAM, "train", *JOB, *place, "--json"])
    assert done.returncode == 0, done.stderr
    check_report(done.stdout, reference_hash)


@PLACES
def test_hydra(reference_hash, place):
    done = run(["mpiexec.hydra", "-n", "2", PROGRAM, "train", *JOB, *place, "--json"])
    assert done.returncode == 0, done.stderr
    check_report(done.stdout, reference_hash)


@PLACES
def test_torchrun(reference_hash, place):
    with two_ports_in_a_row() as port:  # torchrun's store, and the coordinator beside it
        done = run([TORCHRUN, "--no-python", "--nproc-per-node", "2", "--master-port", port, PROGRAM, "train", *JOB, "--workers", "2", *place, "--json"])
    assert done.returncode == 0, done.stderr
    check_report(done.stdout, reference_hash)


@pytest.mark.parametrize("late", [0, 1])
def test_srun_in_whatever_order_its_tasks_start(reference_hash, late):
    variables = {"SLURM_NTASKS": 2, "SLURM_JOB_NODELIST": "node[07]", "SLURM_STEP_NODELIST": "node07", "SLURM_JOB_ID": random.randint(1, 10**6)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    environment.update({name: str(value) for name, value in variables.items()})
    started = {}
    for rank in (1 - late, late):
        started[rank] = subprocess.Popen([PROGRAM, "train", *JOB, "--json"], env={**environment, "SLURM_PROCID": str(rank)}, cwd=ROOT,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = {rank: process.communicate(timeout=240) for rank, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
    assert started[0].returncode == 0 and started[1].returncode == 0, said
    check_report(said[0][0], reference_hash)
    assert said[1][0] == ""  # one report, from rank 0


def test_a_rank_waits_for_the_coordinator_as_long_as_stall_deadline_says():
    began = time.monotonic()
    with two_ports_in_a_row() as port:
        done = run([PROGRAM, "train", *JOB, "--stall-deadline", "1s"], RANK=1, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert done.returncode == 1 and "coordinator" in done.stderr and "could not be reached in 1.0 s" in done.stderr, done.stderr
    assert 1 <= time.monotonic() - began < 1 + SLACK  # 30 s was the rule, whatever the option said


def test_a_failing_rank_fails_the_launcher():
    done = run([*MPIRUN, "-np", "2", PROGRAM, "train", "--model", "lenett"])
    assert done.returncode == 2 and done.stdout == ""
    assert "paceline: error: " in done.stderr and "lenet" in done.stderr


SRUN = {"SLURM_PROCID": 0, "SLURM_NTASKS": 2, "SLURM_JOB_NODELIST": "node07", "SLURM_JOB_ID": 4711}
TORCH = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
MPI = {"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_SIZE": 2, "PMIX_NAMESPACE": "1"}
HYDRA = {"PMI_RANK": 0, "PMI_SIZE": 2, "MPI_LOCALNRANKS": 2}


def test_a_coordinator_in_the_environment_that_this_job_does_not_join_is_told():
    done = run([PROGRAM, "train", *JOB], PACELINE_COORDINATOR="127.0.0.1:4100")
    assert done.returncode == 0 and "PACELINE_COORDINATOR is 127.0.0.1:4100, and this is a job of its own" in done.stderr, done.stderr
    assert run([PROGRAM, "train", *JOB]).stderr == ""


@pytest.mark.parametrize("variables, launcher", [(SRUN, "srun"), (TORCH, "torchrun"), (MPI, "mpirun"), ({**HYDRA, "PACELINE_COORDINATOR": "127.0.0.1:4100"}, "Hydra")])
def test_contradictions_are_refused(variables, launcher):
    refused(run([PROGRAM, "train", *JOB, "--workers", "4"], **variables), "--workers 4", launcher, "2 processes")
    refused(run([PROGRAM, "train", *JOB, "--reference"], **variables), "--reference", launcher)


def test_what_a_launcher_does_not_say_is_asked_for():
    refused(run([PROGRAM, "train", *JOB], **{**MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": 1}), "PACELINE_COORDINATOR=HOST:PORT")
    refused(run([PROGRAM, "train", *JOB], **HYDRA), "Hydra started 2 ranks and does not say where rank 0 is", "PACELINE_COORDINATOR=HOST:PORT")
    refused(run([PROGRAM, "train", *JOB], **{**HYDRA, "MPI_LOCALNRANKS": 1}), "on several machines", "PACELINE_COORDINATOR=HOST:PORT")
    refused(run([PROGRAM, "train", *JOB], **{**SRUN, "SLURM_JOB_NODELIST": "node[07-08]"}), "node07", "--bind")
    refused(run([PROGRAM, "train", *JOB], **{**TORCH, "RANK": 2}), "RANK=2")
    refused(run([PROGRAM, "train", *JOB], **{**TORCH, "PACELINE_COORDINATOR": "here"}), "PACELINE_COORDINATOR=here")


def test_joining_by_hand_ignores_the_launcher():
    # Refused because of what --join says, not because of the variables.
    done = run([PROGRAM, "train", "--join", "nonsense", *JOB, "--workers", "4"], **SRUN)
    assert done.returncode == 2 and "nonsense" in done.stderr and "srun" not in done.stderr, done.stderr
