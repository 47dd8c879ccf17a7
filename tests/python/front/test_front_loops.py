"""What training loops do with losses, gradients and steps has the bits of a plain loop."""

import copy

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import bits, compare
from torch import nn


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def test_parameters_that_no_optimizer_steps_get_their_mean_all_the_same():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            log.append(bits([p.grad for p in model.parameters()]))
            model.zero_grad()

    compare(nets.mlp(), lambda model: torch.optim.SGD(model[2:].parameters(), lr=0.1), script)


def test_two_models_take_turns():
    """A GAN: each optimizer's step ends an iteration of its own job; the discriminator is reached by the generator's loss too."""
    torch.manual_seed(7)
    templates = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def losses(one, two, iteration, rank):
        generator = torch.Generator().manual_seed(100 * iteration + rank)
        noise, real = torch.randn(3, 2, generator=generator), torch.randn(3, 4, generator=generator)
        return lambda: F.softplus(-two(real)).mean() + F.softplus(two(one(noise).detach())).mean(), lambda: F.softplus(-two(one(noise))).mean()

    def optimizers(one, two):
        return torch.optim.Adam(one.parameters(), lr=0.02), torch.optim.Adam(two.parameters(), lr=0.02)

    def reference():
        one, two = copy.deepcopy(templates)
        first, second = optimizers(one, two)
        for iteration in range(4):
            for model, optimizer, which in ((two, second, 0), (one, first, 1)):
                parts = [torch.autograd.grad(losses(one, two, iteration, rank)[which](), list(model.parameters())) for rank in range(2)]
                for parameter, a, b in zip(model.parameters(), *parts):
                    parameter.grad = (a + b) * 0.5
                optimizer.step()
        return bits([one.state_dict(), two.state_dict()])

    worlds = standin.World(2, 1), standin.World(2, 2)

    def body(rank, join):
        one, two = copy.deepcopy(templates)
        first, second = optimizers(one, two)
        jobs = [pt.attach(m, o, join=w.join_as(rank)) for m, o, w in zip((one, two), (first, second), worlds)]
        for iteration in range(4):
            discriminate, generate = losses(one, two, iteration, rank)
            second.zero_grad()
            discriminate().backward()
            second.step()
            first.zero_grad()
            generate().backward()
            first.step()
        for job in jobs:
            job.close()
        return bits([one.state_dict(), two.state_dict()])

    assert standin.run(2, body) == [reference()] * 2


@pytest.mark.parametrize("looks", (False, True))
def test_gradients_of_a_last_pass_that_nobody_steps_are_their_means_after_close(looks):
    """A loop that is left between backward() and step(), or a GAN whose generator's loss reaches the discriminator once more."""

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            if iteration == 2:
                break
            optimizer.step()
            optimizer.zero_grad()
        if looks:
            log.append(bits(model[0].weight.grad))
        job.close()
        log.append(bits([parameter.grad for parameter in model.parameters()]))

    compare(nets.mlp(), adamw, script)


def test_several_losses_counted_once_they_were_seen():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            for part in range(2):
                x, y = nets.numbers(10 * iteration + part, rank, (5, 4))
                F.cross_entropy(model(x), y).backward()
            yield
            log.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script, expect="counted")
    compare(nets.mlp(), adamw, script, accumulate=2)


def test_losses_of_disjoint_parts_need_nothing():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            h = torch.tanh(model[0](x))
            F.cross_entropy(model[4](torch.tanh(model[2](h.detach()))), y).backward()
            h.square().mean().backward()
            yield
            log.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_gradients_are_kept_where_the_script_keeps_them():
    """Without zero_grad they add up, and one that the script holds on to never changes."""

    def script(model, optimizer, rank, job, log):
        held = []
        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            held.append(model[0].weight.grad)
            optimizer.step()
            if iteration % 2:
                optimizer.zero_grad()
        log.append(bits([grad for grad in held[1::2]]))

    compare(nets.mlp(), adamw, script)


def test_a_gradient_that_the_script_alone_holds_is_its_mean_though_no_step_is_made():
    def script(model, optimizer, rank, job, log):
        held = []
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            held.append(model[0].weight.grad)
            model[0].weight.grad = None
            optimizer.zero_grad()
        log.append(bits(held))

    compare(nets.mlp(), adamw, script)


def test_zeroed_gradients_are_zeros():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model[4](model[2](model[0](x))) if iteration % 2 else model[4](F.pad(x, (0, 2))), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            log.append([bool(p.grad is None or (p.grad == 0).all()) for p in model.parameters()])

    compare(nets.mlp(), adamw, script)


def test_a_gradient_that_the_script_removes_or_replaces_is_what_the_optimizer_sees():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            model[0].weight.grad = None
            model[2].weight.grad = model[2].weight.grad.sign()
            model[4].weight.grad.mul_(0.5)
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_a_step_that_is_skipped_ends_its_iteration():
    def script(model, optimizer, rank, job, log):
        for iteration in range(5):
            nets.backward(model, iteration, rank)
            yield
            if iteration % 2 == 0:
                optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_gradients_by_autograd_grad_count_when_they_are_stored():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))
            for parameter, grad in zip(model.parameters(), torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))):
                parameter.grad = grad
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


def test_a_sparse_gradient_travels_dense_and_says_so_once():
    template = nn.Sequential(nn.Embedding(6, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3))

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            generator = torch.Generator().manual_seed(10 * iteration + rank)
            F.cross_entropy(model(torch.randint(0, 6, (5, 2), generator=generator)), torch.tensor([0, 1, 2, 0, 1])).backward()
            for parameter in model.parameters():
                if type(job).__name__ == "Plain" and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()
            yield
            optimizer.step()
            optimizer.zero_grad()

    with pytest.warns(UserWarning, match="is sparse .* and travels dense"):
        compare(template, lambda m: torch.optim.SGD(m.parameters(), lr=0.1), script)


SPARSE = {
    "onto none": (dict(accumulate=2), ("tail", "all")),
    "onto a dense one": (dict(accumulate=2), ("tied", "all")),
    "below a dense one": (dict(accumulate=2), ("all", "tied")),
    "onto another": (dict(accumulate=2), ("all", "all")),
    "onto none, counted": (dict(expect="counted"), ("tail", "all")),
}


@pytest.mark.filterwarnings("ignore:the gradient of .* is sparse")
@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_gradient_that_accumulates(name):
    """`tail` does not reach the embedding, `tied` uses its weights as they are, `all` looks rows up."""
    choices, passes = SPARSE[name]
    template = nn.Sequential(nn.Embedding(6, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3))

    def loss(model, kind, words):
        if kind == "tail":
            return model[2](torch.ones(5, 8)).square().mean()
        return (F.embedding(words, model[0].weight) if kind == "tied" else model[0](words)).flatten(1).matmul(model[2].weight.T).square().mean()

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            for part, kind in enumerate(passes):
                generator = torch.Generator().manual_seed(100 * iteration + 10 * part + rank)
                loss(model, kind, torch.randint(0, 6, (5, 2), generator=generator)).backward()
            for parameter in model.parameters():
                if type(job).__name__ == "Plain" and parameter.grad is not None and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(template, lambda m: torch.optim.SGD(m.parameters(), lr=0.1), script, **choices)


def test_a_closure_is_run_once_and_its_loss_returned():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 4))

            def closure():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss

            if type(job).__name__ == "Plain":
                loss = closure()
                yield
                optimizer.step()
            else:
                loss = optimizer.step(closure)
                yield
            log.append(loss.item())

    compare(nets.mlp(), adamw, script)
