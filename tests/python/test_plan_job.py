"""Measured convolutions from end to end: `train --convolutions`, `profile --convolutions`, `plan job`, `train --plan`."""

import itertools
import json
import os
import re
import subprocess

import pytest

from jobs import LENET, PROGRAM, environment, reference, train

MIB = 2**20
DEFAULT, FFT, GEMM = "default", "fft", "gemm"


def run(*arguments, cache=None, **more):
    variables = environment("plan-job")
    if cache is not None:
        variables["PACELINE_CACHE"] = str(cache)
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=variables, **more)


def refused(*arguments, names, **more):
    done = run(*arguments, **more)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("paceline: error: "), done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)


def written(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


# ---- train --convolutions


def test_every_worker_and_the_reference_run_the_chosen_algorithms_to_the_same_bits(tmp_path):
    hashes = set()
    for choice in ({"conv1": "gemm", "conv2": "fft"}, {"conv1": "fft"}, {"conv2": "default"}):
        file = written(tmp_path / "choice.json", {"model": "lenet", "convolutions": choice})
        job = ("--iterations", 6, "--convolutions", file)
        distributed = train(*LENET, "--workers", 2, "--servers", 2, *job)
        assert distributed["parameters_hash"] == train("--reference", *LENET, "--workers", 2, *job)["parameters_hash"]
        hashes.add(distributed["parameters_hash"])
        default = reference(*LENET, "--workers", 2, "--iterations", 6)
        assert abs(distributed["loss_last"] - default["loss_last"]) < 1e-3
    assert len(hashes) == 3 and default["parameters_hash"] in hashes  # the last choice is the default


@pytest.mark.parametrize(
    "content, names",
    [
        ({"convolutions": {"conv9": "fft"}}, ["conv9", "conv1, conv2"]),
        ({"convolutions": {"fc1": "fft"}}, ["'fc1'"]),
        ({"convolutions": {"conv1": "fast"}}, ["'conv1'", "'fast'", "winograd"]),
        ({"convolutions": {"conv1": 3}}, ["'conv1'", "3"]),
        ({"convolutions": {"conv2": "winograd"}}, ["'conv2'", "5x5"]),
        ({"convolutions": []}, ["'convolutions'", "array"]),
        ({"convolution": {}}, ["unknown key 'convolution'", "'convolutions'?"]),
        ({}, ["lacks key 'convolutions'"]),
        ({"model": "alexnet", "convolutions": {}}, ["'model'", "alexnet", "lenet"]),
        ([], ["an object is expected"]),
        ('{"convolutions": {"conv1": "fft", "conv1": "gemm"}}', ["'conv1' stands there twice"]),
        ("{", ["line 1"]),
    ],
)
def test_a_bad_file_of_convolutions_is_refused_naming_layer_and_key(tmp_path, content, names):
    file = written(tmp_path / "choice.json", content)
    refused("train", "--model", "lenet", "--convolutions", file, names=["choice.json", *names])


def test_a_file_that_is_not_there_is_named():
    refused("train", "--convolutions", "/nowhere/choice.json", names=["/nowhere/choice.json"])
    refused("train", "--plan", "/nowhere/plan.json", names=["/nowhere/plan.json"])


def test_a_plan_without_an_answer_and_without_a_reason_is_refused(tmp_path):
    refused("train", "--plan", written(tmp_path / "plan.json", {"feasible": False, "reason": None}), names=["plan.json", "no reason is given"])


# ---- plan job, from a file of times. lenet has conv1 and conv2; needs are so small that the memory bound is set by hand.


def step(mini_batch, rest, conv1, conv2, peak=100 * MIB):
    """conv1, conv2: [(algorithm, seconds, workspace)]"""
    layers = [
        {"name": name, "algorithms": [{"algorithm": a, "forward_s": t / 4, "backward_s": 3 * t / 4, "workspace_bytes": w} for a, t, w in costs]}
        for name, costs in (("conv1", conv1), ("conv2", conv2))
    ]
    default = rest + conv1[0][1] + conv2[0][1]
    return {"model": "lenet", "mini_batch": mini_batch, "step_s": default, "rest_s": rest, "process_peak_bytes": peak, "layers": layers}


TIMES = {
    "measurements": [
        step(8, 0.004, [(DEFAULT, 0.004, 0), (FFT, 0.002, 10 * MIB)], [(DEFAULT, 0.006, 0), (FFT, 0.003, 20 * MIB), (GEMM, 0.007, MIB)]),
        step(16, 0.006, [(DEFAULT, 0.008, 0), (FFT, 0.004, 20 * MIB)], [(DEFAULT, 0.012, 0), (FFT, 0.004, 40 * MIB), (GEMM, 0.010, MIB)], 120 * MIB),
        step(64, 0.020, [(DEFAULT, 0.032, 0), (FFT, 0.016, 80 * MIB)], [(DEFAULT, 0.048, 0), (FFT, 0.016, 160 * MIB), (GEMM, 0.040, MIB)], 200 * MIB),
    ],
    "steps": [{"model": "lenet", "dataset": "mnist-5k", "mini_batch": 16, "overhead": 0.1, "overhead_without_pipelining": 0.3, "prefetch": 3, "loader_threads": 2}],
}


def plan(tmp_path, memory, *options, times=TIMES, samples=1000):
    file = written(tmp_path / "times.json", times)
    done = run("plan", "job", "--json", "--model", "lenet", "--dataset-size", samples, "--memory", memory, "--measurements", file, *options)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def test_of_mini_batches_that_are_as_fast_but_for_rounding_the_larger_is_taken(tmp_path):
    times = {"measurements": [step(size, size / 100, [(DEFAULT, 0, 0)], [(DEFAULT, 0, 0)]) for size in (1, 10)]}  # 30 * 0.01 < 3 * 0.1
    answer = plan(tmp_path, 1024 * MIB, times=times, samples=30)
    assert answer["mini_batch"] == 10 and answer["epoch_seconds"] == pytest.approx(0.3)


def best_by_trying(memory, samples):
    """The least time of a data epoch over all mini-batches and all choices."""
    found = []
    for one in TIMES["measurements"]:
        for choice in itertools.product(*(layer["algorithms"] for layer in one["layers"])):
            if one["process_peak_bytes"] + sum(a["workspace_bytes"] for a in choice) > memory:
                continue
            seconds = one["rest_s"] + sum(a["forward_s"] + a["backward_s"] for a in choice)
            found.append((-(-samples // one["mini_batch"]) * seconds, one["mini_batch"], [a["algorithm"] for a in choice]))
    return min(found, default=None)


def test_the_recommendation_is_the_best_of_all_choices_within_the_memory(tmp_path):
    seen = set()
    for memory in (99, 100, 105, 110, 121, 130, 139, 160, 180, 201, 300, 1000):
        answer, wanted = plan(tmp_path, memory * MIB), best_by_trying(memory * MIB, 1000)
        if wanted is None:
            assert answer["feasible"] is False and answer["train"] is None and answer["missing_bytes"] == MIB
            assert "1.0 MB" in answer["reason"] and answer["layer_to_shrink"] == "fc1"
            assert "smaller ones: paceline profile --convolutions --model lenet --mini-batches 1,2,4;" in answer["reason"]
            continue
        assert answer["feasible"] and answer["epoch_seconds"] == pytest.approx(wanted[0])
        assert (answer["mini_batch"], list(answer["convolutions"].values())) == (wanted[1], wanted[2])
        assert answer["iterations"] == -(-1000 // wanted[1])
        seen.add((wanted[1], *wanted[2]))
    assert len(seen) >= 4  # the bound decides


def test_what_whole_steps_did_not_confirm_is_not_recommended(tmp_path):
    for gain, chosen, judged in ((1.01, {"conv1": DEFAULT, "conv2": DEFAULT}, "1.01 times"), (1.1, {"conv1": FFT, "conv2": FFT}, "1.10 times")):
        times = {"measurements": [one | {"whole_gain": gain} for one in TIMES["measurements"]]}
        answer = plan(tmp_path, "1GiB", times=times)
        assert (answer["mini_batch"], answer["convolutions"]) == (64, chosen), gain
        (reason,) = [reason for reason in answer["reasons"] if reason.startswith("whole steps")]
        assert judged in reason and ("not worth" in reason) == (gain < 1.02), reason
    refused("plan", "job", "--model", "lenet", "--dataset-size", 100, "--memory", "1GiB", "--measurements",
            written(tmp_path / "bad.json", {"measurements": [TIMES["measurements"][0] | {"whole_gain": -1}]}), names=["bad.json", "'whole_gain'"])


def test_the_times_of_whole_steps_are_the_ones_that_epochs_and_servers_are_worked_out_from(tmp_path):
    """Layers alone promise 0.052 s of 0.1 s with mini-batch 64; whole steps were only 1.25 times as fast: 0.08 s."""
    times = {"measurements": [one | {"whole_gain": 1.25} for one in TIMES["measurements"]], "steps": TIMES["steps"]}
    answer = plan(tmp_path, "1GiB", "--workers", 4, "--bandwidth", "10MB/s", times=times)
    assert (answer["mini_batch"], answer["convolutions"]) == (64, {"conv1": FFT, "conv2": FFT})
    assert answer["iteration_seconds"] == pytest.approx(0.08) and answer["epoch_seconds"] == pytest.approx(16 * 0.08)
    assert answer["iteration_by"] == "whole-steps" and [one["iteration_by"] for one in answer["candidates"]] == ["whole-steps"] * 3
    assert answer["servers"] == -(-4 * 4 * 431080 // (10e6 * 0.08)), "T_C is what a step takes"
    (reason,) = [reason for reason in answer["reasons"] if reason.startswith("convolutions")]
    assert "80.0 ms" in reason and "whole steps took" in reason and "52.0 ms" in reason, reason
    some = plan(tmp_path, (200 + 160) * MIB, "--mini-batches", 64, times=times)  # conv2's fft alone fits
    assert some["convolutions"] == {"conv1": DEFAULT, "conv2": FFT} and some["iteration_by"] == "both"
    assert some["iteration_seconds"] == pytest.approx(0.1 - 0.032 * 0.02 / 0.048)
    by_layers = plan(tmp_path, "1GiB")
    assert by_layers["iteration_by"] == "layers" and by_layers["iteration_seconds"] == pytest.approx(0.052)


def test_workers_and_servers_come_from_the_lemmas(tmp_path):
    answer = plan(tmp_path, "1GiB", "--speedup", 3, "--bandwidth", "1gbit")  # the measured overhead of 10 %: four, as in the paper
    assert answer["workers"] == 4 and answer["overhead"] == 0.1 and answer["speedup"] == pytest.approx(3.142857)
    per_iteration = 431080 * 4 / answer["iteration_seconds"]
    assert answer["servers"] == max(1, -(-4 * per_iteration // 125e6)) and answer["worker_link_ok"] is True
    assert answer["train"] == {"model": "lenet", "mini-batch": answer["mini_batch"], "convolutions": answer["convolutions"], "workers": 4, "servers": answer["servers"], "prefetch": 3, "loader-threads": 2}
    assert answer["prefetch"] == 3 and answer["loader_threads"] == 2
    assert [p["workers"] for p in answer["speedups"]] == list(range(1, 9))
    assert all(p["speedup"] == pytest.approx(p["workers"] * 1.1 / (1 + 0.1 * p["workers"])) for p in answer["speedups"])
    assert plan(tmp_path, "1GiB", "--efficiency", 0.8)["workers"] == 3  # 4 reach 78.6 %
    slow = plan(tmp_path, "1GiB", "--workers", 2, "--bandwidth", "10gbit", "--worker-bandwidth", "1MB/s")
    assert slow["feasible"] and slow["worker_link_ok"] is False and slow["worker_link_shortfall"] == pytest.approx(431080 * 4 / slow["iteration_seconds"] - 1e6)
    assert any("no number hides" in reason for reason in slow["reasons"])
    limit = plan(tmp_path, "1GiB", "--speedup", 11)
    assert limit["feasible"] is False and limit["limit"] == pytest.approx(11) and "11.0000" in limit["reason"] and limit["train"] is None
    assert plan(tmp_path, "1GiB", "--workers", 4, "--efficiency", 0.9)["feasible"] is False
    assert plan(tmp_path, "1GiB", "--workers", 100, samples=200)["feasible"] is False  # fewer samples than mini-batches
    crowded = plan(tmp_path, "1GiB", "--workers", 100, "--bandwidth", "1KB/s", samples=10**6)
    assert crowded["feasible"] is False and "servers are more than a job can have" in crowded["reason"] and crowded["servers"] > 100_000


def test_an_algorithm_that_is_hardly_faster_is_not_worth_its_workspace(tmp_path):
    times = {"measurements": [step(8, 0.004, [(DEFAULT, 0.1, 0), (FFT, 0.096, MIB)], [(DEFAULT, 0.1, 0), (FFT, 0.094, MIB), (GEMM, 0.099, 0)])]}
    answer = plan(tmp_path, "1GiB", times=times)
    assert answer["convolutions"] == {"conv1": DEFAULT, "conv2": FFT}
    assert not any("conv1" in reason for reason in answer["reasons"]), "nor is it missed"


def test_what_was_measured_to_fit_fits_whatever_the_formula_says(tmp_path):
    small = {"measurements": [step(8, 0.004, [(DEFAULT, 0.004, 0)], [(DEFAULT, 0.006, 0)], peak=3 * MIB)]}
    formula = json.loads(run("plan", "memory", "--model", "lenet", "--mini-batch", 1, "--memory", 4 * MIB, "--json").stdout)
    assert formula["fits"] is False and re.fullmatch(r"with mini-batch 1 it needs [\d.]+ [kMGT]?B more than there are", formula["reason"])
    answer = plan(tmp_path, 4 * MIB, times=small)
    assert answer["feasible"] is True and answer["mini_batch"] == 8 and answer["memory_need"]["measured_bytes"] == 3 * MIB
    nothing = plan(tmp_path, 2 * MIB, times=small)
    assert nothing["missing_bytes"] == -formula["bound_bits"] / 8 + 2 * MIB and "with mini-batch 1 it needs" in nothing["reason"]


def test_the_picture_has_throughput_memory_and_speed_up(tmp_path):
    picture = tmp_path / "plan.svg"
    answer = plan(tmp_path, 300 * MIB, "--speedup", 3, "--picture", picture)
    drawn = picture.read_text()
    for text in ("lenet: throughput against mini-batch", "samples/s of one worker", f"chosen: {answer['mini_batch']}", "2 x fft", "memory: 0.315 GB", "a step without workspaces", "R_O = 0.1", "times as fast as one", "chosen: 4"):
        assert f">{text}<" in drawn or f" {text}<" in drawn, text
    without = {"measurements": TIMES["measurements"]}
    plan(tmp_path, 300 * MIB, "--picture", picture, times=without)
    assert "memory: 0.315 GB" in picture.read_text() and "times as fast" not in picture.read_text(), "no R_O, no speed-up"
    nothing = plan(tmp_path, 99 * MIB, "--picture", picture)
    assert nothing["feasible"] is False and "memory: 0.104 GB" in picture.read_text() and "chosen:" not in picture.read_text()


def test_a_picture_that_cannot_be_drawn_is_named(tmp_path):
    file = written(tmp_path / "times.json", TIMES)
    job = ("plan", "job", "--model", "lenet", "--dataset-size", 100, "--memory", "1GiB", "--measurements", file, "--picture")
    refused(*job, tmp_path / "plan.xyz", names=["plan.xyz is no picture's name; legal endings: .png, .svg, .pdf"])
    words = [PROGRAM, *map(str, job), str(tmp_path / "plan.svg")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**environment("plan-job"), "PACELINE_PYTHON": "/bin/false"})
    assert done.returncode == 1 and "plan.svg" in done.stderr and "mini-batch" in done.stdout, "the answer stands"
    assert not list(tmp_path.glob("plan*"))


def test_what_does_not_fit_at_all_is_an_answer_with_the_missing_bytes(tmp_path):
    done = run("plan", "job", "--json", "--model", "vgg-19", "--dataset-size", 1000, "--memory", "1GB", cache=tmp_path)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["feasible"] is False and answer["layer_to_shrink"] == "classifier.0"
    # 12 bytes for each parameter and its gradients, 4 for each value of the feature maps: more than a GB by this much
    assert answer["missing_bytes"] == pytest.approx(12 * 143667240 + 4 * 16.54e6 - 1e9, rel=0.02)


def test_the_advice_on_classes_is_checked(tmp_path):
    checks = {one["mini_batch"]: one for one in [plan(tmp_path, 100 * MIB + 1), plan(tmp_path, "1GiB")]}
    assert set(checks) == {8, 64}
    assert [checks[x]["checks"][0]["ok"] for x in (8, 64)] == [False, True]


def test_wrong_requests_and_missing_measurements_are_told(tmp_path):
    base = ("plan", "job", "--model", "lenet", "--dataset-size", 100, "--memory", "1GiB")
    file = written(tmp_path / "times.json", TIMES)
    refused(*base[:-1], 8, "--measurements", file, names=["--memory: '8' has no unit; write 8GB"])
    refused(*base, cache=tmp_path, names=["paceline profile --convolutions --model lenet --mini-batches 8,16,32,64"])
    refused(*base, "--mini-batches", "8,12", "--measurements", file, names=["mini-batch 12", "paceline profile --convolutions --model lenet --mini-batches 8,12"])
    no_overhead = written(tmp_path / "no.json", {"measurements": TIMES["measurements"]})
    refused(*base, "--measurements", no_overhead, "--speedup", 2, names=["paceline profile --steps --model lenet", "--overhead"])
    refused(*base, "--measurements", file, "--speedup", 2, "--dataset", "digits", names=["paceline profile --steps --model lenet --dataset digits --mini-batch"])
    for options, names in [
        (("--efficiency", 1.2), ["--efficiency is 1.2"]),
        (("--efficiency", 0), ["--efficiency is 0"]),
        (("--speedup", 0), ["--speedup is 0"]),
        (("--overhead", -1), ["--overhead is -1"]),
        (("--bandwidth", "0"), ["--bandwidth"]),
        (("--bandwidth", "1gbit", "--duplex", "both"), ["--duplex is 'both'", "half"]),
        (("--workers", 2, "--speedup", 2), ["contradict"]),
        (("--worker-bandwidth", "1gbit"), ["--bandwidth"]),
        (("--workers", 0), ["--workers is 0"]),
        (("--workers", "two"), ["--workers cannot be 'two'; legal: a whole number, 1 to 100000"]),
        (("--mini-batches", "8,0"), ["--mini-batches"]),
        (("--output", "/nowhere/plan.json"), ["/nowhere/plan.json"]),
        (("--dataset", "mnist-5"), ["'mnist-5'", "mnist-5k"]),
        (("--efficiency", "nan"), ["--efficiency"]),
        (("--efficiency", 1.01), ["--efficiency is 1.01"]),
        (("--bandwidth", "0gbit"), ["--bandwidth"]),
    ]:
        refused(*base, "--measurements", file, *options, names=names)
    for change, names in [
        (lambda m: m.update(mini_batch=0), ["'mini_batch'"]),
        (lambda m: m.update(rest_s=-1), ["'rest_s'"]),
        (lambda m: m.update(speed=1), ["'speed'"]),
        (lambda m: m["layers"].pop(), ["'conv2'", "0 times"]),
        (lambda m: m["layers"][0].update(name="conv7"), ["'conv7'"]),
        (lambda m: m["layers"][0]["algorithms"][1].update(algorithm="winograd"), ["'conv1'", "winograd"]),
        (lambda m: m["layers"][0].update(algorithms=[]), ["'conv1'", "empty"]),
        (lambda m: m["layers"][1]["algorithms"][0].pop("workspace_bytes"), ["layer 2 'conv2', algorithm 0", "'workspace_bytes'"]),
    ]:
        times = json.loads(json.dumps(TIMES))
        change(times["measurements"][1])
        refused(*base, "--measurements", written(tmp_path / "bad.json", times), names=["bad.json", "measurements[1]", *names])


# ---- from measuring to training


def test_measured_planned_and_trained(tmp_path):
    cache, plan_file, picture = tmp_path / "cache", tmp_path / "plan.json", tmp_path / "plan.png"
    measure = ("profile", "--convolutions", "--model", "lenet", "--mini-batches", "4,8", "--rounds", 1, "--json")
    measured = run(*measure, cache=cache)
    assert measured.returncode == 0, measured.stderr
    again = run(*measure, cache=cache)  # comes from the cache, to the last digit
    assert again.stdout == measured.stdout and again.stderr == ""
    for one in json.loads(measured.stdout)["measurements"]:
        assert one["process_peak_bytes"] > one["tensors_peak_bytes"] > 431080 * 8  # values and gradients at least
        assert 0 < one["rest_s"] < one["step_s"]
        for layer in one["layers"]:
            costs = {a["algorithm"]: a for a in layer["algorithms"]}
            assert {"default", "gemm", "fft"} <= set(costs) <= {"default", "onednn", "gemm", "fft"}  # 5x5: no winograd
            assert costs["fft"]["workspace_bytes"] > costs["default"]["workspace_bytes"]
    job = ("plan", "job", "--model", "lenet", "--dataset-size", 4000, "--memory", "1GiB", "--workers", 2, "--bandwidth", "100gbit", "--dataset", "synthetic:1x28x28,samples=400", "--output", plan_file)
    done = run(*job, "--picture", picture, cache=cache)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    answer = json.loads(plan_file.read_text())
    trained = train("--plan", plan_file, "--iterations", 2)
    assert (trained["model"], trained["dataset"], trained["workers"], trained["servers"]) == ("lenet", "synthetic:1x28x28,samples=400", 2, answer["servers"])
    assert trained["samples"] == 2 * 2 * answer["mini_batch"]
    choice = written(tmp_path / "choice.json", {"convolutions": answer["convolutions"]})
    by_hand = train("--dataset", "synthetic:1x28x28,samples=400", "--mini-batch", answer["mini_batch"], "--workers", 2, "--iterations", 2, "--convolutions", choice)
    assert by_hand["parameters_hash"] == trained["parameters_hash"]
    assert train("--plan", plan_file, "--iterations", 1, "--mini-batch", 5, "--workers", 1)["samples"] == 5  # the command line wins

    # A cache of another machine, and a damaged one, are told and not used.
    content = json.loads((cache / "measurements.json").read_text())
    for damage, told in [(json.dumps({**content, "fingerprint": {"processor": "abacus"}}), "another machine"), ("{", "damaged"), (json.dumps({"measurements": 1}), "damaged")]:
        (cache / "measurements.json").write_text(damage)
        unknown = run(*job, cache=cache)
        assert unknown.returncode == 2 and told in unknown.stderr and "paceline profile --convolutions" in unknown.stderr
    anew = run(*measure[:-5], "--mini-batches", 4, "--rounds", 1, cache=cache)
    assert anew.returncode == 0 and "measuring anew" in anew.stderr
    assert run(*job, "--mini-batches", 4, cache=cache).returncode == 0


@pytest.mark.parametrize(
    "content, names",
    [
        ({"feasible": False, "reason": "it is too large", "train": None}, ["no answer: it is too large"]),
        ({}, ["lacks the object 'train'"]),
        ({"train": {"mini-batch": 0}}, ["'train.mini-batch'"]),
        ({"train": {"speed": 1}}, ["'train.speed'"]),
        ({"train": {"convolutions": {"conv3": "fft"}}}, ["'conv3'"]),
        ({"train": {"model": 5}}, ["'train.model'"]),
        ({"train": {"dataset": 5}}, ["'train.dataset'"]),
        ({"train": {"dataset": "mnist-5"}}, ["mnist-5k"]),
    ],
)
def test_a_bad_plan_is_refused_naming_its_key(tmp_path, content, names):
    refused("train", "--plan", written(tmp_path / "plan.json", content), names=["plan.json", *names])


def test_a_plans_workers_are_not_overridden_by_a_launcher(tmp_path):
    plan = written(tmp_path / "plan.json", {"train": {"workers": 3}})
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    done = subprocess.run([PROGRAM, "train", "--model", "lenet", "--plan", plan], capture_output=True, text=True, timeout=120, env={**environment("plan-job"), **torchrun})
    assert done.returncode == 2 and "--workers 3 but torchrun started 2 processes" in done.stderr, done.stderr


def test_a_plans_servers_that_have_no_place_are_told(tmp_path):
    plan = written(tmp_path / "plan.json", {"train": {"servers": 3}})
    done = run("train", "--plan", plan, "--model", "mlp", "--dataset", "synthetic:1x28x28,samples=8", "--mini-batch", 4, "--iterations", 1, "--collective", "loop3", "--json")
    assert done.returncode == 0 and "its 3 servers have no place in this job" in done.stderr, done.stderr


def test_a_plan_for_another_model_is_refused(tmp_path):
    file = written(tmp_path / "plan.json", {"train": {"model": "mlp"}})
    refused("train", "--model", "lenet", "--plan", file, names=["mlp", "lenet"])


def test_steps_and_memory_are_measured_and_the_overhead_is_planned_with(tmp_path):
    done = run("profile", "--steps", "--model", "lenet", "--dataset", "mnist-5k", "--mini-batch", 16, "--iterations", 5, "--json", cache=tmp_path)
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    assert list(steps["phases"]) == ["load", "preprocess", "transfer", "forward", "backward", "push", "pull", "update", "wait"]
    assert steps["without_pipelining"]["prefetch"] == 0 and steps["prefetch"] == steps["loader_threads"] + 1
    for one, overhead in [(steps["with_pipelining"], "overhead"), (steps["without_pipelining"], "overhead_without_pipelining")]:
        computing = one["phases"]["forward"] + one["phases"]["backward"]
        assert steps[overhead] == one["overhead"] == pytest.approx((sum(one["phases"].values()) - computing) / computing)
    assert steps["reading"] is None  # mnist-5k has no file for each image
    kept = json.loads((tmp_path / "measurements.json").read_text())["steps"]
    assert [(one["dataset"], one["overhead"]) for one in kept] == [("mnist-5k", steps["overhead"])]
    times = {"measurements": TIMES["measurements"], "steps": kept}
    assert plan(tmp_path, "1GiB", "--workers", 2, times=times)["overhead"] == steps["overhead"]

    done = run("profile", "--memory", "--model", "lenet", "--mini-batch", 64, "--json", cache=tmp_path)
    (row,) = json.loads(done.stdout)
    formula = json.loads(run("plan", "memory", "--model", "lenet", "--mini-batch", 64, "--memory", "1GiB", "--json").stdout)
    assert row["formula_bytes"] * 8 == sum(formula[key] for key in ("feature_maps_bits", "convolution_bits", "classifier_bits"))
    assert row["ratio"] == pytest.approx(row["tensors_peak_bytes"] / row["formula_bytes"])
    assert row["process_peak_bytes"] > row["process_before_bytes"] > 10 * MIB
    # Values and gradients of the parameters, twice the activations behind the first rectifier at the least.
    assert row["tensors_peak_bytes"] > 4 * (2 * 431080 + 2 * 64 * 20 * 24 * 24)


@pytest.mark.parametrize(
    "options, names",
    [
        (("--convolutions", "--model", "lenett"), ["lenett", "lenet"]),
        (("--convolutions", "--mini-batches", "0"), ["--mini-batches is 0"]),
        (("--convolutions", "--rounds", "0"), ["--rounds is 0"]),
        (("--steps", "--iterations", "1"), ["--iterations is 1"]),
        (("--steps", "--model", "seq2seq"), ["--dataset"]),
        (("--memory", "--mini-batch", "0"), ["--mini-batch is 0"]),
    ],
)
def test_a_profile_that_cannot_be_made_is_refused(tmp_path, options, names):
    refused("profile", *options, names=names, cache=tmp_path)


# ---- bench planner


@pytest.mark.full
def test_predictions_are_set_beside_measurements_and_finished_cells_are_kept(tmp_path):
    cells = tmp_path / "cells.jsonl"
    bench = ("bench", "planner", "--quick", "--models", "lenet", "--passes", 2, "--cells", cells, "--json")
    first = run(*bench)
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout)
    assert [(row["mini_batch"], row["interpolated"]) for row in result["rows"]] == [(4, False), (8, True), (16, False)]
    for row in result["rows"]:
        assert row["error"] == pytest.approx(abs(row["predicted_s"] - row["measured_s"]) / row["measured_s"])
        assert row["gain"] == 1 if row["convolutions"] == "" else 0.1 < row["gain"] < 10
    assert result["median_error_of"] == {"lenet": result["median_error"]}
    lines = cells.read_text().splitlines()
    confirmed = [line for line in map(json.loads, lines) if " confirmed with " in line["key"]]
    assert len(lines) - len(confirmed) == 2 * (2 + 3)  # passes, calibrations and what is judged
    gains = {line["measurement"]["mini_batch"]: line["measurement"]["step_s"] / line["measurement"]["chosen_step_s"] for line in confirmed}
    assert {row["mini_batch"] for row in result["rows"] if row["convolutions"]} == {size for size, gain in gains.items() if gain * 0.98 >= 1}
    cells.write_text("\n".join(lines) + "\n")
    again = run(*bench)
    assert again.stdout == first.stdout and cells.read_text().splitlines() == lines, "nothing is measured again"


@pytest.mark.parametrize("options, names", [(("--models", "lenett"), ["'lenett'", "lenet"]), (("--passes", "0"), ["--passes is 0"])])
def test_a_bench_that_cannot_be_is_refused(options, names):
    refused("bench", "planner", *options, names=names)
