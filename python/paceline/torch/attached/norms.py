"""The norm of an iteration's means: from the verdict, or from the numbers where the script has had its hands on them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paceline.torch.attached.exchange import Exchange
from paceline.torch.attached.table import Table
from paceline.torch.attached.waiting import WaitingGrad

Grad = Tensor | None


def is_looked_at(grad: Grad, index: int, idle: set[int]) -> bool:
    """Whether a gradient may differ from the mean that the core knows. `idle`: has none at this rank."""
    if grad is None:
        return index not in idle
    return not isinstance(grad, WaitingGrad) or grad.arrived is not None


def norm_of(table: Table, exchange: Exchange, iteration: int, grads: list[Grad], idle: set[int]) -> float:
    """`grads`: of each parameter, as the script left them."""
    # The verdict counts all that was exchanged.
    if exchange.only_gradients and not any(is_looked_at(grad, index, idle) for index, grad in enumerate(grads)):
        return math.sqrt(exchange.verdict(iteration).square_sum)
    exchange.wait_all(iteration)
    total = 0.0
    with torch.inference_mode(False), torch.no_grad():
        for entry, grad in zip(table.entries, grads):
            if isinstance(grad, WaitingGrad):
                if grad.arrived is None and entry.index in idle and exchange.nobody_used(entry.index, iteration):
                    continue
                grad = grad.arrived if grad.arrived is not None else exchange.mean(entry, iteration, own=True)  # unclipped, so nobody else's
            if grad is not None:
                total += float(grad.double().square().sum())
    return math.sqrt(total)
