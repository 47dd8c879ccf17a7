"""`paceline plan memory`, asked from outside."""

import copy
import json
import math

import pytest
from plan_questions import MEMORY, ask, refused, run, without


def layers_of(name):
    described = json.loads(run("models", name, "--json").stdout)
    return (described[0] if isinstance(described, list) else described)["layers"]


def test_memory_of_alexnet():
    answer = ask("memory", MEMORY)
    megabytes = {key: answer[key] / 8e6 for key in ("feature_maps_bits", "convolution_bits", "classifier_bits", "bound_bits")}
    assert math.isclose(megabytes["feature_maps_bits"], 472.6, abs_tol=0.05)
    assert math.isclose(megabytes["convolution_bits"], 44.97, abs_tol=0.005)
    assert math.isclose(megabytes["classifier_bits"], 713.0, abs_tol=0.05)
    assert math.isclose(megabytes["bound_bits"], 11654, abs_tol=0.5)
    assert answer["fits"] is True
    assert answer["bound_bits"] == 12 * 2**33 - sum(answer[key] for key in ("feature_maps_bits", "convolution_bits", "classifier_bits"))
    answer = ask("memory", {**MEMORY, "memory": 2**30})
    assert answer["fits"] is False and answer["bound_bits"] < 0
    assert answer["bound"] == answer["bound_bits"], "the name that it had"
    lines = run("plan", "memory", "--input", "-", text=json.dumps({**MEMORY, "memory": 2**30})).stdout.splitlines()
    assert [line.split()[2:] for line in lines if line.startswith(("classifier_bits", "bound"))] == [["(713.0", "MB)"], ["(-156.8", "MB)"]], lines


@pytest.mark.parametrize("name", ["lenet", "alexnet", "resnet-20", "resnet-50", "googlenet", "googlenet-aux", "inception-v3-aux", "vgg-19"])
def test_memory_reads_the_layers_that_models_prints(name):
    sizes = {"mini_batch": 4, "memory": 2**34}
    assert ask("memory", {"layers": layers_of(name), **sizes}) == ask("memory", {"model": name, **sizes})


@pytest.mark.parametrize("name", ["mlp", "seq2seq"])
def test_memory_without_convolutions_has_no_answer(name):
    for source in ({"model": name}, {"layers": layers_of(name)}):
        answer = ask("memory", {**source, "mini_batch": 4, "memory": 2**34})
        assert answer["feasible"] is False and answer["reason"]
        assert [answer[key] for key in ("feature_maps_bits", "convolution_bits", "classifier_bits", "bound_bits", "fits")] == [None] * 5


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


def pointwise(name, channels, outputs):
    shape = {"kernel": [1, 1], "stride": [1, 1], "padding": [0, 0], "groups": 1, "bias": False, "input": [channels, 8, 8], "output": [outputs, 8, 8]}
    return {"name": name, "kind": "convolution", "parameters": channels * outputs, "convolution": shape}


def test_branches_with_more_sums_than_memory_are_read_at_once():
    branches = [pointwise(f"branch{i}", 1, 2**i) for i in range(28)]
    answer = ask("memory", {"layers": [*branches, pointwise("joined", 2**28 - 1, 1)], "mini_batch": 1, "memory": 2**40})
    assert answer["fits"] is True


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
