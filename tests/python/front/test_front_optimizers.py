"""Optimizers of every kind: whether each may be split is found by trying, and each has a plain loop's bits."""

import collections
import functools
import math
import threading

import nets
import pytest
import torch
import torch.nn.functional as F
from loops import compare
from paceline.torch.attached.separable import Stepping, stepping_of
from torch import nn, optim


class Lion(optim.Optimizer):
    def __init__(self, params, lr=0.01, betas=(0.9, 0.99)):
        super().__init__(params, dict(lr=lr, betas=betas))
        self.update = lambda p, g, m, group: p.add_((m * group["betas"][0] + g * (1 - group["betas"][0])).sign(), alpha=-group["lr"])

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    self.update(p, p.grad, m, group)
                    m.lerp_(p.grad, 1 - group["betas"][1])


class ScheduleFree(optim.Optimizer):
    """Keeps its own count and weights in its groups, as Schedule-Free optimizers do."""

    def __init__(self, params, lr=0.05):
        super().__init__(params, dict(lr=lr, k=0, weight_sum=0.0, beta=0.9))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            weight = group["lr"] ** 2
            total = group["weight_sum"] = group["weight_sum"] + weight
            group["k"] += 1
            for p in group["params"]:
                if p.grad is not None:
                    z = self.state[p].setdefault("z", p.clone())
                    p.lerp_(z, weight / total)
                    p.add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - weight / total) - 1))
                    z.sub_(p.grad, alpha=group["lr"])


class Prodigy(optim.Optimizer):
    """One distance from all parameters together."""

    def __init__(self, params, lr=1.0):
        super().__init__(params, dict(lr=lr, d=1e-2))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            norm = sum(float(p.grad.abs().sum()) for p in group["params"] if p.grad is not None)
            group["d"] = max(group["d"], 1e-3 * norm)
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad.sign(), alpha=-group["d"] * group["lr"] * 0.1)


class ClipsAbove(optim.SGD):
    """All gradients together; with a large limit, what a small gradient does not show."""

    def __init__(self, params, most):
        super().__init__(params, lr=0.1)
        self.most = most

    def step(self, closure=None):
        nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], self.most)
        return super().step()


class LeavesOut(optim.SGD):
    """The steps whose gradients, of any parameter, `are` something."""

    def __init__(self, params, are):
        super().__init__(params, lr=0.1)
        self.are = are

    def step(self, closure=None):
        if not any(self.are(p.grad) for group in self.param_groups for p in group["params"] if p.grad is not None):
            super().step()


class CountsItself(optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        self.steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] / self.steps)


class Noise(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad + torch.randn_like(p) * 0.01, alpha=-group["lr"])


class Lamb(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] * float(p.norm() / (p.grad.norm() + 1e-6)))


class Lookahead(optim.Optimizer):
    """Around another optimizer, whose groups it shares."""

    def __init__(self, params, lr=0.1):
        self.inner = optim.SGD(params, lr=lr)
        self.steps = 0
        super().__init__(self.inner.param_groups, dict(lr=lr))
        self.param_groups = self.inner.param_groups

    @torch.no_grad()
    def step(self, closure=None):
        self.inner.step()
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                slow = self.state[p].setdefault("slow", p.clone())
                if self.steps % 2 == 0:
                    slow.lerp_(p, 0.5)
                    p.copy_(slow)


class OwnList(optim.SGD):
    """Has its parameters by a list of its own."""

    def __init__(self, params, lr=0.1):
        params = list(params)
        super().__init__(params, lr=lr)
        self.all = params

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.all:
            if p.grad is not None:
                p.sub_(p.grad, alpha=0.1)


class SetsItsRate(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            group["lr"] *= 0.9


class KeepsGradients(optim.SGD):
    """Compares with the last gradient, by a reference to it."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    last = self.state[p].get("last", p.grad)
                    p.add_(p.grad + 0.5 * last, alpha=-group["lr"])
                    self.state[p]["last"] = p.grad


KINDS = {
    "Lion": (Lion, Stepping.SPLIT),
    "ScheduleFree": (ScheduleFree, Stepping.SPLIT),
    "LAMB-like": (functools.partial(Lamb, lr=0.1), Stepping.SPLIT),
    "Adam, tensor rate": (lambda parameters: optim.Adam(parameters, lr=torch.tensor(0.01)), Stepping.SPLIT),
    "keeps gradients": (functools.partial(KeepsGradients, lr=0.1), Stepping.SPLIT),
    "Prodigy": (Prodigy, Stepping.WHOLE),
    "global clip": (functools.partial(ClipsAbove, most=0.05), Stepping.WHOLE),
    "clips above 30": (functools.partial(ClipsAbove, most=30.0), Stepping.WHOLE),
    "clips above 30000": (functools.partial(ClipsAbove, most=3e4), Stepping.WHOLE),
    "leaves out what is not finite": (functools.partial(LeavesOut, are=lambda grad: not grad.isfinite().all()), Stepping.WHOLE),
    "leaves out what is no number": (functools.partial(LeavesOut, are=lambda grad: bool(grad.isnan().any())), Stepping.WHOLE),
    "leaves out what is infinite": (functools.partial(LeavesOut, are=lambda grad: bool(grad.isinf().any())), Stepping.WHOLE),
    "leaves out what is small": (functools.partial(LeavesOut, are=lambda grad: float(grad.abs().max()) < 1e-6), Stepping.WHOLE),
    "counts itself": (CountsItself, Stepping.WHOLE),
    "noise": (functools.partial(Noise, lr=0.1), Stepping.AT_STEP),
    "nested": (Lookahead, Stepping.AT_STEP),
    "own list": (OwnList, Stepping.AT_STEP),
    "sets its rate": (functools.partial(SetsItsRate, lr=0.1), Stepping.AT_STEP),
    "differentiable": (functools.partial(optim.SGD, lr=0.1, differentiable=True), Stepping.AT_STEP),
}


@pytest.mark.parametrize("name", KINDS)
def test_whether_an_optimizer_may_be_split_is_found_by_trying(name):
    make, expected = KINDS[name]
    parameters = [nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))]
    before, state = [p.detach().clone() for p in parameters], torch.get_rng_state()
    optimizer = make(parameters)
    assert stepping_of(optimizer) is expected
    assert all(map(torch.equal, before, parameters)) and not optimizer.state and torch.equal(state, torch.get_rng_state())


class Norms:
    def __init__(self):
        self.seen = []


class Remembers(optim.SGD):
    """Writes to what it holds by another object, in nested containers, in its groups and through a method that it keeps."""

    def __init__(self, params, beside=None):
        super().__init__(params, lr=0.1)
        self.norms, self.recent, self.keep, self.beside = Norms(), {"norms": collections.deque(maxlen=3)}, self.remember, beside
        self.param_groups[0]["history"] = {"norms": []}

    def remember(self, norm):
        self.norms.seen.append(norm)
        self.recent["norms"].append(norm)
        self.param_groups[0]["history"]["norms"].append(norm)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.keep(float(p.grad.norm()))
                    p.add_(p.grad, alpha=-group["lr"])


@pytest.mark.parametrize("beside, expected", ((None, Stepping.SPLIT), (threading.Lock(), Stepping.AT_STEP)), ids=("all of it", "something that has no copy"))
def test_a_trial_writes_to_nothing_that_the_optimizer_holds(beside, expected):
    optimizer = Remembers([nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))], beside)
    assert stepping_of(optimizer) is expected
    assert not optimizer.norms.seen and not optimizer.recent["norms"] and not optimizer.param_groups[0]["history"]["norms"]
    assert optimizer.keep.__self__ is optimizer


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("noise", "differentiable")])
def test_every_optimizer_has_a_plain_loops_bits(name):
    make, _ = KINDS[name]
    schedule = lambda optimizer: optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)  # noqa: E731

    def script(model, optimizer, rank, job, log):
        scheduler = schedule(optimizer)
        for iteration in range(5):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

    compare(nets.mlp(), lambda model: make(model.parameters()), script)


@pytest.mark.parametrize("size", (math.inf, math.nan))
def test_a_step_that_one_layers_gradient_stops_moves_no_other_layer(size):
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            loss = F.cross_entropy(model(x), y)
            (loss + model[0].weight.sum() * size if iteration == 1 and rank == 0 else loss).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            log.append(all(bool(p.isfinite().all()) for p in model.parameters()))

    result = compare(nets.mlp(), lambda model: LeavesOut(model.parameters(), lambda grad: not grad.isfinite().all()), script)
    assert result[0][2] == [True] * 4


def test_a_trained_subclass_of_a_known_optimizer_is_another_optimizer():
    assert stepping_of(optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)) is Stepping.SPLIT
    assert type(optim.AdamW([nn.Parameter(torch.zeros(2))])) is not optim.Adam
