"""The split baseline over gloo, replaying a table of layers: a peer that `paceline bench schedules` measures beside.

As FSDP2 that keeps its values after the forward pass, and Megatron's distributed optimizer, do on GPUs: a layer's gradient is
reduce-scattered when backward has finished it, each host updates its part, and the values are all-gathered in the forward pass's order,
whose layers each wait for their own. Whole layers, in order. Computing is slept (replayed.py).

The reduce-scatter is an all-to-all whose addends each host sums: gloo's own is an allreduce in PyTorch, which sends twice the bytes.
"""

import time

import replayed

arguments = replayed.parsed(__doc__.splitlines()[0])

import torch  # noqa: E402  (the environment must be set before)
import torch.distributed as dist  # noqa: E402


waits = []


def waited():
    """Since it was last asked."""
    seconds = sum(waits)
    waits.clear()
    return seconds


class Shared:
    """A layer of which each host updates one part; its parameters are padded, so that all parts are equal."""

    def __init__(self, layer):
        count = layer.weight.numel()
        part = -(-count // arguments.hosts)
        self.values, self.gradient, self.addends = (torch.zeros(part * arguments.hosts) for _ in range(3))
        layer.weight.data, layer.weight.grad = self.values[:count], self.gradient[:count]
        self.own = self.values[part * arguments.rank : part * (arguments.rank + 1)]
        self.mean = torch.zeros(part)
        self.under_way = None
        layer.weight.register_post_accumulate_grad_hook(lambda _: self.scatter())
        layer.register_forward_pre_hook(lambda *_: self.wait())

    def wait(self):
        if self.under_way is not None:
            begin = time.monotonic()
            self.under_way.wait()
            self.under_way = None
            waits.append(time.monotonic() - begin)

    def scatter(self):
        self.under_way = dist.all_to_all_single(self.addends, self.gradient, async_op=True)

    def reduce(self):
        self.wait()
        torch.sum(self.addends.view(arguments.hosts, -1), 0, out=self.mean)
        self.mean.div_(arguments.hosts)

    def gather(self):
        self.own.sub_(self.mean)
        self.under_way = dist.all_gather_into_tensor(self.values, self.own, async_op=True)


def clip(layers, largest):
    square = torch.stack([layer.mean.square().sum() for layer in layers]).sum()
    dist.all_reduce(square)
    factor = torch.clamp(largest / (square.sqrt() + 1e-6), max=1.0)
    for layer in layers:
        layer.mean.mul_(factor)


def main():
    replayed.join_over_gloo(arguments)
    replay = replayed.Replay(arguments, waited)
    model = torch.nn.Sequential(*replay.layers)
    shared = [Shared(layer) for layer in replay.layers]

    def step():
        for layer in reversed(shared):
            layer.reduce()
        if arguments.clip:
            clip(shared, 1e30)
        for layer in shared:
            layer.gather()

    dist.barrier()
    replay.train(model, model, step)
    for layer in shared:
        layer.wait()
    dist.barrier()
    replay.report()
    dist.destroy_process_group()


main()
