"""Collective operations on tensors of a device. No GPU is here: on_gpu.py has one; here a stand-in copies as late as it may (late_copies.py)."""

import threading

import pytest
import torch
from late_copies import WAITS, Late, mark
from paceline import PacelineError
from paceline.torch.backend.hosted import Hosted
from paceline.torch.backend.in_flight import InFlight
from processes import pythons
from test_front_group import matrix


@pytest.mark.parametrize("python", pythons())
def test_every_operation_on_a_device_gives_what_gloo_gives_on_the_host(python, tmp_path):
    ours, theirs = matrix(tmp_path, "paceline", 2, python, "late"), matrix(tmp_path, "gloo", 2, python)
    for rank in range(2):
        assert len(ours[rank]) > 150
        assert {what: found for what, found in ours[rank].items() if found != theirs[rank][what]} == {}, f"rank {rank}"


class Calls:
    """Doubles what it is given, when it is let."""

    rank, ranks = 1, 2

    def __init__(self):
        self.begun = []
        self.free = threading.Event()

    def allreduce(self, tensor, op):
        self.free.wait(60)
        self.begun.append(op)
        tensor.mul_(2)
        return InFlight(None)

    def barrier(self):
        self.begun.append("barrier")
        return InFlight(None)

    def broadcast(self, tensor, root):
        raise PacelineError("a rank is gone")


def doubled(without=()):
    """What a tensor of ones has after it was computed late, given away and waited for."""
    tensor = torch.empty(5)
    mark(tensor)
    device = Late(without=without, computing=lambda: tensor.fill_(1))
    calls = Calls()
    calls.free.set()
    hosted = Hosted(calls, lambda _: device, lambda _: False)
    pending = hosted.allreduce(tensor, "sum")
    assert pending.wait(60)
    hosted.end(60)
    return tensor.tolist()


def test_what_was_computed_is_given_away_and_comes_back():
    assert doubled() == [2] * 5


@pytest.mark.parametrize("wait", WAITS)
def test_each_wait_is_needed(wait):
    assert doubled(without=(wait,)) != [2] * 5


def test_operations_begin_in_the_order_of_the_calls_whatever_their_tensors_are_in():
    calls = Calls()
    hosted = Hosted(calls, lambda _: Late(), lambda tensor: tensor.numel() == 1)
    pending = [hosted.allreduce(torch.ones(3), "device"), hosted.barrier(), hosted.allreduce(torch.ones(1), "host")]
    assert calls.begun == [] and not pending[0].wait(0) and not pending[1].poll()
    calls.free.set()
    assert all(one.wait(60) for one in pending)
    assert calls.begun == ["device", "barrier", "host"]
    hosted.end(60)


def test_what_asks_the_other_ranks_first_is_waited_for_by_nobody_but_who_waits_and_what_follows_queues_up():
    calls = Calls()
    hosted = Hosted(calls)
    pending = [hosted.allreduce(torch.ones(2).to_sparse(), "first"), hosted.barrier(), hosted.allreduce(torch.ones(2).to_sparse(), "sparse")]
    assert calls.begun == [] and not any(one.wait(0) for one in pending)
    calls.free.set()
    assert all(one.wait(60) for one in pending)
    assert calls.begun == ["first", "barrier", "sparse"]
    hosted.end(60)


def test_a_device_that_fails_while_it_copies_fails_the_operation_and_the_next_one_begins():
    class Broken(Late):
        def pinned(self, count, kind):
            held = super().pinned(count, kind)
            if count == 3:
                self.stream.run = self.fails
            else:
                del self.stream.run
            return held

        def fails(self, *_):
            raise RuntimeError("an illegal address was read")

    calls = Calls()
    calls.free.set()
    device = Broken()
    hosted = Hosted(calls, lambda _: device, lambda _: False)
    with pytest.raises(RuntimeError, match="an illegal address"):
        hosted.allreduce(torch.ones(3), "sum").wait(60)
    tensor = torch.ones(2)
    assert hosted.allreduce(tensor, "sum").wait(60) and tensor.tolist() == [2] * 2
    hosted.end(60)


def test_an_error_of_what_begins_later_is_of_who_waits_and_of_nobody_else():
    calls = Calls()
    calls.free.set()
    hosted = Hosted(calls, lambda _: Late(), lambda _: False)
    failed = hosted.broadcast(torch.ones(3), 0)
    tensor = torch.ones(3)
    assert hosted.allreduce(tensor, "sum").wait(60) and tensor.tolist() == [2] * 3
    for _ in range(2):
        with pytest.raises(PacelineError, match="a rank is gone"):
            failed.wait(60)
    hosted.end(60)
