"""Optimizers around others, that do not call Optimizer.__init__, or that are told when training begins: each has a plain loop's bits."""

import collections

import nets
import pytest
import torch
from loops import bits, compare
from paceline import PacelineError
from paceline.torch.attached.attach import attach
from paceline.torch.attached.separable import Stepping, complete, stepping_of
from test_front_optimizers import ScheduleFree
from torch import nn, optim


class Uncalled(optim.Optimizer):
    """Around another optimizer, as timm's Lookahead: Optimizer.__init__ is not called."""

    def __init__(self, params, lr=0.1):
        self._base_optimizer = optim.SGD(params, lr=lr, momentum=0.9)
        self.param_groups = self._base_optimizer.param_groups
        self.defaults = self._base_optimizer.defaults
        self.state = collections.defaultdict(dict)
        for group in self.param_groups:
            group.setdefault("steps", 0)

    @torch.no_grad()
    def step(self, closure=None):
        self._base_optimizer.step(closure)
        for group in self.param_groups:
            group["steps"] += 1
            for p in group["params"]:
                slow = self._base_optimizer.state[p].setdefault("slow", p.clone())
                if group["steps"] % 2 == 0:
                    p.copy_(slow.add_(p - slow, alpha=0.5))

    def state_dict(self):
        return self._base_optimizer.state_dict()

    def load_state_dict(self, state_dict):
        self._base_optimizer.load_state_dict(state_dict)
        self.param_groups = self._base_optimizer.param_groups


class Forwards(optim.Optimizer):
    """Around another optimizer, all of which it shows as its own."""

    def __init__(self, params, lr=0.1):
        self.inner = optim.Adam(params, lr=lr)

    defaults = property(lambda self: self.inner.defaults)
    param_groups = property(lambda self: self.inner.param_groups)
    state = property(lambda self: self.inner.state)

    def step(self, closure=None):
        self.inner.step(closure)

    def state_dict(self):
        return self.inner.state_dict()


class TrainsFirst(ScheduleFree):
    """Schedule-Free: what is evaluated is not what is trained."""

    def __init__(self, params, lr=0.05):
        super().__init__(params, lr)
        self.param_groups[0]["train_mode"] = False

    @torch.no_grad()
    def switch(self, train, weight):
        for group in self.param_groups:
            for p in group["params"]:
                if group["train_mode"] != train and "z" in self.state[p]:
                    p.lerp_(self.state[p]["z"], weight)
            group["train_mode"] = train

    def train(self):
        self.switch(True, 1 - 0.9)

    def eval(self):
        self.switch(False, 1 - 1 / 0.9)

    def step(self, closure=None):
        if not self.param_groups[0]["train_mode"]:
            raise RuntimeError("call train() before step()")
        super().step()


@pytest.mark.parametrize("kind", (Uncalled, Forwards))
def test_an_optimizer_that_does_not_call_its_base_is_stepped_as_a_whole(kind):
    def script(model, optimizer, rank, job, log):
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        for iteration in range(5):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

    optimizer = kind([nn.Parameter(torch.zeros(2))])
    complete(optimizer)
    assert stepping_of(optimizer) is Stepping.AT_STEP
    compare(nets.mlp(), lambda model: kind(model.parameters()), script)


def test_an_optimizer_without_groups_is_refused():
    class Bare(optim.Optimizer):
        def __init__(self):
            pass

        def step(self):
            pass

    with pytest.raises(PacelineError, match="the Bare has no param_groups"):
        attach(nets.mlp(), Bare())


def test_schedule_free_is_split_though_train_is_called_after_attach():
    assert stepping_of(TrainsFirst([nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))])) is Stepping.SPLIT

    def script(model, optimizer, rank, job, log):
        for iteration in range(6):
            optimizer.train()
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            if iteration % 2:
                optimizer.eval()
                log.append(bits(list(model.parameters())))

    result = compare(nets.mlp(), lambda model: TrainsFirst(model.parameters()), script)
    assert len(result[0][2]) == 3
