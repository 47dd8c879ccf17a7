"""The contracts of `paceline plan barrier|gpus|servers|memory|algorithms|mini-batch|fft-ratio`, asked from outside.

The program is the one that the environment variable PACELINE names, else build/release/bin/paceline.
"""

import copy
import itertools
import json
import math
import os
import random
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PACELINE", str(ROOT / "build/release/bin/paceline"))


def run(*arguments, text=""):
    return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=120)


def ask(question, cases, *options):
    done = run("plan", question, "--input", "-", "--json", *options, text=json.dumps(cases))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    return json.loads(done.stdout)


def refused(question, case, *options, names=()):
    """One line on standard error that has all `names`, nothing on standard output."""
    done = run("plan", question, "--input", "-", "--json", *options, text=case if isinstance(case, str) else json.dumps(case))
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("paceline: error: ") and done.stderr.count("\n") == 1, done.stderr
    for name in names:
        assert name in done.stderr, (name, done.stderr)


def without(case, key):
    return {k: v for k, v in case.items() if k != key}


BARRIER = {"last_end": [0, 0], "interval": [1, 3], "lookahead": 5}
ENDS = {"ends": [[1, 4, 7], [3, 8]]}
SERVERS = {"parameter_bytes": 244_000_000, "workers": 8, "bandwidth": 125e6, "compute_time": 10, "duplex": "half"}
MEMORY = {"model": "alexnet", "mini_batch": 128, "memory": 12 * 2**30}
ALGORITHMS = {"bound": 13, "layers": [[{"time": 2, "memory": 1}, {"time": 1, "memory": 9}], [{"time": 1, "memory": 6}, {"time": 3, "memory": 0}]]}
MINI_BATCH = {
    "samples": 100,
    "candidates": [
        {"mini_batch": 10, "bound": 9, "layers": [[{"time": 3, "memory": 1}]]},
        {"mini_batch": 25, "bound": 9, "layers": [[{"time": 5, "memory": 8}, {"time": 9, "memory": 0}]]},
        {"mini_batch": 50, "bound": 7, "layers": [[{"time": 9, "memory": 8}]]},
    ],
}
FFT = {"mini_batch": 128, "input": [224, 224], "output": [55, 55], "depth": 3, "filters": 96}
GOOD = {
    "barrier": BARRIER,
    "gpus": {"overhead": 0.1, "gpus": 4},
    "servers": SERVERS,
    "memory": MEMORY,
    "algorithms": ALGORITHMS,
    "mini-batch": MINI_BATCH,
    "fft-ratio": FFT,
}


# ---- The frame


@pytest.mark.parametrize("question", GOOD)
def test_an_array_gives_an_array_and_an_object_an_object(question):
    one = ask(question, GOOD[question])
    assert isinstance(one, dict)
    assert ask(question, [GOOD[question]] * 3) == [one] * 3
    assert ask(question, []) == []


@pytest.mark.parametrize("question", GOOD)
def test_a_bad_case_is_named_by_its_index_and_key(question):
    good = GOOD[question]
    refused(question, [good, {**good, "colour": 1}], names=["case 1", "colour"])
    refused(question, [good, good, 7], names=["case 2"])
    for key in good:
        if question != "gpus":
            refused(question, [good, without(good, key)], names=["case 1", key])
        refused(question, [good, {**good, key: None}], names=["case 1", key])
        refused(question, [good, {**good, key: {"a": 1}}], names=["case 1", key])
        if isinstance(good[key], (int, float)):
            refused(question, [good, {**good, key: -1}], names=["case 1", key])
            refused(question, json.dumps([good, {**good, key: "X"}]).replace('"X"', "1e999"), names=["case 1", key])
            refused(question, json.dumps([good, {**good, key: "X"}]).replace('"X"', "NaN"), names=["case 1", key])


@pytest.mark.parametrize("question", GOOD)
def test_without_json_the_answer_is_text_for_people(question):
    done = run("plan", question, "--input", "-", text=json.dumps(GOOD[question]))
    assert done.returncode == 0 and done.stdout and not done.stdout.startswith("{")


@pytest.mark.parametrize("question", GOOD)
def test_help_has_two_examples_that_work_when_pasted(question):
    done = run("plan", question, "--help")
    assert done.returncode == 0
    examples = [line.strip() for line in done.stdout.split("Examples:")[1].splitlines() if "paceline plan" in line]
    assert len(examples) >= 2
    for example in examples:
        command = f'paceline() {{ "{PROGRAM}" "$@"; }}; {example}'
        shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0, (example, shown.stderr)


def test_single_values_come_from_options():
    assert json.loads(run("plan", "gpus", "--overhead", "0.1", "--speedup", "3", "--json").stdout)["gpus"] == 4
    shown = run("plan", "servers", "--parameter-bytes", "244MB", "--workers", "8", "--bandwidth", "1gbit", "--compute-time", "10s", "--duplex", "half", "--json")
    assert json.loads(shown.stdout)["servers"] == 4
    shown = run("plan", "fft-ratio", "--mini-batch", "128", "--input-size", "224,224", "--output", "55,55", "--depth", "3", "--filters", "96", "--json")
    assert json.loads(shown.stdout)["ratio"] == ask("fft-ratio", FFT)["ratio"]


# ---- plan barrier


def sweep(rows, objective, now):
    """ZipLine as algorithms.md states it."""
    events = sorted((end, p, i) for p, row in enumerate(rows) for i, end in enumerate(row, 1))
    z, best, value = {}, None, None
    for _, p, i in events:
        z[p] = i
        if len(z) < len(rows):
            continue
        ends = [Fraction(rows[q][z[q] - 1]) for q in range(len(rows))]
        latest = max(ends)
        if objective == "span":
            d = latest - min(ends)
        else:
            d = 0 if latest == now else sum(latest - end for end in ends) / (len(rows) * (latest - Fraction(now)))
        if best is None or d < value:
            best, value = [z[q] for q in range(len(rows))], d
    return best, value


def test_barrier_answers_by_hand():
    assert ask("barrier", ENDS) == {"iterations": [2, 1], "span": 1, "barrier": 4, "waiting": [0, 1], "waiting_share": 0.125}
    assert ask("barrier", BARRIER) == {"iterations": [3, 1], "span": 0, "barrier": 3, "waiting": [0, 0], "waiting_share": 0}
    answer = ask("barrier", {"last_end": [1, 4], "interval": [1, 1], "lookahead": 2})
    # now = 4; worker 0 could be at 3 by then, worker 1 at 5.
    assert answer == {"iterations": [2, 1], "span": 2, "barrier": 5, "waiting": [2, 0], "waiting_share": 1}
    assert ask("barrier", {"ends": [[1, 4], [2, 4]], "now": 2}, "--objective", "waiting-share")["iterations"] == [1, 1]


@pytest.mark.parametrize("objective", ["span", "waiting-share"])
def test_barrier_follows_the_sweep_and_no_algorithm_beats_it(objective):
    random.seed(objective)
    cases = []
    for _ in range(300):
        rows = [sorted(random.randint(0, 25) for _ in range(random.randint(1, 5))) for _ in range(random.randint(1, 4))]
        cases.append({"ends": rows})
    answers = {a: ask("barrier", cases, "--algorithm", a, "--objective", objective) for a in ("zipline", "grid-scan", "full-grid-scan", "naive")}
    key = "span" if objective == "span" else "waiting_share"
    for case, zipline, naive, grid, full in zip(cases, *(answers[a] for a in ("zipline", "naive", "grid-scan", "full-grid-scan"))):
        best, value = sweep(case["ends"], objective, 0)
        assert zipline["iterations"] == best, case
        assert math.isclose(zipline[key], value, rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(naive[key], zipline[key], rel_tol=1e-12, abs_tol=1e-12), case
        assert zipline[key] <= full[key] + 1e-12 and full[key] <= grid[key] + 1e-12, case


def test_barrier_of_a_thousand_workers():
    random.seed(3)
    rows = [sorted(random.uniform(0, 100) for _ in range(20)) for _ in range(1000)]
    answer = ask("barrier", {"ends": rows})
    ends = [row[i - 1] for row, i in zip(rows, answer["iterations"])]
    assert answer["barrier"] == max(ends) and answer["span"] == max(ends) - min(ends)
    assert answer["waiting"] == [max(ends) - end for end in ends]


BAD_BARRIERS = [
    ({"ends": [[3, 2]]}, ["ends", "worker 0", "iteration 2"]),
    ({"ends": []}, ["ends", "no workers"]),
    ({"ends": [[1], []]}, ["ends", "worker 1"]),
    ({"ends": 3}, ["ends"]),
    ({"ends": [3]}, ["ends", "worker 0"]),
    ({"ends": [[1, "2"]]}, ["ends", "worker 0"]),
    ({"ends": [[1, None]]}, ["ends", "worker 0"]),
    ({"ends": [[1, -2]]}, ["ends"]),
    ({"ends": [[1, 2]], "lookahead": 3}, ["ends", "lookahead"]),
    ({"ends": [[1, 2]], "last_end": [0], "interval": [1]}, ["ends", "last_end"]),
    ({"ends": [[1, 2]], "now": 5}, ["now"]),
    ({**BARRIER, "lookahead": 0}, ["lookahead"]),
    ({**BARRIER, "lookahead": 1.5}, ["lookahead"]),
    ({**BARRIER, "lookahead": 2**53}, ["lookahead"]),
    ({**BARRIER, "interval": [1]}, ["interval"]),
    ({**BARRIER, "interval": [1, -1]}, ["interval"]),
    ({"last_end": [], "interval": [], "lookahead": 1}, ["last_end"]),
    ({}, ["last_end", "ends"]),
]


@pytest.mark.parametrize("case,names", BAD_BARRIERS)
def test_bad_barriers(case, names):
    refused("barrier", case, names=["case 0", *names])


def test_naive_refuses_what_would_take_for_ever_and_names_are_checked():
    refused("barrier", {"last_end": [0] * 20, "interval": [1] * 20, "lookahead": 20}, "--algorithm", "naive", names=["naive", "zipline"])
    refused("barrier", BARRIER, "--algorithm", "zip-line", names=["zipline"])
    refused("barrier", BARRIER, "--objective", "waiting_share", names=["waiting-share"])


# ---- plan gpus


def test_gpus_worked_examples():
    answer = ask("gpus", {"overhead": 0.1, "speedup": 3})
    assert answer["feasible"] is True and answer["gpus"] == 4
    assert math.isclose(answer["efficiency"], 1.1 / 1.4) and math.isclose(answer["speedup"], 4.4 / 1.4) and math.isclose(answer["limit"], 11)
    assert math.isclose(ask("gpus", {"gpus": 4, "efficiency": 0.8})["max_overhead"], 0.2 / 2.2)
    answer = ask("gpus", {"overhead": 0.1, "gpus": 4})
    assert set(answer) == {"efficiency", "speedup"} and math.isclose(answer["speedup"], 4.4 / 1.4)
    assert ask("gpus", {"overhead": 0, "speedup": 7.5}) == {"feasible": True, "gpus": 8, "efficiency": 1, "speedup": 8, "limit": None}
    for gpus, efficiency in ((4, 0.25), (4, 0.2), (1, 1), (10, 0.1)):
        assert ask("gpus", {"gpus": gpus, "efficiency": efficiency}) == {"max_overhead": None}
    assert ask("gpus", {"gpus": 3, "efficiency": 1}) == {"max_overhead": 0}


def test_gpus_exactly_reached_speedups():
    cases, expected = [], []
    for per_cent in range(1, 101):
        for gpus in range(1, 40):
            r = Fraction(per_cent, 100)
            speedup = gpus * (1 + r) / (1 + gpus * r)
            cases.append({"overhead": float(r), "speedup": float(speedup)})
            expected.append(gpus)
    assert [answer["gpus"] for answer in ask("gpus", cases)] == expected


@pytest.mark.parametrize("case", [{"overhead": 0.1, "speedup": 11}, {"overhead": 0.5, "speedup": 3}, {"overhead": 0.5, "speedup": 100}])
def test_a_speedup_at_the_limit_is_an_answer(case):
    answer = ask("gpus", case)
    assert answer["feasible"] is False
    assert [answer[key] for key in ("gpus", "efficiency", "speedup", "limit")] == [None] * 4
    assert str(round((1 + case["overhead"]) / case["overhead"])) in answer["reason"]


BAD_GPUS = [
    ({}, ["overhead"]),
    ({"overhead": 0.1}, ["not two"]),
    ({"overhead": 0.1, "gpus": 4, "speedup": 2}, ["not two"]),
    ({"efficiency": 0.5, "speedup": 2}, ["efficiency", "speedup"]),
    ({"overhead": 0.5, "efficiency": 0.5}, ["overhead", "efficiency"]),
    ({"gpus": 4, "speedup": 2}, ["gpus", "speedup"]),
    ({"gpus": 0, "efficiency": 0.5}, ["gpus"]),
    ({"gpus": 1.5, "efficiency": 0.5}, ["gpus"]),
    ({"gpus": 4, "efficiency": 0}, ["efficiency"]),
    ({"gpus": 4, "efficiency": 1.01}, ["efficiency"]),
    ({"gpus": 4, "efficiency": -0.5}, ["efficiency"]),
    ({"overhead": 0.1, "speedup": 0}, ["speedup"]),
    ({"overhead": -0.1, "speedup": 2}, ["overhead"]),
    ({"overhead": "0.1", "speedup": 2}, ["overhead"]),
]


@pytest.mark.parametrize("case,names", BAD_GPUS)
def test_bad_gpus(case, names):
    refused("gpus", [GOOD["gpus"], case], names=["case 1", *names])


# ---- plan servers


def test_servers():
    assert ask("servers", SERVERS) == {"servers": 4, "worker_link_ok": True, "worker_link_shortfall": 0}
    assert ask("servers", {**SERVERS, "duplex": "full"})["servers"] == 2
    answer = ask("servers", {**SERVERS, "compute_time": 1})
    assert answer["servers"] == 32 and answer["worker_link_ok"] is False and math.isclose(answer["worker_link_shortfall"], 363e6)
    answer = ask("servers", {**SERVERS, "compute_time": 1, "worker_bandwidth": 488e6})
    assert answer["servers"] == 32 and answer["worker_link_ok"] is True and answer["worker_link_shortfall"] == 0
    assert ask("servers", {**SERVERS, "parameter_bytes": 0})["servers"] == 1


def test_servers_at_whole_quotients():
    cases, expected = [], []
    for hundredths in range(1, 60):
        for servers in (1, 2, 3, 7, 10, 33):
            time, bandwidth = Fraction(hundredths, 100), 300_000_000
            cases.append({"parameter_bytes": int(time * bandwidth * servers), "workers": 1, "bandwidth": bandwidth, "compute_time": float(time), "duplex": "full"})
            expected.append(servers)
    assert [answer["servers"] for answer in ask("servers", cases)] == expected


BAD_SERVERS = [
    ({**SERVERS, "duplex": "both"}, ["duplex"]),
    ({**SERVERS, "duplex": 2}, ["duplex"]),
    ({**SERVERS, "bandwidth": 0}, ["bandwidth"]),
    ({**SERVERS, "worker_bandwidth": 0}, ["worker_bandwidth"]),
    ({**SERVERS, "workers": 0}, ["workers"]),
    ({**SERVERS, "compute_time": 0}, ["compute_time"]),
    ({**SERVERS, "parameter_bytes": 1.5}, ["parameter_bytes"]),
    ({**SERVERS, "bandwidth": 1e-300}, ["bandwidth"]),
]


@pytest.mark.parametrize("case,names", BAD_SERVERS)
def test_bad_servers(case, names):
    refused("servers", case, names=["case 0", *names])


# ---- plan memory


def layers_of(name):
    described = json.loads(run("models", name, "--json").stdout)
    return (described[0] if isinstance(described, list) else described)["layers"]


def test_memory_of_alexnet():
    answer = ask("memory", MEMORY)
    megabytes = {key: answer[key] / 8e6 for key in ("feature_maps_bits", "convolution_bits", "classifier_bits", "bound")}
    assert math.isclose(megabytes["feature_maps_bits"], 472.6, abs_tol=0.05)
    assert math.isclose(megabytes["convolution_bits"], 44.97, abs_tol=0.005)
    assert math.isclose(megabytes["classifier_bits"], 713.0, abs_tol=0.05)
    assert math.isclose(megabytes["bound"], 11654, abs_tol=0.5)
    assert answer["fits"] is True
    assert answer["bound"] == 12 * 2**33 - sum(answer[key] for key in ("feature_maps_bits", "convolution_bits", "classifier_bits"))
    answer = ask("memory", {**MEMORY, "memory": 2**30})
    assert answer["fits"] is False and answer["bound"] < 0


@pytest.mark.parametrize("name", ["lenet", "alexnet", "resnet-20", "resnet-50", "googlenet", "googlenet-aux", "inception-v3-aux", "vgg-19"])
def test_memory_reads_the_layers_that_models_prints(name):
    sizes = {"mini_batch": 4, "memory": 2**34}
    assert ask("memory", {"layers": layers_of(name), **sizes}) == ask("memory", {"model": name, **sizes})


@pytest.mark.parametrize("name", ["mlp", "seq2seq"])
def test_memory_without_convolutions_has_no_answer(name):
    for source in ({"model": name}, {"layers": layers_of(name)}):
        answer = ask("memory", {**source, "mini_batch": 4, "memory": 2**34})
        assert answer["feasible"] is False and answer["reason"]
        assert [answer[key] for key in ("feature_maps_bits", "convolution_bits", "classifier_bits", "bound", "fits")] == [None] * 5


def edited(path, value):
    layers = copy.deepcopy(layers_of("alexnet"))
    place = layers
    for step in path[:-1]:
        place = place[step]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return layers


BAD_LAYERS = [
    ((2, "convolution", "input"), [100, 13, 13], ["layer 3", "conv3", "[256, 13, 13]"]),
    ((2, "convolution", "input"), [256, 13], ["layer 3", "input"]),
    ((2, "convolution", "output"), [384, 14, 13], ["layer 3", "[384, 13, 13]"]),
    ((2, "convolution", "stride"), [0, 1], ["layer 3", "stride"]),
    ((2, "convolution", "groups"), 5, ["layer 3", "groups"]),
    ((2, "convolution", "bias"), 1, ["layer 3", "bias"]),
    ((2, "convolution", "bias"), False, ["layer 3", "parameters"]),
    ((2, "convolution", "colour"), 1, ["layer 3", "colour"]),
    ((2, "convolution"), KeyError, ["layer 3", "convolution"]),
    ((2, "convolution", "kernel"), KeyError, ["layer 3", "kernel"]),
    ((0, "pooling", 0, "input"), [96, 54, 55], ["layer 1", "pool1"]),
    ((0, "pooling", 0, "kind"), "median", ["layer 1", "kind"]),
    ((5, "linear", "in_features"), 9000, ["layer 6", "fc6", "9216"]),
    ((6, "linear", "in_features"), 4000, ["layer 7", "fc7", "4096"]),
    ((6, "kind"), "convolution", ["layer 7"]),
    ((6, "kind"), "dense", ["layer 7", "kind"]),
    ((6, "name"), KeyError, ["layer 7", "name"]),
    ((6, "parameters"), 5, ["layer 7", "parameters"]),
    ((1,), 7, ["layer 2"]),
]


@pytest.mark.parametrize("path,value,names", BAD_LAYERS)
def test_layers_that_do_not_fit_are_named(path, value, names):
    refused("memory", {"layers": edited(path, value), "mini_batch": 1, "memory": 1}, names=["case 0", "layers", *names])


BAD_MEMORY = [
    ({**MEMORY, "layers": []}, ["model", "layers"]),
    (without(MEMORY, "model"), ["model"]),
    ({**MEMORY, "model": "alexnot"}, ["model", "alexnet"]),
    ({**MEMORY, "mini_batch": 0}, ["mini_batch"]),
    ({**MEMORY, "mini_batch": 2**53}, ["mini_batch"]),
    ({"layers": {}, "mini_batch": 1, "memory": 1}, ["layers"]),
]


@pytest.mark.parametrize("case,names", BAD_MEMORY)
def test_bad_memory(case, names):
    refused("memory", case, names=["case 0", *names])


# ---- plan algorithms, plan mini-batch


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
