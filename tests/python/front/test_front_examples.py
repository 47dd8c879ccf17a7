"""The examples run as they stand, and learn; the member that they join as is the stand-in."""

import gzip
import pathlib
import re
import runpy
import struct

import pytest
import standin
import torch
from paceline import _joining

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "torch"


@pytest.fixture
def alone(monkeypatch):
    def join(*arguments):
        return standin.World(1).join_as(0)(*arguments)

    monkeypatch.setattr(_joining, "join", join)

    def run(name, *options):
        monkeypatch.setattr("sys.argv", [name, *map(str, options)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return run


def test_mnist_cnn(alone, tmp_path, capsys):
    """Ten patterns with noise stand for digits."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(1024) % 10
    patterns = torch.rand(10, 784, generator=generator)
    images = (patterns[labels] * 200 + torch.rand(1024, 784, generator=generator) * 55).to(torch.uint8)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4i", 2051, 1024, 28, 28) + images.numpy().tobytes())
    with gzip.open(tmp_path / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">2i", 2049, 1024) + labels.to(torch.uint8).numpy().tobytes())
    alone("mnist_cnn.py", "--data", tmp_path, "--steps", 20)
    right = re.search(r"1 ranks, 20 steps, last loss [\d.]+, ([\d.]+) % of 1000 digits right", capsys.readouterr().out)
    assert right and float(right.group(1)) > 90


def test_gpt(alone, capsys):
    alone("gpt.py", "--steps", 12)
    loss = re.search(r"1 ranks, 12 steps, last loss ([\d.]+)", capsys.readouterr().out)
    assert loss and float(loss.group(1)) < 4.5  # knowing nothing it is 5.5
