"""Attached training has the bits of a plain loop that sums in rank order, whatever the optimizer, and however late means come."""

import functools

import nets
import pytest
import scripts
import torch
from loops import compare
from torch import optim

SCHEDULES = {
    "constant": None,
    "cosine": lambda optimizer: optim.lr_scheduler.CosineAnnealingLR(optimizer, 4),
    "one cycle": lambda optimizer: optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=10),
}
OPTIMIZERS = {
    "SGD": functools.partial(optim.SGD, lr=0.1),
    "SGD momentum": functools.partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD nesterov": functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    "SGD foreach": functools.partial(optim.SGD, lr=0.1, momentum=0.9, foreach=True),
    "SGD fused": functools.partial(optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "Adam": functools.partial(optim.Adam, lr=0.01),
    "Adam amsgrad": functools.partial(optim.Adam, lr=0.01, amsgrad=True),
    "Adam foreach": functools.partial(optim.Adam, lr=0.01, foreach=True),
    "Adam fused": functools.partial(optim.Adam, lr=0.01, fused=True),
    "Adam maximize": functools.partial(optim.Adam, lr=0.01, maximize=True),
    "AdamW": functools.partial(optim.AdamW, lr=0.01),
    "AdamW foreach": functools.partial(optim.AdamW, lr=0.01, foreach=True),
    "AdamW fused": functools.partial(optim.AdamW, lr=0.01, fused=True),
    "Adagrad": functools.partial(optim.Adagrad, lr=0.05),
    "Adadelta": functools.partial(optim.Adadelta, lr=0.5),
    "Adamax": functools.partial(optim.Adamax, lr=0.01),
    "NAdam": functools.partial(optim.NAdam, lr=0.01),
    "RAdam": functools.partial(optim.RAdam, lr=0.01),
    "RMSprop": functools.partial(optim.RMSprop, lr=0.01),
    "RMSprop centred": functools.partial(optim.RMSprop, lr=0.01, centered=True, momentum=0.9),
    "Rprop": functools.partial(optim.Rprop, lr=0.01),
    "ASGD": functools.partial(optim.ASGD, lr=0.01),
    "Adafactor": functools.partial(optim.Adafactor, lr=0.01),
}


def of(kind):
    return lambda model: kind(model.parameters())


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_of_torch_with_every_schedule(name, schedule):
    group = OPTIMIZERS[name]([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    make = SCHEDULES[schedule]
    if schedule == "one cycle" and "betas" not in group and "momentum" not in group:
        make = lambda optimizer: optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=10, cycle_momentum=False)  # noqa: E731
    compare(nets.everything(), of(OPTIMIZERS[name]), scripts.everything(steps=4, schedule=make))


def test_muon_beside_adamw_orthogonalises_matrices_by_layer():
    def make(model):
        return optim.Muon([p for p in model.parameters() if p.dim() == 2], lr=0.02)

    compare(nets.mlp(), make, over_numbers(5))


def over_numbers(steps):
    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            x, y = nets.numbers(iteration, rank, (5, 4))
            torch.nn.functional.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            model.zero_grad()

    return script


SGD, ADAMW = OPTIMIZERS["SGD momentum"], OPTIMIZERS["AdamW"]
FEATURES = {
    "three ranks": (ADAMW, dict(), dict(workers=3)),
    "four ranks": (ADAMW, dict(), dict(workers=4)),
    "accumulation of 3": (ADAMW, dict(accumulate=3), dict()),
    "clip_grad_norm_ by the script": (SGD, dict(clip=0.05), dict()),
    "branch by iteration": (ADAMW, dict(branch=lambda i, rank: i % 2), dict()),
    "branch by rank and iteration": (SGD, dict(branch=lambda i, rank: (i + rank) % 2), dict()),
    "branch by rank, clipped": (SGD, dict(branch=lambda i, rank: (i // 2 + rank) % 2, clip=0.05), dict()),
    "mean of weights right after step()": (ADAMW, dict(average=True), dict()),
    "loss scaler": (SGD, dict(scale=1024.0), dict()),
    "loss scaler, fused": (OPTIMIZERS["Adam fused"], dict(scale=1024.0), dict()),
    "loss scaler and clip": (SGD, dict(scale=1024.0, clip=0.05), dict()),
    "loss scaler that overflows": (SGD, dict(scale=2.0**127), dict()),
    "zero_grad at the begin of the loop": (ADAMW, dict(at_end=False), dict()),
    "zero_grad at the begin, clipped": (ADAMW, dict(at_end=False, clip=0.05), dict()),
    "applied at step": (ADAMW, dict(branch=lambda i, rank: (i + rank) % 2), dict(apply="at-step")),
    "may thaw": (ADAMW, dict(), dict(may_thaw=True)),
    "checked": (ADAMW, dict(clip=0.05), dict(check=True)),
}


@pytest.mark.parametrize("name", FEATURES)
def test_what_scripts_do_has_the_same_bits(name):
    kind, options, choices = FEATURES[name]
    compare(nets.everything(), of(kind), scripts.everything(**options), **choices)


def test_groups_with_their_own_settings_and_a_schedule():
    def make(model):
        big = [p for p in model.parameters() if p.dim() > 1]
        small = [p for p in model.parameters() if p.dim() < 2]
        return optim.Adam([{"params": big, "weight_decay": 0.01}, {"params": small, "lr": 0.003}], lr=0.01)

    compare(nets.everything(), make, scripts.everything(schedule=SCHEDULES["cosine"]))


def test_a_schedule_made_before_attach_counts_and_schedules():
    def make(model):
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        optimizer.schedule_made_before = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=10)
        return optimizer

    compare(nets.everything(), make, scripts.everything())


@pytest.mark.filterwarnings("error:Detected call of")
def test_no_schedule_complains_of_its_order():
    compare(nets.everything(), of(ADAMW), scripts.everything(schedule=SCHEDULES["cosine"]))


def test_a_learning_rate_that_is_a_tensor_and_filled_in_place():
    compare(nets.everything(), lambda model: optim.AdamW(model.parameters(), lr=torch.tensor(0.01)), scripts.everything(schedule=SCHEDULES["cosine"]))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_delivery_does_not_matter(seed):
    compare(nets.everything(), of(ADAMW), scripts.everything(branch=lambda i, rank: (i + rank) % 2, clip=0.1), workers=3, seed=seed)
