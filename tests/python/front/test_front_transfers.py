"""Parameters on a device with memory of its own: copies beside the computing stream. No GPU is here; a stand-in copies as late as it may.

Its memory is the host's, but what a copy brings is NaN until somebody waits for it, or until it happens by chance, and NaN for good if the copy did not
wait for the stream that computes what it reads, or if nobody has kept what it reads, or what it brings, for the stream that uses it. Pinned memory need
not be kept: PyTorch does that itself.
"""

import array
import collections
import contextlib
import ctypes
import dataclasses
import math
import random
import threading
import weakref

import nets
import pytest
import scripts
import standin
import torch
from loops import attached, compare
from paceline import PacelineError
from paceline.torch import transfers
from paceline.torch.attached import refusals, table
from torch import optim

WAITS = ("of a copy out for what computes", "of the thread for a copy out", "of what a copy brings until it is used", "of what computes for a copy in")


class Event:
    def __init__(self, stream):
        self.stream, self.position = stream, stream.asked

    def synchronize(self):
        if WAITS[1] not in self.stream.device.without:
            self.stream.run(self.position)


class Stream:
    """Copies that happen in their order, at some time."""

    def __init__(self, device, wait):
        self.device = device
        self.wait = wait
        self.copies = collections.deque()
        self.asked = self.done = 0
        self.waited = False  # for the computing stream, since the last copy

    def wait_stream(self, computing):
        assert computing is self.device.computing
        self.waited = self.wait not in self.device.without

    def record_event(self):
        return Event(self)

    def synchronize(self):
        self.run(self.asked)

    def copy(self, to, source):
        with self.device.lock:
            to.fill_(math.nan)
            self.copies.append((to, self._source_out(source) if self.wait == WAITS[0] else self._source_in(to, source)))
            self.waited = False
            self.asked += 1

    def _source_out(self, source):
        return weakref.ref(source) if self.waited else lambda: None

    def _source_in(self, to, source):
        return lambda: source if to.data_ptr() in self.device.kept else None

    def run(self, position):
        with self.device.lock:
            while self.done < position:
                to, kept = self.copies.popleft()
                if (source := kept()) is not None:
                    to.copy_(source)
                self.done += 1


class Computing:
    """Computes at once what it is asked for, so that it must have waited before."""

    def __init__(self, device):
        self.device = device

    def wait_event(self, event):
        if WAITS[3] not in self.device.without:
            event.stream.run(event.position)


class Late(transfers.Streams):
    def __init__(self, seed, without=()):
        self.random = random.Random(seed)
        self.without = without
        self.lock = threading.RLock()
        self.computing = Computing(self)
        self.streams = []
        self.kept = set()
        self.pins = seed % 2 == 0

    def new(self):
        self.streams.append(Stream(self, WAITS[2 * len(self.streams)]))
        return self.streams[-1]

    def current(self):
        for stream in self.streams:
            if self.random.random() < 0.2:
                stream.run(self.random.randint(stream.done, stream.asked))
        return self.computing

    @contextlib.contextmanager
    def on(self, stream):
        self.chosen = stream
        yield
        self.chosen = None

    def pin(self, values):
        return self.pins

    def unpin(self):
        assert all(stream.done == stream.asked for stream in self.streams)

    def pinned(self, count, kind):
        return torch.full((count,), math.nan, dtype=kind)

    def empty(self, count):
        assert self.chosen is self.streams[1]  # whose memory it is, since that stream writes it first
        return self.pinned(count, torch.float32)

    def keep(self, tensor, stream):
        assert stream is self.computing
        if WAITS[2] not in self.without:
            self.kept.add(tensor.data_ptr())

    def copy(self, to, source):
        self.chosen.copy(to, source)


@pytest.fixture(params=range(3))
def device(request, monkeypatch):
    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(Late(request.param), announce, values))


def adam(model):
    return optim.Adam(model.parameters(), lr=0.01)


CASES = {
    "plain": ({}, {}),
    "clipped by the script": ({"clip": 0.5}, {}),
    "scaled": ({"scale": 1024.0}, {}),
    "accumulated": ({"accumulate": 3}, {}),
    "ranks differ": ({"branch": lambda iteration, rank: (iteration + rank) % 2, "average": True}, {}),
    "at step": ({}, {"apply": "at-step"}),
}


@pytest.mark.parametrize("case", CASES)
def test_copies_beside_what_computes_change_no_bit(device, case):
    script, choices = CASES[case]
    compare(nets.everything(), adam, scripts.everything(steps=3, **script), **choices)


@pytest.mark.parametrize("kind", (torch.bfloat16, torch.float32))
def test_other_types_and_layouts_too(device, kind):
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Flatten(), torch.nn.Linear(12, 3)).to(kind).to(memory_format=torch.channels_last)

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (5, 2, 3, 3))
            torch.nn.functional.cross_entropy(model(x.to(kind)).float(), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(model, adam, script)


def test_weights_by_samples(device):
    def weigh(gradients, jobs):
        total = sum(job.count for job in jobs)
        return sum(g * job.count for g, job in zip(gradients, jobs)) / total

    def script(model, optimizer, rank, job, log):
        for iteration in range(3):
            x, y = nets.numbers(iteration, rank, (4, 4))
            job.samples(4.0)  # powers of two, so that the plain form has the same bits
            torch.nn.functional.cross_entropy(model(x), y).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()

    compare(nets.mlp(), adam, script, weigh=weigh, average="samples")


@pytest.mark.parametrize("wait", WAITS)
def test_every_wait_is_needed(monkeypatch, wait):
    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(Late(1, (wait,)), announce, values))
    with pytest.raises(AssertionError, match="differ"):
        compare(nets.everything(), adam, scripts.everything(steps=3), compare=False)


def test_an_error_of_the_thread_that_announces_reaches_the_script(monkeypatch):
    def refuse(number, pointer):
        raise PacelineError("worker 1 was lost", kind="peer-lost")

    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(Late(0), refuse, values))
    with pytest.raises(PacelineError, match="worker 1 was lost"):
        attached(2, nets.mlp(), adam, over_numbers)


def entries():
    return table.Table(nets.mlp()).entries


def test_a_model_is_on_one_device():
    first, second, *_ = entries()
    elsewhere = dataclasses.replace(second, device=torch.device("cuda:1"))
    with pytest.raises(PacelineError, match=f"{first.name} is on cpu and {second.name} on cuda:1; attach trains a model on one device"):
        table.refuse_several_devices([first, elsewhere])


def test_a_model_that_moves_after_attach_is_refused():
    entry = dataclasses.replace(entries()[0], device=torch.device("cuda:0"))
    with pytest.raises(PacelineError, match="was on cuda:0 when attach ran and is on cpu now; move the model before attach"):
        refusals.check_gradient(entry, torch.zeros_like(entry.parameter))


def over_numbers(model, optimizer, rank, job, log):
    for iteration in range(2):
        x, y = nets.numbers(iteration, rank, (5, 4))
        torch.nn.functional.cross_entropy(model(x), y).backward()
        yield
        optimizer.step()


def test_what_a_copy_reads_is_kept_until_it_is_over():
    announced = []
    late = Late(0)
    out = transfers.Transfers(late, lambda number, pointer: announced.extend(array.array("f", ctypes.string_at(pointer, 12))), ())
    with late.lock:  # so that the copy happens after send
        out.send(0, torch.ones(3))
    out.finish()
    out.close()
    assert announced == [1.0, 1.0, 1.0]


def test_what_was_sent_is_announced_before_it_ends():
    announced = []
    late = Late(0)
    out = transfers.Transfers(late, lambda number, pointer: announced.append(number), ())
    for number in range(5):
        out.send(number, torch.ones(3))
    out.finish()
    assert announced == [0, 1, 2, 3, 4]
    out.close()
    out.close()
    assert not out._thread.is_alive()


@pytest.mark.parametrize("pins", (False, True))
def test_a_mean_may_be_overwritten_when_the_iteration_is_concluded(pins):
    """Also one that no gradient depends on, which is fetched right before."""
    late = Late(0)
    late.pins = pins
    late.computing.wait_event = lambda event: None  # what would use it has not begun
    values = torch.ones(3)
    ends = transfers.Transfers(late, lambda number, pointer: None, [values])
    fetched = ends.fetch(values)
    ends.finish()
    values.fill_(2.0)
    ends.close()
    late.streams[1].synchronize()
    assert fetched.tolist() == [1.0, 1.0, 1.0]


def test_nothing_reads_the_means_of_a_job_that_has_failed(monkeypatch):
    """Their memory goes with the node."""
    happened = []
    late = Late(0)
    monkeypatch.setattr(late, "unpin", lambda: happened.append("unpinned"))
    monkeypatch.setattr(transfers, "of", lambda device, announce, values: transfers.Transfers(late, announce, values))
    monkeypatch.setattr(standin.StandIn, "close", lambda self, seconds: happened.append("closed"))

    def script(model, optimizer, rank, job, log):
        with job:
            raise ValueError("no such file")
        yield

    with pytest.raises(ValueError, match="no such file"):
        attached(1, nets.mlp(), adam, script)
    assert happened == ["unpinned", "closed"]
