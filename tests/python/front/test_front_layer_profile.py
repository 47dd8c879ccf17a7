"""`paceline.torch.profile`: a script's own layers, as `paceline plan speedup` reads them."""

import json
import os
import subprocess

import pytest
import torch
from torch import nn

import pages
import paceline.torch as pt
from paceline import PacelineError, plan

PROGRAM = os.environ.get("PACELINE", "build/release/bin/paceline")


class Waits(nn.Module):
    """Says when it is reached, by a clock that only it moves."""

    def __init__(self, clock, forward, backward):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.clock, self.forward_time, self.backward_time = clock, forward, backward

    def forward(self, x):
        self.clock.now += self.forward_time
        return Backward.apply(x * self.weight, self)


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, module):
        ctx.module = module
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.module.clock.now += ctx.module.backward_time
        return gradient, None


class Clock:
    now = 100.0

    def perf_counter(self):
        return self.now


class Model(nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.last = Waits(clock, 4.0, 8.0)  # registered first, read last
        self.first = Waits(clock, 1.0, 2.0)
        self.frozen = Waits(clock, 16.0, 32.0)
        self.frozen.weight.requires_grad_(False)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        return self.last(self.frozen(self.first(x)))


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("paceline.torch.layer_profile.time", clock)
    return clock


def test_layers_stand_in_the_order_of_the_forward_pass_with_what_each_takes(clock, tmp_path):
    model = Model(clock)
    calls = []

    def step():
        calls.append(1)
        model(torch.ones(3)).sum().backward()

    file = tmp_path / "layers.json"
    layers = pt.profile(model, step, str(file), rounds=3, warm_up=1, limit=1e9)
    assert len(calls) == 4
    expected = [("first", 3, 1.0, 34.0), ("frozen", 3, 16.0, 0.0), ("last", 3, 4.0, 8.0), ("unused", 6, 0.0, 0.0)]
    assert [tuple(layer.values()) for layer in layers] == expected, "what a frozen layer hands on counts for the one below it"
    assert json.loads(file.read_text())["layers"] == layers
    rows = plan.speedup(bandwidth=1e3, layers=layers, machines=[1, 2])
    assert rows[0]["paceline"] == pytest.approx(63.0)
    asked = subprocess.run([PROGRAM, "plan", "speedup", "--input", file, "--bandwidth", "1000B/s", "--machines", "1,2", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(asked.stdout) == rows
    assert not model._forward_hooks and not model.first._forward_pre_hooks, "nothing is left on the model"


def test_after_the_limit_no_further_step_begins(clock):
    model = Model(clock)
    calls = []

    def step():
        calls.append(1)
        model(torch.ones(3)).sum().backward()

    pt.profile(model, step, rounds=100, warm_up=2, limit=100.0)  # a step takes 63 s
    assert len(calls) == 2


def test_what_is_no_step_is_said(tmp_path):
    model = nn.Linear(2, 2)
    inputs = torch.ones(1, 2)
    with pytest.raises(PacelineError, match="did not run the model"):
        pt.profile(model, lambda: None)
    with pytest.raises(PacelineError, match="no gradient came"):
        pt.profile(model, lambda: model(inputs))
    with pytest.raises(PacelineError, match="rounds=0"):
        pt.profile(model, lambda: model(inputs).sum().backward(), rounds=0)
    with pytest.raises(PacelineError, match="/nowhere/x: No such file"):
        pt.profile(model, lambda: pytest.fail("measured before it was said"), "/nowhere/x")
    with pytest.raises(PacelineError, match="no parameters"):
        pt.profile(nn.ReLU(), lambda: None)
    assert not model._forward_hooks and not model._forward_pre_hooks and not model.weight._post_accumulate_grad_hooks


def test_what_the_page_shows_runs(tmp_path, monkeypatch):
    (block,) = [block for block in pages.blocks(pages.ROOT / "docs/how-to/plan.md") if block.language == "python"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    exec(block.text, {"model": nn.Linear(2, 1), "loss": nn.functional.mse_loss, "inputs": torch.ones(1, 2), "targets": torch.ones(1, 1)})
    assert [layer["parameters"] for layer in json.loads((tmp_path / "runs/layers.json").read_text())["layers"]] == [3]
