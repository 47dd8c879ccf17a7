"""Gradients of a step that servers have made: what the script finds in `.grad`, and how it is cleared."""

import nets
import pytest
import torch
from loops import bits
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
