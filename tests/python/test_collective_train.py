"""`paceline train --collective`: training without servers ends with the bits of one process, whatever the loop and the algorithm."""

import itertools
import json
import os
import signal
import time

import pytest

from jobs import BRIEF, DEADLINE, LENET, SLACK, Coordinator, Job, Process, full, reference, train
from test_bad_input import refused

LOOPS = ("loop1", "loop2", "loop3", "loop3-overlap")
TASK = (*BRIEF, "--iterations", 12)


def same_bits(task, workers, *how):
    expected = reference(*task, "--workers", workers)
    actual = train(*task, "--workers", workers, *how)
    assert actual["parameters_hash"] == expected["parameters_hash"], (task, workers, how)
    for key in ("loss_first", "loss_last", "accuracy", "iterations", "samples"):
        assert actual[key] == expected[key], key
    return actual


OPTIMIZERS = {"momentum": 0.02, "adam": 0.001}


@pytest.mark.parametrize("loop, workers", [pair if (i + i // 4) % 2 == 0 else full(*pair) for i, pair in enumerate(itertools.product(LOOPS, (1, 2, 3, 4)))])
def test_a_job_without_servers_has_the_bits_of_the_reference(loop, workers):
    optimizer = "adam" if workers % 2 == 0 else "momentum"
    task = (*TASK, "--optimizer", optimizer, "--learning-rate", OPTIMIZERS[optimizer])
    report = same_bits(task, workers, "--collective", loop)
    collective = report["collective"]
    assert report["servers"] == 0 and report["role"] is None and report["schedule"] == loop and report["tuned"] is None
    assert collective["loop"] == loop and collective["sum_order"] == "rank" and collective["measured"] is True
    assert collective["alpha"] >= 1e-5 and collective["beta"] > 0 and collective["gamma"] > 0 and collective["residual"] >= 0
    if workers == 1:
        assert report["bytes_pushed"] == 0
    else:
        assert report["bytes_pushed"] == report["bytes_pulled"] > 0, "what is sent is received"
        kinds = {operation["operation"] for operation in collective["operations"]}
        assert kinds == ({"allreduce"} if "3" in loop else {"reduce", "broadcast"})
        assert all(operation["seconds"] > 0 for operation in collective["operations"])


@pytest.mark.parametrize(
    "loop, algorithm",
    [full("loop1", "lp"), ("loop2", "lp"), full("loop3", "lp"), ("loop3", "direct"), ("loop3-overlap", "lp"), full("loop3-overlap", "direct")],
)
def test_every_algorithm_that_sums_in_rank_order_has_the_bits_of_the_reference(loop, algorithm):
    report = same_bits(TASK, 3, "--collective", loop, "--algorithm", algorithm)
    assert {operation["algorithm"] for operation in report["collective"]["operations"]} == {algorithm}


@pytest.mark.parametrize("algorithm", ["ring", full("mst"), full("be")])
def test_two_workers_have_the_bits_of_the_reference_by_any_algorithm(algorithm):
    report = same_bits(TASK, 2, "--collective", "loop3-overlap", "--algorithm", algorithm)
    assert report["collective"]["sum_order"] == "rank"


@pytest.mark.parametrize("loop, algorithm", [("loop3", "ring"), full("loop3-overlap", "be"), full("loop1", "mst"), full("loop2", "be")])
def test_another_order_of_sums_is_the_same_on_all_ranks_and_said(loop, algorithm):
    # The report itself refuses workers with different parameters.
    first, second = (train(*TASK, "--workers", 4, "--collective", loop, "--algorithm", algorithm) for _ in range(2))
    assert first["collective"]["sum_order"] == "algorithm"
    assert first["parameters_hash"] == second["parameters_hash"]
    assert first["loss_last"] == pytest.approx(reference(*TASK, "--workers", 4)["loss_last"], rel=1e-3)


MERGES = (0, "100KB", "100MB")


@pytest.mark.parametrize("loop, merge", [pair if (i + i // 3) % 3 == 0 else full(*pair) for i, pair in enumerate(itertools.product(LOOPS, MERGES))])
def test_merging_changes_the_messages_and_no_bit(loop, merge):
    report = same_bits(TASK, 3, "--collective", loop, "--merge", merge)
    tensors = 8
    messages = len(report["collective"]["operations"]) // (1 if "3" in loop else 2)
    assert messages == {0: tensors, "100MB": 1}.get(merge, messages) and 1 <= messages <= tensors


@pytest.mark.parametrize("loop, block", [("loop1", "64KB"), full("loop2", "4KB"), full("loop3", "400"), ("loop3-overlap", "1GB")])
def test_blocks_of_any_size_change_no_bit(loop, block):
    sizes = {"64KB": 64_000, "4KB": 4000, "400": 400, "1GB": 10**9}
    report = same_bits(TASK, 3, "--collective", loop, "--algorithm", "lp", "--block", block)
    assert report["collective"]["block"] == sizes[block]
    for operation in report["collective"]["operations"]:
        assert operation["algorithm"] == "lp"
        least = -(-operation["bytes"] // 65536)
        assert operation["block"] == max(min(sizes[block], operation["bytes"]), least), "all of the message at most, 65536 blocks at most"


def test_a_block_of_what_sends_none_is_refused_before_the_start():
    assert "--block 64000B is for --collective loop1, loop2" in refused("train", *TASK, "--block", "64KB")
    assert "--block 64000B is for the blocks of --algorithm lp" in refused("train", *TASK, "--collective", "loop3", "--algorithm", "mst", "--block", "64KB")
    for size in ("0", "6", "64kb", "-4"):
        assert "whole parameters of 4 bytes" in refused("train", *TASK, "--collective", "loop3", f"--block={size}")


@pytest.mark.parametrize("loop", [full("loop3"), "loop3-overlap"])
def test_broadcasting_the_weights_now_and_then_finds_no_drift(loop):
    report = same_bits(TASK, 3, "--collective", loop, "--broadcast-every", 5)
    usual = train(*TASK, "--workers", 3, "--collective", loop)
    assert report["bytes_pushed"] > usual["bytes_pushed"]


OPTIONS = [
    ("--clip-norm", 0.5),
    ("--clip-norm", 0.5, "--optimizer", "adam", "--learning-rate", 0.001),
    ("--weight-decay", 0.01, "--optimizer", "adamw", "--learning-rate", 0.001),
    ("--optimizer", "nesterov", "--momentum", 0.8, "--learning-rate", 0.02),
    ("--learning-rate", "cosine:0.05,total=12,warmup=3"),
    ("--non-finite", "skip", "--clip-norm", 0.5),
    ("--non-finite", "skip", "--learning-rate", 1e30),  # from the second iteration on nothing is finite
    ("--non-finite", "apply", "--learning-rate", 1e12, "--optimizer", "momentum"),
    ("--evaluate-every", 5),
]


@pytest.mark.parametrize("loop, options", [pair if i % 5 == 0 else full(*pair) for i, pair in enumerate(itertools.product(("loop1", "loop3-overlap"), OPTIONS))], ids=str)
def test_every_option_of_the_update_keeps_the_bits(loop, options):
    same_bits((*TASK, *options), 2, "--collective", loop)


ENDLESS = (*LENET, "--iterations", 1_000_000, "--deadline", f"{DEADLINE:g}s")


def seconds_to_end(job):
    began = time.monotonic()
    code = job.finish(60)
    return code, time.monotonic() - began


LOST = [("loop1", "worker 2"), ("loop2", "worker 0"), ("loop3", "worker 1"), ("loop3-overlap", "coordinator")]


@pytest.mark.parametrize("loop, culprit, number", [(*lost, (signal.SIGKILL, signal.SIGSTOP)[i % 2]) for i, lost in enumerate(LOST)]
    + [full(*lost, (signal.SIGSTOP, signal.SIGKILL)[i % 2]) for i, lost in enumerate(LOST)])  # fmt: skip
def test_a_lost_process_ends_the_job_within_the_deadline_and_is_named(number, loop, culprit, tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 3, "--collective", loop) as job:
        job.wait_for_iterations(3)
        os.kill(job.children()[culprit], number)
        code, took = seconds_to_end(job)
        assert code == 1, (code, job.err)
        assert took < DEADLINE + 2 + SLACK, job.err
        message = job.the_error()
        assert culprit in message.split(" waited for ")[0], message
        others = {"coordinator", "worker 0", "worker 1", "worker 2"} - {culprit}
        assert not any(other in message.split(" waited for ")[0] for other in others), message
        assert job.out == ""


@pytest.mark.parametrize("loop", [full("loop1"), full("loop2"), full("loop3"), "loop3-overlap"])
def test_a_short_freeze_changes_no_bit(loop, tmp_path):
    task = (*LENET, "--iterations", 60)
    with Job(tmp_path, *task, "--workers", 2, "--collective", loop, "--deadline", "10s") as job:
        job.wait_for_iterations(3)
        pid = job.children()["worker 1"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)  # the length of the freeze, not a way to wait for something
        os.kill(pid, signal.SIGCONT)
        assert job.finish() == 0, job.err
        assert job.report()["parameters_hash"] == reference(*task, "--workers", 2)["parameters_hash"]


def test_an_interrupt_finishes_the_iteration_on_all_workers_and_reports(tmp_path):
    with Job(tmp_path, *ENDLESS, "--workers", 3, "--collective", "loop3-overlap") as job:
        job.wait_for_iterations(3)
        job.signal(signal.SIGINT)
        code, took = seconds_to_end(job)
        assert code == 130, (code, job.err)
        assert took < DEADLINE + 2 + SLACK
        report = job.report()
        done = report["iterations"]
        assert [worker["iterations"] for worker in report["per_worker"]] == [done] * 3
        assert report["parameters_hash"] == reference(*LENET, "--iterations", done, "--workers", 3)["parameters_hash"]


@pytest.mark.parametrize("loop", ["loop1", "loop3-overlap"])
def test_a_gradient_that_is_not_finite_stops_the_job_and_is_named(loop):
    with Process("train", "--json", *LENET, "--iterations", 30, "--learning-rate", 1e30, "--workers", 2, "--collective", loop) as job:
        assert job.finish() == 1, job.err
        message = job.the_error()
        assert "worker 0 has a gradient" in message or "worker 1 has a gradient" in message, message
        assert "of iteration 2" in message and "layer" in message and "--non-finite skip" in message, message


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Layers of unlike sizes, one without parameters; 9 ms an iteration."""
    file = tmp_path_factory.mktemp("replay") / "small.json"
    rows = [(1792, 0.0005, 0.001), (36928, 0.001, 0.002), (0, 0.0005, 0), (300_000, 0.0005, 0.001), (4097, 0, 0.001), (60_000, 0.0005, 0.001)]
    layers = [{"name": f"layer{i + 1}", "parameters": p, "forward_s": f, "backward_s": b} for i, (p, f, b) in enumerate(rows)]
    file.write_text(json.dumps({"layers": layers}))
    return file


@pytest.mark.parametrize("loop", LOOPS)
def test_a_replay_has_the_bits_of_its_reference_and_says_what_was_exposed(table, loop):
    task = ("--model", f"replay:{table}", "--iterations", 12, "--workers", 3, "--optimizer", "momentum")
    report = train(*task, "--collective", loop, "--merge", "40KB")
    assert report["parameters_hash"] == reference(*task)["parameters_hash"]
    assert report["seconds"] / 12 >= 0.0089, "nothing is faster than it sleeps"
    total = sum(worker["seconds"] for worker in report["per_worker"]) / 3 / 12
    assert sum(report["phases"].values()) == pytest.approx(total, rel=0.05, abs=0.001)
    assert report["overlapped"]["push"] >= 0 and report["overlapped"]["pull"] >= 0
    if loop in ("loop1", "loop3-overlap"):
        assert report["overlapped"]["push"] > 0, "sums are made while backward goes on"
    if loop.startswith("loop3"):
        assert report["overlapped"]["pull"] == report["phases"]["pull"] == 0, "nothing is broadcast"


def test_workers_join_a_coordinator_that_was_started_without_servers():
    task = (*LENET, "--iterations", 5)
    with Coordinator("--workers", 2, "--servers", 0) as coordinator:
        join = ("train", *task, "--join", coordinator.address, "--collective", "loop1")
        with Process(*join) as first, Process(*join) as second:
            assert first.finish() == 0, first.err
            assert second.finish() == 0, second.err
        assert coordinator.finish() == 0, coordinator.err
        assert coordinator.report()["parameters_hash"] == reference(*task, "--workers", 2)["parameters_hash"]


def test_workers_that_train_by_different_loops_all_hear_the_difference():
    with Coordinator("--workers", 2, "--servers", 0) as coordinator:
        join = ("train", *LENET, "--iterations", 5, "--join", coordinator.address, "--collective")
        with Process(*join, "loop1") as first, Process(*join, "loop2") as second:
            assert first.finish() == second.finish() == 2
        assert coordinator.finish() == 2
        assert first.the_error() == second.the_error() == coordinator.the_error()
        assert "disagree on --collective: loop" in first.the_error()


@pytest.mark.parametrize("servers, collective, says", [(0, "none", "give it --collective"), (2, "loop3", "start it with --servers 0")])
def test_a_worker_and_a_coordinator_that_do_not_fit_say_what_to_do(servers, collective, says):
    with Coordinator("--workers", 1, "--servers", servers) as coordinator:
        refused("train", *LENET, "--join", coordinator.address, "--collective", collective, names=(says,))


@pytest.mark.parametrize(
    "arguments, names",
    [
        (("--collective", "loop4"), ("--collective", "'loop4'", "loop3-overlap", "did you mean 'loop1'?")),
        (("--collective", "loop1", "--algorithm", "rings"), ("--algorithm", "'rings'", "did you mean 'ring'?")),
        (("--collective", "loop1", "--algorithm", "ring"), ("--algorithm ring", "reduce of --collective loop1", "best, lp, mst, be")),
        (("--algorithm", "lp"), ("--algorithm lp", "--collective")),
        (("--broadcast-every", 5), ("--broadcast-every 5", "--collective")),
        (("--collective", "loop2", "--broadcast-every", 5), ("--broadcast-every 5", "--collective loop2")),
        (("--collective", "loop3", "--broadcast-every", -1), ("--broadcast-every", "0 (never) and more")),
        (("--collective", "loop3", "--servers", 2), ("--servers 2", "--collective loop3")),
        (("--collective", "loop3", "--role", "both"), ("--role both", "--collective loop3")),
        (("--collective", "loop3", "--schedule", "p3"), ("--schedule p3", "--collective loop3")),
        (("--collective", "loop3", "--slice", 5000), ("--slice 5000", "--collective loop3")),
        (("--collective", "loop3", "--sync", "asp"), ("--sync asp", "--collective loop3")),
        (("--collective", "loop3", "--merge", "many"), ("--merge many",)),
        (("--collective", "loop3", "--reference"), ("--reference", "--collective loop3")),
        (("--servers", 0), ("--servers 0: training without servers",)),
    ],
    ids=str,
)
def test_what_no_job_without_servers_can_be(arguments, names):
    refused("train", *arguments, names=names)
