"""Clipping by the verdict: the bits of clipping by an exact norm, without waiting for means."""

import copy
import math
import pickle

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare
from paceline import PacelineError
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


def by_hand(model, max_norm):
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
    return lambda model, optimizer, job, max_norm: by_hand(model, max_norm) if type(job).__name__ == "Plain" else attached_way(model, optimizer, job, max_norm)


@pytest.mark.parametrize("max_norm", (0.05, 100.0))
def test_clipping_by_the_verdict(max_norm):
    sgd = lambda model: optim.SGD(model.parameters(), lr=0.5, momentum=0.9)  # noqa: E731
    way = either(lambda model, optimizer, job, max_norm: pt.clip_grad_norm_(model, max_norm))
    compare(nets.mlp(), sgd, clipped(max_norm, way))
    silent = lambda model, optimizer, job, max_norm: None if type(job).__name__ != "Plain" else (by_hand(model, max_norm), None)[1]  # noqa: E731
    compare(nets.mlp(), sgd, clipped(max_norm, silent), clip_norm=max_norm)


def test_a_gradient_read_after_lazy_clipping_is_clipped():
    def way(model, optimizer, job, max_norm):
        norm = pt.clip_grad_norm_(model, max_norm) if type(job).__name__ != "Plain" else by_hand(model, max_norm)
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


def by_numbers(model, max_norm):
    """As pt.clip_grad_norm_ does it where it looks at the numbers."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = math.sqrt(sum(float(grad.double().square().sum()) for grad in grads))
    for grad in grads:
        grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
    return norm


TURNS = {  # what is clipped, by how much, and how a plain loop has the same norm: exactly, or rounded at each gradient
    "twice": [(slice(None), 0.05, by_hand), (slice(None), 0.03, by_numbers)],
    "the second time by more": [(slice(None), 0.05, by_hand), (slice(None), 100.0, by_numbers)],
    "a part": [(slice(2, 3), 0.02, by_numbers)],
    "all, and a part": [(slice(None), 0.05, by_hand), (slice(4, 5), 0.01, by_numbers)],
    "parts, and all": [(slice(0, 1), 0.02, by_numbers), (slice(2, 5), 0.03, by_numbers), (slice(None), 0.01, by_numbers)],
}


@pytest.mark.parametrize("name", TURNS)
def test_clipping_again_and_clipping_a_part(name):
    def in_turn(model, optimizer, job, _):
        plain = type(job).__name__ == "Plain"
        return sum(float((by if plain else pt.clip_grad_norm_)(model[part], limit)) for part, limit, by in TURNS[name])

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5, momentum=0.9), clipped(0.0, in_turn))


def test_what_the_script_puts_in_the_place_of_a_clipped_gradient_is_not_clipped():
    def way(model, optimizer, job, max_norm):
        norm = by_hand(model, max_norm) if type(job).__name__ == "Plain" else pt.clip_grad_norm_(model, max_norm)
        model[0].weight.grad = torch.ones_like(model[0].weight)
        model[2].weight.grad = model[2].weight.grad * 2
        return norm

    compare(nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.5), clipped(0.05, way))


def test_every_gradient_read_after_clipping_is_clipped_where_buffers_travel_too():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (4, 1, 5, 5))
            F.cross_entropy(model(x), y).backward()
            yield
            log.append(float(by_numbers(model, 0.05) if type(job).__name__ == "Plain" else pt.clip_grad_norm_(model, 0.05)))
            log.append(bits([p.grad for p in model.parameters()]))
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.seeded(nets.Convolutions), lambda model: optim.SGD(model.parameters(), lr=0.5), script, workers=1, buffers="broadcast")


@pytest.mark.parametrize("max_norm", (0.05, 100.0))
def test_gradients_that_a_fused_optimizer_is_to_unscale_are_clipped_by_their_unscaled_norm(max_norm):
    """A power of two as scale changes no bit."""

    def script(scale):
        def run(model, optimizer, rank, job, log):
            scaler = torch.amp.GradScaler("cpu", init_scale=scale)
            for iteration in range(4):
                x, y = nets.numbers(iteration, rank, (5, 4))
                scaler.scale(F.cross_entropy(model(x), y)).backward()
                yield
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()

        return run

    def result(fused, scale):
        make = lambda model: optim.SGD(model.parameters(), lr=0.5, momentum=0.9, fused=fused)  # noqa: E731
        return list(attached(2, nets.mlp(), make, script(scale), clip_norm=max_norm)[0][0].parameters())

    scaled = result(True, 2.0**16)
    assert bits(scaled) == bits(result(True, 1.0))
    torch.testing.assert_close(scaled, result(False, 2.0**16), rtol=0, atol=1e-6)


def test_a_norm_of_several_jobs_is_refused():
    def body(rank, join):
        one, two = nets.mlp(), nets.mlp()
        jobs = [pt.attach(model, optim.SGD(model.parameters(), lr=0.1), join=world.join_as(0)) for model, world in ((one, standin.World(1)), (two, standin.World(1)))]
        with pytest.raises(PacelineError, match="6 parameters of the ModuleList are not in the job of the others.*torch.nn.utils.clip_grad_norm_"):
            pt.clip_grad_norm_(nn.ModuleList([one, two]), 1.0)
        with pytest.raises(PacelineError, match="takes a model that is attached"):
            pt.clip_grad_norm_(nets.mlp(), 1.0)
        for job in jobs:
            job.close()

    standin.run(1, body)


LOOKS = {
    "comparisons": lambda norm: [norm > 0.1, norm >= 0.1, norm < 0.1, norm <= 0.1, norm == norm.item(), norm != 0, 0.1 < norm, norm > torch.tensor(0.1)],
    "arithmetic": lambda norm: [norm + 1, 1 + norm, norm - 1, 1 - norm, norm * 2, 2 * norm, norm / 3, 3 / norm, norm**2, 2**norm, -norm, abs(norm), norm // 2, norm % 2],
    "numbers": lambda norm: [float(norm), int(norm), bool(norm), norm.item(), norm.tolist(), math.isfinite(norm), math.sqrt(norm), max(norm, 0.5), sum([norm, norm])],
    "functions": lambda norm: [torch.isfinite(norm), norm.isnan(), norm.isfinite(), torch.stack([norm, norm]), norm.clamp(max=0.1), norm.detach().cpu(), norm.to(torch.float32)],
    "texts": lambda norm: [f"{norm:.3f}", f"{norm}", str(norm), repr(norm), "%.3f" % norm],
    "copies": lambda norm: [copy.deepcopy(norm), pickle.loads(pickle.dumps(norm)), norm.clone(), norm.numpy().tobytes()],
    "what it is": lambda norm: [norm.shape, norm.dtype, norm.device, norm.ndim, norm.numel(), norm.requires_grad, isinstance(norm, torch.Tensor)],
    "in place": lambda norm: [norm.mul_(2), norm + 0],
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_norm_is_a_tensor_to_whoever_looks_at_it(name):
    def script(model, optimizer, rank, job, log):
        nets.backward(model, 0, rank)
        norm = pt.clip_grad_norm_(model, 0.1)
        number = torch.tensor(norm._clip.norm(), dtype=torch.float64)
        assert bits(LOOKS[name](norm)) == bits(LOOKS[name](number))
        yield

    attached(1, nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), script)


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
