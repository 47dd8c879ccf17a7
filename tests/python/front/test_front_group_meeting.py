"""init_process_group("paceline"): how its ranks find each other, whenever they come and whatever was there before, and which groups are one."""

import datetime

import pytest
from paceline.torch.backend import connected
from processes import passes

BEGIN = """
import datetime, os, sys, torch, torch.distributed as dist, paceline, paceline.torch
n, r = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
minute = datetime.timedelta(seconds=60)

def begin(name, **more):
    dist.init_process_group("paceline", store=dist.PrefixStore(name, store), rank=r, world_size=n, **more)

def sum_is_right(group=None, ranks=n):
    dist.all_reduce(mine := torch.ones(2), group=group)
    return mine.tolist() == [ranks] * 2

def said(call):
    try:
        call()
        return "nothing"
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
"""


STORE = f"""{BEGIN}
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
"""


@pytest.mark.parametrize("seconds", (4.0, 1800.0))
def test_ranks_are_waited_for_as_long_as_the_timeout_says(seconds, monkeypatch):
    asked = {}

    class Recorded:
        def __init__(self, rank, **options):
            asked.update(options)

    class Store:
        def __getattr__(self, name):
            return lambda *given: None

    monkeypatch.setattr(connected, "Communicator", Recorded)
    connected.connect(0, 2, [0, 1], Store(), datetime.timedelta(seconds=seconds), connected.GroupOptions())
    assert asked["connect_seconds"] == asked["stall_seconds"] == seconds


SHORT = """
begun = said(lambda: begin(f"nobody but {r}", timeout=datetime.timedelta(seconds=1)))
assert ("of 2 ranks rank 1 did not come" if r == 0 else "rank 1 has not heard of rank 0 within 1 s") in begun, begun
begin("all")
assert sum_is_right()
dist.destroy_process_group()
"""


def test_who_waits_in_vain_gives_up_at_its_timeout_and_may_begin_again(tmp_path):
    passes(tmp_path, STORE + SHORT)


AGAIN = """
first_of_rank_1 = r == 1 and os.fork() == 0
if r == 1 and not first_of_rank_1:
    assert os.wait()[1] == 0  # it has ended after the first group
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
for number in (1, 2, 3) if r == 0 else (1,) if first_of_rank_1 else (2, 3):
    begin("the same store", timeout=minute)
    assert sum_is_right()
    if r == 0:
        assert dist.recv(taken := torch.zeros(1)) == 1 and taken.item() == number, "a message of an earlier world"
    else:
        dist.send(torch.tensor([float(number)]), 0)
    dist.barrier()
    dist.destroy_process_group()
if first_of_rank_1:
    os._exit(0)
"""


def test_a_process_that_is_new_meets_one_that_has_been_in_groups_before(tmp_path):
    passes(tmp_path, BEGIN + AGAIN)


LEFT_OVER = """
LAUNCHERS = [("RANK", "WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("PACELINE_RANK", "PACELINE_WORKERS")]
others = {name: value for name, value in os.environ.items() if not name.startswith(("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_"))}
for names in LAUNCHERS:
    for kind, values in enumerate(((r, n), (n - 1 - r, n), (7, 9), ("x", ""))):
        os.environ.clear()
        os.environ.update(others, **dict(zip(names, map(str, values))))
        begin(f"{names} {kind}")
        assert sum_is_right(), names
        dist.destroy_process_group()
"""


def test_what_launchers_have_left_in_the_environment_does_not_matter_where_the_script_says_all(tmp_path):
    passes(tmp_path, STORE + LEFT_OVER)


IN_GLOO = """
dist.init_process_group("gloo", store=dist.PrefixStore("gloo", store), rank=r, world_size=n)
for ranks in ([0, 1], [1, 2], [0, 1, 2], [2], [0, 2]):
    group = dist.new_group(ranks, backend="paceline", pg_options=paceline.torch.GroupOptions(rank_order=len(ranks) == 2))
    if r in ranks:
        assert sum_is_right(group, len(ranks)), ranks
        if len(ranks) == 2:  # and what two of them send
            dist.send(torch.full((2,), float(r)), ranks[1], group=group) if r == ranks[0] else dist.recv(taken := torch.zeros(2), ranks[0], group=group)
            assert r == ranks[0] or taken.tolist() == [ranks[0]] * 2
dist.barrier()
assert sum_is_right()
os._exit(0)  # gloo's groups are not taken down
"""


def test_groups_in_a_world_of_another_backend_are_any_of_its_ranks(tmp_path):
    passes(tmp_path, STORE + IN_GLOO, ranks=3)
