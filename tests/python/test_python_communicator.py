"""Collective operations from Python on arrays of any maker."""

import array
import ctypes
import math
import socket
import threading

import pytest
from binding import on_threads

import paceline
from paceline import PacelineError, _library_ranks
from paceline.communicator import Link, part


def communicators(ranks, work, **options):
    """`work(communicator)` on a thread for each rank, which meet at an address of their own."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        where = "127.0.0.1:{}".format(held.getsockname()[1])
        link = Link(5e-5, 8e-9, 1e-10)

        def life(rank):
            with paceline.Communicator(rank, coordinator=where, ranks=ranks, link=link, **options) as all_ranks:
                work(all_ranks)

        problems = on_threads(*(lambda rank=rank: life(rank) for rank in range(ranks)))
    for problem in problems:
        raise problem


def makers():
    import numpy
    import torch

    return {
        "array": lambda values: array.array("f", values),
        "bytes": lambda values: memoryview(bytearray(array.array("f", values).tobytes())).cast("f"),
        "ctypes": lambda values: (ctypes.c_float * len(values))(*values),
        "ctypes int32": lambda values: (ctypes.c_int32 * len(values))(*(int(value) for value in values)),
        "numpy": lambda values: numpy.array(values, dtype=numpy.float32),
        "numpy float64": lambda values: numpy.array(values, dtype=numpy.float64),
        "numpy float16": lambda values: numpy.array(values, dtype=numpy.float16).reshape(2, -1),
        "torch": lambda values: torch.tensor(values, dtype=torch.float32).reshape(-1, 2),
        "torch bfloat16": lambda values: torch.tensor(values, dtype=torch.bfloat16),
        "torch int32": lambda values: torch.tensor([int(value) for value in values], dtype=torch.int32),
    }


def as_list(values):
    flat = values.flatten() if hasattr(values, "flatten") else values
    return [float(value) for value in flat]


@pytest.mark.parametrize("maker", ["array", "bytes", "ctypes", "ctypes int32", "numpy", "numpy float64", "numpy float16", "torch", "torch bfloat16", "torch int32"])
def test_every_operation_on_arrays_of_every_maker(maker):
    make = makers()[maker]

    def work(communicator):
        rank = communicator.rank
        own = make([rank + 1] * 6)
        communicator.allreduce(own)
        assert as_list(own) == [3] * 6
        result = make([0] * 6)
        communicator.allreduce(make([rank] * 6), result, reduction="max")
        assert as_list(result) == [1] * 6
        data = make([7 * (1 - rank)] * 6)
        communicator.broadcast(data)
        assert as_list(data) == [7] * 6
        communicator.reduce(own, root=1)
        assert rank == 0 or as_list(own) == [6] * 6
        whole = make([rank] * 6)
        communicator.reduce_scatter(whole)
        own_part = part(6, 2, rank)
        assert as_list(whole)[own_part] == [1] * 3
        mine = make([rank + 2] * 6)
        communicator.allgather(mine)
        assert as_list(mine) == [2] * 3 + [3] * 3
        communicator.barrier()

    communicators(2, work)


def test_requests_are_in_flight_together_and_groups_are_communicators():
    def work(communicator):
        values = [array.array("d", [communicator.rank + i] * 1000) for i in range(4)]
        requests = [communicator.start("allreduce", value, priority=4 - i, algorithm="ring") for i, value in enumerate(values)]
        for i, request in enumerate(requests):
            assert request.wait() and request.choice().startswith("ring, predicted ")
            assert values[i][999] == 3 + 3 * i
        if communicator.rank != 1:
            with communicator.group(1, [0, 2]) as group:
                value = array.array("d", [group.rank])
                group.allreduce(value)
                assert (group.ranks, value[0]) == (2, 1)
        communicator.barrier()

    communicators(3, work)


def test_a_call_that_makes_no_sense_is_refused_and_harms_nobody():
    import numpy
    import torch

    def refused(words, call):
        with pytest.raises(PacelineError) as raised:
            call()
        assert raised.value.kind == "bad-request" and words in str(raised.value), raised.value

    def work(communicator):
        good = array.array("f", [1, 2])
        refused("array is a list; give an array with the buffer protocol or DLPack", lambda: communicator.allreduce([1, 2]))
        refused("format 'q'", lambda: communicator.allreduce(array.array("q", [1, 2])))
        refused("DLPack's type 0", lambda: communicator.allreduce(numpy.zeros(3, dtype=numpy.int64)))
        refused("is not dense", lambda: communicator.allreduce(numpy.zeros((4, 4), dtype=numpy.float32)[:, 1]))
        refused("is not dense", lambda: communicator.allreduce(torch.zeros(4, 4).t()))
        refused("the output is read only", lambda: communicator.allreduce(good, memoryview(bytes(8)).cast("f")))
        refused("require", lambda: communicator.allreduce(torch.zeros(3, requires_grad=True)))
        refused("different types", lambda: communicator.allreduce(good, array.array("d", [1, 2])))
        refused("an array of 2 elements and an output of 1", lambda: communicator.allreduce(good, array.array("f", [1])))
        refused("'add' is no reduction; legal: sum, max, min, mean", lambda: communicator.allreduce(good, reduction="add"))
        refused("'scan' is no operation", lambda: communicator.start("scan", good))
        refused("'tree' is no algorithm", lambda: communicator.allreduce(good, algorithm="tree"))
        refused("root 2 is no rank", lambda: communicator.broadcast(good, root=2))
        refused("is closed already", closed_use(communicator))
        refused("format '<q'", lambda: communicator.allreduce((ctypes.c_int64 * 2)(1, 2)))
        communicator.allreduce(good)
        assert list(good) == [2, 4]

    def closed_use(communicator):
        other = communicator.group(communicator.ranks, list(range(communicator.ranks)))
        handle = other._handle
        other.close()
        other.close()
        return lambda: _library_ranks.communicator_describe(handle)

    communicators(2, work)
    with pytest.raises(PacelineError, match="not neither"):
        paceline.Communicator(0)
    assert math.isclose(Link(1, 2, 3).residual, 0)


def test_a_communicator_that_was_closed_says_so():
    def work(communicator):
        communicator.close()
        for call in (lambda: communicator.allreduce(array.array("f", [1])), lambda: communicator.group(1, [0, 1]), communicator.barrier, communicator.gone, communicator.is_awaited):
            with pytest.raises(PacelineError, match="the communicator is closed already"):
                call()
        communicator.close()

    communicators(2, work)


def test_ranks_that_make_a_group_of_different_lists_all_fail_with_both():
    def work(communicator):
        with pytest.raises(PacelineError, match=r"ranks 0 and [12] disagree on the ranks of a group: \[0, 1\] against \[0, 1, 2\]") as failed:
            with communicator.group(2**40, [0, 1] if communicator.rank == 0 else [0, 1, 2]) as group:
                group.allreduce(array.array("f", [1]))
            communicator.barrier()  # who has asked nobody of another mind hears it here
        assert failed.value.code == "disagree"

    communicators(3, work)


def test_groups_without_end_are_made_and_closed():
    def work(communicator):
        for number in range(1, 300):
            with communicator.group(number, [0, 1]) as group:
                value = array.array("f", [communicator.rank])
                group.allreduce(value)
                assert value[0] == 1
        with pytest.raises(PacelineError, match="each id is used once"):
            communicator.group(7, [0, 1])

    communicators(2, work)


def test_who_begins_something_in_a_group_that_another_rank_has_closed_hears_who():
    closed = threading.Event()

    def work(communicator):
        group = communicator.group(1, [0, 1])
        group.allreduce(array.array("f", [1]))
        if communicator.rank == 0:
            group.close()
            closed.set()
            failed.wait(60)
            return
        assert closed.wait(60)
        with pytest.raises(PacelineError, match=r"rank 0 has closed the group of ranks \[0, 1\], in which rank 1 begins operation 2, allreduce"):
            group.allreduce(array.array("f", [1]))
        failed.set()

    failed = threading.Event()
    communicators(2, work)


def test_what_another_rank_has_begun_and_who_has_gone_is_seen():
    def work(communicator):
        value = array.array("f", [communicator.rank])
        if communicator.rank == 0:
            communicator.allreduce(value)
            communicator.broadcast(value, root=1)
            return
        while not communicator.is_awaited():
            pass
        communicator.allreduce(value)
        assert communicator.gone() == []
        communicator.broadcast(value, root=1)
        while communicator.gone() != [0]:
            pass

    communicators(2, work)


def test_a_rank_that_leaves_with_an_exception_is_said_to_have_failed():
    def work(communicator):
        communicator.barrier()
        if communicator.rank == 0:
            raise ValueError("no such sample")
        with pytest.raises(PacelineError, match="said goodbye: it has failed: ValueError: no such sample"):
            communicator.barrier()

    with pytest.raises(ValueError, match="no such sample"):
        communicators(2, work)
