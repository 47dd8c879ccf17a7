"""A GAN that learns eight points on a circle: two models, two optimizers, so two jobs.

    torchrun --standalone --nproc-per-node=2 examples/torch/gan.py
"""

import argparse
import math

import paceline.torch as pt
import torch
import torch.nn.functional as F
from torch import nn

NOISE, WIDTH = 8, 64


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, outputs))


def circle(count, generator):
    angles = torch.randint(0, 8, (count,), generator=generator) * (math.tau / 8)
    return torch.stack([angles.cos(), angles.sin()], 1) + 0.02 * torch.randn(count, 2, generator=generator)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(1)
    generator, judge = network(NOISE, 2), network(2, 1)
    makes = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.99))
    job, judge_job = pt.attach(generator, makes), pt.attach(judge, judges)  # in the same order on every rank

    mine = torch.Generator().manual_seed(job.rank)
    for step in range(options.steps):
        real, fake = circle(options.batch, mine), generator(torch.randn(options.batch, NOISE, generator=mine))

        loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        loss.backward()
        judge.requires_grad_(False)  # below it only passes gradients on: its own would be exchanged in vain
        judges.step()
        judges.zero_grad()

        F.softplus(-judge(fake)).mean().backward()
        makes.step()
        makes.zero_grad()
        judge.requires_grad_(True)

    with torch.no_grad():
        made = generator(torch.randn(1000, NOISE, generator=torch.Generator().manual_seed(0)))
    points = circle(1000, torch.Generator().manual_seed(0))
    near = torch.cdist(made, points).min(1).values < 0.2
    if job.rank == 0:
        print(f"{job.workers} ranks, {options.steps} steps, {100 * near.float().mean():.0f} % of 1000 points within 0.2 of the circle's eight")
    for one in (job, judge_job):
        one.close()


if __name__ == "__main__":
    main()
