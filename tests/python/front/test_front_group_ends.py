"""init_process_group("paceline"): ranks that make other groups, leave groups, fail or are gone: the others hear it soon, by name."""

import subprocess

import pytest
from processes import LIMIT, interpreter_and_variables, passes

BEGIN = """
import datetime, os, sys, torch, torch.distributed as dist, paceline, paceline.torch
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
n, r = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
minutes = datetime.timedelta(minutes=3)

def begin(name):
    dist.init_process_group("paceline", store=dist.PrefixStore(name, store), rank=r, world_size=n, timeout=minutes)

def said(call):
    try:
        call()
        return "nothing"
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"

def meet(name, ranks=range(n)):  # not by the group
    store.set(f"{name} {r}", "")
    store.wait([f"{name} {rank}" for rank in ranks], minutes)
"""

# Of each: the lists of ranks 0, 1 and 2. Whoever comes first.
LISTS = """
CASES = [([0, 1], [0, 1, 2], [0, 1, 2]), ([0, 1, 2], [0, 1, 2], [1, 2]), ([0, 2], [0, 1], [0, 2]), ([0], [0, 1], [0, 1])]
for number, case in enumerate(CASES):
    for late in (0, 1):
        name = f"{number} {late}"
        begin(name)
        if r == late:
            store.wait([f"{name} begins"], minutes)
        else:
            store.set(f"{name} begins", "")
        mine = torch.ones(3) * 10**r
        sentence = said(lambda: dist.all_reduce(mine, group=dist.new_group(case[r]))) if r in case[r] else "no group"
        if sentence == "nothing":  # those of its list are of one mind, and have not heard of the others yet
            assert all(case[rank] == case[r] for rank in case[r]) and mine.tolist() == [sum(10**rank for rank in case[r])] * 3, (name, mine)
        if sentence in ("nothing", "no group"):
            sentence = said(dist.barrier)
        assert "PacelineError" in sentence and "disagree on the ranks of a group" in sentence, (name, sentence)
        assert all(str(one) in sentence for one in case if one != case[0]) and str(case[0]) in sentence, (name, sentence)
        meet(name)
        dist.destroy_process_group()
"""


def test_ranks_that_make_one_group_of_different_lists_all_fail_with_both_lists(tmp_path):
    passes(tmp_path, BEGIN + LISTS, ranks=3)


LEFT = """
begin("left")
group = dist.new_group([0, 1])
dist.all_reduce(torch.ones(100_000), group=group)
if r == 0:
    dist.destroy_process_group(group)
    store.set("closed", "")
else:
    store.wait(["closed"], minutes)
    sentence = said(lambda: dist.all_reduce(torch.ones(4), group=group))
    assert "rank 0 has closed the group of ranks [0, 1], in which rank 1 begins operation 2, allreduce" in sentence, sentence
"""


def test_who_calls_something_in_a_group_that_another_rank_has_left_hears_who(tmp_path):
    passes(tmp_path, BEGIN + LEFT + "os._exit(0)\n")


MANY = """
begin("tags")
one = torch.ones(4)
for step in range(600):
    dist.send(one * step, 1, tag=step) if r == 0 else dist.recv(one, 0, tag=step)
    assert r == 0 or one.tolist() == [step] * 4
dist.barrier()
assert len(dist.group.WORLD._point_to_point._pairs) == 0 and len(dist.group.WORLD._point_to_point._ending) == 0, "groups of tags that were used once are held"
for step in range(50):
    group = dist.new_group([0, 1])
    dist.all_reduce(both := torch.ones(2), group=group)
    assert both.tolist() == [2] * 2
    dist.destroy_process_group(group)
sent = [torch.full((3,), float(k)) for k in range(10_000)]
for k, tensor in enumerate(sent):  # beyond those that have a group each, and those that share one
    dist.send(tensor, 1, tag=7) if r == 0 else dist.recv(one[:3], 0, tag=7)
    assert r == 0 or one[0] == k
dist.destroy_process_group()
"""


def test_every_step_may_have_a_tag_or_a_group_of_its_own(tmp_path):
    passes(tmp_path, BEGIN + MANY)


NOBODY = """
begin("nobody")
if r == 2:
    dist.send(torch.full((3,), 2.0), 0)
    store.wait(["received"], minutes)
    os._exit(0)
if r == 1:
    os._exit(0)
assert dist.recv(taken := torch.zeros(3)) == 2 and taken.tolist() == [2.0] * 3
store.set("received", "")
sentence = said(lambda: dist.recv(taken))
assert "recv from any rank" in sentence and "ranks 1, 2 have left or failed" in sentence, sentence
os._exit(0)
"""


def test_a_receive_from_anybody_ends_when_nobody_is_there(tmp_path):
    passes(tmp_path, BEGIN + NOBODY, ranks=3)


RAISED = """
def raising(how):
    begin(how)
    try:
        dist.barrier()
        if r == 1:
            if how == "exits":
                sys.exit(3)
            if how == "raises":
                raise ValueError("bad sample on rank 1")
            return
        store.wait([f"{how}, left"], minutes)
        return said(lambda: dist.all_reduce(torch.ones(2)))
    finally:
        dist.destroy_process_group()
        store.set(f"{how}, left", "")

for how, words in (("raises", "it has failed: ValueError: bad sample on rank 1"), ("exits", "it has failed: SystemExit: 3"), ("returns", "it has finished")):
    try:
        sentence = raising(how)
    except (ValueError, SystemExit):
        sentence = ""
    assert r == 1 or words in sentence, sentence
"""


def test_the_others_hear_that_a_rank_has_failed_and_why_where_its_finally_destroys_the_group(tmp_path):
    passes(tmp_path, BEGIN + RAISED)


ENDED = """
import sys, torch, torch.distributed as dist, paceline.torch
from _sitebuiltins import Quitter
exit = Quitter("exit", "")
folder, r = sys.argv[1], int(sys.argv[2])
dist.init_process_group("paceline", init_method=f"file://{folder}/meeting", rank=r, world_size=3)
dist.barrier()
if r == 1:
    HOW
try:
    while True:
        dist.all_reduce(torch.ones(1000))
except RuntimeError as error:
    print(error)
"""
HOWS = {"sys.exit(3)": "it has failed: SystemExit: 3", "exit(3)": "it has failed: SystemExit: 3", "raise ValueError('bad')": "it has failed: ValueError: bad", "sys.exit(0)": "it has finished"}


@pytest.mark.parametrize("how", HOWS)
def test_the_others_hear_how_a_rank_has_ended_that_has_not_left_its_group(tmp_path, how):
    (tmp_path / "train.py").write_text(ENDED.replace("HOW", how))
    interpreter, environment = interpreter_and_variables(False, {})
    ranks = [subprocess.Popen([interpreter, tmp_path / "train.py", tmp_path, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) for rank in range(3)]
    try:
        said = [rank.communicate(timeout=LIMIT) for rank in ranks]
        assert ranks[1].returncode == (0 if "(0)" in how else 3 if "(3)" in how else 1), said[1]
        assert HOWS[how] in said[0][0] and said[0][0] == said[2][0], said
    finally:
        for rank in ranks:
            rank.kill()
