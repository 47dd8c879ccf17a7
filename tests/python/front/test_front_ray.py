"""Ray Train, started for real: its TorchTrainer with the backend "paceline", and attach() by PacelineConfig, also with a worker killed, and with
servers as actors, of which one is killed.

In a network of its own that has nothing but the loopback: Ray takes the machine's address where there is one.
"""

import json
import subprocess

import pytest
from processes import environment_of, installed, variables

from jobs import PROGRAM

TRAIN = """
import json, os, sys, tempfile
os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
import ray, ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from paceline.torch.ray import PacelineConfig

folder = sys.argv[1]
key = f"{folder}/job.key"

def group(_):
    import torch, torch.distributed as dist
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    dist.all_reduce(t := torch.ones(3))
    with open(f"{folder}/group {dist.get_rank()}", "w") as file:
        file.write(f"{dist.get_backend()} {t[0].item()}")

def attached(_):
    import os, signal, torch, paceline.torch as pt
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = 0
    if saved := ray.train.get_checkpoint():
        with saved.as_directory() as place:
            state = torch.load(f"{place}/state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    job = pt.attach(model, optimizer)
    for step in range(first, 20):
        draw = torch.Generator().manual_seed(100 * step + job.rank)
        torch.nn.functional.cross_entropy(model(torch.randn(4, 8, generator=draw)), torch.arange(4) % 3).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4:
            metrics = {**job.report(), "step": step + 1, "first": first, "servers": int(os.environ.get("PACELINE_SERVERS", 0)), "bits": [p.detach().double().sum().item().hex() for p in model.parameters()]}
            with tempfile.TemporaryDirectory() as place:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, f"{place}/state.pt")
                ray.train.report(metrics, checkpoint=Checkpoint.from_directory(place) if job.rank == 0 else None)
        if step == 12 and first == 0 and job.rank == 1 and lost == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 12 and first == 0 and job.rank == 1 and lost == "server":
            os.kill(server(), signal.SIGKILL)
    job.close()

def server():
    # The process of one, by the name that Ray gives it; in this network, as Ray may run beside this.
    import contextlib, pathlib
    network = os.readlink("/proc/self/ns/net")
    for place in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdigit() and b"ray::_Server" in (place / "cmdline").read_bytes() and os.readlink(place / "ns/net") == network:
                return int(place.name)

lost = ""
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
scale, found = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}), {}
TorchTrainer(group, torch_config=TorchConfig(backend="paceline"), scaling_config=scale, run_config=RunConfig(storage_path=folder, name="group")).fit()
found["whole"] = DataParallelTrainer(attached, backend_config=PacelineConfig(), scaling_config=scale, run_config=RunConfig(storage_path=folder, name="whole")).fit().metrics
for lost, servers in (("worker", 0), ("server", 2)):
    again = RunConfig(storage_path=folder, name=lost, failure_config=FailureConfig(max_failures=1))
    found[lost] = DataParallelTrainer(attached, backend_config=PacelineConfig(job_key_file=key, servers=servers), scaling_config=scale, run_config=again).fit().metrics
with open(f"{folder}/found", "w") as file:
    json.dump(found, file)
ray.shutdown()
"""


@pytest.mark.full
def test_ray_trains_by_both_ways_and_goes_on_after_a_lost_worker_or_server_with_the_same_bits(tmp_path):
    subprocess.run([PROGRAM, "key", "new", tmp_path / "job.key"], check=True)
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', str(environment_of("ray")), str(script), str(tmp_path)]
    # Ray starts thirty processes that import much, and beside compilers that takes a quarter of an hour.
    ran = subprocess.run(alone, capture_output=True, text=True, timeout=2400, env=variables(path=[installed(tmp_path)]))
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert [(tmp_path / f"group {rank}").read_text() for rank in range(2)] == ["paceline 2.0"] * 2
    found = json.loads((tmp_path / "found").read_text())
    assert found["whole"]["first"] == 0 and found["whole"]["seconds"] > 0, found
    for lost, servers in (("worker", 0), ("server", 2)):
        assert found[lost]["first"] in (5, 10) and found[lost]["servers"] == servers, found
        assert found[lost]["step"] == found["whole"]["step"] == 20 and found[lost]["bits"] == found["whole"]["bits"], found
