"""Small models with every way in which modules read parameters, and their data."""

import pathlib
import runpy

import torch
import torch.nn.functional as F
from torch import nn

WORDS = 24


class Everything(nn.Module):
    """Tied weights, attention (reads out_proj past its owner), LSTM (flat weights), batch norm, a class token, branches, a part never used."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, WORDS, bias=False)
        self.embedding = nn.Embedding(WORDS, 8)
        self.embedding.weight = self.head.weight
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.even = nn.Linear(8, 8)
        self.odd = nn.Linear(8, 8)
        self.never = nn.Linear(3, 3)

    def forward(self, words, branch=0):
        x = self.embedding(words)
        x = torch.cat([self.token.expand(len(words), -1, -1), x], 1)
        x, _ = self.attention(x, x, x)
        x, _ = self.lstm(x)
        x = self.norm(x[:, 0])
        x = (self.even, self.odd)[branch](x)
        return F.linear(x, self.head.weight)


def everything():
    torch.manual_seed(5)
    return Everything()


def seeded(make):
    torch.manual_seed(3)
    return make()


def words(iteration, rank, part=0, samples=4):
    generator = torch.Generator().manual_seed(1000 * iteration + 10 * part + rank)
    return torch.randint(0, WORDS, (samples, 5), generator=generator), torch.randint(0, WORDS, (samples,), generator=generator)


def numbers(iteration, rank, shape, classes=3):
    generator = torch.Generator().manual_seed(1000 * iteration + rank)
    return torch.randn(shape, generator=generator), torch.randint(0, classes, (shape[0],), generator=generator)


def backward(model, iteration, rank):
    """One mini-batch of numbers through a model like mlp(), and back."""
    x, y = numbers(iteration, rank, (5, 4))
    F.cross_entropy(model(x), y).backward()


def mlp():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.two = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.one(x)))
        x = x + torch.relu(self.two(x))
        return self.out(x.mean((2, 3)))


class Encoder(nn.Module):
    """A class token, positions, PyTorch's own encoder layer."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 5, 8) * 0.02)
        self.inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), x.view(len(x), 4, 8)], 1) + self.positions
        return self.out(self.inner(x)[:, 0])


class VisionTransformer(nn.Module):
    """Patches, a class token, positions, blocks that attend before they widen."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
            self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x):
            y = self.first(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.inner(self.second(x))

    def __init__(self, width=8):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 5, width) * 0.02)
        self.blocks = nn.Sequential(*[self.Block(width) for _ in range(2)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.out(self.norm(self.blocks(x))[:, 0])


def resnet18(width=4):
    """The example's."""
    example = pathlib.Path(__file__).resolve().parents[3] / "examples" / "torch" / "resnet18.py"
    return runpy.run_path(str(example))["resnet18"](width, classes=3)


class Odd(nn.Module):
    """A parameter without dimensions, an empty one, lists and dictionaries of parameters, a module used twice."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.zeros(0, 3))
        self.rows = nn.ParameterList([torch.randn(4), torch.randn(4)])
        self.named = nn.ParameterDict({"a": torch.randn(4)})
        self.shared = nn.Linear(4, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.tanh(self.shared(torch.tanh(self.shared(x)))) * self.scale
        return self.out(x + self.rows[0] * self.rows[1] + self.named["a"]) + self.empty.sum()


class Held(nn.Module):
    """Uses another module's weight by a reference of its own, within the forward pass."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 3)
        self.kept = [self.second.weight]

    def forward(self, x):
        return F.linear(torch.tanh(self.first(x)), self.kept[0])


class Keeps(nn.Module):
    """Modules that hold flat references to weights of their own, as recurrent ones may."""

    class Part(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.3)
            self.flat = [self.weight]

        def forward(self, x):
            return torch.tanh(F.linear(x, self.flat[0]))

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(self.Part(4, 4), self.Part(4, 4))
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.parts(x))


class Experts(nn.Module):
    """Each sample goes to one of four: some get none."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.experts = nn.ModuleList(nn.Linear(4, 3) for _ in range(4))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        best = weights.argmax(-1)
        y = torch.zeros(len(x), 3)
        for index, expert in enumerate(self.experts):
            mine = best == index
            if mine.any():
                y[mine] = expert(x[mine]) * weights[mine][:, index : index + 1]
        return y


class Checkpointed(nn.Module):
    """Two segments that are computed again in backward."""

    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(4, 6)
        self.segments = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)) for _ in range(2))
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        x = self.first(x)
        for segment in self.segments:
            x = torch.utils.checkpoint.checkpoint(segment, x, use_reentrant=self.reentrant)
        return self.last(x)
