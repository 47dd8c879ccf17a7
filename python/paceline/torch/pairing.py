"""What frameworks attach in the place of DistributedDataParallel: which part of a model which optimizers train, and with which choices."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from paceline._errors import PacelineError
from paceline.torch.attached.attach import attach


def parts(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[tuple[nn.Module, list[Optimizer]]]:
    """One optimizer: the whole model. Several, as of GANs: to each those children of the model whose parameters no other has. Several that step parameters
    of one child, as Muon and AdamW do, have a part together. The first of a part, with most numbers, is the one to attach; others find means in `.grad`.
    What nobody steps, frozen or of buffers alone, goes with the first part, so that all ranks have rank 0's."""
    owner = {parameter: number for number, optimizer in enumerate(optimizers) for group in optimizer.param_groups for parameter in group["params"]}
    children = [(child, {owner[parameter] for parameter in child.parameters() if parameter in owner}) for child in model.children()]
    own = {owner[parameter] for parameter in model._parameters.values() if parameter in owner}
    together = [{number} for number in range(len(optimizers))]
    for owners in [*(owners for _, owners in children), set(range(len(optimizers))) if own else set()]:  # the model itself is in no child's part
        joined = set().union(*(part for part in together if part & owners))
        together = [*(part for part in together if not part & owners), *([joined] if joined else [])]
    found = []
    for part in sorted(together, key=min):
        members = sorted((optimizers[number] for number in sorted(part)), key=numbers_of, reverse=True)
        mine = [child for child, owners in children if owners & part or not owners and 0 in part]
        found.append((model if len(together) == 1 else mine[0] if len(mine) == 1 else nn.ModuleList(mine), members))
    return found


def numbers_of(optimizer: Optimizer) -> int:
    return sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])


def choices(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of attach(): buffers are rank 0's, as with DistributedDataParallel, where nothing speaks against it."""
    unknown = sorted(given.keys() - inspect.signature(attach).parameters.keys())
    if unknown:
        raise PacelineError(f"{unknown[0]} is no argument of paceline.torch.attach, which takes the place of DistributedDataParallel; leave it out", subject=unknown[0])
    narrow = given.get("settings", {}).get("wire", "float32") != "float32"
    return dict(given) if narrow or given.get("update") == "server" else {"buffers": "broadcast", **given}
