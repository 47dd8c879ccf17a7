"""What travels beside gradients: buffers, numbers of samples."""

import contextlib
import copy

import nets
import pytest
import standin
import torch
import torch.nn.functional as F
from loops import attached, bits, compare, same_mean, state_of
from nets import seeded
from paceline import PacelineError
from torch import nn


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02)


@pytest.mark.parametrize("way", ("broadcast", "mean"))
@pytest.mark.parametrize("begins", ("at the model", "inside of it"))
def test_buffers_are_rank_0s_or_means(begins, way):
    """Before every forward pass, with 3 ranks, where a third of a number is not exact."""
    workers, template = 3, seeded(nets.Convolutions)

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (4, 1, 5, 5))
            F.cross_entropy(model(x) if begins == "at the model" else model.forward(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()
        yield

    result = attached(workers, template, adamw, script, buffers=way)

    models = [copy.deepcopy(template) for _ in range(workers)]
    optimizers = [adamw(model) for model in models]
    for iteration in range(4):
        for rank, model in enumerate(models):
            x, y = nets.numbers(iteration, rank, (4, 1, 5, 5))
            F.cross_entropy(model(x), y).backward()
        for parameters in zip(*(model.parameters() for model in models)):
            mean = same_mean([p.grad for p in parameters])
            for parameter in parameters:
                parameter.grad = mean.clone()
        for model, optimizer in zip(models, optimizers):
            optimizer.step()
            optimizer.zero_grad()
        for held in zip(*(model.buffers() for model in models)):
            if way == "broadcast":
                values = held[0].clone()
            elif held[0].dtype == torch.float32:
                values = same_mean(list(held))
            else:
                continue
            for buffer in held:
                buffer.copy_(values)
    for rank in range(workers):
        assert state_of(*result[rank][:2]) == state_of(models[rank], optimizers[rank]), rank


class Cools(nn.Module):
    """Buffers that a forward pass only reads, and one that each rank's numbers change."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("offset", torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return self.norm(self.inner(x)) / self.temperature + self.offset


def written_after_a_step(model, best, iteration):
    model.temperature.mul_(0.9)
    model.offset.data.add_(0.25)  # no version tells of it
    model.steps = model.steps + 1
    if iteration == 1:
        model.norm.reset_running_stats()
    if iteration in (2, 3):
        model.load_state_dict({name: value.clone() for name, value in best.items()}, strict=False, assign=iteration == 3)


@pytest.mark.parametrize("way", ("broadcast", "mean"))
def test_what_the_script_writes_to_a_buffer_after_step_stays(way):
    """As in one process: none of what it writes depends on the rank. Halves of two are exact."""
    best = {"norm.running_mean": torch.full((3,), 7.0), "offset": torch.full((3,), -1.0)}

    def script(model, optimizer, rank, job, log):
        for iteration in range(5):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            written_after_a_step(model, best, iteration)
            optimizer.zero_grad()
            log.append([model.temperature.item(), model.offset.tolist(), model.steps.item()])
            with torch.no_grad():
                model.eval()(torch.ones(1, 4))
                model.train()
            log.append([model.temperature.item(), model.offset.tolist(), model.steps.item()])
            if iteration in (1, 2, 3):
                log.append(model.norm.running_mean.tolist())

    def expected():
        temperature, offset, steps, log = torch.ones(()), 0.0, 0, []
        for iteration in range(5):
            temperature.mul_(0.9)
            offset, steps = -1.0 if iteration in (2, 3) else offset + 0.25, steps + 1
            log += 2 * [[temperature.item(), 3 * [offset], steps]]
            log += {1: [3 * [0.0]], 2: [3 * [7.0]], 3: [3 * [7.0]]}.get(iteration, [])
        return log

    for _, _, log in attached(2, Cools(), adamw, script, buffers=way):
        assert log == expected()


@pytest.mark.parametrize("way", ("broadcast", "mean"))
def test_what_the_script_writes_after_every_step_has_everybodys_values_below_it(way):
    """From the second step on: at the first nobody knows of it."""

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            model.norm.running_mean.mul_(0.5)
            log.append(bits(model.norm.running_mean))
            optimizer.zero_grad()

    logs = [log for _, _, log in attached(3, Cools(), adamw, script, buffers=way)]
    assert logs[0][1:] == logs[1][1:] == logs[2][1:] and logs[0][0] != logs[1][0]


def test_what_rank_0_alone_writes_to_a_buffer_is_everybodys_one_exchange_later():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0 and iteration == 0:
                model.temperature.fill_(2.0)
            job.synchronize()
            log.append(model.temperature.item())

    assert [log for _, _, log in attached(2, Cools(), adamw, script, buffers="broadcast")] == [[2.0, 2.0, 2.0], [1.0, 2.0, 2.0]]


class Grows(nn.Module):
    """A buffer that a forward pass makes larger, as a cache may be."""

    def __init__(self, kind):
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(2, dtype=kind))

    def forward(self, x):
        self.seen = torch.cat([self.seen, self.seen])
        return self.inner(x)


@pytest.mark.parametrize("kind", (torch.float32, torch.int64))
@pytest.mark.parametrize("way", ("broadcast", "mean", "local"))
def test_a_buffer_that_changes_its_size_is_refused_where_it_travels(way, kind):
    def script(model, optimizer, rank, job, log):
        for iteration in range(2):
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    if way == "local" or (way == "mean" and kind is torch.int64):
        assert [len(model.seen) for model, _, _ in attached(2, Grows(kind), adamw, script, buffers=way)] == [8, 8]
        return
    with pytest.raises(PacelineError, match=r"buffer seen was torch.\w+ \(2,\) when attach ran and is torch.\w+ \(4,\) now; .*buffers='local'"):
        attached(2, Grows(kind), adamw, script, buffers=way)


def test_means_weighted_by_samples():
    counts = lambda iteration, rank: 2 + 3 * rank + iteration % 2  # noqa: E731

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            samples = counts(iteration, rank)
            x, y = nets.numbers(iteration, rank, (samples, 4))
            job.samples(samples)
            F.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()

    def weigh(gradients, jobs):
        mean = same_mean([g * float(job.count) for g, job in zip(gradients, jobs)])
        return mean * (1.0 / float(same_mean([torch.tensor([float(job.count)]) for job in jobs])))

    compare(nets.mlp(), adamw, script, weigh=weigh, average="samples", workers=3)


def by_samples(gradients, jobs):
    """The gradient of no sample counts for nothing, whatever it is."""
    total = same_mean([torch.tensor([float(job.count)]) for job in jobs])
    mean = same_mean([g * float(job.count) if job.count else torch.zeros_like(g) for g, job in zip(gradients, jobs)])
    return mean * (1.0 / float(total) if total else 0.0)


@pytest.mark.parametrize("how", ("accumulate", "no_sync"))
def test_accumulated_gradients_are_weighted_by_the_samples_of_all_their_passes(how):
    counts = lambda iteration, rank, part: 1 + (iteration + 2 * rank + 3 * part) % 5  # noqa: E731

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            numbers = [counts(iteration, rank, part) for part in range(3)]
            for part, samples in enumerate(numbers):
                x, y = nets.numbers(10 * iteration + part, rank, (samples, 4))
                job.samples(samples)
                with job.no_sync() if how == "no_sync" and part < 2 else contextlib.nullcontext():
                    (F.cross_entropy(model(x), y, reduction="sum") / sum(numbers)).backward()
            if type(job).__name__ == "Plain":
                job.samples(sum(numbers))
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script, weigh=by_samples, average="samples", **({"accumulate": 3} if how == "accumulate" else {}))
    for rank in range(2):
        assert [samples for samples, _ in standin.run.world.nodes[rank].steps] == [sum(counts(iteration, rank, part) for part in range(3)) for iteration in range(4)]


def test_accumulated_gradients_that_are_thrown_away_take_their_samples_with_them():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            for part in range(2):
                with job.no_sync() if part == 0 else contextlib.nullcontext():
                    job.samples(3 + rank + part)
                    nets.backward(model, 10 * iteration + part, rank)
                if part == 0 and iteration == 1:
                    optimizer.zero_grad()
            if type(job).__name__ == "Plain":
                job.samples(4 + rank + (iteration != 1) * (3 + rank))
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script, weigh=by_samples, average="samples")


def test_a_rank_without_samples_counts_for_nothing_and_all_of_them_give_zeros():
    """The mean of no losses is no number, and its gradients are none."""
    counts = lambda iteration, rank: ((5, 0), (0, 2), (0, 0), (1, 3))[iteration][rank]  # noqa: E731

    def script(model, optimizer, rank, job, log):
        for iteration in range(4):
            x, y = nets.numbers(iteration, rank, (5, 4))
            counted = torch.arange(5) < counts(iteration, rank)
            job.samples(float(counted.sum()))
            ((F.cross_entropy(model(x), y, reduction="none") * counted).sum() / counted.sum()).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
            log.append(all(bool(p.isfinite().all()) for p in model.parameters()))

    result = compare(nets.mlp(), adamw, script, weigh=by_samples, average="samples")
    assert result[0][2] == [True] * 4


def test_samples_of_a_plain_mean_weight_nothing_and_are_counted_for_the_report():
    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            job.samples(5 + rank)
            nets.backward(model, iteration, rank)
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adamw, script)
    for rank in range(2):
        assert [samples for samples, _ in standin.run.world.nodes[rank].steps] == [5 + rank] * 3
