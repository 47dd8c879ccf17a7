"""The first network everybody trains: a small CNN on MNIST's digits. Three lines differ from a script for one process (marked +).

    torchrun --standalone --nproc-per-node=2 examples/torch/mnist_cnn.py --data DIR     DIR: MNIST's files, train-images-idx3-ubyte.gz and so on
"""

import argparse
import gzip
import pathlib

import paceline.torch as pt  # +
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read(path, header, shape):
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:].view(shape)


def digits(folder, part):
    images = read(folder / f"{part}-images-idx3-ubyte.gz", 16, (-1, 1, 28, 28)).float() / 255
    return TensorDataset(images, read(folder / f"{part}-labels-idx1-ubyte.gz", 8, (-1,)).long())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--part", default="train", help="train or t10k")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    torch.manual_seed(1)
    data = digits(options.data, options.part)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 5 * 5, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    job = pt.attach(model, optimizer, buffers="broadcast")  # +
    batches = DataLoader(data, 32, sampler=job.sampler(data, seed=1))  # +
    for _, (images, labels) in zip(range(options.steps), batches):
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        right = (model(data.tensors[0][:1000]).argmax(1) == data.tensors[1][:1000]).float().mean()
    if job.rank == 0:
        print(f"{job.workers} ranks, {options.steps} steps, last loss {loss.item():.3f}, {100 * right:.1f} % of 1000 digits right")
    job.close()


if __name__ == "__main__":
    main()
