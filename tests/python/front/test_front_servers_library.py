"""Server mode over libpaceline: real processes, real servers."""

import json

import nets
from loops import bits
from server_rows import OPTIMIZERS, plain_on_servers
from test_front_library import torchrun
from test_front_servers import mlp_loop

RANKS = 2
CASES = {
    "SGD with momentum": {},
    "AdamW, groups": dict(settings={"schedule": "p3"}),
    "Adagrad": dict(settings={"schedule": "slicing", "slice": "10"}),
    "Nesterov, groups": dict(settings={"schedule": "ibatch"}),
    "Adam": dict(settings={"non-finite": "skip"}),
}
SCRIPT = """
import json, os, sys, torch, nets, paceline.torch as pt
from loops import bits
from server_rows import OPTIMIZERS
from test_front_servers import mlp_loop
from test_front_servers_library import CASES
torch.set_num_threads(1)
found = {}
for name, choices in CASES.items():
    make, schedule = OPTIMIZERS[name]
    model = nets.mlp()
    if os.environ["RANK"] != "0":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    optimizer = make(model)
    job = pt.attach(model, optimizer, update="server", **choices)
    for _ in mlp_loop(5, schedule)(model, optimizer, job.rank, job, []):
        pass
    job.close()
    found[name] = bits(list(model.parameters()))
open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").write(json.dumps(found))
"""


def run(script, tmp_path):
    (tmp_path / "train.py").write_text(script)
    return torchrun(tmp_path / "train.py", tmp_path)


def found_by(script, tmp_path):
    ran = run(script, tmp_path)
    assert ran.returncode == 0, ran.stderr
    return [json.loads((tmp_path / str(rank)).read_text()) for rank in range(RANKS)]


def test_optimizers_on_servers_have_the_bits_of_the_plain_arithmetic_whatever_the_schedule(tmp_path):
    found = found_by(SCRIPT, tmp_path)
    for name in CASES:
        make, schedule = OPTIMIZERS[name]
        expected = plain_on_servers(RANKS, nets.mlp(), make, mlp_loop(5, schedule))
        assert [of[name] for of in found] == [bits(list(model.parameters())) for model, _, _ in expected], name


UNEVEN = """
import json, os, sys, torch, nets, paceline.torch as pt
from loops import bits
torch.set_num_threads(1)
found = {}
for sync, more in (("asp", {}), ("ssp", dict(staleness=2)), ("elastic-bsp", {})):
    model = nets.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    with pt.attach(model, optimizer, update="server", sync=sync, **more) as job:
        losses = []
        for iteration in range(30 + 5 * job.rank):
            x, y = nets.numbers(iteration % 3, 0, (5, 4))  # the same of both: nobody unlearns what the other has, whoever is ahead
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    found[sync] = [bits(list(model.parameters())), sum(losses[:3]), sum(losses[-3:])]
open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").write(json.dumps(found))
"""


def test_ranks_that_are_apart_learn_and_end_with_the_same_parameters(tmp_path):
    found = found_by(UNEVEN, tmp_path)
    for sync in found[0]:
        assert found[0][sync][0] == found[1][sync][0], sync
        for rank in found:
            assert rank[sync][2] < rank[sync][1], f"{sync}: {rank[sync]}"


DISAGREE = """
import sys, nets, torch, paceline.torch as pt
model = nets.mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer, update="server")
if job.rank == 1:
    optimizer.param_groups[0]["lr"] = 0.2
for iteration in range(3):
    nets.backward(model, iteration, job.rank)
    optimizer.step()
    optimizer.zero_grad()
"""


def test_ranks_that_set_other_rates_are_named(tmp_path):
    ran = run(DISAGREE, tmp_path)
    assert ran.returncode != 0
    assert "has the learning rate 0." in ran.stderr and "in bsp all workers set the same" in ran.stderr, ran.stderr



RESUMED = """
import json, os, sys, torch, nets, paceline.torch as pt
from loops import bits
from server_rows import OPTIMIZERS
from test_front_servers_library import CASES
torch.set_num_threads(1)
rank = int(os.environ["RANK"])

def train(model, optimizer, choices, iterations, saves):
    with pt.attach(model, optimizer, update="server", **choices) as job:
        for iteration in iterations:
            nets.backward(model, iteration, rank)
            optimizer.step()
            optimizer.zero_grad()
        return optimizer.state_dict() if saves else None

def planes(state_dict):
    return [[bits(state[name]) for name in sorted(state)] for state in state_dict["state"].values()]

found = {}
for name, choices in CASES.items():
    make, _ = OPTIMIZERS[name]
    straight = nets.mlp()
    last = train(straight, make(straight), choices, range(4), True)
    model = nets.mlp()
    saved = train(model, make(model), choices, range(2), rank == 0)  # nobody else asks
    optimizer = make(model)
    if rank == 0:
        optimizer.load_state_dict(saved)
    again = train(model, optimizer, choices, range(2, 4), True)
    found[name] = [bits(list(model.parameters())) == bits(list(straight.parameters())), planes(again) == planes(last), len(planes(again))]

apart = nets.mlp()
state = train(apart, torch.optim.Adam(apart.parameters()), dict(sync="asp"), range(5 + rank), True)
found["asp"] = [True, all(int(held["step"]) >= 5 and held["exp_avg"].abs().sum() > 0 for held in state["state"].values()), len(state["state"])]
open(f"{sys.argv[1]}/{os.environ['RANK']}", "w").write(json.dumps(found))
"""


def test_a_job_goes_on_from_the_state_that_servers_were_asked_for(tmp_path):
    for rank, found in enumerate(found_by(RESUMED, tmp_path)):
        assert found == {name: [True, True, 6] for name in [*CASES, "asp"]}, f"rank {rank}"
