"""What every peer is told, and a table of layers as a PyTorch model, replayed: what those that train with PyTorch share.

Each layer is a module with its parameters in one tensor; its forward and backward passes sleep as long as the table says.

One process per host. Standard output: a line {"progress": {"rank", "iteration", "seconds"}} per iteration and, on rank 0, a
{"report": {...}} at the end.
"""

import argparse
import ctypes
import datetime
import json
import os
import time


def parser_of(description):
    """Of a program that replays a table."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--table", required=True)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--master", required=True, help="address of rank 0")
    parser.add_argument("--interface", default="eth0")
    return parser


def parsed(description):
    """Of one that trains with PyTorch; before torch is imported, which reads the environment."""
    parser = parser_of(description)
    parser.add_argument("--clip", action="store_true", help="clip by a norm that is never reached")
    os.environ["OMP_NUM_THREADS"] = "1"
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: sleeps are exact to some microseconds
    return parser.parse_args()


def join_over_gloo(arguments):
    """All hosts, as the process group that torch.distributed's operations run in."""
    import torch.distributed as dist

    os.environ["GLOO_SOCKET_IFNAME"] = arguments.interface
    where = f"tcp://{arguments.master}:4171"
    dist.init_process_group("gloo", init_method=where, rank=arguments.rank, world_size=arguments.hosts, timeout=datetime.timedelta(seconds=120))


class Replay:
    """Computing that takes as long as the table says, and whether the values are right that each forward pass reads.

    What Python itself needs between two layers, and how late a sleep ends, counts as part of the computing. `beside`: the seconds that
    were none of it since it was last asked, where a layer of the forward pass may wait for its parameters, or step, before it computes.
    """

    def __init__(self, arguments, beside=None):
        self.arguments, self.beside = arguments, beside
        self.until = 0.0  # when the computing so far is over
        self.done = 0  # iterations
        self.layers = layers_of(self)

    def mean(self):
        """Of the gradients, by which each iteration moves every parameter."""
        return (self.arguments.hosts + 1) / 2

    def begin(self):
        self.until = time.monotonic()
        if self.beside:
            self.beside()

    def take(self, seconds):
        self.until += seconds
        left = self.until - time.monotonic()
        if left > 0:
            time.sleep(left)

    def check(self, value):
        if abs(value + self.done * self.mean()) > 1e-3 * self.done:
            raise SystemExit(f"a parameter is {value} after {self.done} iterations, not {-self.done * self.mean()}")

    def train(self, model, optimizer, step):
        """All iterations; `step` follows each backward pass."""
        import torch

        arguments = self.arguments
        for iteration in range(1, arguments.iterations + 1):
            start = time.monotonic()
            self.begin()
            model(torch.ones(1, requires_grad=True)).sum().backward()
            step()
            optimizer.zero_grad()
            self.done = iteration
            seconds = time.monotonic() - start
            print(json.dumps({"progress": {"rank": arguments.rank, "iteration": iteration, "seconds": seconds}}), flush=True)

    def report(self, **more):
        """At the end, when nothing is due any more."""
        import torch

        for layer in self.layers:
            self.check(layer.weight.min().item())
            self.check(layer.weight.max().item())
        if self.arguments.rank == 0:
            print(json.dumps({"report": {"iterations": self.done, "torch": torch.__version__, **more}}), flush=True)


def layers_of(replay):
    """A module for each row of the table."""
    import torch

    class Slept(torch.autograd.Function):
        @staticmethod
        def forward(context, x, weight, layer):
            if replay.beside:
                replay.until += replay.beside()
            replay.check(weight[-1].item())
            replay.take(layer.forward_s)
            context.layer = layer
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            layer = context.layer
            replay.take(layer.backward_s)
            return gradient, layer.gradient, None

    class Layer(torch.nn.Module):
        def __init__(self, row):
            super().__init__()
            count = max(1, round(row["parameters"] / replay.arguments.scale))
            self.weight = torch.nn.Parameter(torch.zeros(count))
            self.gradient = torch.full((count,), float(replay.arguments.rank + 1))
            self.forward_s, self.backward_s = row["forward_s"], row["backward_s"]

        def forward(self, x):
            return Slept.apply(x, self.weight, self)

    with open(replay.arguments.table, encoding="utf-8") as file:
        rows = json.load(file)["layers"]
    torch.set_num_threads(1)
    return [Layer(row) for row in rows]
