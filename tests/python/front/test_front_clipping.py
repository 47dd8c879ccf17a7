"""Clipping by the verdict: the bits of clipping by an exact norm, without waiting for means."""

import math

import nets
import paceline.torch as pt
import pytest
import standin
import torch.nn.functional as F
from loops import compare
from torch import nn, optim


def clipped(max_norm, by):
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            norm = by(model, optimizer, job, max_norm)
            optimizer.step()
            optimizer.zero_grad()
            if norm is not None:
                log.append(float(norm))

    return script


def by_hand(model, optimizer, job, max_norm):
    """Exact norm, rounded once, as the core's verdict."""
    squares = [float(value) ** 2 for p in model.parameters() if p.grad is not None for value in p.grad.flatten().double()]
    norm = math.sqrt(math.fsum(squares))
    coefficient = min(1.0, max_norm / (norm + 1e-6))
    if coefficient != 1.0:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(coefficient)
    return norm


def either(attached_way):
    """By hand in the plain loop, as a user does when attached."""
    return lambda model, optimizer, job, max_norm: (by_hand if type(job).__name__ == "Plain" else attached_way)(model, optimizer, job, max_norm)


@pytest.mark.parametrize("max_norm", (0.05, 100.0))
def test_clipping_by_the_verdict(max_norm):
    sgd = lambda model: optim.SGD(model.parameters(), lr=0.5, momentum=0.9)  # noqa: E731
    way = either(lambda model, optimizer, job, max_norm: pt.clip_grad_norm_(model, max_norm))
    compare(nets.mlp(), sgd, clipped(max_norm, way))
    silent = lambda model, optimizer, job, max_norm: None if type(job).__name__ != "Plain" else (by_hand(model, optimizer, job, max_norm), None)[1]  # noqa: E731
    compare(nets.mlp(), sgd, clipped(max_norm, silent), clip_norm=max_norm)


def test_a_gradient_read_after_lazy_clipping_is_clipped():
    def way(model, optimizer, job, max_norm):
        norm = pt.clip_grad_norm_(model, max_norm) if type(job).__name__ != "Plain" else by_hand(model, optimizer, job, max_norm)
        return sum(p.grad.abs().sum().item() for p in list(model.parameters())[1:3]) + float(norm)

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5), clipped(0.05, way))


def test_clipping_after_the_script_changed_gradients_counts_them_as_they_are():
    def way(model, optimizer, job, max_norm):
        model[0].weight.grad.mul_(3.0)
        if type(job).__name__ == "Plain":
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        else:
            pt.clip_grad_norm_(model, max_norm)
        log = [p.grad.norm().item() for p in model.parameters()]
        return round(sum(value * value for value in log), 7)

    def script(model, optimizer, rank, job, log):
        x, y = nets.numbers(0, rank, (5, 4))
        F.cross_entropy(model(x), y).backward()
        yield
        log.append(way(model, optimizer, job, 0.05))

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5), script)


def test_the_norm_waits_for_no_mean():
    """float(norm) needs the verdict only: no layer is waited for before the first one is read."""

    def body(rank, join):
        model = nets.mlp()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        job = pt.attach(model, optimizer, join=join)
        x, y = nets.numbers(0, rank, (5, 4))
        F.cross_entropy(model(x), y).backward()
        norm = job.clip_grad_norm_(0.1)
        optimizer.step()
        assert f"{norm:.3f}" == f"{float(norm):.3f}" and norm > 0.0
        passed = list(job._node.passed)
        job.close()
        return passed

    assert standin.run(2, body) == [[], []]
