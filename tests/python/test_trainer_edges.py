"""What a network's trainer does where LibTorch or the data gives out, and figures of its report at such places."""

import re
import resource
import subprocess
from pathlib import Path

import pytest

from jobs import BRIEF, LENET, PROGRAM, Job, environment, train
from test_sync import lines_of


def test_a_worker_in_which_a_library_throws_says_what(tmp_path):
    # An evaluation of 250 images needs more memory than a mini-batch of one: more than the process may have by then.
    task = ("--model", "alexnet-32", "--dataset", "synthetic:3x32x32,samples=100,test=250", "--mini-batch", 1, "--learning-rate", 1e-6)
    with Job(tmp_path, *task, "--iterations", 100_000, "--evaluate-every", 20, "--workers", 1) as job:
        job.wait_for_iterations(2)
        worker = job.children()["worker 0"]
        size = int(re.search(r"VmSize:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())[1]) << 10
        resource.prlimit(worker, resource.RLIMIT_AS, (size + (16 << 20),) * 2)
        assert job.finish() == 1
        assert job.the_error().startswith("worker 0: "), job.err
        assert "goodbye" not in job.err and "frame #" not in job.err, job.err


@pytest.mark.parametrize("mode", [("train", "--dataset", "synthetic:3x299x299,samples=4,test=1"), ("profile",), ("profile", "--memory")])
def test_a_mini_batch_too_small_for_the_network_is_refused(tmp_path, mode):
    words = [PROGRAM, mode[0], "--model", "inception-v3-aux", "--mini-batch", "1", *mode[1:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment("edges"), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "inception-v3-aux needs a --mini-batch of at least 2" in done.stderr


def test_without_a_test_half_no_evaluation_has_an_accuracy(tmp_path):
    (tmp_path / "lines").write_text("one word\n" * 8)  # every tenth pair would be one to test with
    task = ("--model", "seq2seq", "--dataset", f"text:{tmp_path}/lines,{tmp_path}/lines", "--mini-batch", 2)
    report = train(*task, "--iterations", 4, "--workers", 1, "--evaluate-every", 2)
    assert report["accuracy"] is None
    assert [(one["iteration"], one["accuracy"]) for one in report["evaluations"]] == [(2, None), (4, None)]


def test_the_seconds_of_an_iteration_hold_its_parts_also_where_it_is_evaluated(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    report = train(*LENET, "--iterations", 9, "--workers", 1, "--evaluate-every", 3, "--metrics", metrics)
    lines = lines_of(metrics)
    assert [line["iteration"] for line in lines] == list(range(1, 10))
    for line in lines:
        assert line["seconds"] + 1e-9 >= line["computing"] + line["waiting_barrier"] + line["waiting_parameters"], line
    assert sum(line["seconds"] for line in lines) == pytest.approx(report["seconds"])


def test_the_seconds_of_the_reference_s_evaluations_are_the_run_s():
    report = train("--reference", *BRIEF, "--iterations", 6, "--workers", 3, "--evaluate-every", 3)
    assert [one["iteration"] for one in report["evaluations"]] == [3, 6]
    assert report["evaluations"][-1]["seconds"] == pytest.approx(report["seconds"])
    assert 0 < report["evaluations"][0]["seconds"] < report["seconds"]
