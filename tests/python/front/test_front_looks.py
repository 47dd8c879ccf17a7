"""A script that looks at gradients on a rank whose backward passes have finished none: it meets the means, or is told."""

import nets
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare, plain
from paceline import PacelineError
from paceline.torch import attach
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:no gradient was finished")


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)


def unconnected(model):
    torch.zeros(1, requires_grad=True).sum().backward()


def unconnected_by_autograd(model):
    torch.autograd.backward(torch.zeros(1, requires_grad=True).sum())


def left_out(model):
    """`if loss.requires_grad: loss.backward()`"""


def norm(model):
    return nn.utils.clip_grad_norm_(model.parameters(), 0.05)


def value(model):
    return nn.utils.clip_grad_value_(model.parameters(), 0.01)


def by_hand(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.5)


def held_list(model):
    return nn.utils.clip_grad_norm_(model.held, 0.05)


def reads(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def training(look, nothing, zero, scaled=False, steps=5, empty=lambda step, rank: rank == 1 and step % 3 == 1):
    """On rank 1 some iterations have nothing to learn from."""

    def script(model, optimizer, rank, job, log):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=scaled)
        model.held = list(model.parameters())
        for step in range(steps):
            zero(model, optimizer)
            if empty(step, rank):
                nothing(model)
            else:
                x, y = nets.numbers(step, rank, (5, 4))
                scaler.scale(F.cross_entropy(model(x), y)).backward()
            yield
            log.append(bits(look(model)))
            scaler.step(optimizer)
            scaler.update()
        job.synchronize()

    return script


def by_optimizer(model, optimizer):
    optimizer.zero_grad()


def in_place(model, optimizer):
    optimizer.zero_grad(set_to_none=False)


def by_model(model, optimizer):
    model.zero_grad()


def partly_used():
    """Its last parameter is used by nobody."""
    model = nets.mlp()
    model.never = nn.Linear(2, 2)
    return Uses(model)


class Uses(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        for layer in list(self.inner)[:5]:
            x = layer(x)
        return x


@pytest.mark.parametrize("nothing", (unconnected, unconnected_by_autograd, left_out))
@pytest.mark.parametrize("look", (norm, value, held_list))
def test_who_clips_meets_the_means_where_no_backward_pass_reached_a_parameter(look, nothing):
    for zero in (by_optimizer, by_model):
        compare(partly_used(), sgd, training(look, nothing, zero))


def test_a_loss_scaler_meets_them_too():
    for nothing in (unconnected, unconnected_by_autograd):
        compare(nets.mlp(), sgd, training(lambda model: None, nothing, by_optimizer, scaled=True))


def test_in_the_first_iteration_too_before_any_forward_pass():
    compare(nets.mlp(), sgd, training(norm, left_out, by_optimizer, empty=lambda step, rank: rank == 1 and step == 0))


def test_a_script_that_reads_and_scales_by_hand_after_a_backward_pass_that_reached_nothing_meets_them():
    for look in (by_hand, reads):
        compare(partly_used(), sgd, training(look, unconnected, by_optimizer))


def test_clipping_after_gradients_are_zeroed_in_place():
    """In a plain loop a rank that adds nothing has no gradient or zeros: the mean is the same."""
    compare(nets.mlp(), sgd, training(norm, left_out, in_place))


SILENT = [(look, nothing, zero) for look in (by_hand, reads) for nothing in (unconnected_by_autograd, left_out) for zero in (by_optimizer, in_place, by_model)]


@pytest.mark.parametrize("look, nothing, zero", SILENT, ids=lambda part: part.__name__)
def test_a_look_that_found_nothing_and_may_have_decided_something_is_an_error_at_step(look, nothing, zero):
    with pytest.raises(PacelineError, match=r"looked at .grad of 0.weight in iteration 1, where no backward pass of this rank had reached it.*0.0 \* sum"):
        attached(2, nets.mlp(), sgd, training(look, nothing, zero))


def test_a_look_before_the_backward_pass_is_none():
    def script(model, optimizer, rank, job, log):
        for step in range(4):
            assert all(p.grad is None for p in model.parameters())
            if rank == 1 and step == 2:
                optimizer.zero_grad()  # what was seen before is no look at what comes
            else:
                nets.backward(model, step, rank)
            yield
            optimizer.step()
            model.zero_grad()

    compare(nets.mlp(), sgd, script)


def test_gradients_that_a_script_adds_up_by_hand_are_its_own():
    def script(model, optimizer, rank, job, log):
        for step in range(4):
            for part in range(2):
                x, y = nets.numbers(step, rank, (5, 4))
                for p, g in zip(model.parameters(), torch.autograd.grad(F.cross_entropy(model(x), y) * (1 + part), list(model.parameters()))):
                    if part == 0:
                        p.grad = g
                    elif step % 2:
                        p.grad = p.grad + g
                    else:
                        p.grad.add_(g)
            yield
            optimizer.step()
            optimizer.zero_grad(set_to_none=step != 1)

    compare(nets.mlp(), sgd, script)


def test_gradients_that_a_script_has_set_by_hand_are_clipped_as_means():
    def script(model, optimizer, rank, job, log):
        for step in range(3):
            x, y = nets.numbers(step, rank, (5, 4))
            for p, g in zip(model.parameters(), torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))):
                p.grad = g
            yield
            log.append(norm(model).item())
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), sgd, script)


def test_a_rank_without_samples_counts_for_nothing():
    def weighted(gradients, jobs):
        given = [(g, job.count) for g, job in zip(gradients, jobs) if g is not None]
        return sum((g * job_count for g, job_count in given[1:]), given[0][0] * given[0][1]) * (1.0 / 2) * (1.0 / (sum(c for _, c in given) * 0.5)) if given else None

    def script(model, optimizer, rank, job, log):
        for step in range(5):
            count = 0 if rank == 1 and step % 2 else 4
            job.samples(count)
            if count:
                x, y = nets.numbers(step, rank, (count, 4))
                F.cross_entropy(model(x), y).backward()
            yield
            log.append(norm(model).item())
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()

    compare(nets.mlp(), sgd, script, weigh=weighted, average="samples")


def test_a_default_device_hides_no_look():
    """Each thread has its own."""

    def script(model, optimizer, rank, job, log):
        torch.set_default_device("cpu")
        try:
            yield from training(norm, left_out, by_optimizer)(model, optimizer, rank, job, log)
        finally:
            torch.set_default_device(None)

    expected = [log for _, _, log in plain(2, nets.mlp(), sgd, training(norm, left_out, by_optimizer))]
    assert [log for _, _, log in attached(2, nets.mlp(), sgd, script)] == expected


def test_another_models_backward_pass_is_no_pass_of_this_one():
    """As of a GAN, whose generator's gradients are looked at while the other part learns: nothing, and its own pass comes later."""
    def body(rank, join):
        one, other = nets.mlp(), nets.mlp()
        makers = [sgd(one), sgd(other)]
        jobs = [attach(one, makers[0], join=join), attach(other, makers[1], join=standin.World(1).join_as(0))]
        for step in range(3):
            nets.backward(other, step, rank)
            assert all(p.grad is None for p in one.parameters())
            makers[1].step()
            makers[1].zero_grad()
            nets.backward(one, step, rank)
            makers[0].step()
            makers[0].zero_grad()
        assert [job.iteration for job in jobs] == [3, 3]
        for job in jobs:
            job.close()

    standin.run(2, body)

