"""What paceline.torch.attach costs the training thread: an iteration of a network of 161 small tensors, attached against plain.

PYTHONPATH=python PACELINE_LIBRARY=build/release/src/library/libpaceline.so.0 python bench/front/own_cost.py

One rank that is worker and server, so nothing is waited for. Processor milliseconds of the thread, medians of 100 iterations, three turns.
"""

import copy
import statistics
import time

import paceline.torch
import torch
from torch import nn

ITERATIONS, TURNS = 100, 3


def milliseconds(model, optimizer, batch):
    taken = []
    for _ in range(ITERATIONS):
        begin = time.thread_time()
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        taken.append(1e3 * (time.thread_time() - begin))
    return statistics.median(taken)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pairs = [module for _ in range(53) for module in (nn.Linear(8, 8, bias=False), nn.LayerNorm(8))]
    template, batch = nn.Sequential(*pairs, nn.Linear(8, 4)), torch.randn(4, 8)
    print(f"{len(list(template.parameters()))} tensors")
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        for _ in range(TURNS):
            model = copy.deepcopy(template)
            plain = milliseconds(model, kind(model.parameters(), lr=0.01), batch)
            model = copy.deepcopy(template)
            optimizer = kind(model.parameters(), lr=0.01)
            with paceline.torch.attach(model, optimizer):
                attached = milliseconds(model, optimizer, batch)
            print(f"{kind.__name__}: plain {plain:.2f} ms, attached {attached:.2f} ms, own {attached - plain:.2f} ms")


if __name__ == "__main__":
    main()
