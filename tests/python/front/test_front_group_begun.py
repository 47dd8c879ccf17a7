"""init_process_group("paceline"): how it is found and begun, once and again, and its options."""

import os

import pytest
from processes import installed, newest_torch, pythons, torchrun

INSTALLED = """
import os, sys, torch, torch.distributed as dist
assert "paceline" not in sys.modules or "paceline.torch" not in sys.modules
dist.init_process_group("paceline")
t = torch.ones(3)
dist.all_reduce(t)
assert t.tolist() == [2.0] * 3 and dist.get_backend() == "paceline"
dist.destroy_process_group()
dist.init_process_group("paceline")  # in the same store
group = dist.new_group([0, 1])
dist.barrier(group=group)
assert dist.all_reduce(t, async_op=True).get_future().wait()[0].tolist() == [4.0] * 3  # and the script ends without destroying its group
"""

POLLED = """
import time, torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline")
work = dist.all_reduce(t := torch.ones(1000), async_op=True)
while not work.is_completed():
    time.sleep(0.001)
assert work.is_success() and work.exception() is None and t.tolist() == [2.0] * 1000
dist.destroy_process_group()
"""


def test_asking_until_it_is_over_moves_it_on(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(POLLED)
    ran = torchrun(script)
    assert ran.returncode == 0, ran.stderr


TWO_BACKENDS = """
import torch, torch.distributed as dist, paceline.torch
dist.init_process_group("cpu:paceline,cuda:gloo")
group = dist.group.WORLD
ours, other = group._get_backend(torch.device("cpu")), group._get_backend(torch.device("cuda"))
assert isinstance(ours, paceline.torch.process_group.Group) and type(other).__name__ == "ProcessGroupGloo", (ours, other)
dist.all_reduce(t := torch.ones(3))
assert t.tolist() == [2.0] * 3
dist.destroy_process_group()
"""


@pytest.mark.full
def test_each_kind_of_device_has_a_backend_of_its_own(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TWO_BACKENDS)
    ran = torchrun(script, python=newest_torch())
    assert ran.returncode == 0, ran.stderr



@pytest.mark.parametrize("python", pythons())
def test_an_installed_package_needs_no_import(python, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(INSTALLED)
    ran = torchrun(script, path=[installed(tmp_path)], python=python())
    assert ran.returncode == 0, ran.stderr


IN_ORDER = """
import os, sys, torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline", pg_options=paceline.torch.GroupOptions(rank_order=True, job_key_file=sys.argv[1]))
n, r = dist.get_world_size(), dist.get_rank()
parts = [torch.randn(70_000, generator=torch.Generator().manual_seed(k)) * 10.0 ** (3 * k) for k in range(n)]
expected = parts[0].clone()
for part in parts[1:]:
    expected += part
for size in (3, 1000, 70_000):
    mine = parts[r][:size].clone()
    dist.all_reduce(mine)
    assert torch.equal(mine, expected[:size]), f"{size} elements are not added in the order of the ranks"
    dist.reduce(mine := parts[r][:size].clone(), 0)
    assert torch.equal(mine, (parts[r] if r else expected)[:size]), "to a rank that is not the last"
dist.destroy_process_group()

dist.init_process_group("paceline", store=dist.PrefixStore("narrow", dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)), rank=r, world_size=n,
                        pg_options=paceline.torch.GroupOptions(rank_order=True, wire="bfloat16"))
parts = [torch.randn(1000, generator=torch.Generator().manual_seed(k)) for k in range(n)]
half = dist.new_group(list(range(n)))
expected = parts[0].bfloat16()
for part in parts[1:]:
    expected = expected + part.bfloat16()
for group in (None, half):
    mine = parts[r].clone()
    dist.all_reduce(mine, group=group)
    assert torch.equal(mine, expected.float()), "each rounded, and each sum"
most = parts[r].clone()
dist.all_reduce(most, dist.ReduceOp.MAX)
assert torch.equal(most, torch.stack(parts).max(0).values), "only sums are rounded"
dist.destroy_process_group()
"""


def test_sums_in_the_order_of_the_ranks_encrypted_or_narrow(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    script = tmp_path / "train.py"
    script.write_text(IN_ORDER)
    ran = torchrun(script, key, ranks=3)
    assert ran.returncode == 0, ran.stderr
