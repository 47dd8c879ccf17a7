"""Accelerate's loop, with accumulation and clipping; one line differs (marked +).

    torchrun --standalone --nproc-per-node=2 examples/torch/accelerate_loop.py
"""

import argparse

import torch
import torch.nn.functional as F
from paceline.torch.accelerate import Accelerator  # +  instead of: from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(samples=2000):
    """Points on two spirals, which no line parts."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(samples) % 2
    radius = torch.rand(samples, generator=generator) * 0.9 + 0.1
    angle = 5 * radius + torch.pi * labels
    return TensorDataset(torch.stack((radius * angle.cos(), radius * angle.sin()), 1) * 3, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    data = spirals()
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = DataLoader(data, batch_size=20, shuffle=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(batches) // 2)
    model, optimizer, batches, schedule = accelerator.prepare(model, optimizer, batches, schedule)
    for _ in range(options.epochs):
        for points, labels in batches:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(points), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    with torch.no_grad():
        right = (model(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean()
    accelerator.print(f"{accelerator.num_processes} ranks, {options.epochs} epochs, last loss {loss.item():.3f}, {100 * right:.1f} % right")
    accelerator.end_training()


if __name__ == "__main__":
    main()
