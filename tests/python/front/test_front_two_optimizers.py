"""Two optimizers of one model, as Muon for matrices and another for the rest: one is attached, the other steps by the means that it finds in .grad."""

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, plain
from paceline import PacelineError
from test_front_clipping import by_hand
from test_front_looks import left_out, unconnected
from torch import optim

pytestmark = pytest.mark.filterwarnings("ignore:no gradient was finished")
MATRICES = {
    "Muon": lambda matrices: optim.Muon(matrices, lr=0.02),
    "SGD": lambda matrices: optim.SGD(matrices, lr=0.2, momentum=0.9),
}


def rest_of(model):
    return optim.AdamW([p for p in model.parameters() if p.ndim != 2], lr=0.02)


def both_of(model, optimizer, order):
    model.rest = getattr(model, "rest", None) or [rest_of(model)]
    return [optimizer, model.rest[0]][:: 1 if order == "attached first" else -1]


def training(order, clip=None, clear="at the end", look=None, empty=None):
    """`clip`: by which a plain loop clips before both steps."""

    def script(model, optimizer, rank, job, log):
        both = both_of(model, optimizer, order)
        for step in range(5):
            if empty is not None and rank == 1 and step % 2:
                empty(model)
            else:
                x, y = nets.numbers(step, rank, (5, 4))
                F.cross_entropy(model(x), y).backward()
            yield
            if look:
                log.append(look(model))
            if clip and type(job).__name__ == "Plain":
                by_hand(model, clip)
            for one in both:
                one.step()
                if clear == "after each":
                    one.zero_grad()
            if clear == "at the end":
                for one in both:
                    one.zero_grad()
        job.synchronize()
        log.append(bits([list(state.values()) for state in both_of(model, optimizer, "attached first")[1].state.values()]))

    return script


def matrices_of(name):
    return lambda model: MATRICES[name]([p for p in model.parameters() if p.ndim == 2])


def compared(make, script, **choices):
    expected = plain(2, nets.mlp(), make, script)
    for (model, _, log), (wanted, _, told) in zip(attached(2, nets.mlp(), make, script, **choices), expected):
        assert bits(list(model.parameters())) == bits(list(wanted.parameters()))
        assert log == told


@pytest.mark.parametrize("clear", ("at the end", "after each"))
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("order", ("attached first", "attached last"))
def test_both_orders_have_the_bits_of_a_plain_loop(order, name, clear):
    compared(matrices_of(name), training(order, clear=clear))
    compared(matrices_of(name), training(order, clear=clear), apply="at-step")


@pytest.mark.parametrize("clear", ("at the end", "after each"))
@pytest.mark.parametrize("max_norm", (0.05, 100.0))
@pytest.mark.parametrize("order", ("attached first", "attached last"))
def test_what_attach_clips_is_clipped_for_both(order, max_norm, clear):
    compared(matrices_of("Muon"), training(order, clip=max_norm, clear=clear), clip_norm=max_norm)


@pytest.mark.parametrize("order", ("attached first", "attached last"))
def test_by_the_same_norm_where_the_script_has_looked_at_gradients(order):
    def doubles(model):
        model[2].weight.grad.mul_(2)
        model[4].bias.grad = model[4].bias.grad * 3
        return bits([model[2].bias.grad])

    one, other = attached(2, nets.mlp(), matrices_of("SGD"), training(order, look=doubles), clip_norm=0.05)
    assert bits(list(one[0].parameters())) == bits(list(other[0].parameters()))
    (wanted, _, _), _ = attached(2, nets.mlp(), matrices_of("SGD"), training("attached first", look=doubles), clip_norm=0.05)
    assert bits(list(one[0].parameters())) == bits(list(wanted.parameters()))
    (unlike, _, _), _ = attached(2, nets.mlp(), matrices_of("SGD"), training("attached first", look=doubles))
    assert bits(list(one[0].parameters())) != bits(list(unlike.parameters()))


@pytest.mark.parametrize("choices", ({}, {"clip_norm": 0.05}), ids=str)
@pytest.mark.parametrize("order", ("attached first", "attached last"))
def test_a_rank_whose_loss_reached_nothing_steps_both_by_the_means(order, choices):
    compared(matrices_of("Muon"), training(order, clip=choices.get("clip_norm"), empty=unconnected), **choices)


def test_where_nothing_says_that_no_pass_follows_the_other_optimizers_look_at_nothing_is_an_error():
    compared(matrices_of("Muon"), training("attached first", empty=left_out))
    with pytest.raises(PacelineError, match="looked at .grad of [024].bias in iteration 1"):
        attached(2, nets.mlp(), matrices_of("Muon"), training("attached last", empty=left_out))


@pytest.mark.parametrize("order", ("attached first", "attached last"))
def test_gradients_that_are_kept_within_no_sync_alone(order):
    def script(model, optimizer, rank, job, log):
        both = both_of(model, optimizer, order)
        for step in range(4):
            with job.no_sync():
                nets.backward(model, step, rank)
            yield
            if type(job).__name__ == "Plain":
                by_hand(model, 0.05)
            for one in both:
                one.step()
            for one in both:
                one.zero_grad()
        job.synchronize()

    compared(matrices_of("Muon"), script, clip_norm=0.05)


def test_a_nested_optimizer_is_no_other():
    class Outer(optim.Optimizer):
        def __init__(self, parameters):
            self.inner = optim.SGD(parameters, lr=0.1)
            super().__init__(self.inner.param_groups[0]["params"], {})

        def step(self, closure=None):
            self.inner.step()

    def script(model, optimizer, rank, job, log):
        for step in range(3):
            nets.backward(model, step, rank)
            yield
            if type(job).__name__ == "Plain":
                by_hand(model, 0.05)
            optimizer.step()
            optimizer.zero_grad()

    compared(lambda model: Outer(model.parameters()), script, clip_norm=0.05)


def test_a_second_attach_says_that_none_is_needed():
    def body(rank, join):
        model = nets.mlp()
        job = pt.attach(model, matrices_of("SGD")(model), join=join)
        with pytest.raises(PacelineError, match="is attached already.*A second optimizer of the same model needs no attach"):
            pt.attach(model, rest_of(model), join=join)
        job.close()

    standin.run(1, body)
