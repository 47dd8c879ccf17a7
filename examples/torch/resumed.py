"""A script that goes on where it was: for launchers that restart it (sbatch --requeue, torchrun --max-restarts). It saves every few steps, and when
it is told to end (SIGUSR1, SIGTERM), which all ranks hear of in the same step.

    torchrun --standalone --nproc-per-node=2 --max-restarts=3 examples/torch/resumed.py FOLDER
"""

import argparse
import os
import pathlib
import signal
import sys
import time

import paceline.torch as pt
import torch
import torch.nn.functional as F
from torch import nn

AGAIN = 75  # the code with which it ends to be started again


def save(path, model, optimizer, step):
    """Whole or not at all, whenever this is killed."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{path}.new")
    os.replace(f"{path}.new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.0, help="that a step takes longer, to try this out")
    options = parser.parse_args()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first, path = 0, options.folder / "checkpoint.pt"
    if path.exists():
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    done = first
    job = pt.attach(model, optimizer)
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda *_: job.stop())
    for step in range(first, options.steps):
        draw = torch.Generator().manual_seed(1000 * step + job.rank)  # the step and the rank say which data
        x = torch.randn(32, 16, generator=draw)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        loss.backward()
        time.sleep(options.seconds)
        optimizer.step()
        optimizer.zero_grad()
        done = step + 1
        if job.rank == 0 and (done % 20 == 0 or job.stopping):
            save(path, model, optimizer, done)
        if job.stopping:
            break
    job.close()
    if job.rank == 0 and done > first:
        print(f"{job.workers} ranks, steps {first + 1} to {done}, loss {loss.item():.6f}", flush=True)
    sys.exit(AGAIN if done < options.steps else 0)


if __name__ == "__main__":
    main()
