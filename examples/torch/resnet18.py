"""ResNet-18 on CIFAR-10's files: label smoothing, Nesterov momentum, a cosine, batch norms whose statistics are rank 0's.

    torchrun --standalone --nproc-per-node=2 examples/torch/resnet18.py --data DIR     DIR: data_batch_1.bin and so on, test_batch.bin
"""

import argparse
import pathlib

import paceline.torch as pt
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def images(files):
    """Records of one label and 3 x 32 x 32 colours."""
    records = torch.cat([torch.frombuffer(bytearray(file.read_bytes()), dtype=torch.uint8) for file in files]).view(-1, 3073)
    return TensorDataset((records[:, 1:].reshape(-1, 3, 32, 32).float() / 255 - 0.5) / 0.25, records[:, 0].long())


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.short(x))


def resnet18(width, classes=10):
    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for stage in range(4):
        for block in range(2):
            layers.append(Block(inputs, width << stage, 2 if stage and not block else 1))
            inputs = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    options = parser.parse_args()

    torch.manual_seed(1)
    train, test = images(sorted(options.data.glob("data_batch_*.bin"))), images([options.data / "test_batch.bin"])
    model = resnet18(options.width).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    job = pt.attach(model, optimizer, buffers="broadcast")
    sampler = job.sampler(train, seed=1)
    batches = DataLoader(train, options.batch, sampler=sampler, drop_last=True)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for x, y in batches:
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, 500))
    if job.rank == 0:
        print(f"{job.workers} ranks, {options.epochs} epochs, last loss {loss.item():.3f}, {100 * right / len(test):.1f} % of {len(test)} images right")
    job.close()


if __name__ == "__main__":
    main()
