"""What job.sampler gives each rank, pass by pass."""

import contextlib

import nets
import paceline.torch as pt
import standin
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

DATA = TensorDataset(torch.arange(23))


def passes_of(between, before=lambda sampler, rank, epoch: None):
    """[[numbers that were seen] of each of three passes] of each of two ranks; `before` each pass, and `between` its batches."""

    def body(rank, join):
        model = nets.mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        with pt.attach(model, optimizer, join=join) as job:
            sampler = job.sampler(DATA, seed=3)
            loader = DataLoader(DATA, 4, sampler=sampler)
            for epoch in range(3):
                before(sampler, rank, epoch)
                seen.append([])
                for iteration, (numbers,) in enumerate(loader):
                    seen[-1] += numbers.tolist()
                    x, y = nets.numbers(iteration, rank, (4, 4))
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if between(iteration):
                        break
        return seen

    return standin.run(2, body)


def expected(rank, epochs, first=None):
    sampler = DistributedSampler(DATA, num_replicas=2, rank=rank, seed=3)
    orders = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        orders.append(list(sampler)[:first])
    return orders


def test_passes_that_are_shorter_than_an_accumulation_window_have_each_an_order_of_their_own():
    def body(rank, join):
        model = nets.mlp()
        seen = []
        with pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), join=join, accumulate=accumulate) as job:
            loader = DataLoader(DATA, 12, sampler=job.sampler(DATA, seed=3))
            for epoch in range(4):
                seen.append([])
                for (numbers,) in loader:
                    seen[-1] += numbers.tolist()
                    x, y = nets.numbers(epoch, rank, (4, 4))
                    with contextlib.nullcontext() if accumulate > 1 or epoch == 3 else job.no_sync():
                        F.cross_entropy(model(x), y).backward()
                if epoch == 3:
                    job._front.stepper.optimizer.step()
        return seen

    for accumulate in (4, 1):
        assert standin.run(2, body) == [expected(rank, range(4)) for rank in range(2)]


def never(iteration):
    return False


def test_each_pass_has_the_order_of_the_next_epoch_of_a_distributed_sampler():
    assert passes_of(never) == [expected(rank, range(3)) for rank in range(2)]
    assert len({tuple(order) for order in expected(0, range(3))}) == 3


def test_a_pass_that_is_left_early_counts():
    assert passes_of(lambda iteration: iteration == 1) == [expected(rank, range(3), 8) for rank in range(2)]


def test_an_epoch_that_the_script_sets_decides():
    every = passes_of(never, lambda sampler, rank, epoch: sampler.set_epoch(5 - epoch))
    once = passes_of(never, lambda sampler, rank, epoch: epoch or sampler.set_epoch(7))
    assert every == [expected(rank, (5, 4, 3)) for rank in range(2)]
    assert once == [expected(rank, (7, 7, 7)) for rank in range(2)]


def test_a_look_at_a_batch_on_one_rank_leaves_the_shares_apart():
    def look(sampler, rank, epoch):
        if rank == 0:
            next(iter(sampler))
            iter(sampler)  # nobody asks it for anything

    assert passes_of(never, look) == [expected(rank, range(3)) for rank in range(2)]
