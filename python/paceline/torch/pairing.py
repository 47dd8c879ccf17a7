"""What frameworks attach in the place of DistributedDataParallel: which part of a model each optimizer trains, and with which choices."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from paceline._errors import PacelineError
from paceline.torch.attach import attach


def pairs(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[tuple[nn.Module, Optimizer]]:
    """One optimizer: the whole model. Several, as of GANs: to each those children of the model whose parameters no other has. What nobody steps,
    frozen or of buffers alone, goes with the first, so that all ranks have rank 0's."""
    if len(optimizers) == 1:
        return [(model, optimizers[0])]
    owner = {parameter: number for number, optimizer in enumerate(optimizers) for group in optimizer.param_groups for parameter in group["params"]}
    children: list[list[nn.Module]] = [[] for _ in optimizers]
    for name, child in model.named_children():
        owners = {owner[parameter] for parameter in child.parameters() if parameter in owner}
        if len(owners) > 1:
            raise PacelineError(f"the parameters of {name} belong to {len(owners)} optimizers; several optimizers need each a child of the model to itself", subject=name)
        children[owners.pop() if owners else 0].append(child)
    return [(part[0] if len(part) == 1 else nn.ModuleList(part), optimizer) for part, optimizer in zip(children, optimizers, strict=True)]


def choices(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of attach(): buffers are rank 0's, as with DistributedDataParallel, where nothing speaks against it."""
    unknown = sorted(given.keys() - inspect.signature(attach).parameters.keys())
    if unknown:
        raise PacelineError(f"{unknown[0]} is no argument of paceline.torch.attach, which takes the place of DistributedDataParallel; leave it out", subject=unknown[0])
    narrow = given.get("settings", {}).get("wire", "float32") != "float32"
    return dict(given) if narrow or given.get("update") == "server" else {"buffers": "broadcast", **given}
