"""Models of every shape train with the bits of a plain loop."""

import nets
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare, plain
from nets import seeded
from torch import nn


def over(shape, steps=4, loss=F.cross_entropy):
    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            x, y = nets.numbers(iteration, rank, shape)
            x = x.to(next(model.parameters()).dtype)
            loss(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            if iteration == 2:
                model.eval()
                with torch.no_grad():
                    log.append(bits(model(x)))
                model.train()

    return script


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def wrapped(wrap):
    model = nets.mlp()
    for index in (0, 2):
        wrap(model[index])
    return model


MODELS = {
    "MLP": (nets.mlp, (5, 4)),
    "CNN with batch norm": (lambda: seeded(nets.Convolutions), (4, 1, 5, 5)),
    "CNN, channels last": (lambda: seeded(nets.Convolutions).to(memory_format=torch.channels_last), (4, 1, 5, 5)),
    "encoder with a class token": (lambda: seeded(nets.Encoder), (4, 32)),
    "vision transformer": (lambda: seeded(nets.VisionTransformer), (4, 3, 8, 8)),
    "ResNet-18": (lambda: seeded(nets.resnet18), (4, 3, 8, 8)),
    "odd parameters, a module used twice": (lambda: seeded(nets.Odd), (5, 4)),
    "experts that get no sample": (lambda: seeded(nets.Experts), (3, 4)),
    "checkpointed": (lambda: seeded(lambda: nets.Checkpointed(False)), (5, 4)),
    "checkpointed, reentrant": (lambda: seeded(lambda: nets.Checkpointed(True)), (5, 4)),
    "modules with flat references": (lambda: seeded(nets.Keeps), (5, 4)),
    "weight norm": (lambda: wrapped(nn.utils.parametrizations.weight_norm), (5, 4)),
    "spectral norm": (lambda: wrapped(nn.utils.parametrizations.spectral_norm), (5, 4)),
    "bfloat16": (lambda: nets.mlp().to(torch.bfloat16), (5, 4)),
    "float16": (lambda: nets.mlp().to(torch.float16), (5, 4)),
    "60 tiny layers": (lambda: seeded(lambda: nn.Sequential(*[nn.Linear(4, 4) for _ in range(59)], nn.Linear(4, 3))), (5, 4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(name):
    make, shape = MODELS[name]
    compare(make(), adamw, over(shape), workers=2, seed=len(name))


def test_a_parameter_that_is_not_contiguous_keeps_its_layout():
    model = nets.mlp()
    model[0].weight = nn.Parameter(torch.randn(4, 6).t())
    assert not model[0].weight.is_contiguous()
    compare(model, adamw, over((5, 4)))


def test_one_layer_of_a_million_numbers():
    torch.manual_seed(1)
    compare(nn.Sequential(nn.Linear(4, 1000), nn.Linear(1000, 1000), nn.Linear(1000, 3)), lambda m: torch.optim.SGD(m.parameters(), lr=0.1), over((2, 4), steps=2))


def test_frozen_layers_cost_nothing_and_stay():
    template = nets.mlp()
    for parameter in template[:3].parameters():
        parameter.requires_grad_(False)
    make = lambda model: torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)  # noqa: E731
    compare(template, make, over((5, 4)))


def test_layers_that_thaw_while_training():
    template = nets.mlp()
    for parameter in template[:3].parameters():
        parameter.requires_grad_(False)

    def script(model, optimizer, rank, job, log):
        for iteration in range(5):
            if iteration == 2:
                for parameter in model[:3].parameters():
                    parameter.requires_grad_(True)
                optimizer.add_param_group({"params": list(model[:3].parameters()), "lr": 0.01})
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    make = lambda model: torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)  # noqa: E731
    compare(template, make, script, may_thaw=True)


def test_ranks_start_from_rank_0s_parameters_and_buffers():
    template = seeded(nets.Convolutions)
    template.norm.num_batches_tracked += 2**40 + 3
    for model, _, _ in attached(3, template, adamw, lambda *_: iter(())):
        assert bits(model.state_dict()) == bits(template.state_dict())


@pytest.mark.parametrize("reads", (False, True))
def test_the_order_in_which_layers_are_needed_is_learned(reads):
    """Also of a layer that another one reads and never calls, as MultiheadAttention does with out_proj."""

    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.middle, self.first = nn.Linear(4, 3), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = torch.tanh(self.first(x))
            x = nn.functional.linear(x, self.middle.weight, self.middle.bias) if reads else self.middle(x)
            return self.last(torch.tanh(x))

    compare(seeded(Backwards), adamw, over((5, 4)))
    assert [node.order[:3] for node in standin.run.world.nodes.values()] == [[2, 1, 0]] * 2


def test_exact_reference_is_not_trivially_equal():
    """The comparison can fail: ranks that are not averaged differ."""
    reference = plain(2, nets.mlp(), adamw, over((5, 4)))
    alone = plain(1, nets.mlp(), adamw, over((5, 4)))
    assert bits(reference[0][0].state_dict()) != bits(alone[0][0].state_dict())
