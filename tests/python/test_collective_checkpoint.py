"""`paceline train --collective` with --checkpoint and --resume: whatever ends a job, it goes on to the bits of one that nothing disturbed."""

import os
import signal

import pytest

from jobs import LENET, Job, full, reference, train
from test_bad_input import refused

TASK = (*LENET, "--optimizer", "adam", "--learning-rate", 0.001, "--clip-norm", 1)


def finished(folder):
    return sorted(path.parent.name for path in folder.glob("*/manifest.json"))


@pytest.mark.parametrize("loop, workers", [("loop1", 3), full("loop2", 2), full("loop3", 3), ("loop3-overlap", 2), full("loop3-overlap", 1)])
def test_a_longer_job_goes_on_from_its_checkpoint_with_the_bits_of_the_reference(tmp_path, loop, workers):
    how = ("--workers", workers, "--collective", loop, "--checkpoint", tmp_path)
    first = train(*TASK, *how, "--iterations", 5, "--checkpoint-every", 2)
    assert finished(tmp_path) == ["00000002", "00000004", "00000005"]
    assert first["checkpoint"] == str(tmp_path / "00000005") and first["collective"]["kept"] is False
    second = train(*TASK, *how, "--iterations", 12, "--resume")
    assert second["parameters_hash"] == reference(*TASK, "--iterations", 12, "--workers", workers)["parameters_hash"]
    assert second["collective"]["kept"] is True, "what was chosen is kept"
    assert all(second["collective"][constant] == first["collective"][constant] for constant in ("alpha", "beta", "gamma", "merge"))
    if workers > 1:
        assert "kept from the checkpoint" in second["collective"]["why"]


@pytest.mark.parametrize("loop", ["loop1", full("loop2"), full("loop3"), full("loop3-overlap")])
def test_servers_and_workers_alone_go_on_from_each_others_checkpoints(tmp_path, loop):
    how = (*TASK, "--workers", 2, "--checkpoint", tmp_path)
    train(*how, "--iterations", 3, "--servers", 2)
    train(*how, "--iterations", 7, "--collective", loop, "--resume")
    last = train(*how, "--iterations", 10, "--servers", 3, "--resume")
    assert last["parameters_hash"] == reference(*TASK, "--iterations", 10, "--workers", 2)["parameters_hash"]


def test_operations_and_servers_come_from_the_checkpoint_unless_the_others_are_asked_for(tmp_path):
    place = ("--checkpoint", tmp_path, "--resume")
    train(*TASK, "--workers", 2, "--checkpoint", tmp_path, "--iterations", 3, "--collective", "loop3-overlap")
    report = train(*place, "--iterations", 5)
    assert report["collective"]["loop"] == "loop3-overlap" and report["collective"]["kept"] is True and report["servers"] == 0
    assert train(*place, "--iterations", 7, "--servers", 2)["servers"] == 2
    assert train(*place, "--iterations", 9)["servers"] == 2
    last = train(*place, "--iterations", 10, "--collective", "loop1")
    assert last["servers"] == 0 and last["parameters_hash"] == reference(*TASK, "--iterations", 10, "--workers", 2)["parameters_hash"]


@pytest.mark.parametrize("loop", [full("loop1"), "loop3-overlap"])
def test_a_job_whose_worker_is_killed_names_the_checkpoint_and_goes_on_from_it(tmp_path, loop):
    checkpoints = tmp_path / "checkpoints"
    how = (*TASK, "--workers", 3, "--collective", loop, "--checkpoint", checkpoints, "--deadline", "2s")
    with Job(tmp_path, *how, "--iterations", 1_000_000, "--checkpoint-every", 2) as job:
        job.wait_for_iterations(9)
        os.kill(job.children()["worker 1"], signal.SIGKILL)
        assert job.finish() == 1, job.err
        assert "--resume" in job.the_error() and str(checkpoints) in job.the_error()
    last = int(finished(checkpoints)[-1])
    report = train(*how, "--iterations", last + 4, "--resume")
    assert report["parameters_hash"] == reference(*TASK, "--iterations", last + 4, "--workers", 3)["parameters_hash"]


def test_an_interrupted_job_has_a_checkpoint_of_its_last_iteration(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    how = (*TASK, "--workers", 2, "--collective", "loop3-overlap", "--checkpoint", checkpoints)
    with Job(tmp_path, *how, "--iterations", 1_000_000) as job:
        job.wait_for_iterations(3)
        job.signal(signal.SIGINT)
        assert job.finish() == 130, job.err
        done = job.report()["iterations"]
    assert finished(checkpoints) == [f"{done:08}"]
    report = train(*how, "--iterations", done + 3, "--resume")
    assert report["parameters_hash"] == reference(*TASK, "--iterations", done + 3, "--workers", 2)["parameters_hash"]


@pytest.mark.full
def test_a_job_that_adds_in_another_order_keeps_it_and_is_not_taken_for_one_in_rank_order(tmp_path):
    how = (*TASK, "--workers", 4, "--collective", "loop3-overlap", "--algorithm", "ring")
    undisturbed = train(*how, "--iterations", 9, "--merge", "40KB")
    place = ("--checkpoint", tmp_path)
    train(*how, *place, "--iterations", 4, "--merge", "40KB")
    refused("train", *place, "--resume", "--servers", 2, "--iterations", 9, names=("--algorithm ring", "in rank order"))
    assert train(*place, "--iterations", 9, "--resume")["parameters_hash"] == undisturbed["parameters_hash"]
