"""The examples run as they stand, two processes started by torchrun, and learn."""

import gzip
import json
import re
import struct

import pytest
import torch
from processes import ROOT, torchrun

EXAMPLES = ROOT / "examples" / "torch"


def ran(name, *options, module="", **variables):
    result = torchrun(EXAMPLES / name, *options, module=module, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


def patterns(samples, numbers):
    """Ten patterns with noise stand for pictures: (labels, bytes)."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(samples) % 10
    pictures = torch.rand(10, numbers, generator=generator)[labels] * 200 + torch.rand(samples, numbers, generator=generator) * 55
    return labels.to(torch.uint8), pictures.to(torch.uint8)


@pytest.fixture
def digits(tmp_path):
    labels, images = patterns(1024, 784)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4i", 2051, 1024, 28, 28) + images.numpy().tobytes())
    with gzip.open(tmp_path / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">2i", 2049, 1024) + labels.numpy().tobytes())
    return tmp_path


@pytest.fixture
def colours(tmp_path):
    for name, samples in (("data_batch_1.bin", 160), ("data_batch_2.bin", 160), ("test_batch.bin", 100)):
        labels, images = patterns(samples, 3 * 32 * 32)
        (tmp_path / name).write_bytes(torch.cat([labels[:, None], images], 1).numpy().tobytes())
    return tmp_path


def test_mnist_cnn(digits):
    out = ran("mnist_cnn.py", "--data", digits, "--steps", 16)
    right = re.search(r"2 ranks, 16 steps, last loss [\d.]+, ([\d.]+) % of 1000 digits right", out)
    assert right and float(right.group(1)) > 90, out


def test_gpt():
    out = ran("gpt.py", "--steps", 12)
    loss = re.search(r"2 ranks, 12 steps, last loss ([\d.]+)", out)
    assert loss and float(loss.group(1)) < 4.5, out  # knowing nothing it is 5.5


def test_resnet18(colours):
    out = ran("resnet18.py", "--data", colours, "--epochs", 4, "--batch", 16, "--width", 8)
    right = re.search(r"2 ranks, 4 epochs, last loss [\d.]+, ([\d.]+) % of 100 images right", out)
    assert right and float(right.group(1)) > 50, out


def test_gan():
    out = ran("gan.py", "--steps", 300)
    near = re.search(r"2 ranks, 300 steps, (\d+) % of 1000 points", out)
    assert near and int(near.group(1)) > 10, out  # untrained: 0


def test_notebook(digits):
    out = ran("mnist.ipynb", module="IPython", MNIST=str(digits))
    right = re.search(r"2 ranks, last loss [\d.]+, ([\d.]+) % of 1000 digits right", out)
    assert right and float(right.group(1)) > 90, out


def test_examples_are_short():
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text().splitlines()) <= 80, file
    cells = json.loads((EXAMPLES / "mnist.ipynb").read_text())["cells"]
    assert sum(len(cell["source"]) for cell in cells) <= 80
