"""A job of many processes ends with the bits of one process: `paceline train` against `paceline train --reference`.

Any two choices (workers, servers, schedule, merging, optimizer, data) meet in some job; with PACELINE_FULL=1 any three, with PACELINE_FULL=all
all of them.
"""

import itertools
import json
import os
import random

import numpy as np
import pytest
from safetensors.numpy import load_file

from jobs import BRIEF, MNIST, Job, full, reference, train

CHOICES = {
    "workers": (1, 2, 3, 4),
    "servers": (1, 2, 3, "both"),  # both: every worker's process is a server too
    "schedule": ("tuned", "default", "layer-wise", "ibatch", "kvstore", "p3", "slicing"),
    "merge": (0, "100KB"),
    "optimizer": ("momentum", "adam"),
    "data": ("mnist-5k", "cifar-10"),
}


def covering(choices, strength):
    """Few combinations among which any `strength` values of different choices meet; greedy, always the same."""
    everything = list(itertools.product(*choices.values()))
    meetings_of = lambda row: set(itertools.combinations(enumerate(row), strength))
    missing = set().union(*map(meetings_of, everything))
    rows = []
    while missing:
        row = max(everything, key=lambda candidate: len(meetings_of(candidate) & missing))
        missing -= meetings_of(row)
        rows.append(row)
    return [dict(zip(choices, row)) for row in rows]


def selection():
    strength = {"1": 3, "all": len(CHOICES)}.get(os.environ.get("PACELINE_FULL"), 2)
    return covering(CHOICES, strength)


@pytest.mark.parametrize("strength, most", [(2, 28), (3, 140)])
def test_the_selection_has_every_meeting(strength, most):
    rows = covering(CHOICES, strength)
    for some in itertools.combinations(CHOICES.items(), strength):
        names, values = zip(*some)
        for meeting in itertools.product(*values):
            assert any(all(row[name] == value for name, value in zip(names, meeting)) for row in rows), (names, meeting)
    assert len(rows) <= most


@pytest.fixture(scope="module")
def cifar(tmp_path_factory):
    """Files in the format of CIFAR-10's binary version, with images that are noise around their class's colour."""
    folder = tmp_path_factory.mktemp("cifar-10")
    random_of = random.Random(7)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = bytearray()
        for sample in range(20):
            label = sample % 10
            records.append(label)
            records += bytes(min(255, random_of.randrange(128) + 12 * label) for _ in range(3072))
        (folder / name).write_bytes(records)
    return folder


def same_bits(task, workers, how):
    expected = reference(*task, "--workers", workers)
    actual = train(*task, "--workers", workers, *how)
    assert actual["parameters_hash"] == expected["parameters_hash"], (task, workers, how)
    # The loss is computed before the update, so it is as exact; accuracy too.
    for key in ("loss_first", "loss_last", "accuracy", "iterations", "samples"):
        assert actual[key] == expected[key], key
    return actual


@pytest.mark.parametrize("case", selection(), ids=lambda case: "-".join(str(value) for value in case.values()))
def test_a_job_has_the_bits_of_the_reference(case, cifar):
    if case["data"] == "mnist-5k":
        task = (*MNIST, 2)
    else:
        task = ("--model", "resnet-20", "--dataset", f"cifar-10:{cifar}", "--mini-batch", 1)
    task += ("--iterations", 30, "--optimizer", case["optimizer"], "--learning-rate", 0.001 if case["optimizer"] == "adam" else 0.02)
    servers = ("--role", "both") if case["servers"] == "both" else ("--servers", case["servers"])
    how = (*servers, "--schedule", case["schedule"], "--merge", case["merge"])
    if case["schedule"] in ("p3", "slicing", "tuned") and case["workers"] > 2:
        how += ("--slice", 3000)
    report = same_bits(task, case["workers"], how)
    assert report["role"] == ("both" if case["servers"] == "both" else "separate")
    assert report["servers"] == (case["workers"] if case["servers"] == "both" else case["servers"])


ROUNDS = 8
SHORT = (*BRIEF, "--iterations", ROUNDS)


def test_tuned_is_the_default_measures_the_link_and_says_what_it_chose():
    report = same_bits(SHORT, 2, ("--servers", 2))
    tuned = report["tuned"]
    assert report["schedule"] == "tuned" and tuned["measured"] is True
    assert 50_000 <= tuned["slice"] <= 2_000_000 and tuned["merge"] >= 0
    assert tuned["bandwidth"] > 1e6 and 0 <= tuned["start_up"] < 1 and "slices of" in tuned["why"]
    assert tuned["by"] == "formula" and "lenet" in tuned["why"] and (tuned["window"], tuned["return"]) == ("auto", "broadcast")
    fixed = same_bits(SHORT, 2, ("--servers", 2, "--slice", 3000, "--merge", 100))["tuned"]
    assert (fixed["slice"], fixed["merge"]) == (3000, 100)


def test_tuned_measures_the_layers_of_a_network_in_a_long_job_and_predicts_from_them():
    tuned = same_bits((*BRIEF, "--iterations", 100), 2, ("--role", "both"))["tuned"]
    assert tuned["by"] == "prediction" and len(tuned["candidates"]) >= 8
    assert tuned["predicted"]["seconds"] >= 0.99 * tuned["predicted"]["lower_bound"] > 0


@pytest.mark.parametrize("algorithm", ["exact", "ibatch"])
def test_ibatch_plans_its_batches_while_it_trains_and_says_which(algorithm):
    report = same_bits(SHORT, 2, ("--servers", 2, "--schedule", "ibatch", "--batching", algorithm))
    batching = report["batching"]
    assert batching["algorithm"] == algorithm and batching["planned"] >= 1
    assert batching["bounds"] == sorted(set(batching["bounds"])) and batching["bounds"][0] >= 1 and batching["bounds"][-1] == 4
    assert batching["start_up"] >= 0 and batching["bandwidth"] > 0 and batching["residual"] >= 0
    assert batching["makespan"] <= 1.0001 * min(batching["makespan_layer_wise"], batching["makespan_default"]) or algorithm != "exact"


@pytest.mark.parametrize("task, how", [full((), ("--servers", 2)), (("--clip-norm", 0.5), ("--servers", 3)), full((), ("--role", "both"))])
def test_pushes_in_batches_keep_the_bits_and_are_planned_from_the_backward_passes(task, how):
    task = (*SHORT, *task)
    report = same_bits(task, 2, (*how, "--schedule", "ibatch", "--push", "in-batches"))
    push = report["batching"]["push"]
    assert push["bounds"] == sorted(set(push["bounds"])) and push["bounds"][0] >= 1 and push["bounds"][-1] == 4
    assert 0 < push["makespan"] <= 1.0001 * min(push["makespan_layer_wise"], push["makespan_default"])
    assert "pushes, planned to take" in report["batching"]["why"]
    assert same_bits(task, 2, (*how, "--schedule", "ibatch"))["batching"]["push"] is None


@pytest.mark.parametrize(
    "options",
    [
        ("--clip-norm", 0.5),
        full(("--clip-norm", 0.5, "--optimizer", "adam", "--learning-rate", 0.001)),
        full(("--weight-decay", 0.01, "--optimizer", "momentum")),
        ("--weight-decay", 0.01, "--optimizer", "adamw", "--learning-rate", 0.001),
        ("--optimizer", "nesterov", "--momentum", 0.8, "--learning-rate", 0.02),
        ("--optimizer", "adagrad", "--adam-epsilon", 1e-10, "--weight-decay", 0.01, "--learning-rate", 0.01),
        ("--adam-beta1", 0.8, "--adam-beta2", 0.95, "--adam-epsilon", 1e-6, "--optimizer", "adam", "--learning-rate", 0.001),
        ("--parameter-groups", "*.bias:decay=0;fc*:rate=0.3", "--weight-decay", 0.01, "--optimizer", "momentum", "--learning-rate", 0.02),
        full(("--learning-rate", "step:0.05,every=3,factor=0.5")),
        ("--learning-rate", "cosine:0.05,total=8,warmup=3"),
        full(("--learning-rate", "polynomial:0.05,total=8,power=2")),
        ("--non-finite", "skip"),
        full(("--non-finite", "skip", "--clip-norm", 0.5)),
        full(("--non-finite", "skip", "--learning-rate", 1e30)),  # from the second iteration on nothing is finite
        ("--non-finite", "skip", "--learning-rate", 1e30, "--optimizer", "adam", "--clip-norm", 1e9),
        full(("--non-finite", "apply", "--learning-rate", 1e12, "--optimizer", "momentum")),
        ("--evaluate-every", 5),
        full(("--seed", 9)),
    ],
    ids=lambda options: " ".join(str(option) for option in options),
)
def test_every_option_of_the_update_keeps_the_bits(options):
    changed = same_bits((*SHORT, *options), 2, ("--servers", 2, "--schedule", "p3"))
    if options[0] != "--evaluate-every" and options != ("--non-finite", "skip"):
        assert changed["parameters_hash"] != reference(*SHORT, "--workers", 2)["parameters_hash"], "the option did nothing"


@pytest.mark.parametrize(
    "how, options",
    [
        (("--servers", 2, "--schedule", "p3", "--slice", 3000), ("--wire", "bfloat16")),
        full(("--servers", 1, "--schedule", "default"), ("--wire", "bfloat16", "--optimizer", "adam", "--learning-rate", 0.001)),
        full(("--role", "both", "--schedule", "ibatch"), ("--wire", "bfloat16", "--clip-norm", 0.5)),
        full(("--servers", 3, "--schedule", "kvstore", "--window", "128KiB"), ("--wire", "float16", "--loss-scale", 1024)),
        full(("--role", "both",), ("--wire", "float16", "--loss-scale", 256, "--optimizer", "momentum", "--learning-rate", 0.02)),
        (("--servers", 3, "--schedule", "slicing", "--slice", 1001), ("--wire", "float16", "--loss-scale", 1024, "--non-finite", "skip")),
        (("--servers", 3, "--schedule", "ibatch", "--push", "in-batches"), ("--wire", "bfloat16", "--clip-norm", 0.5)),
        full(("--role", "both", "--schedule", "ibatch", "--push", "in-batches"), ("--wire", "float16", "--loss-scale", 1024)),
    ],
    ids=str,
)
def test_a_narrow_codec_has_the_bits_of_its_reference_and_half_the_bytes(how, options):
    report = same_bits((*SHORT, *options), 3, how)
    wide = reference(*SHORT, *(option for pair in zip(options[2::2], options[3::2]) if pair[0] != "--loss-scale" for option in pair), "--workers", 3)
    assert report["parameters_hash"] != wide["parameters_hash"], "the codec did nothing"
    assert report["wire"] == options[1] and report["loss_scale"] == (options[3] if "--loss-scale" in options else 1)
    assert report["bytes_pushed"] == report["bytes_pulled"] == LENET_PARAMETERS * 2 * ROUNDS * 3


@pytest.mark.parametrize(
    "how, options",
    [
        (("--servers", 2, "--schedule", "p3", "--slice", 3000), ("--wire", "dropping:0.01")),
        (("--role", "both", "--merge", "100KB"), ("--wire", "dropping:0.1", "--optimizer", "momentum", "--learning-rate", 0.02)),
        (("--servers", 3, "--schedule", "default"), ("--wire", "random:0.1")),
        full(("--role", "both", "--schedule", "p3", "--slice", 3000), ("--wire", "random:0.02", "--optimizer", "momentum", "--learning-rate", 0.02)),
        full(("--servers", 3, "--schedule", "default"), ("--wire", "dropping:0.3", "--clip-norm", 0.5)),
        full(("--servers", 1, "--schedule", "kvstore"), ("--wire", "dropping:0.001", "--optimizer", "adam", "--learning-rate", 0.001)),
    ],
    ids=str,
)
def test_dropping_has_the_bits_of_its_reference_and_pushes_what_is_left(how, options):
    report = same_bits((*SHORT, *options), 3, how)
    assert report["wire"] == options[1]
    share = float(options[1].partition(":")[2])
    sent = 8 * LENET_PARAMETERS * ROUNDS * 3
    assert report["bytes_pushed"] <= share * 1.02 * sent + 8 * ROUNDS * 3 * 200, "one element at least for each unit"
    assert report["bytes_pulled"] == LENET_PARAMETERS * 4 * ROUNDS * 3
    assert report["parameters_hash"] != reference(*SHORT, *options[2:], "--workers", 3)["parameters_hash"]


@pytest.mark.parametrize(
    "how, options",
    [
        full(("--servers", 2, "--schedule", "p3", "--slice", 3000), ("--optimizer", "momentum", "--learning-rate", 0.02)),
        (("--role", "both", "--merge", "100KB"), ("--optimizer", "nesterov", "--learning-rate", 0.02, "--dgc-warm-up", 6)),
        (("--servers", 3, "--schedule", "default"), ("--optimizer", "momentum", "--learning-rate", 0.02, "--clip-norm", 0.5, "--dgc-warm-up", 4)),
        full(("--servers", 2, "--schedule", "ibatch", "--push", "in-batches"), ("--clip-norm", 0.5)),
    ],
    ids=str,
)
def test_deep_gradient_compression_has_the_bits_of_its_reference(how, options):
    report = same_bits((*SHORT, "--wire", "dgc:0.01", *options), 3, how)
    assert report["wire"] == "dgc:0.01"
    alike = [word for i, word in enumerate(options) if "--dgc-warm-up" not in options[max(0, i - 1) : i + 1]]
    dropping = reference(*SHORT, "--wire", "dropping:0.01", *alike, "--workers", 3)["parameters_hash"]
    assert report["parameters_hash"] != dropping, "momentum and clipping of the servers are others"


@pytest.mark.parametrize("optimizer", ["momentum", "nesterov"])
def test_deep_gradient_compression_of_everything_is_dense_training_but_for_rounding(optimizer, tmp_path):
    options = (*SHORT, "--workers", 2, "--optimizer", optimizer, "--learning-rate", 0.02)
    values = []
    for wire in ("float32", "dgc:1"):
        file = tmp_path / f"{optimizer}.{wire.replace(':', '-')}.safetensors"
        train(*options, "--wire", wire, "--export", file)
        values.append(load_file(file))
    for name, dense in values[0].items():
        scale = np.sqrt(np.mean(dense.astype(np.float64) ** 2))
        assert np.max(np.abs(values[1][name] - dense)) <= 1e-6 * max(scale, np.max(np.abs(dense))), name


def test_dropping_in_batches_keeps_the_bits_and_sends_batches_whole():
    report = same_bits((*SHORT, "--wire", "dropping:0.05"), 2, ("--servers", 2, "--schedule", "ibatch", "--push", "in-batches"))
    dense = LENET_PARAMETERS * 4 * ROUNDS * 2
    assert dense / 2 < report["bytes_pushed"] < dense, "the first iterations, from which batches are planned, send gradients alone"


def test_dropping_nothing_is_dense_training():
    report = train(*SHORT, "--workers", 2, "--wire", "dropping:1")
    assert report["parameters_hash"] == reference(*SHORT, "--workers", 2)["parameters_hash"]


@pytest.mark.full
def test_with_a_narrow_codec_a_job_learns_as_well():
    task = (*MNIST, 16, "--iterations", 250, "--workers", 2, "--optimizer", "momentum", "--learning-rate", 0.02)
    wide = train(*task)["accuracy"]
    for wire in (("--wire", "bfloat16"), ("--wire", "float16", "--loss-scale", 1024)):
        assert train(*task, *wire)["accuracy"] == pytest.approx(wide, abs=0.03), wire


def test_a_gradient_that_float16_cannot_hold_is_refused_or_skipped(tmp_path):
    options = (*SHORT, "--wire", "float16", "--loss-scale", 16777216)
    skipped = same_bits((*options, "--non-finite", "skip"), 2, ("--servers", 2))
    assert skipped["loss_first"] > 0
    with Job(tmp_path, *options, "--non-finite", "skip", "--workers", 2, "--servers", 2) as job:
        assert job.finish() == 0, job.err
        assert "iteration 1 changes nothing: " in job.err and "(--non-finite skip)" in job.err
    with Job(tmp_path, *options, "--workers", 2) as job:
        assert job.finish() == 1, job.err
        assert "not finite" in job.the_error() and "float16 times 16777216" in job.the_error()


def test_the_same_job_has_the_same_bits_twice_and_another_seed_others():
    first, second = (train(*SHORT, "--workers", 2, "--servers", 2)["parameters_hash"] for _ in range(2))
    assert first == second
    assert first != reference(*SHORT, "--workers", 2, "--seed", 2)["parameters_hash"]


KEYS = set(
    "model dataset workers servers schedule sync optimizer seed iterations samples seconds samples_per_second loss_first loss_last "
    "accuracy parameters_hash bytes_pushed bytes_pulled iteration_seconds per_worker phases overlapped".split()
)
PHASES = set("load preprocess transfer forward backward push pull update wait".split())
LENET_PARAMETERS = 431_080


def check_report(report, workers, servers, iterations):
    assert KEYS <= set(report), KEYS - set(report)
    assert set(report["phases"]) == PHASES
    assert set(report["iteration_seconds"]) == {"median", "min", "max"}
    assert set(report["overlapped"]) == {"push", "pull"}
    assert (report["model"], report["dataset"], report["workers"], report["servers"]) == ("lenet", BRIEF[3], workers, servers)
    assert report["iterations"] == iterations and report["samples"] == iterations * workers * 4
    assert len(report["parameters_hash"]) == 32 and int(report["parameters_hash"], 16) >= 0
    assert 0 <= report["accuracy"] <= 1
    assert report["samples_per_second"] == pytest.approx(report["samples"] / report["seconds"])
    assert report["iteration_seconds"]["min"] <= report["iteration_seconds"]["median"] <= report["iteration_seconds"]["max"]
    assert all(seconds >= 0 for seconds in report["phases"].values()), report["phases"]
    assert [worker["rank"] for worker in report["per_worker"]] == list(range(workers))
    for worker in report["per_worker"]:
        assert {"rank", "iterations", "seconds", "computing", "waiting", "waiting_share"} <= set(worker)
        assert worker["iterations"] == iterations
        assert worker["waiting_share"] == pytest.approx(worker["waiting"] / worker["seconds"])
    # The phases add up to the iteration: 5 % and a millisecond of it may be lost between them.
    iteration = sum(worker["seconds"] for worker in report["per_worker"]) / workers / iterations
    assert sum(report["phases"].values()) == pytest.approx(iteration, rel=0.05, abs=0.001)


@pytest.mark.parametrize("workers, servers, schedule", [(1, 1, "layer-wise"), (2, 2, "p3"), (3, 1, "default"), (2, "both", "p3")])
def test_a_report_has_every_key_and_its_figures_fit_together(workers, servers, schedule, tmp_path):
    iterations = 20
    where = ("--role", "both") if servers == "both" else ("--servers", servers)
    with Job(tmp_path, *BRIEF, "--iterations", iterations, "--workers", workers, *where, "--schedule", schedule) as job:
        servers = workers if servers == "both" else servers
        assert job.finish() == 0, job.err
        report = job.report()
        check_report(report, workers, servers, iterations)
        assert report["bytes_pushed"] == LENET_PARAMETERS * 4 * iterations * workers
        assert report["bytes_pulled"] == LENET_PARAMETERS * 4 * iterations * workers
        assert job.err == ""
        lines = [json.loads(line) for line in job.metrics_file.read_text().splitlines()]
        assert [line["iteration"] for line in lines] == list(range(1, iterations + 1))
        assert lines[0]["loss"] == pytest.approx(report["loss_first"]) and lines[-1]["loss"] == pytest.approx(report["loss_last"])
        # The clock of a job is its iterations and the last one's wait, nothing else.
        assert sum(line["seconds"] for line in lines) <= report["seconds"] * 1.05 + 0.001 * iterations


def test_the_reference_prints_the_same_report():
    report = reference(*BRIEF, "--iterations", 20, "--workers", 2)
    check_report(report, 2, 0, 20)
    assert report["bytes_pushed"] == report["bytes_pulled"] == 0
