"""`paceline plan algorithms|mini-batch|fft-ratio`, asked from outside."""

import itertools
import json
import os
import random
import subprocess

import pytest
from plan_questions import ALGORITHMS, FFT, MINI_BATCH, PROGRAM, ask, refused, without


def least_time(layers, bound):
    best = None
    for choice in itertools.product(*layers):
        if sum(cost["memory"] for cost in choice) <= bound:
            time = sum(cost["time"] for cost in choice)
            best = time if best is None else min(best, time)
    return best


def test_algorithms_reach_the_best_of_all_choices():
    random.seed(5)
    cases = []
    for _ in range(400):
        layers = [[{"time": random.randint(0, 20), "memory": random.randint(0, 20)} for _ in range(random.randint(1, 4))] for _ in range(random.randint(0, 5))]
        cases.append({"bound": random.randint(0, 60), "layers": layers})
    for case, answer in zip(cases, ask("algorithms", cases)):
        best = least_time(case["layers"], case["bound"])
        assert answer["feasible"] == (best is not None), case
        if best is None:
            assert answer["choice"] is None and answer["time"] is None and answer["memory"] is None and answer["reason"]
            continue
        chosen = [layer[i] for layer, i in zip(case["layers"], answer["choice"])]
        assert len(chosen) == len(case["layers"])
        assert answer["time"] == sum(c["time"] for c in chosen) == best, case
        assert answer["memory"] == sum(c["memory"] for c in chosen) <= case["bound"], case


def test_algorithms_that_do_not_fit_say_by_how_much():
    answer = ask("algorithms", {"bound": 40, "layers": [[{"time": 1, "memory": 10}], [{"time": 1, "memory": 40}, {"time": 2, "memory": 30}], [{"time": 1, "memory": 5}]]})
    assert answer["feasible"] is False and "layer 2" in answer["reason"] and " 5 more" in answer["reason"]


def test_algorithms_of_a_hundred_layers():
    random.seed(6)
    layers = [[{"time": random.random(), "memory": random.randint(0, 2**32)} for _ in range(8)] for _ in range(100)]
    bound = sum(min(cost["memory"] for cost in layer) for layer in layers) + 30 * 2**32
    answer = ask("algorithms", {"bound": bound, "layers": layers})
    assert answer["feasible"] and answer["memory"] <= bound


BAD_ALGORITHMS = [
    ({**ALGORITHMS, "layers": 3}, ["layers"]),
    ({**ALGORITHMS, "layers": [3]}, ["layers", "layer 1"]),
    ({**ALGORITHMS, "layers": [[], []]}, ["layers", "layer 1", "no algorithms"]),
    ({**ALGORITHMS, "layers": [[{"time": 1}]]}, ["layers", "layer 1", "memory"]),
    ({**ALGORITHMS, "layers": [[{"time": "1", "memory": 1}]]}, ["layers", "layer 1", "time"]),
    ({**ALGORITHMS, "layers": [[{"time": 1, "memory": 1, "cost": 2}]]}, ["layers", "layer 1", "cost"]),
    ({**ALGORITHMS, "layers": [[{"time": 1, "memory": -1}]]}, ["layers"]),
    ({**ALGORITHMS, "layers": [[5]]}, ["layers", "layer 1"]),
]


@pytest.mark.parametrize("case,names", BAD_ALGORITHMS)
def test_bad_algorithms(case, names):
    refused("algorithms", [ALGORITHMS, case], names=["case 1", *names])


def test_mini_batch():
    answer = ask("mini-batch", MINI_BATCH)
    candidates = answer.pop("candidates")
    assert answer == {"feasible": True, "mini_batch": 25, "iterations": 4, "time": 20, "choice": [0]}
    assert candidates[0] == {"feasible": True, "mini_batch": 10, "iterations": 10, "time": 30, "choice": [0]}
    assert candidates[1] == answer
    assert candidates[2]["feasible"] is False and candidates[2]["time"] is None and candidates[2]["choice"] is None and candidates[2]["reason"]


def test_mini_batch_ties_go_to_the_larger():
    sizes = [{"mini_batch": x, "bound": 1, "layers": [[{"time": x / 10, "memory": 0}]]} for x in (10, 30, 20)]
    assert ask("mini-batch", {"samples": 60, "candidates": sizes})["mini_batch"] == 30


def test_no_mini_batch_fits():
    answer = ask("mini-batch", {"samples": 9, "candidates": [{"mini_batch": 3, "bound": 1, "layers": [[{"time": 1, "memory": 2}]]}]})
    assert answer["feasible"] is False and "none" in answer["reason"]
    assert [answer[key] for key in ("mini_batch", "iterations", "time", "choice", "candidates")] == [None] * 5


BAD_MINI_BATCHES = [
    ({**MINI_BATCH, "samples": 0}, ["samples"]),
    ({**MINI_BATCH, "candidates": []}, ["candidates"]),
    ({**MINI_BATCH, "candidates": 5}, ["candidates"]),
    ({**MINI_BATCH, "candidates": [5]}, ["candidates[0]"]),
    ({**MINI_BATCH, "candidates": [{**MINI_BATCH["candidates"][0], "mini_batch": 0}]}, ["candidates[0]", "mini_batch"]),
    ({**MINI_BATCH, "candidates": [{**MINI_BATCH["candidates"][0], "mini_batch": 1.5}]}, ["candidates[0]", "mini_batch"]),
    ({**MINI_BATCH, "candidates": [{**MINI_BATCH["candidates"][0], "colour": 0}]}, ["candidates[0]", "colour"]),
    ({**MINI_BATCH, "candidates": [without(MINI_BATCH["candidates"][0], "bound")]}, ["candidates[0]", "bound"]),
    ({**MINI_BATCH, "candidates": [without(MINI_BATCH["candidates"][0], "layers")]}, ["candidates[0]", "layers"]),
    ({**MINI_BATCH, "candidates": [{**MINI_BATCH["candidates"][0], "layers": [[]]}]}, ["candidates[0]", "layer 1"]),
]


@pytest.mark.parametrize("case,names", BAD_MINI_BATCHES)
def test_bad_mini_batches(case, names):
    refused("mini-batch", case, names=["case 0", *names])


# ---- plan fft-ratio


def test_fft_ratio_of_the_papers_table():
    rows = [(224, 55, 3, 96, 11.6), (27, 27, 96, 256, 1.6), (13, 13, 256, 384, 2.3), (13, 13, 384, 384, 2.7), (13, 13, 384, 256, 2.3)]
    cases = [{"mini_batch": 128, "input": [a, a], "output": [b, b], "depth": d, "filters": k} for a, b, d, k, _ in rows]
    assert [round(answer["ratio"], 1) for answer in ask("fft-ratio", cases)] == [row[-1] for row in rows]


BAD_FFT = [
    ({**FFT, "input": [1]}, ["input"]),
    ({**FFT, "output": [1, 2, 3]}, ["output"]),
    ({**FFT, "output": [0, 2]}, ["output"]),
    ({**FFT, "input": [1.5, 2]}, ["input"]),
    ({**FFT, "depth": 0}, ["depth"]),
    ({**FFT, "filters": 0}, ["filters"]),
    ({**FFT, "mini_batch": 0}, ["mini_batch"]),
]


@pytest.mark.parametrize("case,names", BAD_FFT)
def test_bad_fft_ratios(case, names):
    refused("fft-ratio", case, names=["case 0", *names])


def test_without_the_solver_only_what_needs_it_fails_and_says_what_to_install(tmp_path):
    (tmp_path / "libCbcSolver.so.3").touch()
    both_fit, one_fits = dict(ALGORITHMS, bound=15), ALGORITHMS
    for case, code in ((both_fit, 0), (one_fits, 1)):
        done = subprocess.run(
            [PROGRAM, "plan", "algorithms", "--input", "-", "--json"], input=json.dumps(case), capture_output=True, text=True, timeout=120,
            env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        )
        assert done.returncode == code, done
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert "needs the solver CBC" in done.stderr and "libCbcSolver.so.3" in done.stderr and "apt-get install coinor-libcbc3" in done.stderr
