"""init_process_group("paceline"): how it is found and begun, once and again, and its options."""

import os
import subprocess
import sys

import pytest
from processes import installed, newest_torch, passes, pythons, variables

from jobs import PROGRAM

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

DDP_BACKEND = """
import os, unittest.mock, accelerate, torch
with unittest.mock.patch("torch.cuda.is_available", lambda: True), unittest.mock.patch.dict(os.environ, LOCAL_RANK="0"):
    assert accelerate.PartialState._prepare_backend(None, backend="paceline")[0] == "paceline"  # TrainingArguments' word, and what init_process_group gets
"""


def test_accelerate_hands_the_word_of_ddp_backend_on_where_there_are_gpus():
    done = subprocess.run([sys.executable, "-c", DDP_BACKEND], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


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
    passes(tmp_path, POLLED)


DROPPED = """
import time, torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline")
n, r = dist.get_world_size(), dist.get_rank()
tensors = [torch.full((size,), r + 1, dtype=kind) for kind in (torch.int64, torch.float32) for size in (3, 1000)]
for tensor in tensors:
    dist.all_reduce(tensor, async_op=True)
end = time.monotonic() + 60
while not all(tensor.tolist() == [3] * len(tensor) for tensor in tensors):
    assert time.monotonic() < end, tensors
    time.sleep(0.01)
dist.destroy_process_group()
"""


def test_what_nobody_waits_for_comes_all_the_same(tmp_path):
    passes(tmp_path, DROPPED)


TWO_BACKENDS = """
import torch, torch.distributed as dist, paceline.torch
dist.init_process_group("cpu:paceline,cuda:gloo")
group = dist.group.WORLD
ours, other = group._get_backend(torch.device("cpu")), group._get_backend(torch.device("cuda"))
assert isinstance(ours, paceline.torch.backend.process_group.Group) and type(other).__name__ == "ProcessGroupGloo", (ours, other)
dist.all_reduce(t := torch.ones(3))
assert t.tolist() == [2.0] * 3
dist.destroy_process_group()
"""


@pytest.mark.full
def test_each_kind_of_device_has_a_backend_of_its_own(tmp_path):
    passes(tmp_path, TWO_BACKENDS, python=newest_torch())



@pytest.mark.parametrize("python", pythons())
def test_an_installed_package_needs_no_import(python, tmp_path):
    passes(tmp_path, INSTALLED, path=[installed(tmp_path)], python=python())


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
    passes(tmp_path, IN_ORDER, key, ranks=3)


HOSTS = """
import sys, torch, torch.distributed as dist, paceline.torch as pt
rank, master = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("paceline", init_method=f"tcp://{master}:4175", rank=rank, world_size=2, pg_options=pt.GroupOptions(security="none"))
dist.all_reduce(t := torch.ones(3))
assert t.tolist() == [2.0] * 3
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job = pt.attach(model, optimizer, security="none")
assert (job.rank, job.workers) == (rank, 2)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
job.close()
dist.destroy_process_group()
"""


@pytest.mark.full
def test_without_a_launcher_hosts_find_the_address_and_attach_the_groups_ranks(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(HOSTS)
    lab = [PROGRAM, "lab", "--hosts", "2", "--rate", "100mbit", "--measure", "0s", "--limit", "120s", "--", sys.executable, str(script), "{host}", "{address:0}"]
    ran = subprocess.run(lab, capture_output=True, text=True, timeout=200, env=variables())
    assert ran.returncode == 0, ran.stdout + ran.stderr


CONTRADICTS = """
import torch, torch.distributed as dist, paceline, paceline.torch as pt
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(2, 2)
try:
    pt.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
except paceline.PacelineError as error:
    assert "of 2 by torchrun's variables and rank 0 of 1 in the script's process group" in str(error), error
else:
    raise SystemExit("no error")
dist.destroy_process_group()
"""


def test_a_group_that_contradicts_the_launcher_is_refused_with_both(tmp_path):
    passes(tmp_path, CONTRADICTS)


BESIDE_A_SOCKET = """
import datetime, os, torch, torch.distributed as dist, paceline.torch
os.environ.update(PACELINE_RANK=os.environ["RANK"], PACELINE_WORKERS="2", PACELINE_COORDINATOR="unix:/tmp/nobody-listens-here")
dist.init_process_group("paceline", timeout=datetime.timedelta(days=30))  # longer than the library can wait
dist.all_reduce(t := torch.ones(3))
assert t.tolist() == [2.0] * 3
dist.destroy_process_group()
"""


BY_IPV6 = """
import torch, torch.distributed as dist, paceline._addresses, paceline.torch as pt
paceline._addresses.bound = lambda *_: "::1"
dist.init_process_group("paceline")
dist.all_reduce(t := torch.ones(3))
assert t.tolist() == [2.0] * 3
model = torch.nn.Linear(2, 1)
with pt.attach(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.1), place=pt.Place(bind="::1")) as job:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert job.workers == 2
dist.destroy_process_group()
"""


def test_hosts_of_ipv6_meet_too(tmp_path):
    passes(tmp_path, BY_IPV6)


def test_a_group_in_a_job_that_talks_through_sockets_of_unix_is_on_the_loopback(tmp_path):
    passes(tmp_path, BESIDE_A_SOCKET)
