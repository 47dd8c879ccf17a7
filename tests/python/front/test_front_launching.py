"""What a script asks of its ranks beside training, and ranks that a prompt or a notebook starts."""

import pytest
from processes import alone, passes

MEANS = """
import torch, paceline.torch as pt
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer)
assert repr(job) == f"<Job: rank {job.rank} of 2, iteration 1, SGD: {job.stepping.partition(': ')[2]}>", repr(job)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
assert job.mean(float(job.rank)) == 0.5 and job.mean(2) == 2.0
both = job.mean(torch.tensor([[1.0, 10.0 * job.rank]], dtype=torch.bfloat16))
assert both.tolist() == [[1.0, 5.0]] and both.dtype == torch.bfloat16
assert torch.equal(job.mean(torch.tensor([3, 4 + job.rank])), torch.tensor([3.0, 4.5]))
assert job.mean(torch.zeros(0)).shape == (0,)
job.barrier()
model(torch.ones(2, 4)).sum().backward()  # and goes on
optimizer.step()
job.close()
assert "closed" in repr(job)
try:
    job.mean(1.0)
    raise AssertionError
except pt.PacelineError as error:
    assert "the job is closed" in str(error)
again = pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))  # meets elsewhere
assert again.mean(float(again.rank)) == 0.5
"""

ALONE = """
import torch, paceline.torch as pt
model = torch.nn.Linear(4, 4)
with pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1)) as job:
    assert job.mean(3.0) == 3.0
    job.barrier()
"""

LAUNCHES = """
import os, sys, torch, paceline.torch as pt

def train(how, steps):
    rank = int(os.environ["RANK"])
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    job = pt.attach(model, optimizer)  # and leaves it open
    for step in range(steps):
        if how == "raises" and rank == 1 and step == 2:
            raise ValueError("the data are gone")
        if how == "dies" and rank == 1 and step == 2:
            os._exit(9)
        model(torch.ones(2, 4) * (rank + 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return rank, [p.tolist() for p in model.parameters()]

torch.ones(300, 300) @ torch.ones(300, 300)  # the parent has threads by now
for _ in range(2):
    try:
        (zero, first), (one, second) = pt.launch(train, 2, sys.argv[1], 4)
        print("equal", zero, one, first == second)
    except pt.PacelineError as error:
        print("failed:", error)
"""


def test_ranks_agree_on_means_and_wait_for_each_other(tmp_path):
    passes(tmp_path, MEANS)


def test_a_rank_that_is_alone_is_its_own_mean(tmp_path):
    (tmp_path / "train.py").write_text(ALONE)
    assert (ran := alone(tmp_path / "train.py")).returncode == 0, ran.stderr


@pytest.mark.parametrize("how, said", (("trains", "equal 0 1 True"), ("raises", "failed: rank 1: ValueError: the data are gone"), ("dies", "failed: rank 1: its process ended with code 9")))
def test_a_prompt_starts_ranks_and_hears_what_they_return(tmp_path, how, said):
    (tmp_path / "train.py").write_text(LAUNCHES)
    ran = alone(tmp_path / "train.py", how, fresh=True)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith(said) for line in lines), (ran.stdout, ran.stderr)
