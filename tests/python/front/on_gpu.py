"""attach() with parameters on a GPU: `PYTHONPATH=python .venv/bin/python tests/python/front/on_gpu.py`. Exits with 3 where there is none, as device_check does.

Ranks are threads over the stand-in of the core, as in the tests; the bits are those of a plain loop on the same GPU. Then the time
of a step.
"""

import sys
import time

import nets
import torch
from loops import attached, compare
from torch import nn, optim


def over(shape, steps=4, clip=None, kind=torch.float32):
    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            x, y = nets.numbers(iteration, rank, shape)
            nn.functional.cross_entropy(model(x.cuda().to(kind)).float(), y.cuda()).backward()
            yield
            if clip:
                log.append(float(nn.utils.clip_grad_norm_(model.parameters(), clip)))
            optimizer.step()
            optimizer.zero_grad()

    return script


def wide():
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 3)).cuda()


def times(steps=20):
    """Seconds of a step of one rank."""
    began = []

    def script(model, optimizer, rank, job, log):
        for iteration in range(steps):
            if iteration == 2:
                job.synchronize()
                torch.cuda.synchronize()
                began.append(time.perf_counter())
            x, y = nets.numbers(iteration, rank, (256, 1024))
            nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            yield
            optimizer.step()
            optimizer.zero_grad()
        job.synchronize()
        torch.cuda.synchronize()
        began.append(time.perf_counter())

    attached(1, wide(), lambda model: optim.SGD(model.parameters(), lr=0.01), script)
    return (began[1] - began[0]) / (steps - 2)


def main():
    if not torch.cuda.is_available():
        print("there is no GPU here, or this PyTorch is built for processors only")
        return 3
    adam = lambda model: optim.Adam(model.parameters(), lr=0.01)  # noqa: E731
    cases = {
        "float32": lambda: compare(nets.mlp().cuda(), adam, over((5, 4))),
        "clipped by the script": lambda: compare(nets.mlp().cuda(), adam, over((5, 4), clip=0.05)),
        "bfloat16": lambda: compare(nets.mlp().cuda().bfloat16(), adam, over((5, 4), kind=torch.bfloat16)),
        "one layer of 64 MB": lambda: compare(nn.Sequential(nn.Linear(4, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 3)).cuda(), adam, over((5, 4), steps=3)),
    }
    print(torch.cuda.get_device_name())
    for name, case in cases.items():
        case()
        print(f"{name}: the bits of a plain loop")
    print(f"a step of 84 MB of parameters, one rank, the stand-in of the core included: {times() * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
