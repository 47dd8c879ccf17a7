"""init_process_group("paceline"): what gloo gives, and a sentence where gloo gives wrong numbers."""

import itertools
import json

import pytest
from processes import HERE, pythons, torchrun


def results(tmp_path, script, backend, ranks, python):
    ran = torchrun(script, backend, tmp_path, ranks=ranks, python=python())
    assert ran.returncode == 0, f"{backend}, {ranks} ranks: {ran.stderr[-3000:]}"
    return [json.loads((tmp_path / f"{backend}-{ranks}-{rank}").read_text()) for rank in range(ranks)]


def matrix(folder, backend, ranks, python, device="cpu"):
    """What each rank has after every operation with every element type, for tensors of `device`."""
    ran = torchrun(HERE / "group_matrix.py", backend, folder, device, ranks=ranks, python=python())
    assert ran.returncode == 0, f"{backend}, {ranks} ranks: {ran.stderr[-3000:]}"
    return [json.loads((folder / f"{backend}-{device}-{ranks}-{rank}").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", (3, *(pytest.param(ranks, marks=pytest.mark.full) for ranks in (2, 4, 7))))
@pytest.mark.parametrize("python", pythons())
def test_every_operation_gives_what_gloo_gives(ranks, python, tmp_path):
    ours, theirs = (matrix(tmp_path, backend, ranks, python) for backend in ("paceline", "gloo"))
    for rank in range(ranks):
        assert len(ours[rank]) > 150
        assert {what: found for what, found in ours[rank].items() if found != theirs[rank][what]} == {}, f"rank {rank}"


TRAINERS = """
import json, os, sys, warnings, beside_gloo, torch, torch.distributed as dist, torch.nn as nn
warnings.simplefilter("ignore")
backend, folder = sys.argv[1:]
if backend == "paceline":
    import paceline.torch
dist.init_process_group(backend)
n, r = dist.get_world_size(), dist.get_rank()
DDP = nn.parallel.DistributedDataParallel

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))

def train(model, optimizer, steps=20):
    for step in range(steps):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(100 * step + r))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return model

def bits(tensors):
    return [t.detach().double().sum().item().hex() for t in tensors]

found = {}
for name, choices in (("plain", {}), ("bucket view, static", dict(gradient_as_bucket_view=True, static_graph=True)), ("unused", dict(find_unused_parameters=True)), ("small buckets", dict(bucket_cap_mb=0.001))):
    model = DDP(net(), **choices)
    found[f"DDP, {name}"] = bits(train(model, torch.optim.SGD(model.parameters(), lr=0.1)).state_dict().values())

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
model = DDP(net())
model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=3), powerSGD_hook.powerSGD_hook)
found["PowerSGD"] = bits(train(model, torch.optim.SGD(model.parameters(), lr=0.1)).state_dict().values())

from torch.distributed.optim import ZeroRedundancyOptimizer
model = DDP(net())
found["ZeRO"] = bits(train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)).state_dict().values())

model = torch.compile(DDP(net()), backend="aot_eager")
found["compiled DDP"] = bits(train(model, torch.optim.SGD(model.parameters(), lr=0.1)).state_dict().values())

model = DDP(net())
with model.join():
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 4 + r)
found["join"] = bits(model.state_dict().values())

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
mesh = init_device_mesh("cpu", (n,))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
with torch.no_grad():
    for k, parameter in enumerate(model.parameters()):
        parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(k)))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
train(model, torch.optim.Adam(model.parameters(), lr=0.01))
found["FSDP2"] = bits(parameter.full_tensor() for parameter in model.parameters())

import torch.distributed.checkpoint as dcp
dcp.save({"model": model.state_dict()}, checkpoint_id=f"{folder}/dcp-{backend}")
with torch.no_grad():
    for parameter in model.parameters():
        parameter.zero_()
state = {"model": model.state_dict()}
dcp.load(state, checkpoint_id=f"{folder}/dcp-{backend}")
model.load_state_dict(state["model"])
found["checkpoint of FSDP2"] = bits(parameter.full_tensor() for parameter in model.parameters())

torch.manual_seed(0)
model = FullyShardedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), device_id=torch.device("cpu"))
train(model, torch.optim.SGD(model.parameters(), lr=0.1))
with FullyShardedDataParallel.summon_full_params(model):
    found["FSDP1"] = bits(model.parameters())

import torch.distributed._functional_collectives as functional
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
found["functional"] = bits([
    functional.all_gather_tensor(torch.ones(2) * r, 0, dist.group.WORLD), functional.reduce_scatter_tensor(torch.ones(2 * n), "sum", 0, dist.group.WORLD),
    functional.all_to_all_single(torch.ones(n) * r, None, None, dist.group.WORLD), *functional.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "sum", dist.group.WORLD),
    functional.broadcast(torch.ones(2) * r, 0, dist.group.WORLD)])
found["DTensor"] = bits([distribute_tensor(torch.arange(8.0), mesh, [Shard(0)]).redistribute(mesh, [Replicate()]).to_local()])
open(os.path.join(folder, f"{backend}-{n}-{r}"), "w").write(json.dumps(found))
beside_gloo.end()
"""


@pytest.mark.parametrize("python", pythons())
def test_what_trains_on_gloo_trains_on_it_with_the_same_bits(python, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINERS)
    ours, theirs = (results(tmp_path, script, backend, 2, python) for backend in ("paceline", "gloo"))
    assert len(ours[0]) >= 13
    for rank in range(2):
        assert {what: (found, theirs[rank][what]) for what, found in ours[rank].items() if found != theirs[rank][what]} == {}


DISAGREE = """
import functools, itertools, json, os, sys, torch, torch.distributed as dist, paceline.torch
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
n, r = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
f, i = torch.ones(4), torch.ones(4, dtype=torch.int64)
CALLS = {
    "count": lambda: dist.all_reduce(torch.ones(4 + r)),
    "type": lambda: dist.all_reduce(f if r else f.double()),
    "operation": lambda: dist.all_reduce(f, dist.ReduceOp.SUM if r else dist.ReduceOp.MAX),
    "call": lambda: dist.all_reduce(f) if r else dist.broadcast(f, 0),
    "root": lambda: dist.broadcast(f, r),
    "count of bytes": lambda: dist.broadcast(torch.ones(4 + r, dtype=torch.int64), 0),
    "type of bytes": lambda: dist.broadcast(i if r else i.view(torch.complex64), 0),
    "root of bytes": lambda: dist.broadcast(i, r),
    "operation of bytes": lambda: dist.all_reduce(i, dist.ReduceOp.SUM if r else dist.ReduceOp.MAX),
    "call of bytes": lambda: dist.all_reduce(i) if r else dist.broadcast(i, 0),
    "bytes and numbers": lambda: dist.broadcast(f if r else i, 0),
    "gathered": lambda: dist.all_gather([torch.empty(3 + r) for _ in range(2)], torch.empty(3 + r)),
    "barrier": lambda: dist.barrier() if r else dist.all_reduce(f),
    "parts that do not fit": lambda: dist.all_to_all_single(torch.empty(3), torch.empty(3), [1, 2], [1, 2]),
    "nothing for something": lambda: dist.all_to_all_single(torch.empty(1 + r), torch.empty(2), [1, r], [1, 1]),
    "gathered on one, count": lambda: dist.gather(torch.ones(2 + r), [torch.ones(2), torch.ones(2)] if r == 0 else None, 0),
    "scattered, type": lambda: dist.scatter(torch.ones(2, dtype=torch.int32) if r else f[:2], [f[:2], f[2:]] if r == 0 else None, 0),
    "types of one size": lambda: dist.broadcast(torch.ones(3, dtype=torch.int8 if r else torch.bool), 0),
    "sent": lambda: dist.send(torch.ones(3), 1) if r == 0 else dist.recv(torch.empty(2), 0),
    "sent, type": lambda: dist.send(torch.ones(2), 1) if r == 0 else dist.recv(torch.ones(2, dtype=torch.int32), 0),
}
def ones(kind, count=4):
    return torch.ones(count, dtype=kind)

# Any two of these differ; of each pair rank 0 calls the first and rank 1 the second.
ALL = {f"{name} {str(kind)[6:]}": functools.partial(call, kind) for kind in (torch.float32, torch.uint8) for name, call in {
    "all_reduce": lambda kind: dist.all_reduce(ones(kind)),
    "reduce": lambda kind: dist.reduce(ones(kind), 1),
    "broadcast": lambda kind: dist.broadcast(ones(kind), 1),
    "all_gather": lambda kind: dist.all_gather([ones(kind), ones(kind)], ones(kind)),
    "reduce_scatter": lambda kind: dist.reduce_scatter_tensor(ones(kind, 2), ones(kind)),
    "gather": lambda kind: dist.gather(ones(kind), [ones(kind), ones(kind)] if r == 1 else None, 1),
    "scatter": lambda kind: dist.scatter(ones(kind), [ones(kind), ones(kind)] if r == 1 else None, 1),
    "all_to_all": lambda kind: dist.all_to_all_single(ones(kind), ones(kind)),
}.items()}
if sys.argv[2] == "pairs":
    CALLS = {f"{one} and {other}": ALL[other if r else one] for one, other in itertools.combinations(ALL, 2)}

said = {}
for case, call in CALLS.items():
    dist.init_process_group("paceline", store=dist.PrefixStore(case, store), rank=r, world_size=n)
    try:
        call()
        said[case] = "nothing"
    except RuntimeError as error:
        said[case] = f"{type(error).__name__}: {error}"
    dist.destroy_process_group()
open(os.path.join(sys.argv[1], f"said-{r}"), "w").write(json.dumps(said))
"""
CASES = [
    "count", "type", "operation", "call", "root", "count of bytes", "type of bytes", "root of bytes", "operation of bytes", "call of bytes", "bytes and numbers", "gathered", "barrier",
    "parts that do not fit", "nothing for something", "gathered on one, count", "scattered, type", "types of one size", "sent", "sent, type",
]  # fmt: skip
ALL = [f"{name} {kind}" for kind in ("float32", "uint8") for name in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")]
PAIRS = [f"{one} and {other}" for one, other in itertools.combinations(ALL, 2)]


@pytest.mark.parametrize("which, cases", [("own", CASES), pytest.param("pairs", PAIRS, marks=pytest.mark.full)])
def test_ranks_that_call_something_else_all_fail_and_both_are_named(which, cases, tmp_path):
    (tmp_path / "disagree.py").write_text(DISAGREE)
    ran = torchrun(tmp_path / "disagree.py", tmp_path, which, limit=600)
    assert ran.returncode == 0, ran.stderr
    for rank in range(2):
        said = json.loads((tmp_path / f"said-{rank}").read_text())
        assert list(said) == cases
        for case, sentence in said.items():
            sentence = sentence.replace("ranks 0 and 1", "rank 0 and rank 1")
            assert sentence.startswith("PacelineError: ") and "rank 0" in sentence and "rank 1" in sentence, (case, sentence)


LOST = """
import os, sys, torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline")
r = dist.get_rank()
dist.barrier()
if r == 1:
    os._exit(0)  # with another status the launcher would end the others
try:
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    said = "nothing"
except RuntimeError as error:
    said = str(error)
open(os.path.join(sys.argv[1], "said"), "w").write(said)
os._exit(0)
"""


def test_a_rank_that_is_gone_is_named(tmp_path):
    (tmp_path / "lost.py").write_text(LOST)
    torchrun(tmp_path / "lost.py", tmp_path)
    said = (tmp_path / "said").read_text()
    assert "worker 1" in said or "rank 1" in said, said


REFUSED = """
import os, sys, torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
said = []
def refused(call):
    try:
        call()
        said.append("nothing")
    except (RuntimeError, ValueError) as error:
        said.append(str(error))
refused(lambda: dist.broadcast(torch.ones(2).to_sparse(), 0))
refused(lambda: dist.all_reduce(torch.ones(2).to_sparse(), dist.ReduceOp.MAX))
refused(lambda: dist.all_reduce(torch.empty(2, device="meta")))
refused(lambda: dist.group.WORLD.send([torch.ones(2)], r, 0))
refused(lambda: dist.all_gather_into_tensor(torch.empty(3), torch.empty(2)))
refused(lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND))
refused(lambda: dist.new_group([0, 1], backend="paceline", pg_options="fast"))
refused(lambda: dist.new_group([0, 1], backend="paceline", pg_options=paceline.torch.GroupOptions(rank_order=True)))
dist.all_reduce(torch.ones(1))  # nothing was harmed
for _ in range(3):  # of one name
    group = dist.new_group([0, 1], use_local_synchronization=True)
    dist.all_reduce(both := torch.ones(1), group=group)
    assert both.item() == 2
    dist.destroy_process_group(group)
open(os.path.join(sys.argv[1], f"said-{r}"), "w").write("\\n".join(said))
dist.destroy_process_group()
"""


def test_what_cannot_be_is_refused_and_harms_nothing(tmp_path):
    script = tmp_path / "refused.py"
    script.write_text(REFUSED)
    ran = torchrun(script, tmp_path)
    assert ran.returncode == 0, ran.stderr
    for rank in range(2):
        said = (tmp_path / f"said-{rank}").read_text().splitlines()
        parts = "a tensor is sparse_coo; give a dense one", "of sparse ones there is the sum only", "a tensor is on meta"
        parts += f"from rank {rank} to rank {rank} of 2", "legal: 2 times as many", "bits are of whole", "takes paceline.torch.GroupOptions", "those of the first one"
        for sentence, part in zip(said, parts, strict=True):
            assert part in sentence, said
