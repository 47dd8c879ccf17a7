"""Ranks never part in silence: what one of them does differently ends the job on all, with a sentence that names it."""

import copy
import warnings

import nets
import paceline.torch as pt
import pytest
import standin
import torch
from loops import attached
from paceline import PacelineError
from processes import Members
from torch import optim

RANKS = 3
TRAIN = """
import os, sys, torch, nets, paceline, paceline.torch as pt
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
model = nets.mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

class Full(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, grad): raise RuntimeError("out of memory (made up)")

def backward(iteration, full=False):
    x, y = nets.numbers(iteration, rank, (5, 4))
    hidden = model[1](model[0](x))
    torch.nn.functional.cross_entropy(model[4](model[3](model[2](Full.apply(hidden) if full else hidden))), y).backward()

try:
    job = pt.attach(model, optimizer, settings=SETTINGS)
    for iteration in range(8):
        odd = rank == 1 and iteration == 3
        optimizer.zero_grad()
        BODY
    job.close()
except paceline.PacelineError as error:
    with open(f"{sys.argv[1]}/{rank}", "w") as file:
        file.write(f"{error.code}: {error.message}")
    sys.exit(7)
"""
BODIES = {
    "goes on after its loss was no number": "backward(iteration)\nif odd: continue\noptimizer.step()",
    "catches that backward ran out of memory": "try: backward(iteration, odd)\nexcept RuntimeError as error:\n    if 'out of memory' not in str(error): raise\n    continue\noptimizer.step()",
    "makes a backward pass more for a picture": "backward(iteration)\noptimizer.step()\nif rank == 0 and iteration == 3:\n    optimizer.zero_grad()\n    backward(100)",
    "throws gradients away before its step": "backward(iteration)\nif odd: optimizer.zero_grad()\noptimizer.step()",
    "goes on after its last mini-batch": "backward(iteration)\nif rank == 1 and iteration == 7: continue\noptimizer.step()",
}
NAMED = {
    "makes a backward pass more for a picture": "rank 0 left out the step of iteration 5, and rank",
    "goes on after its last mini-batch": "rank 1 left out the step of iteration 8, and rank",
}
WAYS = {"servers": {}, "collectives": {"collective": "loop3-overlap"}}


def script(body, settings):
    return TRAIN.replace("BODY", BODIES[body].replace("\n", "\n        ")).replace("SETTINGS", repr(settings))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
def test_a_rank_that_alone_leaves_a_step_out_ends_all_with_its_name_and_the_iteration(tmp_path, body, way):
    with Members(tmp_path, script(body, WAYS[way]), RANKS) as members:
        codes = members.end()
        said = [members.said(rank) for rank in range(RANKS)]
        assert codes == [7] * RANKS, (codes, said, members.errors)
        named = "parted: " + NAMED.get(body, "rank 1 left out the step of iteration 4, and rank")
        assert all(sentence.startswith(named) for sentence in said), said


def test_steps_that_all_ranks_leave_out_are_nobodys_affair():
    def leaves_out(model, optimizer, rank, job, log):
        for iteration in range(12):
            nets.backward(model, iteration, rank)
            yield
            if iteration % 3 != 1:
                optimizer.step()
            optimizer.zero_grad()

    attached(RANKS, nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), leaves_out)


@pytest.mark.parametrize("odd", range(RANKS))
def test_whoever_leaves_it_out_is_named(odd):
    def leaves_out(model, optimizer, rank, job, log):
        for iteration in range(6):
            nets.backward(model, iteration, rank)
            yield
            if iteration != 4 or rank != odd:
                optimizer.step()
            optimizer.zero_grad()

    with pytest.raises(PacelineError, match=f"rank {odd} left out the step of iteration 4"):
        attached(RANKS, nets.mlp(), lambda model: optim.SGD(model.parameters(), lr=0.1), leaves_out)


def sgd(model):
    return optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def trains(at=lambda iteration, rank, model, optimizer: None, steps=5, last=lambda rank, model, optimizer: None):
    """A loop that does something besides after each step, and something at its end."""

    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            at(iteration, rank, model, optimizer)
            log.append(iteration)
        last(rank, model, optimizer)

    return script


def grow(parameter, by_data=False):
    with torch.no_grad():
        (parameter.data if by_data else parameter).mul_(2)


def best(model):
    model.load_state_dict({name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()})


ALONE = {
    "another rate": (lambda iteration, rank, model, optimizer: rank == 1 and iteration == 2 and optimizer.param_groups[0].update(lr=0.05), r"lr of the optimizer's group 0 is 0.\d+ on rank \d and 0.\d+ on rank \d"),
    "another momentum": (lambda iteration, rank, model, optimizer: rank == 1 and iteration == 1 and optimizer.param_groups[0].update(momentum=0.5), "momentum of the optimizer's group 0 is"),
    "a parameter": (lambda iteration, rank, model, optimizer: rank == 1 and iteration == 1 and grow(model[2].weight), "parameter 2.weight is"),
    "by data": (lambda iteration, rank, model, optimizer: rank == 1 and iteration == 1 and grow(model[4].bias, by_data=True), "parameter 4.bias is"),
    "a state dict": (lambda iteration, rank, model, optimizer: rank == 0 and iteration == 3 and best(model), "parameter 0.weight is"),
}


@pytest.mark.parametrize("apply", ("at-gates", "at-step"))
@pytest.mark.parametrize("how", ALONE)
def test_what_one_rank_alone_changes_is_named_at_the_end(how, apply):
    at, named = ALONE[how]
    with pytest.raises(PacelineError, match=f"ranks . and . train apart: after iteration 4 {named}"):
        attached(RANKS, nets.mlp(), sgd, trains(at), apply=apply)


@pytest.mark.parametrize("apply", ("at-gates", "at-step"))
def test_it_is_looked_at_after_the_first_step_and_every_hundredth_from_there(apply):
    seen = []

    def at(iteration, rank, model, optimizer):
        seen.append(iteration)
        if rank == 1 and iteration == 20:
            optimizer.param_groups[0].update(lr=0.05)

    with pytest.raises(PacelineError, match="after iteration 100 lr of the optimizer's group 0"):
        attached(2, nets.mlp(), sgd, trains(at, steps=1000), apply=apply)
    assert max(seen) <= 102

    def loaded(model, optimizer, rank, job, log):
        if rank == 0:
            best(model)
        yield from trains(steps=100)(model, optimizer, rank, job, log)

    with pytest.raises(PacelineError, match="after iteration 0 parameter 0.weight"):
        attached(2, nets.mlp(), sgd, loaded, apply=apply)


def test_with_compare_false_ranks_may_differ():
    for at, _ in ALONE.values():
        attached(2, nets.mlp(), sgd, trains(at), compare=False)


OWN_AFFAIR = {
    "another loss": trains(lambda iteration, rank, model, optimizer: rank == 1 and nets.backward(copy.deepcopy(model), iteration, rank)),
    "a state dict": trains(lambda iteration, rank, model, optimizer: rank == 0 and (model.state_dict(), optimizer.state_dict())),
    "weights of its own, put back": trains(lambda iteration, rank, model, optimizer: rank == 0 and swapped_and_back(model)),
    "the best weights at the end": trains(last=lambda rank, model, optimizer: rank == 0 and best(model)),
    "the same by data": trains(last=lambda rank, model, optimizer: rank == 0 and grow(model[0].weight, by_data=True)),
    "a rate that no step is made with": trains(last=lambda rank, model, optimizer: optimizer.param_groups[0].update(lr=rank)),
    "layers read in its own order": trains(lambda iteration, rank, model, optimizer: clamp(model, [0, 2, 4] if rank else [4])),
}


def swapped_and_back(model):
    kept = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.data.zero_()
    for parameter, value in zip(model.parameters(), kept):
        parameter.data.copy_(value)


def clamp(model, order):
    for index in order:
        if index == 4:
            with torch.no_grad():
                model[4].weight.clamp_(-0.1, 0.1)
        else:
            float(model[index].weight.sum())


@pytest.mark.parametrize("apply", ("at-gates", "at-step"))
@pytest.mark.parametrize("script", OWN_AFFAIR.values(), ids=OWN_AFFAIR)
def test_what_a_rank_does_for_itself_is_no_difference(script, apply):
    for seed in range(5):
        attached(RANKS, nets.mlp(), sgd, script, seed, apply=apply)


def test_what_follows_a_step_as_its_hook_is_part_of_it():
    def make(model):
        optimizer = sgd(model)
        optimizer.register_step_post_hook(lambda *_: clamp(model, [4]))
        return optimizer

    attached(RANKS, nets.mlp(), make, trains())


def test_a_frozen_parameter_is_looked_at_when_the_step_is_asked_for():
    template = nets.mlp()
    template[0].weight.requires_grad_(False)

    def make(model):
        return optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.1)

    attached(2, template, make, trains())
    with pytest.raises(PacelineError, match="after iteration 0 parameter 0.weight"):
        attached(2, template, make, changed_first(lambda model: grow(model[0].weight)))


def changed_first(change):
    def script(model, optimizer, rank, job, log):
        if rank == 1:
            change(model)
        yield from trains()(model, optimizer, rank, job, log)

    return script


def beginning(make, **choices):
    """attach() of optimizers that each rank makes for itself."""

    def body(rank, join):
        model = nets.mlp()
        pt.attach(model, make(model, rank), join=join, **choices)

    standin.run(2, body)


def stepped(model, steps):
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    for iteration in range(steps):
        nets.backward(model, iteration, 0)
        optimizer.step()
    return optimizer


DIFFERENT = {
    "rate": (lambda model, rank: optim.SGD(model.parameters(), lr=0.1 / (1 + rank)), "lr of the optimizer's group 0: rank 1 has 0.05, rank 0 has 0.1"),
    "rate as a tensor": (lambda model, rank: optim.AdamW(model.parameters(), lr=torch.tensor(0.5 / (1 + rank))), "lr of the optimizer's group 0: rank 1 has 0.25, rank 0 has 0.5"),
    "betas": (lambda model, rank: optim.Adam(model.parameters(), lr=0.1, betas=(0.5 + rank / 4, 0.75)), r"betas of the optimizer's group 0: rank 1 has \(0.75, 0.75\), rank 0 has \(0.5, 0.75\)"),
    "groups": (lambda model, rank: optim.SGD([{"params": model[rank:].parameters()}, {"params": model[:rank].parameters()}], lr=0.1), "the parameters of the optimizer's group 0: rank 1 has 4"),
    "number of groups": (lambda model, rank: optim.SGD([{"params": [p]} for p in list(model.parameters())[rank:]], lr=0.1), "the parameters of the optimizer's group 0: rank 1 has 1"),
    "state": (lambda model, rank: stepped(model, 3 - rank), "the optimizer's state of 0.weight: rank 1 has step 2.0"),
    "state of one": (lambda model, rank: stepped(model, 3 if rank == 0 else 0), "the optimizer's state of 0.weight: rank 1 has none; load its state dict on every rank"),
}


@pytest.mark.parametrize("make, named", DIFFERENT.values(), ids=DIFFERENT)
def test_optimizers_that_differ_are_refused_at_attach_with_both_values(make, named):
    with pytest.raises(PacelineError, match=f"ranks 0 and 1 disagree on {named}"):
        beginning(make)


def test_where_servers_make_the_steps_rates_are_compared_and_the_state_is_rank_0s():
    with pytest.raises(PacelineError, match="disagree on lr of the optimizer's group 0: rank 1 has 0.05, rank 0 has 0.1"):
        beginning(DIFFERENT["rate"][0], update="server")
    beginning(DIFFERENT["rate"][0], update="server", sync="asp")


def test_settings_that_are_too_long_to_be_shown_are_compared_all_the_same():
    def make(model, rank):
        return optim.SGD([{"params": [p], "name": "x" * 4000, "note": rank * number} for number, p in enumerate(model.parameters())], lr=0.1)

    with pytest.raises(PacelineError, match="one of many settings of the optimizer"):
        beginning(make)


def hinted(**choices):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attached(2, nets.everything(), sgd, lambda *_: iter(()), **choices)
    return [str(warning.message) for warning in caught if "running statistic" in str(warning.message)]


def test_one_rank_hints_at_broadcast_where_running_statistics_would_stay_each_ranks_own():
    (said,) = hinted()
    assert said.startswith("buffer norm.running_mean is a running statistic") and "buffers='broadcast'" in said
    assert not hinted(buffers="local") and not hinted(buffers="broadcast")
