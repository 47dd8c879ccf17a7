"""Reductions of torch.distributed, by their names, and those of elements that the library does not add up."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import ReduceOp

from paceline._errors import PacelineError

Op = Any  # a ReduceOp, or one of its names: torch compares them


def name_of(op: Op) -> str:
    return next((name.lower() for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR") if op == getattr(ReduceOp, name)), str(op))


COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": torch.add, "avg": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum,
    "band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor,
}  # fmt: skip
LOGICAL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"sum": torch.logical_or, "max": torch.logical_or, "bor": torch.logical_or, "bxor": torch.logical_xor}


def check(call: str, op: Op, tensor: Tensor) -> None:
    """Raises before anything is sent, where there is no such reduction of such elements."""
    name = name_of(op)
    if name not in COMBINED:
        raise PacelineError(f"{op} is no reduction of the backend \"paceline\"; legal: {', '.join(COMBINED)}", subject="op")
    if tensor.layout is torch.sparse_coo and name != "sum":
        raise PacelineError(f"{call} ({name}): unsupported reduction operation; a tensor is sparse_coo, and of sparse ones there is the sum only", subject="op")
    if (why := refusal(name, tensor.dtype)) != "":
        raise PacelineError(f"{call}: {name} of {str(tensor.dtype).removeprefix('torch.')}: {why}", subject="op")


@functools.cache
def refusal(name: str, kind: torch.dtype) -> str:
    """Why not. PyTorch lacks some arithmetic of some types, which one element shows as well as many."""
    if name in ("band", "bor", "bxor") and (kind.is_floating_point or kind.is_complex):
        return "bits are of whole numbers and bool"
    if name == "avg" and kind is torch.bool:
        return "there is no mean of truth values; give numbers"
    try:
        reduced([torch.zeros(1, dtype=kind, device="cpu")] * 2, getattr(ReduceOp, name.upper()))
    except RuntimeError as error:
        return f"PyTorch has no such arithmetic ({str(error).splitlines()[0]}); give another type, as int64 or float32"
    return ""


def combined(parts: Sequence[Tensor], op: Op) -> Tensor:
    """In the order of the ranks. A mean is a sum so far."""
    name = name_of(op)
    combine = LOGICAL.get(name, torch.logical_and) if parts[0].dtype is torch.bool else COMBINED[name]
    total = parts[0].clone()
    for part in parts[1:]:
        total = combine(total, part)
    return total


def reduced(parts: Sequence[Tensor], op: Op) -> Tensor:
    total = combined(parts, op)
    if name_of(op) == "avg":
        total = torch.div(total, len(parts), rounding_mode=None if total.is_floating_point() or total.is_complex() else "trunc").to(total.dtype)
    return total
