"""A small GPT that learns to spell this file, or the text you give it: AdamW with two groups, warm-up, accumulation, clipping by norm.

    torchrun --standalone --nproc-per-node=2 examples/torch/gpt.py [--text FILE]
"""

import argparse
import contextlib
import pathlib

import paceline.torch as pt
import torch
import torch.nn.functional as F
from torch import nn

CONTEXT, WIDTH, HEADS, LAYERS = 32, 64, 4, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask):
        y = self.first(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.inner(self.second(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)
        nn.init.normal_(self.words.weight, std=0.1)
        self.head.weight = self.words.weight  # tied
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, text):
        x = self.words(text) + self.places.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--accumulate", type=int, default=2)
    options = parser.parse_args()

    torch.manual_seed(1)
    model = GPT()
    decayed, others = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=options.steps + 1)
    job = pt.attach(model, optimizer, clip_norm=1.0)
    text = torch.frombuffer(bytearray(options.text.read_bytes()), dtype=torch.uint8).long()
    mine = torch.Generator().manual_seed(job.rank)  # each rank reads other places
    for step in range(options.steps):
        for part in range(options.accumulate):
            begin = torch.randint(0, len(text) - CONTEXT - 1, (8,), generator=mine)
            window = torch.stack([text[b : b + CONTEXT + 1] for b in begin])
            with job.no_sync() if part < options.accumulate - 1 else contextlib.nullcontext():
                loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten()) / options.accumulate
                loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        job.loss(loss.item() * options.accumulate)
    if job.rank == 0:
        print(f"{job.workers} ranks, {options.steps} steps, last loss {loss.item() * options.accumulate:.3f}")
    job.close()


if __name__ == "__main__":
    main()
