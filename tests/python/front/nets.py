"""Small models with every way in which modules read parameters, and their data."""

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


def words(iteration, rank, part=0, samples=4):
    generator = torch.Generator().manual_seed(1000 * iteration + 10 * part + rank)
    return torch.randint(0, WORDS, (samples, 5), generator=generator), torch.randint(0, WORDS, (samples,), generator=generator)


def numbers(iteration, rank, shape, classes=3):
    generator = torch.Generator().manual_seed(1000 * iteration + rank)
    return torch.randn(shape, generator=generator), torch.randint(0, classes, (shape[0],), generator=generator)


def mlp():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
