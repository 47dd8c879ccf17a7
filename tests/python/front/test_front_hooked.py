"""Hooks of the script's that use a gradient within backward(), as an optimizer does that steps there: refused, since ranks would train apart."""

import contextlib

import nets
import pytest
import torch
from loops import attached, compare
from paceline import PacelineError


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def steps_and_clears(parameter):
    torch.optim.SGD([parameter], lr=0.1).step()
    parameter.grad = None


def steps_and_zeroes(parameter):
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def steps(parameter):
    torch.optim.SGD([parameter], lr=0.1).step()


def steps_by_data(parameter):
    parameter.data -= 0.1 * parameter.grad


def clears(parameter):
    parameter.grad = None


def training(hook, late=False, kept=False):
    def script(model, optimizer, rank, job, log):
        if late:
            model[2].weight.register_post_accumulate_grad_hook(hook)
        for iteration in range(2):
            with job.no_sync() if kept else contextlib.nullcontext():
                nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    return script


def with_hook(hook):
    return lambda model: model[2].weight.register_post_accumulate_grad_hook(hook)


GONE = "the gradient of 2.weight was gone when backward.. had finished it: a hook of this parameter .register_post_accumulate_grad_hook. has used it"
WRITTEN = "parameter 2.weight was written to while backward.. finished its gradient: a hook"


@pytest.mark.parametrize("kept", (False, True), ids=("sent", "within no_sync"))
@pytest.mark.parametrize("hook, sentence", [(clears, GONE), (steps_and_clears, WRITTEN), (steps_and_zeroes, WRITTEN), (steps, WRITTEN), (steps_by_data, WRITTEN)])
def test_a_hook_that_was_there_before_attach_and_uses_the_gradient_is_an_error(hook, sentence, kept):
    with pytest.raises(PacelineError, match=sentence):
        attached(2, nets.mlp(), sgd, training(hook, kept=kept), prepare=with_hook(hook))


@pytest.mark.parametrize("hook", (steps_and_clears, steps))
def test_one_that_came_later_is_an_error_too(hook):
    with pytest.raises(PacelineError, match="the gradient of 2.weight was touched in backward.. after it had been sent"):
        attached(2, nets.mlp(), sgd, training(hook, late=True))


def test_a_hook_that_changes_the_gradient_is_none():
    def doubles(parameter):
        parameter.grad.mul_(2)

    def script(model, optimizer, rank, job, log):
        if type(job).__name__ == "Plain":
            with_hook(doubles)(model)
        yield from training(doubles)(model, optimizer, rank, job, log)

    compare(nets.mlp(), sgd, script, prepare=with_hook(doubles))
