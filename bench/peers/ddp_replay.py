"""PyTorch's DistributedDataParallel over gloo, replaying a table of layers: the peer that `paceline bench schedules` measures beside.

Each layer is a module with its parameters in one tensor; its forward and backward passes sleep as long as the table says, everything
else is DDP as it comes: buckets filled in order of the backward pass, each reduced as soon as it is full, under the backward pass.
Bucket sizes are divided by the scale like all other bytes, or else a scaled model would have fewer buckets than the real one.

One process per host. Standard output: a line {"progress": {"rank", "iteration", "seconds"}} per iteration and, on rank 0, a
{"report": {...}} at the end.
"""

import argparse
import ctypes
import datetime
import json
import os
import time


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", required=True)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--master", required=True, help="address of rank 0")
    parser.add_argument("--interface", default="eth0")
    return parser.parse_args()


arguments = parsed()
os.environ["GLOO_SOCKET_IFNAME"] = arguments.interface
os.environ["OMP_NUM_THREADS"] = "1"
ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: sleeps are exact to some microseconds

import torch  # noqa: E402  (the environment must be set before)
import torch.distributed as dist  # noqa: E402
import torch.nn.parallel.distributed as ddp  # noqa: E402


class Compute:
    """Computing that takes as long as the table says: what Python itself needs between two layers counts as part of it."""

    def __init__(self):
        self.until = 0.0

    def begin(self):
        self.until = time.monotonic()

    def take(self, seconds):
        self.until += seconds
        left = self.until - time.monotonic()
        if left > 0:
            time.sleep(left)


compute = Compute()


class Slept(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, layer):
        compute.take(layer.forward_s)
        context.layer = layer
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        layer = context.layer
        compute.take(layer.backward_s)
        return gradient, layer.gradient, None


class Layer(torch.nn.Module):
    def __init__(self, row, rank):
        super().__init__()
        count = max(1, round(row["parameters"] / arguments.scale))
        self.weight = torch.nn.Parameter(torch.zeros(count))
        self.gradient = torch.full((count,), float(rank + 1))
        self.forward_s, self.backward_s = row["forward_s"], row["backward_s"]

    def forward(self, x):
        return Slept.apply(x, self.weight, self)


def main():
    with open(arguments.table, encoding="utf-8") as file:
        rows = json.load(file)["layers"]
    torch.set_num_threads(1)
    ddp._DEFAULT_BUCKET_CAP_MB = ddp._DEFAULT_BUCKET_CAP_MB / arguments.scale
    dist._DEFAULT_FIRST_BUCKET_BYTES = int(dist._DEFAULT_FIRST_BUCKET_BYTES / arguments.scale)
    dist.init_process_group("gloo", init_method=f"tcp://{arguments.master}:4171", rank=arguments.rank, world_size=arguments.hosts, timeout=datetime.timedelta(seconds=120))
    layers = [Layer(row, arguments.rank) for row in rows]
    model = ddp.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    mean = (arguments.hosts + 1) / 2
    seconds = []
    dist.barrier()
    for iteration in range(1, arguments.iterations + 1):
        start = time.monotonic()
        compute.begin()
        loss = model(torch.ones(1, requires_grad=True)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        seconds.append(time.monotonic() - start)
        for layer in layers:  # every layer has moved by the mean of the gradients
            if abs(layer.weight[-1].item() + iteration * mean) > 1e-3 * iteration:
                raise SystemExit(f"DDP gave {layer.weight[-1].item()} after {iteration} iterations, not {-iteration * mean}")
        print(json.dumps({"progress": {"rank": arguments.rank, "iteration": iteration, "seconds": seconds[-1]}}), flush=True)
    for layer in layers:
        if not torch.allclose(layer.weight, torch.tensor(-arguments.iterations * mean)):
            raise SystemExit("DDP gave wrong values")
    dist.barrier()
    if arguments.rank == 0:
        report = {"iterations": arguments.iterations, "torch": torch.__version__, "bucket_bytes": int(ddp._DEFAULT_BUCKET_CAP_MB * 2**20)}
        print(json.dumps({"report": report}), flush=True)
    dist.destroy_process_group()


main()
