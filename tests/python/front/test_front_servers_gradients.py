"""Gradients of a step that servers have made: what the script finds in `.grad`, and how it is cleared."""

import nets
import pytest
import torch
from loops import bits
from paceline import PacelineError
from server_rows import plain_on_servers
from test_front_servers import on_servers, sgd


def evaluates(model, optimizer):
    with torch.no_grad():
        model(torch.ones(1, 4))


LOOKS = {
    "nothing": lambda model, optimizer: None,
    "one layer": lambda model, optimizer: model[2](torch.ones(1, 6)),
    "an evaluation": evaluates,
    "state_dict()": lambda model, optimizer: model.state_dict(),
    "optimizer.state_dict()": lambda model, optimizer: optimizer.state_dict(),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("workers", (1, 2))
def test_gradients_are_set_to_zero_after_a_step_whatever_was_looked_at(look, workers):
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            LOOKS[look](model, optimizer)
            optimizer.zero_grad(set_to_none=False)
            log.append([p.grad.count_nonzero().item() for p in model.parameters()])

    template = nets.mlp()
    expected = plain_on_servers(workers, template, sgd, script)
    for rank, (model, _, log) in enumerate(on_servers(workers, template, sgd, script)):
        assert log == expected[rank][2] == [[0] * 6] * 3
        assert bits(list(model.parameters())) == bits(list(expected[rank][0].parameters()))


def steps_twice(model, optimizer):
    nets.backward(model, 0, 0)
    optimizer.step()
    optimizer.step()


def steps_twice_behind_a_look(model, optimizer):
    nets.backward(model, 0, 0)
    optimizer.step()
    model.state_dict()
    optimizer.step()


def clears_a_part(model, optimizer):
    nets.backward(model, 0, 0)
    optimizer.step()
    model[4].zero_grad()
    model[4](torch.ones(1, 6)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("script", (steps_twice, steps_twice_behind_a_look, clears_a_part))
def test_a_gradient_that_was_used_is_not_used_again_in_silence(script):
    def run(model, optimizer, rank, job, log):
        yield
        script(model, optimizer)

    with pytest.raises(PacelineError, match="the gradient of 0.weight is the one that the last step has used, and servers apply a gradient once"):
        on_servers(1, nets.mlp(), sgd, run)


def test_a_step_without_any_gradient_is_one():
    def script(model, optimizer, rank, job, log):
        optimizer.step()
        nets.backward(model, 0, rank)
        optimizer.step()
        optimizer.zero_grad()
        optimizer.step()
        yield

    before, (model, _, _) = nets.mlp(), on_servers(1, nets.mlp(), sgd, script)[0]
    assert bits(list(before.parameters())) != bits(list(model.parameters()))
