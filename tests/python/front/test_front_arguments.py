"""What a script gives its optimizer's step beside a closure: it reaches the step, or is refused by name."""

import nets
import pytest
import torch
from loops import attached, compare
from paceline import PacelineError
from torch import optim


class Dampens(optim.SGD):
    """Takes more than a closure."""

    @torch.no_grad()
    def step(self, closure=None, share=1.0, *, twice=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] * share * (2 if twice else 1))


def dampened(*args, **kwargs):
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step(*args, **kwargs)
            optimizer.zero_grad()

    return script


def dampens(model):
    return Dampens(model.parameters(), lr=0.1)


ARGUMENTS = {
    "by place": ("share", (None, 0.5), {}),
    "by name": ("twice", (), {"twice": True}),
    "beside a closure": ("share", (lambda: 1.0, 0.5), {}),
    "beside a closure by name": ("share", (), {"closure": lambda: 1.0, "share": 0.5}),
}


@pytest.mark.parametrize("how", ARGUMENTS)
def test_arguments_of_a_step_reach_it_where_it_is_made_at_once_and_are_refused_by_name_elsewhere(how):
    name, args, kwargs = ARGUMENTS[how]
    compare(nets.mlp(), dampens, dampened(*args, **kwargs), apply="at-step")
    with pytest.raises(PacelineError, match=f"Dampens.step was given {name}, and layers are stepped later, without it; attach.*apply='at-step'"):
        attached(1, nets.mlp(), dampens, dampened(*args, **kwargs))


def test_arguments_of_a_step_are_refused_before_its_closure_runs():
    def closure():
        raise AssertionError("it ran")

    with pytest.raises(PacelineError, match="was given share"):
        attached(1, nets.mlp(), dampens, dampened(closure, 0.5))


@pytest.mark.parametrize("apply", ("at-gates", "at-step"))
def test_arguments_that_a_step_does_not_have_are_refused_as_it_refuses_them(apply):
    with pytest.raises(TypeError, match="unexpected keyword argument 'share'"):
        attached(1, nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), dampened(lambda: 1.0, share=0.5), apply=apply)


@pytest.mark.parametrize("update", ("worker", "server"))
@pytest.mark.parametrize("name, value, said", (("mini-batch", 32, "the data loader makes mini-batches"), ("epochs", 3, "the script's loop says how long"), ("seed", 1, "torch.manual_seed"), ("speed", 2, "slows down")))
def test_settings_that_nothing_in_a_script_obeys_are_refused(update, name, value, said):
    with pytest.raises(PacelineError, match=rf"settings\['{name}'\] would change nothing: .*{said}"):
        attached(1, nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), dampened(), settings={name: value}, update=update)
