"""init_process_group("paceline"): what one rank sends to another, barriers with a limit, and sums of sparse tensors."""

import pytest
from processes import passes, pythons

SENT = """
import torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
others = [rank for rank in range(n) if rank != r]
"""
RECEIVE_FIRST = """
taken = {source: torch.zeros(4) for source in others}
receives = [dist.P2POp(dist.irecv, taken[source], source) for source in others]
sends = [dist.P2POp(dist.isend, torch.full((4,), float(r)), to) for to in others]
for work in dist.batch_isend_irecv(receives + sends):
    work.wait()
assert all(taken[source].tolist() == [source] * 4 for source in others), taken
dist.destroy_process_group()
"""


def test_ranks_that_all_begin_to_receive_before_they_send_get_everything(tmp_path):
    passes(tmp_path, SENT + RECEIVE_FIRST, ranks=3)


TAGS = """
if r == 0:
    begun = [dist.isend(torch.arange(size), 1, tag=tag) for tag, size in ((7, 3), (0, 4), (9, 5), (7, 6))]
    for work in begun:
        work.wait()
elif r == 1:
    for tag, size in ((9, 5), (7, 3), (7, 6), (0, 4)):
        dist.recv(taken := torch.zeros(size, dtype=torch.int64), 0, tag=tag)
        assert taken.tolist() == list(range(size)), (tag, taken)
dist.destroy_process_group()
"""


def test_what_has_another_tag_is_received_in_any_order_and_what_has_one_in_the_order_of_sending(tmp_path):
    passes(tmp_path, SENT + TAGS)


ANYBODY = """
if r == 0:
    named = torch.zeros(2)
    dist.recv(named, 2)
    found, taken = [], torch.zeros(3)
    for _ in range(5):
        found.append(dist.recv(taken))
        assert taken.tolist() == [found[-1]] * 3, (found, taken)
    assert sorted(found) == [1, 1, 1, 2, 2] and named.tolist() == [20.0] * 2, (found, named)
    work = dist.irecv(taken, tag=5)
    work.wait()
    assert work._source_rank() == 1 and taken.tolist() == [15.0] * 3, taken
else:
    if r == 2:
        dist.send(torch.full((2,), 20.0), 0)
    for _ in range(4 - r):
        dist.send(torch.full((3,), float(r)), 0)
    if r == 1:
        dist.send(torch.full((3,), 15.0), 0, tag=5)
some = dist.new_group([1, 2])
if r == 2:
    assert dist.recv(taken := torch.zeros(3), group=some) == 1 and taken.tolist() == [1.0] * 3
elif r == 1:
    dist.send(torch.ones(3), 2, group=some)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("python", pythons())
def test_a_receive_from_anybody_takes_what_is_there_and_says_whose_it_is(python, tmp_path):
    passes(tmp_path, SENT + ANYBODY, ranks=3, python=python())


BARRIER = """
import datetime, torch, torch.distributed as dist, paceline, paceline.torch
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
store, group = dist.distributed_c10d._get_default_store(), dist.group.WORLD
long, short = datetime.timedelta(seconds=100), datetime.timedelta(seconds=0.5)
if hasattr(group, "_get_backend") and type(group) is dist.ProcessGroup:
    group = group._get_backend(torch.device("cpu"))

def said(*given, **named):
    try:
        group.monitored_barrier(*given, **named)
        return "passed"
    except paceline.PacelineError as error:
        assert error.kind == "deadline"
        return str(error)

assert [said(long) for _ in range(4)] == ["passed"] * 4
if r == 0:
    sentence = said(short)
    assert sentence == "Rank 1 failed to pass monitoredBarrier in 0.5 s", sentence
elif r == 2:
    sentence = said(long)
    assert "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0" in sentence and "rank 0 says: Rank 1 failed to pass" in sentence, sentence
    store.set("failed", "")
else:
    store.wait(["failed"], long)
    sentence = said(long)
    assert "rank 0 says: Rank 1 failed to pass" in sentence, sentence
dist.barrier()
sentence = said(short, wait_all_ranks=True) if r == 0 else ""
assert r or sentence == "Ranks 1, 2 failed to pass monitoredBarrier in 0.5 s", sentence
dist.all_reduce(sum := torch.ones(2))
assert sum.tolist() == [3.0] * 2, "the group was harmed"
dist.destroy_process_group()
"""


@pytest.mark.parametrize("python", pythons())
def test_a_monitored_barrier_names_who_did_not_come_and_leaves_the_group_as_it_was(python, tmp_path):
    passes(tmp_path, BARRIER, ranks=3, python=python())


LIMITS = """
import datetime, torch, torch.distributed as dist, paceline, paceline.torch
second = datetime.timedelta(seconds=1)
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()

def fails(call, part):
    try:
        call()
    except paceline.PacelineError as error:
        assert error.kind == "deadline" and part in str(error), str(error)
    else:
        raise SystemExit(f"nothing failed, where this should be said: {part}")

whole, asked, future = dist.new_group(timeout=second), dist.new_group(), dist.new_group(timeout=second)
if r == 0:
    fails(lambda: dist.all_reduce(torch.ones(3), group=whole), "within its timeout of 1 s")
    fails(lambda: dist.barrier(group=asked, timeout=second), "within its timeout of 1 s")
    try:
        dist.all_reduce(torch.ones(3), group=future, async_op=True).get_future().wait()
        raise SystemExit("a future has no limit")
    except RuntimeError as error:
        assert "within its timeout of 1 s" in str(error), error
dist.barrier()  # the other groups are unharmed, and who has caught an error goes on
dist.destroy_process_group()

dist.init_process_group("paceline", timeout=second)
store = dist.distributed_c10d._get_default_store()
if r == 0:
    fails(dist.barrier, "the timeout of the group is 1 s")
    store.set("failed", "")
else:
    store.wait(["failed"], 100 * second)
"""


def test_an_operation_that_others_do_not_begin_fails_at_its_groups_limit_and_holds_nobody_up(tmp_path):
    passes(tmp_path, LIMITS)


NOBODY = """
import datetime, torch, torch.distributed as dist, paceline, paceline.torch
second = datetime.timedelta(seconds=1)
for whole in (False, True):
    dist.init_process_group("paceline", **({"timeout": second} if whole else {}))
    store, r = dist.distributed_c10d._get_default_store(), dist.get_rank()
    group = None if whole else dist.new_group(timeout=second)
    if r == 0:
        work, over = dist.irecv(taken := torch.zeros(3), group=group), False
        while not over:
            try:
                over = work.wait()
            except paceline.PacelineError as error:
                assert error.kind == "deadline" and "within its timeout of 1 s" in str(error), error
                store.set(f"failed {whole}", "")
                over = whole
        assert taken.tolist() == [0.0 if whole else 1.0] * 3, taken
    else:
        store.wait([f"failed {whole}"], 100 * second)
        if not whole:
            dist.send(torch.ones(3), 0, group=group)
    dist.destroy_process_group()
"""


def test_a_receive_from_anybody_fails_at_its_groups_limit_and_may_be_waited_for_again(tmp_path):
    passes(tmp_path, NOBODY)


LATE = """
import datetime, torch, torch.distributed as dist, paceline, paceline.torch
second = datetime.timedelta(seconds=1)
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
store, group = dist.distributed_c10d._get_default_store(), dist.new_group(timeout=second)
parts, total, after = torch.zeros(2), torch.sparse_coo_tensor([[r]], [1.0], (2,)), torch.ones(2)
calls = {
    "all_to_all": lambda: dist.all_to_all_single(parts, torch.tensor([10.0 * r, 10.0 * r + 1]), group=group, async_op=True),
    "sparse": lambda: dist.all_reduce(total, group=group, async_op=True),
}
for name, call in calls.items():
    if r == 1:
        store.wait([f"{name} is late"], 100 * second)
    begun = [call(), dist.all_reduce(after, group=group, async_op=True)]
    assert r == 1 or not begun[0].is_completed()
    while begun:
        try:
            begun[0].wait()
            begun.pop(0)
        except paceline.PacelineError as error:
            assert error.kind == "deadline" and "within its timeout of 1 s" in str(error), error
            store.set(f"{name} is late", "")
assert parts.tolist() == [r, 10.0 + r] and total.to_dense().tolist() == [1.0, 1.0] and after.tolist() == [4.0, 4.0], (parts, total, after)
dist.destroy_process_group()
"""


def test_what_asks_the_others_first_neither_holds_its_rank_up_nor_waits_beyond_its_groups_limit(tmp_path):
    passes(tmp_path, LATE)


SPARSE = """
import torch, torch.distributed as dist, torch.nn as nn, paceline.torch
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()

def mine(rank, dense):
    at = torch.tensor([[rank, 4, 0][:rank + 1], [0, 1, 2][:rank + 1]])
    values = torch.arange(1.0, 2.0 + rank).view(-1, *[1] * dense).expand(-1, *[2] * dense).clone()
    return torch.sparse_coo_tensor(at, values, (5, 3, *[2] * dense))

for dense in (0, 2):
    total = mine(r, dense)
    dist.all_reduce(total)
    assert torch.equal(total.to_dense(), sum(mine(rank, dense).to_dense() for rank in range(n)))
dist.all_reduce(empty := torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (4,)))
assert empty._nnz() == 0

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))

alone, both = net(), nn.parallel.DistributedDataParallel(net())
words = torch.tensor([[1, 2, 2], [3, 9, 1], [0, 2, 5]])[:n]
for step in range(3):
    for model, given in ((both, words[r : r + 1]), (alone, words)):
        model.zero_grad()
        model(given).square().mean().backward()
    assert both.module[0].weight.grad.is_sparse
    for one, other in zip(both.parameters(), alone.parameters()):
        assert torch.allclose(one.grad.to_dense(), other.grad.to_dense(), atol=1e-6)
        with torch.no_grad():
            for parameter in (one, other):
                parameter -= parameter.grad.to_dense()
dist.destroy_process_group()
"""


def test_sparse_gradients_of_ranks_that_used_other_words_are_added_up(tmp_path):
    passes(tmp_path, SPARSE, ranks=3)


JOIN = """
import torch, torch.distributed as dist, torch.nn as nn, paceline.torch
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
model = nn.parallel.DistributedDataParallel(nn.Linear(3, 1, bias=False))
with model.join(divide_by_initial_world_size=False):
    for step in range(2 + r):
        model.zero_grad()
        model(torch.full((1, 3), 5.0)).sum().backward()
        assert model.module.weight.grad.tolist() == [[5.0] * 3], "not the mean of those that are left"
dist.destroy_process_group()
"""


def test_join_divides_by_the_ranks_that_still_have_inputs(tmp_path):
    passes(tmp_path, JOIN)
