"""init_process_group("paceline"): checkpoints, functional operations, hooks and tools of PyTorch that look at a group as at one of its own."""

from processes import passes, pythons

import pytest

BEGIN = """
import datetime, os, sys, tempfile, warnings, torch, torch.distributed as dist, paceline.torch
warnings.simplefilter("ignore")
dist.init_process_group("paceline", timeout=datetime.timedelta(minutes=3))
n, r = dist.get_world_size(), dist.get_rank()
folder = sys.argv[1]
"""

CHECKPOINTS = """
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
mesh = init_device_mesh("cpu", (n,))
assert {device.type for device in dist.group.WORLD._device_types} == {"cpu", "cuda"}

def made(seed):
    torch.manual_seed(seed)
    return fully_shard(torch.nn.Linear(8, 4), mesh=mesh)

whole = get_model_state_dict(made(1), options=StateDictOptions(full_state_dict=True, cpu_offload=True))
model = made(2)
set_model_state_dict(model, whole if r == 0 else {}, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
torch.manual_seed(1)
assert torch.equal(model.weight.full_tensor(), torch.nn.Linear(8, 4).weight)

group = dist.new_group()
dcp.async_save({"p": torch.ones(3) * 7}, checkpoint_id=f"{folder}/async", process_group=group).result()
dcp.load(found := {"p": torch.zeros(3)}, checkpoint_id=f"{folder}/async")
assert found["p"].tolist() == [7] * 3

dcp.save({"w": distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])}, checkpoint_id=f"{folder}/meta")
found = {"w": DTensor.from_local(torch.empty(4, device="meta"), mesh, [Shard(0)])}
dcp.load(found, checkpoint_id=f"{folder}/meta")
assert found["w"].full_tensor().tolist() == list(range(8))

torch.manual_seed(0)
model = FSDP(torch.nn.Linear(8, 4), device_id=torch.device("cpu"))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
model(torch.ones(2, 8)).sum().backward()
optimizer.step()
whole = FSDP.full_optim_state_dict(model, optimizer)
optimizer.load_state_dict(FSDP.scatter_full_optim_state_dict(whole if r == 0 else None, model))
assert len(optimizer.state) == 1
dist.destroy_process_group()
"""


@pytest.mark.parametrize("python", pythons())
def test_checkpoints_of_sharded_models_and_optimizers_are_saved_and_loaded(python, tmp_path):
    passes(tmp_path, BEGIN + CHECKPOINTS, tmp_path, python=python())


FUNCTIONAL = """
functional, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
mine = torch.arange(2.0) + r
CALLS = {
    "all_reduce": (lambda: functional.all_reduce(mine, "sum", name), [1, 3]),
    "all_reduce_": (lambda: functional.all_reduce_(mine.clone(), "sum", name), [1, 3]),
    "all_reduce_coalesced": (lambda: functional.all_reduce_coalesced([mine], "sum", name)[0], [1, 3]),
    "all_gather_into_tensor": (lambda: functional.all_gather_into_tensor(mine, n, name), [0, 1, 1, 2]),
    "all_gather_into_tensor_out": (lambda: functional.all_gather_into_tensor_out(mine, n, name, out=torch.empty(4)), [0, 1, 1, 2]),
    "all_gather_into_tensor_coalesced": (lambda: functional.all_gather_into_tensor_coalesced([mine], n, name)[0], [0, 1, 1, 2]),
    "reduce_scatter_tensor": (lambda: functional.reduce_scatter_tensor(mine, "sum", n, name), [1 + 2 * r]),
    "reduce_scatter_tensor_out": (lambda: functional.reduce_scatter_tensor_out(mine, "sum", n, name, out=torch.empty(1)), [1 + 2 * r]),
    "reduce_scatter_tensor_coalesced": (lambda: functional.reduce_scatter_tensor_coalesced([mine], "sum", n, name)[0], [1 + 2 * r]),
    "all_to_all_single": (lambda: functional.all_to_all_single(mine, [1, 1], [1, 1], name), [r, r + 1]),
    "broadcast": (lambda: functional.broadcast(mine, 1, name), [1, 2]),
}
for call, (run, expected) in CALLS.items():
    assert functional.wait_tensor(run()).tolist() == expected, call
dist.destroy_process_group()
"""


def test_functional_operations_that_ask_in_cpp_are_done_too(tmp_path):
    passes(tmp_path, BEGIN + FUNCTIONAL, tmp_path)


HOOK = """
def gradients(hook):
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(64, 2)), bucket_cap_mb=0.0001)
    model._register_builtin_comm_hook(hook) if hook is not None else None
    for _ in range(3):  # buckets are made anew after the first
        model.zero_grad()
        model(torch.ones(3, 4) * (r + 1)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]

plain = gradients(None)
for hook in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
    for one, other in zip(gradients(hook), plain, strict=True):
        assert one.dtype is torch.float32 and torch.allclose(one, other, rtol=1e-2, atol=1e-2), hook
half = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).half())
half(torch.ones(3, 4).half()).sum().backward()
assert half.module.weight.grad.tolist() == [[3.0] * 4] * 2
dist.destroy_process_group()
"""


def test_the_hooks_that_distributed_data_parallel_has_built_in_work(tmp_path):
    passes(tmp_path, BEGIN + HOOK, tmp_path)


TOOLS = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.profiler import profile
one, whole = torch.ones(2), torch.ones(4)
CALLS = {
    "allreduce_": lambda: dist.all_reduce(one), "_allgather_base_": lambda: dist.all_gather_into_tensor(whole, one), "broadcast_": lambda: dist.broadcast(one, 0),
    "_reduce_scatter_base_": lambda: dist.reduce_scatter_tensor(torch.ones(2), whole), "allgather_": lambda: dist.all_gather([torch.ones(2), torch.ones(2)], one),
    "reduce_": lambda: dist.reduce(one, 0), "alltoall_base_": lambda: dist.all_to_all_single(torch.ones(2), one),
    "gather_": lambda: dist.gather(one, [torch.ones(2)] * 2 if r == 0 else None), "scatter_": lambda: dist.scatter(one, [torch.ones(2)] * 2 if r == 0 else None),
    "reduce_scatter_": lambda: dist.reduce_scatter(torch.ones(2), [torch.ones(2)] * 2), "alltoall_": lambda: dist.all_to_all([torch.ones(2)] * 2, [torch.ones(2)] * 2),
}
for name, call in CALLS.items():
    with CommDebugMode() as counted:
        call()
        dist.barrier()
    assert {str(operation).split(".")[-1]: times for operation, times in counted.get_comm_counts().items()} == {name: 1}, (name, counted.get_comm_counts())
with CommDebugMode() as outer, CommDebugMode() as inner:
    work = dist.all_reduce(sum := torch.ones(2), async_op=True)
    work.wait()
assert sum.tolist() == [2.0] * 2 and outer.get_total_counts() == inner.get_total_counts() == 1

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
for part in (*model, model):
    fully_shard(part, mesh=init_device_mesh("cpu", (n,)))
with CommDebugMode() as counted:
    model(torch.ones(2, 8)).sum().backward()
assert counted.get_total_counts() >= 4, counted.get_comm_counts()

with profile() as seen:
    dist.all_reduce(one)
    dist.barrier()
assert {"c10d::allreduce_", "paceline:all_reduce", "paceline:barrier"} <= {event.key for event in seen.key_averages()}

with FakeTensorMode():
    fake = torch.ones(2)
    for call in (lambda: dist.all_reduce(fake), lambda: dist.all_gather_into_tensor(torch.ones(4), fake), lambda: dist.barrier(), lambda: dist.broadcast(fake, 0)):
        call()
dist.all_reduce(last := torch.ones(1))
assert last.item() == 2
dist.destroy_process_group()
"""


def test_tools_that_look_at_operations_see_them(tmp_path):
    passes(tmp_path, BEGIN + TOOLS, tmp_path)
