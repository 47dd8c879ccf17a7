"""Gradients of parameters that the last backward pass did not finish, to a script that looks at gradients: the means, like all others."""

import nets
import pytest
import torch
from loops import compare
from torch import nn


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.branch, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x, branch):
        x = self.first(x)
        return self.last(self.branch(x) if branch else x)


def thaws(model, job, iteration, rank, backward):
    model.branch.requires_grad_(iteration >= 2)
    backward(True)


def is_accumulated(model, job, iteration, rank, backward):
    with job.no_sync():
        backward(True)
    backward(False)


def is_used_by_one_rank(model, job, iteration, rank, backward):
    backward((iteration + rank) % 2 == 0)


def clip_norm(model):
    return [nn.utils.clip_grad_norm_(model.parameters(), 0.1)]


def clip_value(model):
    return [nn.utils.clip_grad_value_(model.parameters(), 0.02)]


def read(model):
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("look", (clip_norm, clip_value, read, None), ids=("clip_grad_norm_", "clip_grad_value_", ".grad", "GradScaler"))
@pytest.mark.parametrize("of", (thaws, is_accumulated, is_used_by_one_rank))
def test_a_look_meets_the_means(of, look):
    template = nets.seeded(Branches)
    if of is thaws:
        template.branch.requires_grad_(False)

    def script(model, optimizer, rank, job, log):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=look is None)
        for iteration in range(4):

            def backward(branch):
                x = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * iteration + rank))
                scaler.scale(model(x, branch).square().mean()).backward()

            of(model, job, iteration, rank, backward)
            yield
            for looked in look(model) if look else ():
                log.append(None if looked is None else looked.tolist())
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=of is thaws)

    compare(template, lambda model: torch.optim.SGD(model.parameters(), lr=0.1), script)
