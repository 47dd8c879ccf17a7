"""What scripts do that an exchange stumbles over: right, or refused in a sentence that says what to do."""

import threading

import nets
import paceline.torch as pt
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare
from paceline import PacelineError
from paceline.torch.attached.waiting import WaitingGrad
from torch import nn


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def test_a_penalty_on_gradients_that_goes_back_through_the_parameters_twice():
    """WGAN-GP: torch.autograd.grad(create_graph=True) within the loss finishes nothing; its backward() finishes each gradient once."""

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, _ = nets.numbers(iteration, rank, (5, 4))
            x.requires_grad_(True)
            score = model(x).mean(1)
            (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
            (score.mean() + (slope.norm(2, 1) - 1).square().mean()).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_graph_that_is_kept_and_gone_back_through_again():
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            loss = F.cross_entropy(model(x), y)
            with job.no_sync():
                loss.backward(retain_graph=True)
            loss.backward(create_graph=iteration % 2 == 1)
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("choice", (dict(accumulate=2), dict(expect="counted")), ids=str)
def test_gradients_that_accumulate_with_a_graph(choice):
    """PyTorch adds them up out of place then. What waits for a mean has no graph, whose tensors it would keep alive."""

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            for part in range(2):
                x, y = nets.numbers(10 * iteration + part, rank, (5, 4))
                F.cross_entropy(model(x), y).backward(create_graph=iteration % 2 == 1)
                grad = model[0].weight.grad
                assert not isinstance(grad, WaitingGrad) or grad.is_leaf and not grad.requires_grad
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script, **choice)


def test_what_is_frozen_after_its_backward_pass_has_its_update_also_on_ranks_that_did_not_use_it():
    """A GAN's discriminator, say, which is read next while it is still frozen."""
    torch.manual_seed(5)
    template = nn.ModuleList(nn.Linear(4, 3) for _ in range(3))

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model[2](x) + (model[rank](x) if iteration % 2 else 0), y).backward()
            yield
            model.requires_grad_(False)
            optimizer.step()
            log.append(bits([model[part](x) for part in range(3)]))
            model.requires_grad_(True)
            optimizer.zero_grad()

    compare(template, adamw, script)


class Counts(nn.Module):
    """A buffer that every forward pass changes, also one of evaluation."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("passes", torch.zeros(1))

    def forward(self, x):
        self.passes += 1
        return self.inner(x) * (1 + self.passes / 100)


def counting(model, optimizer, rank, job, log):
    for iteration in range(4):
        nets.backward(model, iteration, rank)
        yield
        optimizer.step()
        optimizer.zero_grad()
        if rank == 1:  # ranks evaluate as often as they like, and wait for nobody
            with torch.no_grad():
                model(torch.ones(1, 4))
    nets.backward(model, 4, rank)
    yield
    optimizer.step()
    job.synchronize()


def test_buffers_that_evaluation_changes_on_one_rank():
    """Its own; or, where they are rank 0's, only until the next step."""
    result = compare(nets.seeded(Counts), sgd, counting)
    assert [model.passes.item() for model, _, _ in result] == [5, 9]
    result = attached(2, nets.seeded(Counts), sgd, counting, buffers="broadcast")
    assert [model.passes.item() for model, _, _ in result] == [5, 5]


def test_another_thread_that_uses_the_model_while_updates_are_due():
    def script(model, optimizer, rank, job, log):
        def look(x):
            with torch.no_grad():
                log.append(bits(model(x)))

        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            other = threading.Thread(target=look, args=(nets.numbers(9, 0, (5, 4))[0],))
            other.start()
            other.join()

    compare(nets.mlp(), adamw, script)


def test_two_models_that_share_a_parameter_are_not_attached_twice():
    def body(rank, join):
        one, other = nets.mlp(), nets.mlp()
        other[2].weight = one[4].weight = nn.Parameter(torch.zeros(6, 6))
        job = pt.attach(one, sgd(one), join=join)
        with pytest.raises(PacelineError, match="parameter 2.weight belongs to another attached model too, as 4.weight.*Attach one model that holds both") as caught:
            pt.attach(other, sgd(other), join=join)
        assert caught.value.exit_code == 2
        job.close()
        pt.attach(other, sgd(other), join=standin.World(1).join_as(0)).close()

    standin.run(1, body)


@pytest.fixture
def group():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    torch.distributed.destroy_process_group()


def refused(model, sentence):
    with pytest.raises(PacelineError, match=sentence) as caught:
        pt.attach(model, sgd(model), join=lambda *_: pytest.fail("refused before anybody joins"))
    assert caught.value.exit_code == 2


def test_parameters_that_are_parts_of_parameters_are_refused(group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    refused(fully_shard(nets.mlp(), mesh=mesh), "the model is sharded by FSDP; attach needs whole parameters. Remove fully_shard")
    inside = nets.mlp()
    fully_shard(inside[2], mesh=mesh)
    refused(inside, "2 is sharded by FSDP")
    split = nets.mlp()
    split[0].weight = nn.Parameter(distribute_tensor(split[0].weight.detach(), mesh, [Shard(0)]))
    refused(split, "parameter 0.weight is a DTensor, a part of a tensor; attach needs whole parameters")


def parts():
    torch.manual_seed(5)
    return nn.ModuleList(nn.Linear(4, 3) for _ in range(3))


def backward_of_parts(model, iteration, rank):
    """Through the last part on every rank, and through one that this rank alone uses."""
    x, y = nets.numbers(iteration, rank, (5, 4))
    F.cross_entropy(model[2](x) + model[rank](x), y).backward()
    return x


@pytest.mark.parametrize("looks", [False, True])
def test_a_gradient_that_is_taken_away_moves_nothing_also_on_ranks_that_did_not_use_it(looks):
    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x = backward_of_parts(model, iteration, rank)
            yield
            if looks:
                log.append(bits(model[2].weight.grad.norm()))
            if iteration % 2:
                model[0].weight.grad = None
            optimizer.step()
            log.append(bits([model[part](x) for part in range(3)]))
            optimizer.zero_grad()

    compare(parts(), adamw, script)


@pytest.mark.parametrize("choices", [{"clip_norm": 0.1}, {}], ids=["by attach", "by the script"])
def test_a_gradient_that_is_taken_away_is_in_the_norm_of_no_rank(choices):
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            backward_of_parts(model, iteration, rank)
            yield
            model[0].weight.grad = None
            if not choices:
                job.clip_grad_norm_(0.1)
            optimizer.step()
            optimizer.zero_grad()

    one, other = attached(2, parts(), lambda m: torch.optim.SGD(m.parameters(), lr=0.1), script, **choices)
    assert bits(list(one[0].parameters())) == bits(list(other[0].parameters()))


def test_buffers_of_a_last_pass_that_nobody_steps_are_everybodys_after_close():
    template = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))

    def script(model, optimizer, rank, job, log):
        for iteration in range(2):
            x, y = nets.numbers(iteration, rank, (5, 4))
            F.cross_entropy(model(x), y).backward()
            yield
            if iteration == 0:
                optimizer.step()
                optimizer.zero_grad()
        job.close()

    one, other = attached(2, template, adamw, script, buffers="mean")
    assert bits(list(one[0].buffers())) == bits(list(other[0].buffers()))
