"""Workers that do not wait for each other: `--sync asp|ssp|elastic-bsp`, handed-out mini-batches, what is measured of their pace."""

import itertools
import json
import os
import signal

import pytest

from jobs import LENET, MNIST, SLACK, Job, Process, full, train
from test_bad_input import refused

UNEVEN = (("asp",), ("ssp", "--staleness", 2), ("elastic-bsp",))
SPEEDS = ("--speed", "1,1,0.5,0.25", "--jitter", 0.1)
SCHEDULES = ("tuned", "default", "layer-wise", "ibatch", "kvstore", "slicing", "p3")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Six layers, 10 ms an iteration."""
    file = tmp_path_factory.mktemp("sync") / "small.json"
    layers = [{"name": f"layer{i + 1}", "parameters": p, "forward_s": 0.0005, "backward_s": 0.0011} for i, p in enumerate((1792, 36928, 300, 90_000, 4097, 60_000))]
    file.write_text(json.dumps({"layers": layers}))
    return file


@pytest.mark.parametrize("schedule, sync", list(itertools.product(SCHEDULES, UNEVEN)), ids=lambda part: part if isinstance(part, str) else part[0])
def test_every_schedule_serves_every_model_and_every_mini_batch_is_taken_once(schedule, sync, table):
    report = train("--model", f"replay:{table}", "--iterations", 12, "--workers", 3, "--servers", 2, "--schedule", schedule, "--sync", *sync, "--speed", "1,0.5,0.25")
    done = [worker["iterations"] for worker in report["per_worker"]]
    assert sum(done) == 36 and report["samples"] == 36 * 32
    assert done[0] >= done[2], done
    assert report["sync_detail"]["staleness"]["largest"] <= {"asp": 36, "ssp": 2, "elastic-bsp": 14}[sync[0]]


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_between_two_elastic_barriers_workers_do_different_numbers_of_iterations(table, tmp_path):
    trace = tmp_path / "trace.jsonl"
    report = train("--model", f"replay:{table}", "--iterations", 60, "--workers", 4, "--servers", 2, "--sync", "elastic-bsp", *SPEEDS, "--pace", trace, "--metrics", tmp_path / "metrics.jsonl")
    events = lines_of(trace)
    supersteps = [event for event in events if "superstep" in event]
    iterations = [event for event in events if "rank" in event]
    assert [line for line in lines_of(tmp_path / "metrics.jsonl") if "superstep" in line] == supersteps
    assert [event["superstep"] for event in supersteps] == list(range(1, len(supersteps) + 1))
    assert all(event["iterations"] == [1] * 4 and event["predicted"] == [] for event in supersteps[:5]), "the history is bsp"
    predicted = [event for event in supersteps[6:] if len(event["ranks"]) == 4]
    assert any(len(set(event["iterations"])) > 1 for event in predicted), predicted
    assert all(1 <= count <= 15 for event in predicted for count in event["iterations"])
    assert all(len(event["predicted"]) == len(event["arrived"]) == 4 for event in predicted)
    done = [worker["iterations"] for worker in report["per_worker"]]
    assert sum(done) == 240 and min(done[:2]) > max(done[2:]), done
    assert [sum(event["rank"] == rank for event in iterations) for rank in range(4)] == done
    assert all(event["ended"] >= event["began"] for event in iterations)
    detail = report["sync_detail"]
    # The last superstep ends when nobody is left to wait for, and is told of too when somebody was.
    assert detail["supersteps"]["count"] == len(supersteps) and detail["supersteps"]["uneven"] > 0
    assert detail["prediction"]["supersteps"] > 0 and detail["prediction"]["mean_length"] > 0
    assert sum(detail["staleness"]["histogram"]) >= 240


def test_metrics_tell_of_every_workers_iterations_where_its_time_went(table, tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    report = train("--model", f"replay:{table}", "--iterations", 20, "--workers", 2, "--sync", "ssp", "--speed", "1,0.5", "--metrics", metrics)
    lines = lines_of(metrics)
    for worker in report["per_worker"]:
        mine = [line for line in lines if line["rank"] == worker["rank"]]
        assert [line["iteration"] for line in mine] == list(range(1, worker["iterations"] + 1))
        for key in ("seconds", "computing", "waiting_barrier", "waiting_parameters"):
            assert sum(line[key] for line in mine) == pytest.approx(worker[key], abs=1e-6)
        assert worker["waiting"] == pytest.approx(worker["waiting_barrier"] + worker["waiting_parameters"])
    train("--model", f"replay:{table}", "--iterations", 5, "--workers", 2, "--metrics", metrics, "--pace", tmp_path / "bsp.jsonl")
    assert [line["iteration"] for line in lines_of(metrics)] == [1, 2, 3, 4, 5]
    assert {event["staleness"] for event in lines_of(tmp_path / "bsp.jsonl")} == {0}


@pytest.mark.full
def test_a_network_learns_in_every_model_and_all_workers_end_with_the_same_parameters():
    for sync in UNEVEN:
        report = train(*MNIST, 16, "--epochs", 1, "--workers", 3, "--servers", 2, "--learning-rate", 0.02, "--sync", *sync, "--speed", "1,1,0.5", "--evaluate-every", 40, "--evaluate-late")
        # 83 mini-batches for each worker in the mean; that the parameters are the same is checked by the program.
        assert report["samples"] == 83 * 3 * 16
        assert report["loss_last"] < 0.7 * report["loss_first"] and report["accuracy"] > 0.6
        evaluations = report["evaluations"]
        assert [one["iteration"] for one in evaluations[:-1]] == list(range(40, 40 * len(evaluations), 40))
        assert evaluations[-1]["accuracy"] == report["accuracy"] and all(0 <= one["accuracy"] <= 1 for one in evaluations)
        assert sorted(one["seconds"] for one in evaluations) == [one["seconds"] for one in evaluations]


def test_a_late_evaluation_finds_what_one_at_once_finds():
    task = (*LENET, "--iterations", 12, "--workers", 2, "--evaluate-every", 5)
    at_once, late = train(*task), train(*task, "--evaluate-late")
    assert [one["accuracy"] for one in at_once["evaluations"]] == [one["accuracy"] for one in late["evaluations"]]
    assert at_once["parameters_hash"] == late["parameters_hash"] and len(late["evaluations"]) == 3


@pytest.mark.parametrize("sync, wire", [(sync, wire) if i == j else full(sync, wire) for i, sync in enumerate(UNEVEN) for j, wire in enumerate(("bfloat16", "dropping:0.1", "dgc:0.1"))])
def test_every_model_carries_every_codec(sync, wire):
    report = train(*LENET, "--iterations", 12, "--workers", 3, "--servers", 2, "--sync", *sync, "--wire", wire)
    dense = 36 * 431080 * 4
    share = {"bfloat16": 0.5, "dropping:0.1": 0.2, "dgc:0.1": 0.2}[wire]
    assert report["bytes_pushed"] == pytest.approx(share * dense, rel=0.02)
    assert report["loss_last"] < report["loss_first"]


@pytest.mark.parametrize("sync", [UNEVEN[0], *map(full, UNEVEN[1:])], ids=lambda sync: sync[0])
def test_a_killed_worker_is_named_and_stalls_nobody(sync, tmp_path):
    with Job(tmp_path, *LENET, "--iterations", 100_000, "--workers", 3, "--sync", *sync, "--deadline", "2s") as job:
        job.wait_for_iterations(20)
        os.kill(job.children()["worker 2"], signal.SIGKILL)
        assert job.finish(2 + 2 + SLACK) == 1
        assert "worker 2" in job.the_error()


def test_a_worker_that_stands_still_delays_a_barrier_until_the_stall_limit(table, tmp_path):
    with Job(tmp_path, "--model", f"replay:{table}", "--iterations", 100_000, "--workers", 2, "--servers", 1, "--sync", "elastic-bsp", "--speed", "1,0.001", "--stall-deadline", "5s") as job:
        assert job.finish() == 1
        # Worker 1 takes ten seconds for its first iteration: alive, but too slow for anybody to wait for.
        assert "worker 0 waited" in job.the_error() and "--stall-deadline" in job.the_error()


@pytest.mark.parametrize(
    "arguments, names",
    [
        (("--sync", "ssp", "--staleness", -1), ("--staleness", "-1")),
        (("--sync", "elastic-bsp", "--lookahead", 0), ("--lookahead", "0", "1..")),
        (("--sync", "elastic-bsp", "--history", 0), ("--history", "0", "1..")),
        (("--sync", "elastic-bsp", "--objective", "spam"), ("--objective", "spam", "span")),
        (("--sync", "elastic-bsp", "--gradient-scale", "half"), ("--gradient-scale", "half", "mean")),
        (("--gradient-scale", "full"), ("--gradient-scale full", "--sync bsp", "--learning-rate")),
        (("--sync", "elastic-bsp", "--clip-norm", 1), ("--sync elastic-bsp", "--clip-norm 1", "share")),
        (("--sync", "asp", "--non-finite", "skip"), ("--sync asp", "--non-finite skip", "share")),
        (("--sync", "elastic-bsp", "--checkpoint", "runs"), ("--checkpoint", "elastic-bsp")),
        (("--sync", "elastic-bsp", "--reference"), ("--reference", "elastic-bsp")),
        (("--reference", "--pace", "t.jsonl"), ("--reference", "--pace")),
        (("--pace", "/nowhere/t.jsonl"), ("--pace", "/nowhere/t.jsonl")),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(arguments, names):
    refused("train", *arguments, names=names)


def bench(folder, *arguments):
    with Process("bench", "sync", "--quick", "--json", "--output", folder / "out", *arguments) as process:
        assert process.finish() == 0, process.err
        return process.report()


def test_the_benchmark_compares_five_contestants_and_does_nothing_twice(tmp_path):
    report = bench(tmp_path, "--parts", "replay", "--no-pictures")
    rows = {row["contestant"]: row for row in report["rows"]}
    assert list(rows) == ["bsp", "asp", "ssp(3)", "elastic span", "elastic waiting-share"]
    assert not report["failures"] and report["prediction"] == []
    assert all(row["of_bsp"]["samples_per_second"] > 0 for row in rows.values())
    cells = (tmp_path / "out/cells.jsonl").read_text()
    assert len(cells.splitlines()) == 5
    assert bench(tmp_path, "--parts", "replay", "--no-pictures")["rows"] == report["rows"]
    assert (tmp_path / "out/cells.jsonl").read_text() == cells


def test_the_benchmark_of_predictions_stands_beside_the_papers_numbers(tmp_path):
    report = bench(tmp_path, "--parts", "prediction")
    rows = report["prediction"]
    assert report["cells"] is None, "no job, no cells"
    of_paper = [row for row in rows if row["algorithm"] == "zipline" and row["paper_seconds"]]
    assert [(row["workers"], row["lookahead"]) for row in of_paper] == list(itertools.product((10, 100, 1000), (15, 150)))
    assert all(row["seconds"]["median"] > 0 and row["value_of_zip_line"] == 1 for row in of_paper)
    with Process("bench", "sync", "--parts", "predictions") as process:
        assert process.finish() == 2
        assert "did you mean 'prediction'" in process.the_error()
    with Process("bench", "sync", "--parts", "prediction", "--seeds", 2) as process:
        assert process.finish() == 2
        assert "--seeds is for --parts replay or lenet; give replay or lenet, or leave --seeds out" in process.the_error()
