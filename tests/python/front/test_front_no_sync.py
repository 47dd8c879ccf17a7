"""Gradients that are kept within no_sync() and looked at behind it: the means, also where no pass of the window has sent anything."""

import contextlib

import nets
import pytest
import torch
import torch.nn.functional as F
from loops import bits, compare
from paceline import PacelineError
from test_front_looks import by_hand, norm, reads, sgd, unconnected, value
from test_front_servers import on_servers
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:no gradient was finished")


def windows(look, last, scaled=False):
    """Two passes a step, the second of which sends, but in the last step: there `last(rank)` passes are kept within no_sync(), and none follows."""

    def script(model, optimizer, rank, job, log):
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=scaled)

        def backward(step, part):
            x, y = nets.numbers(10 * step + part, rank, (5, 4))
            scaler.scale(F.cross_entropy(model(x), y)).backward()

        for step in range(4):
            for part in range(2 if step % 2 == 0 else last(rank)):
                with job.no_sync() if part == 0 or step % 2 else contextlib.nullcontext():
                    backward(step, part)
            yield
            log.append(bits(look(model)))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        job.synchronize()

    return script


LAST = {"all": lambda rank: 1, "several": lambda rank: 3, "more on one": lambda rank: 1 + rank, "one alone": lambda rank: 1 - rank}


def by_scaler(model):
    """step() of a loss scaler looks itself."""


# By hand where this rank has done nothing: an error, above.
@pytest.mark.parametrize("look, last", [(look, last) for look in (norm, value, by_scaler, by_hand, reads) for last in LAST if last != "one alone" or look not in (by_hand, reads)])
def test_passes_within_no_sync_alone_leave_means_to_whoever_looks_behind_them(look, last):
    compare(nets.mlp(), sgd, windows(look, LAST[last], scaled=look is by_scaler))


def test_of_a_parameter_that_another_rank_alone_used_within_no_sync_the_mean_is_found_too():
    def script(model, optimizer, rank, job, log):
        for step in range(3):
            x, y = nets.numbers(step, rank, (5, 4))
            with job.no_sync():
                F.cross_entropy(model[2](x) + model[rank](x), y).backward()
            yield
            for part in (1, 0, 2):
                by_hand(model[part])
            optimizer.step()
            optimizer.zero_grad()

    torch.manual_seed(5)
    compare(nn.ModuleList(nn.Linear(4, 3) for _ in range(3)), sgd, script)


def test_within_no_sync_a_gradient_is_this_ranks_own():
    def script(model, optimizer, rank, job, log):
        x, y = nets.numbers(0, rank, (5, 4))
        expected = [g * 2 for g in torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))]
        for part in range(3):
            with job.no_sync() if part < 2 else contextlib.nullcontext():
                F.cross_entropy(model(x), y).backward()
                if part == 1:
                    log.append(all(map(torch.equal, (p.grad for p in model.parameters()), expected)))
            if part == 0:
                assert all(p.grad is not None for p in model.parameters())  # no look at its numbers
        yield
        optimizer.step()
        optimizer.zero_grad()

    assert [log for _, _, log in compare(nets.mlp(), sgd, script)] == [[True], [True]]


def test_a_model_cleared_between_passes_within_no_sync_begins_again():
    def script(model, optimizer, rank, job, log):
        for step in range(3):
            with job.no_sync():
                nets.backward(model, 10 + step, rank)
            model.zero_grad(set_to_none=step % 2 == 0)
            nets.backward(model, step, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), sgd, script)


# --- with servers that make the steps nobody may look


def clip_on_servers(passes):
    def script(model, optimizer, rank, job, log):
        for step in range(3):
            for _ in range(passes(step, rank)):
                with job.no_sync() if step == 1 else contextlib.nullcontext():
                    nets.backward(model, step, rank)
            yield
            if step == 1:
                norm(model)
            optimizer.step()
            optimizer.zero_grad()

    return script


@pytest.mark.parametrize("passes", [lambda step, rank: 1, lambda step, rank: 1 if step != 1 or rank == 0 else 0], ids=["all", "one alone"])
def test_with_servers_who_clips_what_is_kept_within_no_sync_is_refused(passes):
    with pytest.raises(PacelineError, match="servers alone know its mean"):
        on_servers(2, nets.mlp(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1), clip_on_servers(passes))


def test_with_servers_a_rank_that_reached_nothing_has_what_the_others_have():
    def script(model, optimizer, rank, job, log):
        for step in range(4):
            if rank == 0 or step % 2 == 0:
                nets.backward(model, step, rank)
            else:
                unconnected(model)
                assert all(p.grad is None for p in model.parameters())
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()

    one, other = on_servers(2, nets.mlp(), lambda model: torch.optim.SGD(model.parameters(), lr=0.1), script)
    assert bits(list(one[0].parameters())) == bits(list(other[0].parameters()))
